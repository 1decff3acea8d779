import CurlTransport
import HTTPCore
import Platform

/// The chain that every request passes: the stages in the order of ``Place``, then the transport, and back.
///
/// Which stages a call passes is known before it starts: those of the manager, and those that the request's own settings
/// ask for. A request that needs none but redirects goes straight to the transport.
final class Pipeline: Sendable {
    private let table: StageTable
    /// The stages of a chain that ends at the cache instead of the transport.
    private let tableToCache: StageTable
    /// The operations that the cache's stages share.
    let cacheOperations: CacheOperations
    /// The stages of a request without settings of its own.
    private let standardStages: StageSet
    private let defaults: RequestDefaults
    /// Whether the cache may hold entries that an unsafe request invalidates.
    private let mayHoldEntries: @Sendable () -> Bool
    private let sharing: SharingStage
    private let barrier: BarrierStage
    let redirect: RedirectStage
    let limit: LimitStage

    /// The manager's settings, for requests that have none of their own.
    struct RequestDefaults: Sendable {
        var retries = 0
        var waitsForConnectivity = false
        var seals = false
        var cachesSealed = false
        var cachePolicy = CachePolicy.networkOnly
        var composes = false
        var hasParameterProvider = false
    }

    /// - Parameter always: the stages that every request passes.
    init(
        _ table: StageTable, toCache tableToCache: StageTable, _ cacheOperations: CacheOperations, always: StageSet,
        defaults: RequestDefaults,
        mayHoldEntries: @escaping @Sendable () -> Bool = { false }, sharing: SharingStage, barrier: BarrierStage,
        redirect: RedirectStage, limit: LimitStage = LimitStage()
    ) {
        self.table = table
        self.tableToCache = tableToCache
        self.cacheOperations = cacheOperations
        self.defaults = defaults
        self.mayHoldEntries = mayHoldEntries
        self.sharing = sharing
        self.barrier = barrier
        self.redirect = redirect
        self.limit = limit
        var standardStages = always
        standardStages.insert(.redirect)
        standardStages.set(.retry, defaults.retries > 0)
        standardStages.set(.connectivity, defaults.waitsForConnectivity)
        standardStages.set(.composition, defaults.composes)
        standardStages.set(.seal, defaults.seals)
        standardStages.formUnion(
            Self.caches(defaults.cachePolicy, isSealed: defaults.seals, defaults.cachesSealed))
        self.standardStages = standardStages
    }

    var limits: TimeLimits { table.limits }

    /// Sends a call's request along the chain.
    func send(_ call: Call) async throws -> HTTPResponse {
        let request = call.request
        let stages = stages(for: call, request)
        let rest = stages.subtracting(StageSet(.redirect))
        guard stages.contains(.redirect), rest.isSubset(of: StageSet(.attempt)) else {
            return try await Chain(call, table, stages).proceed(request)
        }
        let response =
            rest.isEmpty
            ? try await table.send(request, for: call)
            : try await AttemptStage.send(request, for: call, hop: 0) { try await table.send($0, for: call) }
        guard redirect.mayFollow(response) else { return response }
        return try await redirect.follow(response, to: request, Chain(call, table, rest))
    }

    /// Returns a call's request as it reaches the cache. The app's interceptors, authenticator and providers are
    /// called, but nothing is sent.
    ///
    /// - Throws: what they throw; ``NetworkError/Kind/cache`` where an interceptor answers the request itself, and
    ///   where the cache holds sealed messages.
    func requestAtCache(_ call: Call) async throws -> HTTPRequest {
        let caches = StageSet(.cache, .cacheOfSealed, .httpCache, .httpCacheOfOpened)
        let all = stages(for: call, call.request)
        guard !all.contains(.seal) || !defaults.cachesSealed else {
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

    private func stages(for call: Call, _ request: HTTPRequest) -> StageSet {
        var stages = standardStages
        if barrier.concerns(request) { stages.insert(.barrier) }
        switch sharing.policy(for: request) {
        case .allow: break
        case .reject: stages.insert(.rejection)
        case .coalesce: stages.formUnion(StageSet(.rejection, .sharing))
        }
        if call.watch != nil || TraceParent.current != nil { stages.insert(.attempt) }
        if request.replacesGlobalHeaders, !defaults.hasParameterProvider { stages.remove(.composition) }
        if call.details.addresses.count > 1 { stages.insert(.mirrors) }
        if call.details.simulation != nil { stages.insert(.simulation) }
        if !request.rowHeaders.hasNoFields { stages.insert(.composition) }
        if let row = call.details.row, limit.concerns(row) { stages.insert(.limits) }
        if !request.hasNoSettings { apply(request, to: &stages) }
        if !stages.contains(.httpCacheOfOpened), isInvalidating(request) { stages.insert(.httpCache) }
        return stages
    }

    /// Changes the stages as the request's own settings ask.
    private func apply(_ request: HTTPRequest, to stages: inout StageSet) {
        if let retries = request.retries { stages.set(.retry, retries > 0) }
        if let waits = request.waitsForConnectivity { stages.set(.connectivity, waits) }
        if request.authenticator != .automatic { stages.set(.authentication, request.authenticator != .off) }
        if request.traceParent != nil { stages.insert(.attempt) }
        if request.ignoresLimits { stages.remove(.limits) }
        if request.sealing != .automatic || request.cachePolicy != nil {
            let isSealed = seals(request)
            stages.set(.seal, isSealed)
            stages.subtract(StageSet(.cache, .httpCache, .cacheOfSealed, .httpCacheOfOpened))
            stages.formUnion(
                Self.caches(
                    request.cachePolicy ?? defaults.cachePolicy, isSealed: isSealed, defaults.cachesSealed))
        }
    }

    /// Whether a request is sealed.
    func seals(_ request: HTTPRequest) -> Bool {
        switch request.sealing {
        case .automatic: defaults.seals
        case .unsealed: false
        case .sealed: true
        }
    }

    /// Whether a request may invalidate stored responses, whatever its policy (RFC 9111 §4.4).
    private func isInvalidating(_ request: HTTPRequest) -> Bool {
        request.method != .get && !request.method.isSafe && mayHoldEntries()
    }

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
    /// Returns the request as the interceptors see it.
    let shown: @Sendable (HTTPRequest) -> HTTPRequest

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let request = shown(request)
        guard chain.call.deadline != nil else { return try await intercept(request, interceptors[...], chain) }
        // The deadline also ends the wait for an interceptor that ignores cancellation.
        return try await limits.run(for: chain.call) { try await intercept(request, interceptors[...], chain) }
    }

    private func intercept(
        _ request: HTTPRequest, _ rest: ArraySlice<any Interceptor>, _ chain: Chain
    ) async throws -> HTTPResponse {
        guard let first = rest.first else { return try await chain.proceed(request) }
        return try await first.intercept(request) { try await intercept($0, rest.dropFirst(), chain) }
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
        guard let trace = request.traceParent ?? TraceParent.current ?? call.watch?.trace else {
            return try await report(request, of: call, hop: hop, proceed)
        }
        var attempt = request
        if attempt.headers["traceparent"] == nil { attempt.headers["traceparent"] = trace.child().description }
        if attempt.headers["baggage"] == nil, let baggage = trace.baggageField { attempt.headers["baggage"] = baggage }
        return try await report(attempt, of: call, hop: hop, proceed)
    }

    // Inlined, since a call of an `async` function has a frame of its own.
    @inline(__always) private static func report(
        _ request: HTTPRequest, of call: Call, hop: Int, _ proceed: (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        guard let watch = call.watch else { return try await proceed(request) }
        let attempt = watch.beginAttempt(request, hop: hop)
        do {
            let response = try await proceed(request)
            watch.endAttempt(attempt, request, response)
            return response
        } catch {
            watch.endAttempt(attempt, request, NetworkError(ending: error, request))
            throw error
        }
    }
}
