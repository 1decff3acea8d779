import HTTPCore
import Platform
import Synchronization

/// Holds requests while a barrier is running (``BarrierState``).
final class BarrierStage: Stage {
    private struct State {
        var gate = BarrierState<UInt64>()
        var waiters: [UInt64: Waiter<Void>] = [:]
    }

    private let state = Mutex(State())
    /// Lets requests check for a barrier without taking the lock.
    private let isClosed = Atomic(false)

    func concerns(_ request: HTTPRequest) -> Bool { isClosed.load(ordering: .acquiring) || request.isBarrier == true }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        // Requests of the barrier itself, and the renewal of a token, do not wait for the barrier.
        guard !CallScope.closing.contains(ObjectIdentifier(self)), CallScope.renewing.isEmpty else {
            return try await chain.proceed(request)
        }
        try await enter(chain.call, isBarrier: request.isBarrier == true)
        guard request.isBarrier == true else { return try await chain.proceed(request) }
        defer { leave(chain.call.id) }
        return try await CallScope.$closing.withValue(CallScope.closing.union([ObjectIdentifier(self)])) {
            try await chain.proceed(request)
        }
    }

    private func enter(_ call: Call, isBarrier: Bool) async throws {
        let waiter = Waiter<Void>()
        let mayGo = state.withLock { state in
            let mayGo = state.gate.enter(call.id, isBarrier: isBarrier)
            if !mayGo { state.waiters[call.id] = waiter }
            isClosed.store(state.gate.isClosed, ordering: .releasing)
            return mayGo
        }
        guard !mayGo else { return }
        call.watch?.record(.waiting(.barrier))
        do {
            try await waiter.value(for: call)
            call.watch?.record(.waited(.barrier))
        } catch {
            // If this call became the running barrier before its cancellation, the waiting requests proceed.
            leave(call.id)
            throw error
        }
    }

    private func leave(_ id: UInt64) {
        let waiters = state.withLock { state in
            state.waiters[id] = nil
            let started = state.gate.leave(id)
            isClosed.store(state.gate.isClosed, ordering: .releasing)
            return started.compactMap { state.waiters.removeValue(forKey: $0) }
        }
        for waiter in waiters { waiter.end(.success(())) }
    }
}

/// Decides which requests wait for a barrier. A pure state machine: requests that have started continue, and later ones
/// wait until the barrier ends. A second barrier waits like any request.
struct BarrierState<ID: Hashable & Sendable>: Sendable {
    private var active: ID?
    /// In the order in which they came. Those that are not among `present` have ended.
    private var waiting: [(id: ID, isBarrier: Bool)] = []
    private var present: Set<ID> = []

    /// Whether new requests have to wait.
    var isClosed: Bool { active != nil }

    /// Adds a request. Returns whether it may proceed; if not, a later ``leave(_:)`` returns it.
    mutating func enter(_ id: ID, isBarrier: Bool) -> Bool {
        guard active == nil else {
            waiting.append((id, isBarrier))
            present.insert(id)
            return false
        }
        if isBarrier { active = id }
        return true
    }

    /// Ends a barrier, or removes a waiting request. Returns the requests that may proceed.
    mutating func leave(_ id: ID) -> [ID] {
        guard active == id else {
            present.remove(id)
            if waiting.count > 2 * present.count + 64 { waiting.removeAll { !present.contains($0.id) } }
            return []
        }
        let nextBarrier = waiting.firstIndex { $0.isBarrier && present.contains($0.id) }
        active = nextBarrier.map { waiting[$0].id }
        let count = nextBarrier.map { $0 + 1 } ?? waiting.count
        defer { waiting.removeFirst(count) }
        return waiting.prefix(count).map(\.id).filter { present.remove($0) != nil }
    }
}
