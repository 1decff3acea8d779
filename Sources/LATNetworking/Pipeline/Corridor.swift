/// The way every request goes: through the rooms in order, to the transport, and back.
///
/// The order is the behaviour, so it is written in one place, here:
///
/// 1. the app's interceptors, the first one outermost: they see one request and its final answer;
/// 2. retry: repeats what follows after a failure of the network;
/// 3. headers: the manager's defaults and the provider's, asked once for each attempt;
/// 4. redirect: innermost, so that every hop is a request of its own to the transport.
///
/// A room that has nothing to do for a request is not walked through.
struct Corridor: Sendable {
    private let rooms: [any Interceptor]
    /// The same with the retry room among them.
    private let roomsWithRetry: [any Interceptor]
    private let retries: Int
    private let redirect: RedirectInterceptor
    private let transport: any Transport

    init(_ configuration: CentralRequestManager.Configuration, transport: any Transport) {
        var inner: [any Interceptor] = []
        if configuration.headerProvider != nil || !configuration.headers.hasNoFields {
            inner.append(HeaderInterceptor(defaults: configuration.headers, provider: configuration.headerProvider))
        }
        rooms = configuration.interceptors + inner
        roomsWithRetry = configuration.interceptors + [RetryInterceptor(retries: configuration.retries)] + inner
        retries = configuration.retries
        redirect = RedirectInterceptor(policy: configuration.redirects, secretHeaders: configuration.secretHeaders)
        self.transport = transport
    }

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        let isRetried = request.retries ?? retries > 0
        return try await proceed(request, through: isRetried ? roomsWithRetry[...] : rooms[...])
    }

    private func proceed(
        _ request: HTTPRequest, through rooms: ArraySlice<any Interceptor>
    ) async throws -> HTTPResponse {
        guard let room = rooms.first else {
            return try await redirect.intercept(request) { try await transport.send($0) }
        }
        return try await room.intercept(request) { try await proceed($0, through: rooms.dropFirst()) }
    }
}
