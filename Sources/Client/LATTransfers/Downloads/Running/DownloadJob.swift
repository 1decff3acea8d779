import FoundationEssentials
import Glibc
import HTTPCore
import LATClient
import Platform
import Synchronization

/// Runs one download, from the check of its target to the final rename. ``DownloadPlan`` makes the decisions.
final class DownloadJob: Sendable {
    struct State {
        var plan: DownloadPlan
        var fileName: String?
        /// The head of the last response that carried content.
        var response: HTTPResponse?
        var received: Int64 = 0
        var resumed: Int64 = 0
        /// The most bytes of this version of the content that have been there at once.
        var most: Int64 = 0
        /// The digest of the whole content that its first response announced (`Repr-Digest`).
        var announced: DownloadOptions.Digest?
    }

    let order: DownloadOrder
    let control: DownloadControl
    let target: DownloadTarget
    let file: PartFile
    let links: URLRenewal
    let state: Mutex<State>
    let digest: Mutex<DigestFollower?>
    private let meter = Mutex(DownloadMeter())
    private let progress: LatestValue<TransferProgress>
    private let clock = ContinuousClock.now
    /// Set at the end of `init`, because its closure refers to the job.
    private let checkpointing = Mutex<Checkpoints?>(nil)

    /// Opens the `.part` file and reads the journal.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` if the target cannot be used, also because another program's file has the name of
    ///   the `.part` file. Nothing was sent.
    init(
        _ order: DownloadOrder, target: DownloadTarget, control: DownloadControl,
        progress: LatestValue<TransferProgress>
    ) throws(NetworkError) {
        self.order = order
        self.control = control
        self.progress = progress
        self.target = target
        file = try PartFile(path: target.part, target: order.path)
        links = URLRenewal(url: order.request.url, refresh: order.options.refreshURL)
        var state = State(plan: DownloadPlan(segments: order.segments, usesRanges: order.mayUseRanges))
        if order.options.resumesEarlierRun, let journal = Self.journal(of: order, target, file) {
            state.plan.resume(from: journal)
            // Only the server, or a digest of the caller, can say that the whole content is still the right one. The request
            // for its last byte asks.
            if order.options.digest == nil, state.plan.isComplete { state.plan.drop(from: state.plan.done.count - 1) }
            state.fileName = journal.fileName
            if order.checksAnnouncedDigest { state.announced = journal.digest }
            state.resumed = state.plan.done.count
            state.most = state.resumed
        } else {
            guard target.isOwn(file) else { throw DownloadFiles.ofNoDownload(target.part) }
            try target.startJournal()
            try file.truncate(to: 0)
        }
        self.state = Mutex(state)
        digest = Mutex(order.options.digest.map { DigestFollower($0.algorithm.function) })
        checkpointing.withLock {
            $0 = Checkpoints(file: file, path: target.journal) { [weak self] in self?.currentJournal }
        }
        report(0)
    }

    /// The journal beside the target, if it belongs to this download and is valid.
    private static func journal(
        of order: DownloadOrder, _ target: DownloadTarget, _ file: PartFile
    ) -> DownloadJournal? {
        guard order.mayUseRanges, let data = DownloadFiles.read(target.journal),
            let journal = DownloadJournal(decoding: data), journal.identity == order.identity,
            journal.validator != nil, journal.done.count > 0, journal.done.upperBound <= file.size
        else { return nil }
        return journal
    }

    var checkpoints: Checkpoints? { checkpointing.withLock { $0 } }

    /// The journal to write now; `nil` if the download is not resumable.
    private var currentJournal: DownloadJournal? {
        state.withLock { state in
            guard state.plan.isResumable else { return nil }
            return DownloadJournal(
                identity: order.identity, validator: state.plan.validator, coding: state.plan.coding,
                total: state.plan.total, done: state.plan.done, fileName: state.fileName,
                digest: state.announced)
        }
    }

    // MARK: Progress

    func report(_ received: Int) {
        let (completed, total) = state.withLock { state in
            state.received += Int64(received)
            return (state.plan.done.count, state.plan.total)
        }
        meter.withLock { meter in
            let event = meter.note(
                completed: completed, total: total, received: Int64(received), at: ContinuousClock.now - clock)
            if let event { progress.stage(event) }
        }
        progress.deliver()
    }

    var finalProgress: TransferProgress {
        let (completed, total) = state.withLock { ($0.plan.done.count, $0.plan.total) }
        return meter.withLock { $0.stop(completed: completed, total: total) }
    }

    // MARK: Phases

    /// Fetches everything that is missing and gives the file its name.
    ///
    /// - Throws: ``NetworkError``, including ``NetworkError/Kind/cancelled``. Usable bytes are kept.
    func run() async throws -> DownloadedFile {
        defer { file.unlock() }
        do {
            try await fetch()
            return try await finish()
        } catch let skip as SkipsExisting {
            await checkpoints?.settle()
            target.discard(file)
            return Self.skipped(skip.path, skip.path, order)
        } catch let error as NetworkError {
            let fate = fate(await keep(after: error))
            throw switch error.kind {
            // The errors after which the next step depends on what is kept.
            case .storage, .provider: error.adding(fate)
            case .cancelled where control.isCancelled: error.adding(fate)
            default: error
            }
        } catch {
            _ = await keep(after: error)
            throw error
        }
    }

    private func fetch() async throws {
        var replays = 0
        while !state.withLock(\.plan.isComplete) {
            await control.waitWhilePaused()
            try checkCancellation()
            let before = state.withLock { $0.plan.standing }
            do {
                try await control.run { [self] in try await session() }
                try checkChange(since: before)
            } catch is DownloadControl.Interruption {
                // After a pause that was resumed at once, the next session starts directly.
                if control.intent == .pause {
                    meter.withLock { progress.stage($0.stop()) }
                    progress.deliver()
                    try await checkpoints?.flush()
                }
            } catch let restart as StartsOver {
                try await startOver(restart.reason)
            } catch is UsesOneConnection {
                state.withLock { $0.plan.useOneConnection() }
            } catch let error as NetworkError {
                guard try await order.isReplayed(error, replays) else { throw error }
                replays += 1
            }
            state.withLock { $0.plan.releaseAll() }
        }
    }

    /// Fails after a session that has ended without an error and has changed nothing: so would the next one.
    private func checkChange(since before: DownloadPlan.Standing) throws {
        let (plan, isComplete) = state.withLock { ($0.plan.standing, $0.plan.isComplete) }
        guard !isComplete, plan == before else { return }
        throw NetworkError(
            .protocolViolation,
            message: "the server's responses do not agree with each other: \(plan.received) bytes were received of "
                + "\(plan.total.map { "\($0)" } ?? "unknown"), and nothing is left to request; the file was not saved",
            request: order.request, response: state.withLock(\.response))
    }

    /// Keeps what another download can continue with, and removes the rest.
    ///
    /// - Returns: The number of bytes that are kept.
    private func keep(after error: any Error) async -> Int64 {
        await checkpoints?.settle()
        let isResumable = state.withLock { $0.plan.isResumable && $0.plan.done.count > 0 }
        let isWanted: Bool =
            switch (control.intent, (error as? NetworkError)?.kind) {
            case (.cancel(let keepsProgress), _): keepsProgress
            case (_, .integrity): false
            default: true
            }
        // Only what a journal lists can be used later. The first error is the one to report.
        if isResumable, isWanted {
            try? await checkpoints?.flush()
            if let count = keptCount { return count }
            // A full disk has no room for the first journal, so the last bytes give way to it.
            let end = max(0, file.size - Self.roomForJournal)
            state.withLock { $0.plan.drop(from: end) }
            try? file.truncate(to: end)
            try? await checkpoints?.flush()
            if let count = keptCount, count > 0 { return count }
        }
        target.discard(file)
        return 0
    }

    /// The number of bytes that the journal lists; `nil` without a valid one.
    private var keptCount: Int64? { Self.journal(of: order, target, file)?.done.count }

    private static let roomForJournal: Int64 = 64 << 10

    private func checkCancellation() throws(NetworkError) {
        guard control.isCancelled else { return }
        throw NetworkError(.cancelled, message: "the download was cancelled", request: order.request)
    }

    /// Says what is kept of a download that was not completed, or why nothing is.
    private func fate(_ kept: Int64) -> String {
        guard kept == 0 else {
            return "\(kept) bytes are kept beside the target, and the same download continues with the rest"
        }
        let (isResumable, count) = state.withLock { ($0.plan.isResumable, $0.plan.done.count) }
        if count == 0 || control.intent == .cancel(keepsProgress: false) { return "nothing is kept" }
        return "nothing is kept, because "
            + (isResumable ? "the journal of the download cannot be written" : unresumable)
    }

    private var unresumable: String {
        if order.isSealed { return "a sealed reply is opened as a whole" }
        return order.mayUseRanges
            ? "the server sends no strong validator (ETag) or does not support ranges"
            : "a \(order.request.method) download cannot be resumed"
    }

    // MARK: Completion

    /// Checks the digest of the complete file and gives it its name.
    private func finish() async throws -> DownloadedFile {
        await checkpoints?.settle()
        let (plan, fileName) = state.withLock { ($0.plan, $0.fileName) }
        let total = plan.total ?? plan.done.count
        try file.truncate(to: total)
        try file.synchronize()
        let found = try checkDigest(total)
        try checkCancellation()
        let path = target.path(serverName: fileName)
        if try target.isKept(order.options, serverName: fileName) { throw SkipsExisting(path: path) }
        if case .file(let mode, _) = DownloadTarget.existing(at: path) { file.takePermissions(mode) }
        if let file = file.finished(as: path) { order.options.willFinish?(file) }
        try target.appear(as: path, replaces: target.existingFile(order.options, serverName: fileName) != .fail)
        AtomicFile.remove(target.journal)
        return state.withLock { state in
            DownloadedFile(
                path: target.shownPath(serverName: fileName), byteCount: total,
                response: state.response ?? Self.noResponse(order.request.url),
                isSkipped: false, resumedByteCount: state.resumed, receivedByteCount: state.received, digest: found)
        }
    }

    private func checkDigest(_ total: Int64) throws -> String? {
        guard let expected = order.options.digest ?? state.withLock(\.announced) else { return nil }
        // A download that an earlier run had completed got no response.
        digest.withLock { if $0 == nil { $0 = DigestFollower(expected.algorithm.function) } }
        let found = try digest.withLock { follower throws(NetworkError) -> String? in
            try follower?.catchUp(to: total, in: file, check: checkCancellation)
            return try follower?.finish()
        }
        guard let found, found == expected.hexadecimal.lowercased() else {
            let next =
                order.options.digest == nil
                ? ", which the Repr-Digest of its response announces; set digests.checks = false if the server is wrong. The"
                : "; the"
            throw NetworkError(
                .integrity,
                message: "the \(expected.algorithm.rawValue) of the content is \(found ?? "unknown") instead of "
                    + "\(expected.hexadecimal.lowercased())\(next) file was not saved, and its bytes were removed",
                request: order.request, response: state.withLock(\.response))
        }
        return found
    }

    static func noResponse(_ url: String) -> HTTPResponse { HTTPResponse(status: 304, url: url) }

    /// - Parameter shown: The path to report.
    static func skipped(_ path: String, _ shown: String, _ order: DownloadOrder) -> DownloadedFile {
        var size: Int64 = 0
        if case .file(_, let count) = DownloadTarget.existing(at: path) { size = count }
        return DownloadedFile(
            path: shown, byteCount: size, response: noResponse(order.request.url), isSkipped: true,
            resumedByteCount: 0, receivedByteCount: 0, digest: order.options.digest?.hexadecimal.lowercased())
    }
}

/// The download must start over: the content has changed, or the server's parts are wrong.
struct StartsOver: Error {
    let reason: ResponseRule.Reason
}

/// One of several connections got the whole content, so the download continues with one connection.
struct UsesOneConnection: Error {}

/// The name that the server chose exists, and the existing file is to be kept.
struct SkipsExisting: Error {
    let path: String
}
