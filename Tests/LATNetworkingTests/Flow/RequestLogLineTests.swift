import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// The lines of `RequestLog(.json)`.
@Suite(.timeLimit(.minutes(1))) struct RequestLogLineTests {
    /// The lines of some calls, each checked to be one line of JSON.
    private func lines(
        _ server: MockServer, _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in },
        _ calls: (CentralRequestManager) async throws -> Void
    ) async throws -> [JSONValue] {
        let entries = Log<String>()
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.accessories = [RequestLog(.json) { entries.append($0) }]
            change(&$0)
        }
        try? await calls(manager)
        return try entries.elements.map { entry in
            let isOneLine = !entry.contains(where: \.isNewline)
            #expect(isOneLine)
            return try JSONValue(parsing: entry)
        }
    }

    @Test func successHasFactsSizesAndTimes() async throws {
        let server = try MockServer { _ in .text("answer").header("X-Request-ID", "r-1") }
        let parent = TraceParent()
        let line =
            try await lines(server) { manager in
                var request = HTTPRequest("POST", "/x?q=a&token=SECRET", body: .text("12345"))
                (request.tag, request.traceParent) = ("feed", parent)
                _ = try await manager.startRequest(request)
            }.first ?? .null
        #expect(line["method"].string == "POST" && line["status"].int == 200 && line["source"].string == "network")
        #expect(line["url"].string == server.url("/x?q=a&token=***") && line["tag"].string == "feed")
        #expect(line["sentBytes"].int == 5 && line["receivedBytes"].int == 6 && line["attempts"].int == 1)
        #expect(line["requestID"].string == "r-1" && line["trace"].string == parent.traceID)
        #expect(line["call"].string?.hasPrefix("request-") == true && line["version"].string == "HTTP/1.1")
        #expect(line["milliseconds"].double ?? -1 > 0 && line["timings"]["total"].double ?? -1 > 0)
        #expect(line["time"].string.flatMap { try? Date($0, strategy: .iso8601.year().month().day()) } != nil)
        #expect(line["error"].isNull == false && line["error"].string == nil && line["redirects"].int == nil)
    }

    @Test func failureHasItsCause() async throws {
        struct Broken: Error {}
        let closed = try ClosedPort()
        let server = try MockServer { _ in .status(404) }
        let all = try await lines(server) { manager in
            _ = try? await manager.startRequest("GET", "/x")
            _ = try? await manager.startRequest("GET", closed.url("/y"))
        }
        #expect(all[0]["error"].string == "httpStatus" && all[0]["status"].int == 404)
        #expect(all[0]["message"].string?.hasPrefix("the server answered 404") == true)
        #expect(all[1]["error"].string == "connect" && all[1]["status"].int == nil && all[1]["curlCode"].int == 7)
        let provider = try await lines(server, { $0.headerProvider = { _ in throw Broken() } }) { manager in
            _ = try await manager.startRequest("GET", "/x")
        }
        #expect(provider[0]["error"].string == "provider" && provider[0]["cause"].string == "Broken")
        #expect(provider[0]["attempts"].int == 0)
    }

    @Test func retriesAndRedirectsAreCounted() async throws {
        let server = try MockServer()
        server.enqueue(.status(503), .redirect(to: "/b"), .text("x"))
        let line =
            try await lines(server, { $0.retryPolicy = RetryPolicy(retries: 1, firstWait: .milliseconds(1)) }) {
                _ = try await $0.startRequest("GET", "/a")
            }.first ?? .null
        #expect(line["attempts"].int == 2 && line["redirects"].int == 1 && line["url"].string == server.url("/b"))
    }

    @Test func rowsAreNamed() async throws {
        let server = try MockServer { _ in .json("{}") }
        let line =
            try await lines(
                server,
                {
                    $0.domains = try? DomainTable.make(
                        server.url(), servers: #"s: { domain: "d", path: "users/{id}", method: "GET" }"#)
                }
            ) { _ = try await $0.startRequest(server: "s", parameters: ["id": 7]) }.first ?? .null
        #expect(line["domain"].string == "d" && line["row"].string == "s" && line["path"].string == "users/{id}")
    }

    @Test func bytesOfAStreamAreCounted() async throws {
        let server = try MockServer { _ in .text(String(repeating: "x", count: 100_000)) }
        let entries = try await lines(server) { manager in
            for try await _ in try await manager.stream("GET", "/x").body {}
        }
        #expect(entries.first?["receivedBytes"].int == 100_000)
    }

    @Test func secretsWithSignsOfJSONAreHidden() async throws {
        let secret = #"a"b\c{"x":1}"#
        let server = try MockServer { request in .text("no \(request.headers["X-Api-Key"] ?? "")", status: 400) }
        let entries = try await lines(server) { manager in
            _ = try await manager.startRequest("GET", "/x", headers: ["X-Api-Key": secret])
        }
        #expect(entries[0]["message"].string?.contains(secret) == false, "\(entries[0])")
    }
}
