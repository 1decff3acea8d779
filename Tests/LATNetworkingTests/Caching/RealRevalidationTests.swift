import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization
import TestSupport
import Testing

/// Servers that compress on the fly, each with tags of its own for what it has compressed.
@Suite(.timeLimit(.minutes(1))) struct RealRevalidationTests {
    /// Notes the status of each response that a server has sent.
    private final class Exchanges: Interceptor {
        private let noted = Mutex<[Int]>([])
        var statuses: [Int] { noted.withLock { $0 } }

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            let response = try await next(request)
            noted.withLock { $0.append(response.status) }
            return response
        }
    }

    /// Stores a response, and revalidates it with one request each time, also after a HEAD.
    private func revalidate(_ url: String, _ text: String, isCoded: Bool) async throws {
        let exchanges = Exchanges()
        let manager = try CentralRequestManager.caching(.http) { $0.networkInterceptors = [exchanges] }
        let first = try await manager.startRequest("GET", url)
        let tag = try #require(first.headers["ETag"])
        #expect(first.text == text && (first.headers["Content-Encoding"] == "gzip") == isCoded, "\(first.headers)")
        for _ in 0..<2 {
            let again = try await manager.startRequest("GET", url, headers: ["Cache-Control": "no-cache"])
            #expect(again.text == text && again.source == .revalidated && again.headers[values: "ETag"] == [tag])
        }
        let stream = try await manager.stream("GET", url, headers: ["Cache-Control": "no-cache"])
        #expect(try await stream.body.collect(upTo: 1 << 20) == Data(text.utf8) && stream.source == .revalidated)
        #expect(exchanges.statuses == [200, 304, 304, 304])
        // A HEAD says something else about the length of compressed content, and throws nothing away.
        let head = try await manager.send(HTTPRequest("HEAD", url, headers: ["Cache-Control": "no-cache"]))
        let last = try await manager.startRequest("GET", url, headers: ["Cache-Control": "no-cache"])
        #expect(last.text == text && last.source == .revalidated)
        #expect([200, 304].contains(head.status) && exchanges.statuses.last == 304 && exchanges.statuses.count <= 6)
    }

    @Test(.needs("caddy"), arguments: [true, false]) func caddyFileIsRevalidatedByOneRequest(isCoded: Bool) async throws
    {
        let directory = try TemporaryDirectory()
        let text = isCoded ? String(repeating: "The quick brown fox. ", count: 500) : "short"
        try directory.write(Data(text.utf8), to: "files/a.txt")
        let reserved = try ReservedPort()
        let settings = """
            {
                admin off
                auto_https off
            }
            http://127.0.0.1:\(reserved.port) {
                root * "\(directory.path(of: "files"))"
                header Cache-Control max-age=0
                encode gzip
                file_server
            }

            """
        let path = try directory.write(Data(settings.utf8), to: "Caddyfile")
        let home = ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].map { "\($0)=\(directory.path)" }
        let caddy = try ChildProcess("env", home + ["caddy", "run", "--config", path, "--adapter", "caddyfile"])
        try await caddy.awaitListener(on: reserved.port)
        try await revalidate("http://127.0.0.1:\(reserved.port)/a.txt", text, isCoded: isCoded)
    }

    @Test(.needsPython, arguments: [("fox", true), ("short", false)])
    func djangoTextIsRevalidatedByOneRequest(name: String, isCoded: Bool) async throws {
        let server = try await PythonScript("django_site.py", [])
        let text = isCoded ? String(repeating: "\(name): the quick brown fox. ", count: 50) : name
        try await revalidate("http://127.0.0.1:\(server.port)/\(name)", text, isCoded: isCoded)
        withExtendedLifetime(server) {}
    }
}
