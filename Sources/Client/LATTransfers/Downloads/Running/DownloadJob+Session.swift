import FoundationEssentials
import HTTPCore
import LATClient
import Platform
import ResponseCache

/// One session: the connections of a download, from the first request to the last byte or an error.
extension DownloadJob {
    func session() async throws {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask { [self] in await pulse() }
            defer { group.cancelAll() }
            guard let first = try await openFirst() else { return }
            let count = state.withLock(\.plan.workerCount)
            group.addTask { [self] in try await work(0, first) }
            for worker in 1..<max(1, count) {
                group.addTask { [self] in try await work(worker, nil) }
            }
            // The pulse also ends when the session is cancelled, but it is not a worker.
            var working = max(1, count)
            // Workers that still wait for a response are not needed once others have received everything.
            while working > 0, !state.withLock(\.plan.isComplete), let isWorker = try await group.next() {
                if isWorker { working -= 1 }
            }
        }
    }

    /// Reports the progress even while nothing is received, so that the rate falls. Returns `false`: not a worker.
    private func pulse() async -> Bool {
        while true {
            try? await Task.sleep(for: .milliseconds(500))
            if Task.isCancelled { return false }
            report(0)
        }
    }

    /// Fetches one piece after the other until nothing is left for this worker. Returns `true`.
    private func work(_ worker: Int, _ first: HTTPResponse?) async throws -> Bool {
        var opened = first
        var backoff = Backoff(first: .milliseconds(100), longest: .seconds(10))
        while true {
            var isOpening = false
            do {
                if opened == nil {
                    guard state.withLock({ $0.plan.take(worker) }) else { return true }
                    isOpening = true
                    opened = try await open(worker, isFirst: false)
                    isOpening = false
                }
                guard let answer = opened else { return true }
                opened = nil
                try await receive(worker, answer, &backoff)
                backoff.reset()
            } catch let error as NetworkError where error.kind != .integrity {
                opened = nil
                let canRetry =
                    backoff.failures < order.request.retries ?? order.retries && order.request.method.isIdempotent
                switch state.withLock({ $0.plan.fail(worker, error.failure(isOpening), canRetry: canRetry) }) {
                case .leave: return true
                case .retry:
                    try await Task.sleep(for: backoff.next(chance: .random(in: 0...1)))
                case .wait(let time): try await Task.sleep(for: time)
                case .fail:
                    throw refused(error.counting(attempts: max(error.attempts, backoff.failures + 1)), isOpening)
                }
            }
        }
    }

    /// The first response of the session; `nil` if everything has been received.
    private func openFirst() async throws -> HTTPResponse? {
        while true {
            guard state.withLock({ $0.plan.take(0) }) else { return nil }
            do {
                return try await open(0, isFirst: true)
            } catch let error as NetworkError {
                guard case .wait(let time) = state.withLock({ $0.plan.fail(0, error.failure(true), canRetry: false) })
                else { throw refused(error, true) }
                try await Task.sleep(for: time)
            }
        }
    }

    /// The error of a download that had several connections, and whose last one was refused, says so.
    private func refused(_ error: NetworkError, _ isOpening: Bool) -> NetworkError {
        let plan = state.withLock(\.plan)
        guard plan.hasHadSeveral, [.unanswered, .refused].contains(error.failure(isOpening)) else { return error }
        return error.adding(
            "the server refuses every connection of the download after \(plan.done.count) of "
                + "\(plan.total.map { "\($0)" } ?? "unknown") bytes; use fewer segments, or try again later")
    }

    // MARK: Requests

    /// Sends requests until a response carries content.
    ///
    /// - Returns: `nil` if everything has been received.
    private func open(_ worker: Int, isFirst: Bool) async throws -> HTTPResponse? {
        var hasRenewed = false
        while true {
            let link = links.link
            guard let ask = state.withLock({ $0.plan.ask(worker) }) else { return nil }
            let request = order.request(for: ask, url: link.url)
            let response = try await order.send(request)
            try Task.checkCancellation()
            let verdict = state.withLock {
                $0.plan.judge(status: response.status, headers: response.headers, to: ask)
            }
            switch verdict {
            case .content(let answer):
                if !answer.isPart, !isFirst, state.withLock({ $0.plan.hasOthers(than: worker) }) {
                    throw answer.invalidatesReceived ? StartsOver(reason: .changed) : UsesOneConnection() as any Error
                }
                try await accept(worker, answer, response)
                return response
            case .complete(let total):
                state.withLock { $0.plan.complete(total: total) }
                return nil
            case .startOver(let reason):
                guard isFirst || !state.withLock({ $0.plan.hasOthers(than: worker) }) else {
                    throw StartsOver(reason: reason)
                }
                try await startOver(reason)
            case .refused:
                let refusal = await failure(response, to: request)
                // A refusal of the new link, too, may be due to a limit of connections.
                guard URLRenewal.mayHelp(response.status), !hasRenewed,
                    request.method.isIdempotent || !response.hasArrivedBefore,
                    try await links.renew(link.generation, refusal)
                else { throw refusal }
                hasRenewed = true
            case .unusable(let reason):
                throw NetworkError(
                    .protocolViolation, message: "\(reason); the file was not saved", request: request,
                    response: response)
            }
        }
    }

    /// The error for a status without content to save, with the beginning of the response's body.
    private func failure(_ response: HTTPResponse, to request: HTTPRequest) async -> NetworkError {
        var response = response
        // The status is the error to report, even if the task is cancelled.
        response.body = ResponseBody((try? await StatusRule.beginning(of: response.body)) ?? Data())
        guard response.isSuccess || response.status == 304 else { return StatusRule.failure(response, to: request) }
        return NetworkError(
            .httpStatus,
            message: "the server responded with \(response.status), which has no content to save; check the address",
            request: request, response: response)
    }

    func startOver(_ reason: ResponseRule.Reason) async throws {
        let isTooMuch = state.withLock { state in
            state.plan.startOver(reason)
            state.announced = nil
            (state.resumed, state.most) = (0, 0)
            return state.plan.hasRestartedTooOften
        }
        if isTooMuch {
            throw NetworkError(
                .integrity,
                message:
                    "the content changed \(DownloadPlan.maxRestarts + 1) times during the download; try again when "
                    + "it is stable", request: order.request)
        }
        try await discardReceived()
    }

    /// Discards the received bytes. The journal is emptied before any of them is overwritten.
    private func discardReceived() async throws {
        await checkpoints?.settle()
        try target.startJournal()
        try file.truncate(to: 0)
        digest.withLock { if order.options.digest == nil { $0 = nil } else { $0?.startOver() } }
    }

    // MARK: Content

    private func accept(_ worker: Int, _ answer: ContentResponse, _ response: HTTPResponse) async throws {
        try chooseName(response)
        if answer.invalidatesReceived { try await discardReceived() }
        let (total, done, isResumable, isTooMuch) = state.withLock { state in
            let restarts = state.plan.restarts
            state.plan.begin(worker, answer)
            // The bytes of another version are new. How often it may change is limited.
            if state.plan.restarts > restarts { state.most = 0 }
            if answer.invalidatesReceived { (state.resumed, state.announced) = (0, nil) }
            state.announced = state.announced ?? order.digest(announcedBy: response, isPart: answer.isPart)
            var head = response
            head.body = .empty
            state.response = head
            return (
                state.plan.total, state.plan.done.count, state.plan.isResumable, state.plan.hasRestartedTooOften
            )
        }
        if isTooMuch { throw StartsOver(reason: .changed) }
        if let announced = state.withLock(\.announced) {
            digest.withLock { if $0 == nil { $0 = DigestFollower(announced.algorithm.function) } }
        }
        try checkSpace(total, done)
        control.setInterruptible(isResumable)
        report(0)
    }

    private func checkSpace(_ total: Int64?, _ done: Int64) throws {
        guard let total else { return }
        let needed = total - max(done, file.allocatedSize)
        if needed > 0, let free = target.freeSpace, free < needed {
            throw DownloadFiles.tooLittleSpace(target.folder, needed: needed, free: free)
        }
        if order.options.reservesSpace { try file.reserve(total) }
    }

    /// Takes the server's name for a file in a folder. An existing file of that name is handled before any write.
    private func chooseName(_ response: HTTPResponse) throws {
        guard target.name == nil else { return }
        let name = FileName.disposition(response.headers["Content-Disposition"])
        let fileName = state.withLock { state in
            state.fileName = name ?? state.fileName
            return state.fileName
        }
        if try target.isKept(order.options, serverName: fileName) {
            throw SkipsExisting(path: target.path(serverName: fileName))
        }
    }

    private func receive(_ worker: Int, _ response: HTTPResponse, _ backoff: inout Backoff) async throws {
        var chunks = response.body.makeAsyncIterator()
        var fresh: Int64 = 0
        while true {
            await control.holdWhilePaused()
            try Task.checkCancellation()
            guard let chunk = try await chunks.next() else { break }
            guard let claim = state.withLock({ $0.plan.claim(worker, chunk.count) }) else {
                throw overlong(response)
            }
            if claim.count > 0 {
                let (total, new) = try write(chunk, claim)
                links.noteReceivedBytes()
                fresh += new
                // After this many bytes, earlier failures no longer count. Bytes that are received again are no progress: the
                // connection may end at the same place each time.
                if fresh >= 1 << 20 { backoff.reset() }
                try await checkpoints?.note(Int64(claim.count), total: total)
            }
            report(chunk.count)
            if claim.isLast { break }
        }
        try Task.checkCancellation()
        // A digest that is known is compared when the file is complete.
        if state.withLock({ $0.plan.total == nil && $0.announced == nil }), order.options.digest == nil,
            let fault = response.cutFault("read the body without a file")
        {
            throw NetworkError(.connectionLost, message: fault, request: order.request, response: response)
        }
        let missing = state.withLock { $0.plan.end(worker) }
        if missing > 0 {
            throw NetworkError(
                .connectionLost, message: "the body ended \(missing) bytes before the announced length; try again",
                request: order.request, response: response)
        }
    }

    /// - Returns: The size of the whole content, if known, and how many more bytes of it are there than ever before.
    private func write(_ chunk: Data, _ claim: DownloadPlan.Claim) throws -> (total: Int64?, new: Int64) {
        try chunk.withUnsafeBytes { bytes in
            let bytes = UnsafeRawBufferPointer(rebasing: bytes[..<claim.count])
            try file.write(bytes, at: claim.offset)
            let (frontier, total, new) = state.withLock { state in
                state.plan.write(claim.offset..<(claim.offset + Int64(claim.count)))
                let new = max(0, state.plan.done.count - state.most)
                state.most += new
                return (state.plan.done.firstMissing, state.plan.total, new)
            }
            try digest.withLock { follower throws(NetworkError) in
                try follower?.note(bytes, at: claim.offset, frontier: frontier, in: file)
            }
            return (total, new)
        }
    }

    private func overlong(_ response: HTTPResponse) -> any Error {
        if response.status == 206 || ContentRange.isPart(status: response.status, response.headers) {
            return StartsOver(reason: .wrongRange)
        }
        return NetworkError(
            .protocolViolation, message: "the body is longer than its Content-Length; the file was not saved",
            request: order.request, response: response)
    }
}

extension NetworkError {
    /// What the error means for a download.
    ///
    /// - Parameter isOpening: Whether there was no response yet.
    fileprivate func failure(_ isOpening: Bool) -> DownloadPlan.Failure {
        switch kind {
        case .httpStatus:
            [403, 408, 425, 429, 500, 502, 503, 504, 509].contains(response?.status ?? 0) ? .refused : .rejected
        case _ where mayPass: isOpening ? .unanswered : .broken
        case .timeout: .rejected
        default: .final
        }
    }
}
