import CLibcurl
internal import HTTPCore
import Platform

/// The life of one transfer as a state machine without I/O.
///
/// The engine passes in events and performs the action that each returns. The machine holds no handle, no bytes, no
/// error and no continuation, calls nothing and reads no clock, so whole lives are tested without a socket.
///
/// | phase | the transfer is | leaves by |
/// |---|---|---|
/// | `new` | with its caller | ``submitted(_:_:)`` |
/// | `held` | suspended before it started | ``updated(_:_:isReaderBehind:)`` |
/// | `waiting` | in the queue of its host | ``updated(_:_:isReaderBehind:)``, ``started(_:)`` |
/// | `running` | with libcurl: ``connectionIsReady(_:sent:refusal:isMultiplexed:)``, ``receivedHeadLine(_:)``, ``receivedHead(_:_:)``, ``receivedBody(_:_:isReaderBehind:coded:)``, ``checkSilence(_:isThrottled:)``, ``progressed(_:of:_:)``, ``timeToRepeat(after:_:_:)`` | ``concluded(isSuccess:hasHead:)`` |
/// | `over` | done: all events are ignored | |
///
/// ``ended()`` ends any phase and says whether the caller must still be answered. The caller of a stream was answered at
/// its head (``answers()``).
struct TransferMachine: Sendable {
    /// The rules that request and plan set for the whole life of a transfer.
    struct Rules: Sendable {
        /// In milliseconds; 0 for none.
        var timeout: Int64 = 0
        var idleTimeout: Int64 = 0
        var maxBodySize = Int64.max
        var maxDecompressionRatio = Int64.max
        var isIdempotent = true
        /// Whether the response has no body even if it announces one, as for `HEAD`.
        var hasNoContent = false
        var decompresses = false
        /// Whether libcurl answers a 401 by itself, so that more than one response may arrive.
        var mayBeChallenged = false
        /// Whether a 407 comes from a proxy (RFC 9110 §15.5.8).
        var hasHTTPProxy = false
        var hasBody = false
        /// Whether the body is read from one source: it is neither multipart nor given to libcurl as a whole.
        var readsBody = false
        /// Whether the connection carries another protocol after a 101.
        var upgrades = false
        /// Whether the request asks for `100 Continue` (RFC 9110 §10.1.1).
        var expects = false

        /// Whether libcurl may answer a response of this status by itself, so that another one follows.
        func mayBeRetriedByLibcurl(_ status: Int) -> Bool { status == 401 && mayBeChallenged || status == 407 }

        /// Whether a response of this status has no body, even if it announces one (RFC 9112 §6.3).
        func hasNoBody(_ status: Int) -> Bool { hasNoContent || status == 204 || status == 304 }

        /// Whether a response of this status is a proxy's 407.
        func isProxyRefusal(_ status: Int) -> Bool { status == 407 && hasHTTPProxy }
    }

    enum Phase: Sendable { case new, held, waiting, running, over }

    // Only the machine's own methods change these; some of them are in another file.

    let rules: Rules
    private(set) var phase = Phase.new
    /// Whether the body is delivered as a stream.
    var isStream: Bool
    private(set) var hasAnswered = false
    /// Whether the engine has decided to end the transfer. From then on libcurl's callbacks are refused.
    var isStopped = false
    private var isCancelledEarly = false
    private(set) var isSuspended = false
    /// Whether the reader of a stream is behind.
    var isPaused = false
    /// The priority in the queue: the request's own, or a higher one from the owner.
    private(set) var priority: RequestPriority

    private(set) var submittedAt = MonotonicTime(nanoseconds: 0)
    private(set) var startedAt = MonotonicTime(nanoseconds: 0)
    /// When the request was last given to libcurl.
    private(set) var attemptStartedAt = MonotonicTime(nanoseconds: 0)
    /// When the first byte of a head arrived.
    var firstByteAt: MonotonicTime?
    /// When a byte last moved; `nil` before the connection is established.
    var lastActivity: MonotonicTime?
    /// The bytes in the kernel's send buffer at the last check.
    private var unsentBytes = 0

    var attempts = Attempts()

    /// The status of the last final response; 0 before its head is complete.
    var status = 0
    /// The size of the body from `Content-Length`; `nil` when there is none, or when it counts coded bytes.
    var announcedBodySize: Int64?
    /// Whether the body is decoded.
    var isDecoded = false
    /// How many bytes of the body have arrived, after decoding.
    var bodyByteCount: Int64 = 0
    /// Until when the body of a followed redirect is read; `nil` for any other body.
    var drainsUntil: MonotonicTime?
    /// Whether the rest of the request body is not sent: the status is 300 or above, the server refused an upgrade, or
    /// the peer has closed the connection of an upgrade.
    var stopsSending = false
    /// Whether the whole response has arrived although the request has not been sent, so that ``checkUpload(_:_:)`` may end it.
    var isAnsweredEarly = false
    /// Whether the server has refused the expectation of the request (417), which is sent again without it.
    var hasDroppedExpectation = false
    /// Whether the body's source has no bytes now.
    var waitsForSource = false
    /// What of the request's body had left at the last ``checkUpload(_:_:)``, and until when more of it has to leave.
    private var lastUpload = (left: Int64(-1), end: MonotonicTime.distantFuture)
    /// Whether the request for an upgrade was sent and has no answer yet.
    var waitsForUpgrade = false
    /// Whether the connection carries another protocol now.
    var isUpgraded: Bool { rules.upgrades && status == 101 }
    /// How many bytes the body's source has provided so far.
    var sourceBytes: Int64 = 0
    /// Whether the request begins again, so that its body must begin again too.
    var mustRewind = false
    var lastProgress: (value: TransferProgress, time: MonotonicTime)?

    /// How many bytes of a followed redirect's body are read, and for how many milliseconds after its head, so that its
    /// connection can carry the next request. Beyond that, a new connection costs less.
    static let drainBytes: Int64 = 64 << 10
    static let drainTime: Int64 = 250
    /// How long an upload may stand after its whole response, in milliseconds, before the call ends.
    static let uploadStall: Int64 = 1000
    /// How many decoded bytes may arrive before the decompression ratio is checked.
    static let decompressionGrace: Int64 = 32 << 20
    /// The same for the body of an error, lower because many errors may arrive at once.
    static let errorGrace: Int64 = 1 << 20
    /// The minimum time between two progress reports, in milliseconds; short enough to look continuous.
    static let progressInterval: Int64 = 50

    init(_ rules: Rules, isStream: Bool = false, priority: RequestPriority = .normal) {
        self.rules = rules
        self.isStream = isStream
        self.priority = priority
    }

    // MARK: Starting and ending

    enum Submission: Sendable { case ignore, admit, hold, cancel }

    /// Records that the engine has received the transfer. Returns what to do with it.
    mutating func submitted(_ state: TransferState?, _ now: MonotonicTime) -> Submission {
        guard phase == .new else { return .ignore }
        phase = .held
        submittedAt = now
        guard !isCancelledEarly else { return .cancel }
        guard let state else { return .admit }
        guard !state.isCancelled else { return .cancel }
        isSuspended = state.isSuspended
        priority = max(state.priority, priority)
        return isSuspended ? .hold : .admit
    }

    /// Records that the transfer waits in the queue of its host.
    mutating func queued() { if phase == .held { phase = .waiting } }

    /// Records that the transfer goes to libcurl.
    ///
    /// - Returns: The time of its first idle check; `nil` without an idle timeout.
    mutating func started(_ now: MonotonicTime) -> MonotonicTime? {
        phase = .running
        startedAt = now
        attemptStartedAt = now
        return rules.idleTimeout > 0 ? now + rules.idleTimeout : nil
    }

    /// Records a cancellation. Returns whether it ends the transfer now. A cancellation before the submission takes
    /// effect at the submission.
    mutating func cancelled() -> Bool {
        if phase == .new { isCancelledEarly = true }
        return phase != .new && phase != .over
    }

    /// Ends the transfer. Returns the phase to clean up, and whether to answer the caller; `nil` if it had ended before.
    mutating func ended() -> (from: Phase, answersCaller: Bool)? {
        guard phase != .over else { return nil }
        defer { phase = .over }
        isStopped = true
        return (phase, answers())
    }

    /// Returns whether to answer the caller now: `true` only at the first call.
    mutating func answers() -> Bool {
        defer { hasAnswered = true }
        return !hasAnswered
    }

    mutating func stop() { isStopped = true }

    /// Like ``stop()``. Returns the action.
    mutating func stop<Action>(_ action: Action) -> Action {
        isStopped = true
        return action
    }

    enum Conclusion: Sendable {
        case answer
        /// A proxy's 407, which is an error of the proxy.
        case proxyRefusal
        /// The engine decided to end it.
        case stopped
        /// libcurl ended it with an error.
        case failed
    }

    /// Returns the result of a transfer that libcurl has finished.
    ///
    /// - Parameter hasHead: Whether the last head is complete.
    func concluded(isSuccess: Bool, hasHead: Bool) -> Conclusion {
        if isStopped { return .stopped }
        guard isSuccess, hasHead else { return .failed }
        return isProxyRefusal ? .proxyRefusal : .answer
    }

    // MARK: Suspending and pausing

    enum Update: Sendable {
        case nothing
        case cancel
        /// Move it from the held transfers to the queue.
        case admit
        /// Move it from the queue, where it has this priority, to the held transfers.
        case hold(RequestPriority)
        /// Move it within the queue, from this priority to the end of its new one.
        case requeue(RequestPriority)
        case pause(Pause)
    }

    /// What libcurl has to pause.
    enum Pause: Sendable { case none, receiving, all }

    var pause: Pause { isSuspended ? .all : isPaused ? .receiving : .none }

    /// Records a change of the owner's state, the reader's position or the source's state. Returns what to do.
    mutating func updated(
        _ state: TransferState?, _ now: MonotonicTime, isReaderBehind: @autoclosure () -> Bool
    ) -> Update {
        // For a new transfer, the owner's state is read when it is submitted.
        guard phase != .over, phase != .new || state?.isCancelled == true else { return .nothing }
        let before = priority
        if let state {
            if state.isCancelled { return .cancel }
            priority = max(state.priority, priority)
        }
        let wasStill = isSuspended || isPaused
        isSuspended = state?.isSuspended ?? false
        switch phase {
        case .held: return isSuspended ? .nothing : .admit
        case .waiting where isSuspended:
            phase = .held
            return .hold(before)
        case .waiting: return priority > before ? .requeue(before) : .nothing
        default:
            isPaused = isReaderBehind()
            if wasStill, pause == .none, lastActivity != nil { lastActivity = now }
            return .pause(pause)
        }
    }

    /// Records that a rate limit lets the transfer continue.
    mutating func throttleEnded(_ now: MonotonicTime) { if lastActivity != nil { lastActivity = now } }

    // MARK: The connection

    enum Readiness: Sendable {
        case send
        /// Like ``send``, but the transfer is suspended, and libcurl accepts the pause only now.
        case sendPaused
        /// The request may have been processed on the previous connection.
        case refuse
        /// Its response had begun on the previous connection.
        case hasResponse
    }

    /// Records that a connection is ready. Returns whether the request may be sent on it. The parameters are those of
    /// ``Attempts/mayUseConnection(_:sent:refusal:isMultiplexed:)``.
    mutating func connectionIsReady(
        _ now: MonotonicTime, sent: @autoclosure () -> Int, refusal: StreamRefusal = StreamRefusal(),
        isMultiplexed: @autoclosure () -> Bool
    ) -> Readiness {
        guard !isStopped else { return .refuse }
        lastActivity = now
        // After a final response, libcurl answers a challenge. It also begins again when the stream of a response is reset with
        // HTTP_1_1_REQUIRED.
        guard !attempts.hasHead || bodyByteCount == 0 && rules.mayBeRetriedByLibcurl(status) else {
            return stop(.hasResponse)
        }
        let isAllowed = attempts.mayUseConnection(
            rules, sent: sent(), refusal: refusal, isMultiplexed: isMultiplexed())
        guard isAllowed else { return stop(.refuse) }
        mustRewind = sourceBytes > 0
        return isSuspended ? .sendPaused : .send
    }

    /// Whether the request may be sent again after a failure: no response has begun.
    var mayRepeat: Bool { phase == .running && !isStopped && attempts.connectionsUsed > 0 && firstByteAt == nil }

    /// Decides whether the engine sends the request again after libcurl gave up on it with `code`.
    ///
    /// - Returns: The milliseconds left for it, 0 for no limit; `nil` when it is not sent again.
    func timeToRepeat(after code: CURLcode, _ loss: Attempts.Loss, _ now: MonotonicTime) -> Int64? {
        guard mayRepeat, attempts.allowsReplay(after: code, loss, rules) else { return nil }
        return timeLeft(now)
    }

    /// The milliseconds left for the transfer, 0 for no limit; `nil` when its time is over.
    func timeLeft(_ now: MonotonicTime) -> Int64? {
        guard rules.timeout > 0 else { return 0 }
        let left = rules.timeout - (now.nanoseconds - startedAt.nanoseconds) / 1_000_000
        return left > 0 ? left : nil
    }

    /// Records that the transfer is begun again after libcurl has listed the addresses of its host.
    ///
    /// - Returns: The milliseconds left for it, 0 for no limit, and those that have passed; `nil` when its time is over.
    mutating func listedAddresses(_ now: MonotonicTime) -> (left: Int64, passed: Int64)? {
        guard phase == .running, !isStopped, let left = timeLeft(now) else { return nil }
        defer { attemptStartedAt = now }
        return (left, attemptStartedAt.milliseconds(until: now))
    }

    /// Records that the engine sends the request again, and starts a new attempt.
    mutating func repeated(_ now: MonotonicTime) {
        attempts.replayed()
        sourceBytes = 0
        mustRewind = false
        lastActivity = nil
        attemptStartedAt = now
    }

    /// Records that the engine answers a challenge, or drops an expectation, like ``repeated(_:)``.
    mutating func challenged(_ now: MonotonicTime) {
        repeated(now)
        firstByteAt = nil
        status = 0
    }

    // MARK: Silence

    enum SilenceCheck: Hashable, Sendable {
        case never
        case again(MonotonicTime)
        /// Nothing has moved for too long. With `inKernel`, the kernel may still be sending the end of the request body
        /// from its buffer, which libcurl cannot see. Then ``checkedBuffer(unsent:_:)`` decides.
        case silent(inKernel: Bool)
        /// The time for the body of a redirect is over: answer the caller now.
        case answer
    }

    /// Checks whether the transfer has been silent for too long. Before the connection is established, the connect
    /// timeout applies instead; while the engine pauses the transfer, neither applies.
    ///
    /// - Parameter isThrottled: Whether it waits for a rate limit.
    mutating func checkSilence(_ now: MonotonicTime, isThrottled: Bool = false) -> SilenceCheck {
        // After an upgrade, the other protocol has its own rules for silence.
        guard phase == .running, !isUpgraded else { return .never }
        let isStill = pause != .none || isThrottled
        if let end = drainsUntil {
            if isStill {
                drainsUntil = now + Self.drainTime
            } else if end <= now {
                answerAtHead()
                return .answer
            }
        }
        guard rules.idleTimeout > 0 else { return drainsUntil.map { .again($0) } ?? .never }
        var next = now + rules.idleTimeout
        if let lastActivity, !isStill {
            next = lastActivity + rules.idleTimeout
            if next <= now { return .silent(inKernel: rules.hasBody && firstByteAt == nil) }
        }
        return .again(min(next, drainsUntil ?? next))
    }

    /// Checks whether the upload of a transfer whose whole response has arrived goes on. Returns when to check again; `nil` if
    /// it stands, and the response is the result.
    ///
    /// - Parameter left: The bytes of the body that have left, in libcurl's count and minus those in the kernel's buffer.
    mutating func checkUpload(_ left: Int64, _ now: MonotonicTime) -> MonotonicTime? {
        if left != lastUpload.left || waitsForSource || pause != .none { lastUpload = (left, now + Self.uploadStall) }
        return now < lastUpload.end ? lastUpload.end : nil
    }

    /// Checks whether bytes of a transfer that seems silent have left the kernel's send buffer since the last check.
    /// Returns when to check again; `nil` when nothing has moved there either.
    ///
    /// - Parameter unsent: The bytes in the buffer; `nil` when the kernel sends nothing of this transfer any more.
    mutating func checkedBuffer(unsent: Int?, _ now: MonotonicTime) -> MonotonicTime? {
        defer { unsentBytes = unsent ?? 0 }
        guard let unsent, unsent != unsentBytes else { return nil }
        lastActivity = now
        return now + rules.idleTimeout
    }
}
