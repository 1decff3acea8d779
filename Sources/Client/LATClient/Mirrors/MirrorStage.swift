import CurlTransport
import HTTPCore
import Synchronization

/// Tries a domain's next address when connecting to one fails, and skips the failed one for a while.
final class MirrorStage: Stage {
    /// How long an address is skipped after connecting to it failed.
    private let memory: Duration
    private let states = Mutex<[String: MirrorState]>([:])

    init(memory: Duration) { self.memory = memory }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        // An interceptor that sets another URL overrides the mirrors.
        guard request.url == call.request.url else { return try await chain.proceed(request) }
        let key = call.details.row?.mirrorKey ?? ""
        let order = change(key) { $0.order(of: call.details.addresses.count, at: .now) }
        var failures: [NetworkError] = []
        var standIn: HTTPResponse?
        for index in order {
            var attempt = request
            attempt.url = try call.url(atAddress: index)
            do {
                let response = try await chain.at(address: index).proceed(attempt)
                let failure = response.standsInFor
                guard let failure, failure.kind != .httpStatus else {
                    // A stored response says nothing about the address, unless it replaces an error that the address sent.
                    if !response.source.isFromCache || failure != nil {
                        change(key) { $0.succeeded(call.sent.addressIndex ?? index) }
                    }
                    return response
                }
                standIn = response
                throw failure
            } catch let error as NetworkError
                where !call.isCancelled && call.sent.allows(.mirror, after: .failure(error))
            {
                change(key) { $0.failed(index, at: .now) }
                failures.append(error)
                if !call.isReplayable { break }
            } catch {
                if call.isCancelled { throw call.cancellation }
                guard let standIn else { throw error }
                return standIn
            }
        }
        if let standIn { return standIn }
        if call.isCancelled { throw call.cancellation }
        guard let first = failures.first else { return try await chain.proceed(request) }
        throw first
    }

    /// The other addresses of a call that did not fail lately, in the order in which they follow the given one.
    func others(of call: Call, than index: Int) -> [Int] {
        let count = call.details.addresses.count
        guard count > 1 else { return [] }
        return change(call.details.row?.mirrorKey ?? "") { $0.others(of: count, than: index, at: .now) }
    }

    /// Notes that connecting to one of a call's addresses failed.
    func failed(_ index: Int, of call: Call) {
        change(call.details.row?.mirrorKey ?? "") { $0.failed(index, at: .now) }
    }

    private func change<Result>(_ key: String, _ change: (inout MirrorState) -> Result) -> Result {
        states.withLock { states in
            // A row that changes gets a new key, so old states would pile up.
            if states.count > 1_024 { states = states.filter { !$0.value.isIdle } }
            return change(&states[key, default: MirrorState(memory: memory)])
        }
    }
}

/// Decides which of a domain's base URLs to try first, by those that failed recently.
///
/// A base URL that could not be connected to is skipped for a while. Then one call tries it again, and when it answers,
/// all calls use it. A pure value: the caller reports what happened, and when.
struct MirrorState: Sendable {
    /// How long a base URL is skipped after it failed.
    let memory: Duration

    private var failingUntil: [Int: ContinuousClock.Instant] = [:]

    var isIdle: Bool { failingUntil.isEmpty }

    init(memory: Duration = .seconds(30)) { self.memory = memory }

    /// Returns the indices of the base URLs in the order to try them: those that are not skipped, in their order, then
    /// the others, the one that failed longest ago first. So there is always one to try.
    ///
    /// A base URL whose time is over returns to its place. If this caller tries it first, other callers keep skipping
    /// it until it answers or its time is over again, so that they do not all wait for a dead address.
    mutating func order(of count: Int, at now: ContinuousClock.Instant) -> [Int] {
        guard count > 1, !failingUntil.isEmpty else { return Array(0..<count) }
        var good: [Int] = []
        var failing: [(base: Int, until: ContinuousClock.Instant)] = []
        for base in 0..<count {
            let until = failingUntil[base]
            if let until, until > now {
                failing.append((base, until))
            } else {
                // Only the base URL that this caller tries first is reserved for it.
                if good.isEmpty, until != nil { failingUntil[base] = now + memory }
                good.append(base)
            }
        }
        return good + failing.sorted { ($0.until, $0.base) < ($1.until, $1.base) }.map(\.base)
    }

    /// The indices of the other base URLs that are not skipped, in the order in which they follow the given one.
    func others(of count: Int, than base: Int, at now: ContinuousClock.Instant) -> [Int] {
        (1..<max(1, count)).map { (base + $0) % count }.filter { failingUntil[$0] ?? now <= now }
    }

    /// Notes that connecting to a base URL failed.
    mutating func failed(_ base: Int, at now: ContinuousClock.Instant) { failingUntil[base] = now + memory }

    /// Notes that a base URL answered, with whatever response.
    mutating func succeeded(_ base: Int) { failingUntil[base] = nil }
}
