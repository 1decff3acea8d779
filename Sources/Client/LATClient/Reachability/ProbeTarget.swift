import CurlTransport
import Glibc
import HTTPCore
import Platform
import Synchronization

/// The target of a probe: the addresses of a domain, or one URL.
struct ProbeTarget: Hashable, Sendable {
    /// The URLs in the order in which they are probed. The first reachable one counts.
    var urls: [String]
    var tls = HTTPRequest.TLS()
    var proxy: ProxyPolicy?
    var check: Reachability.Configuration.ResponseCheck?

    /// - Parameter text: The name of a domain, or an absolute URL.
    /// - Throws: ``NetworkError`` for an unusable URL, an unknown name (with the nearest known one), or a password that is
    ///   missing in the environment.
    init(_ text: String, in table: DomainTable?, _ configuration: Reachability.Configuration) throws(NetworkError) {
        if URLParts(text).isAbsolute {
            guard let origin = URLReference.origin(of: text) else {
                throw .invalidRequest(
                    "\"\(URLParts.redacted(URLText.visible(text)))\" cannot be probed: it is not an http or https URL; "
                        + "give one, or the name of a domain")
            }
            check = configuration.check
            // Without a check only the connection is tested, so the path is dropped. A check's path is joined to the
            // whole URL.
            urls = [check == nil ? origin : text]
            return
        }
        guard let table else {
            throw NetworkError(
                .unknownName,
                message: "\"\(URLText.visible(text))\" is not a URL, and the manager has no domain table; give "
                    + "an absolute URL, or set configuration.domains")
        }
        let route = try table.resolve(domain: DomainName(text), path: "")
        urls = route.baseURLs
        tls = try route.settings.tls.request(of: route)
        proxy = route.settings.proxy
        check = configuration.checks[text] ?? configuration.check
    }
}

/// Runs the probes on the manager's engine, or on a separate one if the manager uses the app's own transport.
struct ProbeSource: Sendable {
    let configuration: Reachability.Configuration
    let engines: LazyEngine

    func attempt(_ target: ProbeTarget) async -> Reachability.Report {
        var first: Reachability.Report?
        for url in target.urls {
            let report = await attempt(url, target)
            if report.status.isReachable { return report }
            first = first ?? report
        }
        return first ?? Reachability.Report(target: "")
    }

    private func attempt(_ url: String, _ target: ProbeTarget) async -> Reachability.Report {
        var report = Reachability.Report(target: url)
        report.url = url
        do {
            let engine = try engines.engine()
            var request = HTTPRequest("GET", url)
            request.timeout = configuration.timeout
            request.connectTimeout = configuration.timeout
            request.tls = target.tls
            request.proxy = target.proxy
            let connection = await engine.connect(for: request)
            report.timings = connection.timings
            if let reason = Reachability.UnreachableReason(connection) {
                report.status = .unreachable(reason: reason)
                report.error = Self.error(connection, reason, url)
            } else {
                if let check = target.check { report.error = try await failure(of: check, request, engine) }
                report.status =
                    report.error == nil
                    ? .reachable(latency: connection.latency ?? .zero, address: connection.address ?? "")
                    : .unreachable(reason: .captivePortal)
            }
        } catch let error as NetworkError {
            report.status = .unreachable(reason: Reachability.UnreachableReason(error))
            report.error = error
        } catch {
            report.status = .unreachable(reason: .other)
            report.error = NetworkError(.other, message: "\(error)")
        }
        report.date = .now
        return report
    }

    /// The error of a probe. Its next step depends on whether there is a route.
    private static func error(
        _ connection: ConnectionReport, _ reason: Reachability.UnreachableReason, _ url: String
    ) -> NetworkError? {
        guard reason == .network, let error = connection.error, error.kind == .connect else { return connection.error }
        let place = URLReference.origin(of: url) ?? URLParts.redacted(url)
        return NetworkError(
            .connect,
            message: "there is no route to \(place) (\(SystemError(code: connection.systemError).text)); check "
                + "this machine's network connection and its routes",
            request: error.request, curlCode: error.curlCode, timings: error.timings)
    }

    /// Sends the request of a check. Returns the error for another response than the expected one.
    private func failure(
        of check: Reachability.Configuration.ResponseCheck, _ probe: HTTPRequest, _ engine: CurlTransport
    ) async throws -> NetworkError? {
        var request = probe
        request.url = URLParts(check.path).isAbsolute ? check.path : URLParts.join(probe.url, check.path)
        // A pooled connection may be older than the portal.
        request.context.opensConnection = true
        request.headers = ["Connection": "close", "Cache-Control": "no-cache"]
        request.version = .http1
        request.redirects = .none
        request.maxBodySize = 1 << 20
        let response = try await engine.send(request)
        var differences: [String] = []
        if response.status != check.status {
            differences.append("status \(response.status) instead of \(check.status)")
        }
        if let text = check.contains, response.text?.contains(text) != true {
            differences.append("a body without \"\(URLText.visible(text))\"")
        }
        guard !differences.isEmpty else { return nil }
        return NetworkError(
            .other,
            message: "\(URLParts.redacted(request.url)) responded with \(differences.joined(separator: " and ")): "
                + "most likely a captive portal or a proxy responds instead of the server; open it in a browser",
            request: request, response: response)
    }
}

/// An engine that is made on first use, unless one is given.
final class LazyEngine: Sendable {
    private struct State {
        var engine: CurlTransport?
        var isOver = false
    }

    private let make: @Sendable () throws -> CurlTransport
    private let isGiven: Bool
    private let state: Mutex<State>

    init(_ engine: CurlTransport?, _ make: @escaping @Sendable () throws -> CurlTransport) {
        self.make = make
        isGiven = engine != nil
        state = Mutex(State(engine: engine))
    }

    /// - Throws: ``NetworkError/Kind/shutDown`` if it was not made before ``shutdown()``.
    func engine() throws -> CurlTransport {
        try state.withLock { state in
            if let engine = state.engine { return engine }
            guard !state.isOver else { throw EngineFailure.shutDown }
            let new = try make()
            state.engine = new
            return new
        }
    }

    /// Shuts the engine down if it was made here. Afterwards none is made.
    func shutdown() async {
        guard !isGiven else { return }
        let engine = state.withLock { state in
            state.isOver = true
            return state.engine
        }
        await engine?.shutdown()
    }
}
