import Cryptography
import CurlTransport
import FoundationEssentials
import HTTPCore
import LATClient
import Platform
import Synchronization

/// Runs one upload that can go on, from the check of its file to the response of the server. ``UploadPlan`` makes the
/// decisions, and an ``UploadDialect`` the requests.
final class UploadJob: Sendable {
    struct State {
        var plan: UploadPlan
        /// The bytes that the server has, and those that each worker has sent since.
        var stored: Int64 = 0
        var inFlight: [Int: Int64] = [:]
        /// The result, once there is one.
        var response: HTTPResponse?
        var isOver = false
        /// Why the journal could not be written.
        var failure: NetworkError?
    }

    let order: UploadOrder
    let version: FileVersion
    let dialect: any UploadDialect
    let state: Mutex<State>
    private let files: UploadFiles
    private let monitor: UploadMonitor
    /// Held while the journal is written, so that an older one never replaces a newer one.
    private let journaling = Mutex(())

    /// Checks the file and takes the lock.
    ///
    /// - Throws: ``NetworkError/Kind/requestBody`` and ``NetworkError/Kind/storage``. Nothing was sent.
    init(_ order: UploadOrder, _ monitor: UploadMonitor) throws(NetworkError) {
        try order.check()
        self.order = order
        self.monitor = monitor
        version = try UploadedFile.version(of: order.path)
        let content = order.content(version)
        dialect =
            switch order.upload.style {
            case .tus: TusUpload(content)
            case .standard: DraftUpload(content)
            case .s3: S3Upload(content)
            }
        let plan = UploadPlan(total: version.size, order.upload)
        guard plan.shape != .parts || plan.lanes.count <= UploadPlan.maxParts else {
            throw .invalidRequest(
                "\(version.size) bytes in parts of \(plan.partSize) are more than \(UploadPlan.maxParts) parts; set "
                    + "partSize to \((version.size + UploadPlan.maxParts - 1) / UploadPlan.maxParts) or more")
        }
        state = Mutex(State(plan: plan))
        files = try UploadFiles(order)
    }

    /// Sends everything that is missing.
    ///
    /// - Parameter discards: Whether a cancelled upload is removed from the server.
    /// - Throws: ``NetworkError``. What can be continued is kept.
    func run(discards: @Sendable () -> Bool) async throws -> HTTPResponse {
        defer { files.unlock() }
        do {
            try await takeEarlierRun()
            let response = try await upload()
            removeJournal(isLast: true)
            return response
        } catch {
            let isChanged = (error as? NetworkError)?.kind == .requestBody && hasChanged
            if discards() || isChanged || state.withLock(\.plan.hasRestartedTooOften) {
                await discard()
                throw error
            }
            throw error is CancellationError || [.cancelled, .storage].contains((error as? NetworkError)?.kind)
                ? Interruption(error: error, fate: fate) : error
        }
    }

    /// The end of an upload after which the next step depends on what is kept.
    struct Interruption: Error {
        let error: any Error
        let fate: String
    }

    private var hasChanged: Bool { (try? UploadedFile.version(of: order.path)) != version }

    private var fate: String {
        let plan = state.withLock(\.plan)
        guard plan.hasUpload, files.journal != nil else { return "nothing of it can be continued" }
        return "the same upload continues after the \(plan.stored) bytes that the server has confirmed"
    }

    /// Continues an earlier run, or removes from the server what cannot be continued.
    private func takeEarlierRun() async throws {
        guard let journal = files.journal else { return files.removeJournal() }
        let now = Int64(Date.now.timeIntervalSince1970)
        guard order.upload.resumesEarlierRun, journal.style == order.upload.style, journal.file == version,
            journal.expires.map({ $0 > now }) ?? true
        else {
            var plan = UploadPlan(total: journal.file.size, order.upload)
            if journal.style == order.upload.style { plan.resume(from: journal) }
            removeJournal()
            return await remove(plan)
        }
        state.withLock { $0.plan.resume(from: journal) }
    }

    private func upload() async throws -> HTTPResponse {
        var replays = 0
        while true {
            do {
                if let response = try await session() { return response }
            } catch is StartsAnew {
                try await startOver()
            } catch let error as NetworkError {
                guard try await order.isReplayed(error, replays) else { throw error }
                replays += 1
            }
            state.withLock { state in
                state.plan.releaseAll()
                state.inFlight = [:]
            }
        }
    }

    /// The upload is gone on the server, or is one of other content.
    struct StartsAnew: Error {}

    private func startOver() async throws {
        let (plan, isTooMuch) = state.withLock { state in
            let plan = state.plan
            state.plan.startOver()
            state.stored = 0
            return (plan, state.plan.hasRestartedTooOften)
        }
        removeJournal()
        await remove(plan)
        guard !isTooMuch else {
            throw NetworkError(
                .protocolViolation,
                message: "the server forgot the upload \(UploadPlan.maxRestarts + 1) times; ask for the reason there",
                request: order.request)
        }
    }

    /// Makes steps until the result is there; `nil` when the session has to be continued.
    private func session() async throws -> HTTPResponse? {
        var backoff = UploadBackoff(order)
        while true {
            if let step = state.withLock(\.plan.serialStep) {
                try await carryOut(step, by: 0, &backoff)
                if step == .probe { try checkSize() }
            } else if !state.withLock(\.plan.isFinished) {
                let count = state.withLock(\.plan.workerCount)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for worker in 0..<count { group.addTask { [self] in try await work(worker) } }
                    try await group.waitForAll()
                }
            }
            if let response = state.withLock(\.response) { return response }
        }
    }

    private func work(_ worker: Int) async throws {
        var backoff = UploadBackoff(order)
        while let step = state.withLock({ $0.plan.step(of: worker) }) { try await carryOut(step, by: worker, &backoff) }
    }

    /// A file that the server does not take is refused before anything of it is sent.
    private func checkSize() throws {
        guard let limit = state.withLock(\.plan.facts.maxSize), limit < version.size else { return }
        throw NetworkError(
            .requestBody,
            message:
                "the file \"\(order.path)\" has \(version.size) bytes, and the server takes at most \(limit); send a "
                + "smaller one", request: order.request)
    }

    // MARK: Steps

    /// Sends the request of a step and notes its answer. After a failure that may pass it waits.
    private func carryOut(_ step: UploadPlan.Step, by worker: Int, _ backoff: inout UploadBackoff) async throws {
        do {
            try await begin(step)
            let (request, response, sent) = try await send(step, by: worker)
            try Task.checkCancellation()
            let outcome = state.withLock { state -> UploadPlan.Outcome in
                if response.isSuccess || response.status == 413 { state.plan.take(dialect.facts(response.headers)) }
                let before = state.plan.stored
                var answer = dialect.answer(to: step, response, state.plan)
                if case .stored(let part) = answer, let sum = part.checksum, !sent.isEmpty, !sent.contains(sum) {
                    answer = .again(.corrupt)
                }
                let outcome = state.plan.note(answer, to: step)
                if outcome == .finished { state.response = response }
                if answer == .again(.conflict), step == .complete, state.plan.shape == .parts { state.plan.listAgain() }
                settle(&state, worker)
                if state.plan.stored > before { backoff.reset() }
                return outcome
            }
            monitor.reach(position)
            switch outcome {
            case .proceed: if changesJournal(step) { try writeJournal() }
            case .finished: break
            case .startOver: throw StartsAnew()
            case .refused: throw Self.failure(response, to: request)
            case .again(let reason):
                guard let pause = backoff.next(after: reason, response) else {
                    throw Self.failure(response, to: request)
                }
                try await Task.sleep(for: pause)
            }
        } catch let error as NetworkError where error.mayPass {
            state.withLock { state in
                state.plan.fail(step)
                settle(&state, worker)
            }
            if let failure = state.withLock(\.failure) { throw failure }
            guard let pause = backoff.next() else {
                throw error.counting(attempts: max(error.attempts, backoff.failures + 1))
            }
            try await Task.sleep(for: pause)
        }
    }

    private func settle(_ state: inout State, _ worker: Int) {
        state.inFlight[worker] = 0
        state.stored = state.plan.stored
    }

    /// Notes in the journal that the upload may be complete before the request is sent that completes it.
    private func begin(_ step: UploadPlan.Step) async throws {
        guard step == .complete, state.withLock({ $0.plan.shape == .parts && !$0.plan.mayBeComplete }) else { return }
        state.withLock { $0.plan.noteCompletion() }
        try writeJournal()
    }

    private func changesJournal(_ step: UploadPlan.Step) -> Bool {
        switch step {
        case .create, .begin: true
        case .probe, .ask, .send, .list, .complete, .verify: false
        }
    }

    /// - Returns: The request, the response, and the checksums that were sent.
    private func send(
        _ step: UploadPlan.Step, by worker: Int
    ) async throws -> (HTTPRequest, HTTPResponse, [String]) {
        let message = state.withLock { dialect.message(for: step, $0.plan) }
        var request = order.request(for: message)
        var sent: [String] = []
        var sha256: [UInt8]?
        for checksum in message.checksums {
            let digest = try FileDigest.bytes(order.path, checksum.algorithm, in: checksum.range) {
                DownloadFiles.system("read", $0)
            }
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
        let url = request.url
        let body: BodyHandler = { [weak self] event, _ in self?.note(event, by: worker) }
        let interim: InterimHandler = { [weak self] status, headers in
            self?.noteInterim(status, headers, at: url, to: step)
        }
        let response = try await order.send(request, body, order.upload.style == .standard ? interim : nil)
        return (request, response, sent)
    }

    private static func failure(_ response: HTTPResponse, to request: HTTPRequest) -> NetworkError {
        guard response.isSuccess else { return Verdict.failure(response, to: request) }
        return NetworkError(
            .protocolViolation,
            message:
                "the server answered \(request.method) with \(response.status), but without what the protocol of the "
                + "upload asks for; check the address and the protocol", request: request, response: response)
    }

    private func noteInterim(_ status: Int, _ headers: HTTPHeaders, at url: String, to step: UploadPlan.Step) {
        let isNew = state.withLock { state in
            guard dialect.isAnnouncement(status, headers, state.plan) else { return false }
            let address = headers["Location"].flatMap { URLReference.link($0, at: url) }
            return state.plan.noteInterim(address, dialect.facts(headers), to: step)
        }
        guard isNew else { return }
        // The engine's thread does not write files.
        Task.detached(executorPreference: TransferExecutor.shared) { [self] in
            do throws(NetworkError) {
                try writeJournal()
            } catch {
                state.withLock { $0.failure = error }
            }
        }
    }

    // MARK: The journal

    private func writeJournal() throws(NetworkError) {
        try journaling.withLock { _ throws(NetworkError) in
            let journal = state.withLock { $0.isOver ? nil : $0.plan.journal(identity: files.identity, version) }
            if let journal { try files.write(journal) }
        }
    }

    /// - Parameter isLast: Whether no journal may be written afterwards, such as for an interim response that came late.
    private func removeJournal(isLast: Bool = false) {
        journaling.withLock { _ in
            if isLast { state.withLock { $0.isOver = true } }
            files.removeJournal()
        }
    }

    /// Removes the upload from the server and its journal.
    private func discard() async {
        removeJournal(isLast: true)
        await remove(state.withLock(\.plan))
    }

    /// Removes what the server has. A failure of that is no failure of anything else: servers let uploads expire.
    private func remove(_ plan: UploadPlan) async {
        let messages = dialect.removal(of: plan)
        guard !messages.isEmpty else { return }
        let order = order
        // Not a child task, because this one may be cancelled.
        await Task {
            for message in messages {
                var request = order.request(for: message)
                request.timeout = .seconds(10)
                _ = try? await order.sendAfter(request)
            }
        }.value
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

    private var position: Int64 { state.withLock { $0.stored + $0.inFlight.values.reduce(0, +) } }
}
