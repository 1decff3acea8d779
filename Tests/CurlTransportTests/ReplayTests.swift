import CLibcurl
import Testing

@testable import CurlTransport

@Suite struct ReplayTests {
    private func replay(_ fate: Replay.Fate, idempotent: Bool = true, multiplexed: Bool = true) -> Replay {
        Replay(fate: fate, isIdempotent: idempotent, isMultiplexed: multiplexed)
    }

    private let failures = [CURLE_HTTP2, CURLE_HTTP2_STREAM, CURLE_SEND_ERROR, CURLE_RECV_ERROR]

    @Test(arguments: [Replay.Fate.unsent, .refused, .unknown])
    func onlyUnprocessedPostIsRepeated(fate: Replay.Fate) {
        let isUnprocessed = fate != .unknown
        #expect(replay(fate, idempotent: false).allowsRepetition(1) == isUnprocessed)
        #expect(
            replay(fate, idempotent: false).followsFailure(CURLE_HTTP2, isReused: true, replays: 0) == isUnprocessed)
        #expect(replay(fate).allowsRepetition(1))
        #expect(replay(fate).followsFailure(CURLE_HTTP2, isReused: true, replays: 0))
    }

    @Test func requestOverHTTP1IsRepeatedOnce() {
        #expect(replay(.unknown, multiplexed: false).allowsRepetition(1))
        #expect(!replay(.unknown, multiplexed: false).allowsRepetition(2))
        #expect(replay(.unknown).allowsRepetition(2))
        for code in [CURLE_SEND_ERROR, CURLE_RECV_ERROR] {
            #expect(!replay(.unknown, multiplexed: false).followsFailure(code, isReused: true, replays: 0))
            #expect(!replay(.unsent, multiplexed: false).followsFailure(code, isReused: false, replays: 0))
        }
    }

    @Test func unsentHTTP1RequestIsReplayed() {
        #expect(replay(.unsent, idempotent: false, multiplexed: false).allowsRepetition(5))
        for code in [CURLE_SEND_ERROR, CURLE_RECV_ERROR] {
            let attempt = replay(.unsent, idempotent: false, multiplexed: false)
            #expect(attempt.followsFailure(code, isReused: true, replays: 0))
            #expect(!attempt.followsFailure(code, isReused: true, replays: Replay.limit))
        }
    }

    @Test func replaysAreBounded() {
        for code in failures {
            #expect(replay(.refused).followsFailure(code, isReused: true, replays: Replay.limit - 1))
            #expect(!replay(.refused).followsFailure(code, isReused: true, replays: Replay.limit))
        }
    }

    @Test func freshConnectionIsReplayedOnce() {
        let first = replay(.unknown, multiplexed: false)
        #expect(first.followsFailure(CURLE_HTTP2, isReused: false, replays: 0))
        #expect(!first.followsFailure(CURLE_HTTP2, isReused: false, replays: 1))
        #expect(first.followsFailure(CURLE_HTTP2, isReused: true, replays: 1))
    }

    @Test func resetStreamIsNotReplayed() {
        #expect(!replay(.unknown).followsFailure(CURLE_HTTP2_STREAM, isReused: true, replays: 0))
        #expect(replay(.refused).followsFailure(CURLE_HTTP2_STREAM, isReused: true, replays: 0))
    }

    @Test func otherFailuresAreNotReplayed() {
        for code in [
            CURLE_OPERATION_TIMEDOUT, CURLE_COULDNT_CONNECT, CURLE_PEER_FAILED_VERIFICATION, CURLE_GOT_NOTHING,
        ] {
            #expect(!replay(.unsent).followsFailure(code, isReused: true, replays: 0))
        }
    }
}
