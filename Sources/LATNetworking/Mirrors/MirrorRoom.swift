import CurlTransport
import HTTPCore
import Synchronization

/// Goes to the next address of a domain when one cannot be connected to, remembers that for a while, and returns to the
/// first when the while is over.
final class MirrorRoom: Room {
    /// How long an address is passed over after no connection to it came about.
    private let memory: Duration
    private let clock = ContinuousClock()
    private let states = Mutex<[String: MirrorState]>([:])

    init(memory: Duration) { self.memory = memory }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        // An interceptor of the app that names another address means that one.
        guard request.url == call.request.url else { return try await chain.proceed(request) }
        let key = call.details.row?.mirrorKey ?? ""
        let order = change(key) { $0.order(of: call.details.addresses.count, at: clock.now) }
        var failures: [NetworkError] = []
        var standIn: HTTPResponse?
        for index in order {
            var attempt = request
            attempt.url = try call.url(atAddress: index)
            do {
                let response = try await chain.proceed(attempt)
                guard let failure = response.standsInFor else {
                    change(key) { $0.succeeded(index) }
                    return response
                }
                standIn = response
                throw failure
            } catch let error as NetworkError where mayGoOn(after: error, call) {
                change(key) { $0.failed(index, at: clock.now) }
                failures.append(error)
            } catch {
                if call.isCancelled { throw call.cancellation }
                guard let standIn else { throw error }
                return standIn
            }
        }
        if let standIn { return standIn }
        if call.isCancelled { throw call.cancellation }
        guard let first = failures.first else { return try await chain.proceed(request) }
        throw first.counting(attempts: failures.count)
    }

    private func mayGoOn(after error: NetworkError, _ call: Call) -> Bool {
        call.isReplayable && !call.isCancelled && call.sent.allows(.mirror, after: .failure(error))
    }

    private func change<Result>(_ key: String, _ change: (inout MirrorState) -> Result) -> Result {
        states.withLock { states in
            // Rows that were changed leave states behind that nobody asks for any more.
            if states.count > 1_024 { states = states.filter { !$0.value.isIdle } }
            return change(&states[key, default: MirrorState(memory: memory)])
        }
    }
}

/// Which of a domain's base URLs do not answer just now, and so which to try first.
///
/// A base that no connection came about with is passed over for a while; then one call tries it again, and when it
/// answers, all do. Decides only: the caller says what happened, and when.
///
/// ```swift
/// for index in state.order(of: route.baseURLs.count, at: clock.now) {
///     // send; on a connection that did not come about:  state.failed(index, at: clock.now), and go on with the next
///     // on any answer:                                  state.succeeded(index)
/// }
/// ```
struct MirrorState: Sendable {
    /// How long a base is passed over after it failed.
    let memory: Duration

    private var failingUntil: [Int: ContinuousClock.Instant] = [:]

    /// Whether nothing is remembered.
    var isIdle: Bool { failingUntil.isEmpty }

    /// Every base is taken for good.
    init(memory: Duration = .seconds(30)) { self.memory = memory }

    /// The numbers of the bases in the order to try them: those that are not passed over as they come, then the others,
    /// the one that failed longest ago first, so that there is always one to try.
    ///
    /// A base whose time is over comes in its old place again, for this caller alone: until it is known to answer,
    /// others go on passing it over, rather than all wait for it together.
    mutating func order(of count: Int, at now: ContinuousClock.Instant) -> [Int] {
        let bases = Array(0..<max(0, count))
        guard count > 1, !failingUntil.isEmpty else { return bases }
        var good: [Int] = []
        var failing: [(base: Int, until: ContinuousClock.Instant)] = []
        for base in bases {
            guard let until = failingUntil[base], until > now else {
                // Only the base this caller begins with is tried out by it.
                if good.isEmpty, failingUntil[base] != nil { failingUntil[base] = now + memory }
                good.append(base)
                continue
            }
            failing.append((base, until))
        }
        return good + failing.sorted { ($0.until, $0.base) < ($1.until, $1.base) }.map(\.base)
    }

    /// No connection to this base came about.
    mutating func failed(_ base: Int, at now: ContinuousClock.Instant) { failingUntil[base] = now + memory }

    /// This base has answered, whatever the answer.
    mutating func succeeded(_ base: Int) {
        if !failingUntil.isEmpty { failingUntil[base] = nil }
    }

    /// Whether this base is passed over at this time.
    func isFailing(_ base: Int, at now: ContinuousClock.Instant) -> Bool {
        failingUntil[base].map { $0 > now } ?? false
    }
}
