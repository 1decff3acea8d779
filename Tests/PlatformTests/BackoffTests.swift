import Platform
import TestSupport
import Testing

@Suite struct BackoffTests {
    @Test func pausesDoubleUpToTheLongest() {
        var backoff = Backoff(first: .milliseconds(50), longest: .seconds(1))
        let pauses = (0..<7).map { _ in backoff.next() }
        #expect(pauses == [50, 100, 200, 400, 800, 1000, 1000].map { .milliseconds($0) })
        #expect(backoff.failures == 7)
        backoff.reset()
        #expect(backoff.failures == 0)
        let chances = [0.5, 0, 0.25].map { backoff.next(chance: $0) }
        #expect(chances == [.milliseconds(25), .zero, .milliseconds(50)])
    }

    @Test func longFirstPauseIsCut() {
        #expect(Backoff(first: .seconds(9), longest: .seconds(2)).pause(afterFailures: 1) == .seconds(2))
        #expect(Backoff(first: .seconds(1), longest: .zero).pause(afterFailures: 5) == .zero)
    }

    @Test(arguments: [0, 1, 63, 64, 100_000, Int.max])
    func anyNumberOfFailuresHasAPause(count: Int) {
        let longest = Duration.seconds(Int64.max / 4)
        let pause = Backoff(first: .milliseconds(1), longest: longest).pause(afterFailures: count)
        #expect(pause >= .milliseconds(1) && pause <= longest)
        #expect(Backoff(first: .zero, longest: longest).pause(afterFailures: count) == .zero)
    }

    @Test func lastingFailureSkipsToTheLongestPause() {
        var backoff = Backoff(first: .milliseconds(50), longest: .seconds(4))
        backoff.skipToLongest()
        #expect(backoff.next() == .seconds(4) && backoff.next() == .seconds(4))
        backoff.reset()
        #expect(backoff.next() == .milliseconds(50))
        var never = Backoff(first: .zero, longest: .seconds(4))
        never.skipToLongest()
        #expect(never.next() == .zero)
    }

    @Test func pauseNeverShrinksBeforeReset() {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<1_000 {
            let first = Duration.milliseconds(Int64(generator.next() % 10_000))
            let longest = Duration.milliseconds(Int64(generator.next() % 1_000_000))
            var backoff = Backoff(first: first, longest: longest)
            var last = Duration.zero
            for _ in 0..<24 {
                let pause = backoff.next()
                #expect(pause >= last && pause <= longest)
                last = pause
            }
        }
    }
}
