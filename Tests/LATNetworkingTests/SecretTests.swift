import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// Plants secrets in every place that takes one, and searches all descriptions and errors for them.
@Suite(.timeLimit(.minutes(1))) struct SecretTests {
    /// The secrets. None occurs in any other text.
    private static let planted = [
        "hunter-authorization", "hunter-key", "hunter-cookie", "hunter-mine", "hunter-query", "hunter-password",
        "hunter-user", "hunter-token", "hunter-body", "hunter-proxy", "hunter-file", "hunter-location", "hunter-answer",
        "hunter-jar",
    ]

    private func check(_ text: String, sourceLocation: SourceLocation = #_sourceLocation) {
        for secret in Self.planted where text.contains(secret) {
            Issue.record("\(secret) is in: \(text)", sourceLocation: sourceLocation)
        }
    }

    private func checkAll(_ value: some Any, sourceLocation: SourceLocation = #_sourceLocation) {
        check("\(value)", sourceLocation: sourceLocation)
        check(String(reflecting: value), sourceLocation: sourceLocation)
        var dumped = ""
        dump(value, to: &dumped)
        check(dumped, sourceLocation: sourceLocation)
    }

    private func request(_ url: String) -> HTTPRequest {
        var request = HTTPRequest("POST", url)
        request.headers = [
            "Authorization": "Bearer hunter-authorization", "x-api-key": "hunter-key", "Cookie": "a=hunter-cookie",
        ]
        request.body = .text("hunter-body")
        request.authentication = .basic(user: "hunter-user", password: "hunter-password")
        request.proxy = .url("http://u:hunter-proxy@127.0.0.1:1")
        return request
    }

    @Test func valuesDoNotShowSecrets() {
        let request = request("http://hunter-user:hunter-password@127.0.0.1:1/p?token=hunter-query#hunter-query")
        checkAll(request)
        #expect("\(request)".contains("Authorization"), "a field name is not secret")
        for authentication in [
            Authentication.basic(user: "hunter-user", password: "hunter-password"),
            .digest(user: "hunter-user", password: "hunter-password"), .bearer(token: "hunter-token"),
            .any(user: "hunter-user", password: "hunter-password"),
        ] { checkAll(authentication) }
        checkAll(ProxyPolicy.url("socks5h://hunter-user:hunter-proxy@h:1"))
        checkAll(ProxyPolicy.url("hunter-user:hunter-proxy@h:1"))
        checkAll(request.headers)
        checkAll(Cookie("a", "hunter-jar", domain: "example.org"))
        checkAll(ClientCertificate.pkcs12(path: "id.p12", password: "hunter-file"))
        let response = HTTPResponse(
            status: 302, headers: ["Set-Cookie": "a=hunter-jar"],
            body: ResponseBody(Data("hunter-answer".utf8)), url: "http://u:hunter-password@h/?t=hunter-query",
            redirects: [.init(url: "http://u:hunter-password@h/?t=hunter-query", status: 302)])
        checkAll(response)
        checkAll(NetworkError(.redirect, message: "m", request: request, response: response))
    }

    @Test func settingsDoNotShowSecrets() {
        var configuration = CentralRequestManager.Configuration()
        configuration.headers = ["Authorization": "hunter-authorization"]
        configuration.proxy = .url("http://u:hunter-proxy@h:1")
        configuration.tls.clientCertificate = .pem(certificate: "c", key: "k", password: "hunter-file")
        checkAll(configuration)
        checkAll(configuration.engine)
    }

    @Test func errorsDoNotShowSecrets() async throws {
        let server = try MockServer()
        let closed = try ClosedPort()
        server.route("*", "/status") { _ in .text("hunter-answer", status: 500).header("Set-Cookie", "a=hunter-jar") }
        server.route("*", "/json") { _ in .text("hunter-answer") }
        server.route("*", "/cut") { _ in .text("hunter-answer hunter-answer").resetting(afterBytes: 10) }
        server.route("*", "/slow") { _ in .text("late").delayed(by: .seconds(30)) }
        server.route("*", "/ftp") { _ in .redirect(to: "ftp://u:hunter-location@h/?hunter-location", status: 307) }
        server.route("*", "/loop") { _ in .redirect(to: "/loop?token=hunter-location", status: 307) }
        server.route("*", "/garbage") { _ in .raw(Array("hunter-answer\r\n\r\n".utf8)) }
        let manager = try CentralRequestManager.make { $0.redirects = .follow(limit: 3) }
        let query = "?token=hunter-query"
        var urls = ["/status", "/json", "/cut", "/slow", "/ftp", "/loop", "/garbage"].map { server.url($0) + query }
        urls += [
            closed.url("/") + query, "ftp://u:hunter-password@h/" + query, "http://u:hunter-password@h:99999/" + query,
        ]
        urls += ["http://u:hunter-password@" + query, "http://[::1/" + query]
        for url in urls {
            var request = request(url)
            request.proxy = ProxyPolicy.direct
            request.timeout = .milliseconds(500)
            let sent = request
            do {
                let response = try await manager.send(sent)
                checkAll(response)
                _ = try response.decode([String: Int].self)
                Issue.record("\(url) succeeded")
            } catch {
                checkAll(error)
            }
        }
        for header in ["a\r\nb", "a\u{0}b"] {
            var request = request(server.url("/json"))
            request.headers["Authorization"] = "hunter-authorization" + header
            let sent = request
            checkAll(try #require(await failure { try await manager.send(sent) }))
        }
        checkAll(try #require(await failure { try await manager.send(self.request(server.url("/json"))) }))
    }

    @Test func declaredSecretHeaderStaysWithItsOrigin() async throws {
        let first = try MockServer()
        let second = try MockServer()
        first.fallback { _ in .redirect(to: second.url("/x")) }
        second.fallback { _ in .text("no", status: 500) }
        let manager = try CentralRequestManager.make { $0.secrets.insert(header: "X-Mine") }
        let error = try #require(
            await failure { try await manager.startRequest("GET", first.url(), headers: ["X-Mine": "hunter-mine"]) })
        checkAll(error.message)
        check("\(error)")
        #expect(second.requests.first?.headers["X-Mine"] == nil)
        #expect(first.requests.first?.headers["X-Mine"] == "hunter-mine")
    }
}
