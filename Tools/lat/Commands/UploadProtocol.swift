import LATNetworking

/// How `lat upload --resumable` finds out the protocol that a server speaks.
enum UploadProtocol {
    /// The protocol of an upload.
    struct Choice {
        var settings: ResumableUpload
        /// What came of `OPTIONS`, if that named no protocol; `nil` if it was named, there, by a journal or on the command line.
        var silence: String?

        /// What a person should know before the first byte.
        func note(on url: String) -> String? {
            silence.map {
                "the server names no protocol for uploads that go on (OPTIONS: \($0)), so it gets an ordinary upload unless it "
                    + "turns out to speak the IETF draft; --resumable tus, standard or s3 names the protocol"
            }
        }

        /// The error with the next step when the address may be that of no upload.
        func explain(_ error: NetworkError, at url: String) -> NetworkError {
            guard silence != nil, let status = error.response?.status, [404, 405].contains(status) else { return error }
            let path = URLParts(url)
            let slash =
                path.path.hasSuffix("/") || path.query != nil ? "" : ", or \(URLParts.redacted(url))/ as the address"
            return error.adding("if the server speaks tus, write --resumable tus\(slash)")
        }
    }

    /// The settings of the upload, with the protocol that was named or else the one that the server speaks; `nil` without
    /// `--resumable`.
    ///
    /// - Throws: ``NetworkError`` if the server cannot be asked.
    static func choose(
        _ command: UploadCommand, _ configuration: CentralRequestManager.Configuration
    ) async throws -> Choice? {
        guard let resumable = command.resumable else { return nil }
        guard command.arguments.value(UploadCommand.resumableOption) == "" else {
            return Choice(settings: completed(resumable, command))
        }
        let manager = try CentralRequestManager(configuration: configuration)
        // Another protocol than that of the earlier run would begin another upload.
        for style in ResumableUpload.Style.allCases {
            let settings = completed(try UploadCommand.settings(command.arguments, style), command)
            if hasEarlierRun(command, settings, manager) { return Choice(settings: settings) }
        }
        let (style, silence) = try await style(command, manager)
        let settings = completed(try UploadCommand.settings(command.arguments, style), command)
        return Choice(settings: settings, silence: silence)
    }

    /// The fields beside the file that go into the query. Those beside a file of tus are its metadata.
    static func parameters(_ command: UploadCommand, _ settings: ResumableUpload?) -> Parameters? {
        command.parameters.isEmpty || settings?.style == .tus ? nil : command.parameters
    }

    private static func completed(_ settings: ResumableUpload, _ command: UploadCommand) -> ResumableUpload {
        var settings = settings
        if settings.style == .tus {
            settings.metadata = command.parameters.mapValues { $0.string ?? "\($0)" }
        }
        if let user = command.user {
            let parameters = command.parameters.map { "\($0.key)=\($0.value)" }.sorted().joined(separator: "&")
            settings.identity = "\(command.method) \(command.url) \(user.name) \(parameters)"
        }
        return settings
    }

    private static func hasEarlierRun(
        _ command: UploadCommand, _ settings: ResumableUpload, _ manager: CentralRequestManager
    ) -> Bool {
        guard case .whole(let path) = command.content else { return false }
        let request = HTTPRequest(command.method, command.url, headers: command.headers, body: .file(path))
        return manager.hasEarlierRun(of: request, parameters: parameters(command, settings), by: settings)
    }

    private static func style(
        _ command: UploadCommand, _ manager: CentralRequestManager
    ) async throws -> (ResumableUpload.Style, silence: String?) {
        if ResumableUpload.isAmazon(command.url) { return (.s3, nil) }
        let request = HTTPRequest("OPTIONS", command.url, headers: command.headers)
        let response: HTTPResponse
        do {
            response = try await manager.send(request)
        } catch let error as NetworkError where error.mayHaveArrived {
            // Some servers end the connection after a method that they do not know.
            return (.standard, "no answer")
        }
        // A server that is busy does not say what it speaks, and another protocol would begin another upload.
        guard ![408, 429].contains(response.status), response.status < 500 || response.status == 501 else {
            throw NetworkError(
                .httpStatus,
                message:
                    "the server answered OPTIONS with \(response.status), so what it speaks is unknown; try again, or write "
                    + "--resumable tus, standard or s3", request: request, response: response)
        }
        guard let style = style(of: response.headers) else { return (.standard, "\(response.status)") }
        return (style, nil)
    }

    /// The protocol by the fields of the response to `OPTIONS`; `nil` if it names none. Uploads by the IETF draft are ordinary
    /// uploads for a server that does not know it.
    static func style(of headers: HTTPHeaders) -> ResumableUpload.Style? {
        let names = headers.fields.map { $0.name.lowercased() }
        if names.contains("tus-resumable") || names.contains("tus-version") { return .tus }
        if names.contains("upload-draft-interop-version") || names.contains("upload-limit") { return .standard }
        return names.contains { $0.hasPrefix("x-amz") } ? .s3 : nil
    }
}
