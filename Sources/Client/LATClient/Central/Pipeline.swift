import CurlTransport
import HTTPCore
import Platform

/// The stages that a manager's requests pass, in the order of ``StagePlace``, with the transport at their end.
///
/// Which stages a call passes is known before it starts: those of the manager, and those that the request's own settings
/// ask for. A request that needs none but redirects goes straight to the transport.
final class Pipeline: Sendable {
    private let table: StageTable
    /// The stages of a chain that ends at the cache instead of the transport.
    private let tableToCache: StageTable
    /// The operations that the cache's stages share.
    let cacheOperations: CacheOperations
    private let sharing: SharingStage
    private let barrier = BarrierStage()
    let redirect: RedirectStage
    let limit: LimitStage
    private let hedge: HedgeStage
    let retryBudget: RetryBudget

    /// The stages of a request without settings of its own.
    private let standardStages: StageSet
    /// Whether requests without a sealing policy of their own are sealed.
    private let sealsByDefault: Bool
    private let cachesSealed: Bool
    private let hedgesByDefault: Bool
    private let hasParameterProvider: Bool

    /// Creates the pipeline that a manager's configuration describes.
    init(
        _ configuration: CentralRequestManager.Configuration, storage: CacheStorage, reachability: Reachability,
        sender: StageTable.Sender, scope: CredentialScope, isProduction: @escaping @Sendable () -> Bool = { false },
        manager: @escaping @Sendable () -> CentralRequestManager?
    ) {
        let timeout = configuration.engine.timeout
        let limits = TimeLimits()
        let clock = limits.clock
        let engine = sender.curlTransport
        let volatileParameters = Set(configuration.volatileParameters)
        sealsByDefault = configuration.sealer != nil
        cachesSealed = configuration.cachesSealed
        hedgesByDefault = configuration.hedge.map { $0 != .off } ?? false
        hasParameterProvider = configuration.parameterProvider != nil

        sharing = SharingStage(configuration.duplicates, volatileParameters: volatileParameters)
        let composition = CompositionStage(
            defaults: configuration.headers, immediateHeaderProvider: configuration.immediateHeaderProvider,
            headerProvider: configuration.headerProvider, parameterProvider: configuration.parameterProvider,
            isShownBefore: !configuration.interceptors.isEmpty, timeout: timeout, limits: limits, scope: scope)
        redirect = RedirectStage(
            policy: configuration.redirects,
            rule: RedirectRule(
                secrets: configuration.secrets, allowsInsecure: configuration.followsInsecureRedirects,
                effectiveURL: { url in engine?.effectiveURL(of: url) ?? url }),
            handler: configuration.redirectHandler, timeout: timeout, limits: limits)
        let sign = SignStage(standard: configuration.signer, named: configuration.signers)
        cacheOperations = CacheOperations(
            storage: storage, standard: configuration.cachePolicy, timeout: timeout, limits: limits,
            volatileParameters: volatileParameters, version: configuration.cacheVersion,
            cachesUnsafeMethods: configuration.cachesUnsafeMethods,
            secrets: configuration.secrets, cookies: engine?.cookies, fileCredentials: engine?.fileCredentials,
            redirects: configuration.redirects, verdict: configuration.successJudge.map { ReplyDecoder(judge: $0) },
            managerCredentials: ManagerCredentials(
                certificate: configuration.engine.tls.clientCertificate, sign: sign, engine: engine),
            demands: CacheDemands(configuration),
            unixSocketPath: configuration.engine.unixSocketPath, maxBodySize: configuration.engine.maxBodySize,
            servesStaleWhenDisconnected: configuration.servesStaleWhenDisconnected,
            staleAfter: configuration.staleAfter, cacheStatus: configuration.cacheStatus,
            usesDictionaries: configuration.usesDictionaries, mode: configuration.cacheMode)
        let cache = CacheStage(operations: cacheOperations)
        let httpCache = HTTPCacheStage(operations: cacheOperations)
        limit = LimitStage(
            configuration.limits, configuration.circuitBreaker, shared: configuration.companion?.sharedLimits(),
            engine: sender.curlTransport, clock: clock)
        @Sendable func authentication(_ authenticator: any Authenticator) -> AuthenticationStage {
            AuthenticationStage(TokenSource(authenticator, manager), scope: scope, limits: limits)
        }

        let retry = RetryStage(policy: configuration.retryPolicy, budget: configuration.retryBudget, clock: clock)
        retryBudget = retry.budget
        let mirrors = MirrorStage(memory: configuration.mirrorMemory)
        hedge = HedgeStage(
            configuration.hedge, retry, mirrors, limits,
            hasProviders: configuration.immediateHeaderProvider != nil || configuration.headerProvider != nil
                || configuration.parameterProvider != nil, addresses: configuration.addresses)
        let stages: [StagePlace: any Stage] = [
            .rejection: RejectionStage(sharing), .barrier: barrier,
            .interceptors: InterceptorStage(
                interceptors: configuration.interceptors, limits: limits, isOutermost: true, shown: composition.shown,
                sent: { [rule = redirect.rule] request, hasLeftOrigin in
                    // The request for another origin, such as the address of an upload, gets no credentials of interceptors,
                    // also if one of them has made it anew.
                    guard hasLeftOrigin else { return request }
                    var request = request
                    request.context.hasLeftOrigin = true
                    rule.strip(&request, defaults: configuration.headers)
                    return request
                }),
            .retry: retry,
            .hedge: hedge,
            .connectivity: ConnectivityStage(
                limit: configuration.reachability.connectivityTimeout, limits: limits,
                waitUntilReachable: { await reachability.waitUntilConnectable($0, within: $1) }),
            .authentication: NamedAuthenticationStage(
                standard: configuration.authenticator.map(authentication),
                named: configuration.authenticators.mapValues(authentication),
                ofRows: RowAuthentication { rule throws(NetworkError) in
                    let isOfUser = rule.effectiveGrant != .clientCredentials
                    return authentication(
                        try OAuth2(
                            rule, store: isOfUser ? OAuth2.store(for: rule) : nil,
                            warningHandler: configuration.engine.warn))
                }),
            .mirrors: mirrors, .composition: composition, .sharing: sharing,
            .simulation: SimulationStage(clock: clock), .cache: cache, .httpCacheOfOpened: httpCache,
            .seal: SealStage(
                standard: configuration.sealer, named: configuration.sealers, cachePolicy: configuration.cachePolicy),
            .cacheOfSealed: CacheStage(operations: cacheOperations, deliversAhead: false),
            .redirect: redirect, .sign: sign, .httpCache: httpCache, .limits: limit, .attempt: AttemptStage(),
            .networkInterceptors: InterceptorStage(
                interceptors: configuration.networkInterceptors, limits: limits, isOutermost: false, shown: { $0 }),
            .chaos: ChaosStage(
                configuration.chaos, timeout: timeout, clock: clock, isProduction: isProduction,
                warn: configuration.engine.warn),
        ]
        var standard = StageSet(.redirect)
        standard.formUnion(Self.caches(configuration.cachePolicy, isSealed: sealsByDefault, cachesSealed))
        standard.set(.retry, configuration.retries > 0)
        standard.set(.connectivity, configuration.reachability.waitsForConnectivity)
        standard.set(.authentication, configuration.authenticator != nil)
        standard.set(
            .composition,
            !configuration.headers.hasNoFields || configuration.immediateHeaderProvider != nil
                || configuration.headerProvider != nil || configuration.parameterProvider != nil)
        standard.set(.seal, sealsByDefault)
        standard.set(.sign, configuration.signer != nil)
        standard.set(.hedge, hedgesByDefault && !sealsByDefault)
        standard.set(.limits, !configuration.limits.isUnlimited || configuration.circuitBreaker != nil)
        standard.set(.interceptors, !configuration.interceptors.isEmpty)
        standard.set(.networkInterceptors, !configuration.networkInterceptors.isEmpty)
        standard.set(.chaos, configuration.chaos?.isOn == true)
        standardStages = standard
        table = StageTable(stages, sender, limits, secrets: configuration.secrets)
        tableToCache = StageTable(
            stages.merging(CacheProbe.stages) { $1 }, sender, limits, secrets: configuration.secrets)
    }

    var limits: TimeLimits { table.limits }

    /// Sends a call's request through its stages.
    func send(_ call: Call) async throws -> HTTPResponse {
        let stages = try stages(for: call, call.request)
        guard stages == StageSet(.redirect) else { return try await send(call, through: stages) }
        let response = try await table.send(call.request, for: call)
        guard redirect.mayFollow(response) else { return response }
        return try await follow(response, of: call, [])
    }

    // Not inlined, so that a plain call that waits has no room for it.
    @inline(never)
    private func send(_ call: Call, through stages: StageSet) async throws -> HTTPResponse {
        let request = call.request
        let rest = stages.subtracting(StageSet(.redirect))
        guard stages.contains(.redirect), rest == StageSet(.attempt) || rest == StageSet(.hedge) else {
            return try await Chain(call, table, stages).proceed(request)
        }
        let response =
            rest.contains(.hedge) ? try await sendHedged(call) : try await sendObserved(request, for: call)
        guard redirect.mayFollow(response) else { return response }
        return try await follow(response, of: call, rest)
    }

    @inline(never)
    private func follow(_ response: HTTPResponse, of call: Call, _ rest: StageSet) async throws -> HTTPResponse {
        try await redirect.follow(response, to: call.request, Chain(call, table, rest))
    }

    @inline(never)
    private func sendObserved(_ request: HTTPRequest, for call: Call) async throws -> HTTPResponse {
        try await AttemptStage.send(request, for: call, hop: 0) { try await table.send($0, for: call) }
    }

    @inline(never)
    private func sendHedged(_ call: Call) async throws -> HTTPResponse {
        let chain = Chain(call, table, [])
        if let response = try await hedge.send(chain, { try await table.send($0, for: $1) }) { return response }
        return try await Chain(call, table, StageSet(.hedge)).proceed(call.request)
    }

    /// Returns a call's request as it reaches the cache. The app's interceptors, authenticator and providers are called, but
    /// nothing is sent.
    ///
    /// - Throws: what they throw; ``NetworkError/Kind/cache`` when an interceptor answers the request itself, and when the
    ///   cache holds sealed messages.
    func requestAtCache(_ call: Call) async throws -> HTTPRequest {
        let caches = StageSet(.cache, .cacheOfSealed, .httpCache, .httpCacheOfOpened)
        let all = try stages(for: call, call.request)
        guard !all.contains(.seal) || !cachesSealed else {
            throw NetworkError(
                .cache,
                message: "the cache finds this entry by its sealed request (cachesSealed), which exists only once "
                    + "it is sent; set cachesSealed to false to store or explain entries",
                request: call.request)
        }
        var stages = all.intersection(
            caches.union(StageSet(.interceptors, .authentication, .mirrors, .composition, .sign)))
        if stages.isDisjoint(with: caches) { stages.insert(.cache) }
        do {
            _ = try await Chain(call, tableToCache, stages).proceed(call.request)
        } catch let end as CacheProbe {
            return end.request
        }
        throw NetworkError(
            .cache, message: "an interceptor answers this request before it reaches the cache; let it call next",
            request: call.request)
    }

    // MARK: Which stages

    private func stages(for call: Call, _ request: HTTPRequest) throws(NetworkError) -> StageSet {
        var stages = standardStages
        if barrier.concerns(request) { stages.insert(.barrier) }
        switch sharing.policy(for: request) {
        case .allow: break
        case .reject: stages.insert(.rejection)
        case .coalesce: stages.formUnion(StageSet(.rejection, .sharing))
        }
        if call.watch != nil || TraceParent.current != nil { stages.insert(.attempt) }
        if request.replacesGlobalHeaders == true, !hasParameterProvider { stages.remove(.composition) }
        if call.details.addresses.count > 1 { stages.insert(.mirrors) }
        if call.details.simulation != nil { stages.insert(.simulation) }
        if !request.context.rowHeaders.hasNoFields { stages.insert(.composition) }
        if let row = call.details.row {
            if limit.concerns(row) { stages.insert(.limits) }
            if row.oauth2 != nil { stages.insert(.authentication) }
        }
        if !request.hasNoSettings { try apply(request, to: &stages) }
        // An unsafe request may invalidate stored responses, whatever its policy (RFC 9111 §4.4).
        if request.method != .get, !request.method.isSafe, !stages.contains(.httpCacheOfOpened),
            cacheOperations.storage.mayHoldEntries
        {
            stages.insert(.httpCache)
        }
        return stages
    }

    /// Changes the stages as the request's own settings demand.
    private func apply(_ request: HTTPRequest, to stages: inout StageSet) throws(NetworkError) {
        if let retries = request.retries { stages.set(.retry, retries > 0) }
        if let waits = request.waitsForConnectivity { stages.set(.connectivity, waits) }
        if request.authenticator != .automatic { stages.set(.authentication, request.authenticator != .off) }
        if request.signer != .automatic { stages.set(.sign, request.signer != .off) }
        if request.digests.sends != nil || request.digests.wants != nil { stages.insert(.sign) }
        if request.traceParent != nil { stages.insert(.attempt) }
        if let chaos = request.chaos { stages.set(.chaos, chaos.isOn) }
        if request.ignoresLimits == true { stages.remove(.limits) }
        if request.sealing != .automatic || request.cachePolicy != nil {
            let isSealed = seals(request)
            stages.set(.seal, isSealed)
            stages.subtract(StageSet(.cache, .httpCache, .cacheOfSealed, .httpCacheOfOpened))
            stages.formUnion(Self.caches(cacheOperations.policy(of: request), isSealed: isSealed, cachesSealed))
        }
        try request.hedge?.check("request.hedge")
        // A server accepts a sealed message once.
        let hedges = request.hedge.map { $0 != .off } ?? hedgesByDefault
        stages.set(.hedge, hedges && !stages.contains(.seal))
    }

    func seals(_ request: HTTPRequest) -> Bool { request.isSealed(byDefault: sealsByDefault) }

    private static func caches(_ policy: CachePolicy, isSealed: Bool, _ cachesSealed: Bool) -> StageSet {
        switch policy {
        case .networkOnly: []
        case .http: isSealed && !cachesSealed ? StageSet(.httpCacheOfOpened) : StageSet(.httpCache)
        default: isSealed && cachesSealed ? StageSet(.cacheOfSealed) : StageSet(.cache)
        }
    }
}

/// The app's interceptors as one stage.
struct InterceptorStage: Stage {
    let interceptors: [any Interceptor]
    let limits: TimeLimits
    /// Whether they see the whole call, and not each of its requests.
    let isOutermost: Bool
    /// Returns the request as the interceptors see it.
    let shown: @Sendable (HTTPRequest) -> HTTPRequest
    /// Returns the request that the interceptors have made as it is sent, given whether it had left its origin before them.
    var sent: @Sendable (HTTPRequest, Bool) -> HTTPRequest = { request, _ in request }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let request = shown(request)
        let hasLeftOrigin = request.context.hasLeftOrigin
        guard chain.call.deadline != nil || !isOutermost && chain.call.isAttempt else {
            return try await intercept(request, hasLeftOrigin, interceptors[...], chain)
        }
        // The deadline, or the response to another request of the call, also ends the wait for an interceptor that ignores
        // cancellation.
        return try await limits.run(for: chain.call, whole: isOutermost) {
            try await intercept(request, hasLeftOrigin, interceptors[...], chain)
        }
    }

    private func intercept(
        _ request: HTTPRequest, _ hasLeftOrigin: Bool, _ rest: ArraySlice<any Interceptor>, _ chain: Chain
    ) async throws -> HTTPResponse {
        guard let first = rest.first else { return try await chain.proceed(sent(request, hasLeftOrigin)) }
        return try await first.intercept(request) { try await intercept($0, hasLeftOrigin, rest.dropFirst(), chain) }
    }
}

/// Records each attempt and hop for the observers, and gives it its span of the trace.
struct AttemptStage: Stage {
    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        try await Self.send(request, for: chain.call, hop: chain.hop) { try await chain.proceed($0) }
    }

    static func send(
        _ request: HTTPRequest, for call: Call, hop: Int, _ proceed: (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        let trace = request.traceParent ?? TraceParent.current ?? call.watch?.trace
        guard trace != nil || call.watch?.call != nil else {
            return try await report(request, [], of: call, hop: hop, proceed)
        }
        let (attempt, ends) = prepared(request, for: call, trace)
        return try await report(attempt, ends, of: call, hop: hop, proceed)
    }

    /// The request with what the observers add, and with its span of the trace.
    @inline(never) private static func prepared(
        _ request: HTTPRequest, for call: Call, _ trace: TraceParent?
    ) -> (HTTPRequest, [RequestAccessory.AttemptEnd]) {
        var attempt = request
        let ends = call.watch?.willSend(&attempt) ?? []
        guard let trace else { return (attempt, ends) }
        if attempt.headers["traceparent"] == nil { attempt.headers["traceparent"] = trace.child().description }
        if attempt.headers["baggage"] == nil, let baggage = trace.baggageField { attempt.headers["baggage"] = baggage }
        return (attempt, ends)
    }

    // Inlined, since a call of an `async` function has a frame of its own.
    @inline(__always) private static func report(
        _ request: HTTPRequest, _ ends: [RequestAccessory.AttemptEnd], of call: Call, hop: Int,
        _ proceed: (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        guard let watch = call.watch else { return try await proceed(request) }
        let attempt = watch.beginAttempt(request, hop: hop, ends)
        do {
            let response = try await proceed(request)
            watch.endAttempt(attempt, request, response)
            return response
        } catch {
            var ending = NetworkError(ending: error, request)
            if ending.kind == .cancelled, call.isLate { ending = call.cancellation }
            if call.isAbandoned {
                watch.abandonAttempt(attempt, request, ending)
            } else {
                watch.endAttempt(attempt, request, ending)
            }
            throw error
        }
    }
}

extension TokenSource {
    init(_ authenticator: any Authenticator, _ manager: @escaping @Sendable () -> CentralRequestManager? = { nil }) {
        self.init(
            apply: { request in
                var authorized = request
                try await authenticator.apply(to: &authorized)
                return (authorized, Credential(of: authorized, before: request))
            },
            isRejected: { await authenticator.isRejected($0, to: $1) },
            refresh: {
                guard let manager = manager() else { return try await authenticator.refresh() }
                try await authenticator.refresh(using: manager)
            }, refreshTimeout: authenticator.refreshTimeout, refreshPause: authenticator.refreshPause,
            needsRefresh: { await authenticator.needsRefresh },
            isAuthorization: authenticator is any AuthorizationAuthenticator)
    }
}

extension HTTPRequest {
    func isSealed(byDefault sealsByDefault: Bool) -> Bool {
        switch self.sealing {
        case .automatic: sealsByDefault
        case .unsealed: false
        case .sealed: true
        }
    }
}
