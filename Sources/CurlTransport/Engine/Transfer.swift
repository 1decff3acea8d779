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
    /// Carries the body when it is handed out while it comes.
    @exclusivity(unchecked) private(set) var pipe: BodyPipe?

    /// Who waits for the answer.
    typealias Caller = UnsafeContinuation<HTTPResponse, any Error>

    @exclusivity(unchecked) private var continuation: Caller?
    /// What has happened to it, and what is to be done next.
    @exclusivity(unchecked) var machine: TransferMachine
    /// The handle that carries it while it runs.
    @exclusivity(unchecked) var handle: EasyHandle?
    /// Where it is counted in the queue of its host.
    @exclusivity(unchecked) var place: AdmissionQueue<Transfer>.Place?
    /// Why the engine itself stopped it; wins over what libcurl says of the consequences.
    @exclusivity(unchecked) private(set) var failure: NetworkError?
    /// Where it was kept from connecting to; the error, should it come nowhere else.
    @exclusivity(unchecked) var blockedAddress: NetworkError?
    /// Its trailers were said, which libcurl can do once.
    @exclusivity(unchecked) var hasMadeTrailers = false
    /// What its own rates allow, when it has some.
    @exclusivity(unchecked) var receiveBudget: ByteBudget?
    @exclusivity(unchecked) var sendBudget: ByteBudget?
    /// It waits for a rate: its own, or that of all transfers.
    @exclusivity(unchecked) var isThrottled = false
    @exclusivity(unchecked) var hasNewChunks = false

    @exclusivity(unchecked) var head = ResponseHead()
    @exclusivity(unchecked) var body = Data()
    /// How much the caller has reserved for the body.
    @exclusivity(unchecked) private(set) var reservedBodySize = 0
    /// What libcurl told of the stream on the present connection; for ``mayNeedStreamFate``.
    @exclusivity(unchecked) var streamFate = StreamFate()
    /// What has to live as long as somebody reads the body.
    @exclusivity(unchecked) var keepAlive: (any AnyObject & Sendable)?
    /// Where the engine is told that the owner's standing has changed; set when there is an owner.
    @exclusivity(unchecked) var mailbox: Mailbox<Engine.Command>?

    init(
        request: HTTPRequest, owner: (any TransferOwner)? = nil, target: Target, plan: TransferPlan, pipe: BodyPipe?
    ) {
        self.request = request
        self.owner = owner
        self.target = target
        self.plan = plan
        self.pipe = pipe
        machine = TransferMachine(
            TransferMachine.Rules(request, plan), isStream: pipe != nil, priority: request.priority)
        guard pipe == nil else { return }
        // On the caller's thread, which also frees them: memory that crosses threads costs a lock in malloc.
        head.reserve()
        reservedBodySize = target.bodySizeHint
        if reservedBodySize > 0 { body.reserveCapacity(reservedBodySize) }
    }

    func standingDidChange() { mailbox?.post(.update(self)) }

    /// What hands the body out from here on, with what has come of it.
    func stream(_ mailbox: Mailbox<Engine.Command>) -> BodyPipe {
        if let pipe, body.isEmpty { return pipe }
        let pipe = self.pipe ?? BodyPipe()
        if self.pipe == nil { connect(pipe, mailbox) }
        body.withUnsafeBytes { if !$0.isEmpty { pipe.append($0) } }
        body = Data()
        self.pipe = pipe
        return pipe
    }

    /// Tells the engine what the reader of a body wants.
    func connect(_ pipe: BodyPipe, _ mailbox: Mailbox<Engine.Command>) {
        pipe.connect { [mailbox, weak self] demand in
            guard let self else { return }
            switch demand {
            case .goOn: mailbox.post(.update(self))
            case .cancel: mailbox.post(.cancel(self))
            }
        }
    }

    func setContinuation(_ continuation: Caller) {
        self.continuation = continuation
    }

    /// The engine has a reason to end it.
    func fail(_ error: NetworkError) {
        machine.stop()
        if failure == nil { failure = error }
    }

    /// Whether a refused stream would have to be told from one that was processed.
    var mayNeedStreamFate: Bool {
        (target.isSecure || request.version == .http2PriorKnowledge) && !request.method.isIdempotent
    }

    /// Whether a body follows the head. None does in these, whatever they announce (RFC 9112 §6.3).
    var mayHaveBody: Bool { request.method != .head && head.status != 204 && head.status != 304 }

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

extension TransferMachine.Rules {
    init(_ request: HTTPRequest, _ plan: TransferPlan) {
        timeout = plan.timeout
        idleTimeout = plan.idleTimeout
        maxBodySize = plan.maxBodySize
        maxDecompressionRatio = plan.maxDecompressionRatio
        isIdempotent = request.method.isIdempotent
        hasNoContent = request.method == .head
        decompresses = plan.decompresses
        if !request.hasStandardTransfer {
            switch request.authentication {
            case .digest, .any: mayBeChallenged = true
            case .basic, .bearer, nil: break
            }
        }
        hasHTTPProxy = plan.proxy.map { !$0.isSOCKS } ?? false
        hasBody = plan.body != nil
        if case .source? = plan.body { readsBody = true }
    }
}
