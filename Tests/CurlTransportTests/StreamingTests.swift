import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct StreamingTests {
    private func stream(_ url: String) -> HTTPRequest { HTTPRequest("GET", url).with { $0.streamsBody = true } }

    @Test func responseIsDeliveredBeforeItsBody() async throws {
        let server = try MockServer()
        server.enqueue(.text("hello").stalling(.afterHead))
        try await withTransport { transport async throws in
            let response = try await transport.answer(to: stream(server.url()))
            #expect(response.status == 200)
            #expect(response.body.isStream)
        }
    }

    @Test func releasedResponseClosesTheConnection() async throws {
        let server = try MockServer()
        server.enqueue(.pattern(byteCount: 1 << 30))
        try await withTransport { transport async throws in
            var response: HTTPResponse? = try await transport.answer(to: stream(server.url()))
            #expect(response?.status == 200)
            response = nil
            try await server.waitUntilDisconnected()
        }
    }

    @Test func cancelledReaderClosesTheConnection() async throws {
        let server = try MockServer()
        server.enqueue(.text("hello").stalling(.afterBodyBytes(2)))
        try await withTransport { transport async throws in
            let response = try await transport.answer(to: stream(server.url()))
            let isReading = Event()
            let task = Task {
                for try await _ in response.body { isReading.happen() }
            }
            await isReading.wait()
            task.cancel()
            await #expect(throws: CancellationError.self) { try await within { try await task.value } }
            try await server.waitUntilDisconnected()
        }
    }

    @Test func linesAreReadAcrossChunks() async throws {
        let server = try MockServer()
        let chunks = ["one\ntw", "o\r\n\nthr", "ee"].map { Data($0.utf8) }
        server.enqueue(.chunked(chunks), .chunked([Data(repeating: 0x61, count: 5000), Data("\nx".utf8)]))
        try await withTransport { transport async throws in
            var lines: [String] = []
            for try await line in try await transport.answer(to: stream(server.url())).body.lines { lines.append(line) }
            #expect(lines == ["one", "two", "", "three"])
            let long = try await transport.answer(to: stream(server.url())).body.lines(upTo: 4999)
            let error = await #expect(throws: NetworkError.self) { for try await _ in long {} }
            #expect(error?.kind == .bodyTooLarge)
        }
    }

    @Test func brokenStreamThrowsAfterReceivedBytes() async throws {
        let server = try MockServer()
        server.enqueue(.text("hello").announcingLength(9))
        try await withTransport { transport async throws in
            let response = try await transport.answer(to: stream(server.url()))
            let received = Box(Data())
            let error = await #expect(throws: NetworkError.self) {
                for try await chunk in response.body { received.change { $0.append(chunk) } }
            }
            #expect(error?.kind == .connectionLost)
            #expect(received.value == Data("hello".utf8))
        }
    }

    @Test func slowReaderCausesNoIdleTimeout() async throws {
        let server = try MockServer()
        let other = try MockServer()
        server.enqueue(.pattern(byteCount: 8 << 20))
        other.fallback { _ in .text("x").delayed(by: .milliseconds(2_500)) }
        try await withTransport { transport async throws in
            let request = stream(server.url()).with { $0.idleTimeout = .seconds(2) }
            let response = try await transport.answer(to: request)
            _ = try await transport.get(other.url())
            #expect(try await response.body.collect(upTo: 1 << 30).count == 8 << 20)
        }
    }

    @Test func concurrentReadersFail() async throws {
        let server = try MockServer()
        server.enqueue(.text("hello").stalling(.afterHead))
        try await withTransport { transport async throws in
            let response = try await transport.answer(to: stream(server.url()))
            await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<2 { group.addTask { _ = try await response.body.collect(upTo: 100) } }
                let error = await #expect(throws: NetworkError.self) { try await group.next() }
                #expect(error?.kind == .invalidRequest)
                group.cancelAll()
            }
        }
    }
}
