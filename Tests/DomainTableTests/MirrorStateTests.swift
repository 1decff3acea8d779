import Testing

@testable import LATClient

@Suite("MirrorState")
struct MirrorStateTests {
    private let start = ContinuousClock.now

    @Test func basesKeepTheirOrderAtFirst() {
        var state = MirrorState()
        #expect(state.order(of: 3, at: start) == [0, 1, 2])
        #expect(state.order(of: 0, at: start) == [])
    }

    @Test func failedBaseComesLastForThirtySeconds() {
        var state = MirrorState()
        state.failed(0, at: start)
        #expect(state.order(of: 3, at: start) == [1, 2, 0])
        #expect(state.order(of: 3, at: start + .milliseconds(29_999)) == [1, 2, 0])
        #expect(state.order(of: 3, at: start + .seconds(30)) == [0, 1, 2])
        state.succeeded(0)
        #expect(state.order(of: 3, at: start + .seconds(30)) == [0, 1, 2])
    }

    @Test func onlyOneCallTriesAFailedBaseAgain() {
        var state = MirrorState(memory: .seconds(10))
        state.failed(0, at: start)
        let later = start + .seconds(10)
        #expect(state.order(of: 2, at: later) == [0, 1])
        #expect(state.order(of: 2, at: later) == [1, 0])
        // The call that tried the failed base never reported a result.
        #expect(state.order(of: 2, at: later + .seconds(10)) == [0, 1])
        state.succeeded(0)
        #expect(state.order(of: 2, at: later + .seconds(10)) == [0, 1])
        #expect(state.order(of: 2, at: later + .seconds(10)) == [0, 1])
    }

    @Test func othersAreThoseThatDidNotFail() {
        var state = MirrorState()
        func others(than base: Int, after seconds: Int = 0) -> [Int] {
            state.others(of: 3, than: base, at: start + .seconds(seconds))
        }
        #expect(others(than: 1) == [2, 0] && state.others(of: 1, than: 0, at: start).isEmpty)
        state.failed(0, at: start)
        #expect(others(than: 1, after: 29) == [2] && others(than: 2) == [1])
        // Nobody tells that it works again, so its time ends by itself.
        #expect(others(than: 1, after: 30) == [2, 0])
        state.succeeded(0)
        #expect(others(than: 2) == [0, 1])
    }

    @Test func whenAllFailedTheEarliestIsTriedFirst() {
        var state = MirrorState()
        state.failed(1, at: start)
        state.failed(0, at: start + .seconds(1))
        state.failed(2, at: start + .seconds(2))
        #expect(state.order(of: 3, at: start + .seconds(3)) == [1, 0, 2])
    }

    @Test func singleBaseIsAlwaysTried() {
        var state = MirrorState()
        state.failed(0, at: start)
        #expect(state.order(of: 1, at: start) == [0])
    }
}
