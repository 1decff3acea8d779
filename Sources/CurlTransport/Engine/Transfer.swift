import FoundationEssentials
import HTTPCore
import Synchronization

/// One request on its way through the engine, from submission to its end.
///
/// It is made and checked on the caller's thread, handed over through the
/// mailbox, and from then on touched by the engine's thread only. Commands
/// name it by reference, so a later request can never be taken for it.
final class Transfer: @unchecked Sendable, Hashable, TransferListener {
    // Sendable: every `var` is written before the hand-over (which the mailbox's lock orders) or by the engine's
    // thread after it. That is also why they go without Swift's run-time check of exclusive access.

    let request: HTTPRequest
    /// Whose transfer it is; `nil` for one that nobody switches.
    let owner: (any TransferOwner)?
    let target: Target
    let plan: TransferPlan
    /// Set when the body is handed out while it arrives.
    let pipe: BodyPipe?

    /// Who waits for the answer.
    typealias Caller = UnsafeContinuation<HTTPResponse, any Error>

    @exclusivity(unchecked) private var continuation: Caller?
    @exclusivity(unchecked) private(set) var phase = Phase.new
    /// The handle that carries it while it runs.
    @exclusivity(unchecked) var handle: EasyHandle?
    /// Where it is counted in the queue of its host.
    @exclusivity(unchecked) var place: AdmissionQueue<Transfer>.Place?
    /// Why the engine itself stopped it; wins over what libcurl says of the consequences.
    @exclusivity(unchecked) var failure: NetworkError?
    /// Where it was kept from connecting to; the error, should it come nowhere else.
    @exclusivity(unchecked) var blockedAddress: NetworkError?
    @exclusivity(unchecked) var isSuspended = false
    /// The reader of a stream is behind, or the transfer is held by the caller.
    @exclusivity(unchecked) var isPaused = false
    /// Its trailers were said, which libcurl can do once.
    @exclusivity(unchecked) var hasMadeTrailers = false
    /// What its own rates allow, when it has some.
    @exclusivity(unchecked) var receiveBudget: ByteBudget?
    @exclusivity(unchecked) var sendBudget: ByteBudget?
    /// It waits for a rate: its own, or that of all transfers.
    @exclusivity(unchecked) var isThrottled = false
    @exclusivity(unchecked) var hasNewChunks = false
    /// The server has answered with a refusal; what is left of the body is not sent.
    @exclusivity(unchecked) var stopsSending = false

    @exclusivity(unchecked) var submittedAt = MonotonicTime(nanoseconds: 0)
    @exclusivity(unchecked) var startedAt = MonotonicTime(nanoseconds: 0)
    /// When the first byte of a head was there.
    @exclusivity(unchecked) var firstByteAt: MonotonicTime?
    /// When a byte last moved; `nil` before the connection stands.
    @exclusivity(unchecked) var lastActivity: MonotonicTime?

    @exclusivity(unchecked) var head = ResponseHead()
    @exclusivity(unchecked) var body = Data()
    /// How much the caller has reserved for the body.
    @exclusivity(unchecked) private(set) var reservedBodySize = 0
    @exclusivity(unchecked) var bodyByteCount: Int64 = 0
    /// What the body's source has given so far.
    @exclusivity(unchecked) var sourceBytes: Int64 = 0
    /// How often a connection was ready for the request since the engine sent it last; libcurl's own repetitions count.
    @exclusivity(unchecked) var connectionsUsed = 0
    /// How often libcurl began again on another connection.
    @exclusivity(unchecked) var repetitions = 0
    /// What `CURLINFO_REQUEST_SIZE` was when the present connection was taken.
    @exclusivity(unchecked) var bytesSentBefore = 0
    /// What `CURLINFO_NUM_CONNECTS` was then; noted for methods that are not idempotent.
    @exclusivity(unchecked) var connectionsOpened = 0
    /// Whether the present connection was opened for this transfer; noted likewise.
    @exclusivity(unchecked) var isOnFreshConnection = false
    /// How often the engine sent the request again after libcurl gave it up.
    @exclusivity(unchecked) var replays = 0
    /// The connections used before the last of these.
    @exclusivity(unchecked) var connectionsUsedBefore = 0
    /// When the request was last given to libcurl.
    @exclusivity(unchecked) var attemptStartedAt = MonotonicTime(nanoseconds: 0)
    /// What lay in the kernel's send buffer at the last look.
    @exclusivity(unchecked) var unsentBytes = 0
    /// Whether any of a head came on the present connection.
    @exclusivity(unchecked) var hasHeadOnConnection = false
    /// What has to live as long as somebody reads the body.
    @exclusivity(unchecked) var keepAlive: (any AnyObject & Sendable)?
    @exclusivity(unchecked) var lastProgress: (value: TransferProgress, time: MonotonicTime)?

    /// Where the engine is told that the owner's standing has changed; set when there is an owner.
    @exclusivity(unchecked) var mailbox: Mailbox<Engine.Command>?
    /// What it waits with: the request's own, or what the caller raised it to.
    @exclusivity(unchecked) var priority: RequestPriority

    /// A cancellation overtook the submission.
    @exclusivity(unchecked) var isCancelledEarly = false

    enum Phase {
        /// With the caller; the engine may not touch the continuation yet.
        case new
        /// With the engine, but suspended by the caller.
        case held
        /// In the queue of its host.
        case waiting
        case running
        case over
    }

    init(
        request: HTTPRequest, owner: (any TransferOwner)? = nil, target: Target, plan: TransferPlan, pipe: BodyPipe?
    ) {
        self.request = request
        self.owner = owner
        self.target = target
        self.plan = plan
        self.pipe = pipe
        priority = request.priority
        guard pipe == nil else { return }
        // On the caller's thread, which also frees them: memory that crosses threads costs a lock in malloc.
        head.reserve()
        reservedBodySize = target.bodySizeHint
        if reservedBodySize > 0 { body.reserveCapacity(reservedBodySize) }
    }

    func standingDidChange() { mailbox?.post(.update(self)) }

    func setContinuation(_ continuation: Caller) {
        self.continuation = continuation
    }

    func setPhase(_ phase: Phase) { self.phase = phase }

    /// How many connections the request went to, at least one.
    var attempts: Int { max(1, connectionsUsedBefore + connectionsUsed) }

    /// Forgets an attempt of which no response came.
    func prepareReplay(_ now: MonotonicTime) {
        replays += 1
        connectionsUsedBefore += connectionsUsed
        connectionsUsed = 0
        repetitions = 0
        bytesSentBefore = 0
        connectionsOpened = 0
        sourceBytes = 0
        lastActivity = nil
        firstByteAt = nil
        attemptStartedAt = now
    }

    /// Whether the caller has its response already and only the body goes on.
    var hasAnswered: Bool { continuation == nil }

    /// Whether libcurl answers a challenge by itself, so that more than one response may come.
    var mayBeChallenged: Bool {
        switch request.authentication {
        case .digest, .any: true
        case .basic, .bearer, nil: false
        }
    }

    /// What `Content-Length` says of the body as it is handed on; `nil` when it says nothing, or counts coded bytes.
    var announcedBodySize: Int64? {
        // These have no body whatever they announce (RFC 9112 §6.3).
        guard request.method != .head, head.status != 204, head.status != 304 else { return nil }
        return plan.decompresses && head.isCoded ? nil : head.contentLength
    }

    /// Gives the caller its one answer; later calls do nothing.
    func answer(_ result: Result<HTTPResponse, NetworkError>) {
        if let caller = takeCaller() { Self.answer(caller, result) }
    }

    /// Who is to be given the answer, once; `nil` from then on.
    func takeCaller() -> Caller? {
        defer { continuation = nil }
        return continuation
    }

    static func answer(_ caller: Caller, _ result: Result<HTTPResponse, NetworkError>) {
        switch result {
        case .success(let response): caller.resume(returning: response)
        case .failure(let error): caller.resume(throwing: error)
        }
    }

    static func == (lhs: Transfer, rhs: Transfer) -> Bool { lhs === rhs }

    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// The numbers and choices of a transfer, taken from the request or else the
/// engine's configuration, checked before anything starts.
struct TransferPlan: Sendable {
    /// In milliseconds; 0 stands for none.
    var timeout: Int64
    var connectTimeout: Int64
    var idleTimeout: Int64
    var maxBodySize: Int64
    var maxDecompressionRatio: Int64
    /// What is sent, ready to be sent; `nil` for no body.
    var body: PreparedBody?
    /// The header lines for libcurl, among them those that take libcurl's defaults away.
    var headerLines: [String]
    /// Whether libcurl asks for compressed bodies and takes the compression off.
    var decompresses: Bool
    /// The proxy on the way; `nil` for none.
    var proxy: ProxySettings.Proxy?
    /// The keys one of which the server must have, for `CURLOPT_PINNEDPUBLICKEY`.
    var pins: String?
    /// Whether it has nothing to do with the manager's cookies.
    var ignoresCookies: Bool
    /// What is sent with the manager's cookies, in one field.
    var ownCookies: String?
    /// Set when only the connection is wanted.
    var warmUp: WarmUp?
    /// The address that stands in for the origin's.
    var alternative: AlternativeService?
    var maxConnectionsPerHost: Int
    /// In bytes per second.
    var maxReceiveRate: Int64?
    var maxSendRate: Int64?
    /// Whether there is a rate of its own.
    var isLimited: Bool { maxReceiveRate != nil || maxSendRate != nil }
    var progress: (@Sendable (TransferProgress) -> Void)?
    /// Whether a setting is used that handles do not carry from one request to the next.
    var needsReset: Bool

    /// The plan of a request that sets nothing of its own.
    init(_ configuration: EngineConfiguration) {
        timeout = configuration.timeout?.roundedUpMilliseconds ?? 0
        connectTimeout = configuration.connectTimeout.roundedUpMilliseconds
        idleTimeout = configuration.idleTimeout?.roundedUpMilliseconds ?? 0
        maxBodySize = configuration.maxBodySize
        maxDecompressionRatio = Int64(configuration.maxDecompressionRatio)
        headerLines = []
        decompresses = true
        ignoresCookies = false
        maxConnectionsPerHost = configuration.maxConnectionsPerHost
        needsReset = false
    }

    /// The coded bytes of a body that may be decoded before the ratio is looked at.
    static let decompressionGrace: Int64 = 32 << 20
}

/// What a request's own settings change of the standard plan, checked.
struct TransferSettings: Sendable {
    private let timeout: Int64?
    private let connectTimeout: Int64?
    private let idleTimeout: Int64?
    private let maxBodySize: Int64?
    private let maxConnectionsPerHost: Int?
    private let pins: String?
    private let maxReceiveRate: Int64?
    private let maxSendRate: Int64?
    private let needsReset: Bool

    /// - Throws: ``NetworkError/Kind/invalidRequest`` that names the setting.
    init(_ request: HTTPRequest) throws(NetworkError) {
        timeout = try RequestCheck.milliseconds(request.timeout, "timeout") ?? (request.streamsBody ? 0 : nil)
        connectTimeout = try RequestCheck.milliseconds(request.connectTimeout, "connectTimeout")
        idleTimeout = try RequestCheck.milliseconds(request.idleTimeout, "idleTimeout")
        if let size = request.maxBodySize, size < 0 {
            throw .invalidRequest("maxBodySize is \(size); it cannot be negative")
        }
        maxBodySize = request.maxBodySize ?? (request.streamsBody ? .max : nil)
        try RequestCheck.credentials(request.authentication)
        try RequestCheck.unixSocket(request.unixSocketPath)
        try RequestCheck.rate(request.maxReceiveRate, "maxReceiveRate")
        try RequestCheck.rate(request.maxSendRate, "maxSendRate")
        (maxReceiveRate, maxSendRate) = (request.maxReceiveRate, request.maxSendRate)
        maxConnectionsPerHost = request.maxConnectionsPerHost
        if let limit = maxConnectionsPerHost, limit <= 0 { throw RequestCheck.tooFewConnections(limit) }
        pins =
            request.pinnedPublicKeys.isEmpty
            ? nil : try TLSMaterial.joined(request.pinnedPublicKeys, "pinnedPublicKeys")
        needsReset = RequestCheck.needsReset(request)
    }

    func apply(to plan: inout TransferPlan) {
        if let timeout { plan.timeout = timeout }
        if let connectTimeout { plan.connectTimeout = connectTimeout }
        if let idleTimeout { plan.idleTimeout = idleTimeout }
        if let maxBodySize { plan.maxBodySize = maxBodySize }
        if let maxConnectionsPerHost { plan.maxConnectionsPerHost = maxConnectionsPerHost }
        if let pins { plan.pins = pins }
        (plan.maxReceiveRate, plan.maxSendRate) = (maxReceiveRate, maxSendRate)
        plan.needsReset = needsReset
    }
}
