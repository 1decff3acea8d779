import CurlTransport
import FoundationEssentials
import HTTPCore
import LATClient
import Synchronization

// Sends the request of a step, and notes what is known before its response.
extension UploadJob {
    /// - Returns: The request, the response, and the checksums that were sent.
    func send(
        _ step: UploadPlan.Step, by worker: Int
    ) async throws -> (HTTPRequest, HTTPResponse, [String]) {
        let message = state.withLock { dialect.message(for: step, $0.plan) }
        var request = try order.request(for: message)
        var sent: [String] = []
        var sha256: [UInt8]?
        for checksum in message.checksums {
            let digest = try digest(checksum)
            if checksum.algorithm == .sha256, message.content == .file(checksum.range) { sha256 = digest }
            request.headers[checksum.field] = checksum.text(digest)
            sent.append(checksum.text(digest))
        }
        switch message.content {
        case .none: break
        case .data(let data): request.body = .data(data)
        case .file(let range):
            request.body = .slice(FileSlice(path: order.path, range: range, version: version, sha256: sha256))
        }
        let body: BodyHandler = { [weak self] event, _ in self?.note(event, by: worker) }
        let interim: InterimHandler = { [weak self] status, headers, url in
            self?.noteInterim(status, headers, at: url, to: step)
        }
        guard order.upload.style == .standard else { return (request, try await order.send(request, body, nil), sent) }
        let sending = Task { [order, request] in try await order.send(request, body, interim) }
        state.withLock { $0.stop = { sending.cancel() } }
        let response = try await withTaskCancellationHandler {
            try await sending.value
        } onCancel: {
            sending.cancel()
        }
        return (request, response, sent)
    }

    /// Reads the file, on a thread of ``TransferExecutor``, unless the checksum is known.
    private func digest(_ checksum: UploadMessage.Checksum) throws -> [UInt8] {
        if let digest = state.withLock({ $0.digests[checksum] }) { return digest }
        try Task.checkCancellation()
        let digest = try FileDigest.bytes(order.path, checksum.algorithm, in: checksum.range) {
            DownloadFiles.system("read", $0)
        }
        state.withLock { $0.digests[checksum] = digest }
        return digest
    }

    /// Ends the upload for a reason that is not the answer to its request.
    private func stop(_ failure: NetworkError) {
        state.withLock { state in
            state.failure = state.failure ?? failure
            return state.stop
        }?()
    }

    private func noteInterim(_ status: Int, _ headers: HTTPHeaders, at url: String, to step: UploadPlan.Step) {
        let (isNew, failure) = state.withLock { state -> (Bool, NetworkError?) in
            guard dialect.isAnnouncement(status, headers, state.plan) else { return (false, nil) }
            let address = headers["Location"].flatMap { URLReference.link($0, at: url) }
            if let address, let failure = order.refusal(of: address) { return (false, failure) }
            let isNew = state.plan.noteInterim(address, dialect.facts(headers), to: step)
            if let failure = tooLarge(state.plan) {
                state.isUseless = true
                return (false, failure)
            }
            return (isNew, nil)
        }
        if let failure { stop(failure) }
        guard isNew else { return }
        // The engine's thread does not write files.
        Task.detached(executorPreference: TransferExecutor.shared) { [self] in
            do throws(NetworkError) {
                try writeJournal()
            } catch {
                stop(error)
            }
        }
    }

    // MARK: Progress

    private func note(_ event: BodyEvent, by worker: Int) {
        state.withLock { state in
            switch event {
            case .read(let count): state.inFlight[worker, default: 0] += Int64(count)
            case .rewound: state.inFlight[worker] = 0
            case .end: break
            }
        }
        monitor.reach(position)
    }

    var position: Int64 { state.withLock { $0.stored + $0.inFlight.values.reduce(0, +) } }
}
