/// The way every request goes: through the rooms in order, to the transport, and back.
///
/// The order is the behaviour, so it is written in one place, here:
///
/// 1. the app's interceptors, the first one outermost: they see one request and its final answer;
/// 2. retry: repeats what follows after a failure of the network;
/// 3. headers: the manager's defaults and the provider's, asked once for each attempt;
/// 4. redirect: innermost, so that every hop is a request of its own to the transport.
struct Corridor: Sendable {
    private let rooms: [any Interceptor]
    private let transport: any Transport

    init(_ configuration: CentralRequestManager.Configuration, transport: any Transport) {
        var rooms = configuration.interceptors
        rooms.append(RetryInterceptor(retries: configuration.retries))
        if configuration.headerProvider != nil || !configuration.headers.hasNoFields {
            rooms.append(HeaderInterceptor(defaults: configuration.headers, provider: configuration.headerProvider))
        }
        rooms.append(RedirectInterceptor(policy: configuration.redirects, secretHeaders: configuration.secretHeaders))
        self.rooms = rooms
        self.transport = transport
    }

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        try await proceed(request, from: 0)
    }

    private func proceed(_ request: HTTPRequest, from index: Int) async throws -> HTTPResponse {
        guard index < rooms.count else { return try await transport.send(request) }
        return try await rooms[index].intercept(request) { try await proceed($0, from: index + 1) }
    }
}
