/// The way every request goes: through the rooms in order, to the transport, and back.
///
/// The order is the behaviour, so it is written in one place, here:
///
/// 1. the app's interceptors, the first one outermost: they see one request and its final answer;
/// 2. retry: repeats what follows after a failure of the network;
/// 3. mirrors: goes to a domain's next address when one cannot be connected to;
/// 4. compose: headers by precedence, common parameters, body; the providers are asked once for each attempt;
/// 5. simulation: answers in the server's place;
/// 6. cache, by the app's policies: what is stored is the answer to the call, whatever way led to it;
/// 7. redirect: so that every hop is a request of its own;
/// 8. cache, by RFC 9111 (``CachePolicy/http``): innermost, so that every hop is stored under its own URL.
///
/// A room that has nothing to do for a request is not walked through.
struct Corridor: Sendable {
    /// The app's own rooms, the first outermost.
    let interceptors: [any Interceptor]
    let retry: RetryInterceptor
    let compose: ComposeInterceptor
    let simulation: SimulationInterceptor
    let cache: CacheInterceptor?
    let redirect: RedirectInterceptor
    let httpCache: HTTPCache?
    let transport: any Transport
    private let mirrors = MirrorInterceptor()

    init(
        interceptors: [any Interceptor], retry: RetryInterceptor, compose: ComposeInterceptor,
        simulation: SimulationInterceptor, cache: CacheInterceptor? = nil, redirect: RedirectInterceptor,
        transport: any Transport
    ) {
        self.interceptors = interceptors
        self.retry = retry
        self.compose = compose
        self.simulation = simulation
        self.cache = cache
        self.redirect = redirect
        httpCache = cache.map { HTTPCache(transport: transport, desk: $0.desk, timeout: $0.timeout) }
        self.transport = transport
    }

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        let rooms = rooms(for: request)
        return rooms.isEmpty ? try await hop(request) : try await proceed(request, through: rooms[...])
    }

    private func rooms(for request: HTTPRequest) -> [any Interceptor] {
        var rooms = interceptors
        let isRepeated = request.retries ?? retry.retries > 0
        let hasMirrors = request.attachment != nil && request.context.addresses.count > 1
        if cache != nil, isRepeated || hasMirrors { rooms.append(FallbackInterceptor()) }
        if isRepeated { rooms.append(retry) }
        if hasMirrors { rooms.append(mirrors) }
        if !compose.isIdle(for: request) { rooms.append(compose) }
        if !simulation.isIdle(for: request) { rooms.append(simulation) }
        return rooms
    }

    private func proceed(
        _ request: HTTPRequest, through rooms: ArraySlice<any Interceptor>
    ) async throws -> HTTPResponse {
        guard let room = rooms.first else { return try await hop(request) }
        return try await room.intercept(request) { try await proceed($0, through: rooms.dropFirst()) }
    }

    private func hop(_ request: HTTPRequest) async throws -> HTTPResponse {
        guard let cache, let httpCache else {
            return try await redirect.intercept(request) { try await transport.send($0) }
        }
        switch request.cachePolicy ?? cache.standard {
        case .networkOnly:
            return try await redirect.intercept(request) { try await transport.send($0) }
        case .http:
            return try await redirect.intercept(request) { try await httpCache.send($0) }
        case .writeOnly, .cacheOnly, .cacheElseNetwork, .cacheThenNetwork, .networkElseCache:
            return try await cache.intercept(request) { request in
                try await redirect.intercept(request) { try await transport.send($0) }
            }
        }
    }
}
