import CLibcurl
import FoundationEssentials
import HTTPCore

// The way of a transfer through the engine: it starts, may be paused, and ends.
extension Engine {
    // MARK: Starting

    func submit(_ transfer: Transfer) {
        guard transfer.phase == .new else { return }
        transfer.setPhase(.held)
        transfer.submittedAt = now
        guard !transfer.isCancelledEarly else { return over(transfer, .failure(EngineFailure.cancelled)) }
        if let standing = transfer.owner?.standing {
            guard !standing.isCancelled else { return over(transfer, .failure(EngineFailure.cancelled)) }
            transfer.isSuspended = standing.isSuspended
            transfer.priority = max(standing.priority, transfer.priority)
        }
        if transfer.isSuspended { held.insert(transfer) } else { admit(transfer) }
    }

    func admit(_ transfer: Transfer) {
        let (place, mayStart) = queue.submit(
            transfer, host: transfer.target.origin, priority: transfer.priority,
            limit: transfer.plan.maxConnectionsPerHost)
        transfer.place = place
        if mayStart {
            start(transfer)
        } else {
            transfer.setPhase(.waiting)
        }
    }

    func start(_ transfer: Transfer) {
        transfer.setPhase(.running)
        runningCount += 1
        if capacity.note(running: runningCount, now) { setCapacity() }
        transfer.startedAt = now
        transfer.attemptStartedAt = now
        if transfer.plan.isLimited { limit(transfer) }
        guard let handle = handles.take(for: self) else {
            return failedStarts.append((transfer, EngineFailure.noResources("memory for a libcurl handle")))
        }
        transfer.handle = handle
        for source in transfer.plan.body?.sources ?? [] {
            source.start { [mailbox, weak transfer] in
                if let transfer { mailbox.post(.update(transfer)) }
            }
        }
        do {
            try handle.prepare(for: transfer)
        } catch {
            return failedStarts.append((transfer, error))
        }
        raiseHostLimit(to: transfer.plan.maxConnectionsPerHost)
        let code = curl_multi_add_handle(multi, handle.curl)
        if code != CURLM_OK { return failedStarts.append((transfer, EngineFailure.multi(code))) }
        if transfer.plan.idleTimeout > 0 { idleWatch.note(now + transfer.plan.idleTimeout) }
    }

    /// libcurl has one limit for all hosts: the largest that any of them has. The queue keeps each host to its own.
    func raiseHostLimit(to limit: Int) {
        if capacity.raise(perHost: limit) { setCapacity() }
        guard hostLimit > 0, limit > hostLimit else { return }
        hostLimit = limit
        _ = lat_multi_setopt_long(multi, CURLMOPT_MAX_HOST_CONNECTIONS, limit)
    }

    func setCapacity() { _ = lat_multi_setopt_long(multi, CURLMOPT_MAXCONNECTS, capacity.value) }

    // MARK: Ending

    func finishTransfers() {
        while let (transfer, error) = failedStarts.popLast() { over(transfer, .failure(error)) }
        var left: CInt = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let curl = message.pointee.easy_handle else { continue }
            let result = lat_message_result(message)
            var context: UnsafePointer<CChar>?
            guard lat_getinfo_string(curl, CURLINFO_PRIVATE, &context) == CURLE_OK, let context else { continue }
            let handle = EasyHandle.from(UnsafeMutableRawPointer(mutating: context))
            guard let transfer = handle.transfer else { continue }
            conclude(transfer, handle, result)
        }
    }

    /// libcurl is through with a transfer.
    func conclude(_ transfer: Transfer, _ handle: EasyHandle, _ result: CURLcode) {
        if let warmUp = transfer.plan.warmUp, warmUp.isOver(result, transfer) {
            return over(transfer, .success(response(of: transfer, timings: handle.timings(of: transfer, isOver: true))))
        }
        if result != CURLE_OK, sendsAgain(transfer, handle, result) { return }
        let timings = handle.timings(of: transfer, isOver: true)
        reportLastProgress(transfer, handle, isWhole: result == CURLE_OK && transfer.failure == nil)
        guard result == CURLE_OK, transfer.failure == nil, transfer.head.isComplete else {
            let error =
                transfer.failure.map { EngineFailure.complete($0, transfer, timings) }
                ?? EngineFailure.describe(result, handle: handle, transfer: transfer, timings: timings, now: now)
            return over(transfer, .failure(error))
        }
        if isProxyRefusal(transfer) {
            return over(transfer, .failure(EngineFailure.proxyWantsCredentials(transfer, timings)))
        }
        transfer.target.noteBodySize(transfer.body.count)
        over(transfer, .success(response(of: transfer, timings: timings)))
    }

    /// The engine itself ends a transfer, wherever it is.
    func end(_ transfer: Transfer, _ error: NetworkError) {
        switch transfer.phase {
        case .new:
            transfer.isCancelledEarly = true
        case .held:
            held.remove(transfer)
            over(transfer, .failure(error))
        case .waiting:
            takeOutOfQueue(transfer)
            over(transfer, .failure(error))
        case .running:
            over(transfer, .failure(error))
        case .over:
            break
        }
    }

    func over(_ transfer: Transfer, _ result: Result<HTTPResponse, NetworkError>) {
        let wasRunning = transfer.phase == .running
        transfer.setPhase(.over)
        if let handle = transfer.handle {
            transfer.handle = nil
            curl_multi_remove_handle(multi, handle.curl)
            runningCount -= 1
            handles.giveBack(handle, isLast: runningCount == 0)
        } else if wasRunning {
            runningCount -= 1
        }
        if capacity.note(running: runningCount, now) { setCapacity() }
        for source in transfer.plan.body?.sources ?? [] { source.stop() }
        transfer.owner?.detach(transfer)
        if wasRunning { startNext(after: transfer) }
        // The reader's end holds the engine from here on, if anybody does.
        transfer.keepAlive = nil
        transfer.pipe?.finish(result.map { _ in })
        if let caller = transfer.takeCaller() { answers.append((caller, result)) }
    }

    /// Gives what ended in this turn to its callers. All at once: the first wakes a thread, and while that runs the
    /// others need no waking.
    func deliverAnswers() {
        guard !answers.isEmpty else { return }
        for (caller, result) in answers { Transfer.answer(caller, result) }
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

    func takeOutOfQueue(_ transfer: Transfer) {
        if let place = transfer.place { queue.remove(transfer, at: place, priority: transfer.priority) }
    }

    func response(of transfer: Transfer, timings: Timings) -> HTTPResponse {
        HTTPResponse(
            status: transfer.head.status, reason: transfer.head.reason, version: transfer.head.version,
            headers: transfer.head.headers, trailers: transfer.head.trailers,
            body: transfer.pipe.map { ResponseBody(ReaderEnd($0, keepsAlive: transfer.keepAlive)) }
                ?? ResponseBody(transfer.body),
            url: transfer.target.url, timings: timings)
    }

    // MARK: Pausing

    func update(_ transfer: Transfer) {
        let standing = transfer.owner?.standing ?? TransferStanding(priority: transfer.priority)
        if standing.isCancelled { return end(transfer, EngineFailure.cancelled) }
        let isSuspended = standing.isSuspended
        raise(transfer, to: standing.priority)
        switch transfer.phase {
        case .new:
            break  // read again when it is submitted
        case .held:
            transfer.isSuspended = isSuspended
            guard !isSuspended else { break }
            held.remove(transfer)
            admit(transfer)
        case .waiting:
            guard isSuspended else { break }
            transfer.isSuspended = true
            takeOutOfQueue(transfer)
            transfer.setPhase(.held)
            held.insert(transfer)
        case .running:
            let wasHeld = transfer.isSuspended || transfer.isPaused
            transfer.isSuspended = isSuspended
            transfer.isPaused = transfer.pipe?.isFull ?? false
            if wasHeld, !transfer.isSuspended, !transfer.isPaused, transfer.lastActivity != nil {
                transfer.lastActivity = now
            }
            applyPause(transfer)
        case .over:
            break
        }
    }

    /// Takes a waiting request to the end of those of a higher priority.
    func raise(_ transfer: Transfer, to priority: RequestPriority) {
        guard priority > transfer.priority, transfer.phase != .new else { return }
        if transfer.phase == .waiting {
            takeOutOfQueue(transfer)
            transfer.priority = priority
            admit(transfer)
        } else {
            transfer.priority = priority
        }
    }

    func applyPause(_ transfer: Transfer) {
        guard let handle = transfer.handle else { return }
        var bits = CURLPAUSE_CONT
        if transfer.isSuspended { bits = CURLPAUSE_ALL } else if transfer.isPaused { bits = CURLPAUSE_RECV }
        // libcurl may call the write callback from in here, and what that returns comes back here. Before there is
        // a connection it refuses; the pause is then applied when there is one.
        let code = curl_easy_pause(handle.curl, bits)
        if code != CURLE_OK, code != CURLE_BAD_FUNCTION_ARGUMENT {
            conclude(transfer, handle, code)
        }
    }

    func deliverChunks() {
        guard !pipesWithNews.isEmpty else { return }
        let transfers = pipesWithNews
        pipesWithNews.removeAll(keepingCapacity: true)
        for transfer in transfers {
            transfer.hasNewChunks = false
            guard let pipe = transfer.pipe else { continue }
            pipe.flush()
        }
    }
}
