import HTTPCore
import Platform
import Synchronization

/// Rejects a call when an equal one is running (``DuplicatePolicy/reject``).
final class RejectionStage: Stage {
    private let sharing: SharingStage
    /// The number of running calls for each key, among those that do not allow duplicates.
    private let running = Mutex<[DuplicateKey: Int]>([:])

    init(_ sharing: SharingStage) { self.sharing = sharing }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        guard let key = DuplicateKey(request, simulation: chain.call.details.simulation) else {
            return try await chain.proceed(request)
        }
        let isFirst = running.withLock { running in
            running[key, default: 0] += 1
            return running[key] == 1
        }
        defer {
            running.withLock { running in
                running[key, default: 1] -= 1
                if running[key] == 0 { running[key] = nil }
            }
        }
        guard isFirst || sharing.policy(for: request) == .coalesce else {
            throw NetworkError(
                .duplicate, message: "an equal request is running; wait for it, or allow duplicates",
                request: request)
        }
        return try await chain.proceed(request)
    }
}

/// Lets equal requests share one response (``DuplicatePolicy/coalesce``, ``SharedCalls``).
///
/// The shared request is a call of its own in a task of its own, which outlives the caller that started it.
final class SharingStage: Stage {
    /// One request for several callers.
    private struct SharedCall: Sendable {
        let call: Call
        let progress: ProgressRelay
        var waiters: [UInt64: Waiter<HTTPResponse>] = [:]
        /// The callers that are paused.
        var paused: Set<UInt64> = []
    }

    private struct State {
        var table = SharedCalls<DuplicateKey, UInt64>()
        var shared: [UInt64: SharedCall] = [:]
        var ids: UInt64 = 0

        /// Suspends or resumes a shared call. Under the lock, so that changes reach the call in their order.
        func suspend(_ token: UInt64) {
            guard let shared = shared[token], !shared.waiters.isEmpty else { return }
            shared.call.setSuspended(shared.paused.count == shared.waiters.count)
        }
    }

    private let standard: DuplicatePolicy
    private let secrets: Secrets
    private let volatileParameters: Set<String>
    private let state = Mutex(State())

    init(_ standard: DuplicatePolicy, secrets: Secrets = .standard, volatileParameters: Set<String> = []) {
        self.standard = standard
        self.secrets = secrets
        self.volatileParameters = volatileParameters
    }

    func policy(for request: HTTPRequest) -> DuplicatePolicy {
        switch request.duplicates ?? standard {
        case .allow: .allow
        case .reject: .reject
        // As the manager's setting it must not merge two unsafe requests, such as two orders.
        case .coalesce: request.streamsBody || request.duplicates == nil && !request.method.isSafe ? .allow : .coalesce
        }
    }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        guard
            let key = DuplicateKey(
                sharing: call, composed: request, secrets: secrets, volatileParameters: volatileParameters)
        else {
            return try await chain.proceed(request)
        }
        let waiter = Waiter<HTTPResponse>()
        let (id, token, shared, isFirst) = join(key, call, waiter)
        update(shared.call, id, token, call)
        if isFirst {
            shared.call.run { [self] in
                let result: Result<HTTPResponse, any Error>
                do {
                    result = .success(try await chain.on(shared.call).proceed(request))
                } catch {
                    result = .failure(error)
                }
                finish(key, token, result)
            }
        } else {
            call.watch?.record(.waiting(.sharedRequest))
        }
        defer { call.note { $0.absorb(shared.call.sent) } }
        do {
            let response = try await waiter.value(for: call) { [self] _ in update(shared.call, id, token, call) }
            if !isFirst { call.watch?.record(.waited(.sharedRequest)) }
            return response
        } catch {
            leave(key, id, token)
            throw error
        }
    }

    private func join(
        _ key: DuplicateKey, _ call: Call, _ waiter: Waiter<HTTPResponse>
    ) -> (id: UInt64, token: UInt64, shared: SharedCall, isFirst: Bool) {
        state.withLock { state in
            state.ids += 1
            let id = state.ids
            let (token, isFirst) =
                switch state.table.join(key, id) {
                case .lead(let token): (token, true)
                case .follow(let token): (token, false)
                }
            let progress = ProgressRelay()
            var shared =
                state.shared[token]
                ?? SharedCall(
                    call: Call(
                        call.request, details: call.details, watch: call.watch, progress: { progress.report($0) }),
                    progress: progress)
            shared.waiters[id] = waiter
            shared.progress.add(id) { [weak call] in call?.progressHandler?($0) }
            state.shared[token] = shared
            return (id, token, shared, isFirst)
        }
    }

    /// Has the shared call follow a caller: it gets the highest priority of all, and is suspended while all are.
    private func update(_ shared: Call, _ id: UInt64, _ token: UInt64, _ call: Call) {
        shared.raisePriority(to: call.transferState.priority)
        state.withLock { state in
            // Read under the lock, so that no older state replaces a newer one.
            let caller = call.transferState
            guard state.shared[token]?.waiters[id] != nil else { return }
            if caller.isSuspended {
                state.shared[token]?.paused.insert(id)
            } else {
                state.shared[token]?.paused.remove(id)
            }
            state.suspend(token)
        }
    }

    private func finish(_ key: DuplicateKey, _ token: UInt64, _ result: Result<HTTPResponse, any Error>) {
        let shared = state.withLock { state in
            _ = state.table.finish(key, token: token)
            return state.shared.removeValue(forKey: token)
        }
        for waiter in (shared?.waiters ?? [:]).values { waiter.end(result) }
    }

    private func leave(_ key: DuplicateKey, _ id: UInt64, _ token: UInt64) {
        let abandoned = state.withLock { state -> Call? in
            state.shared[token]?.waiters[id] = nil
            state.shared[token]?.paused.remove(id)
            state.shared[token]?.progress.remove(id)
            guard state.table.leave(key, id, token: token) else {
                state.suspend(token)
                return nil
            }
            return state.shared.removeValue(forKey: token)?.call
        }
        abandoned?.cancel()
    }
}

/// Reports the progress of one transfer to several callers.
private final class ProgressRelay: Sendable {
    private let handlers = Mutex<[UInt64: @Sendable (TransferProgress) -> Void]>([:])

    func add(_ id: UInt64, _ handler: @escaping @Sendable (TransferProgress) -> Void) {
        handlers.withLock { $0[id] = handler }
    }

    func remove(_ id: UInt64) { handlers.withLock { $0[id] = nil } }

    func report(_ progress: TransferProgress) {
        for handler in handlers.withLock({ $0 }).values { handler(progress) }
    }
}

/// Decides which callers share which request. A pure state machine.
struct SharedCalls<Key: Hashable & Sendable, ID: Hashable & Sendable>: Sendable {
    private struct Call {
        let token: UInt64
        var members: Set<ID>
    }

    enum Entry: Hashable {
        /// No equal request is running: the caller starts it, and finishes it with this token.
        case lead(token: UInt64)
        /// An equal request is running.
        case follow(token: UInt64)
    }

    private var calls: [Key: Call] = [:]
    private var tokens: UInt64 = 0

    /// The number of running requests.
    var count: Int { calls.count }

    /// Adds a caller.
    mutating func join(_ key: Key, _ id: ID) -> Entry {
        if let call = calls[key] {
            calls[key]?.members.insert(id)
            return .follow(token: call.token)
        }
        tokens += 1
        calls[key] = Call(token: tokens, members: [id])
        return .lead(token: tokens)
    }

    /// Removes a caller before the end. Returns whether it was the last, in which case the request is to be cancelled.
    mutating func leave(_ key: Key, _ id: ID, token: UInt64) -> Bool {
        guard calls[key]?.token == token, calls[key]?.members.remove(id) != nil, calls[key]?.members.isEmpty == true
        else { return false }
        calls[key] = nil
        return true
    }

    /// Ends the request. Returns the callers that get its response.
    mutating func finish(_ key: Key, token: UInt64) -> Set<ID> {
        guard let call = calls[key], call.token == token else { return [] }
        calls[key] = nil
        return call.members
    }
}
