import HTTPCore
import Platform
import Synchronization

/// Sends a request a second time when it takes long, as its policy says (``HedgeRow``). The faster good response counts.
final class HedgeStage: Stage {
    /// The calls that are measured together.
    private struct Name: Hashable {
        /// The domain row; without one, the origin.
        let domain: String
        let server: String?
    }

    /// What is known of a row's calls.
    final class Row: Sendable {
        private struct State {
            var row = HedgeRow()
            var waits = HedgeWaits()
        }

        private let state = Mutex(State())
        /// The addresses, as bits by their index, whose responses come over connections that carry one request at a time. The
        /// addresses from the 64th on share bits.
        private let withHTTP1 = Atomic<UInt64>(0)

        func usesHTTP1(_ address: Int) -> Bool { withHTTP1.load(ordering: .relaxed) & Self.bit(of: address) != 0 }

        func note(_ version: HTTPResponse.Version, of address: Int) {
            let isHTTP1 = version == .http1_1 || version == .http1_0
            guard isHTTP1 != usesHTTP1(address) else { return }
            withHTTP1.bitwiseXor(Self.bit(of: address), ordering: .relaxed)
        }

        private static func bit(of address: Int) -> UInt64 { 1 << UInt64(address % 64) }

        func callAsFunction<Result: Sendable>(_ change: (inout HedgeRow) -> Result) -> Result {
            state.withLock { change(&$0.row) }
        }

        /// Begins an attempt of a call. Returns the place of its request.
        fileprivate func begin(
            _ policy: RequestOptions.Hedge, isFirst: Bool, _ chain: Chain, _ race: HedgeRace?, at now: Duration
        ) -> Int {
            state.withLock { state in
                let delay = state.row.begin(policy, isFirst: isFirst, at: now)
                return state.waits.begin(HedgeWaits.Wait(chain, after: delay, race))
            }
        }

        fileprivate func start(_ place: Int, of call: Call, at now: Duration) -> Duration? {
            state.withLock { $0.waits.start(place, of: call, at: now) }
        }

        fileprivate func takeDue(
            at now: Duration, race: (Chain) -> HedgeRace
        ) -> (due: [HedgeWaits.Wait], alarm: Duration?) {
            state.withLock { $0.waits.takeDue(at: now, race: race) }
        }

        /// Ends the first request of a call's attempt, and learns from its response.
        ///
        /// - Returns: the request, if its time had come.
        fileprivate func end(
            _ place: Int, of call: Call, with response: HTTPResponse?, at now: Duration
        ) -> HedgeWaits.Wait? {
            state.withLock { state in
                let (slow, start) = state.waits.end(place)
                if slow == nil, let response, let start, RequestOptions.Hedge.isSample(response), !call.wasSuspended {
                    state.row.end(after: now - start, at: now)
                }
                return slow
            }
        }
    }

    /// The place of a request among those of its row.
    struct Place: TransferClock {
        fileprivate let stage: HedgeStage
        fileprivate let row: Row
        fileprivate let index: Int

        /// The request is being sent. Its time counts from then, without waits for limits and connections.
        func start(of call: Call) {
            guard let alarm = row.start(index, of: call, at: stage.limits.clock.now()) else { return }
            stage.setAlarm(of: row, at: alarm)
        }
    }

    private struct Rows {
        var byName: [Name: Row] = [:]
        /// The row asked for last, which is usually the next one, too.
        var lastName: Name?
        var last: Row?
        /// Idle rows are forgotten when there are at least this many.
        var roomFrom = 1_024
    }

    private let standard: RequestOptions.Hedge?
    private let retry: RetryStage
    let mirrors: MirrorStage
    let limits: TimeLimits
    /// Whether the app's providers add values to each attempt, which a server may take only once, such as a nonce.
    let hasProviders: Bool
    private let addresses: RequestOptions.Addresses
    private let rows = Mutex(Rows())

    init(
        _ standard: RequestOptions.Hedge?, _ retry: RetryStage, _ mirrors: MirrorStage, _ limits: TimeLimits,
        hasProviders: Bool, addresses: RequestOptions.Addresses = .pickFirst
    ) {
        self.standard = standard
        self.retry = retry
        self.mirrors = mirrors
        self.limits = limits
        self.hasProviders = hasProviders
        self.addresses = addresses
    }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        guard chain.hop == 0, let policy = policy(for: request, of: chain.call),
            let row = row(of: chain.call, request)
        else { return try await chain.proceed(request) }
        // A repetition is no further call.
        var isFirst = false
        chain.call.note { sent in
            isFirst = sent.isFirst
            sent.answered(by: nil)
        }
        let race = HedgeRace(policy, request, chain, row, self)
        let place = begin(policy, isFirst: isFirst, request, chain, row, race)
        return try await finish(place, chain) { try await chain.proceed(race.request) }
    }

    /// Sends the request of a call that no other stage has to see. What sends it again is only made when its time has come.
    ///
    /// - Parameter chain: what is left of the call's stages: none.
    /// - Returns: `nil` if the request is not hedged, and was not sent.
    func send(
        _ chain: Chain, _ send: (HTTPRequest, Call) async throws -> HTTPResponse
    ) async throws -> HTTPResponse? {
        let (call, request) = (chain.call, chain.call.request)
        guard !choosesAddress(request), let policy = policy(for: request, of: call), let row = row(of: call, request)
        else { return nil }
        let place = begin(policy, isFirst: true, request, chain, row, nil)
        return try await finish(place, chain) { try await send(request, call) }
    }

    /// Begins to measure a request that is about to be sent.
    private func begin(
        _ policy: RequestOptions.Hedge, isFirst: Bool, _ request: HTTPRequest, _ chain: Chain, _ row: Row,
        _ race: HedgeRace?
    ) -> Place {
        // Without the stage of retries, nobody else adds the call's share.
        if isFirst, (request.retries ?? retry.policy.retries) == 0 { retry.budget.deposit() }
        let index = row.begin(policy, isFirst: isFirst, chain, race, at: limits.clock.now())
        let place = Place(stage: self, row: row, index: index)
        chain.call.noteHedging(place)
        return place
    }

    /// Sends the first request, and waits for others if it was slow.
    @inline(__always) private func finish(
        _ place: Place, _ chain: Chain, _ send: () async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        let answer: Result<HTTPResponse, any Error>
        let wait: HedgeWaits.Wait?
        do {
            let response = try await send()
            place.row.note(response.version, of: chain.addressIndex)
            wait = place.row.end(place.index, of: chain.call, with: response, at: limits.clock.now())
            if wait == nil { return response }
            answer = .success(response)
        } catch {
            wait = place.row.end(place.index, of: chain.call, with: nil, at: .zero)
            answer = .failure(error)
        }
        guard let wait, let race = wait.race else { return try answer.get() }
        return try await race.finish(answer, wait)
    }

    private func setAlarm(of row: Row, at time: Duration) {
        _ = limits.schedule(at: time) { [weak self, weak row] in
            guard let self, let row else { return }
            ring(row)
        }
    }

    /// Sends again what has taken its time.
    private func ring(_ row: Row) {
        let (due, alarm) = row.takeDue(at: limits.clock.now()) { chain in
            let request = chain.call.request
            return HedgeRace(request.hedge ?? standard ?? .off, request, chain, row, self, isLate: true)
        }
        if let alarm { setAlarm(of: row, at: alarm) }
        for wait in due { wait.race?.begin(wait) }
    }

    private func policy(for request: HTTPRequest, of call: Call) -> RequestOptions.Hedge? {
        guard let policy = request.hedge ?? standard, policy != .off,
            RequestOptions.Hedge.isPossible(request), call.isReplayable, call.interimHandler == nil,
            // The handler of a body has to see one transfer of it.
            call.bodyHandler == nil
        else { return nil }
        return policy
    }

    /// Whether the engine chooses among the addresses of a request's host.
    func choosesAddress(_ request: HTTPRequest) -> Bool { (request.addresses ?? addresses) != .pickFirst }

    var budget: RetryBudget { retry.budget }

    private func row(of call: Call, _ request: HTTPRequest) -> Row? {
        let row = call.details.row
        guard let domain = row?.domain ?? URLReference.origin(of: request.url) else { return nil }
        let name = Name(domain: domain, server: row?.server)
        return rows.withLock { rows in
            if rows.lastName == name { return rows.last }
            rows.lastName = name
            if let row = rows.byName[name] {
                rows.last = row
                return row
            }
            if rows.byName.count >= rows.roomFrom {
                let now = limits.clock.now()
                rows.byName = rows.byName.filter { !$0.value { $0.isIdle(at: now) } }
                rows.roomFrom = max(1_024, 2 * rows.byName.count)
            }
            let new = Row()
            rows.byName[name] = new
            rows.last = new
            return new
        }
    }
}
