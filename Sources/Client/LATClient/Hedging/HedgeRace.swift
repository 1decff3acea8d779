import CurlTransport
import FoundationEssentials
import HTTPCore
import Platform
import ResponseCache
import Synchronization

/// One call's requests. The first is sent by the call itself, and the others when ``HedgeStage`` says that its time has come.
final class HedgeRace: Sendable {
    private struct Winner {
        let number: Int
        let response: HTTPResponse
        /// Which of the domain's addresses it comes from.
        let address: Int
    }

    private struct State {
        /// The calls that send the request again, by their number from 1 on, in their order.
        var hedges: [Call] = []
        /// The numbers of those that have no response yet.
        var running: Set<Int> = []
        /// The numbers of those whose transfer has begun.
        var sent: Set<Int> = []
        var startedAt: Duration?
        var alarms = Alarms()
        var isOver = false
        var winner: Winner?
        /// Waits for the hedges, when the first request has brought nothing good.
        var waiter: Waiter<Void>?
        /// Observes the call from its first hedge on, or when it was suspended.
        var wait: CallWait?

        /// Ends the first request. Returns what to wait for if a hedge may bring something better.
        mutating func end(isGood: Bool) -> Waiter<Void>? {
            guard !isGood, winner == nil, !running.isEmpty, !isOver else {
                isOver = true
                return nil
            }
            waiter = Waiter<Void>()
            return waiter
        }
    }

    /// What happens after a time. The time begins again when a suspended call is resumed.
    private struct Alarm {
        /// `nil` for nothing to happen.
        var delay: Duration?
        /// `nil` while the call is suspended.
        var ticket: TimeLimits.Ticket?
        /// Changes with each ticket, so that one that was cancelled too late rings for nothing.
        var number = 0
    }

    private static let (nextHedge, endOfPatience) = (0, 1)

    /// The two alarms by their index. They are no array, which would have to be allocated for each call.
    private struct Alarms {
        private var hedge = Alarm()
        private var patience = Alarm()

        var indices: ClosedRange<Int> { nextHedge...endOfPatience }

        subscript(index: Int) -> Alarm {
            get { index == nextHedge ? hedge : patience }
            _modify { if index == nextHedge { yield &hedge } else { yield &patience } }
        }
    }

    /// How long a first request that failed waits at least for its hedge.
    private static let patience = Duration.seconds(1)

    private let policy: RequestOptions.Hedge
    /// The call's request as all of its requests begin.
    let request: HTTPRequest
    /// Whether the first request was sent before this was made, without a record.
    private let isLate: Bool
    private let chain: Chain
    private let row: HedgeStage.Row
    private let stage: HedgeStage
    private let scope = CallScope.Values()
    private let state = Mutex(State())

    private var call: Call { chain.call }

    init(
        _ policy: RequestOptions.Hedge, _ request: HTTPRequest, _ chain: Chain, _ row: HedgeStage.Row,
        _ stage: HedgeStage, isLate: Bool = false
    ) {
        var request = request
        if stage.choosesAddress(request) { request.context.usedAddresses = UsedAddresses() }
        (self.policy, self.request, self.chain) = (policy, request, chain)
        (self.row, self.stage, self.isLate) = (row, stage, isLate)
        if isLate { chain.call.note { $0.begins(request, hop: 0) } }
    }

    /// The first request takes longer than its delay.
    func begin(_ wait: HedgeWaits.Wait) {
        guard let delay = wait.delay else { return }
        state.withLock { $0.startedAt = wait.startedAt }
        guard call.wasSuspended else { return hedge(after: delay) }
        // The time of a suspended call begins when it is resumed.
        watch()
        set(Self.nextHedge, after: delay)
    }

    /// Ends the first request, which took longer than its delay.
    ///
    /// - Returns: the response that counts.
    func finish(_ answer: Result<HTTPResponse, any Error>, _ wait: HedgeWaits.Wait) async throws -> HTTPResponse {
        if isLate { call.note { $0.ended(request, answer) } }
        let isGood = RequestOptions.Hedge.isGood(answer, to: request)
        if let waiter = state.withLock({ $0.end(isGood: isGood) }) {
            // A failure is not held back for as long as a slow hedge takes.
            set(Self.endOfPatience, after: max(Self.patience, wait.delay ?? .zero))
            do {
                try await waiter.value(for: call)
            } catch {
                let (winner, watch) = finish()
                watch?.end()
                winner?.response.body.abandon()
                Self.abandon(answer)
                throw error
            }
        }
        let (winner, watch) = finish()
        guard let winner, !call.isCancelled else {
            watch?.end()
            if call.isCancelled {
                winner?.response.body.abandon()
                Self.abandon(answer)
                throw call.cancellation
            }
            note(answer, of: chain.addressIndex, since: wait.startedAt)
            return try answer.get()
        }
        Self.abandon(answer)
        var response = winner.response
        // The body of a redirect may still be arriving.
        if response.body.isStream, let watch {
            response.body = ResponseBody(FollowingBody(response.body, watch))
        } else {
            watch?.end()
        }
        return response
    }

    private static func abandon(_ answer: Result<HTTPResponse, any Error>) {
        if case .success(let response) = answer { response.body.abandon() }
    }

    /// Begins to observe the call.
    private func watch() {
        guard state.withLock({ $0.wait == nil && !$0.isOver }) else { return }
        let wait = CallWait(call) { [self] _ in follow() }
        let isInVain = state.withLock { state in
            if state.wait == nil, !state.isOver { state.wait = wait }
            return state.wait !== wait
        }
        if isInVain { wait.end() }
    }

    /// Has all hedges end, pause and be as urgent as their call.
    private func follow() {
        for hedge in state.withLock(\.hedges) { hedge.follow(call) }
        updateAlarms()
    }

    /// Learns from the response to the call.
    private func note(_ answer: Result<HTTPResponse, any Error>, of address: Int, since start: Duration?) {
        guard case .success(let response) = answer, let start else { return }
        row.note(response.version, of: address)
        guard RequestOptions.Hedge.isSample(response), !call.wasSuspended else { return }
        let now = stage.limits.clock.now()
        row { $0.end(after: now - start, at: now) }
    }

    private func set(_ alarm: Int, after delay: Duration) {
        state.withLock { $0.alarms[alarm].delay = delay }
        // The time of a suspended call begins when it is resumed.
        if call.transferState.isSuspended { watch() }
        updateAlarms()
    }

    /// Starts the time of what is to happen, and stops it while the call is suspended and at its end.
    private func updateAlarms() {
        state.withLock { state in
            for index in state.alarms.indices {
                let alarm = state.alarms[index]
                guard let delay = alarm.delay else { continue }
                // Read under the lock, so that no older state replaces a newer one.
                if state.isOver || call.transferState.isSuspended {
                    state.alarms[index].ticket.take().map(stage.limits.cancel)
                } else if alarm.ticket == nil {
                    let number = alarm.number + 1
                    state.alarms[index].number = number
                    state.alarms[index].ticket = stage.limits.schedule(at: stage.limits.clock.now() + delay) {
                        [weak self] in self?.ring(index, number)
                    }
                }
            }
        }
    }

    private func ring(_ alarm: Int, _ number: Int) {
        let (delay, waiter, wasSuspended) = state.withLock { state -> (Duration?, Waiter<Void>?, Bool) in
            guard state.alarms[alarm].number == number, state.alarms[alarm].ticket.take() != nil else {
                return (nil, nil, false)
            }
            if state.wait == nil, call.wasSuspended { return (nil, nil, true) }
            return (state.alarms[alarm].delay.take(), state.waiter, false)
        }
        if wasSuspended {
            watch()
            updateAlarms()
        }
        guard let delay else { return }
        if alarm == Self.nextHedge { hedge(after: delay) } else { waiter?.end(.success(())) }
    }

    private func hedge(after delay: Duration) {
        let now = stage.limits.clock.now()
        let hedge = call.hedge()
        watch()
        let number = state.withLock { state -> Int? in
            // Paid for under the lock, so that nothing is spent on a call that has just been answered.
            guard !state.isOver, row({ $0.hedges(policy, at: now, pays: stage.budget.take) }) else { return nil }
            state.hedges.append(hedge)
            state.running.insert(state.hedges.count)
            return state.hedges.count
        }
        guard let number else { return }
        hedge.atNextStart { [weak self] in self?.state.withLock { _ = $0.sent.insert(number) } }
        follow()
        // In a task of its own, as observers may take their time.
        hedge.run { [self] in await scope.run { await send(hedge, number, after: delay, paidAt: now) } }
        if number < policy.attempts { set(Self.nextHedge, after: delay) }
    }

    private func send(_ hedge: Call, _ number: Int, after delay: Duration, paidAt: Duration) async {
        var target = target(number)
        var answer: Result<HTTPResponse, any Error> = .failure(CancellationError())
        if !hedge.isCancelled {
            call.watch?.record(.hedging(after: delay))
            answer = await self.answer(of: hedge, target)
            // An address that takes no connections would be the one of all hedges of the row.
            if target.address != chain.addressIndex, case .failure(let error as NetworkError) = answer,
                SentRequests.isUnreachable(error), !hedge.isCancelled
            {
                stage.mirrors.failed(target.address, of: call)
                target = (toAnotherConnection(request), chain.addressIndex)
                answer = await self.answer(of: hedge, target)
            }
        }
        let isGood = RequestOptions.Hedge.isGood(
            answer, to: request, isRepetition: target.address != chain.addressIndex || stage.hasProviders)
        let (won, wasSent, waiter) = state.withLock { state -> (Bool, Bool, Waiter<Void>?) in
            state.running.remove(number)
            let wasSent = state.sent.contains(number)
            guard !state.isOver else { return (false, wasSent, nil) }
            if isGood, case .success(let response) = answer {
                state.winner = Winner(number: number, response: response, address: target.address)
                state.isOver = true
                // Under the lock, as the call takes up its requests again when it finds the winner.
                if state.waiter == nil { call.abandonFirst() }
                return (true, wasSent, state.waiter)
            }
            return (false, wasSent, state.running.isEmpty ? state.waiter : nil)
        }
        if !wasSent {
            row { $0.giveBack(paidAt, at: stage.limits.clock.now()) }
            stage.budget.refund()
        }
        if won {
            note(answer, of: target.address, since: state.withLock(\.startedAt))
            call.notifyWaits()
        } else {
            Self.abandon(answer)
        }
        waiter?.end(.success(()))
    }

    private func answer(
        of hedge: Call, _ target: (request: HTTPRequest, address: Int)
    ) async -> Result<HTTPResponse, any Error> {
        var (rest, request) = (chain.on(hedge), target.request)
        if !request.context.signatureFields.isEmpty {
            // A signer may refuse a nonce that it has seen.
            let old = request.context.signatureFields
            request.headers = HTTPHeaders(request.headers.fields.filter { !old.contains($0.name.lowercased()) })
            rest = rest.including(.sign)
        }
        do {
            return .success(try await rest.proceed(request))
        } catch {
            return .failure(error)
        }
    }

    /// The request to the domain's next good address; without one, to another connection.
    private func target(_ number: Int) -> (request: HTTPRequest, address: Int) {
        var request = request
        let own = chain.addressIndex
        let others = request.isOfOneServer || stage.hasProviders ? [] : stage.mirrors.others(of: call, than: own)
        if !others.isEmpty {
            let other = others[(number - 1) % others.count]
            let (from, to) = (call.details.addresses[own], call.details.addresses[other])
            let rest = request.url.dropFirst(from.count)
            if !from.contains("?"), !to.contains("?"), request.url.hasPrefix(from), rest.first ?? "?" == "?" {
                request.url = to + rest
                // Addresses of one origin differ in their path, and share its connections.
                let isSame = URLReference.origin(of: from) == URLReference.origin(of: to)
                return (isSame ? toAnotherConnection(request) : request, other)
            }
        }
        return (toAnotherConnection(request), own)
    }

    /// With HTTP/1.1, the first request has its connection for itself; a new one is needed for another address.
    private func toAnotherConnection(_ request: HTTPRequest) -> HTTPRequest {
        var request = request
        if !row.usesHTTP1(chain.addressIndex) || request.context.usedAddresses != nil {
            request.context.opensConnection = true
        }
        return request
    }

    /// Abandons what still runs, and adds to the call's record what was sent.
    ///
    /// - Returns: the winner, if it is a hedge, and what observes the call until its body has arrived.
    private func finish() -> (winner: Winner?, wait: CallWait?) {
        let (winner, hedges, running, wait) = state.withLock { state in
            state.isOver = true
            defer { state.running = [] }
            return (state.winner, state.hedges, state.running, state.wait.take())
        }
        updateAlarms()
        guard !hedges.isEmpty else { return (nil, wait) }
        call.takeUp()
        for number in running { hedges[number - 1].abandon() }
        call.note { sent in
            for (index, hedge) in hedges.enumerated() where index + 1 != winner?.number {
                sent.absorb(hedge.sent, isAnswer: false)
            }
            guard let winner else { return }
            sent.absorb(hedges[winner.number - 1].sent, isAnswer: true)
            if winner.address != chain.addressIndex { sent.answered(by: winner.address) }
        }
        return (winner, wait)
    }
}

/// A body whose transfer ends and pauses with its call until it was read, or nobody can read it any more.
private final class FollowingBody: AbandonableBodySource {
    private let body: ResponseBody
    private let wait: CallWait

    init(_ body: ResponseBody, _ wait: CallWait) {
        self.body = body
        self.wait = wait
    }

    func next() async throws -> Data? {
        // All iterators of a stream share one position.
        var chunks = body.makeAsyncIterator()
        return try await chunks.next()
    }

    func abandon() { body.abandon() }

    deinit { wait.end() }
}

extension HTTPRequest {
    /// Whether it is about what one server has: another one may know no such state, or have another one by that name. Servers do not
    /// know the idempotency keys of each other.
    fileprivate var isOfOneServer: Bool {
        !method.isSafe || headers.contains("Range") || ValidationRule.hasConditions(self)
    }
}
