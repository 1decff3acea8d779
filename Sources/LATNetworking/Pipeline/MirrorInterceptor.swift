import HTTPCore
import Synchronization

/// Goes to the next address of a domain when one cannot be connected to, remembers that for a while, and returns to the
/// first when the while is over.
final class MirrorInterceptor: Interceptor {
    /// How long an address is passed over after no connection to it came about.
    private let memory: Duration
    private let clock = ContinuousClock()
    private let states = Mutex<[String: MirrorState]>([:])

    init(memory: Duration) { self.memory = memory }

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        let context = request.context
        // An interceptor of the app that names another address means that one.
        guard request.url == context.addresses.first else { return try await next(request) }
        let key = context.mirrorKey
        let order = states.withLock {
            $0[key, default: MirrorState(memory: memory)].order(of: context.addresses.count, at: clock.now)
        }
        var failures: [NetworkError] = []
        for index in order {
            var attempt = request
            attempt.url = context.addresses[index]
            do {
                let response = try await next(attempt)
                states.withLock { $0[key, default: MirrorState(memory: memory)].succeeded(index) }
                return response
            } catch let error as NetworkError where Self.isUnreachable(error) && request.isReplayable {
                states.withLock { $0[key, default: MirrorState(memory: memory)].failed(index, at: clock.now) }
                failures.append(error)
            }
        }
        guard let first = failures.first else { return try await next(request) }
        throw first.counting(attempts: failures.count)
    }

    /// Nothing of the request can have reached the server, so that every method may go elsewhere.
    private static func isUnreachable(_ error: NetworkError) -> Bool {
        switch error.kind {
        case .dns, .connect, .timeout(.connect), .circuitOpen: true
        default: false
        }
    }
}
