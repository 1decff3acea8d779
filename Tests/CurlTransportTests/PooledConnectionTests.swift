import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import Platform
import TestSupport
import Testing

@Suite struct PooledConnectionTests {
    /// A server that answers once, then reads the next request and closes the connection without a response, as on a
    /// stale connection.
    private func staleServer(_ replies: MockReply...) throws -> MockServer {
        let server = try MockServer()
        server.enqueue([.text("first"), .noReply] + replies)
        return server
    }

    private func one(_ change: (inout EngineConfiguration) -> Void = { _ in }) -> EngineConfiguration {
        testConfiguration {
            $0.maxConnectionsPerHost = 1
            change(&$0)
        }
    }

    @Test func connectionIsReused() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport(one()) { transport async throws in
            #expect(try await transport.get(server.url("/1")).timings.connectionReused == false)
            #expect(try await transport.get(server.url("/2")).timings.connectionReused)
            #expect(server.acceptedConnections == 1)
        }
    }

    @Test(arguments: ["GET", "HEAD", "PUT", "DELETE"])
    func idempotentRequestIsRepeated(method: String) async throws {
        let server = try staleServer(.text("again"))
        try await withTransport(one()) { transport async throws in
            _ = try await transport.get(server.url("/a?1"))
            let response = try await transport.answer(to: HTTPRequest(method, server.url("/b?2")))
            #expect(response.status == 200)
            #expect(server.requests.map(\.target) == ["/a?1", "/b?2", "/b?2"])
            #expect(server.requests.map(\.method) == ["GET", method, method])
            #expect(server.requests.map(\.connection) == [1, 1, 2])
        }
    }

    /// libcurl keeps parts of earlier URLs in a handle that was used for several of them, so a repetition might go to
    /// the wrong URL.
    @Test func repetitionUsesTheRequestsURL() async throws {
        let server = try MockServer()
        let other = try MockServer()
        server.fallback { _ in .text("x") }
        other.fallback { _ in .text("other") }
        try await withTransport(one()) { transport async throws in
            for round in 0..<3 {
                for path in ["/a", "/b", "/c"] { _ = try await transport.get(server.url("\(path)/\(round)")) }
                _ = try await transport.get(other.url("/other/\(round)"))
                _ = try await transport.get(server.url("/again/\(round)"))
                server.enqueue(.noReply)
                _ = try await transport.get(server.url("/stale/\(round)?q=\(round)"))
                // The handle's next request uses its own URL, not that of the repetition.
                _ = try await transport.get(server.url("/stale/\(round)?q=\(round)"))
                _ = try await transport.get(server.url("/after/\(round)"))
                _ = try await transport.get(other.url("/other/after/\(round)"))
            }
            let expected = (0..<3).flatMap { round in
                ["/a", "/b", "/c", "/again"].map { "\($0)/\(round)" }
                    + Array(repeating: "/stale/\(round)?q=\(round)", count: 3) + ["/after/\(round)"]
            }
            #expect(server.requests.map(\.target) == expected)
            #expect(other.requests.map(\.target) == (0..<3).flatMap { ["/other/\($0)", "/other/after/\($0)"] })
        }
    }

    /// libcurl counts repetitions per handle, and handles live long.
    @Test func repetitionsOfAHandleDoNotAddUp() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport(one()) { transport async throws in
            for round in 0..<12 {
                _ = try await transport.get(server.url("/a/\(round)"))
                server.enqueue(.noReply)
                #expect(try await transport.get(server.url("/b/\(round)")).text == "x")
            }
            #expect(server.requestCount == 36)
        }
    }

    @Test func requestIsRepeatedOnlyOnce() async throws {
        let server = try MockServer()
        server.enqueue(.text("first"), .noReply, .noReply, .text("never"))
        try await withTransport(one()) { transport async throws in
            _ = try await transport.get(server.url("/a"))
            let error = try await transport.failure(of: HTTPRequest("GET", server.url("/b")))
            #expect(error.kind == .connectionLost)
            #expect(error.attempts == 2)
            #expect(server.requestCount == 3)
        }
    }

    @Test(arguments: ["POST", "PATCH"])
    func sentPostIsNotRepeated(method: String) async throws {
        let server = try staleServer(.text("never"))
        try await withTransport(one()) { transport async throws in
            _ = try await transport.get(server.url("/a"))
            let request = HTTPRequest(method, server.url("/b"), body: .text("pay"))
            let error = try await transport.failure(of: request)
            #expect(error.kind == .connectionLost)
            #expect(error.attempts == 1)
            #expect(server.requests.map(\.target) == ["/a", "/b"])
        }
    }

    @Test func closedConnectionIsReplacedForPost() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport(one()) { transport async throws in
            for index in 1...3 {
                _ = try await transport.get(server.url("/a"))
                server.closeIdleConnections()
                try await server.waitUntilClosed(index * 2 - 1)
                let request = HTTPRequest("POST", server.url("/b"), body: .text("pay"))
                #expect(try await transport.answer(to: request).status == 200)
                server.closeIdleConnections()
                try await server.waitUntilClosed(index * 2)
            }
            #expect(server.requestCount == 6)
        }
    }

    /// A restarting server closes all connections at once.
    @Test(arguments: ["GET", "POST"]) func manyClosedConnectionsFailNoRequest(method: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 12 }) { transport async throws in
            for _ in 0..<12 { server.enqueue(.text("x").delayed(by: .milliseconds(300))) }
            let url = server.url("/a")
            let first = (0..<12).map { _ in Task { try await transport.get(url) } }
            for task in first { _ = try await task.value }
            server.closeIdleConnections()
            try await server.waitUntilClosed(server.acceptedConnections)
            for _ in 0..<3 {
                let request = HTTPRequest(method, server.url("/b"), body: method == "POST" ? .text("pay") : nil)
                #expect(try await transport.answer(to: request).status == 200)
            }
            #expect(server.requestCount == 15)
        }
    }

    @Test func repeatedBodyStartsAtItsFirstByte() async throws {
        let data = MockPattern.bytes(in: 0..<300_000)
        let server = try staleServer(.text("again"))
        try await withTransport(one()) { transport async throws in
            _ = try await transport.get(server.url("/a"))
            let request = HTTPRequest("PUT", server.url("/b"), body: .data(data))
            #expect(try await transport.answer(to: request).text == "again")
            #expect(server.requests.last?.body == data)
        }
    }

    @Test func onlyReplayableStreamIsRepeated() async throws {
        let chunks = (0..<5).map { MockPattern.bytes(in: Int64($0) * 1000..<Int64($0 + 1) * 1000) }
        @Sendable func stream() -> AsyncStream<Data> {
            AsyncStream { continuation in
                for chunk in chunks { continuation.yield(chunk) }
                continuation.finish()
            }
        }
        let server = try staleServer(.text("again"))
        try await withTransport(one()) { transport async throws in
            _ = try await transport.get(server.url("/a"))
            let request = HTTPRequest("PUT", server.url("/b"), body: .stream { stream() })
            #expect(try await transport.answer(to: request).text == "again")
            #expect(server.requests.last?.body == MockPattern.bytes(in: 0..<5000))
        }
        let other = try staleServer(.text("never"))
        try await withTransport(one()) { transport async throws in
            _ = try await transport.get(other.url("/a"))
            let error = try await transport.failure(of: HTTPRequest("PUT", other.url("/b"), body: .stream(stream())))
            #expect(error.kind == .requestBody)
        }
    }
}

extension MockServer {
    /// Waits until this many connections are closed, for their clients too. On a busy machine the system may
    /// tell the client later than `close` returns; a POST sent in between is lost, and is not repeated.
    fileprivate func waitUntilClosed(_ count: Int) async throws {
        try await waitForClosedConnections(count)
        let remotePort = String(port, radix: 16, uppercase: true)
        try await eventually("the clients of port \(port) know that it closed") {
            // Foundation would read only the first page of this file.
            let table = try #require(SystemFiles(root: "").text("proc/self/net/tcp"))
            return table.split(separator: "\n").allSatisfy { line in
                // The columns are number, own address, remote address and state; 01 is an established connection.
                let columns = line.split(separator: " ")
                return !columns[2].hasSuffix(":\(remotePort)") || columns[3] != "01"
            }
        }
    }
}
