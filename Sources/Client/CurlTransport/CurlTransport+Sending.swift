internal import HTTPCore

// The wait of a request for its response.
extension CurlTransport {
    // What a waiting request does not need has room in its frames all the same, unless it is in a function that is not inlined.

    /// Whether a transfer ended with a response, which is not that of an alternative service that has failed with it.
    @inline(never)
    func isResponse(_ transfer: Transfer) -> Bool {
        guard case .success(let response)? = transfer.result else { return false }
        if transfer.plan.version.isRace, versions.note(response, of: transfer.target) { observeNetworkForRaces() }
        return origins?.note(response, to: transfer) != true
    }

    /// Sends a request again until it has a response, unless the error is that of the call. Returns the last transfer.
    @inline(never)
    func sendAgain(
        _ request: HTTPRequest, for owner: (any TransferOwner)?, after transfer: Transfer
    ) async throws -> Transfer {
        var (request, transfer) = (request, transfer)
        repeat {
            do {
                _ = try transfer.takeResult()
            } catch {
                if let rest = try await requestToRepeat(after: error, of: transfer, request) {
                    request = rest
                } else {
                    try note(error, of: transfer, request)
                }
            }
            // An alternative service that failed is skipped for a while, so the next attempt goes elsewhere.
            transfer = try prepare(request, owner)
            await perform(transfer)
        } while !isResponse(transfer)
        return transfer
    }

    /// Throws the error, unless an alternative service has failed.
    private func note(_ error: NetworkError, of transfer: Transfer, _ request: HTTPRequest) throws {
        if error.kind == .cancelled, Task.isCancelled { throw CancellationError() }
        if transfer.plan.version.isRace, versions.note(error, of: transfer.target) { observeNetworkForRaces() }
        guard origins?.note(error, of: transfer) == true else { throw error.attaching(request) }
    }

    private func observeNetworkForRaces() { observeNetwork { [versions] in versions.networkHasChanged() } }

    /// Hands a transfer to the engine and waits until it has a result.
    @inline(__always)
    func perform(_ transfer: Transfer) async {
        await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                transfer.continuation = continuation
                start(transfer)
            }
        } onCancel: {
            mailbox.post(.cancel(transfer))
        }
    }

    @inline(never)
    private func start(_ transfer: Transfer) {
        if mailbox.post(.start(transfer)) { return }
        transfer.owner?.detach(transfer)
        transfer.answer(.failure(EngineFailure.shutDown))
    }
}
