import LATKit
import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient

@Suite(.timeLimit(.minutes(2))) struct BatchTests {
    private struct Failed: Error, Equatable { var step: Int }

    private func step(_ value: Int) -> RequestBatch<Int>.Step { .init { value } }

    @Test func resultsAreInTheOrderOfTheSteps() async throws {
        let server = try MockServer()
        server.route("GET", "/{n}") { request in
            let number = Int(request.pathParameters["n"] ?? "") ?? 0
            return MockReply.text("\(number)").delayed(by: .milliseconds(Int64(20 - number)))
        }
        let manager = try CentralRequestManager.make()
        let batch = RequestBatch<String?>(
            (0..<20).map { number in
                .init { progress in
                    try await manager.startRequest("GET", server.url("/\(number)"), progress: progress).text
                }
            })
        #expect(try await batch.values() == (0..<20).map(String.init))
        // A batch is a value and can run again.
        #expect(try await batch.values().count == 20)
    }

    @Test func sizesOfAnyServerCanBeAdded() {
        var tally = BatchTally(stepCount: 2)
        let huge = TransferProgress(direction: .download, completed: .max - 1, total: .max)
        _ = tally.report(huge, of: 0)
        let sum = tally.report(huge, of: 1)
        #expect(sum?.completed == .max && sum?.total == .max)
    }

    @Test func deadlineMayBeEndless() async throws {
        let results = try await RequestBatch([step(1)]).all(deadline: .seconds(Int64.max))
        #expect(try results.map { try $0.get() } == [1])
    }

    @Test func emptyBatchEndsAtOnce() async throws {
        let sums = Log<BatchProgress>()
        let batch = RequestBatch<Int>().progress { sums.append($0) }
        #expect(try await batch.values().isEmpty)
        #expect(try await batch.results().isEmpty)
        #expect(sums.elements.map(\.fraction) == [1, 1])
    }

    @Test func batchReportsWhetherAllCameFromTheCache() async throws {
        let server = try MockServer.counting(["Cache-Control": "max-age=60"])
        let manager = try CentralRequestManager.caching(.http)
        for path in ["/a", "/b"] { _ = try await manager.startRequest("GET", server.url(path)) }
        let sums = Log<BatchProgress>()
        func batch(_ paths: [String]) -> RequestBatch<HTTPResponse> {
            RequestBatch(
                paths.map { path in .init { try await manager.startRequest("GET", server.url(path)) } },
                maxConcurrentSteps: 1
            ).progress { sums.append($0) }
        }
        let mixed = try await batch(["/a", "/c", "/b"]).results()
        #expect(!mixed.areAllFromCache)
        #expect(mixed.map(\.isFromCache) == [true, false, true])
        #expect(sums.elements.map(\.cachedSteps) == [1, 1, 2])
        #expect(sums.elements.last?.isAllFromCache == false)
        #expect(try await batch(["/a", "/b", "/c"]).values().areAllFromCache)
        #expect(sums.elements.last?.isAllFromCache == true)
        #expect(server.requestCount == 3)
        #expect(try await batch([]).values().areAllFromCache == false)
        #expect(sums.elements.last?.isAllFromCache == false)
    }

    // MARK: Results as they come

    @Test func resultsComeAsTheStepsEnd() async throws {
        let gates = (0..<3).map { _ in TestSupport.Event() }
        let batch = RequestBatch<Int>(
            gates.indices.map { index in
                .init {
                    await gates[index].wait()
                    if index == 1 { throw Failed(step: index) }
                    return index
                }
            })
        var order: [Int] = []
        gates[2].happen()
        for try await outcome in batch.results {
            order.append(outcome.index)
            switch outcome.index {
            case 2: gates[1].happen()
            case 1:
                #expect(throws: Failed(step: 1)) { try outcome.get() }
                gates[0].happen()
            default: #expect(try outcome.get() == 0)
            }
        }
        #expect(order == [2, 1, 0])
    }

    @Test func slowLoopHoldsLaterStepsBack() async throws {
        let started = Log<Int>()
        let steps = (0..<50).map { index in
            RequestBatch<Int>.Step {
                started.append(index)
                return index
            }
        }
        var taken = 0
        for try await _ in RequestBatch(steps, maxConcurrentSteps: 3).results {
            taken += 1
            // Three run, and each result that was taken made room for one.
            #expect(started.elements.count <= taken + 3)
        }
        #expect(taken == 50 && started.elements.count == 50)
        for try await _ in RequestBatch<Int>().results { Issue.record("an empty batch has no results") }
    }

    @Test func leavingTheLoopCancelsTheSteps() async throws {
        let server = try MockServer()
        server.route("GET", "/now") { _ in .text("1") }
        server.fallback { _ in MockReply.text("").stalling(.start) }
        let manager = try CentralRequestManager.make()
        let steps = ["/now", "/slow", "/slow"].map { path in
            RequestBatch<Int>.Step { try await manager.startRequest("GET", server.url(path)).status }
        }
        for try await outcome in RequestBatch(steps).results {
            #expect(outcome.index == 0)
            try await server.waitForRequests(3)
            break
        }
        try await server.waitForClosedConnections(2)
    }

    @Test func cancelledLoopThrows() async throws {
        let isRunning = TestSupport.Event()
        let batch = RequestBatch<Int>([
            .init {
                isRunning.happen()
                try await Task.sleep(for: .seconds(3_600))
                return 1
            }
        ])
        let task = Task { for try await _ in batch.results {} }
        await isRunning.wait()
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test func firstGoodValueCancelsTheOthers() async throws {
        let server = try MockServer()
        for (path, reply) in [("/bad", MockReply.status(500)), ("/low", .text("1")), ("/good", .text("7"))] {
            server.route("GET", path) { _ in reply }
        }
        server.fallback { _ in MockReply.text("").stalling(.start) }
        let manager = try CentralRequestManager.make()
        func batch(_ paths: String...) -> RequestBatch<Int> {
            RequestBatch(
                paths.map { path in
                    .init { Int(try await manager.startRequest("GET", server.url(path)).text ?? "") ?? 0 }
                })
        }
        #expect(try await batch("/bad", "/low", "/slow", "/good", "/slow").first { $0 > 5 } == 7)
        #expect(manager.runningRequests() == 0)
        // Nothing good: a failure is thrown, because it might have been.
        #expect(await failure { try await batch("/bad", "/low").first { $0 > 5 } }?.response?.status == 500)
        #expect(try await batch("/low", "/low").first { $0 > 5 } == nil)
        #expect(try await batch().first() == nil)
    }

    @Test func deadlineEndsStepsThatIgnoreIt() async throws {
        let server = try MockServer()
        server.route("GET", "/now") { _ in .text("1") }
        server.fallback { _ in MockReply.text("").stalling(.start) }
        let manager = try CentralRequestManager.make()
        let release = TestSupport.Event()
        defer { release.happen() }
        var steps = ["/now", "/slow"].map { path in
            RequestBatch<Int>.Step { try await manager.startRequest("GET", server.url(path)).status }
        }
        steps.append(
            .init {
                // Ignores its cancellation.
                await release.wait()
                return 0
            })
        let results = try await RequestBatch(steps).all(deadline: .milliseconds(500))
        #expect(results.count == 3)
        for index in [1, 2] {
            let error = #expect(throws: NetworkError.self) { try results[index].get() }
            #expect(error?.kind == .timeout(.deadline) && error?.message.contains("allow more time") == true)
        }
        try await server.waitForClosedConnections(1)
        #expect(try await RequestBatch([steps[0]]).all(deadline: .seconds(60)).map { try $0.get() } == [200])
        #expect(try await RequestBatch<Int>().all(deadline: .zero).isEmpty)
    }

    @Test func firstFailureCancelsTheOtherSteps() async throws {
        let server = try MockServer()
        server.route("GET", "/bad") { _ in MockReply.status(500) }
        server.fallback { _ in MockReply.text("").stalling(.start) }
        let manager = try CentralRequestManager.make()
        var steps = (0..<4).map { _ in
            RequestBatch<Int>.Step { try await manager.startRequest("GET", server.url("/slow")).status }
        }
        steps.append(
            .init {
                try await server.waitForRequests(4)
                return try await manager.startRequest("GET", server.url("/bad")).status
            })
        let batch = RequestBatch(steps)
        #expect(await failure { try await batch.values() }?.response?.status == 500)
        #expect(manager.runningRequests() == 0)
        try await server.waitForClosedConnections(4)
    }

    @Test func resultsIncludeSuccessesAndFailures() async throws {
        let batch = RequestBatch<Int>(
            (0..<6).map { number in
                .init {
                    if number.isMultiple(of: 2) { throw Failed(step: number) }
                    return number
                }
            })
        let results = try await batch.results()
        for (number, result) in results.enumerated() {
            switch result {
            case .success(let value): #expect(value == number && number % 2 == 1)
            case .failure(let error): #expect(error as? Failed == Failed(step: number) && number % 2 == 0)
            }
        }
        #expect(results.count == 6)
    }

    @Test func concurrentStepsStayWithinTheLimit() async throws {
        let gauge = Log<Int>()
        let running = RunningCount()
        let batch = RequestBatch<Void>(
            (0..<30).map { _ in
                .init {
                    gauge.append(running.add(1))
                    await Task.yield()
                    _ = running.add(-1)
                }
            }, maxConcurrentSteps: 3)
        _ = try await batch.values()
        #expect((gauge.elements.max() ?? 0) <= 3)
        #expect(gauge.count == 30)
    }

    @Test func batchesMayBeNested() async throws {
        let inner = RequestBatch<Int>([step(1), step(2)])
        let outer = RequestBatch<[Int]>([.init { try await inner.values() }, .init { try await inner.values() }])
        #expect(try await outer.values() == [[1, 2], [1, 2]])
    }

    @Test func progressIsSummedUpToTheTotal() async throws {
        let server = try MockServer()
        server.fallback { _ in .pattern(byteCount: 200_000) }
        let manager = try CentralRequestManager.make()
        let sums = Log<BatchProgress>()
        let batch = RequestBatch<Int>(
            (0..<4).map { _ in
                .init { try await manager.startRequest("GET", server.url(), progress: $0).data.count }
            }
        ).progress { sums.append($0) }
        #expect(try await batch.values() == [200_000, 200_000, 200_000, 200_000])
        #expect(sums.elements.last?.fraction == 1)
        #expect(sums.elements.last?.finishedSteps == 4)
        #expect(sums.elements.last?.completed == 800_000)
        let fractions = sums.elements.map(\.fraction)
        #expect(fractions == fractions.sorted())
    }

    @Test func cancellingTheTaskCancelsTheSteps() async throws {
        let server = try MockServer()
        server.fallback { _ in MockReply.text("").stalling(.start) }
        let manager = try CentralRequestManager.make()
        let batch = RequestBatch<Int>(
            (0..<3).map { _ in .init { try await manager.startRequest("GET", server.url()).status } })
        let settling = Task { try await batch.results() }
        try await server.waitForRequests(3)
        settling.cancel()
        await #expect(throws: CancellationError.self) { _ = try await settling.value }
        #expect(manager.runningRequests() == 0)
    }

    // MARK: Chain

    @Test func chainPassesEachResultToTheNextStep() async throws {
        let server = try MockServer()
        server.route("GET", "/{n}") { .text("\((Int($0.pathParameters["n"] ?? "") ?? 0) + 1)") }
        let manager = try CentralRequestManager.make()
        let get: @Sendable (String) async throws -> String = {
            try await manager.startRequest("GET", server.url("/\($0)")).text ?? ""
        }
        let chain = RequestChain { try await get("1") }.then(get).then { Int(try await get($0)) ?? 0 }
        #expect(try await chain.value() == 4)
        #expect(server.requests.map(\.path) == ["/1", "/2", "/3"])
        #expect(try await chain.value() == 4)
    }

    @Test func chainStepsMayAddSteps() async throws {
        let log = Log<Int>()
        let chain = RequestChain(value: 3).thenChain { count in
            (0..<count).reduce(RequestChain(value: 0)) { chain, _ in
                chain.then { value in
                    log.append(value)
                    return value + 1
                }
            }
        }.thenBatch { count in RequestBatch((0..<count).map { number in .init { number * 10 } }) }
        #expect(try await chain.value() == [0, 10, 20])
        #expect(log.elements == [0, 1, 2])
        let pages = RequestChain(value: 1).whileSome { $0 < 10 ? $0 * 2 : nil }
        #expect(try await pages.value() == 16)
    }

    @Test func firstFailureEndsTheChain() async throws {
        let log = Log<Int>()
        let chain = RequestChain<Int> { throw Failed(step: 1) }.then { value in
            log.append(value)
            return value
        }
        await #expect(throws: Failed(step: 1)) { _ = try await chain.value() }
        #expect(log.count == 0)
    }

    @Test func cancellingTheChainStartsNoOtherStep() async throws {
        let hasBegun = Event()
        let log = Log<Int>()
        let chain = RequestChain<Int> {
            hasBegun.happen()
            while !Task.isCancelled { await Task.yield() }
            return 1
        }.then { value in
            log.append(value)
            return value
        }
        let work = Task { try await chain.value() }
        await hasBegun.wait()
        work.cancel()
        await #expect(throws: CancellationError.self) { _ = try await work.value }
        #expect(log.count == 0)
    }
}

/// A thread-safe count of running steps.
private final class RunningCount: Sendable {
    private let number = Mutex(0)

    /// Returns the count after the change.
    func add(_ change: Int) -> Int {
        number.withLock { number in
            number += change
            return number
        }
    }
}
