import LATNetworking

/// How `lat upload --resumable` finds out the protocol that a server speaks.
enum UploadProtocol {
    /// The protocol of an upload.
    struct Choice {
        var settings: ResumableUpload
        /// The status of the response to `OPTIONS` that named no protocol; `nil` if it was named, there or on the command line.
        var silence: Int?

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
        var choice = Choice(settings: resumable)
        if command.arguments.value(UploadCommand.resumableOption) == "" {
            let (style, silence) = try await style(command, configuration)
            choice = Choice(settings: try UploadCommand.settings(command.arguments, style), silence: silence)
        }
        // Fields beside a file of tus are its metadata.
        if choice.settings.style == .tus {
            choice.settings.metadata = command.parameters.mapValues { $0.string ?? "\($0)" }
        }
        if let user = command.user {
            let parameters = command.parameters.map { "\($0.key)=\($0.value)" }.sorted().joined(separator: "&")
            choice.settings.identity = "\(command.method) \(command.url) \(user.name) \(parameters)"
        }
        return choice
    }

    private static func style(
        _ command: UploadCommand, _ configuration: CentralRequestManager.Configuration
    ) async throws -> (ResumableUpload.Style, silence: Int?) {
        if ResumableUpload.isAmazon(command.url) { return (.s3, nil) }
        let request = HTTPRequest("OPTIONS", command.url, headers: command.headers)
        let response = try await CentralRequestManager(configuration: configuration).send(request)
        // A server that is busy does not say what it speaks, and another protocol would begin another upload.
        guard ![408, 429].contains(response.status), response.status < 500 || response.status == 501 else {
            throw NetworkError(
                .httpStatus,
                message:
                    "the server answered OPTIONS with \(response.status), so what it speaks is unknown; try again, or write "
                    + "--resumable tus, standard or s3", request: request, response: response)
        }
        guard let style = style(of: response.headers) else { return (.standard, response.status) }
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
