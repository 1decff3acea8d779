import CurlTransport
import FoundationEssentials
import HTTPCore
import LATClient
import Platform
import Synchronization

/// Records the progress of an upload while the engine's thread reads its body, and notifies the readers of the progress, at most
/// twenty times a second.
final class UploadMonitor: Sendable {
    private struct State {
        var ledger: UploadLedger
        var lastReport: Duration?
        /// Whether a report of what came since the last one is on its way.
        var isReportDue = false
    }

    private let state: Mutex<State>
    private let latest: LatestValue<TransferProgress>
    private let start = ContinuousClock.now
    /// What has become of an earlier run; `nil` for an upload in one request.
    let resumption = Mutex<ResumableUpload.Resumption?>(nil)

    init(_ items: [UploadItem]) {
        let ledger = UploadLedger(items)
        latest = LatestValue(ledger.progress)
        state = Mutex(State(ledger: ledger))
    }

    /// Monitors the files of a multipart body, without its plain fields.
    convenience init(_ parts: [UploadFile]) { self.init(parts.filter { $0.fileName != nil }.map { UploadItem($0) }) }

    /// Receives the call's reports of the bytes that it reads.
    var handler: BodyHandler { { [self] event, file in note(event, of: file ?? 0) } }

    var progress: TransferProgress { state.withLock(\.ledger.progress) }

    var updates: ProgressUpdates {
        ProgressUpdates(latest) { [self] in
            state.withLock { latest.stage($0.ledger.progress) }
            latest.deliver()
        }
    }

    func finish(isSuccess: Bool) {
        let last = state.withLock { state in
            state.ledger.finish(isSuccess: isSuccess)
            return state.ledger.progress
        }
        latest.finish(last)
    }

    /// Records the number of bytes of the only file that were sent, as ``UploadLedger/reach(_:isEarlier:at:)``.
    func reach(_ position: Int64, isEarlier: Bool = false) {
        record { $0.reach(position, isEarlier: isEarlier, at: $1) }
    }

    private func note(_ event: BodyEvent, of index: Int) { record { $0.note(event, of: index, at: $1) } }

    private func record(_ change: (inout UploadLedger, Duration) -> Void) {
        let isEarly = state.withLock { state in
            let time = ContinuousClock.now - start
            change(&state.ledger, time)
            guard latest.hasReaders, !state.isReportDue else { return false }
            state.isReportDue = state.lastReport.map { time - $0 < ProgressUpdates.interval } ?? false
            if !state.isReportDue { stage(&state, at: time) }
            return state.isReportDue
        }
        guard isEarly else { return latest.deliver() }
        // The body may pause now, so nothing else would report this event.
        Task { [self] in
            try? await Task.sleep(for: ProgressUpdates.interval)
            state.withLock { stage(&$0, at: ContinuousClock.now - start) }
            latest.deliver()
        }
    }

    private func stage(_ state: inout State, at time: Duration) {
        state.isReportDue = false
        state.lastReport = time
        latest.stage(state.ledger.progress)
    }
}

extension UploadItem {
    init(_ file: UploadFile) {
        let total: Int64? =
            switch file.source {
            case .data(let data): Int64(data.count)
            case .path(let path): Self.size(of: path)
            case .stream(let stream): stream.length
            }
        self.init(name: file.name, fileName: file.fileName, total: total)
    }

    /// Describes a body that is one file.
    init(_ body: HTTPBody) {
        self.init(name: "", fileName: nil, total: nil)
        switch body.content {
        case .data(let data): total = Int64(data.count)
        case .stream(let stream): total = stream.length
        case .file(let path):
            fileName = path.split(separator: "/").last.map(String.init)
            total = Self.size(of: path)
        case .parameters, .encoded, .multipart: break
        }
    }

    /// The size of a file; `nil` when it is unknown, and for what fails with the reason when it is sent.
    private static func size(of path: String) -> Int64? { (try? UploadedFile.size(of: path)) ?? nil }
}
