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

/// Lets equal requests share one response (``DuplicatePolicy/coalesce``).
///
/// The shared request is a call of its own in a task of its own, which may outlive the caller that started it.
final class SharingStage: Stage {
    private struct Caller {
        let call: Call
        let waiter: Waiter<HTTPResponse>
    }

    /// One request for several callers.
    private struct SharedCall {
        let call: Call
        var callers: [UInt64: Caller] = [:]
        /// The callers that are paused.
        var paused: Set<UInt64> = []

        /// Suspends the transfer while all callers are paused, and resumes it otherwise.
        func updateSuspension() { if !callers.isEmpty { call.setSuspended(paused.count == callers.count) } }
    }

    private struct State {
        /// The shared calls by the IDs of the callers that started them.
        var shared: [UInt64: SharedCall] = [:]
        /// The shared call that a new caller joins.
        var current: [DuplicateKey: UInt64] = [:]
        var lastID: UInt64 = 0
    }

    private let standard: DuplicatePolicy
    private let volatileParameters: Set<String>
    private let state = Mutex(State())

    init(_ standard: DuplicatePolicy, volatileParameters: Set<String> = []) {
        self.standard = standard
        self.volatileParameters = volatileParameters
    }

    func policy(for request: HTTPRequest) -> DuplicatePolicy {
        switch request.duplicates ?? standard {
        case .allow: .allow
        case .reject: .reject
        // As the manager's setting it must not merge two unsafe requests, such as two orders.
        case .coalesce:
            request.streamsBody == true || request.duplicates == nil && !request.method.isSafe ? .allow : .coalesce
        }
    }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        let call = chain.call
        guard
            let key = DuplicateKey(
                sharing: call, composed: request, volatileParameters: volatileParameters)
        else {
            return try await chain.proceed(request)
        }
        let waiter = Waiter<HTTPResponse>()
        let (id, first, shared) = join(key, Caller(call: call, waiter: waiter))
        update(shared, id, first, call)
        if id == first {
            shared.run { [self] in
                do {
                    finish(key, first, .success(try await chain.on(shared).proceed(request)))
                } catch {
                    finish(key, first, .failure(error))
                }
            }
        } else {
            call.watch?.record(.waiting(.sharedRequest))
        }
        defer { call.note { $0.absorb(shared.sent, isAnswer: true) } }
        do {
            let response = try await waiter.value(for: call) { [self] _ in update(shared, id, first, call) }
            if id != first { call.watch?.record(.waited(.sharedRequest)) }
            return response
        } catch {
            leave(key, id, first)
            throw error
        }
    }

    /// Adds a caller. Returns its ID and that of the first caller, which starts the shared call.
    private func join(_ key: DuplicateKey, _ caller: Caller) -> (id: UInt64, first: UInt64, shared: Call) {
        state.withLock { state in
            state.lastID += 1
            let (id, call) = (state.lastID, caller.call)
            let first = state.current[key] ?? id
            let shared = state.shared[first]?.call ?? shared(call, first)
            state.current[key] = first
            state.shared[first, default: SharedCall(call: shared)].callers[id] = caller
            return (id, first, shared)
        }
    }

    /// The call that sends one attempt of its first caller's.
    private func shared(_ call: Call, _ first: UInt64) -> Call {
        let shared = Call(
            call.request, details: call.details, watch: call.watch,
            progress: { [weak self] in self?.report($0, first) })
        shared.note { [sent = call.sent] in $0.continues(sent) }
        return shared
    }

    /// Has the shared call follow a caller: it gets the highest priority of all, and is suspended while all are.
    private func update(_ shared: Call, _ id: UInt64, _ first: UInt64, _ call: Call) {
        shared.raisePriority(to: call.priority)
        state.withLock { state in
            guard state.shared[first]?.callers[id] != nil else { return }
            // Read and passed on under the lock, so that no older state replaces a newer one.
            if call.transferState.isSuspended {
                state.shared[first]?.paused.insert(id)
            } else {
                state.shared[first]?.paused.remove(id)
            }
            state.shared[first]?.updateSuspension()
        }
    }

    private func report(_ progress: TransferProgress, _ first: UInt64) {
        let callers = state.withLock { $0.shared[first]?.callers ?? [:] }
        for caller in callers.values { caller.call.progressHandler?(progress) }
    }

    private func finish(_ key: DuplicateKey, _ first: UInt64, _ result: Result<HTTPResponse, any Error>) {
        let callers = state.withLock { state -> [UInt64: Caller] in
            // An abandoned call was removed, and the key may belong to its successor.
            guard let shared = state.shared.removeValue(forKey: first) else { return [:] }
            state.current[key] = nil
            return shared.callers
        }
        for caller in callers.values { caller.waiter.end(result) }
    }

    /// Removes a caller before the end. The last one cancels the shared call.
    private func leave(_ key: DuplicateKey, _ id: UInt64, _ first: UInt64) {
        let abandoned = state.withLock { state -> Call? in
            state.shared[first]?.callers[id] = nil
            state.shared[first]?.paused.remove(id)
            guard let shared = state.shared[first], shared.callers.isEmpty else {
                state.shared[first]?.updateSuspension()
                return nil
            }
            state.shared[first] = nil
            state.current[key] = nil
            return shared.call
        }
        abandoned?.cancel()
    }
}
