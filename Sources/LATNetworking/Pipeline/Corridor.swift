/// The way every request goes: through the rooms in order, to the transport, and back.
///
/// The order is the behaviour, so it is written in one place, here:
///
/// 1. the app's interceptors, the first one outermost: they see one request, with all that is known of it before the
///    providers are asked, and its final answer;
/// 2. retry: repeats what follows after a failure of the network;
/// 3. mirrors: goes to a domain's next address when one cannot be connected to;
/// 4. compose: headers by precedence, common parameters, body; the providers are asked once for each attempt;
/// 5. simulation: answers in the server's place;
/// 6. seal: seals the content, opens that of the reply. A response cache belongs right outside of it, so that it keeps
/// what
///    was opened, or right inside of it where ``CentralRequestManager/Configuration/cachesSealed`` says so;
/// 7. sign: signs what is sent, as it is sent;
/// 8. redirect: innermost, so that every hop is a request of its own to the transport.
///
/// A room that has nothing to do for a request is not walked through.
struct Corridor: Sendable {
    /// The app's own rooms, the first outermost.
    let interceptors: [any Interceptor]
    let retry: RetryInterceptor
    let connectivity: ConnectivityInterceptor
    let mirrors: MirrorInterceptor
    let compose: ComposeInterceptor
    let simulation: SimulationInterceptor
    let seal: SealInterceptor
    let sign: SignInterceptor?
    let redirect: RedirectInterceptor
    /// The app's rooms next to the network, the first outermost.
    let networkInterceptors: [any Interceptor]
    let transport: any Transport

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        let request = interceptors.isEmpty ? request : try compose.preview(of: request)
        let rooms = rooms(for: request)
        return rooms.isEmpty ? try await hop(request) : try await proceed(request, through: rooms[...])
    }

    private func rooms(for request: HTTPRequest) -> [any Interceptor] {
        var rooms = interceptors
        if request.retries ?? retry.retries > 0 { rooms.append(retry) }
        if !connectivity.isIdle(for: request) { rooms.append(connectivity) }
        if request.attachment != nil, request.context.addresses.count > 1 { rooms.append(mirrors) }
        if !compose.isIdle(for: request) { rooms.append(compose) }
        if !simulation.isIdle(for: request) { rooms.append(simulation) }
        if !seal.isIdle(for: request) { rooms.append(seal) }
        if let sign { rooms.append(sign) }
        return rooms
    }

    private func proceed(
        _ request: HTTPRequest, through rooms: ArraySlice<any Interceptor>
    ) async throws -> HTTPResponse {
        guard let room = rooms.first else { return try await hop(request) }
        return try await room.intercept(request) { try await proceed($0, through: rooms.dropFirst()) }
    }

    private func hop(_ request: HTTPRequest) async throws -> HTTPResponse {
        if networkInterceptors.isEmpty { return try await redirect.intercept(request) { try await transport.send($0) } }
        return try await redirect.intercept(request) { try await transmit($0, through: networkInterceptors[...]) }
    }

    private func transmit(
        _ request: HTTPRequest, through rooms: ArraySlice<any Interceptor>
    ) async throws -> HTTPResponse {
        guard let room = rooms.first else { return try await transport.send(request) }
        return try await room.intercept(request) { try await transmit($0, through: rooms.dropFirst()) }
    }
}
