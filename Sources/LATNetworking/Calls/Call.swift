import CurlTransport
import HTTPCore
import Synchronization

/// The life of one request, whatever form it was started in: closures, `async`, a stream, an entity, an upload.
///
/// A call is the entry of ``CallRegistry``, what a ``RequestTask`` steers, and the owner of its transfers. It knows what
/// was asked, what it waits for now, and what has gone out so far. Rooms of the corridor read it through ``Chain``.
final class Call: @unchecked Sendable, TransferOwner {
    // Sendable: `next` and `previous` belong to the registry's lock; all else is constant, atomic, or behind `state`.

    /// Names the call among all of the process.
    let id: UInt64
    /// The request as the face made it: the error of the call holds it, and it can be sent again.
    let request: HTTPRequest
    /// What the call knows of its request beside what is sent.
    let details: CallDetails
    let progressHandler: (@Sendable (TransferProgress) -> Void)?
    var bodyHandler: BodyHandler? { details.bodyHandler }
    /// When all has to be over, on the clock of the corridor; `nil` for no such time.
    let deadline: Duration?
    /// Who is told of what happens; `nil` while nobody watches.
    let watch: CallWatch?

    /// Neighbours in the registry.
    var next: Call?
    unowned(unsafe) var previous: Call?

    private let word: Atomic<UInt32>
    private let state = Mutex(State())

    private struct State {
        /// What the call waits for now. One thing, unless an interceptor of the app sends several requests at once.
        var wait: (any TransferListener)?
        var otherWaits: [any TransferListener] = []
        /// Runs the call where its form has a task of its own.
        var work: Task<Void, Never>?
        var sent = SentRequests()
        var hasDeliveredCachedReply = false
    }

    /// The bits of ``word``; the priority stands above them.
    private enum Flag {
        static let cancelled: UInt32 = 1
        static let suspended: UInt32 = 2
        /// Ended by its deadline.
        static let late: UInt32 = 4
        /// The terminal event is being delivered.
        static let finished: UInt32 = 8
        static let priorityShift: UInt32 = 4
    }

    private static let count = Atomic<UInt64>(0)

    /// - Parameters:
    ///   - watchers: who watches the call; `nil` for nobody.
    ///   - watch: the watch of the call on whose behalf this one is made.
    init(
        _ request: HTTPRequest, details: CallDetails = CallDetails(), deadline: Duration? = nil,
        watchers: CallWatchers? = nil, watch: CallWatch? = nil,
        progress: (@Sendable (TransferProgress) -> Void)? = nil
    ) {
        let id = Self.count.add(1, ordering: .relaxed).newValue
        self.id = id
        self.request = request
        self.details = details
        self.deadline = deadline
        progressHandler = progress
        word = Atomic(UInt32(request.priority.rawValue) << Flag.priorityShift)
        self.watch = watch ?? watchers.map { CallWatch($0, ObservedCall(id: id, request: request, tag: request.tag)) }
    }

    /// Names the call in selections: ``RequestSelection/key(_:)``.
    var key: String { "request-\(id)" }

    // MARK: Standing

    var standing: TransferStanding {
        let word = word.load(ordering: .acquiring)
        return TransferStanding(
            isCancelled: word & Flag.cancelled != 0, isSuspended: word & Flag.suspended != 0,
            priority: RequestPriority(rawValue: Int(word >> Flag.priorityShift)) ?? .high)
    }

    var isCancelled: Bool { word.load(ordering: .acquiring) & Flag.cancelled != 0 }
    var isFinished: Bool { word.load(ordering: .acquiring) & Flag.finished != 0 }
    var priority: RequestPriority { standing.priority }

    /// Ends the call, and what it waits for now, with ``NetworkError/Kind/cancelled``. Does nothing the second time.
    func cancel() { end(Flag.cancelled) }

    /// Ends the call because its time is over.
    func endLate() { end(Flag.cancelled | Flag.late) }

    private func end(_ flags: UInt32) {
        guard change({ $0 & (Flag.cancelled | Flag.finished) != 0 ? $0 : $0 | flags }) else { return }
        tellWaits()
        state.withLock(\.work)?.cancel()
    }

    /// Holds the transfer, or lets it go on.
    func setSuspended(_ isSuspended: Bool) {
        if change({ isSuspended ? $0 | Flag.suspended : $0 & ~Flag.suspended }) { tellWaits() }
    }

    /// Lets the call go before those of a lower priority, from now on. Never lowers it.
    func raisePriority(to priority: RequestPriority) {
        let wanted = UInt32(priority.rawValue)
        let isRaised = change { word in
            word >> Flag.priorityShift >= wanted
                ? word : word & ((1 << Flag.priorityShift) - 1) | wanted << Flag.priorityShift
        }
        if isRaised { tellWaits() }
    }

    /// The terminal event is about to be delivered; a later cancellation changes nothing.
    ///
    /// - Returns: whether the call was cancelled before.
    func finish() -> Bool {
        let before = word.bitwiseOr(Flag.finished, ordering: .acquiringAndReleasing).oldValue
        state.withLock { $0.work = nil }
        return before & Flag.cancelled != 0
    }

    /// Changes the word. Returns whether it is another one now.
    private func change(_ change: (UInt32) -> UInt32) -> Bool {
        var old = word.load(ordering: .acquiring)
        while true {
            let new = change(old)
            if new == old { return false }
            let (exchanged, original) = word.compareExchange(
                expected: old, desired: new, ordering: .acquiringAndReleasing)
            if exchanged { return true }
            old = original
        }
    }

    /// What the call ends with that was cancelled, or came too late.
    var cancellation: NetworkError {
        guard word.load(ordering: .acquiring) & Flag.late != 0 else {
            return NetworkError(.cancelled, message: "the request was cancelled", request: request)
        }
        return NetworkError(
            .timeout(.deadline),
            message: "not done by the deadline, repetitions and waits included; raise the deadline", request: request)
    }

    // MARK: Waiting

    /// Tells whoever makes the call wait, or carries it, of every change of ``standing``, at once when it is cancelled.
    func attach(_ listener: any TransferListener) {
        state.withLock { state in
            if state.wait == nil { state.wait = listener } else { state.otherWaits.append(listener) }
        }
        if isCancelled { listener.standingDidChange() }
    }

    func detach(_ listener: any TransferListener) {
        state.withLock { state in
            if state.wait === listener {
                state.wait = state.otherWaits.popLast()
            } else if !state.otherWaits.isEmpty {
                state.otherWaits.removeAll { $0 === listener }
            }
        }
    }

    private func tellWaits() {
        let (wait, others) = state.withLock { ($0.wait, $0.otherWaits) }
        wait?.standingDidChange()
        for other in others { other.standingDidChange() }
    }

    /// Runs the call in a task of its own, which ends when the call is cancelled.
    func run(_ work: @escaping @Sendable () async -> Void) {
        let task = Task { await work() }
        state.withLock { $0.work = task }
        if isCancelled { task.cancel() }
        if isFinished { state.withLock { $0.work = nil } }
    }

    // MARK: What went out

    /// What has gone out for the call so far.
    var sent: SentRequests { state.withLock(\.sent) }

    func note(_ change: (inout SentRequests) -> Void) { state.withLock { change(&$0.sent) } }

    // MARK: Delivery

    /// Whether a cached reply was delivered before the terminal event.
    var hasDeliveredCachedReply: Bool { state.withLock(\.hasDeliveredCachedReply) }

    /// Notes that a cached reply is about to be delivered. Returns `false` when it must not be any more.
    func noteCachedReply() -> Bool {
        guard !isFinished, !isCancelled else { return false }
        return state.withLock { state in
            defer { state.hasDeliveredCachedReply = true }
            return !state.hasDeliveredCachedReply
        }
    }
}

extension Call {
    /// The error a caller gets: typed, with the call's own request, and naming the deadline when that ended it.
    func failure(_ error: any Error) -> NetworkError {
        let failure = NetworkError(ending: error, request)
        if failure.kind == .cancelled, isCancelled { return cancellation.with(response: failure.response) }
        return failure.of(request)
    }
}

extension NetworkError {
    /// Any error a call can end with as one of this type.
    init(ending error: any Error, _ request: HTTPRequest?) {
        if let error = error as? NetworkError {
            self = request.map(error.attaching) ?? error
        } else if error is CancellationError {
            self = NetworkError(.cancelled, message: "the request was cancelled", request: request, underlying: error)
        } else {
            self = NetworkError(
                .provider, message: "an interceptor or transport of the app threw: \(error)", request: request,
                underlying: error)
        }
    }

    fileprivate func with(response: HTTPResponse?) -> NetworkError {
        NetworkError(kind, message: message, request: request, response: response)
    }
}

/// What a call knows of its request beside what is sent.
struct CallDetails: Sendable {
    /// The route that the call is made by; `nil` for a call of the central face.
    var row: CallRow?
    /// The addresses that may be asked, the preferred one first, without the call's own parameters.
    var addresses: [String] = []
    /// Parameters, files and body, where they are put together again for another address or with common parameters.
    var content: RequestContent?
    /// Answers in the server's place.
    var simulation: Simulation?
    /// The path with its names filled, as it comes after the base URL; for fixtures.
    var filledPath: String?
    /// The entity, to cancel the call by.
    var entity: EntityReference?
    /// Whose answers are stored and found; read once, so that a user who changes meanwhile gets nothing of this call.
    var partition: String?
    /// Is told what is read of the files of an upload.
    var bodyHandler: BodyHandler?
    /// Is handed what the cache has before the network is asked.
    var deliversCached: (@Sendable (HTTPResponse, Call) -> Void)?
}

/// What a route says of its calls that is neither sent nor a setting of the request.
final class CallRow: Sendable {
    let domain: String?
    let server: String?
    /// The path with its names in braces.
    let path: String
    /// What is remembered of mirrors, by domain and base URLs, so that a row that was changed begins anew.
    let mirrorKey: String
    /// Parameters that do not count for the cache.
    let volatileParameters: Set<String>
    /// Says whether an answer is a success, and decodes it.
    let decoder: ReplyDecoder

    init(
        domain: String? = nil, server: String? = nil, path: String, mirrorKey: String = "",
        volatileParameters: Set<String> = [], _ decoder: ReplyDecoder
    ) {
        self.domain = domain
        self.server = server
        self.path = path
        self.mirrorKey = mirrorKey
        self.volatileParameters = volatileParameters
        self.decoder = decoder
    }

    /// Says whether an answer may be stored; `nil` when any answer of status 2xx may.
    var verdict: ReplyDecoder? { decoder.envelope != nil || decoder.judge != nil ? decoder : nil }
}

extension Call {
    /// Whether all that is sent can be sent again.
    var isReplayable: Bool {
        request.body?.isReplayable ?? true && details.content?.body?.isReplayable ?? true
            && details.content?.files.allSatisfy(\.isReplayable) ?? true
    }

    /// The address of a base or mirror, with the call's own parameters.
    func url(atAddress index: Int) throws(NetworkError) -> String {
        guard index > 0 else { return request.url }
        guard let content = details.content else { return details.addresses[index] }
        var elsewhere = request
        elsewhere.url = details.addresses[index]
        try RequestBuilder.put(content, into: &elsewhere)
        return elsewhere.url
    }
}
