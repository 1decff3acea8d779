import CLibcurl
import HTTPCore
import Platform

/// The life of one transfer as a value: what has happened to it, and what is to be done next.
///
/// The engine tells it events and carries out the action that each returns. It holds no handle, no bytes, no error and
/// nobody who waits, calls nothing and reads no clock, so whole lives are tested without a socket.
///
/// | phase | the transfer is | leaves by |
/// |---|---|---|
/// | `new` | with its caller | ``submitted(_:_:)`` |
/// | `held` | suspended before it started | ``updated(_:_:isReaderBehind:)`` |
/// | `waiting` | in the queue of its host | ``updated(_:_:isReaderBehind:)``, ``started(_:)`` |
/// | `running` | with libcurl: ``connectionIsReady(_:opened:sent:isRefused:isMultiplexed:)``, ``headLineCame(_:)``, ``headCame(_:_:)``, ``bodyCame(_:_:isReaderBehind:coded:)``, ``look(_:)``, ``progressed(_:_:)``, ``timeToRepeat(after:_:_:)`` | ``concluded(isWell:hasHead:)`` |
/// | `over` | done: nothing is taken in any more, nothing is told | |
///
/// Any phase is left by ``cancelled()`` and ``ended()``, which gives the caller his one answer, unless ``answers()``
/// gave it before: a stream's at its head.
struct TransferMachine: Sendable {
    /// What request and plan say, for the whole of a life.
    struct Rules: Sendable {
        /// In milliseconds; 0 stands for none.
        var timeout: Int64 = 0
        var idleTimeout: Int64 = 0
        var maxBodySize = Int64.max
        var maxDecompressionRatio = Int64.max
        var isIdempotent = true
        /// Whether the answer has no body whatever it announces: that to `HEAD`.
        var hasNoContent = false
        var decompresses = false
        /// Whether libcurl answers a 401 by itself, so that more than one response may come.
        var mayBeChallenged = false
        /// Whether a 407 is a proxy's word (RFC 9110 §15.5.8).
        var hasHTTPProxy = false
        var hasBody = false
        /// Whether the body is read from a source, and not given to libcurl whole.
        var readsBody = false

        /// Whether libcurl may answer a head of this status by itself, so that another one follows.
        func libcurlMayAskAgain(_ status: Int) -> Bool { status == 401 && mayBeChallenged || status == 407 }

        /// Whether a head of this status is a proxy's word.
        func isProxyRefusal(_ status: Int) -> Bool { status == 407 && hasHTTPProxy }
    }

    enum Phase: Sendable { case new, held, waiting, running, over }

    // Changed by the machine's own methods only, some of which stand in another file.

    let rules: Rules
    private(set) var phase = Phase.new
    /// Whether the body is handed out while it comes.
    var isStream: Bool
    private(set) var hasAnswered = false
    /// The engine has found a reason to end it; libcurl is refused everything until it does.
    var isStopped = false
    private var isCancelledEarly = false
    private(set) var isSuspended = false
    /// The reader of a stream is behind.
    var isPaused = false
    /// What it waits with: the request's own, or what the owner raised it to.
    private(set) var priority: RequestPriority

    private(set) var submittedAt = MonotonicTime(nanoseconds: 0)
    private(set) var startedAt = MonotonicTime(nanoseconds: 0)
    /// When the request was last given to libcurl.
    private(set) var attemptStartedAt = MonotonicTime(nanoseconds: 0)
    /// When the first byte of a head was there.
    var firstByteAt: MonotonicTime?
    /// When a byte last moved; `nil` before the connection stands.
    var lastActivity: MonotonicTime?
    /// What lay in the kernel's send buffer at the last look.
    private var unsentBytes = 0

    /// The connections that the request went to.
    var attempts = Attempts()

    /// The status of the last head that was not interim; 0 before one.
    var status = 0
    /// What `Content-Length` says of the body as it is handed on; `nil` when it says nothing, or counts coded bytes.
    var announcedBodySize: Int64?
    /// Whether a compression is taken off the body.
    var isDecoded = false
    /// How many bytes of the body have come, after decoding.
    var bodyByteCount: Int64 = 0
    /// How long the body of a redirect that is followed may still take; `nil` for any other body.
    var drainsUntil: MonotonicTime?
    /// The server has answered with a refusal; what is left of the body is not sent.
    var stopsSending = false
    /// What the body's source has given so far.
    var sourceBytes: Int64 = 0
    var lastProgress: (value: TransferProgress, time: MonotonicTime)?

    /// The body of a redirect that is followed is waited for up to so many bytes and milliseconds after its head, since
    /// its connection can then carry the next request. Beyond, another connection costs less.
    static let drainBytes: Int64 = 64 << 10
    static let drainTime: Int64 = 250
    /// The decoded bytes that may come before the ratio to the coded ones is looked at.
    static let decompressionGrace: Int64 = 32 << 20
    /// As ``decompressionGrace``, for the body of an error: many may come at once, and nobody waits for more of them. So much
    /// of one may also wait for its reader.
    static let errorGrace = 1 << 20
    /// The least time between two reports of progress, in milliseconds: what a person sees as motion.
    static let progressInterval: Int64 = 50

    init(_ rules: Rules, isStream: Bool = false, priority: RequestPriority = .normal) {
        self.rules = rules
        self.isStream = isStream
        self.priority = priority
    }

    // MARK: Starting and ending

    enum Submission: Sendable { case ignore, admit, hold, cancel }

    /// The engine has it now, and may answer its caller.
    mutating func submitted(_ standing: TransferStanding?, _ now: MonotonicTime) -> Submission {
        guard phase == .new else { return .ignore }
        phase = .held
        submittedAt = now
        guard !isCancelledEarly else { return .cancel }
        guard let standing else { return .admit }
        guard !standing.isCancelled else { return .cancel }
        isSuspended = standing.isSuspended
        priority = max(standing.priority, priority)
        return isSuspended ? .hold : .admit
    }

    /// It waits for its turn at its host.
    mutating func queued() { if phase == .held { phase = .waiting } }

    /// It goes to libcurl.
    ///
    /// - Returns: when to look for silence, if ever.
    mutating func started(_ now: MonotonicTime) -> MonotonicTime? {
        phase = .running
        startedAt = now
        attemptStartedAt = now
        return rules.idleTimeout > 0 ? now + rules.idleTimeout : nil
    }

    /// Whether a cancellation ends it now. One that overtook the submission is remembered for it.
    mutating func cancelled() -> Bool {
        if phase == .new { isCancelledEarly = true }
        return phase != .new && phase != .over
    }

    /// It is over, well or not: the first time with what has to be undone, never again.
    mutating func ended() -> (from: Phase, answersCaller: Bool)? {
        guard phase != .over else { return nil }
        defer { phase = .over }
        isStopped = true
        return (phase, answers())
    }

    /// Whether the caller is to be answered now; so it is once.
    mutating func answers() -> Bool {
        defer { hasAnswered = true }
        return !hasAnswered
    }

    /// The engine has a reason of its own to end it.
    mutating func stop() { isStopped = true }

    enum Conclusion: Sendable {
        case answer
        /// A proxy's 407, for the caller is no party to it.
        case proxyRefusal
        /// The reason it was stopped for.
        case stopped
        /// What libcurl says.
        case failed
    }

    /// libcurl is through with it.
    ///
    /// - Parameter hasHead: Whether the last head is whole.
    func concluded(isWell: Bool, hasHead: Bool) -> Conclusion {
        if isStopped { return .stopped }
        guard isWell, hasHead else { return .failed }
        return isProxyRefusal ? .proxyRefusal : .answer
    }

    // MARK: Suspending and pausing

    enum Update: Sendable {
        case nothing
        case cancel
        /// Out of those that are held, and into the queue.
        case admit
        /// Out of the queue, where it waits with this priority, and to those that are held…
        case hold(RequestPriority)
        /// …or to the end of a higher one.
        case requeue(RequestPriority)
        case pause(Pause)
    }

    /// What libcurl is told to leave alone.
    enum Pause: Sendable { case none, receiving, all }

    var pause: Pause { isSuspended ? .all : isPaused ? .receiving : .none }

    /// Something about it has changed: its owner's standing, how far its reader is, what its source has.
    mutating func updated(
        _ standing: TransferStanding?, _ now: MonotonicTime, isReaderBehind: @autoclosure () -> Bool
    ) -> Update {
        // What a new one is told is read again when it is submitted.
        guard phase != .over, phase != .new || standing?.isCancelled == true else { return .nothing }
        let before = priority
        if let standing {
            if standing.isCancelled { return .cancel }
            priority = max(standing.priority, priority)
        }
        let wasStill = isSuspended || isPaused
        isSuspended = standing?.isSuspended ?? false
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

    /// A rate lets it go on.
    mutating func goesOn(_ now: MonotonicTime) { if lastActivity != nil { lastActivity = now } }

    // MARK: The connection

    enum Readiness: Sendable {
        case go
        /// As ``go``, but it is suspended: libcurl can be told so only now.
        case goPaused
        /// The request may have had its effect on the connection before.
        case refuse
    }

    /// A connection stands and the request is about to go out on it. What it asks for is as in
    /// ``Attempts/mayUseConnection(_:opened:sent:isRefused:isMultiplexed:)``.
    mutating func connectionIsReady(
        _ now: MonotonicTime, opened: @autoclosure () -> Int, sent: @autoclosure () -> Int, isRefused: Bool = false,
        isMultiplexed: @autoclosure () -> Bool
    ) -> Readiness {
        guard !isStopped else { return .refuse }
        lastActivity = now
        let isAllowed = attempts.mayUseConnection(
            rules, opened: opened(), sent: sent(), isRefused: isRefused, isMultiplexed: isMultiplexed())
        guard isAllowed else {
            isStopped = true
            return .refuse
        }
        return isSuspended ? .goPaused : .go
    }

    /// Whether the request may go out again after a failure: nothing of a response came.
    var mayRepeat: Bool { phase == .running && !isStopped && attempts.connectionsUsed > 0 && firstByteAt == nil }

    /// Whether the engine sends the request again that libcurl gave up with `code`, and what time is left for that.
    ///
    /// - Returns: milliseconds, 0 for no end; `nil` when it is not sent again.
    func timeToRepeat(after code: CURLcode, _ loss: Attempts.Loss, _ now: MonotonicTime) -> Int64? {
        guard mayRepeat, attempts.allowsReplay(after: code, loss, rules) else { return nil }
        guard rules.timeout > 0 else { return 0 }
        let left = rules.timeout - (now.nanoseconds - startedAt.nanoseconds) / 1_000_000
        return left > 0 ? left : nil
    }

    /// The engine sends the request again: the attempt before is forgotten.
    mutating func repeated(_ now: MonotonicTime) {
        attempts.replayed()
        sourceBytes = 0
        lastActivity = nil
        attemptStartedAt = now
    }

    // MARK: Silence

    enum Look: Hashable, Sendable {
        case never
        case again(MonotonicTime)
        /// Too long nothing has come or gone. With `inKernel` the end of the request's body may still be on its way out of
        /// the kernel's buffer, where libcurl cannot see it move: ``looked(unsent:_:)`` says.
        case silent(inKernel: Bool)
        /// The body of a redirect has had its time: the caller is answered now.
        case answer
    }

    /// Whether it has been silent too long. Before the connection stands its own timeout rules; while somebody here holds
    /// the transfer, none does.
    ///
    /// - Parameter isThrottled: Whether it waits for a rate.
    mutating func look(_ now: MonotonicTime, isThrottled: Bool = false) -> Look {
        guard phase == .running else { return .never }
        let isStill = pause != .none || isThrottled
        if let end = drainsUntil {
            if isStill {
                drainsUntil = now + Self.drainTime
            } else if end <= now {
                goOnAtHead()
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

    /// What lies in the kernel's send buffer, for one that seems silent. Returns when to look again; `nil` when nothing moves
    /// there either.
    mutating func looked(unsent: Int, _ now: MonotonicTime) -> MonotonicTime? {
        defer { unsentBytes = unsent }
        guard unsent > 0, unsent != unsentBytes else { return nil }
        lastActivity = now
        return now + rules.idleTimeout
    }
}
