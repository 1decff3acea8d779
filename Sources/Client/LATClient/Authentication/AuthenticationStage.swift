import DomainTables
import HTTPCore
import Platform
import Synchronization

/// The app's authenticator as closures, so that this folder does not depend on the manager, which
/// ``Authenticator/refresh(using:)`` receives.
struct TokenSource: Sendable {
    /// Returns a request with the current token, and what was added to it.
    let apply: @Sendable (HTTPRequest) async throws -> (HTTPRequest, Credential)
    let isRejected: @Sendable (HTTPResponse, _ to: HTTPRequest) async -> Bool
    let refresh: @Sendable () async throws -> Void
    let refreshTimeout: Duration
    let refreshPause: Duration
    /// Whether the token is missing or ends soon.
    var needsRefresh: @Sendable () async -> Bool = { false }
    /// Whether the token is always the field `Authorization`.
    var isAuthorization = false
}

/// Asks the authenticator to put its token on each attempt, and to renew a rejected token as ``RefreshState`` decides.
final class AuthenticationStage: Stage {
    private struct State {
        var tokens: RefreshState
        /// Those that wait for the renewal, and whether their token was rejected, so that they need a new one.
        var waiters: [(waiter: Waiter<Void>, isRejected: Bool)] = []
        /// Whether the renewal began before the token was rejected.
        var isAhead = false
        var failure: NetworkError?
        /// Whether the authenticator renews now, perhaps after its time limit.
        var isRenewing = false
        /// The renewal that waits for the end of one that has missed its limit.
        var next: Waiter<Bool>?
    }

    private let tokens: TokenSource
    private let scope: CredentialScope?
    private let limits: TimeLimits
    private let state: Mutex<State>

    init(_ tokens: TokenSource, scope: CredentialScope? = nil, limits: TimeLimits = TimeLimits()) {
        self.tokens = tokens
        self.scope = scope
        self.limits = limits
        state = Mutex(State(tokens: RefreshState(pause: tokens.refreshPause)))
    }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        let isOwn = request.setsAuthorization && !isNamed(by: request, call)
        // Nothing of the token would be used, so that none is got either.
        if isOwn, tokens.isAuthorization { return try await chain.proceed(request) }
        guard !CallScope.renewing.contains(ObjectIdentifier(self)), scope?.includes(request.url, of: call) ?? true
        else {
            return try await chain.proceed(request)
        }
        var isReplay = false
        while true {
            let (epoch, authorized, credential) = try await authorized(request, call)
            if isOwn, credential.isAuthorization { return try await chain.proceed(request) }
            let response = try await chain.proceed(authorized)
            let isRejected = try await limits.run(for: call) { [tokens] in
                await tokens.isRejected(response, authorized)
            }
            guard isRejected else {
                if !response.source.isFromCache { state.withLock { $0.tokens.accepted(epoch: epoch) } }
                return response
            }
            let sent = call.sent
            guard sent.carried(credential) else { return response }
            // The token is renewed even if the request must not be sent twice.
            let canReplay = call.isReplayable && sent.allows(.token(credential), after: .success(response))
            guard try await isReplayed(request, response, epoch, isReplay, canReplay, call) else { return response }
            await call.reportBody(ofRepeated: response)
            call.watch?.record(.replaying)
            isReplay = true
        }
    }

    /// Whether entity or call name the authenticator. The name that a row has is of a lower level than their fields.
    private func isNamed(by request: HTTPRequest, _ call: Call) -> Bool {
        guard case .named = request.authenticator else { return false }
        return request.authenticator != call.details.row?.authenticator
    }

    /// Waits for a running renewal. Returns the current epoch.
    private func epoch(for call: Call) async throws -> Int {
        while true {
            let (waiter, epoch) = state.withLock { state -> (Waiter<Void>?, Int) in
                guard state.tokens.isRefreshing else { return (nil, state.tokens.epoch) }
                let waiter = Waiter<Void>()
                state.waiters.append((waiter, false))
                return (waiter, 0)
            }
            guard let waiter else { return epoch }
            try await wait(waiter, call, nil)
        }
    }

    /// Returns the request with its token, which is renewed before when it ends soon, and the epoch of the token.
    private func authorized(_ request: HTTPRequest, _ call: Call) async throws -> (Int, HTTPRequest, Credential) {
        var isRenewed = false
        while true {
            let epoch = try await epoch(for: call)
            if let (authorized, credential) = try await applied(to: request, call, unlessEnding: !isRenewed) {
                return (epoch, authorized, credential)
            }
            try await renewAhead(call)
            isRenewed = true
        }
    }

    /// Returns the request with the token, whose fields count as secret whatever their names; `nil` when the token ends soon
    /// and is not wanted then.
    private func applied(
        to request: HTTPRequest, _ call: Call, unlessEnding: Bool
    ) async throws -> (HTTPRequest, Credential)? {
        do {
            let limit = tokens.refreshTimeout
            let applied = try await limits.run(within: limit, for: call, late: { Late(limit: limit) }) { [tokens] in
                try await CallScope.providing("authenticator") {
                    if unlessEnding, await tokens.needsRefresh() { return nil as (HTTPRequest, Credential)? }
                    return try await tokens.apply(request)
                }
            }
            guard let applied else { return nil }
            var (authorized, credential) = applied
            for (name, _) in credential.fields
            where scope?.secrets.contains(header: name) != true && !authorized.context.rowSecrets.contains(header: name)
            {
                authorized.context.rowSecrets.insert(header: name)
            }
            return (authorized, credential)
        } catch {
            if call.isCancelled || error.endsTask || CallScope.isTooDeep(error) { throw error }
            if let error = error as? NetworkError, error.kind == .authentication {
                throw Self.failure(state.withLock { $0.failure } ?? error, request, nil)
            }
            throw NetworkError(
                .provider, message: "the authenticator threw: \(error); this attempt was not sent", request: request,
                underlying: error)
        }
    }

    /// Decides after a rejection: `true` sends the request once more, `false` delivers the response.
    private func isReplayed(
        _ request: HTTPRequest, _ response: HTTPResponse, _ epoch: Int, _ isReplay: Bool, _ canReplay: Bool,
        _ call: Call
    ) async throws -> Bool {
        let waiter = Waiter<Void>()
        let (decision, failure) = state.withLock { state in
            let decision = state.tokens.rejected(epoch: epoch, isReplay: isReplay, at: limits.clock.now())
            if decision == .refresh { state.isAhead = false }
            if canReplay, decision == .refresh || decision == .wait { state.waiters.append((waiter, true)) }
            return (decision, state.failure)
        }
        switch decision {
        case .deliver: return false
        case .fail: throw Self.failure(failure, request, response)
        case .replay: return canReplay
        case .refresh: renew()
        case .wait: break
        }
        if canReplay { try await wait(waiter, call, response) }
        return canReplay
    }

    /// Renews a token that is missing or ends soon, once for all calls. A failure is for those alone that have no valid token,
    /// which ``applied(to:_:unlessEnding:)`` finds out.
    private func renewAhead(_ call: Call) async throws {
        let waiter = Waiter<Void>()
        let decision = state.withLock { state in
            let decision = state.tokens.ending(at: limits.clock.now())
            if decision == .refresh { state.isAhead = true }
            if decision != .proceed { state.waiters.append((waiter, false)) }
            return decision
        }
        if decision == .refresh { renew() }
        if decision != .proceed { try await wait(waiter, call, nil) }
    }

    private func wait(_ waiter: Waiter<Void>, _ call: Call, _ response: HTTPResponse?) async throws {
        call.watch?.record(.waiting(.token))
        do {
            try await waiter.value(for: call)
            call.watch?.record(.waited(.token))
        } catch let error as NetworkError where error.kind == .authentication {
            throw Self.failure(error, call.request, response)
        }
    }

    /// Renews the token in a task of its own, so that no caller's cancellation ends it.
    private func renew() {
        let scope = CallScope.renewing.union([ObjectIdentifier(self)])
        Task { [limits, limit = tokens.refreshTimeout] in
            var failure: NetworkError?
            do {
                try await CallScope.$renewing.withValue(scope) {
                    try await limits.run(within: limit, for: nil, late: { Late(limit: limit) }) { [self] in
                        try await refresh()
                    }
                }
            } catch let error as NetworkError where error.kind == .authentication {
                failure = error
            } catch {
                let known = error as? NetworkError
                let isOutage = error is Late || known?.isOutage == true
                // The words about a store of tokens have their own next step.
                let step = known?.kind == .storage ? "" : isOutage ? "; try again later" : "; sign in again"
                failure = NetworkError(
                    .authentication, message: "the token could not be renewed: \(error)\(step)", underlying: error)
            }
            finish(failure)
        }
    }

    /// Has the authenticator renew the token. An earlier renewal that has missed its limit may still run: this one waits for
    /// its end, and does nothing more if it succeeds.
    private func refresh() async throws {
        let earlier = state.withLock { state -> Waiter<Bool>? in
            state.next = state.isRenewing ? Waiter() : nil
            state.isRenewing = true
            return state.next
        }
        if let earlier, try await earlier.value() { return }
        var isRenewed = false
        defer {
            state.withLock { state in
                // If this renewal failed, the one that waits for it begins, unless that one has missed its own limit.
                let isNextWaiting = state.next?.end(.success(isRenewed)) ?? false
                state.next = nil
                state.isRenewing = isNextWaiting && !isRenewed
            }
        }
        try await tokens.refresh()
        isRenewed = true
    }

    private func finish(_ failure: NetworkError?) {
        let (waiters, isAhead) = state.withLock { state in
            state.tokens.finished(isRenewed: failure == nil, at: limits.clock.now())
            state.failure = failure
            defer { state.waiters = [] }
            return (state.waiters, state.isAhead)
        }
        for (waiter, isRejected) in waiters {
            if let failure, isRejected || !isAhead { waiter.end(.failure(failure)) } else { waiter.end(.success(())) }
        }
    }

    private static func failure(
        _ error: NetworkError?, _ request: HTTPRequest, _ response: HTTPResponse?
    ) -> NetworkError {
        NetworkError(
            .authentication, message: error?.message ?? "the token could not be renewed; sign in again",
            request: request, response: response, underlying: error?.underlying)
    }

    private struct Late: Error, CustomStringConvertible {
        let limit: Duration

        var description: String { "it took longer than \(limit)" }
    }
}

/// Passes a request to the authenticator that it names, or to the manager's.
struct NamedAuthenticationStage: Stage {
    let standard: AuthenticationStage?
    let named: [String: AuthenticationStage]
    let ofRows: RowAuthentication

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        switch request.authenticator {
        case .off: return try await chain.proceed(request)
        case .automatic:
            if let rule = chain.call.details.row?.oauth2 {
                // Without a server, that of the tokens is not there either.
                if chain.call.details.simulation?.needsNoServer == true { return try await chain.proceed(request) }
                return try await ofRows.stage(for: rule).handle(request, chain)
            }
            guard let standard else { return try await chain.proceed(request) }
            return try await standard.handle(request, chain)
        case .named(let name):
            if let stage = named[name] { return try await stage.handle(request, chain) }
            throw NetworkError.missing("authenticator", name, in: named, request)
        }
    }
}

/// The authenticators that the rows of the table describe, each made when a call first needs it.
final class RowAuthentication: Sendable {
    private let make: @Sendable (DomainTable.OAuth2Rule) throws(NetworkError) -> AuthenticationStage
    private let stages = Mutex<[DomainTable.OAuth2Rule: AuthenticationStage]>([:])

    init(_ make: @escaping @Sendable (DomainTable.OAuth2Rule) throws(NetworkError) -> AuthenticationStage) {
        self.make = make
    }

    /// The stage of a rule. A rule that is edited gets another one, with a token of its own.
    func stage(for rule: DomainTable.OAuth2Rule) throws(NetworkError) -> AuthenticationStage {
        if let known = stages.withLock({ $0[rule] }) { return known }
        let made = try make(rule)
        return stages.withLock { stages in
            if let known = stages[rule] { return known }
            // Bounds what a table that is edited for months leaves behind.
            if stages.count >= 1_024 { stages = [:] }
            stages[rule] = made
            return made
        }
    }
}

extension NetworkError {
    /// The error for an authenticator or a sealer that the request names and the app has not configured.
    static func missing(
        _ what: String, _ name: String, in named: [String: some Any], _ request: HTTPRequest
    ) -> NetworkError {
        let known = named.keys.sorted().map { "\"\($0)\"" }.joined(separator: ", ")
        let setting = "configuration.\(what)s"
        return NetworkError(
            .invalidRequest,
            message: "there is no \(what) \"\(name)\"; "
                + (known.isEmpty ? "set \(setting)" : "\(setting) has \(known)"),
            request: request)
    }
}
