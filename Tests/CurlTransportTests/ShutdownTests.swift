import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

@Suite struct ShutdownTests {
    /// Waits for all requests and returns the kinds of their errors; `nil` for a response.
    private func outcomes(_ tasks: [Task<HTTPResponse, any Error>]) async throws -> [NetworkError.Kind?] {
        try await within(.seconds(20), "an answer to every request") {
            var kinds: [NetworkError.Kind?] = []
            for task in tasks {
                switch await task.result {
                case .success: kinds.append(nil)
                case .failure(let error): kinds.append((error as? NetworkError)?.kind)
                }
            }
            return kinds
        }
    }

    @Test func endsRunningAndQueuedRequests() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("never").stalling(.start) }
        try await withTransport { transport async throws in
            let url = server.url()
            let tasks = (0..<100).map { _ in Task { try await transport.send(HTTPRequest("GET", url)) } }
            try await server.waitForRequests(5)
            try await within { await transport.shutdown() }
            #expect(try await outcomes(tasks) == Array(repeating: .shutDown, count: 100))
            #expect(server.requestCount == 5)
        }
    }

    @Test func endsASuspendedRequest() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x") }
        try await withTransport { transport async throws in
            let owner = TestOwner(isSuspended: true)
            let task = Task { try await transport.send(HTTPRequest("GET", server.url()), for: owner) }
            // Commands are processed in order, so the request has been submitted once the gauges are returned.
            _ = await transport.gauges
            try await within { await transport.shutdown() }
            #expect(try await outcomes([task]) == [.shutDown])
        }
    }

    /// As when memory for a handle ran out in the engine's last turn.
    @Test func endsARequestThatCouldNotStart() async throws {
        let configuration = testConfiguration()
        let engine = try Engine(
            configuration, proxies: try ProxySettings(.direct, environment: [:]),
            tls: try TLSMaterial(configuration.tls) { _ in }, addressGuard: nil, cookies: nil)
        let url = "http://a.example/"
        let transfer = Transfer(
            request: HTTPRequest("GET", url), target: try Target(url), plan: TransferPlan(configuration), pipe: nil)
        let error = await #expect(throws: NetworkError.self) {
            await withUnsafeContinuation { (caller: Transfer.Caller) in
                transfer.continuation = caller
                engine.failedStarts.append((transfer, EngineFailure.noResources("handle")))
                engine.isShuttingDown = true
                engine.run()
                transfer.answer(.failure(.invalidRequest("the engine left the caller waiting")))
            }
            _ = try transfer.takeResult()
        }
        #expect(error?.message.contains("handle") == true)
    }

    @Test func laterRequestsFail() async throws {
        try await withTransport { transport async throws in
            await transport.shutdown()
            await transport.shutdown()
            let error = try await transport.failure(of: HTTPRequest("GET", "http://127.0.0.1:1/"))
            #expect(error.kind == .shutDown)
        }
    }
}
