import FoundationEssentials
internal import HTTPCore
import Platform

// How a request waits for revocation lists. A handshake cannot wait for them on the engine's thread, so it fails with a
// ``RevocationGap``, and the request is sent again when the gap is filled.
extension CurlTransport {
    /// The number of certificates that were accepted without the check for revocation that `"soft"` asks for.
    package var uncheckedCertificates: Int { tls.own.lists.uncheckedCount }

    /// Fills the gap that made a handshake fail, within the time that is left for the request. With `"soft"` it waits a while
    /// only, and lets the next handshake decide with what is there.
    ///
    /// - Returns: The request with the time that is left then; `nil` if the error has another cause.
    /// - Throws: `CancellationError`; ``NetworkError/Kind/cancelled`` when the owner was cancelled;
    ///   ``NetworkError/Kind/timeout(_:)`` when the time is over. Fetches go on for others.
    @inline(never)
    func requestToRepeat(
        after error: NetworkError, of transfer: Transfer, _ request: HTTPRequest
    ) async throws -> HTTPRequest? {
        guard let gap = error.underlying as? RevocationGap else { return nil }
        var rest = request
        rest.context.listWaits += 1
        let start = ContinuousClock.now
        let left = transfer.timeLeft(after: error.timings)
        // What is in files or memory needs no server.
        let isPatient = gap.isHard || gap.needs.isEmpty
        let isFilled = try await ListWait(owner: transfer.owner)
            .isOver(gap.fill(), within: isPatient ? left : RevocationRule.softWait(left))
        if !isFilled, !isPatient { rest.context.listWaits = RevocationRule.waitLimit }
        guard let left else { return rest }
        rest.timeout = left - (.now - start)
        guard isFilled || !isPatient, let timeout = rest.timeout, timeout > .zero else {
            throw NetworkError(
                .timeout(.total),
                message:
                    "the revocation lists for \(transfer.target.origin) did not come within the timeout of "
                    + "\(transfer.plan.timeout) ms; check the servers of the lists, or set tls.crlFile",
                request: request)
        }
        return rest
    }
}

/// One wait of a request for revocation lists, which ends with its owner.
private final class ListWait: TransferListener {
    private let waiter = Waiter<Bool>()
    private let owner: (any TransferOwner)?

    init(owner: (any TransferOwner)?) { self.owner = owner }

    /// Returns whether all tasks have ended when the wait does.
    func isOver(_ tasks: [Task<Void, Never>], within limit: Duration?) async throws -> Bool {
        owner?.attach(self)
        defer { owner?.detach(self) }
        Task { [waiter] in
            for task in tasks { await task.value }
            waiter.end(.success(true))
        }
        let timer = limit.map { limit in
            Task { [waiter] in
                try? await Task.sleep(for: min(limit, CallClock.longestSleep))
                waiter.end(.success(false))
            }
        }
        defer { timer?.cancel() }
        return try await waiter.value()
    }

    func stateDidChange() {
        if owner?.transferState.isCancelled == true { waiter.end(.failure(EngineFailure.cancelled)) }
    }
}
