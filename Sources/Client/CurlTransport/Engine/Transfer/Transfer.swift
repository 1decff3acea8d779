import FoundationEssentials
internal import HTTPCore

/// One request on its way through the engine, from submission to its end.
///
/// It is made and checked on the caller's thread and handed over through the
/// mailbox. From then on only the engine's thread touches it. Commands hold a
/// reference to it, so it cannot be confused with a later request.
final class Transfer: @unchecked Sendable, Hashable, TransferListener {
    // Sendable: every `var` is written before the hand-over, which the mailbox's lock orders, or by the engine's thread
    // after it. So none needs run-time exclusivity checks.

    let request: HTTPRequest
    let owner: (any TransferOwner)?
    let target: Target
    let plan: TransferPlan
    /// Carries the body of a streamed response.
    @exclusivity(unchecked) private(set) var pipe: BodyPipe?

    /// The continuation of the caller, which waits for the result. The result is kept here, so that the frames of the wait
    /// have no room for it.
    typealias Caller = UnsafeContinuation<Void, Never>

    @exclusivity(unchecked) var continuation: Caller?
    @exclusivity(unchecked) private(set) var result: Result<HTTPResponse, NetworkError>?
    /// Whether it only connects, for a ``ConnectionProbe``.
    @exclusivity(unchecked) var isProbe = false
    /// Whether somebody waits who can connect again when revocation lists have been fetched.
    var canWaitForLists: Bool {
        (continuation != nil || isProbe) && request.context.listWaits < RevocationRule.waitLimit
    }
    @exclusivity(unchecked) var machine: TransferMachine
    /// The handle, while the transfer runs.
    @exclusivity(unchecked) var handle: EasyHandle?
    @exclusivity(unchecked) var place: AdmissionQueue<Transfer>.Place?
    /// Why the engine stopped it; takes precedence over libcurl's error.
    @exclusivity(unchecked) private(set) var failure: NetworkError?
    /// The error for an address that it may not connect to, or for which the process has no socket left. The transfer fails
    /// with it if no other address works.
    @exclusivity(unchecked) var socketRefusal: NetworkError?
    /// The choice among the addresses of its host; `nil` if libcurl chooses.
    let addresses: AddressUse?
    /// Whether its trailers were sent, which libcurl can do only once.
    @exclusivity(unchecked) var hasSentTrailers = false
    /// The budgets of its own rates, if it has any.
    @exclusivity(unchecked) var receiveBudget: ByteBudget?
    @exclusivity(unchecked) var sendBudget: ByteBudget?
    /// Whether it waits for a rate, its own or the engine's.
    @exclusivity(unchecked) var isThrottled = false
    /// Whether libcurl may hold received bytes that it has not delivered.
    var mayHoldBytes: Bool { machine.pause != .none || isThrottled }
    @exclusivity(unchecked) var hasNewChunks = false
    /// How many cookies its responses have set.
    @exclusivity(unchecked) var cookieCount = 0

    /// How many Digest challenges the engine has answered itself, because libcurl cannot.
    @exclusivity(unchecked) var ownAnswers = 0
    /// Whether the engine has ended the attempt to answer a challenge, or to drop an expectation.
    @exclusivity(unchecked) var answersChallenge = false

    @exclusivity(unchecked) var head = ResponseHead()
    @exclusivity(unchecked) var body = Data()
    /// Decodes the body; `nil` for one without a coding, and without a body.
    @exclusivity(unchecked) var decoder: BodyDecoder?
    /// Compares the body with its digest; `nil` for a response without one.
    @exclusivity(unchecked) var digest: BodyDigest?
    /// Whether it uploads over HTTP/2 with a libcurl before 8.1: the engine, and not libcurl, compares the response with its
    /// `Content-Length`.
    @exclusivity(unchecked) var isUploadingToStream = false
    /// In how many milliseconds libcurl looks at such a transfer again that is answered before it was sent
    /// (``Engine/wakeSoon(_:)``); 0 for any other.
    @exclusivity(unchecked) var wakeDelay: Int64 = 0
    /// The end of a body whose length no field tells; `nil` for any other.
    @exclusivity(unchecked) var bodyEnd: BodyEnd?
    /// The TLS connection of such a body; `nil` in clear text and in HTTP/2.
    @exclusivity(unchecked) var tls: TLSHandshake?
    /// How many bytes the caller has reserved for the body.
    @exclusivity(unchecked) private(set) var reservedBodySize = 0
    /// What libcurl's log says about the stream on the current connection; recorded if ``mayNeedStreamRefusal``.
    @exclusivity(unchecked) var streamRefusal = StreamRefusal()
    /// Collects the heads that are sent; `nil` while nobody observes them.
    @exclusivity(unchecked) var sentHeads: SentHeads?
    /// An object that must live while the body is read.
    @exclusivity(unchecked) var keepAlive: (any AnyObject & Sendable)?
    /// Receives the progress; `nil` while nobody observes it.
    @exclusivity(unchecked) var progress: (@Sendable (TransferProgress) -> Void)?
    /// The mailbox for changes of the owner's state; set when there is an owner.
    @exclusivity(unchecked) var mailbox: Mailbox<Engine.Command>?

    init(
        request: HTTPRequest, owner: (any TransferOwner)? = nil, target: Target, plan: TransferPlan, pipe: BodyPipe?
    ) {
        self.request = request
        self.owner = owner
        self.target = target
        self.plan = plan
        self.pipe = pipe
        // The address of a proxy or an alternative service is none of the host's.
        let choice = plan.proxy == nil && plan.alternative == nil ? plan.addresses : nil
        addresses = choice.flatMap { target.isAddress ? nil : AddressUse($0) }
        machine = TransferMachine(
            TransferMachine.Rules(request, plan), isStream: pipe != nil, priority: request.priority ?? .normal)
        guard pipe == nil else { return }
        // Reserved on the caller's thread, which also frees it: memory that one thread allocates and another one frees
        // costs a lock in malloc.
        head.reserve()
        reservedBodySize = target.bodySizeHint
        if reservedBodySize > 0 { body.reserveCapacity(reservedBodySize) }
    }

    func stateDidChange() { mailbox?.post(.update(self)) }

    /// Returns the pipe that delivers the body from now on, starting with the bytes collected so far.
    func stream(_ mailbox: Mailbox<Engine.Command>) -> BodyPipe {
        if let pipe, body.isEmpty { return pipe }
        let pipe = self.pipe ?? BodyPipe()
        if self.pipe == nil { connect(pipe, mailbox) }
        body.withUnsafeBytes { if !$0.isEmpty { pipe.append($0) } }
        body = Data()
        self.pipe = pipe
        return pipe
    }

    /// Forwards the demands of a body's reader to the engine.
    func connect(_ pipe: BodyPipe, _ mailbox: Mailbox<Engine.Command>) {
        pipe.connect { [mailbox, weak self] demand in
            guard let self else { return }
            switch demand {
            case .resume: mailbox.post(.update(self))
            case .cancel: mailbox.post(.cancel(self))
            }
        }
    }

    /// The time that is left for the request after this attempt; `nil` for no limit.
    func timeLeft(after timings: Timings?) -> Duration? {
        plan.timeout > 0 ? .milliseconds(plan.timeout) - (timings?.total ?? .zero) : nil
    }

    /// The request of this attempt with the time that is left; `nil` when it is over.
    func rest(of request: HTTPRequest, after timings: Timings?) -> HTTPRequest? {
        guard let left = timeLeft(after: timings) else { return request }
        var rest = request
        rest.timeout = left
        return left > .zero ? rest : nil
    }

    /// Stops the transfer with an error of the engine. The first error is kept.
    func fail(_ error: NetworkError) {
        machine.stop()
        if failure == nil { failure = error }
    }

    /// Whether all of the body has been taken, according to the status or to `Content-Length`.
    var hasWholeBody: Bool {
        // Of a piece that libcurl delivers again, some bytes may not have been decoded.
        let taken = decoder.map { $0.repeatedByteCount > 0 ? -1 : $0.codedByteCount } ?? machine.bodyByteCount
        return machine.rules.hasNoBody(head.status) || head.contentLength == taken
    }

    /// Whether the engine may need to know if the stream was refused.
    var mayNeedStreamRefusal: Bool {
        (target.isSecure || plan.version.hasPriorKnowledge) && !request.isRepeatedByEngine
    }

    /// Whether libcurl has to write its log for the transfer.
    var needsLog: Bool { mayNeedStreamRefusal || sentHeads != nil || InterimAnswer.isPossible(self) }

    /// Sends on the connection after its upgrade; `nil` for any other request.
    var output: ConnectionOutput? {
        guard request.context.upgrades, case .source(let source)? = plan.body else { return nil }
        return (source as? UpgradeSource)?.output
    }

    /// Resumes the caller; later calls do nothing.
    func answer(_ result: Result<HTTPResponse, NetworkError>) { takeCaller(result)?.resume() }

    /// Keeps the result for the caller, and returns its continuation; `nil` from then on.
    func takeCaller(_ result: Result<HTTPResponse, NetworkError>) -> Caller? {
        guard let caller = continuation else { return nil }
        continuation = nil
        self.result = result
        return caller
    }

    /// Returns the result to the caller that was resumed, once.
    @inline(never)
    func takeResult() throws(NetworkError) -> HTTPResponse {
        defer { result = nil }
        return try (result ?? .failure(EngineFailure.shutDown)).get()
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
        isIdempotent = request.isRepeatedByEngine
        hasNoContent = request.method == .head
        decompresses = plan.decompresses
        mayBeChallenged = !request.hasNoSettings && request.authentication?.digestCredentials != nil
        hasHTTPProxy = plan.proxy.map { !$0.isSOCKS } ?? false
        hasBody = plan.body != nil
        if case .source? = plan.body { readsBody = true }
        upgrades = request.context.upgrades
        expects = hasBody && request.headers["Expect"]?.equalsIgnoringASCIICase("100-continue") == true
    }
}

extension HTTPRequest {
    /// Whether it is sent again on another connection when it was lost on one, without asking anybody.
    fileprivate var isRepeatedByEngine: Bool { method.isIdempotent && !mayFailAfterItself }
}
