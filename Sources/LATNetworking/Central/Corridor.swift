import CurlTransport
import HTTPCore
import Platform

/// The chain that every request passes: the rooms in the order of ``Place``, then the transport, and back.
///
/// Which rooms a call passes is known before it starts: those of the manager, and those that the request's own settings
/// ask for. A request that needs none but redirects goes straight to the transport.
final class Corridor: Sendable {
    private let table: RoomTable
    /// The rooms of a chain that ends at the cache instead of the transport.
    private let tableToCache: RoomTable
    /// The operations that the cache's rooms share.
    let cacheOperations: CacheOperations
    /// The rooms of a request without settings of its own.
    private let standardRooms: RoomSet
    private let defaults: RequestDefaults
    /// Whether the cache may hold entries that an unsafe request invalidates.
    private let mayHoldEntries: @Sendable () -> Bool
    private let sharing: SharingRoom
    private let barrier: BarrierRoom
    let redirect: RedirectRoom
    let limit: LimitRoom

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

    /// - Parameter always: the rooms that every request passes.
    init(
        _ table: RoomTable, toCache tableToCache: RoomTable, _ cacheOperations: CacheOperations, always: RoomSet,
        defaults: RequestDefaults,
        mayHoldEntries: @escaping @Sendable () -> Bool = { false }, sharing: SharingRoom, barrier: BarrierRoom,
        redirect: RedirectRoom, limit: LimitRoom = LimitRoom()
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
        var standardRooms = always
        standardRooms.insert(.redirect)
        standardRooms.set(.retry, defaults.retries > 0)
        standardRooms.set(.connectivity, defaults.waitsForConnectivity)
        standardRooms.set(.composition, defaults.composes)
        standardRooms.set(.seal, defaults.seals)
        standardRooms.formUnion(
            Self.caches(defaults.cachePolicy, isSealed: defaults.seals, defaults.cachesSealed))
        self.standardRooms = standardRooms
    }

    var limits: TimeLimits { table.limits }

    /// Sends a call's request along the chain.
    func send(_ call: Call) async throws -> HTTPResponse {
        let request = call.request
        let rooms = rooms(for: call, request)
        let rest = rooms.subtracting(RoomSet(.redirect))
        guard rooms.contains(.redirect), rest.isSubset(of: RoomSet(.attempt)) else {
            return try await Chain(call, table, rooms).proceed(request)
        }
        let response =
            rest.isEmpty
            ? try await table.send(request, for: call)
            : try await AttemptRoom.send(request, for: call, hop: 0) { try await table.send($0, for: call) }
        guard redirect.mayFollow(response) else { return response }
        return try await redirect.follow(response, to: request, Chain(call, table, rest))
    }

    /// Returns a call's request as it reaches the cache. The app's interceptors, authenticator and providers are
    /// called, but nothing is sent.
    ///
    /// - Throws: what they throw; ``NetworkError/Kind/cache`` where an interceptor answers the request itself, and
    ///   where the cache holds sealed messages.
    func requestAtCache(_ call: Call) async throws -> HTTPRequest {
        let caches = RoomSet(.cache, .cacheOfSealed, .httpCache, .httpCacheOfOpened)
        let all = rooms(for: call, call.request)
        guard !all.contains(.seal) || !defaults.cachesSealed else {
            throw NetworkError(
                .cache,
                message: "the cache finds this entry by its sealed request (cachesSealed), which exists only once "
                    + "it is sent; set cachesSealed to false to store or explain entries",
                request: call.request)
        }
        var rooms = all.intersection(
            caches.union(RoomSet(.interceptors, .authentication, .mirrors, .composition, .sign)))
        if rooms.isDisjoint(with: caches) { rooms.insert(.cache) }
        do {
            _ = try await Chain(call, tableToCache, rooms).proceed(call.request)
        } catch let end as CacheProbe {
            return end.request
        }
        throw NetworkError(
            .cache, message: "an interceptor answers this request before it reaches the cache; let it call next",
            request: call.request)
    }

    // MARK: Which rooms

    private func rooms(for call: Call, _ request: HTTPRequest) -> RoomSet {
        var rooms = standardRooms
        if barrier.concerns(request) { rooms.insert(.barrier) }
        switch sharing.policy(for: request) {
        case .allow: break
        case .reject: rooms.insert(.rejection)
        case .coalesce: rooms.formUnion(RoomSet(.rejection, .sharing))
        }
        if call.watch != nil || TraceParent.current != nil { rooms.insert(.attempt) }
        if request.replacesGlobalHeaders, !defaults.hasParameterProvider { rooms.remove(.composition) }
        if call.details.addresses.count > 1 { rooms.insert(.mirrors) }
        if call.details.simulation != nil { rooms.insert(.simulation) }
        if !request.rowHeaders.hasNoFields { rooms.insert(.composition) }
        if let row = call.details.row, limit.concerns(row) { rooms.insert(.limits) }
        if !request.hasNoSettings { apply(request, to: &rooms) }
        if !rooms.contains(.httpCacheOfOpened), isInvalidating(request) { rooms.insert(.httpCache) }
        return rooms
    }

    /// Changes the rooms as the request's own settings ask.
    private func apply(_ request: HTTPRequest, to rooms: inout RoomSet) {
        if let retries = request.retries { rooms.set(.retry, retries > 0) }
        if let waits = request.waitsForConnectivity { rooms.set(.connectivity, waits) }
        if request.authenticator != .automatic { rooms.set(.authentication, request.authenticator != .off) }
        if request.traceParent != nil { rooms.insert(.attempt) }
        if request.ignoresLimits { rooms.remove(.limits) }
        if request.sealing != .automatic || request.cachePolicy != nil {
            let isSealed = seals(request)
            rooms.set(.seal, isSealed)
            rooms.subtract(RoomSet(.cache, .httpCache, .cacheOfSealed, .httpCacheOfOpened))
            rooms.formUnion(
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

    private static func caches(_ policy: CachePolicy, isSealed: Bool, _ cachesSealed: Bool) -> RoomSet {
        switch policy {
        case .networkOnly: []
        case .http: isSealed && !cachesSealed ? RoomSet(.httpCacheOfOpened) : RoomSet(.httpCache)
        default: isSealed && cachesSealed ? RoomSet(.cacheOfSealed) : RoomSet(.cache)
        }
    }
}

/// The app's interceptors as one room.
struct InterceptorRoom: Room {
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
struct AttemptRoom: Room {
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
