import Foundation
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// What `RequestTask`, `UploadTask` and `Download` share.
private protocol SharedTask: Sendable {
    associatedtype Value: Sendable
    associatedtype Progress: AsyncSequence<TransferProgress, Never> & Sendable
    var key: String { get }
    var state: RequestTask.State { get }
    var progress: Progress { get }
    var value: Value { get async throws }
    func pause()
    func resume()
    func cancel()
}

extension RequestTask: SharedTask {}
extension UploadTask: SharedTask {}
extension Download: SharedTask {
    fileprivate func cancel() { cancel(keepingProgress: false) }
}

/// The same names and rules for calls, uploads and downloads.
@Suite(.timeLimit(.minutes(2))) struct TaskVocabularyTests {
    enum Kind: String, CaseIterable, Sendable { case call, upload, download }

    private let server: MockServer
    private let directory: TemporaryDirectory
    private static let size = 400_000

    init() throws {
        server = try MockServer()
        directory = try TemporaryDirectory()
    }

    private func start(_ kind: Kind, _ manager: CentralRequestManager) -> any SharedTask {
        switch kind {
        case .call: manager.startRequest("GET", server.url("/x"), success: { _, _ in }, failure: { _, _ in })
        case .upload: manager.upload(server.url("/x"), body: .data(Data(count: Self.size)))
        case .download: manager.download(server.url("/x"), to: directory.path(of: "file"))
        }
    }

    /// A manager whose requests are sent once the signal is raised.
    private func manager(sendsAfter gate: Event) throws -> CentralRequestManager {
        server.fallback { _ in .data(Data(count: Self.size)) }
        return try CentralRequestManager.make {
            $0.headerProvider = { _ in
                await gate.wait()
                return [:]
            }
        }
    }

    @Test(arguments: Kind.allCases)
    func stateFollowsTheCall(_ kind: Kind) async throws {
        let gate = Event()
        let task = start(kind, try manager(sendsAfter: gate))
        #expect(task.state == .running)
        task.pause()
        #expect(task.state == .paused)
        gate.happen()
        task.resume()
        #expect(task.state != .paused)
        _ = try await task.value
        #expect(task.state == .finished)
    }

    @Test(arguments: Kind.allCases)
    func failureAndCancellationAreStates(_ kind: Kind) async throws {
        let manager = try CentralRequestManager.make()
        server.fallback { _ in .text("no", status: 404) }
        let failing = start(kind, manager)
        #expect(await failure { _ = try await failing.value }?.kind == .httpStatus)
        #expect(failing.state == .failed)
        let gate = Event()
        let cancelled = start(kind, try self.manager(sendsAfter: gate))
        cancelled.cancel()
        #expect(await failure { _ = try await cancelled.value }?.kind == .cancelled)
        #expect(cancelled.state == .cancelled)
        gate.happen()
    }

    @Test(arguments: Kind.allCases)
    func cancelledWaiterLeavesTheTaskRunning(_ kind: Kind) async throws {
        let gate = Event()
        let task = start(kind, try manager(sendsAfter: gate))
        let waiter = Task { try await wait(for: task) }
        waiter.cancel()
        await #expect(throws: CancellationError.self) { try await waiter.value }
        #expect(task.state == .running)
        gate.happen()
        _ = try await task.value
        #expect(task.state == .finished)
    }

    @Test(arguments: Kind.allCases)
    func progressEndsWithTheWhole(_ kind: Kind) async throws {
        let gate = Event()
        let task = start(kind, try manager(sendsAfter: gate))
        // Asked for after the start, by two readers.
        async let first = values(of: task)
        async let second = values(of: task)
        gate.happen()
        _ = try await task.value
        for values in await [first, second] {
            let last = try #require(values.last)
            #expect(last.completed == Self.size && last.total == Int64(Self.size) && last.fraction == 1)
            #expect(last.direction == (kind == .upload ? .upload : .download) && last.bytesPerSecond == nil)
            #expect(zip(values, values.dropFirst()).allSatisfy { $0.completed <= $1.completed })
        }
        #expect(await values(of: task).last?.fraction == 1)
    }

    @Test func progressIsASequenceAlsoBesideAClosure() async throws {
        let gate = Event()
        let manager = try manager(sendsAfter: gate)
        let closure = Log<TransferProgress>()
        let task = manager.startRequest(
            "GET", server.url("/x"), progress: { closure.append($0) }, success: { _, _ in }, failure: { _, _ in })
        async let values = values(of: task)
        gate.happen()
        _ = try await task.value
        #expect(await values.last?.fraction == 1)
        try await eventually { closure.elements.last?.fraction == 1 }
    }

    @Test func downloadThatMissesItsDeadlineSaysSo() async throws {
        server.fallback { _ in .text("late").stalling(.start) }
        var request = HTTPRequest("GET", server.url("/x"))
        request.deadline = .milliseconds(100)
        let download = try CentralRequestManager.make().download(request, to: directory.path(of: "late"))
        #expect(await failure { try await download.value }?.kind == .timeout(.deadline))
        #expect(download.state == .failed)
    }

    private func wait(for task: some SharedTask) async throws { _ = try await task.value }

    private func values(of task: some SharedTask) async -> [TransferProgress] {
        await task.progress.reduce(into: []) { $0.append($1) }
    }

    // MARK: What users type

    @Test func tableIsEditedInAThrowingClosure() throws {
        let manager = try CentralRequestManager.make {
            $0.domains = try? DomainTable(json5: #"{ domains: { a: { baseURL: "http://127.0.0.1:1" } } }"#, name: "t")
        }
        try manager.updateDomains { try $0.setBaseURL("http://127.0.0.1:2", forDomain: "a") }
        #expect(throws: NetworkError.self) {
            try manager.updateDomains { try $0.setBaseURL("http://127.0.0.1:2", forDomain: "b") }
        }
        struct Refusal: Error {}
        #expect(throws: Refusal.self) { try manager.updateDomains { _ in throw Refusal() } }
    }

    @Test func limitsUnderWhichNothingStartsAreRefused() throws {
        for change: (inout RequestLimits) -> Void in [
            { $0.rate = RequestLimits.RateLimit(perSecond: 0) },
            { $0.ratePerHost = RequestLimits.RateLimit(perSecond: .infinity) }, { $0.maxConcurrentRequests = 0 },
        ] {
            #expect(throws: NetworkError.self) { try CentralRequestManager.make { change(&$0.limits) } }
            let manager = try CentralRequestManager.make {
                $0.domains = try? DomainTable(
                    json5: #"{ domains: { a: { baseURL: "http://127.0.0.1:1" } } }"#, name: "t")
            }
            var limits = RequestLimits()
            change(&limits)
            var row = DomainTable.DomainRow(baseURL: "http://127.0.0.1:1")
            row.settings.limits = limits
            #expect(throws: NetworkError.self) { try manager.updateDomains { try $0.setDomain("a", row) } }
        }
    }

    @Test func localizedDescriptionIsTheMessage() {
        let error: any Error = NetworkError.invalidRequest("the method is not a token")
        #expect(error.localizedDescription.contains("the method is not a token"))
    }

    private struct Unread: RequestEntity {
        static let route = Route("GET", url: "http://127.0.0.1:1/users/{id}")
        var id = 7
    }

    @Test func pathOfAnEntityThatIsNotEncodableSaysSo() async throws {
        let manager = try CentralRequestManager.make()
        let error = await failure { try await Unread().startRequest(on: manager) }
        #expect(error?.kind == .invalidRequest)
        #expect(
            error?.message.contains("Unread count once it is declared Encodable") == true, "\(error?.message ?? "")")
    }
}
