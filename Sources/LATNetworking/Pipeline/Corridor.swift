import HTTPCore

/// The way every request goes: through the rooms in order, to the transport, and back.
///
/// The order is the behaviour, so it is written in one place, here:
///
/// 0. around all rooms, where a call uses them: deadline, duplicates, barriers (``FlowRooms``);
/// 1. the app's interceptors, the first one outermost: they see one request, with all that is known of it before the
///    providers are asked, and its final answer;
/// 2. fallback: gives what is cached when every attempt has failed, where the policy says so;
/// 3. retry: repeats what follows as the policy and the budget say;
/// 4. connectivity: waits for the network when no connection came about, where that is wanted;
/// 5. authorize: puts the token on each attempt, and has it renewed when it is refused;
/// 6. mirrors: goes to a domain's next address when one cannot be connected to;
/// 7. compose: headers by precedence, common parameters, body; the providers are asked once for each attempt;
/// 8. simulation: answers in the server's place;
/// 9. cache, by the app's policies: what is stored is the answer to the call, whatever way led to it;
/// 10. seal and sign: seal the content and open that of the reply; sign what is sent, as it is sent;
/// 11. redirect: so that every hop is a request of its own to what follows;
/// 12. cache, by RFC 9111 (``CachePolicy/http``): so that every hop is stored under its own URL;
/// 13. limits: concurrency, rate and circuit; inside the caches, so that what needs no network takes no place, and inside
///     compose, so that a provider that sends requests holds none;
/// 14. attempt: tells the watchers of each attempt and hop, and puts the span of the trace on;
/// 15. the app's network interceptors: they see each attempt and each hop as it is sent.
///
/// Where a reply is sealed, the caches keep what was opened, and so stand outside of seal, or what came, and stand
/// inside of it: ``CentralRequestManager/Configuration/cachesSealed`` says which. A room that has nothing to do for a
/// request is not walked through.
struct Corridor: Sendable {
    /// The app's own rooms, the first outermost.
    let interceptors: [any Interceptor]
    let flow: FlowRooms
    let retry: RetryInterceptor
    let connectivity: ConnectivityInterceptor
    let authorize: AuthorizeInterceptor?
    let limits: LimitInterceptor?
    let mirrors: MirrorInterceptor
    let compose: ComposeInterceptor
    let simulation: SimulationInterceptor
    let cache: CacheInterceptor
    /// Whether the caches keep sealed replies as they came.
    let cachesSealed: Bool
    let seal: SealInterceptor
    let sign: SignInterceptor?
    let redirect: RedirectInterceptor
    /// The app's rooms next to the network, the first outermost.
    let networkInterceptors: [any Interceptor]
    let transport: any Transport
    let attempt = AttemptInterceptor()

    private typealias Next = @Sendable (HTTPRequest) async throws -> HTTPResponse

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        if flow.isIdle(for: request) { return try await walk(request) }
        return try await flow.send(request) { try await walk($0) }
    }

    private func walk(_ request: HTTPRequest) async throws -> HTTPResponse {
        let request = interceptors.isEmpty ? request : try compose.preview(of: request)
        let rooms = rooms(for: request)
        return rooms.isEmpty ? try await exchange(request) : try await proceed(request, through: rooms[...])
    }

    private func rooms(for request: HTTPRequest) -> [any Interceptor] {
        var rooms = interceptors
        let isRepeated = !retry.isIdle(for: request)
        let hasMirrors = request.attachment != nil && request.context.addresses.count > 1
        if isRepeated || hasMirrors, policy(of: request) != .networkOnly { rooms.append(FallbackInterceptor()) }
        if isRepeated { rooms.append(retry) }
        if !connectivity.isIdle(for: request) { rooms.append(connectivity) }
        if let authorize, !authorize.isIdle(for: request) { rooms.append(authorize) }
        if hasMirrors { rooms.append(mirrors) }
        if !compose.isIdle(for: request) { rooms.append(compose) }
        if !simulation.isIdle(for: request) { rooms.append(simulation) }
        return rooms
    }

    private func proceed(
        _ request: HTTPRequest, through rooms: ArraySlice<any Interceptor>
    ) async throws -> HTTPResponse {
        guard let room = rooms.first else { return try await exchange(request) }
        return try await room.intercept(request) { try await proceed($0, through: rooms.dropFirst()) }
    }

    private func policy(of request: HTTPRequest) -> CachePolicy { request.cachePolicy ?? cache.standard }

    /// From the caches on: which of them stands where.
    private func exchange(_ request: HTTPRequest) async throws -> HTTPResponse {
        let policy = policy(of: request)
        let isSealed = !seal.isIdle(for: request)
        if policy == .networkOnly, !isSealed, sign == nil, networkInterceptors.isEmpty, limits == nil,
            attempt.isIdle(for: request)
        {
            return try await redirect.intercept(request) { [transport] in try await transport.send($0) }
        }
        let isOutside = isSealed && !cachesSealed
        switch policy {
        case .networkOnly:
            return try await sealed(request) { try await signed($0, transmit) }
        case .http where isOutside:
            return try await httpCache { request in
                try await sealed(request) { try await signed($0, transmit) }
            }(request)
        case .http:
            return try await sealed(request) { try await signed($0, httpCache(transmit)) }
        case .writeOnly, .cacheOnly, .cacheElseNetwork, .cacheThenNetwork, .networkElseCache:
            if isSealed, cachesSealed {
                return try await sealed(request) { request in
                    try await cache.intercept(request) { try await signed($0, transmit) }
                }
            }
            return try await cache.intercept(request) { request in
                try await sealed(request) { try await signed($0, transmit) }
            }
        }
    }

    private func sealed(_ request: HTTPRequest, _ next: Next) async throws -> HTTPResponse {
        seal.isIdle(for: request) ? try await next(request) : try await seal.intercept(request, next: next)
    }

    private func signed(_ request: HTTPRequest, _ next: @escaping Next) async throws -> HTTPResponse {
        guard let sign else { return try await hops(request, next) }
        return try await sign.intercept(request) { try await hops($0, next) }
    }

    private func hops(_ request: HTTPRequest, _ next: @escaping Next) async throws -> HTTPResponse {
        try await redirect.intercept(request, next: next)
    }

    private func httpCache(_ next: @escaping Next) -> Next {
        let cache = HTTPCache(transport: Rest(next: next), desk: cache.desk, timeout: cache.timeout)
        return { try await cache.send($0) }
    }

    @Sendable private func transmit(_ request: HTTPRequest) async throws -> HTTPResponse {
        guard let limits else { return try await attempted(request) }
        return try await limits.intercept(request) { try await attempted($0) }
    }

    private func attempted(_ request: HTTPRequest) async throws -> HTTPResponse {
        if attempt.isIdle(for: request) { return try await sent(request) }
        return try await attempt.intercept(request) { try await sent($0) }
    }

    private func sent(_ request: HTTPRequest) async throws -> HTTPResponse {
        networkInterceptors.isEmpty
            ? try await transport.send(request) : try await transmit(request, through: networkInterceptors[...])
    }

    private func transmit(
        _ request: HTTPRequest, through rooms: ArraySlice<any Interceptor>
    ) async throws -> HTTPResponse {
        guard let room = rooms.first else { return try await transport.send(request) }
        return try await room.intercept(request) { try await transmit($0, through: rooms.dropFirst()) }
    }

    /// What follows a room, as a transport.
    private struct Rest: Transport {
        let next: Next

        func send(_ request: HTTPRequest) async throws -> HTTPResponse { try await next(request) }
    }
}
