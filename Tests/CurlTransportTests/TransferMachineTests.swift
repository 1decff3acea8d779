import CLibcurl
import HTTPCore
import Platform
import TestSupport
import Testing

@testable import CurlTransport

/// A random sequence of events from a server, a caller and a reader, determined by a seed. The checks track the state of
/// the request themselves and ask the machine only for its decisions.
private final class Life {
    typealias Rules = TransferMachine.Rules

    var random: SeededGenerator
    var machine: TransferMachine
    let rules: Rules
    var now = MonotonicTime(nanoseconds: 1_000_000_000)
    private(set) var faults: [String] = []
    private(set) var events: [String] = []

    // State of the caller.
    private var answers = 0
    private var isSuspended = false
    private var isReaderBehind = false
    private var isOver = false
    private var isRefused = false
    // State of libcurl.
    private var sent = 0
    private var isConnected = false
    private var isFresh = false
    private var isMultiplexed = false
    private var hasHead = false
    private var hasFinalHead = false
    /// Whether the last response is one that libcurl follows by itself.
    private var isFollowed: Bool {
        let isChallenge = machine.status == 407 || machine.status == 401 && rules.mayBeChallenged
        return machine.bodyByteCount == 0 && isChallenge
    }
    private var toldPause = TransferMachine.Pause.none
    /// Whether the server may have processed the request.
    private var mayHaveHadEffect = false
    private var lastReport: (completed: Int64, time: MonotonicTime)?
    /// When bytes last moved; `nil` before the connection, and while the caller or the reader holds the transfer.
    private var quietSince: MonotonicTime?
    private var drainEnd: MonotonicTime?

    init(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var rules = Rules()
        rules.timeout = [0, 5000].randomElement(using: &random) ?? 0
        rules.idleTimeout = [0, 300, 1000].randomElement(using: &random) ?? 0
        rules.maxBodySize = [Int64.max, 100_000, 1000].randomElement(using: &random) ?? .max
        rules.isIdempotent = .random(using: &random)
        rules.decompresses = .random(using: &random)
        rules.mayBeChallenged = Int.random(in: 0..<4, using: &random) == 0
        rules.hasHTTPProxy = Int.random(in: 0..<4, using: &random) == 0
        rules.hasBody = .random(using: &random)
        rules.readsBody = rules.hasBody && .random(using: &random)
        self.rules = rules
        machine = TransferMachine(rules, isStream: .random(using: &random))
        self.random = random
    }

    func live(steps: Int) {
        for _ in 0..<steps { step() }
        // Whatever has happened, the transfer ends once, and later events have no effect.
        if !isOver { finish() }
        for _ in 0..<20 { step() }
        check(answers == 1, "the caller got \(answers) results")
    }

    private func check(_ isSo: Bool, _ what: @autoclosure () -> String) {
        if !isSo { faults.append("\(what()) after \(events.suffix(12).joined(separator: ", "))") }
    }

    private func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

    private func step() {
        now = now + Int64.random(in: 0...120, using: &random)
        let event = Int.random(in: 0..<16, using: &random)
        events.append("\(event)")
        switch event {
        case 0: submit()
        case 1: start()
        case 2, 3: update()
        case 4: if chance(5), machine.cancelled() { finish() }
        case 5: connect()
        case 6: _ = headLine()
        case 7: head()
        case 8, 9: body()
        case 10: send()
        case 11, 12: checkSilence()
        case 13: progress()
        case 14: lose()
        default: if chance(10), machine.phase == .running { conclude() }
        }
        checkStanding()
    }

    private func checkStanding() {
        if isOver {
            check(machine.phase == .over, "an ended transfer is running")
            check(machine.ended() == nil, "ended twice")
            check(!machine.mayRepeat, "an ended request may be repeated")
        }
        if machine.phase == .running, toldPause != .none || machine.pause != .none {
            let wanted: TransferMachine.Pause = isSuspended ? .all : isReaderBehind ? .receiving : .none
            check(machine.pause == wanted, "pause is \(machine.pause) and not \(wanted)")
        }
        check(machine.attempts.replays <= Replay.limit, "\(machine.attempts.replays) replays")
    }

    private func finish() {
        guard let ending = machine.ended() else { return check(isOver, "it did not end") }
        check(!isOver, "ended twice")
        if ending.answersCaller { answers += 1 }
        check(answers == 1, "the caller got \(answers) results by the end")
        isOver = true
    }

    private func answer() {
        if machine.answers() { answers += 1 }
        check(!isOver, "answered after its end")
    }

    // MARK: The caller

    private func state() -> TransferState {
        TransferState(
            isCancelled: chance(2), isSuspended: chance(30), priority: chance(30) ? .high : .normal)
    }

    private func submit() {
        let state = chance(50) ? state() : nil
        let wasNew = machine.phase == .new
        switch machine.submitted(state, now) {
        case .ignore: check(!wasNew, "a new request was ignored")
        case .cancel: finish()
        case .admit:
            check(wasNew && state?.isSuspended != true, "a suspended or earlier request was admitted")
            if chance(50) { machine.queued() } else { begin() }
        case .hold:
            check(state?.isSuspended == true, "an unsuspended request was held")
            isSuspended = true
        }
    }

    private func begin() {
        check(!isSuspended, "started while suspended")
        let deadline = machine.started(now)
        check((deadline != nil) == (rules.idleTimeout > 0), "first idle check: \(String(describing: deadline))")
    }

    private func start() { if machine.phase == .waiting { begin() } }

    private func update() {
        let state = state()
        let phase = machine.phase
        let priority = machine.priority
        let wasStill = isSuspended || isReaderBehind
        let readerIsBehind = isReaderBehind && chance(50)
        switch machine.updated(state, now, isReaderBehind: readerIsBehind) {
        case .nothing: check(phase != .running, "a running transfer ignored a pause")
        case .cancel:
            check(state.isCancelled, "cancelled without a cancellation")
            if machine.cancelled() { finish() }
            return
        case .admit:
            check(phase == .held && !state.isSuspended, "admitted though suspended or not held")
            isSuspended = false
            if chance(50) { machine.queued() } else { begin() }
        case .hold(let before):
            check(phase == .waiting && state.isSuspended && before == priority, "held in \(phase)")
            isSuspended = true
        case .requeue(let before):
            check(phase == .waiting && before == priority && machine.priority > before, "requeued in \(phase)")
            if chance(50) { begin() } else { machine.queued() }
        case .pause(let pause):
            check(phase == .running, "paused in \(phase)")
            isSuspended = state.isSuspended
            isReaderBehind = readerIsBehind
            toldPause = pause
            if wasStill, !isSuspended, !isReaderBehind, isConnected { quietSince = now }
            if isSuspended || isReaderBehind { quietSince = nil }
        }
        check(machine.priority >= priority, "the priority fell")
    }

    // MARK: The server

    private func connect() {
        guard machine.phase == .running || isOver else { return }
        let (hasResponse, isAnswer) = (hasFinalHead, isFollowed)
        // libcurl may repeat the refusal of an earlier connection.
        var refusal = StreamRefusal()
        if isConnected, !hasResponse, chance(30) {
            if machine.attempts.count == 1 { mayHaveHadEffect = false }
            Array("REFUSED_STREAM, retrying a fresh connect".utf8).withUnsafeBytes { refusal.note($0) }
        }
        let isRepetition = isConnected && !hasResponse
        isFresh = chance(50)
        let (sent, isMultiplexed) = (sent, isMultiplexed)
        let readiness = machine.connectionIsReady(now, sent: sent, refusal: refusal, isMultiplexed: isMultiplexed)
        if readiness == .hasResponse {
            check(hasResponse && !isAnswer && !isOver && !isRefused, "a response that is followed was refused")
            isRefused = true
            return moved()
        }
        if readiness == .refuse {
            check(isOver || isRefused || isRepetition, "a first connection was refused")
            if !isOver, !isRefused { moved() }
            isRefused = isRefused || !isOver
            return
        }
        check(!isOver, "it connected after its end")
        check(!hasResponse || isAnswer, "a request was sent again after its response")
        check(!mayHaveHadEffect || rules.isIdempotent || hasResponse, "a processed request was sent again")
        check((readiness == .sendPaused) == isSuspended, "readiness \(readiness)")
        isConnected = true
        (hasHead, hasFinalHead) = (false, false)
        if chance(80) {
            self.sent += 100
            mayHaveHadEffect = true
        } else {
            mayHaveHadEffect = false
        }
        moved()
    }

    private func lose() {
        guard isConnected, !hasHead, machine.phase == .running else { return }
        let isProvablyUnprocessed = !mayHaveHadEffect
        let isRefusedStream = mayHaveHadEffect && chance(30)
        if isRefusedStream { mayHaveHadEffect = false }
        isMultiplexed = chance(70)
        let loss = Attempts.Loss(
            sent: sent, isRefused: isRefusedStream, isReused: !isFresh, isMultiplexed: isMultiplexed)
        let code =
            [CURLE_HTTP2, CURLE_HTTP2_STREAM, CURLE_SEND_ERROR, CURLE_OPERATION_TIMEDOUT]
            .randomElement(using: &random) ?? CURLE_HTTP2
        guard let left = machine.timeToRepeat(after: code, loss, now) else {
            if isRefusedStream { mayHaveHadEffect = true }
            return
        }
        check(code != CURLE_OPERATION_TIMEDOUT, "repeated after a timeout")
        check(rules.isIdempotent || isProvablyUnprocessed || isRefusedStream, "a processed request was replayed")
        check((left == 0) == (rules.timeout == 0) && left <= rules.timeout, "\(left) ms are left")
        check(!isRefused, "a stopped request was repeated")
        machine.repeated(now)
        (sent, isConnected, quietSince, mayHaveHadEffect) = (0, false, nil, false)
    }

    private func moved() { if !isSuspended, !isReaderBehind { quietSince = now } }

    private func headLine() -> Bool {
        guard isConnected || isOver else { return false }
        let isTaken = machine.receivedHeadLine(now)
        check(isTaken == !(isOver || isRefused), "a line was \(isTaken ? "" : "not ")taken")
        if isTaken {
            hasHead = true
            moved()
        }
        return isTaken
    }

    private func head() {
        guard !hasFinalHead, headLine() else { return }
        hasFinalHead = true
        let head = TransferMachine.Head(
            status: [200, 204, 302, 302, 401, 404, 407].randomElement(using: &random) ?? 200,
            contentLength: [nil, 10, 5000, 70_000, 1 << 40].randomElement(using: &random) ?? nil,
            isCoded: chance(20), isFollowed: false)
        var followed = head
        followed.isFollowed = head.status == 302 && chance(80)
        let wasStream = machine.isStream
        switch machine.receivedHead(followed, now) {
        case .wait: check(!followed.isFollowed, "a redirect got no drain time")
        case .answer:
            check(machine.isStream && (wasStream || followed.isFollowed), "answered before its body")
            answer()
        case .checkSilence(let time):
            check(followed.isFollowed && time > now, "the status \(head.status) got a drain time")
            drainEnd = time
        case .bodyTooLarge:
            check((head.contentLength ?? 0) > rules.maxBodySize, "\(head) was refused as too large")
            isRefused = true
        }
    }

    private func body() {
        guard hasHead || isOver else { return }
        let count = [1, 1000, 16_384, 70_000].randomElement(using: &random) ?? 1
        let readerIsBehind = !isOver && machine.isStream && machine.phase == .running && chance(30)
        let (before, hadAnswer) = (machine.bodyByteCount, machine.hasAnswered)
        switch machine.receivedBody(count, now, isReaderBehind: readerIsBehind, coded: Int64(count)) {
        case .refuse: return check(isOver || isRefused, "bytes were refused")
        case .drop: check(rules.hasHTTPProxy && machine.status == 407, "bytes were dropped")
        case .pause:
            check(readerIsBehind && machine.bodyByteCount == before, "paused after keeping bytes")
            (isReaderBehind, toldPause, quietSince) = (true, .receiving, nil)
            return
        case .keep:
            check(!machine.isStream || hadAnswer, "bytes of an undelivered stream were kept")
            check(machine.bodyByteCount <= rules.maxBodySize, "more than its limit was kept")
        case .answerAndKeep:
            check(machine.isStream && !hadAnswer, "delivered for the second time or before a collected body")
            check(machine.bodyByteCount <= rules.maxBodySize, "more than its limit was kept")
            answer()
        case .bodyTooLarge:
            check(machine.bodyByteCount > rules.maxBodySize, "a body within its limit was refused as too large")
            isRefused = true
        case .decompressionBomb: isRefused = true
        }
        if !isOver { moved() }
    }

    private func send() {
        guard isConnected || isOver else { return }
        switch machine.sending {
        case .refuse: check(isOver || isRefused, "sending was refused")
        case .end: check(machine.status >= 300 && rules.readsBody, "sending was ended")
        case .read:
            check(!isOver && !isRefused, "an ended or refused request sent bytes")
            machine.sent(10, now)
            moved()
        }
    }

    // MARK: Time

    private func checkSilence() {
        guard machine.phase == .running || isOver else { return }
        switch machine.checkSilence(now) {
        case .never: check(isOver || rules.idleTimeout == 0, "no idle check is planned")
        case .again(let time):
            check(!isOver && time > now, "the next idle check is in the past")
            if let quietSince, rules.idleTimeout > 0 {
                check(now < quietSince + rules.idleTimeout, "the idle timeout since \(quietSince) was missed at \(now)")
            }
        case .silent(let mayBeInKernel):
            check(
                quietSince.map { $0 + rules.idleTimeout <= now } ?? false,
                "the idle timeout came too early; idle since \(String(describing: quietSince))")
            if machine.checkedBuffer(unsent: mayBeInKernel ? .random(in: 0...3, using: &random) : nil, now) == nil {
                finish()
            } else {
                check(mayBeInKernel, "a wait for unsent bytes that the kernel cannot have")
                quietSince = now
            }
        case .answer:
            check(!isOver && machine.isStream, "a collected or ended response was delivered by the drain time")
            check(drainEnd.map { $0 <= now } ?? false, "delivered before the drain time")
            answer()
        }
    }

    private func progress() {
        let completed = Int64.random(in: 0...50, using: &random) * 1000
        guard let report = machine.progressed(completed, of: 50_000, now) else { return }
        check(machine.phase == .running, "progress in \(machine.phase)")
        check(report.completed <= completed, "\(report.completed) of \(completed)")
        if let last = lastReport {
            check(report.completed >= last.completed, "progress went back")
            check(
                report.completed == report.total || now >= last.time + TransferMachine.progressInterval,
                "progress was reported too often")
        }
        lastReport = (report.completed, now)
    }

    private func conclude() {
        let isSuccess = chance(50)
        switch machine.concluded(isSuccess: isSuccess, hasHead: hasHead) {
        case .answer: check(isSuccess && hasHead && !isRefused, "a failure was delivered as a response")
        case .proxyRefusal: check(isSuccess && rules.hasHTTPProxy && machine.status == 407, "no proxy refused it")
        case .stopped: check(isRefused, "stopped without a reason")
        case .failed: check(!isRefused && (!isSuccess || !hasHead), "a response was delivered as a failure")
        }
        finish()
    }
}

@Suite struct TransferMachineTests {
    @Test(arguments: 0..<8) func randomEventsKeepTheInvariants(batch: UInt64) {
        var faults: [String] = []
        for seed in 0..<600 where faults.isEmpty {
            let life = Life(seed: batch << 32 | UInt64(seed))
            life.live(steps: 60 + seed % 240)
            faults = life.faults.map { "seed \(seed): \($0)" }
        }
        #expect(faults.isEmpty)
    }
}
