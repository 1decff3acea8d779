import LATNetworking
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct CallHandleTests {
    private func handles(_ manager: CentralRequestManager, _ directory: TemporaryDirectory) -> [any CallHandle] {
        [
            manager.startRequest("GET", "/call", success: { _, _ in }, failure: { _, _ in }),
            manager.upload("/upload", body: .text("text")),
            manager.download("/download", to: directory.path(of: "file")),
        ]
    }

    @Test func handlesOfAllKindsAreControlledAlike() async throws {
        let server = try MockServer()
        server.fallback { _ in MockReply.text("text").stalling(.start) }
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        let directory = try TemporaryDirectory()
        let handles = handles(manager, directory)
        #expect(Set(handles.map(\.key)).count == 3)
        try await server.waitForRequests(3)
        for handle in handles { handle.pause() }
        #expect(handles.allSatisfy { $0.state == .paused && !$0.isFinished })
        for handle in handles { handle.resume() }
        #expect(handles.allSatisfy { $0.state == .running })
        for handle in handles { handle.cancel() }
        for handle in handles {
            let error = await #expect(throws: NetworkError.self) { _ = try await handle.value }
            #expect(error?.kind == .cancelled && handle.isFinished && handle.isCancelled && handle.state == .cancelled)
        }
    }

    @Test func handleAndTaskSayTheSame() async throws {
        let server = try MockServer { _ in MockReply.text("never").stalling(.start) }
        let manager = try CentralRequestManager.make()
        let task = manager.startRequest("GET", server.url("/x"), success: { _, _ in }, failure: { _, _ in })
        let handle: any CallHandle = task
        try await server.waitForRequests(1)
        task.cancel()
        #expect(task.isCancelled && handle.isCancelled)
    }

    @Test func handlesOfAllKindsGiveTheirValue() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("text") }
        let manager = try CentralRequestManager.make { $0.baseURL = server.url() }
        let directory = try TemporaryDirectory()
        for handle in handles(manager, directory) {
            _ = try await handle.value
            #expect(handle.state == .finished)
        }
    }
}
