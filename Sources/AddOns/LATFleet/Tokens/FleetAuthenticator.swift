internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking
internal import Platform
internal import Synchronization

/// An authenticator whose token is renewed once for all processes of a fleet.
final class FleetAuthenticator<Inner: SharedTokenAuthenticator>: Authenticator {
    private struct State {
        /// The newest generation that this process has or has seen.
        var generation: Int64 = 0
        /// The number of the present token among those that this process had.
        var number = 0
        /// The newest number that a server has rejected.
        var rejected = 0
        /// How many renewals run: several managers may share this authenticator.
        var renewals = 0
        /// The task that reads the fleet's token, while it runs.
        var reading: Task<Void, Never>?
        var hasRead = false
        /// The generation before the present token, while Redis does not have this token.
        var unshared: Int64?
        /// Whether a task stores it.
        var isSharing = false
        /// Ends the wait for another process' renewal.
        var alarm: Waiter<Void>?
        var subscription: FleetSubscription?

        /// Whether the present token is the newest, and Redis does not have it.
        var isUnshared: Bool { unshared == generation }
    }

    private let inner: Inner
    private let token: SharedToken
    private let limits = TimeLimits()
    private let state = Mutex(State())
    private let renewed: FleetCounter
    private let adopted: FleetCounter
    private let renewedAlone: FleetCounter
    private let failed: FleetCounter

    init(_ inner: Inner, _ token: SharedToken) {
        self.inner = inner
        self.token = token
        renewed = token.counter("tokens.renewed")
        adopted = token.counter("tokens.adopted")
        renewedAlone = token.counter("tokens.alone")
        failed = token.counter("tokens.failed")
        let subscription = token.observe { [weak self] in self?.tokenHasChanged() }
        state.withLock { $0.subscription = subscription }
    }

    /// The time limit of one renewal: that of the app, but no more than a lease can outlast.
    private var renewalLimit: Duration { min(inner.refreshTimeout, .seconds(14 * 86_400)) }

    /// The lease outlasts any renewal, and is given back only with the new token or after a failure, so that no two processes
    /// present the same refresh token.
    private var lease: Duration { renewalLimit + .seconds(5) }

    /// Time for another process' renewal, and then for one of this process.
    var refreshTimeout: Duration { lease + renewalLimit + .seconds(5) }

    var refreshPause: Duration { inner.refreshPause }

    // MARK: Requests

    /// The key of `userInfo` under which a request carries the number of its token.
    private var mark: String { "fleet token \(token.name)" }

    func apply(to request: inout HTTPRequest) async throws {
        if !state.withLock(\.hasRead) { await adoptNewest() }
        while true {
            let number = state.withLock(\.number)
            var applied = request
            try await inner.apply(to: &applied)
            applied.userInfo[mark] = .int(Int64(number))
            // Otherwise another token has come meanwhile, and this may be either.
            guard number != state.withLock(\.number) else { return request = applied }
        }
    }

    var needsRefresh: Bool {
        get async {
            if !state.withLock(\.hasRead) { await adoptNewest() }
            let number = state.withLock(\.number)
            guard await inner.needsRefresh else { return false }
            // Renewed as if a server had rejected it, unless a newer one arrives first.
            state.withLock { $0.rejected = max($0.rejected, number) }
            return true
        }
    }

    func isRejected(_ response: HTTPResponse, to request: HTTPRequest) async -> Bool {
        guard await inner.isRejected(response, to: request) else { return false }
        let number = request.userInfo[mark]?.int
        state.withLock { $0.rejected = max($0.rejected, number ?? $0.number) }
        return true
    }

    // MARK: Other processes' tokens

    /// Adopts the fleet's token if it is newer. Callers at the same time share one read.
    private func adoptNewest() async {
        let reading = state.withLock { state -> Task<Void, Never>? in
            guard state.renewals == 0 else { return nil }
            if let reading = state.reading { return reading }
            let generation = state.generation
            let reading = Task {
                if let stored = await token.stored(after: generation) { _ = await take(stored) }
                self.state.withLock { state in
                    state.hasRead = true
                    state.reading = nil
                }
            }
            state.reading = reading
            return reading
        }
        await reading?.value
    }

    private func tokenHasChanged() {
        let alarm = state.withLock { state in
            defer { state.alarm = nil }
            return state.alarm
        }
        alarm?.end(.success(()))
        Task { [weak self] in await self?.adoptNewest() }
    }

    /// Adopts a token of the fleet. Returns `false` for one that cannot be used.
    private func take(_ stored: SharedToken.Stored) async -> Bool {
        let opened = token.open(stored, as: Inner.Token.self)
        var isAdopted = false
        if let opened { isAdopted = (try? await inner.adopt(opened)) != nil }
        state.withLock { state in
            state.generation = max(state.generation, stored.generation)
            if isAdopted { state.number += 1 }
        }
        if isAdopted { adopted.add() }
        return isAdopted
    }

    // MARK: Renewing

    func refresh() async throws { try await renew { [inner] in try await inner.refresh() } }

    func refresh(using manager: CentralRequestManager) async throws {
        try await renew { [inner] in try await inner.refresh(using: manager) }
    }

    private func renew(_ refresh: @escaping @Sendable () async throws -> Void) async throws {
        let reading = state.withLock { state in
            state.renewals += 1
            return state.reading
        }
        defer { state.withLock { $0.renewals -= 1 } }
        await reading?.value
        let end = limits.clock.now() + lease
        while true {
            let (isCurrent, generation, alarm) = state.withLock { state in
                let alarm = Waiter<Void>()
                state.alarm = alarm
                return (state.number <= state.rejected, state.generation, alarm)
            }
            // A newer token has arrived since the rejected request was sent.
            guard isCurrent else { return }
            switch await token.begin(after: generation, lease: lease) {
            case .newer(let stored): if await take(stored) { return }
            case .lead: return try await lead(refresh)
            case .wait(let time):
                guard limits.clock.now() < end else { return try await renewAlone(refresh) }
                try await limits.value(of: alarm, within: min(time, Self.pollInterval), late: .success(()))
            case .alone: return try await renewAlone(refresh)
            }
        }
    }

    /// A process that waits for another one's renewal asks again after this time, in case the message is lost.
    private static var pollInterval: Duration { .milliseconds(500) }

    private func renewAlone(_ refresh: @escaping @Sendable () async throws -> Void) async throws {
        try await limited { [self] in
            try await refresh()
            hasRenewed(renewedAlone)
        }
    }

    /// Renews for all processes. A renewal that fails after its limit ends the lease only then.
    private func lead(_ refresh: @escaping @Sendable () async throws -> Void) async throws {
        do {
            try await limited { [self] in
                do {
                    try await refresh()
                } catch {
                    token.release()
                    throw error
                }
                hasRenewed(renewed)
            }
        } catch {
            failed.add()
            throw error
        }
        await share()
    }

    // MARK: Sharing

    private func hasRenewed(_ counter: FleetCounter) {
        counter.add()
        let wasSharing = state.withLock { state in
            state.number += 1
            state.unshared = state.generation
            defer { state.isSharing = true }
            return state.isSharing
        }
        if !wasSharing { keepSharing() }
    }

    /// Stores the present token for the other processes, unless there is a newer one. ``keepSharing()`` goes on when Redis does
    /// not take it.
    private func share() async {
        let (number, generation, isUnshared) = state.withLock { ($0.number, $0.generation, $0.isUnshared) }
        guard isUnshared else { return }
        do {
            if let exported = try await inner.exportToken() {
                let stored = try await token.store(exported, after: generation)
                state.withLock { $0.generation = max($0.generation, stored ?? 0) }
            } else {
                token.release()
            }
        } catch is FleetError {
            return
        } catch {
            // This process has its token all the same.
            token.release()
            token.warnOfExport(error)
        }
        state.withLock { if $0.number == number { $0.unshared = nil } }
    }

    /// Stores the present token until Redis has it or a newer one. Its refresh token is the only one that is left, and other
    /// processes would present the one that was used.
    private func keepSharing() {
        let end = limits.clock.now() + lease
        Task { [weak self] in
            var backoff = Backoff(first: .milliseconds(50), longest: .seconds(10))
            repeat {
                try? await Task.sleep(for: .milliseconds(50) + backoff.next(chance: .random(in: 0...1)))
            } while await self?.sharesAgain(warningAfter: end) == true
        }
    }

    private func sharesAgain(warningAfter end: Duration) async -> Bool {
        let (isUnshared, isRenewing) = state.withLock { state in
            state.isSharing = state.isUnshared && !token.isShutDown
            return (state.isSharing, state.renewals > 0)
        }
        // A renewal shares its own token.
        if isUnshared, !isRenewing {
            await share()
            if limits.clock.now() > end, state.withLock(\.isUnshared) { token.warnOfLoss() }
        }
        return isUnshared
    }

    /// Renews within the time limit of the authenticator.
    private func limited(_ refresh: @escaping @Sendable () async throws -> Void) async throws {
        let waiter = Waiter<Void>()
        let work = Task {
            do {
                waiter.end(.success(try await refresh()))
            } catch {
                waiter.end(.failure(error))
            }
        }
        defer { work.cancel() }
        let limit = renewalLimit
        let late = FleetError(.timeout, "it took longer than \(limit)")
        try await limits.value(of: waiter, within: limit, late: .failure(late))
    }
}

extension FleetAuthenticator: AuthorizationAuthenticator where Inner: AuthorizationAuthenticator {}
