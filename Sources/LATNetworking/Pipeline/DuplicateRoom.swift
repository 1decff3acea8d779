import HTTPCore
import Synchronization

/// Lets requests that are the same share one answer, or refuses the second (``DuplicatePolicy``).
///
/// No interceptor: the shared request runs in a task of its own, which outlives the caller who began it.
final class DuplicateRoom: Sendable {
    typealias Rest = @Sendable (HTTPRequest) async throws -> HTTPResponse

    /// One request on behalf of several callers.
    private final class SharedCall: Sendable {
        private struct State {
            var waiters: [UInt64: Waiter<HTTPResponse>] = [:]
            var progress: [UInt64: @Sendable (TransferProgress) -> Void] = [:]
            var work: Task<Void, Never>?
            var isCancelled = false
        }

        let control = TransferControl()
        private let state = Mutex(State())

        func add(_ id: UInt64, _ waiter: Waiter<HTTPResponse>, for request: HTTPRequest) {
            state.withLock { state in
                state.waiters[id] = waiter
                state.progress[id] = request.progressHandler
            }
        }

        /// The highest priority of the callers is that of the request.
        func raisePriority(for request: HTTPRequest) {
            control.raisePriority(to: max(request.priority, request.control?.priority ?? .low))
        }

        func start(_ work: @escaping @Sendable () async -> Void) {
            let task = Task { await work() }
            let isCancelled = state.withLock { state in
                state.work = task
                return state.isCancelled
            }
            if isCancelled { task.cancel() }
        }

        /// Nobody wants the answer any more.
        func cancel() {
            let work = state.withLock { state in
                state.isCancelled = true
                return state.work
            }
            control.cancel()
            work?.cancel()
        }

        func remove(_ id: UInt64) {
            state.withLock { state in
                state.waiters[id] = nil
                state.progress[id] = nil
            }
        }

        func report(_ progress: TransferProgress) {
            for handler in state.withLock({ $0.progress }).values { handler(progress) }
        }

        func end(_ result: Result<HTTPResponse, any Error>) {
            let waiters = state.withLock { state in
                defer { state = State() }
                return state.waiters
            }
            for waiter in waiters.values { waiter.end(result) }
        }
    }

    private struct State {
        var table = SharedCalls<DuplicateKey, UInt64>()
        var shared: [UInt64: SharedCall] = [:]
        /// Requests that are the only ones of their kind by their own wish.
        var exclusive: Set<DuplicateKey> = []
        var ids: UInt64 = 0
    }

    private let standard: DuplicatePolicy
    private let state = Mutex(State())

    init(_ standard: DuplicatePolicy) { self.standard = standard }

    func policy(for request: HTTPRequest) -> DuplicatePolicy {
        let own = (request.flowOptions as? FlowOptions)?.duplicates
        switch own ?? standard {
        case .allow: return .allow
        case .reject: return .reject
        // As the manager's setting it must not make one order of two.
        case .coalesce: return request.streamsBody || own == nil && !request.method.isSafe ? .allow : .coalesce
        }
    }

    func send(_ request: HTTPRequest, _ rest: @escaping Rest) async throws -> HTTPResponse {
        let policy = policy(for: request)
        guard policy != .allow, let key = DuplicateKey(request) else { return try await rest(request) }
        return policy == .reject ? try await alone(request, key, rest) : try await together(request, key, rest)
    }

    private func alone(_ request: HTTPRequest, _ key: DuplicateKey, _ rest: Rest) async throws -> HTTPResponse {
        let isFirst = state.withLock { state in
            !state.table.isRunning(key) && state.exclusive.insert(key).inserted
        }
        guard isFirst else {
            throw NetworkError(
                .duplicate, message: "the same request is under way; wait for it, or allow duplicates",
                request: request)
        }
        defer { state.withLock { _ = $0.exclusive.remove(key) } }
        return try await rest(request)
    }

    private func together(
        _ request: HTTPRequest, _ key: DuplicateKey, _ rest: @escaping Rest
    ) async throws -> HTTPResponse {
        let waiter = Waiter<HTTPResponse>()
        let (id, token, call, isFirst) = state.withLock { state in
            state.ids += 1
            let id = state.ids
            switch state.table.join(key, id) {
            case .lead(let token):
                let call = SharedCall()
                state.shared[token] = call
                call.add(id, waiter, for: request)
                return (id, token, call, true)
            case .follow(let token):
                let call = state.shared[token] ?? SharedCall()
                call.add(id, waiter, for: request)
                return (id, token, call, false)
            }
        }
        call.raisePriority(for: request)
        if isFirst {
            start(request, call, key, token, rest)
        } else {
            request.flow.timeline?.record(.waiting(.sharedRequest))
        }
        do {
            return try await waiter.value(for: request) { call.control.raisePriority(to: $0) }
        } catch {
            leave(call, key, id, token)
            throw error
        }
    }

    private func start(
        _ request: HTTPRequest, _ call: SharedCall, _ key: DuplicateKey, _ token: UInt64, _ rest: @escaping Rest
    ) {
        var shared = request
        shared.control = call.control
        shared.progressHandler = { call.report($0) }
        call.start { [self, shared] in
            let result: Result<HTTPResponse, any Error>
            do {
                result = .success(try await rest(shared))
            } catch {
                result = .failure(error)
            }
            state.withLock { state in
                _ = state.table.finish(key, token: token)
                state.shared[token] = nil
            }
            call.end(result)
        }
    }

    private func leave(_ call: SharedCall, _ key: DuplicateKey, _ id: UInt64, _ token: UInt64) {
        call.remove(id)
        let isLast = state.withLock { state in
            guard state.table.leave(key, id, token: token) else { return false }
            state.shared[token] = nil
            return true
        }
        if isLast { call.cancel() }
    }
}
