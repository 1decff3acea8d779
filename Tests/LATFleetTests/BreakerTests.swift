import Platform
import Testing

@testable import LATFleet

struct BreakerTests {
    private let start = MonotonicTime(nanoseconds: 1_000_000_000)
    private var breaker = Breaker(threshold: 3, pause: .seconds(1))

    private mutating func fail(_ count: Int, _ now: MonotonicTime) { for _ in 0..<count { breaker.failed(now) } }

    @Test mutating func opensAfterFailuresInARow() {
        fail(2, start)
        #expect(breaker.isClosed)
        breaker.succeeded()
        fail(2, start)
        #expect(breaker.isClosed, "the success in between counts")
        fail(1, start)
        #expect(breaker.state == .open(until: start + 1000))
    }

    @Test mutating func probesOnceAfterItsPause() {
        fail(3, start)
        let isEarly = breaker.probes(start + 999)
        #expect(!isEarly)
        #expect(breaker.due == start + 1000)
        let first = breaker.probes(start + 1000)
        #expect(first && breaker.state == .halfOpen)
        let second = breaker.probes(start + 5000)
        #expect(!second, "only one probe is on its way")
    }

    @Test mutating func closesAfterAGoodProbe() {
        fail(3, start)
        _ = breaker.probes(start + 1000)
        breaker.succeeded()
        #expect(breaker.state == .closed(failures: 0))
    }

    @Test mutating func doublesItsPauseUpToALimit() {
        fail(3, start)
        var now = start
        for pause: Int64 in [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000] {
            #expect(breaker.state == .open(until: now + pause))
            now = now + pause
            _ = breaker.probes(now)
            #expect(breaker.state == .halfOpen)
            breaker.failed(now)
        }
        breaker.succeeded()
        fail(3, now)
        #expect(breaker.state == .open(until: now + 1000), "a success brings the first pause back")
    }

    @Test mutating func longFirstPauseIsNotShortened() {
        breaker = Breaker(threshold: 3, pause: .seconds(60))
        fail(3, start)
        _ = breaker.probes(start + 60_000)
        breaker.failed(start + 60_000)
        #expect(breaker.state == .open(until: start + 120_000))
    }

    @Test mutating func failuresWhileOpenDoNotExtendIt() {
        fail(3, start)
        fail(10, start + 500)
        #expect(breaker.state == .open(until: start + 1000))
    }

    @Test mutating func probesAtOnceOnANewConnection() {
        fail(3, start)
        breaker.reconnected(start + 10)
        let probes = breaker.probes(start + 10)
        #expect(probes)
        var closed = Breaker(threshold: 3, pause: .seconds(1))
        closed.reconnected(start)
        let needsNone = !closed.probes(start)
        #expect(needsNone)
    }
}

struct HeartbeatTests {
    private let start = MonotonicTime(nanoseconds: 0)

    private func step(_ heartbeat: inout Heartbeat, _ now: MonotonicTime, _ expected: Heartbeat.Step) {
        let step = heartbeat.step(now)
        #expect(step == expected)
    }

    @Test func silentServerIsPingedThenLost() {
        var heartbeat = Heartbeat(.seconds(1), start)
        step(&heartbeat, start + 999, .nothing)
        step(&heartbeat, start + 1000, .ask)
        step(&heartbeat, start + 1999, .nothing)
        step(&heartbeat, start + 2000, .isDead)
    }

    @Test func anyBytesRestartTheHeartbeat() {
        var heartbeat = Heartbeat(.seconds(1), start)
        _ = heartbeat.step(start + 1000)
        heartbeat.received(start + 1500)
        step(&heartbeat, start + 2000, .nothing)
        step(&heartbeat, start + 2500, .ask)
    }
}
