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
        /// Why the upload has to end, although its requests might succeed.
        var failure: NetworkError?
        /// A response that is the result if the server says that it has all bytes.
        var candidate: HTTPResponse?
        /// Whether what the server has cannot become the upload.
        var isUseless = false
        /// Whether the server has ended the upload, and so has nothing to remove.
        var hasFailed = false
        /// The journal that was written last.
        var written: UploadJournal?
        /// The checksums that were computed, so that a repeated request needs none.
        var digests: [UploadMessage.Checksum: [UInt8]] = [:]
        /// The lanes of an earlier run that the server has not been asked about yet.
        var unasked: Set<Int> = []
        /// Ends the request that is being sent.
        var stop: (@Sendable () -> Void)?
    }

    let order: UploadOrder
    let version: FileVersion
    private let content: UploadedContent
    /// The address that the caller named, which may be replaced.
    let renewal: URLRenewal
    let state: Mutex<State>
    let files: UploadFiles
    let monitor: UploadMonitor
    /// Held while the journal is written, so that an older one never replaces a newer one.
    let journaling = Mutex(())

    /// Checks the file and takes the lock.
    ///
    /// - Throws: ``NetworkError/Kind/requestBody`` and ``NetworkError/Kind/storage``. Nothing was sent.
    init(_ order: UploadOrder, _ monitor: UploadMonitor) throws(NetworkError) {
        try order.check()
        self.order = order
        self.monitor = monitor
        version = try UploadedFile.version(of: order.path)
        content = order.content
        renewal = URLRenewal(url: order.request.url, refresh: order.refreshURL)
        let plan = UploadPlan(total: version.size, order.upload, repeatsEffects: order.repeatsEffects)
        guard plan.shape != .parts || plan.lanes.count <= UploadPlan.maxParts else {
            throw .invalidRequest(
                "\(version.size) bytes in parts of \(plan.partSize) are more than \(UploadPlan.maxParts) parts; set "
                    + "partSize to \(UploadPlan.count(of: version.size, by: UploadPlan.maxParts)) or more")
        }
        state = Mutex(State(plan: plan))
        files = try UploadFiles(order)
    }

    var dialect: any UploadDialect { content.dialect(order.upload.style, at: renewal.link.url) }

    /// Sends everything that is missing.
    ///
    /// - Parameter discards: Whether a cancelled upload is removed from the server.
    /// - Throws: ``NetworkError``. What can be continued is kept.
    func run(discards: @Sendable () -> Bool) async throws -> HTTPResponse {
        defer { files.unlock() }
        do {
            try await takeEarlierRun()
            let response = try await upload()
            end { files.removeJournal() }
            return response
        } catch {
            let state = state.withLock(\.self)
            let error = state.failure ?? error
            guard !state.hasFailed else {
                end { files.removeJournal() }
                throw error
            }
            let isChanged = (error as? NetworkError)?.kind == .requestBody && hasChanged
            let isOver = discards() || isChanged || state.isUseless || state.plan.hasRestartedTooOften
            if !isOver {
                // What the server said last counts for the next run.
                try? writeJournal()
                end {}
            }
            // What no journal tells of would stay on the server.
            if isOver || self.state.withLock(\.plan.hasUpload) && files.journal == nil {
                guard await discard() else {
                    let next = files.journal == nil ? "it expires there" : "the next run of the same upload removes it"
                    throw Interruption(error: error, fate: "the server still has what it got of the upload; \(next)")
                }
                if isOver { throw error }
            }
            let isInterrupted =
                error is CancellationError || [.cancelled, .storage].contains((error as? NetworkError)?.kind)
            guard let fate = fate ?? (isInterrupted ? "nothing of it can be continued" : nil) else { throw error }
            throw Interruption(error: error, fate: fate)
        }
    }

    /// The end of an upload after which the next step depends on what is kept.
    struct Interruption: Error {
        let error: any Error
        let fate: String
    }

    private var hasChanged: Bool { (try? UploadedFile.version(of: order.path)) != version }

    /// What the next call does; `nil` if it begins anew.
    private var fate: String? {
        let plan = state.withLock(\.plan)
        guard plan.hasUpload, files.journal != nil else { return nil }
        return "the same upload continues after the \(plan.stored) bytes that the server has confirmed"
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
                let hasFailed = state.withLock { state in
                    defer { state.hasFailed = false }
                    return state.hasFailed
                }
                if hasFailed { try await startOver() }
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
            state.unasked = []
            return (plan, state.plan.hasRestartedTooOften)
        }
        monitor.resumption.withLock {
            var next = ResumableUpload.Resumption()
            next.restart = plan.hasUpload ? .forgotten : $0?.restart
            $0 = next
        }
        _ = await remove(plan)
        journaling.withLock { _ in
            files.removeJournal()
            state.withLock { $0.written = nil }
        }
        guard !isTooMuch else {
            throw NetworkError(
                .protocolViolation,
                message:
                    "the server forgot the upload \(UploadPlan.maxRestarts + 1) times; look there for the reason, such "
                    + "as a time after which unfinished uploads are removed",
                request: order.request)
        }
    }

    /// Makes steps until the result is there; `nil` when the session has to be continued.
    private func session() async throws -> HTTPResponse? {
        var backoff = UploadBackoff(order)
        while true {
            if let step = state.withLock(\.plan.serialStep) {
                try await carryOut(step, by: 0, &backoff)
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

    /// The failure of a file that is larger than the server takes.
    func tooLarge(_ plan: UploadPlan) -> NetworkError? {
        guard let limit = plan.facts.maxSize, limit < version.size else { return nil }
        return NetworkError(
            .requestBody,
            message:
                "the file \"\(order.path)\" has \(version.size) bytes, and the server takes at most \(limit); send a "
                + "smaller one", request: order.request)
    }

    // MARK: Steps

    /// Sends the request of a step and notes its answer. After a failure that may pass it waits.
    private func carryOut(_ step: UploadPlan.Step, by worker: Int, _ backoff: inout UploadBackoff) async throws {
        do {
            try begin(step)
            backoff.begin()
            let generation = renewal.link.generation
            let (request, response, sent) = try await send(step, by: worker)
            let isMoved = response.hasArrivedBefore
            if order.mayRenew(after: response, to: step), !isMoved || state.withLock({ $0.plan.mayRepeat(step) }),
                try await renewal.renew(generation, Self.failure(response, to: request))
            {
                state.withLock { state in
                    state.plan.fail(step, isLost: isMoved)
                    settle(&state, worker)
                }
                return
            }
            let outcome = state.withLock { state -> UploadPlan.Outcome in
                if response.isSuccess || response.status == 413 { state.plan.take(dialect.facts(response.headers)) }
                let before = state.plan.highest
                var answer = dialect.answer(to: step, response, state.plan)
                if case .stored(let part) = answer, let sum = part.checksum, !sent.isEmpty, !sent.contains(sum) {
                    answer = .again(.corrupt)
                }
                if case .created(let address, _) = answer, step.lane != nil, let failure = order.refusal(of: address) {
                    answer = .violation(failure.message)
                }
                let outcome = state.plan.note(answer, to: step, status: response.status, isMoved: isMoved)
                if answer == .unconfirmed { state.candidate = response }
                if outcome == .finished {
                    state.response = state.plan.completes(step) ? response : state.candidate ?? response
                }
                noteResumption(&state, step)
                if case .unusable = outcome { state.isUseless = true }
                if outcome == .failed { state.hasFailed = true }
                settle(&state, worker)
                // Bytes that the server had before are no progress: it may lose them each time.
                if state.plan.highest > before {
                    backoff.reset()
                    renewal.noteReceivedBytes()
                }
                if outcome != .finished, let failure = tooLarge(state.plan) {
                    (state.failure, state.isUseless) = (state.failure ?? failure, true)
                }
                return outcome
            }
            monitor.reach(position, isEarlier: step.isQuestion)
            // An answer that came before a cancellation counts for the next run.
            if outcome != .finished {
                try writeJournal()
                try Task.checkCancellation()
            }
            switch outcome {
            case .proceed, .finished: break
            case .startOver: throw StartsAnew()
            case .refused, .failed: throw Self.failure(response, to: request)
            case .violation(let reason), .unusable(let reason):
                throw NetworkError(.protocolViolation, message: reason, request: request, response: response)
            case .again(let reason):
                guard state.withLock({ $0.plan.mayRepeat(step) }), let pause = backoff.next(after: reason, response)
                else {
                    if step == .probe { return learnsNothing() }
                    throw Self.failure(response, to: request)
                }
                try await Task.sleep(for: pause)
            }
            if outcome != .finished, let failure = state.withLock(\.failure) { throw failure }
        } catch let error as NetworkError where error.mayPass {
            let isLost = error.mayHaveArrived
            let repeats = state.withLock { state in
                state.plan.fail(step, isLost: isLost)
                settle(&state, worker)
                return state.failure == nil && (!isLost || state.plan.mayRepeat(step))
            }
            guard repeats, let pause = backoff.next() else {
                if isLost, step == .probe, state.withLock({ $0.failure == nil }) {
                    backoff.reset()
                    return learnsNothing()
                }
                throw error.counting(attempts: max(error.attempts, backoff.failures + 1))
            }
            try await Task.sleep(for: pause)
        }
    }

    /// Goes on without an answer to the question what the server can do: it need not say, and some servers end the connection
    /// after a method that they do not know.
    private func learnsNothing() { state.withLock { _ = $0.plan.note(.probed, to: .probe) } }

    private func settle(_ state: inout State, _ worker: Int) {
        state.inFlight[worker] = 0
        state.stored = state.plan.stored
    }

    /// Notes in the journal that the upload may be complete before the request is sent that completes it.
    private func begin(_ step: UploadPlan.Step) throws {
        let (isInDoubt, isNew) = state.withLock { state in
            guard state.plan.completes(step) else { return (false, false) }
            let isNew = !state.plan.mayBeComplete
            state.plan.noteCompletion()
            return (!isNew && !state.plan.mayRepeat(step), isNew)
        }
        guard !isInDoubt else {
            throw NetworkError(.protocolViolation, message: UploadPlan.doubt, request: order.request)
        }
        if isNew { try writeJournal() }
    }

    private static func failure(_ response: HTTPResponse, to request: HTTPRequest) -> NetworkError {
        guard response.isSuccess else { return StatusRule.failure(response, to: request) }
        return NetworkError(
            .protocolViolation,
            message:
                "the server answered \(request.method) with \(response.status), but without what the protocol of the "
                + "upload asks for; check the address and the protocol", request: request, response: response)
    }
}
