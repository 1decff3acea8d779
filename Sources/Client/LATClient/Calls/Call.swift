import CurlTransport
import HTTPCore
import Synchronization

/// A running request, however it was started: with closures, with `async`, as a stream, from an entity or as an upload.
///
/// ``CallRegistry`` lists it, a ``RequestTask`` controls it, and it owns its transfers. It holds the request, what the
/// call waits for and what has been sent so far. Stages of the pipeline read it through ``Chain``.
package final class Call: @unchecked Sendable, TransferOwner {
    // Sendable: the registry's lock guards `next` and `previous`; all else is constant, atomic or guarded by `state`.

    /// A number that is unique in the process.
    let id: UInt64
    /// The request before any stage changes it. Errors of the call hold it, so that the app can send it again.
    package let request: HTTPRequest
    /// Details of the call that are not part of the request.
    let details: CallDetails
    /// Receives the progress; `nil` while nobody observes it.
    package var progressHandler: ProgressHandler? {
        guard givenHandler != nil || has(Flag.measured) else { return nil }
        return { [self] progress in
            givenHandler?(progress)
            if has(Flag.measured) { state.withLock(\.progress)?.note(progress) }
        }
    }
    private let givenHandler: ProgressHandler?
    package var bodyHandler: BodyHandler? { details.bodyHandler }
    package var interimHandler: InterimHandler? { details.interimHandler }
    package var partition: String? { details.partition }
    package var isObserved: Bool { watch != nil }
    /// Whether a simulation responds instead of the server.
    package var isSimulated: Bool { details.simulation?.isOn == true }
    package var headHandler: (@Sendable (SentHead) -> Void)? { watch?.headHandler }
    /// The time by which the call must end, on the pipeline's clock; `nil` for no deadline.
    let deadline: Duration?
    /// Reports the call's events to its observers; `nil` when there are none.
    let watch: CallReporter?

    /// Neighbours in the registry's list.
    var next: Call?
    unowned(unsafe) var previous: Call?
    /// Whether the registry had been closed before, so that it does not wait for this call. Guarded like the neighbours.
    var cameLate = false

    private let word: Atomic<UInt32>
    private let state = Mutex(State())

    private struct State {
        /// What the call waits for: usually one listener. Further ones are in `otherWaits`.
        var wait: (any TransferListener)?
        var otherWaits: [any TransferListener] = []
        /// The task that runs the call, if it has one of its own.
        var work: Task<Void, Never>?
        var sent = SentRequests()
        /// What to do when the next transfer starts.
        var startActions: [@Sendable () -> Void] = []
        /// Measures the next transfer.
        var clock: (any TransferClock)?
        /// The progress, once somebody has asked for it.
        var progress: CallProgress?
        /// Learns when the call begins and ceases to wait for a limit.
        var limitHandler: (@Sendable (_ isWaiting: Bool) -> Void)?
        /// The result, for those who wait for it beside the call's closures.
        var outcome: SharedResult<HTTPResponse>?
    }

    /// The flags of `word`; the bits above them hold the priority.
    private enum Flag {
        static let cancelled: UInt32 = 1
        static let suspended: UInt32 = 2
        /// The deadline has ended the call.
        static let late: UInt32 = 4
        /// The terminal event is being delivered.
        static let finished: UInt32 = 8
        /// The progress is observed as a sequence.
        static let measured: UInt32 = 16
        /// The start of a transfer has been awaited.
        static let awaited: UInt32 = 32
        /// A cached reply was delivered.
        static let replied: UInt32 = 64
        /// It came after the manager had begun to shut down.
        static let refused: UInt32 = 128
        /// Another request of the same call was answered first.
        static let abandoned: UInt32 = 256
        /// It was suspended at some time.
        static let paused: UInt32 = 512
        /// It sends one of several requests of a call.
        static let attempt: UInt32 = 1024
        static let priorityShift: UInt32 = 11
    }

    private static let count = Atomic<UInt64>(0)

    /// - Parameters:
    ///   - watchers: the observers to report to; `nil` for none.
    ///   - watch: reports to the observers of the call that this one is made for, in place of `watchers`.
    init(
        _ request: HTTPRequest, details: CallDetails = CallDetails(), deadline: Duration? = nil,
        watchers: CallReporters? = nil, watch: CallReporter? = nil, progress: ProgressHandler? = nil
    ) {
        let id = Self.count.add(1, ordering: .relaxed).newValue
        self.id = id
        self.deadline = deadline
        givenHandler = progress
        word = Atomic(UInt32((request.priority ?? .normal).rawValue) << Flag.priorityShift)
        self.watch =
            watch
            ?? watchers.flatMap { watchers in
                CallReporter.make(watchers, of: request, details) { accessories in
                    ObservedCall(
                        id: id, request: request, entityHeaders: details.entityHeaders, tag: request.tag,
                        secrets: watchers.secrets.union(request.context.rowSecrets), row: details.row?.observed,
                        joinedTrace: request.traceParent ?? TraceParent.current, accessories, watchers.origin)
                }
            }
        self.request = request
        self.details = details
    }

    /// A call of which nothing is known but its request, as one that could not be made.
    package convenience init(_ request: HTTPRequest) { self.init(request, details: CallDetails()) }

    /// The call's name in selections: ``RequestSelection/key(_:)``.
    package var key: String { "request-\(id)" }

    // MARK: Transfer state

    package var transferState: TransferState { transferState(endsWith: Flag.cancelled | Flag.abandoned) }

    /// The state of the call itself, which goes on when its first request is abandoned.
    var callState: TransferState { transferState(endsWith: Flag.cancelled) }

    private func transferState(endsWith flags: UInt32) -> TransferState {
        let word = word.load(ordering: .acquiring)
        return TransferState(
            isCancelled: word & flags != 0, isSuspended: word & Flag.suspended != 0,
            priority: RequestPriority(rawValue: Int(word >> Flag.priorityShift)) ?? .high)
    }

    package var isCancelled: Bool { has(Flag.cancelled) }
    var isFinished: Bool { has(Flag.finished) }
    /// Whether its deadline has ended it.
    var isLate: Bool { has(Flag.late) }
    package var priority: RequestPriority { transferState.priority }

    /// Ends the call, and what it waits for, with ``NetworkError/Kind/cancelled``. Has no effect the second time.
    package func cancel() { end(Flag.cancelled) }

    /// Ends the call because its deadline has passed.
    func endAtDeadline() { end(Flag.cancelled | Flag.late) }

    /// Ends the call because its manager is shutting down.
    func refuse() { end(Flag.cancelled | Flag.refused) }

    private func end(_ flags: UInt32) {
        guard change({ $0 & (Flag.cancelled | Flag.finished) != 0 ? $0 : $0 | flags }) else { return }
        notifyWaits()
        state.withLock(\.work)?.cancel()
    }

    /// Ends one of a call's requests because another one was answered first.
    func abandon() { end(Flag.cancelled | Flag.abandoned) }

    /// Ends the request that the call itself sends, because a hedge was answered first. Until ``takeUp()`` it can send no other.
    /// What waits has to be told of it.
    func abandonFirst() { word.bitwiseOr(Flag.abandoned, ordering: .acquiringAndReleasing) }

    /// Lets the call send requests again after ``abandonFirst()``.
    func takeUp() { word.bitwiseAnd(~Flag.abandoned, ordering: .acquiringAndReleasing) }

    /// Whether a request of the call was ended because another one was answered first.
    var isAbandoned: Bool { has(Flag.abandoned) }

    /// Suspends or resumes the transfer.
    package func setSuspended(_ isSuspended: Bool) {
        if change({ isSuspended ? $0 | Flag.suspended | Flag.paused : $0 & ~Flag.suspended }) { notifyWaits() }
    }

    /// Whether the call is or was suspended, so that its duration says nothing about its server.
    var wasSuspended: Bool { has(Flag.paused) }

    /// Raises the priority. Never lowers it.
    func raisePriority(to priority: RequestPriority) {
        let wanted = UInt32(priority.rawValue)
        let isRaised = change { word in
            word >> Flag.priorityShift >= wanted
                ? word : word & ((1 << Flag.priorityShift) - 1) | wanted << Flag.priorityShift
        }
        if isRaised { notifyWaits() }
    }

    /// Marks the call as finished just before its terminal event is delivered. A later cancellation has no effect.
    ///
    /// - Returns: whether the call was cancelled before.
    func finish() -> Bool {
        let before = word.bitwiseOr(Flag.finished, ordering: .acquiringAndReleasing).oldValue
        state.withLock { $0.work = nil }
        details.deliversCached?.release()
        // A result that was there before the manager was shut down is delivered.
        return before & (Flag.cancelled | Flag.refused) == Flag.cancelled
    }

    private func has(_ flag: UInt32) -> Bool { word.load(ordering: .acquiring) & flag != 0 }

    /// Changes `word`. Returns whether its value changed.
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

    /// The error of a call that was cancelled or missed its deadline.
    var cancellation: NetworkError { cancellation(after: nil) }

    private func cancellation(after response: HTTPResponse?) -> NetworkError {
        guard isLate else {
            if has(Flag.refused) { return Self.shuttingDown.attaching(request) }
            return NetworkError(.cancelled, message: "the request was cancelled", request: request, response: response)
        }
        return NetworkError(
            .timeout(.deadline),
            message: "not finished by the deadline, including retries and waits; raise the deadline",
            request: request, response: response)
    }

    private static let shuttingDown = NetworkError(
        .shutDown,
        message:
            "the manager is shutting down: it waits for the calls that run, and takes no new ones; make a new manager")

    /// The error for the caller: typed, with the call's own request and the number of its attempts, and naming the deadline
    /// if it ended the call.
    package func failure(_ error: any Error) -> NetworkError {
        let failure = NetworkError(ending: error, request)
        let ending =
            failure.kind == .cancelled && isCancelled
            ? cancellation(after: failure.response) : failure.of(request)
        let sent = sent
        let counted = sent.attempts > ending.attempts ? ending.counting(attempts: sent.attempts) : ending
        return sent.hasArrivedBefore ? counted.afterArrival() : counted
    }

    // MARK: Several requests at once

    /// A call that sends this call's request once more, and can be ended by itself. It has to ``follow(_:)`` this one, and reports no
    /// progress.
    func hedge() -> Call {
        let call = Call(request, details: details, deadline: deadline, watch: watch)
        call.word.bitwiseOr(Flag.attempt, ordering: .relaxed)
        return call
    }

    /// Records that the call sends one of several requests, of which any may be abandoned, and what measures its transfer.
    func noteHedging(_ clock: some TransferClock) {
        state.withLock { $0.clock = clock }
        word.bitwiseOr(Flag.attempt | Flag.awaited, ordering: .acquiringAndReleasing)
    }

    /// Whether one of several requests is sent, for which nobody waits once another one was answered.
    var isAttempt: Bool { has(Flag.attempt) }

    /// Has this call end and pause as the one for which it was made.
    func follow(_ call: Call) {
        var state = call.callState
        while true {
            if state.isCancelled { return cancel() }
            setSuspended(state.isSuspended)
            raisePriority(to: state.priority)
            // Another thread may have adopted a newer state meanwhile.
            let now = call.callState
            if now.isSuspended == state.isSuspended, now.isCancelled == state.isCancelled { break }
            state = now
        }
    }

    // MARK: Start

    /// Runs a closure when the next transfer of the call starts.
    func atNextStart(_ action: @escaping @Sendable () -> Void) {
        state.withLock { $0.startActions.append(action) }
        word.bitwiseOr(Flag.awaited, ordering: .acquiringAndReleasing)
    }

    package func transferDidStart() {
        guard has(Flag.awaited) else { return }
        let (clock, actions) = state.withLock { state in
            defer { state.startActions = [] }
            return (state.clock.take(), state.startActions)
        }
        clock?.start(of: self)
        for action in actions { action() }
    }

    // MARK: Waiting

    /// Has a closure called when the call begins to wait for a limit of its rows or the manager, and when its turn has come.
    package func observeLimits(_ handler: @escaping @Sendable (_ isWaiting: Bool) -> Void) {
        state.withLock { $0.limitHandler = handler }
    }

    func noteLimit(isWaiting: Bool) {
        watch?.record(isWaiting ? .waiting(.limits) : .waited(.limits))
        state.withLock(\.limitHandler)?(isWaiting)
    }

    /// Notifies a listener of every change of ``transferState``, and at once when the call is already cancelled.
    package func attach(_ listener: any TransferListener) {
        state.withLock { state in
            if state.wait == nil { state.wait = listener } else { state.otherWaits.append(listener) }
        }
        if transferState.isCancelled { listener.stateDidChange() }
    }

    package func detach(_ listener: any TransferListener) {
        state.withLock { state in
            if state.wait === listener {
                state.wait = state.otherWaits.popLast()
            } else if !state.otherWaits.isEmpty {
                state.otherWaits.removeAll { $0 === listener }
            }
        }
    }

    func notifyWaits() {
        let (wait, others) = state.withLock { ($0.wait, $0.otherWaits) }
        wait?.stateDidChange()
        for other in others { other.stateDidChange() }
    }

    /// Runs the call in a task of its own, which is cancelled with the call.
    func run(_ work: @escaping @Sendable () async -> Void) {
        let task = Task { await work() }
        state.withLock { $0.work = task }
        if isCancelled { task.cancel() }
        if isFinished { state.withLock { $0.work = nil } }
    }

    // MARK: Outcome and progress

    /// The outcome of a call in closure form. Its `result` is `nil` while the call runs.
    var outcome: SharedResult<HTTPResponse> {
        state.withLock { state in
            let outcome = state.outcome ?? SharedResult()
            state.outcome = outcome
            return outcome
        }
    }

    /// Sets the result of a call in closure form.
    func settle(_ result: Result<HTTPResponse, NetworkError>) {
        let result: Result<HTTPResponse, any Error> = result.mapError { $0 }
        outcome.settle(result) { state.withLock(\.progress)?.finish(result, request.body) }
    }

    /// The progress from now on. The engine reports it once somebody has asked for it.
    var progress: ProgressUpdates {
        let progress = state.withLock { state in
            let progress = state.progress ?? CallProgress(request.body == nil ? .download : .upload)
            state.progress = progress
            return progress
        }
        if change({ $0 | Flag.measured }) { notifyWaits() }
        if let result = outcome.result { progress.finish(result, request.body) }
        return progress.updates
    }

    /// Whether a cached reply was delivered before the terminal event.
    var hasDeliveredCachedReply: Bool { has(Flag.replied) }

    /// Records that a cached reply is about to be delivered. Returns `false` if one was, or if the call has ended.
    func noteCachedReply() -> Bool {
        change { $0 & (Flag.cancelled | Flag.finished) != 0 ? $0 : $0 | Flag.replied }
    }

    // MARK: Sent requests

    /// The record of the requests that were sent for the call.
    var sent: SentRequests { state.withLock(\.sent) }

    /// How often the call was sent, without hops.
    var attempts: Int { state.withLock(\.sent.attempts) }

    func note(_ change: (inout SentRequests) -> Void) { state.withLock { change(&$0.sent) } }
}
