internal import HTTPCore

// The wait of a request for its response.
extension CurlTransport {
    // What a waiting request does not need has room in its frames all the same, unless it is in a function that is not inlined.

    /// Whether a transfer ended with a response that counts: that of an alternative service that has failed with it does not,
    /// if there is time to send the request elsewhere.
    @inline(never)
    func isResponse(_ transfer: Transfer) -> Bool {
        guard case .success(let response)? = transfer.result else { return false }
        if transfer.plan.version.isRace, versions.note(response, of: transfer.target) { observeNetworkForRaces() }
        guard origins?.note(response, to: transfer) == true else { return true }
        return transfer.rest(of: transfer.request, after: response.timings) == nil
    }

    /// Sends a request again until it has a response, unless the error is that of the call. Returns the last transfer.
    @inline(never)
    func sendAgain(
        _ request: HTTPRequest, for owner: (any TransferOwner)?, after transfer: Transfer
    ) async throws -> Transfer {
        var (request, transfer) = (request, transfer)
        repeat {
            do {
                let response = try transfer.takeResult()
                request = transfer.rest(of: request, after: response.timings) ?? request
            } catch {
                request =
                    try await requestToRepeat(after: error, of: transfer, request) ?? note(error, of: transfer, request)
            }
            transfer = try prepare(request, owner)
            await perform(transfer)
        } while !isResponse(transfer)
        return transfer
    }

    /// Throws the error, unless an alternative service has failed, which is skipped for a while: then the request is sent
    /// elsewhere.
    private func note(_ error: NetworkError, of transfer: Transfer, _ request: HTTPRequest) throws -> HTTPRequest {
        if error.kind == .cancelled, Task.isCancelled { throw CancellationError() }
        if transfer.plan.version.isRace, versions.note(error, of: transfer.target) { observeNetworkForRaces() }
        guard origins?.note(error, of: transfer) == true, let rest = transfer.rest(of: request, after: error.timings)
        else { throw error.attaching(request) }
        return rest
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
