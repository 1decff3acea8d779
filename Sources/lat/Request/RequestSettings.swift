import LATNetworking

/// Sets on each request what a call has no argument for, and shows it when asked to.
struct RequestSettings: Interceptor {
    let command: RequestCommand
    /// Called with the request as it goes down the corridor.
    let willSend: @Sendable (HTTPRequest) -> Void

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        var request = request
        // A body of any size is shown as it comes and never held whole.
        request.streamsBody = true
        if let user = command.user { request.authentication = .basic(user: user.name, password: user.password) }
        // Over TLS the two sides agree on it by themselves.
        if command.usesHTTP2, !request.url.lowercased().hasPrefix("https:") { request.version = .http2PriorKnowledge }
        if let version = command.http3 { request.version = version }
        command.connection.apply(to: &request)
        willSend(request)
        return try await next(request)
    }

    /// A manager that carries the command's settings.
    ///
    /// - Throws: ``NetworkError`` for settings that cannot work.
    static func manager(
        for command: RequestCommand, willSend: @escaping @Sendable (HTTPRequest) -> Void
    ) throws -> CentralRequestManager {
        var configuration = CentralRequestManager.Configuration()
        configuration.timeout = nil
        if let connectTimeout = command.connectTimeout { configuration.connectTimeout = connectTimeout }
        if let proxy = command.proxy { configuration.proxy = proxy.isEmpty ? .none : .url(proxy) }
        if let cache = command.cache { configuration.cachePolicy = cache }
        if !command.followsRedirects { configuration.redirects = .none }
        configuration.unixSocketPath = command.unixSocket
        command.connection.apply(to: &configuration)
        configuration.interceptors = [RequestSettings(command: command, willSend: willSend)]
        return try CentralRequestManager(configuration: configuration)
    }

    /// What is sent unless the command line says otherwise. Spelled out here, so that ``RequestTrace`` can show it.
    static let headers: HTTPHeaders = ["User-Agent": "lat/\(VersionCommand.version)", "Accept": "*/*"]
}
