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
        /// The generation of the present token; `nil` for one that Redis has never had.
        var held: Int64?
        /// The generation before the present token, while Redis does not have this token.
        var unshared: Int64?
        /// The name of the renewal that made the present token.
        var owner = ""
        /// Whether a task stores it.
        var isSharing = false
        /// Whether a task looks whether Redis has lost the token.
        var isRestoring = false
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
        let subscription = token.observe { [weak self] isNewConnection in
            self?.tokenHasChanged()
            if isNewConnection { self?.restoreIfLost() }
        }
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
                if case .newer(let stored)? = await token.compare(with: generation) { _ = await take(stored) }
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
            guard isAdopted else { return }
            state.number += 1
            state.held = stored.generation
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
        let owner = Hexadecimal.random(byteCount: 12)
        while true {
            let (isCurrent, generation, alarm) = state.withLock { state in
                let alarm = Waiter<Void>()
                state.alarm = alarm
                return (state.number <= state.rejected, state.generation, alarm)
            }
            // A newer token has arrived since the rejected request was sent.
            guard isCurrent else { return }
            switch await token.begin(after: generation, lease: lease, as: owner) {
            case .newer(let stored): if await take(stored) { return }
            case .lead: return try await lead(refresh, as: owner)
            case .wait(let time):
                guard limits.clock.now() < end else { return try await renewAlone(refresh, as: owner) }
                try await limits.value(of: alarm, within: min(time, Self.pollInterval), late: .success(()))
            case .alone: return try await renewAlone(refresh, as: owner)
            }
        }
    }

    /// A process that waits for another one's renewal asks again after this time, in case the message is lost.
    private static var pollInterval: Duration { .milliseconds(500) }

    private func renewAlone(
        _ refresh: @escaping @Sendable () async throws -> Void, as owner: String
    ) async throws {
        try await limited { [self] in
            try await refresh()
            hasRenewed(renewedAlone, as: owner)
        }
    }

    /// Renews for all processes. A renewal that fails after its limit ends the lease only then.
    private func lead(_ refresh: @escaping @Sendable () async throws -> Void, as owner: String) async throws {
        do {
            try await limited { [self] in
                do {
                    try await refresh()
                } catch {
                    token.release(owner)
                    throw error
                }
                hasRenewed(renewed, as: owner)
            }
        } catch {
            failed.add()
            throw error
        }
        await share()
    }

    // MARK: Sharing

    private func hasRenewed(_ counter: FleetCounter, as owner: String) {
        counter.add()
        let wasSharing = state.withLock { state in
            state.number += 1
            state.unshared = state.generation
            state.held = nil
            state.owner = owner
            defer { state.isSharing = true }
            return state.isSharing
        }
        if !wasSharing { keepSharing() }
    }

    /// Stores the present token for the other processes, unless there is a newer one. ``keepSharing()`` goes on when Redis does
    /// not take it.
    private func share() async {
        let present = state.withLock { $0 }
        guard present.isUnshared else { return }
        var stored: Int64?
        do {
            if let exported = try await inner.exportToken() {
                stored = try await token.store(exported, after: present.generation, as: present.owner)
            } else {
                token.release(present.owner)
            }
        } catch is FleetError {
            return
        } catch {
            // This process has its token all the same.
            token.release(present.owner)
            token.warnOfExport(error)
        }
        state.withLock { [stored] state in
            state.generation = max(state.generation, stored ?? 0)
            if state.number == present.number { (state.unshared, state.held) = (nil, stored ?? state.held) }
        }
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

    /// Stores the present token again if Redis has lost it. A process that starts would begin with an older token, and present
    /// a refresh token that was used.
    private func restoreIfLost() {
        let wasRestoring = state.withLock { state in
            defer { state.isRestoring = true }
            return state.isRestoring
        }
        guard !wasRestoring else { return }
        Task { [weak self] in
            var backoff = Backoff(first: .milliseconds(50), longest: .seconds(2))
            // The connection for commands is often made later than that for messages.
            while await self?.restoresAgain() == true {
                try? await Task.sleep(for: .milliseconds(50) + backoff.next(chance: .random(in: 0...1)))
            }
            self?.state.withLock { $0.isRestoring = false }
        }
    }

    /// Returns whether Redis must be asked again.
    private func restoresAgain() async -> Bool {
        guard let held = state.withLock(\.held) else { return false }
        guard let comparison = await token.compare(with: held) else { return !token.isShutDown }
        guard case .older = comparison, let exported = try? await inner.exportToken(),
            state.withLock({ $0.held == held && $0.renewals == 0 })
        else { return false }
        do {
            try await token.restore(exported, as: held)
        } catch {
            return error is FleetError && !token.isShutDown
        }
        return false
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
