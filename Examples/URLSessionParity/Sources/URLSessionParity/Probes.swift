import Foundation
import FoundationNetworking
import LATNetworking
import LATTesting

/// The probes. Each starts its own servers.
enum Probes {
    static func manager(
        _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        var configuration = CentralRequestManager.Configuration()
        configuration.proxy = ProxyPolicy.direct
        change(&configuration)
        return try CentralRequestManager(configuration: configuration)
    }

    static let all: [Probe] = [
        crossOrigin, replayedBody, relativeLocation, subSecondTimeout, totalTimeout, cookiePath, severalCookies,
        metrics, tlsFaults, proxySetting, digest,
    ]

    /// Runs one side against two servers. The first redirects to the second.
    private static func redirected(
        _ send: @Sendable (String) async throws -> Void
    ) async throws -> String {
        let first = try MockServer()
        let second = try MockServer()
        first.fallback { _ in .redirect(to: second.url("/there")) }
        second.fallback { _ in .text("end") }
        try await send(first.url("/here"))
        let headers = second.requests.first?.headers ?? [:]
        let leaked = ["Authorization", "X-Api-Key"].filter { headers[$0] != nil }
        return leaked.isEmpty ? "neither is sent" : "sent: " + leaked.joined(separator: ", ")
    }

    static let crossOrigin = Probe(row: 1, question: "secrets after a redirect to another origin") {
        try await redirected { url in
            _ = try await manager().startRequest("GET", url, headers: ["Authorization": "Bearer t", "X-Api-Key": "k"])
        }
    } theirs: {
        try await redirected { url in
            _ = try await Theirs.send(
                Theirs.request(url) {
                    $0.setValue("Bearer t", forHTTPHeaderField: "Authorization")
                    $0.setValue("k", forHTTPHeaderField: "X-Api-Key")
                })
        }
    }

    private static func replayed(_ send: @Sendable (String) async throws -> Void) async throws -> String {
        let server = try MockServer()
        server.route("POST", "/a") { _ in .redirect(to: "/b", status: 307) }
        server.route("POST", "/b") { _ in .text("end") }
        try await send(server.url("/a"))
        return "\(server.requests.last?.body.count ?? -1) of 4 bytes"
    }

    static let replayedBody = Probe(row: 2, question: "the body of a POST after 307") {
        try await replayed { _ = try await manager().startRequest("POST", $0, body: .text("body")) }
    } theirs: {
        try await replayed { url in
            _ = try await Theirs.send(
                Theirs.request(url) {
                    $0.httpMethod = "POST"
                    $0.httpBody = Data("body".utf8)
                })
        }
    }

    private static func relative(_ send: @Sendable (String) async throws -> Void) async throws -> String {
        let server = try MockServer()
        server.route("GET", "/a/b/rel") { _ in .redirect(to: "x") }
        server.fallback { _ in .text("end") }
        try await send(server.url("/a/b/rel"))
        return server.requests.last?.path ?? "-"
    }

    static let relativeLocation = Probe(row: 3, question: "`Location: x` from /a/b/rel") {
        try await relative { _ = try await manager().startRequest("GET", $0) }
    } theirs: {
        try await relative { _ = try await Theirs.send(Theirs.request($0)) }
    }

    private static func slow(_ delay: Duration) throws -> MockServer {
        let server = try MockServer()
        server.fallback { _ in .text("late").delayed(by: delay) }
        return server
    }

    static let subSecondTimeout = Probe(row: 4, question: "a timeout of 0.9 s, the response comes after 0.3 s") {
        let server = try slow(.milliseconds(300))
        return await timed(.milliseconds(300)) {
            _ = try await manager().startRequest("GET", server.url(), timeout: .milliseconds(900))
        }
    } theirs: {
        let server = try slow(.milliseconds(300))
        return await timed(.milliseconds(300)) {
            _ = try await Theirs.send(Theirs.request(server.url()) { $0.timeoutInterval = 0.9 })
        }
    }

    private static func dripping() throws -> MockServer {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 60_000).throttled(bytesPerSecond: 10_000) }
        return server
    }

    static let totalTimeout = Probe(row: 5, question: "a total timeout of 1 s, the body takes 6 s") {
        let server = try dripping()
        return await timed(.seconds(1)) {
            _ = try await manager { $0.timeout = .seconds(1) }.startRequest("GET", server.url())
        }
    } theirs: {
        let server = try dripping()
        return await timed(.seconds(1)) {
            let session = Theirs.session { $0.timeoutIntervalForResource = 1 }
            _ = try await Theirs.send(Theirs.request(server.url()), session)
        }
    }

    private static func cookies(_ send: @Sendable (String) async throws -> Void) async throws -> String {
        let server = try MockServer()
        server.route("GET", "/set") { _ in .text("x").header("Set-Cookie", "a=1; Path=/docs") }
        server.fallback { _ in .text("end") }
        for path in ["/set", "/docs/x", "/other"] { try await send(server.url(path)) }
        let sent = server.requests.filter { $0.headers["Cookie"] != nil }.map(\.path)
        return "sent to " + (sent.isEmpty ? "none" : sent.joined(separator: ", "))
    }

    static let cookiePath = Probe(row: 7, question: "a cookie for /docs, asked: /docs/x and /other") {
        let central = try manager { $0.cookies = .memory }
        return try await cookies { _ = try await central.startRequest("GET", $0) }
    } theirs: {
        let session = Theirs.session()
        return try await cookies { _ = try await Theirs.send(Theirs.request($0), session) }
    }

    private static func setter() throws -> MockServer {
        let server = try MockServer()
        server.fallback { _ in
            var reply = MockReply.text("x")
            reply.headers.append("Set-Cookie", "a=1; Expires=Wed, 01 Jan 2098 00:00:00 GMT")
            reply.headers.append("Set-Cookie", "b=2")
            return reply
        }
        return server
    }

    static let severalCookies = Probe(row: 8, question: "two Set-Cookie fields of one response") {
        let server = try setter()
        return "\(try await manager().startRequest("GET", server.url()).headers[values: "Set-Cookie"].count) values"
    } theirs: {
        let server = try setter()
        let value = try await Theirs.send(Theirs.request(server.url())).value(forHTTPHeaderField: "Set-Cookie") ?? ""
        return value.contains("a=1") && value.contains("b=2") ? "1 value, joined by a comma" : "1 value"
    }

    static let metrics = Probe(row: 10, question: "the durations of the stages") {
        let server = try slow(.milliseconds(50))
        let timings = try await manager().startRequest("GET", server.url()).timings
        return timings.connect != nil && timings.firstByte != nil && timings.total != nil ? "reported" : "not reported"
    } theirs: {
        let server = try slow(.milliseconds(50))
        let delegate = MetricsDelegate()
        let session = URLSession(configuration: .ephemeral, delegate: delegate, delegateQueue: nil)
        session.dataTask(with: try Theirs.request(server.url())).resume()
        return await delegate.hasMetrics() ? "reported" : "not reported"
    }

    private static func faults(_ kind: @Sendable (String) async -> String) async throws -> String {
        guard let own = try? await SelfSignedServer() else { return "openssl is not installed" }
        let closed = try ClosedPort()
        let answers = [
            await kind("https://localhost:\(own.port)/"), await kind("https://localhost:\(closed.port)/"),
        ]
        return answers.joined(separator: " / ")
    }

    static let tlsFaults = Probe(row: 11, question: "a self-signed certificate / a closed port") {
        try await faults { url in
            do { _ = try await manager().startRequest("GET", url); return "a response" } catch { return brief(error) }
        }
    } theirs: {
        try await faults { url in
            do { _ = try await Theirs.send(Theirs.request(url)); return "a response" } catch { return brief(error) }
        }
    }

    private static func proxied(_ send: @Sendable (String, MockServer) async throws -> Void) async throws -> String {
        let proxy = try MockServer()
        let origin = try MockServer()
        for server in [proxy, origin] { server.fallback { _ in .text("x") } }
        try await send(origin.url("/x"), proxy)
        return proxy.requestCount > 0 ? "through the proxy" : "past the proxy"
    }

    static let proxySetting = Probe(row: 12, question: "a proxy in the configuration") {
        try await proxied { url, proxy in
            _ = try await manager { $0.proxy = .url(proxy.baseURL) }.startRequest("GET", url)
        }
    } theirs: {
        try await proxied { url, proxy in
            let session = Theirs.session {
                $0.connectionProxyDictionary = [
                    "HTTPEnable": 1, "HTTPProxy": "127.0.0.1", "HTTPPort": proxy.port,
                ]
            }
            _ = try await Theirs.send(Theirs.request(url), session)
        }
    }

    private static func challenger() throws -> MockServer {
        let server = try MockServer()
        server.fallback { request in
            request.headers["Authorization"]?.hasPrefix("Digest") == true
                ? .text("in")
                : .text("who?", status: 401).header("WWW-Authenticate", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\"")
        }
        return server
    }

    static let digest = Probe(row: 24, question: "Digest authentication") {
        let server = try challenger()
        var request = HTTPRequest("GET", server.url())
        request.authentication = .digest(user: "u", password: "p")
        return "status \(try await manager().send(request).status)"
    } theirs: {
        let server = try challenger()
        let session = URLSession(configuration: .ephemeral, delegate: CredentialDelegate(), delegateQueue: nil)
        return "status \(try await Theirs.send(Theirs.request(server.url()), session).statusCode)"
    }
}
