import CurlTransport
import HTTPCore
import LATClient
import Platform

/// Counts the bytes of an upload, for each file and in all. A value without I/O.
struct UploadLedger: Sendable {
    private struct Entry {
        let item: UploadItem
        /// The reader's offset in the present pass; below `completed` while the file is sent again.
        var position: Int64 = 0
        var completed: Int64 = 0
        var hasBegun = false
        var hasEnded = false
    }

    private var entries: [Entry]
    private var hasSucceeded: Bool?
    private var rate = RateMeter()
    private var metered: Int64 = 0
    /// The first bytes only fill the system's buffers and say nothing about the network.
    private static let warmUp = Duration.milliseconds(200)
    /// The file being sent. Parts are sent in order, so all files before it have been sent.
    private var current = 0

    init(_ files: [UploadItem]) {
        entries = files.map { Entry(item: $0) }
    }

    /// Records an event of a file, at a time since the upload's start. Ignored after the end.
    mutating func note(_ event: BodyEvent, of index: Int, at time: Duration) {
        guard hasSucceeded == nil, entries.indices.contains(index) else { return }
        switch event {
        case .read(let count):
            move(index, to: entries[index].position + Int64(count), at: time)
        case .end:
            entries[index].hasBegun = true
            entries[index].hasEnded = true
            current = max(current, index)
        case .rewound:
            entries[index].position = 0
        }
    }

    /// Records the number of bytes of the only file that were sent, in this run or an earlier one.
    ///
    /// - Parameter isEarlier: Whether they were sent in an earlier run, and so say nothing about the rate.
    mutating func reach(_ position: Int64, isEarlier: Bool, at time: Duration) {
        guard hasSucceeded == nil, !entries.isEmpty else { return }
        move(0, to: position, isEarlier: isEarlier, at: time)
    }

    private mutating func move(_ index: Int, to position: Int64, isEarlier: Bool = false, at time: Duration) {
        entries[index].hasBegun = true
        entries[index].position = position
        // A sealed file is slightly longer than the original.
        entries[index].completed = max(entries[index].completed, min(position, entries[index].item.total ?? .max))
        current = max(current, index)
        if isEarlier {
            metered = completed
        } else if time >= Self.warmUp, rate.isDue(at: time) {
            rate.note(completed - metered, at: time)
            metered = completed
        }
    }

    mutating func finish(isSuccess: Bool) {
        if hasSucceeded == nil { hasSucceeded = isSuccess }
    }

    private var completed: Int64 { entries.reduce(0) { $0 + $1.completed } }

    var progress: TransferProgress {
        let files = entries.indices.map(file)
        let isKnown = files.allSatisfy { $0.total != nil }
        var progress = TransferProgress(
            direction: .upload, completed: files.reduce(0) { $0 + $1.completed },
            total: isKnown ? files.reduce(0) { $0 + ($1.total ?? 0) } : nil, files: files)
        if hasSucceeded == nil { progress.set(rate) }
        return progress
    }

    private func file(_ index: Int) -> TransferProgress.File {
        let entry = entries[index]
        let isSent = entry.hasEnded || index < current || (entry.hasBegun && entry.completed == entry.item.total)
        // A fixture or a stand-in transport may respond without reading the body.
        let completed = hasSucceeded == true ? entry.item.total ?? entry.completed : entry.completed
        let state: TransferProgress.File.State =
            switch hasSucceeded {
            case true?: .done
            case false?: .failed
            case nil: isSent ? .done : entry.hasBegun ? .uploading : .waiting
            }
        return TransferProgress.File(
            name: entry.item.name, fileName: entry.item.fileName, state: state, completed: completed,
            total: entry.item.total ?? (state == .done ? completed : nil))
    }
}

/// What is known of a file before it is sent.
struct UploadItem: Sendable {
    var name: String
    var fileName: String?
    var total: Int64?
}
