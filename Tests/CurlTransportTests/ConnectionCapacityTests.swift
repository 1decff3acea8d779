import Platform
import Testing

@testable import CurlTransport

@Suite struct ConnectionCapacityTests {
    /// Compares two values; a macro's argument cannot hold a mutating call.
    private func expect(_ changes: Bool, _ wanted: Bool, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(changes == wanted, sourceLocation: sourceLocation)
    }

    /// A time in milliseconds.
    private func time(_ milliseconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: milliseconds * 1_000_000) }

    @Test func limitIsIdlePlusRunningConnections() {
        var capacity = ConnectionCapacity(maxIdle: 256, perHost: 5)
        #expect(capacity.value == 256)
        for running in 1...1000 {
            _ = capacity.note(running: running, time(1))
            #expect(capacity.value >= 256 + running)
            #expect(capacity.value <= 256 + running + 64)
        }
    }

    @Test func highHostLimitRaisesTheLimit() {
        var capacity = ConnectionCapacity(maxIdle: 256, perHost: 512)
        #expect(capacity.value == 512)
        expect(capacity.raise(perHost: 400), false)
        expect(capacity.raise(perHost: 600), true)
        #expect(capacity.value == 600)
    }

    @Test func shortDipKeepsTheLimit() {
        var capacity = ConnectionCapacity(maxIdle: 10, perHost: 5)
        expect(capacity.note(running: 500, time(1)), true)
        let value = capacity.value
        for running in [499, 300, 0, 500] { expect(capacity.note(running: running, time(1900)), false) }
        expect(capacity.note(running: 1, time(2100)), false)
        #expect(capacity.value == value)
    }

    @Test func limitFallsAfterABurst() {
        var capacity = ConnectionCapacity(maxIdle: 10, perHost: 5)
        expect(capacity.note(running: 500, time(1)), true)
        expect(capacity.note(running: 1, time(2100)), false)
        expect(capacity.note(running: 2, time(4200)), true)
        #expect(capacity.value == 10 + 64)
        expect(capacity.note(running: 3, time(9000)), false)
    }

    @Test func hugeLimitsDoNotOverflow() {
        var capacity = ConnectionCapacity(maxIdle: .max, perHost: 5)
        _ = capacity.note(running: 100, time(1))
        #expect(capacity.value == Int(Int32.max))
    }
}
