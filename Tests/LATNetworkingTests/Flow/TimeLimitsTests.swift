import Dispatch
import Platform
import TestSupport
import Testing

@testable import LATClient

struct TimeLimitsTests {
    private let clock = VirtualClock()

    @Test func theHeapGivesTheEarliestFirst() {
        var heap = TimerHeap<Int, String>()
        for time in [5, 1, 4, 1, 3, 9, 2] { heap.insert("\(time)", at: time) }
        heap.keep { $0 != "4" }
        var values: [String] = []
        while let entry = heap.popDue(at: 5) { values.append(entry.value) }
        #expect(values == ["1", "1", "2", "3", "5"])
        #expect(heap.first?.time == 9 && heap.count == 1)
    }

    @Test func closuresRunAtTheirTimesAndCancelledOnesDoNot() async throws {
        let limits = TimeLimits(clock.callClock)
        let ran = Log<Int>()
        let tickets = [30, 10, 20, 20, 40].map { time in
            limits.schedule(at: .seconds(time)) { ran.append(time) }
        }
        limits.cancel(tickets[1])
        // One task sleeps until 30 s. Another sleeps until 10 s, because this earlier time was added later.
        await clock.waitForSleepers(2)
        clock.advance(by: .seconds(10))
        // The cancelled one is dropped, and the task sleeps on until the next time.
        await clock.waitForSleepers(2)
        #expect(ran.elements == [])
        clock.advance(by: .seconds(10))
        try await eventually { ran.count == 2 }
        // The task that sleeps until 30 s is there already.
        #expect(ran.elements == [20, 20] && clock.sleeperCount == 1)
        clock.advance(by: .seconds(20))
        try await eventually { ran.count == 4 }
        #expect(ran.elements == [20, 20, 30, 40])
    }

    /// As providers have one.
    @Test(arguments: [true, false]) func authenticatorThatDoesNotAnswerHasALimit(isAsked: Bool) async throws {
        let never = Event()
        let tokens = TokenSource(
            apply: { request in
                await never.wait()
                return (request, Credential())
            }, isRejected: { _, _ in false }, refresh: {}, refreshTimeout: .milliseconds(20), refreshPause: .zero,
            needsRefresh: {
                if isAsked { await never.wait() }
                return false
            })
        let table = StageTable(
            [.authentication: AuthenticationStage(tokens)],
            .custom(FunctionTransport { HTTPResponse(status: 200, url: $0.url) }))
        let request = HTTPRequest("GET", "http://h/")
        let error = await failure {
            _ = try await Chain(Call(request), table, StageSet(.authentication)).proceed(request)
        }
        #expect(error?.kind == .provider && error?.message.contains("took longer than") == true)
        never.happen()
    }

    @Test func cancelledClosuresAreReleasedAtOnce() async throws {
        let limits = TimeLimits(clock.callClock)
        let (ran, released) = (Log<Int>(), Log<Int>())
        for number in 0..<10_000 {
            let sentinel = Sentinel { released.append(number) }
            let ticket = limits.schedule(at: .seconds(1)) { withExtendedLifetime(sentinel) { ran.append(number) } }
            if number % 100 > 0 { limits.cancel(ticket) }
        }
        #expect(released.count == 9_900)
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1))
        try await eventually { ran.count == 100 }
        #expect(Set(ran.elements) == Set(stride(from: 0, to: 10_000, by: 100)))
    }

    @Test func shortTimesBesideALongOneNeedNoMoreTasks() async throws {
        let limits = TimeLimits(clock.callClock)
        let ran = Log<Int>()
        _ = limits.schedule(at: .seconds(3_600)) {}
        await clock.waitForSleepers(1)
        for number in 1...100 {
            _ = limits.schedule(at: .seconds(number)) { ran.append(number) }
            await clock.waitForSleepers(2)
            clock.advance(by: .seconds(1))
            try await eventually { ran.count == number }
        }
        #expect(clock.sleeperCount == 1)
        clock.advance(by: .seconds(3_600))
    }

    @Test func closureThatBlocksDelaysNoLaterOne() async throws {
        let limits = TimeLimits(clock.callClock)
        let (release, ran) = (DispatchSemaphore(value: 0), Log<Int>())
        _ = limits.schedule(at: .seconds(1)) {
            release.wait()
            ran.append(1)
        }
        _ = limits.schedule(at: .seconds(2)) { ran.append(2) }
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1))
        await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1))
        try await eventually { ran.elements == [2] }
        release.signal()
        try await eventually { ran.elements == [2, 1] }
    }

    @Test func sleepingTaskKeepsNoTaskLocalValue() async throws {
        let limits = TimeLimits(clock.callClock)
        let released = Log<Int>()
        do {
            let sentinel = Sentinel { released.append(1) }
            await Context.$sentinel.withValue(sentinel) {
                _ = limits.schedule(at: .seconds(1)) {}
                await clock.waitForSleepers(1)
            }
        }
        try await eventually { released.count == 1 }
        clock.advance(by: .seconds(1))
    }

    @Test func sleepingGateKeepsNoTaskLocalValue() async throws {
        var limits = RequestLimits()
        limits.rate = RequestLimits.RateLimit(perSecond: 0.001)
        let gate = LimitGate(limits, clock: clock.callClock)
        let released = Log<Int>()
        @Sendable func pass(_ call: Call) async throws {
            _ = try await LimitGate.pass([gate], call, "http://h:80", nil) {
                HTTPResponse(status: 200, url: "http://h/")
            }
        }
        try await pass(Call(HTTPRequest("GET", "http://h/")))
        do {
            let sentinel = Sentinel { released.append(1) }
            await Context.$sentinel.withValue(sentinel) {
                let call = Call(HTTPRequest("GET", "http://h/"))
                let waiting = Task { try await pass(call) }
                await clock.waitForSleepers(1)
                call.cancel()
                _ = await waiting.result
            }
        }
        try await eventually { released.count == 1 }
        clock.advance(by: .seconds(10_000))
    }

    @Test func limitMayBeEndless() async throws {
        let sleeping = Task { try await CallClock.continuous.sleep(.seconds(Int64.max)) }
        sleeping.cancel()
        await #expect(throws: CancellationError.self) { try await sleeping.value }
        let waiter = Waiter<Int>()
        let limits = TimeLimits()
        let waiting = Task { try await limits.value(of: waiter, within: .seconds(Int64.max), late: .success(0)) }
        // The next limit is earlier, and is over.
        let next = try await limits.value(of: Waiter<Int>(), within: .milliseconds(1), late: .success(1))
        #expect(next == 1)
        waiter.end(.success(2))
        #expect(try await waiting.value == 2)
    }

    private enum Context {
        @TaskLocal static var sentinel: Sentinel?
    }
}
