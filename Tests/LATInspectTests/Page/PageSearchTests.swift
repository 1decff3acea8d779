import Dispatch
import FoundationEssentials
import LATInspect
import LATNetworking
import LATTesting
import Platform
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct PageSearchTests {
    /// A search may take long. Tasks of the program go on meanwhile.
    @Test func searchLeavesTheThreadsOfTasksFree() async throws {
        let (searching, gate) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let count = ProcessInfo.processInfo.activeProcessorCount
        let isFree = Atomic(false)
        let server = try MockServer()
        var bodies = BodyCapture()
        bodies.keeps = { _ in
            searching.signal()
            // A limit, so that a failure is no hang.
            _ = gate.wait(timeout: .now() + 20)
            return true
        }
        let inspector = Inspector(bodies: bodies)
        let reader = PageReader(address: try inspector.start())
        let manager = try CentralRequestManager.make { $0.accessories = [inspector] }
        server.fallback { _ in .text("one") }
        _ = try await manager.startRequest("GET", server.url("/"))
        let searches = (0..<count).map { _ in Task { try await reader.ask("GET", "/search?text=one").status } }
        await withCheckedContinuation { continuation in
            _ = BackgroundThread.start("test") {
                for _ in 0..<count { searching.wait() }
                let ran = DispatchSemaphore(value: 0)
                Task { ran.signal() }
                isFree.store(ran.wait(timeout: .now() + 10) == .success, ordering: .relaxed)
                for _ in 0..<(8 * count) { gate.signal() }
                continuation.resume()
            }
        }
        let wasFree = isFree.load(ordering: .relaxed)
        #expect(wasFree)
        for search in searches { #expect(try await search.value == 200) }
    }
}
