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
        private let state = Mutex(HedgeRow())
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
            state.withLock { change(&$0) }
        }
    }

    private struct Rows {
        var byName: [Name: Row] = [:]
        /// The row asked for last, which is usually the next one, too.
        var last: (name: Name, row: Row)?
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
        let call = chain.call
        guard let policy = request.hedge ?? standard, policy != .off, chain.hop == 0,
            RequestOptions.Hedge.isPossible(request), call.isReplayable, call.interimHandler == nil,
            // The handler of a body has to see one transfer of it.
            call.bodyHandler == nil,
            let row = row(of: call, request)
        else { return try await chain.proceed(request) }
        // A repetition is no further call.
        var isFirst = false
        call.note { sent in
            isFirst = sent.isFirst
            sent.answered(by: nil)
        }
        let delay = row { $0.begin(policy, isFirst: isFirst, at: limits.clock.now()) }
        // Without the stage of retries, nobody else adds the call's share.
        if isFirst, (request.retries ?? retry.policy.retries) == 0 { retry.budget.deposit() }
        return try await HedgeRace(policy, delay, request, chain, row, self).run()
    }

    /// Whether the engine chooses among the addresses of a request's host.
    func choosesAddress(_ request: HTTPRequest) -> Bool { (request.addresses ?? addresses) != .pickFirst }

    var budget: RetryBudget { retry.budget }

    private func row(of call: Call, _ request: HTTPRequest) -> Row? {
        let row = call.details.row
        guard let domain = row?.domain ?? URLReference.origin(of: request.url) else { return nil }
        let name = Name(domain: domain, server: row?.server)
        return rows.withLock { rows in
            if let last = rows.last, last.name == name { return last.row }
            if let row = rows.byName[name] {
                rows.last = (name, row)
                return row
            }
            if rows.byName.count >= rows.roomFrom {
                let now = limits.clock.now()
                rows.byName = rows.byName.filter { !$0.value { $0.isIdle(at: now) } }
                rows.roomFrom = max(1_024, 2 * rows.byName.count)
            }
            let new = Row()
            rows.byName[name] = new
            rows.last = (name, new)
            return new
        }
    }
}
