import HTTPCore
import Synchronization

/// Has the authenticator put its token on each attempt, and renew it when it is refused, as ``RefreshState`` says.
final class AuthorizeInterceptor: Interceptor {
    private struct State {
        var tokens: RefreshState
        var waiters: [Waiter<Void>] = []
        var failure: NetworkError?
    }

    private let authenticator: any Authenticator
    private let clock: FlowClock
    private let state: Mutex<State>

    init(_ authenticator: any Authenticator, clock: FlowClock = .continuous) {
        self.authenticator = authenticator
        self.clock = clock
        state = Mutex(State(tokens: RefreshState(pause: authenticator.refreshPause)))
    }

    func isIdle(for request: HTTPRequest) -> Bool {
        if let flow = request.flowOptions as? FlowOptions, !flow.authenticates { return true }
        return FlowScope.renewing.contains(ObjectIdentifier(self))
    }

    func intercept(
        _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        var isReplay = false
        while true {
            let epoch = try await epoch(for: request)
            let authorized = try await authorized(request)
            let response = try await next(authorized)
            guard await authenticator.isRejected(response, to: authorized) else {
                state.withLock { $0.tokens.accepted(epoch: epoch) }
                return response
            }
            guard try await isReplayed(request, response, epoch, isReplay) else { return response }
            request.flow.timeline?.record(.replaying)
            isReplay = true
        }
    }

    /// Waits for a renewal that is under way.
    private func epoch(for request: HTTPRequest) async throws -> Int {
        while true {
            let (waiter, epoch) = state.withLock { state -> (Waiter<Void>?, Int) in
                guard case .wait = state.tokens.start() else { return (nil, state.tokens.epoch) }
                let waiter = Waiter<Void>()
                state.waiters.append(waiter)
                return (waiter, 0)
            }
            guard let waiter else { return epoch }
            request.flow.timeline?.record(.waiting(.token))
            try await wait(waiter, request, nil)
        }
    }

    private func authorized(_ request: HTTPRequest) async throws -> HTTPRequest {
        var authorized = request
        do {
            try await authenticator.apply(to: &authorized)
        } catch let error as CancellationError where Task.isCancelled {
            throw error
        } catch {
            throw NetworkError(
                .provider, message: "the authenticator threw: \(error); nothing was sent", request: request,
                underlying: error)
        }
        return authorized
    }

    /// What a refusal leads to: `true` for one more attempt, `false` for its delivery.
    private func isReplayed(
        _ request: HTTPRequest, _ response: HTTPResponse, _ epoch: Int, _ isReplay: Bool
    ) async throws -> Bool {
        let waiter = Waiter<Void>()
        let canReplay = request.isReplayable
        let (decision, failure) = state.withLock { state in
            let decision = state.tokens.rejected(epoch: epoch, isReplay: isReplay, at: clock.now())
            if canReplay, decision == .refresh || decision == .wait { state.waiters.append(waiter) }
            return (decision, state.failure)
        }
        if decision == .refresh { renew() }
        switch decision {
        case .deliver: return false
        case .fail: throw Self.failure(failure, request, response)
        case .replay: return canReplay
        case .refresh, .wait:
            guard canReplay else { return false }
            request.flow.timeline?.record(.waiting(.token))
            try await wait(waiter, request, response)
            return true
        }
    }

    private func wait(_ waiter: Waiter<Void>, _ request: HTTPRequest, _ response: HTTPResponse?) async throws {
        do {
            try await waiter.value(for: request)
        } catch let error as NetworkError where error.kind == .authentication {
            throw Self.failure(error, request, response)
        }
    }

    /// Renews the token in a task of its own, which no caller's cancellation reaches.
    private func renew() {
        let scope = FlowScope.renewing.union([ObjectIdentifier(self)])
        let limit = authenticator.refreshTimeout
        Task { [authenticator, clock] in
            var failure: NetworkError?
            do {
                try await FlowScope.$renewing.withValue(scope) {
                    try await clock.run(within: limit, for: HTTPRequest("GET", ""), late: { Late(limit: limit) }) {
                        try await authenticator.refresh()
                    }
                }
            } catch {
                failure = NetworkError(
                    .authentication, message: "the token could not be renewed: \(error); sign in again",
                    underlying: error)
            }
            finish(failure)
        }
    }

    private func finish(_ failure: NetworkError?) {
        let waiters = state.withLock { state in
            state.tokens.finished(isRenewed: failure == nil, at: clock.now())
            state.failure = failure
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.end(failure.map { .failure($0) } ?? .success(())) }
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
