import LATNetworking

/// How `lat upload --resumable` finds out the protocol that a server speaks.
enum UploadProtocol {
    /// The settings of the upload, with the protocol that was named or else the one that the server speaks; `nil` without
    /// `--resumable`.
    ///
    /// - Throws: ``NetworkError`` if the server cannot be asked.
    static func choose(
        _ command: UploadCommand, _ configuration: CentralRequestManager.Configuration
    ) async throws -> ResumableUpload? {
        guard var resumable = command.resumable else { return nil }
        if command.arguments.value(UploadCommand.resumableOption) == "" {
            resumable = try UploadCommand.settings(command.arguments, try await style(command, configuration))
        }
        // Fields beside a file of tus are its metadata.
        if resumable.style == .tus { resumable.metadata = command.parameters.mapValues { $0.string ?? "\($0)" } }
        if let user = command.user {
            let parameters = command.parameters.map { "\($0.key)=\($0.value)" }.sorted().joined(separator: "&")
            resumable.identity = "\(command.method) \(command.url) \(user.name) \(parameters)"
        }
        return resumable
    }

    private static func style(
        _ command: UploadCommand, _ configuration: CentralRequestManager.Configuration
    ) async throws -> ResumableUpload.Style {
        if ResumableUpload.isAmazon(command.url) { return .s3 }
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
        return style(of: response.headers)
    }

    /// The protocol by the fields of the response to `OPTIONS`. Uploads by the IETF draft are ordinary uploads for a server
    /// that does not know it.
    static func style(of headers: HTTPHeaders) -> ResumableUpload.Style {
        let names = headers.fields.map { $0.name.lowercased() }
        if names.contains("tus-resumable") || names.contains("tus-version") { return .tus }
        return names.contains { $0.hasPrefix("x-amz") } ? .s3 : .standard
    }
}
