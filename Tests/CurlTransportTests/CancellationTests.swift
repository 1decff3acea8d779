import CurlTransport
import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@Suite struct CancellationTests {
    @Test func alreadyCancelledTaskThrows() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let url = server.url()
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await transport.send(HTTPRequest("GET", url))
            }
            await #expect(throws: CancellationError.self) { try await within { try await task.value } }
        }
    }

    /// The cancel command may reach the engine before the start command.
    @Test func everyCancelledRequestEnds() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let url = server.url()
            for _ in 0..<30 {
                try await within(.seconds(20), "an answer to every request") {
                    await withTaskGroup(of: Void.self) { group in
                        for index in 0..<200 {
                            group.addTask {
                                let task = Task {
                                    if index % 2 == 0 { withUnsafeCurrentTask { $0?.cancel() } }
                                    return try await transport.send(HTTPRequest("GET", url))
                                }
                                task.cancel()
                                _ = await task.result
                            }
                        }
                    }
                }
            }
        }
    }

    @Test(arguments: ["queued", "connecting", "before the head", "in the head", "in the body", "in the upload"])
    func requestCanBeCancelledInEveryPhase(place: String) async throws {
        let server = try MockServer()
        let full = try FullBacklogListener()
        let isInBody = Event()
        var request = HTTPRequest("GET", server.url())
        let owner = TestOwner { _ in isInBody.happen() }
        switch place {
        case "queued": server.enqueue(.text("first").stalling(.start))
        case "connecting": request.url = full.url()
        case "before the head": server.enqueue(.text("x").stalling(.start))
        case "in the head":
            server.enqueue(
                MockReply.text("x").withInterim(103, headers: ["Link": "</a>"]).stalling(.beforeHead))
        case "in the body":
            server.enqueue(.pattern(byteCount: 1 << 30).stalling(.afterBodyBytes(1 << 20)))
        default:
            server.bodyReadRate = 0
            request = HTTPRequest("PUT", server.url(), body: .data(Data(count: 32 << 20)))
        }
        let one = testConfiguration {
            $0.maxConnectionsPerHost = 1
            $0.connectTimeout = .seconds(60)
        }
        try await withTransport(one) { [request] transport async throws in
            let first = place == "queued" ? Task { try await transport.get(server.url("/first")) } : nil
            if first != nil { try await server.waitForRequests(1) }
            let task =
                place == "queued" || place == "connecting"
                ? try await transport.submit(request) : Task { try await transport.send(request, for: owner) }
            switch place {
            case "queued", "connecting": break
            case "in the body", "in the upload": await isInBody.wait()
            default: try await server.waitForRequests(1)
            }
            _ = await transport.gauges
            task.cancel()
            await #expect(throws: CancellationError.self) { try await within { try await task.value } }
            if let first {
                #expect(server.requests.map(\.path) == ["/first"])
                first.cancel()
            }
            server.bodyReadRate = nil
            if place != "queued" { try await server.waitUntilDisconnected() }
            // The request's place in the connection limit is free again.
            server.fallback { _ in .text("next") }
            #expect(try await transport.get(server.url()).text == "next")
        }
    }

    @Test func cancellingAnEndedRequestChangesNothing() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            for _ in 0..<50 {
                let task = Task { try await transport.send(HTTPRequest("GET", server.url())) }
                let response = try await within { try await task.value }
                task.cancel()
                #expect(response.text == "x")
            }
            #expect(server.acceptedConnections == 1)
        }
    }

    @Test func truncatedStreamFailsWithConnectionLost() async throws {
        let server = try MockServer()
        server.enqueue(.text("hello").announcingLength(9))
        try await withTransport { transport async throws in
            let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = true }
            let body = try await transport.answer(to: request).body
            let error = try await CurlTransportTests.failure { try await body.collect(upTo: 100) }
            #expect(error.kind == .connectionLost)
        }
    }
}
