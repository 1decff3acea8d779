import Dispatch
import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// The app's progress closures run on the callback executor, never on the engine's thread.
@Suite(.timeLimit(.minutes(1))) struct BlockingProgressTests {
    @Test(arguments: ["GET", "POST"], [false, true])
    func blockedProgressClosureDelaysNoOtherCall(method: String, isAsync: Bool) async throws {
        let server = try MockServer()
        server.fallback { $0.path == "/small" ? .text("x") : .pattern(byteCount: 1 << 20) }
        let manager = try CentralRequestManager.make()
        let blocks = Event()
        let mayTryNext = DispatchSemaphore(value: 0)
        let progress: ProgressHandler = { _ in
            blocks.happen()
            mayTryNext.wait()
            mayTryNext.signal()
        }
        let body = method == "GET" ? nil : HTTPBody.data(Data(count: 1 << 20))
        let response = Task {
            guard !isAsync else {
                return try await manager.startRequest(method, server.url(), body: body, progress: progress)
            }
            return try await withCheckedThrowingContinuation { continuation in
                manager.startRequest(
                    method, server.url(), body: body, progress: progress,
                    success: { _, response in continuation.resume(returning: response) },
                    failure: { _, error in continuation.resume(throwing: error) })
            }
        }
        await blocks.wait()
        for _ in 0..<5 { #expect(try await manager.startRequest("GET", server.url("/small")).text == "x") }
        mayTryNext.signal()
        #expect(try await response.value.data.count == 1 << 20)
        await manager.shutdown()
    }
}
