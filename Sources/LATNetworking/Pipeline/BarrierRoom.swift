import HTTPCore
import Synchronization

/// Holds requests while a barrier is under way (``BarrierState``).
final class BarrierRoom: Sendable {
    private struct State {
        var gate = BarrierState<UInt64>()
        var waiters: [UInt64: Waiter<Void>] = [:]
        var ids: UInt64 = 0
    }

    private let state = Mutex(State())
    /// A look without the lock, for the many requests that meet no barrier.
    private let isClosed = Atomic(false)

    func isIdle(for request: HTTPRequest) -> Bool {
        !isClosed.load(ordering: .acquiring) && (request.flowOptions as? FlowOptions)?.isBarrier != true
    }

    func send(
        _ request: HTTPRequest, _ rest: @Sendable (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        // What a barrier asks for itself, and a new token, do not wait for the barrier.
        guard !FlowScope.closing.contains(ObjectIdentifier(self)), FlowScope.renewing.isEmpty else {
            return try await rest(request)
        }
        let isBarrier = request.flow.isBarrier
        let id = try await enter(request, isBarrier)
        guard isBarrier else { return try await rest(request) }
        defer { leave(id) }
        return try await FlowScope.$closing.withValue(FlowScope.closing.union([ObjectIdentifier(self)])) {
            try await rest(request)
        }
    }

    private func enter(_ request: HTTPRequest, _ isBarrier: Bool) async throws -> UInt64 {
        let waiter = Waiter<Void>()
        let (id, mayGo) = state.withLock { state in
            state.ids += 1
            let mayGo = state.gate.enter(state.ids, isBarrier: isBarrier)
            if !mayGo { state.waiters[state.ids] = waiter }
            isClosed.store(state.gate.isClosed, ordering: .releasing)
            return (state.ids, mayGo)
        }
        guard !mayGo else { return id }
        request.flow.timeline?.record(.waiting(.barrier))
        do {
            try await waiter.value(for: request)
        } catch {
            // Be it that its turn came meanwhile: then it passes it on.
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
