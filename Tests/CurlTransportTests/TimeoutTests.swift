import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct TimeoutTests {
    @Test(arguments: [MockReply.Point.start, .afterHead, .afterBodyBytes(3)])
    func silentServerCausesIdleTimeout(point: MockReply.Point) async throws {
        let server = try MockServer()
        server.enqueue(.text("hello").stalling(point))
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.idleTimeout = .seconds(2) }
            let error = try await transport.failure(of: request)
            #expect(error.kind == .timeout(.idle))
            #expect(error.response?.status == (point == .start ? nil : 200))
            #expect(error.response?.data == (point == .start ? nil : Data((point == .afterHead ? "" : "hel").utf8)))
        }
        try await server.waitUntilDisconnected()
    }

    @Test(arguments: [MockReply.Point.start, .afterHead, .afterBodyBytes(3)])
    func stalledResponseCausesTotalTimeout(point: MockReply.Point) async throws {
        let server = try MockServer()
        server.enqueue(.text("hello").stalling(point))
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.timeout = .milliseconds(80) }
            let error = try await transport.failure(of: request)
            #expect(error.kind == .timeout(.total))
            #expect(error.curlCode == 28)
        }
    }

    @Test func slowBodyCausesTotalTimeout() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 1 << 20).throttled(bytesPerSecond: 100_000) }
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with {
                $0.idleTimeout = .seconds(2)
                $0.timeout = .milliseconds(2_500)
            }
            #expect(try await transport.failure(of: request).kind == .timeout(.total))
        }
    }

    @Test func slowConnectCausesConnectTimeout() async throws {
        let full = try FullBacklogListener()
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", full.url()).with { $0.connectTimeout = .milliseconds(80) }
            let error = try await transport.failure(of: request)
            #expect(error.kind == .timeout(.connect))
            #expect(error.message.contains("80 ms"))
            let shorter = HTTPRequest("GET", full.url()).with { $0.timeout = .milliseconds(80) }
            #expect(try await transport.failure(of: shorter).kind == .timeout(.total))
        }
    }

    @Test func silentHandshakeAsksWhetherThePortUsesTLS() async throws {
        let plain = try MockServer()
        try await withTransport { transport async throws in
            let url = plain.url().replacing("http:", with: "https:")
            let request = HTTPRequest("GET", url).with { $0.connectTimeout = .milliseconds(300) }
            let error = try await transport.failure(of: request)
            #expect(error.kind == .timeout(.connect))
            #expect(error.message.contains("did not finish the TLS handshake within 300 ms; does this port use TLS?"))
        }
    }

    /// libcurl quickly passes all bytes to the kernel, which keeps sending them for longer than the timeout.
    @Test(arguments: ["data", "file", "multipart data", "multipart path"], [false, true])
    func slowUploadCausesNoIdleTimeout(kind: String, onKeptConnection: Bool) async throws {
        let directory = try TemporaryDirectory()
        let size: Int64 = 3 << 20
        let path = try directory.writePattern(byteCount: size, to: "big.bin")
        let data = MockPattern.bytes(in: 0..<size)
        let body: HTTPBody =
            switch kind {
            case "data": .data(data)
            case "file": .file(path)
            case "multipart data": .multipart([UploadFile(name: "f", fileName: "f", data: data)])
            default: .multipart([UploadFile(name: "f", path: path)])
            }
        let server = try MockServer()
        server.bodyReadRate = 600 << 10
        server.fallback { _ in .text("thanks") }
        try await withTransport { transport async throws in
            if onKeptConnection { _ = try await transport.get(server.url()) }
            let request = HTTPRequest("POST", server.url(), body: body).with { $0.idleTimeout = .seconds(2) }
            let response = try await transport.answer(to: request)
            #expect(response.text == "thanks")
            #expect(response.timings.connectionReused == onKeptConnection)
        }
    }

    @Test func slowUnixSocketUploadCausesNoIdleTimeout() async throws {
        let directory = try TemporaryDirectory()
        let server = try MockServer(unixSocketPath: directory.path(of: "s"))
        server.bodyReadRate = 100 << 10
        server.fallback { _ in .text("thanks") }
        try await withTransport { transport async throws in
            let body = HTTPBody.data(Data(count: 300 << 10))
            let request = HTTPRequest("POST", "http://localhost/", body: body).with {
                $0.unixSocketPath = server.unixSocketPath
                $0.idleTimeout = .seconds(2)
            }
            #expect(try await transport.answer(to: request).text == "thanks")
        }
    }

    /// Only one connection: the second request waits longer than its own timeout before it starts.
    @Test func queueTimeIsNotPartOfTheTimeout() async throws {
        let server = try MockServer()
        let other = try MockServer()
        server.enqueue(.text("never").stalling(.start), .text("quick"))
        other.enqueue(.text("late").delayed(by: .milliseconds(2_200)))
        try await withTransport(testConfiguration { $0.maxConnectionsPerHost = 1 }) { transport async throws in
            let slow = Task { try await transport.get(server.url()) }
            try await server.waitForRequests(1)
            let quick = HTTPRequest("GET", server.url()).with { $0.timeout = .seconds(2) }
            let task = try await transport.submit(quick)
            _ = try await transport.get(other.url())
            slow.cancel()
            let response = try await within { try await task.value }
            #expect(response.text == "quick")
            #expect(response.timings.queue > .seconds(2))
        }
    }
}
