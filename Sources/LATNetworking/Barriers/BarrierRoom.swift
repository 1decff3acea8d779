import HTTPCore
import Platform
import Synchronization

/// Holds requests while a barrier is under way (``BarrierState``).
final class BarrierRoom: Room {
    private struct State {
        var gate = BarrierState<UInt64>()
        var waiters: [UInt64: Waiter<Void>] = [:]
        var ids: UInt64 = 0
    }

    private let state = Mutex(State())
    /// A look without the lock, for the many requests that meet no barrier.
    private let isClosed = Atomic(false)

    func concerns(_ request: HTTPRequest) -> Bool { isClosed.load(ordering: .acquiring) || request.isBarrier }

    func handle(_ request: HTTPRequest, _ chain: Chain) async throws -> HTTPResponse {
        // What a barrier asks for itself, and a new token, do not wait for the barrier.
        guard !CallScope.closing.contains(ObjectIdentifier(self)), CallScope.renewing.isEmpty else {
            return try await chain.proceed(request)
        }
        let isBarrier = request.isBarrier
        let id = try await enter(chain.call, isBarrier)
        guard isBarrier else { return try await chain.proceed(request) }
        defer { leave(id) }
        return try await CallScope.$closing.withValue(CallScope.closing.union([ObjectIdentifier(self)])) {
            try await chain.proceed(request)
        }
    }

    private func enter(_ call: Call, _ isBarrier: Bool) async throws -> UInt64 {
        let waiter = Waiter<Void>()
        let (id, mayGo) = state.withLock { state in
            state.ids += 1
            let mayGo = state.gate.enter(state.ids, isBarrier: isBarrier)
            if !mayGo { state.waiters[state.ids] = waiter }
            isClosed.store(state.gate.isClosed, ordering: .releasing)
            return (state.ids, mayGo)
        }
        guard !mayGo else { return id }
        call.watch?.record(.waiting(.barrier))
        do {
            try await waiter.value(for: call)
        } catch {
            // Passes its turn on when it has come meanwhile.
            leave(id)
            throw error
        }
        return id
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

/// Who waits for a barrier. A pure state machine: a barrier lets those go on that have begun, and holds those that come
/// after it until it is over; a barrier that comes meanwhile waits like them.
struct BarrierState<ID: Hashable & Sendable>: Sendable {
    private var active: ID?
    private var waiting: [(id: ID, isBarrier: Bool)] = []

    /// Whether somebody has to wait.
    var isClosed: Bool { active != nil }

    /// How many wait.
    var waitingCount: Int { waiting.count }

    /// A request comes. Returns whether it may go on; else ``leave(_:)`` names it later.
    mutating func enter(_ id: ID, isBarrier: Bool) -> Bool {
        guard active == nil else {
            waiting.append((id, isBarrier))
            return false
        }
        if isBarrier { active = id }
        return true
    }

    /// A barrier is over, or a request that waits goes away. Returns those that may go on.
    mutating func leave(_ id: ID) -> [ID] {
        guard active == id else {
            waiting.removeAll { $0.id == id }
            return []
        }
        active = nil
        var started: [ID] = []
        var taken = 0
        for next in waiting {
            taken += 1
            started.append(next.id)
            if next.isBarrier {
                active = next.id
                break
            }
        }
        waiting.removeFirst(taken)
        return started
    }
}
