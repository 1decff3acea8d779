import FoundationEssentials
import Glibc
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATNetworking

private struct FetchItem: RequestEntity, Encodable {
    static let route = Route(server: "item")
    var id: Int
}

private struct SaveItem: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "save")
    var id: Int
}

/// Calls of every form, cancelled in every way, while the table changes.
///
/// Run this under the thread sanitizer, too: `swift test --sanitize=thread --filter StormTests`.
@Suite(.timeLimit(.minutes(5))) struct StormTests {
    private static let callCount = 2_000

    private let server: MockServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try MockServer()
        server.recordsRequests = false
        let count = Atomic(0)
        server.fallback { _ in
            switch count.add(1, ordering: .relaxed).newValue % 16 {
            case 0: .noReply
            case 1: .status(503).header("Retry-After", "0")
            case 2: .status(401)
            case 3: .redirect(to: "/elsewhere")
            case 4: MockReply.json("{}").delayed(by: .milliseconds(5))
            case 5: .json("[" + String(repeating: "1,", count: 30_000) + "1]")
            case 6, 7: MockReply.json("{}").stalling(.start)
            case 8: MockReply.pattern(byteCount: 50_000).stalling(.afterBodyBytes(20_000))
            default: .json("{}")
            }
        }
        directory = try TemporaryDirectory()
    }

    private func text(_ version: Int) -> String {
        DomainTable.text(
            server.url("/\(version)"), domain: #"mirrors: ["\#(server.url("/mirror"))"]"#,
            servers: #"item: { domain: "d", path: "items/{id}", method: "GET", headers: { "X-Row": "\#(version)" } }"#)
    }

    private func replaceFile(_ version: Int) throws {
        let new = try directory.write(Data(text(version).utf8), to: "new.json5")
        #expect(rename(new, directory.path(of: "domains.json5")) == 0)
    }

    /// Counts how often each call ended.
    private final class Ends: Sendable {
        private let counts: Mutex<[Int]>
        private let isOver = Event()
        private let endings = Mutex<[String: Int]>([:])

        init(_ count: Int) { counts = Mutex(Array(repeating: 0, count: count)) }

        func end(_ index: Int, _ ending: CallEnding) {
            endings.withLock { $0["\(ending)", default: 0] += 1 }
            let isLast = counts.withLock { counts in
                counts[index] += 1
                return !counts.contains(0)
            }
            if isLast { isOver.happen() }
        }

        var numbers: Set<Int> { counts.withLock { Set($0) } }
        var missing: Int { counts.withLock { $0.count { $0 == 0 } } }
        var summary: [String: Int] { endings.withLock { $0 } }
        func wait() async { await isOver.wait() }
    }

    private final class Session: Authenticator {
        private let number = Atomic(0)

        func apply(to request: inout HTTPRequest) {
            request.headers["Authorization"] = "\(number.load(ordering: .relaxed))"
        }

        func refresh() async throws {
            await Task.yield()
            number.add(1, ordering: .relaxed)
        }

        var refreshPause: Duration { .zero }
    }

    private struct Balance: RequestAccessory {
        let started: Counter
        let finished: Counter

        func willStart(_ call: ObservedCall) { started.next() }
        func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { finished.next() }
    }

    @Test func everyCallEndsOnceAndNothingLeaks() async throws {
        try replaceFile(0)
        let (started, finished) = (Counter(), Counter())
        let manager = try CentralRequestManager.make(
            DomainTable(contentsOf: directory.path(of: "domains.json5"), environment: nil)
        ) {
            $0.baseURL = server.url()
            $0.authenticator = Session()
            $0.retries = 2
            $0.retryPolicy.firstWait = .milliseconds(2)
            $0.cacheStorage = .memory
            $0.limits.maxConcurrentRequests = 60
            $0.headerProvider = { _ in
                await Task.yield()
                return ["X-Nonce": "n"]
            }
            $0.accessories = [Balance(started: started, finished: finished)]
            $0.domainsObserver = { _ in }
        }
        let ends = Ends(Self.callCount)
        let storm = Task {
            var turn = 0
            while !Task.isCancelled {
                turn += 1
                cancelSome(manager, turn)
                try? changeTable(manager, turn)
                for _ in 0..<20 { await Task.yield() }
            }
        }
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<Self.callCount {
                // Calls start in batches, so that some are at every stage.
                if index.isMultiple(of: 100) { await Task.yield() }
                start(index, manager, ends, &group)
            }
        }
        await ends.wait()
        storm.cancel()
        await storm.value
        #expect(ends.missing == 0)
        #expect(ends.numbers == [1], "\(ends.summary)")
        #expect(ends.summary["\(CallEnding.value)"] ?? 0 > 0, "\(ends.summary)")
        #expect(ends.summary["\(CallEnding.error(.cancelled))"] ?? 0 > 0, "\(ends.summary)")
        #expect(manager.runningRequests() == 0)
        // `didFinish` of a closure call comes after its closure.
        try await eventually { started.value == finished.value }
        try await server.waitUntilIdle()
        server.closeIdleConnections()
        try await server.waitUntilDisconnected()
        #expect(ends.numbers == [1])
        await manager.shutdown()
        let gauges = try #require(await manager.gauges)
        #expect(gauges.easyHandles == 0 && gauges.sockets == 0)
    }

    // MARK: Actions

    private func start(
        _ index: Int, _ manager: CentralRequestManager, _ ends: Ends, _ group: inout TaskGroup<Void>
    ) {
        let tag = "t\(index % 9)"
        func run(_ call: @escaping @Sendable () async throws -> Void) {
            group.addTask {
                do {
                    try await call()
                    ends.end(index, .value)
                } catch {
                    ends.end(index, CallEnding(error))
                }
            }
        }
        switch index % 10 {
        case 0, 1:
            manager.startRequest(
                "GET", "/central/\(index % 5)", tag: tag, success: { _, _ in ends.end(index, .value) },
                failure: { _, error in ends.end(index, CallEnding(error)) })
        case 2:
            let task = FetchItem(id: index % 7).startRequest(on: manager) { _, _, error in
                ends.end(index, error.map(CallEnding.init) ?? .value)
            }
            if index.isMultiple(of: 4) { task.cancel() }
        case 3: run { _ = try await manager.startRequest("GET", "/central/\(index % 5)", tag: tag) }
        case 4: run { _ = try await FetchItem(id: index % 7).tag(tag).startRequest(on: manager) }
        case 5: run { _ = try await SaveItem(id: index % 3).startRequest(on: manager) }
        case 6:
            run {
                let response = try await manager.stream("GET", "/stream", tag: tag)
                for try await _ in response.body {}
            }
        case 7: run { _ = try await FetchItem(id: index % 3).duplicates(.coalesce).startRequest(on: manager) }
        case 8:
            run { _ = try await manager.startRequest("GET", "/cached/\(index % 4)", cache: .http, tag: tag) }
        default:
            run {
                let work = Task { try await manager.startRequest("GET", "/left", tag: tag) }
                for _ in 0..<(index % 50) { await Task.yield() }
                work.cancel()
                _ = try await work.value
            }
        }
    }

    private func cancelSome(_ manager: CentralRequestManager, _ turn: Int) {
        switch turn % 8 {
        case 0: manager.cancelRequests(.tag("t\(turn % 9)"))
        case 1: manager.cancelRequests(.url("/central/\(turn % 5)"))
        case 2: manager.cancelRequests(.entity(FetchItem.self))
        case 3: manager.cancelRequests(.entity(FetchItem(id: turn % 7)))
        case 4: manager.cancelRequests(.keys((0..<40).map { "request-\(turn * 17 + $0)" }))
        case 5: manager.cancelRequests(.entity(SaveItem(id: turn % 3)))
        case 6: manager.cancelRequests(.key("request-\(turn * 31)"))
        default: if turn.isMultiple(of: 5) { manager.cancelRequests(.all) }
        }
        _ = manager.runningRequests(.tag("t1"))
    }

    private func changeTable(_ manager: CentralRequestManager, _ turn: Int) throws {
        switch turn % 4 {
        case 0: try replaceFile(turn)
        case 1:
            let url = server.url("/set/\(turn)")
            try manager.updateDomains { table throws(NetworkError) in try table.setBaseURL(url, forDomain: "d") }
        case 2: try manager.updateDomains { table throws(NetworkError) in try table.setBaseURL(nil, forDomain: "d") }
        default: manager.baseURL = server.url()
        }
    }
}
