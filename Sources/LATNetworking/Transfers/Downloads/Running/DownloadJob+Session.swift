import FoundationEssentials
import HTTPCore
import Platform

/// One session: the connections of a download from the first question to the last byte, or to whatever ends it.
extension DownloadJob {
    func session() async throws {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask { [self] in await pulse() }
            defer { group.cancelAll() }
            guard state.withLock({ $0.plan.take(0) }) else { return }
            guard let first = try await open(0, isFirst: true) else { return }
            let count = state.withLock(\.plan.workerCount)
            group.addTask { [self] in try await work(0, first) }
            for worker in 1..<max(1, count) {
                group.addTask { [self] in try await work(worker, nil) }
            }
            // The end of the pulse, when the session is cancelled, is not that of a worker.
            var working = max(1, count)
            while working > 0, let isWorker = try await group.next() {
                if isWorker { working -= 1 }
            }
        }
    }

    /// Tells the progress also while nothing comes, so that the rate goes down. Gives `false`: it is no worker.
    private func pulse() async -> Bool {
        while true {
            try? await Task.sleep(for: .milliseconds(500))
            if Task.isCancelled { return false }
            tell(0)
        }
    }

    /// Fetches piece after piece until nothing is left for this worker. Gives `true`.
    private func work(_ worker: Int, _ first: Opened?) async throws -> Bool {
        var opened = first
        var failures = 0
        while true {
            if opened == nil {
                guard state.withLock({ $0.plan.take(worker) }) else { return true }
            }
            do {
                if opened == nil { opened = try await open(worker, isFirst: false) }
                guard let answer = opened else { return true }
                opened = nil
                try await receive(worker, answer, &failures)
                failures = 0
            } catch let error as NetworkError {
                opened = nil
                state.withLock { $0.plan.release(worker) }
                guard error.isBrokenBody, failures < order.request.retries ?? order.retries,
                    order.request.method.isIdempotent
                else {
                    // A server that refuses one connection too many is served by those that stand.
                    if worker > 0, error.isRefusal, state.withLock({ $0.plan.hasOthers(than: worker) }) { return true }
                    throw error.counting(attempts: failures + 1)
                }
                failures += 1
                try await Task.sleep(for: Self.wait(beforeRetry: failures))
            }
        }
    }

    /// Full jitter: anything from nothing to a range that doubles each time.
    private static func wait(beforeRetry retry: Int) -> Duration {
        .milliseconds(Int64.random(in: 0...min(10_000, 100 << min(retry - 1, 10))))
    }

    // MARK: Asking

    /// An answer whose body is to be read.
    struct Opened: Sendable {
        let response: HTTPResponse
    }

    /// Asks until an answer brings content.
    ///
    /// - Returns: `nil` when all is there already.
    private func open(_ worker: Int, isFirst: Bool) async throws -> Opened? {
        while true {
            let link = links.link
            let ask = state.withLock { $0.plan.ask(worker) }
            let request = order.request(for: ask, url: link.url)
            let response = try await order.send(request)
            try Task.checkCancellation()
            let verdict = state.withLock {
                $0.plan.judge(status: response.status, headers: response.headers, to: ask)
            }
            switch verdict {
            case .content(let answer):
                if !answer.isPart, !isFirst, state.withLock({ $0.plan.hasOthers(than: worker) }) {
                    throw answer.voidsRest ? StartsOver(reason: .changed) : GoesOnAlone() as any Error
                }
                try await accept(worker, answer, response)
                return Opened(response: response)
            case .complete(let total):
                state.withLock { $0.plan.complete(total: total) }
                return nil
            case .startOver(let reason):
                guard isFirst || !state.withLock({ $0.plan.hasOthers(than: worker) }) else {
                    throw StartsOver(reason: reason)
                }
                try await startOver(reason)
                guard state.withLock({ $0.plan.take(worker) }) else { return nil }
            case .refused:
                let refusal = await failure(response, to: request)
                guard LinkKeeper.mayHelp(response.status), try await links.renew(link, refusal) != nil else {
                    throw refusal
                }
            case .unusable(let reason):
                throw NetworkError(
                    .protocolViolation, message: "\(reason); nothing was put at the target", request: request,
                    response: response)
            }
        }
    }

    /// The error for a status that is none of success, with the beginning of what the server said.
    private func failure(_ response: HTTPResponse, to request: HTTPRequest) async -> NetworkError {
        var response = response
        var said = Data()
        do {
            for try await chunk in response.body {
                said.append(chunk.prefix(Verdict.errorBodyLimit - said.count))
                if said.count >= Verdict.errorBodyLimit { break }
            }
        } catch {
            // The status is the news.
        }
        response.body = ResponseBody(said)
        guard response.isSuccess || response.status == 304 else { return Verdict.failure(response, to: request) }
        return NetworkError(
            .httpStatus,
            message: "the server answered \(response.status), which has no content to save; ask another address",
            request: request, response: response)
    }

    /// What is there is worth nothing: says so on the disk before anything is overwritten.
    func startOver(_ reason: AnswerRule.Reason) async throws {
        await checkpoints?.settle()
        AtomicFile.remove(target.journal)
        let isTooMuch = state.withLock { state in
            state.plan.startOver(reason)
            state.resumed = 0
            return state.plan.hasRestartedTooOften
        }
        if isTooMuch {
            throw NetworkError(
                .integrity,
                message:
                    "the content changed \(DownloadPlan.mostRestarts + 1) times while it was fetched; try again when "
                    + "the server has come to rest", request: order.request)
        }
        try void()
    }

    private func void() throws {
        try file.truncate(to: 0)
        if let expected = order.options.digest { digest.withLock { $0?.startOver(expected.algorithm.function) } }
    }

    // MARK: Receiving

    /// Takes in the head of an answer that brings content.
    private func accept(_ worker: Int, _ answer: ContentAnswer, _ response: HTTPResponse) async throws {
        try chooseName(response)
        if answer.voidsRest {
            await checkpoints?.settle()
            AtomicFile.remove(target.journal)
            try void()
        }
        let (total, done, isResumable, isTooMuch) = state.withLock { state in
            state.plan.begin(worker, answer)
            if answer.voidsRest { state.resumed = 0 }
            var head = response
            head.body = .empty
            state.response = head
            return (
                state.plan.total, state.plan.done.count, state.plan.isResumable, state.plan.hasRestartedTooOften
            )
        }
        if isTooMuch { throw StartsOver(reason: .changed) }
        try checkSpace(total, done)
        control.setInterruptible(isResumable)
        tell(0)
    }

    private func checkSpace(_ total: Int64?, _ done: Int64) throws {
        guard let total else { return }
        let needed = total - max(done, file.allocatedSize)
        if needed > 0, let free = target.freeSpace, free < needed {
            throw DownloadFiles.tooLittleSpace(target.folder, needed: needed, free: free)
        }
        if order.options.reservesSpace { try file.reserve(total) }
    }

    /// In a folder the server may choose the name; a file that has it already is dealt with before a byte is written.
    private func chooseName(_ response: HTTPResponse) throws {
        guard target.name == nil else { return }
        let name = FileName.disposition(response.headers["Content-Disposition"])
        let path = state.withLock { state in
            state.fileName = name ?? state.fileName
            return target.path(serverName: state.fileName)
        }
        if try ExistingFile.isKept(at: path, order.options) { throw SkipsExisting(path: path) }
    }

    /// Writes the chunks of an answer where they belong.
    private func receive(_ worker: Int, _ answer: Opened, _ failures: inout Int) async throws {
        var chunks = answer.response.body.makeAsyncIterator()
        var fresh: Int64 = 0
        while let chunk = try await nextChunk(&chunks) {
            guard let claim = state.withLock({ $0.plan.claim(worker, chunk.count) }) else {
                throw overlong(answer.response)
            }
            if claim.count > 0 {
                let total = try write(chunk, claim)
                links.prove()
                fresh += Int64(claim.count)
                // A connection that brings this much is not one that fails all the time.
                if fresh >= 1 << 20 { failures = 0 }
                try await checkpoints?.note(Int64(claim.count), total: total)
            }
            tell(chunk.count)
            if claim.isLast { break }
        }
        try Task.checkCancellation()
        if case .short(let missing) = state.withLock({ $0.plan.end(worker) }) {
            throw NetworkError(
                .connectionLost, message: "the body ended \(missing) bytes before what the server announced; try again",
                request: order.request, response: answer.response)
        }
    }

    /// The next chunk, once the caller wants one.
    private func nextChunk(_ chunks: inout ResponseBody.Iterator) async throws -> Data? {
        await control.holdWhilePaused()
        try Task.checkCancellation()
        return try await chunks.next()
    }

    /// - Returns: The size of the whole, when known.
    private func write(_ chunk: Data, _ claim: DownloadPlan.Claim) throws -> Int64? {
        try chunk.withUnsafeBytes { bytes in
            let bytes = UnsafeRawBufferPointer(rebasing: bytes[..<claim.count])
            try file.write(bytes, at: claim.offset)
            let (frontier, total) = state.withLock { state in
                state.plan.write(claim.offset..<(claim.offset + Int64(claim.count)))
                return (state.plan.done.firstMissing, state.plan.total)
            }
            try digest.withLock { follower throws(NetworkError) in
                try follower?.note(bytes, at: claim.offset, frontier: frontier, in: file)
            }
            return total
        }
    }

    private func overlong(_ response: HTTPResponse) -> any Error {
        if response.status == 206 { return StartsOver(reason: .wrongRange("more bytes than the range has")) }
        return NetworkError(
            .protocolViolation, message: "the body is longer than its Content-Length; nothing was put at the target",
            request: order.request, response: response)
    }
}

extension NetworkError {
    /// Whether a body broke off in a way that asking for the rest may help.
    fileprivate var isBrokenBody: Bool {
        switch kind {
        case .connectionLost, .timeout(.idle), .dns, .connect, .timeout(.connect): true
        default: false
        }
    }

    /// Whether a server, or what stands before it, does not want another connection.
    fileprivate var isRefusal: Bool {
        switch kind {
        case .httpStatus: [403, 408, 425, 429, 500, 502, 503, 504].contains(response?.status ?? 0)
        case .connect, .connectionLost, .timeout, .dns: true
        default: false
        }
    }
}
