import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// Requests that are part of another call, such as the pieces of an upload.
@Suite(.timeLimit(.minutes(1))) struct PartTests {
    private struct Noting: Interceptor {
        let hasBegun: Event

        func intercept(
            _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
        ) async throws -> HTTPResponse {
            if request.url.hasSuffix("/piece") { hasBegun.happen() }
            return try await next(request)
        }
    }

    /// A pause between two pieces holds for the next one.
    @Test func pieceOfAPausedCallIsNotSent() async throws {
        let server = try MockServer()
        server.fallback { .text($0.path) }
        let hasBegun = Event()
        let manager = try CentralRequestManager.make { $0.networkInterceptors = [Noting(hasBegun: hasBegun)] }
        let whole = manager.makeCall(HTTPRequest("PUT", server.url("/whole")))
        whole.setSuspended(true)
        let piece = Task {
            try await manager.sendPiece(
                HTTPRequest("PATCH", server.url("/piece")), of: whole, body: nil, interim: nil)
        }
        await hasBegun.wait()
        for _ in 0..<10 { _ = try await manager.send(HTTPRequest("GET", server.url("/other"))) }
        #expect(!server.requests.contains { $0.path == "/piece" })
        whole.setSuspended(false)
        #expect(try await piece.value.text == "/piece")
    }
}
