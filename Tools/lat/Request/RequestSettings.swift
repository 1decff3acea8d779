import LATInspect
import LATNetworking

/// An interceptor that changes each request.
struct RequestChange: Interceptor {
    let change: @Sendable (inout HTTPRequest) -> Void

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        var request = request
        change(&request)
        return try await next(request)
    }
}

/// The settings of a command for its manager and its requests.
enum RequestSettings {
    /// Makes a manager with the command's settings.
    ///
    /// - Parameters:
    ///   - inner: Another interceptor, which runs last.
    ///   - observer: Sees the call.
    /// - Throws: ``NetworkError`` for invalid settings.
    static func manager(
        for command: RequestCommand, _ console: Console, inner: (any Interceptor)? = nil,
        observer: (any RequestAccessory)? = nil
    ) throws -> CentralRequestManager {
        var configuration = configuration(for: command, console)
        let settings = RequestChange { request in
            // A body of any size can be shown as it arrives, and need not be in memory as a whole.
            if command.pages == nil { request.streamsBody = true }
            // A page at another origin gets no credentials.
            if let authentication = command.authentication, !request.context.hasLeftOrigin {
                request.authentication = authentication
            }
            // Over TLS, both sides negotiate the version.
            if command.usesHTTP2, !request.url.lowercased().hasPrefix("https:") {
                request.version = .http2PriorKnowledge
            }
            if let version = command.http3 { request.version = version }
            command.connection.apply(to: &request)
        }
        configuration.interceptors = [settings] + (inner.map { [$0] } ?? [])
        if let observer { configuration.accessories.append(observer) }
        configuration.transport = try Cassette.fromEnvironment(engine: configuration.engine)
        return try CentralRequestManager(configuration: configuration)
    }

    static func configuration(
        for command: RequestCommand, _ console: Console
    ) -> CentralRequestManager.Configuration {
        var configuration = CentralRequestManager.Configuration.inspected
        if command.isVerbose { configuration.accessories.append(SentTrace(console)) }
        configuration.timeout = nil
        if let connectTimeout = command.connectTimeout { configuration.connectTimeout = connectTimeout }
        configuration.setProxy(command.arguments)
        if let cache = command.cache { configuration.cachePolicy = cache }
        configuration.usesDictionaries = command.usesDictionaries
        if let redirects = command.redirects { configuration.redirects = redirects }
        if let idleTimeout = command.idleTimeout { configuration.idleTimeout = idleTimeout }
        if command.retries > 0 {
            configuration.retries = command.retries
        }
        if let cookies = command.cookies {
            configuration.cookies = .file(cookies)
            configuration.keepsSessionCookies = true
        }
        configuration.warningHandler = { console.note("lat: warning: \(SafeText.line($0))") }
        configuration.unixSocketPath = command.unixSocket
        command.connection.apply(to: &configuration)
        return configuration
    }

    /// The default headers.
    static let headers: HTTPHeaders = ["User-Agent": "lat/\(CurlTransport.version)", "Accept": "*/*"]
}

extension CentralRequestManager.Configuration {
    /// The settings of a command whose calls `lat inspect` can show.
    static var inspected: Self {
        var configuration = Self()
        if let inspector = Inspector.requested { configuration.accessories.append(inspector) }
        configuration.cacheObserver = { fault in
            let reason = SafeText.line(ErrorWords().message(of: fault))
            Console.standard.note("lat: warning: \(reason); requests continue without the cache")
        }
        return configuration
    }

    /// Sets the proxy of `--proxy`; an empty one stands for none.
    mutating func setProxy(_ arguments: ParsedArguments) {
        if let text = arguments.value(RequestCommand.proxy) { self.proxy = text.isEmpty ? .direct : .url(text) }
    }
}
