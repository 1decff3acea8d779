import CLibcurl
import FoundationEssentials
internal import HTTPCore

// The path of a transfer through the engine: start, pause and end.
extension Engine {
    // MARK: Starting

    func submit(_ transfer: Transfer) {
        observeProgress(of: transfer)
        switch transfer.machine.submitted(transfer.owner?.transferState, now) {
        case .ignore: break
        case .admit: admit(transfer)
        case .hold: held.insert(transfer)
        case .cancel: over(transfer, .failure(EngineFailure.cancelled))
        }
    }

    func admit(_ transfer: Transfer) {
        guard !transfer.plan.isLive else { return start(transfer) }
        let (place, mayStart) = queue.submit(
            transfer, host: transfer.target.origin, priority: transfer.machine.priority,
            limit: transfer.plan.maxConnectionsPerHost)
        transfer.place = place
        guard !mayStart else { return start(transfer) }
        transfer.machine.queued()
        for next in queue.startWaiting(at: place) { start(next) }
    }

    func start(_ transfer: Transfer) {
        let deadline = transfer.machine.started(now)
        transfer.owner?.transferDidStart()
        runningCount += 1
        if capacity.note(running: runningCount, now) { setCapacity() }
        if transfer.plan.maxReceiveRate != nil || transfer.plan.maxSendRate != nil { limit(transfer) }
        guard let handle = handles.take(for: transfer, self) else {
            return failedStarts.append((transfer, EngineFailure.noResources("memory for a libcurl handle")))
        }
        transfer.handle = handle
        transfer.plan.body?.source?.start { [mailbox, weak transfer] in
            if let transfer { mailbox.post(.update(transfer)) }
        }
        do {
            try handle.prepare(for: transfer)
        } catch {
            return failedStarts.append((transfer, error))
        }
        if transfer.addresses != nil, isMultiplexed(transfer),
            names[transfer.target.origin]?.needsNewConnection == true
        {
            handle.openNewConnection()
        }
        if transfer.plan.isLive {
            guard let live = services?.live.handle else {
                return failedStarts.append((transfer, EngineFailure.noResources("memory for a live connection")))
            }
            handle.multi = live
        } else {
            handle.multi = multi
            raiseHostLimit(to: transfer.plan.maxConnectionsPerHost, sharesHost: transfer.sharesHost)
        }
        let code = curl_multi_add_handle(handle.multi, handle.curl)
        if code != CURLM_OK { return failedStarts.append((transfer, EngineFailure.multi(code))) }
        if let deadline { idleWatch.note(deadline) }
    }

    /// Raises libcurl's limit of connections per host. libcurl has one limit for all hosts, so it gets the largest; the
    /// queue enforces the limit of each host. Once libcurl counts several origins as one host, it has no limit.
    func raiseHostLimit(to limit: Int, sharesHost: Bool) {
        if capacity.raise(perHost: limit) { setCapacity() }
        guard hostLimit > 0, sharesHost || limit > hostLimit else { return }
        hostLimit = sharesHost ? 0 : limit
        _ = lat_multi_setopt_long(multi, CURLMOPT_MAX_HOST_CONNECTIONS, hostLimit)
    }

    func setCapacity() { _ = lat_multi_setopt_long(multi, CURLMOPT_MAXCONNECTS, capacity.value) }

    // MARK: Ending

    func finishTransfers() {
        if !goingOn.isEmpty { goOnConnecting() }
        endFailedStarts()
        var left: CInt = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let curl = message.pointee.easy_handle else { continue }
            concluded(curl, lat_message_result(message))
        }
    }

    func endFailedStarts() {
        while let (transfer, error) = failedStarts.popLast() { over(transfer, .failure(error)) }
    }

    /// Finds the transfer of a handle that is done, and ends it.
    func concluded(_ curl: UnsafeMutableRawPointer, _ result: CURLcode) {
        guard let handle = EasyHandle.of(curl), let transfer = handle.transfer else { return }
        conclude(transfer, handle, result)
    }

    /// Handles the end of a transfer that libcurl reports.
    func conclude(_ transfer: Transfer, _ handle: EasyHandle, _ result: CURLcode) {
        if let warmUp = transfer.plan.warmUp, warmUp.isOver(result, transfer) {
            // An existing connection may have carried requests.
            if transfer.target.isSecure, handle.long(CURLINFO_NUM_CONNECTS) > 0 {
                sockets.noteUnused(handle.activeSocket)
            }
            return over(transfer, .success(response(of: transfer, timings: handle.timings(of: transfer, isOver: true))))
        }
        if let use = transfer.addresses, connectsAfterListing(transfer, use, handle, result) { return }
        if result == CURLE_RECV_ERROR { handle.isSpent = true }
        if result != CURLE_OK, floods.origin == transfer.target.origin { transfer.fail(EngineFailure.flood) }
        if result != CURLE_OK, answersChallenge(transfer, handle) || sendsAgain(transfer, handle, result) { return }
        var result = result
        if result != CURLE_OK, StreamReset.isWithoutError(result, handle.errorText),
            StreamReset.isWhole(transfer)
        {
            result = CURLE_OK
            handle.isSpent = true
        }
        if result == CURLE_OK, transfer.isUploadingToStream, transfer.head.contentLength != nil, !transfer.hasWholeBody
        {
            transfer.fail(EngineFailure.shortBody(transfer))
        }
        if result == CURLE_OK, let decoder = transfer.decoder, !decoder.isComplete {
            transfer.fail(EngineFailure.truncated(decoder))
        }
        if result == CURLE_OK, let digest = transfer.digest, let field = digest.fault(trailers: transfer.head.trailers)
        {
            transfer.fail(EngineFailure.changed(field, digest.byteCount))
        }
        if result == CURLE_OK, let end = transfer.bodyEnd { noteEnd(end, of: transfer) }
        // A redirect is followed whatever becomes of its body. Who reads that gets the error.
        if result != CURLE_OK || transfer.failure != nil, transfer.machine.drainsUntil != nil {
            transfer.machine.answerAtHead()
            answerWithStream(transfer, handle)
        }
        let timings = handle.timings(of: transfer, isOver: true)
        reportLastProgress(transfer, handle, isWhole: result == CURLE_OK && transfer.failure == nil)
        switch transfer.machine.concluded(isSuccess: result == CURLE_OK, hasHead: transfer.head.isComplete) {
        case .answer:
            transfer.target.noteBodySize(transfer.body.count)
            over(transfer, .success(response(of: transfer, timings: timings)))
        case .proxyRefusal:
            let error = NetworkError(.proxy, message: ProxyFault.credentials(transfer))
            over(transfer, .failure(EngineFailure.complete(error, transfer, timings)))
        case .stopped, .failed:
            let error =
                transfer.failure.map { EngineFailure.complete($0, transfer, timings) }
                ?? EngineFailure.describe(result, handle: handle, transfer: transfer, timings: timings, now: now)
            let isConnected = transfer.owner?.isObserved == true && (timings.connect != nil || timings.connectionReused)
            over(transfer, .failure(isConnected ? error.on(handle.connection(of: transfer, timings)) : error))
        }
    }

    /// Records whether a body whose length no field tells is whole. A body that was cut for certain is a failure.
    private func noteEnd(_ end: BodyEnd, of transfer: Transfer) {
        if transfer.tls?.isWithinRecord == true { return transfer.fail(EngineFailure.cutRecord(transfer)) }
        let endsItself = transfer.decoder.map { $0.codedByteCount > 0 } ?? false
        if endsItself || transfer.tls?.isClosed == true || transfer.digest?.isKnown == true { end.prove() }
    }

    /// Sends the request of a failed transfer again if that is safe. Returns whether it did.
    func sendsAgain(_ transfer: Transfer, _ handle: EasyHandle, _ result: CURLcode) -> Bool {
        guard transfer.machine.mayRepeat else { return false }
        let loss = Attempts.Loss(
            sent: handle.long(CURLINFO_REQUEST_SIZE),
            isRefused: transfer.streamRefusal.isRefused(
                after: result, handle.errorText, isIdempotent: transfer.machine.rules.isIdempotent),
            isReused: handle.long(CURLINFO_NUM_CONNECTS) == 0, isMultiplexed: isMultiplexed(transfer))
        guard let timeLeft = transfer.machine.timeToRepeat(after: result, loss, now),
            transfer.machine.sourceBytes == 0 || transfer.plan.body?.source?.rewind() ?? true
        else { return false }
        transfer.machine.repeated(now)
        sendAgain(transfer, handle, timeout: timeLeft)
        return true
    }

    /// Gives the request to libcurl once more.
    func sendAgain(_ transfer: Transfer, _ handle: EasyHandle, timeout timeLeft: Int64) {
        transfer.streamRefusal = StreamRefusal()
        curl_multi_remove_handle(handle.multi, handle.curl)
        handle.finish()
        do throws(NetworkError) {
            try handle.prepareReplay(of: transfer, timeout: timeLeft)
            let code = curl_multi_add_handle(handle.multi, handle.curl)
            if code != CURLM_OK { throw EngineFailure.multi(code) }
        } catch {
            over(transfer, .failure(error))
        }
    }

    /// Whether the host's last response was in HTTP/2 or HTTP/3.
    func isMultiplexed(_ transfer: Transfer) -> Bool { transfer.place.map(queue.isMultiplexed) ?? false }

    func end(_ transfer: Transfer, _ error: NetworkError) {
        if transfer.machine.cancelled() { over(transfer, .failure(error)) }
    }

    func over(_ transfer: Transfer, _ result: Result<HTTPResponse, NetworkError>) {
        guard let ending = transfer.machine.ended() else { return }
        switch ending.from {
        case .held: held.remove(transfer)
        case .waiting: leaveQueue(transfer, priority: transfer.machine.priority)
        case .running:
            runningCount -= 1
            let silent = transfer.addresses.flatMap { noteEnd(of: transfer, $0, result) }
            if let handle = transfer.handle {
                transfer.handle = nil
                if transfer.mayHoldBytes { handle.dropPausedBytes() }
                curl_multi_remove_handle(handle.multi, handle.curl)
                handles.giveBack(handle, isLast: runningCount == 0)
            }
            if let silent { shutDownIdle(to: silent) }
            if capacity.note(running: runningCount, now) { setCapacity() }
        case .new, .over: break
        }
        transfer.plan.body?.source?.stop()
        transfer.owner?.detach(transfer)
        if ending.from == .running { startNext(after: transfer) }
        // From here on only a reader of the body keeps the engine alive.
        transfer.keepAlive = nil
        transfer.pipe?.finish(result.map { _ in })
        if ending.answersCaller, let caller = transfer.takeCaller(result) { answers.append(caller) }
    }

    /// Resumes the callers of the transfers that ended in this turn. They are resumed together, because the first wakes a
    /// thread, and while that thread runs, the others need no wake-up.
    func deliverAnswers() {
        guard !answers.isEmpty else { return }
        for caller in answers { caller.resume() }
        answers.removeAll(keepingCapacity: true)
    }

    func startNext(after transfer: Transfer) {
        guard let place = transfer.place else { return }
        if transfer.head.hasBegun {
            let isMultiplexed = transfer.head.version == .http2 || transfer.head.version == .http3
            for next in queue.setMultiplexed(isMultiplexed, at: place) { start(next) }
        }
        for next in queue.finish(place) { start(next) }
    }

    func leaveQueue(_ transfer: Transfer, priority: RequestPriority) {
        if let place = transfer.place { queue.remove(transfer, at: place, priority: priority) }
    }

    func response(of transfer: Transfer, timings: Timings) -> HTTPResponse {
        var response = HTTPResponse(
            status: transfer.head.status, reason: transfer.head.reason, version: transfer.head.version,
            headers: transfer.head.headers, trailers: transfer.head.trailers,
            body: transfer.machine.isStream
                ? ResponseBody(BodyReader(transfer.stream(mailbox), keepsAlive: transfer.keepAlive))
                : ResponseBody(transfer.body),
            url: transfer.target.url, timings: timings)
        if transfer.machine.isUpgraded { response.output = transfer.output }
        if let end = transfer.bodyEnd, end.mayBeCut { response.bodyEnd = end }
        if let digest = transfer.digest, !transfer.machine.isStream { response.comparedDigest = digest.compared }
        if transfer.owner?.isObserved == true {
            response.connection = transfer.handle?.connection(of: transfer, timings)
        }
        return response
    }

    private func observeProgress(of transfer: Transfer) {
        guard transfer.progress == nil, let handler = transfer.owner?.progressHandler else { return }
        transfer.progress = handler
        transfer.handle?.reportProgress()
    }

    // MARK: Pausing

    func update(_ transfer: Transfer) {
        observeProgress(of: transfer)
        let state = transfer.owner?.transferState
        switch transfer.machine.updated(state, now, isReaderBehind: transfer.pipe?.isFull ?? false) {
        case .nothing: break
        case .cancel: end(transfer, EngineFailure.cancelled)
        case .admit:
            held.remove(transfer)
            admit(transfer)
        case .hold(let priority):
            leaveQueue(transfer, priority: priority)
            held.insert(transfer)
        case .requeue(let priority):
            leaveQueue(transfer, priority: priority)
            admit(transfer)
        case .pause(let pause): apply(pause, to: transfer)
        }
    }

    func apply(_ pause: TransferMachine.Pause, to transfer: Transfer) {
        guard let handle = transfer.handle else { return }
        let bits =
            switch pause {
            case .none: CURLPAUSE_CONT
            case .receiving: CURLPAUSE_RECV
            case .all: CURLPAUSE_ALL
            }
        // curl_easy_pause may call the write callback, whose error it returns. Without a connection it returns
        // CURLE_BAD_FUNCTION_ARGUMENT; the pause is applied when the connection is ready.
        let code = curl_easy_pause(handle.curl, bits)
        if code != CURLE_OK, code != CURLE_BAD_FUNCTION_ARGUMENT {
            conclude(transfer, handle, code)
        }
    }

    func deliverChunks() {
        guard !pipesWithNewChunks.isEmpty else { return }
        let transfers = pipesWithNewChunks
        pipesWithNewChunks.removeAll(keepingCapacity: true)
        for transfer in transfers {
            transfer.hasNewChunks = false
            transfer.pipe?.flush()
        }
    }
}
