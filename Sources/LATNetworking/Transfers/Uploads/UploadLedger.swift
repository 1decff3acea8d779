import CurlTransport
import Platform

/// Keeps count of an upload: what was read of which file, and what that makes of the whole. A value, no I/O.
struct UploadLedger: Sendable {
    private struct Entry {
        let name: String
        let fileName: String?
        let total: Int64?
        /// Where the reader is in the present round; below ``completed`` when the file is sent again.
        var position: Int64 = 0
        var completed: Int64 = 0
        var hasBegun = false
        var hasEnded = false
    }

    private var entries: [Entry]
    private var hasSucceeded: Bool?
    private var rate = RateMeter()
    /// How many bytes the rate has taken in.
    private var metered: Int64 = 0
    /// What the system takes into its buffers first says nothing of the network.
    private static let warmUp = Duration.milliseconds(200)
    /// Parts are sent one after the other: what stands before this one has been sent.
    private var current = 0

    init(_ files: [UploadItem]) {
        entries = files.map { Entry(name: $0.name, fileName: $0.fileName, total: $0.total) }
    }

    /// Takes in what happened to a file, at a time from the upload's start. After the end nothing counts.
    mutating func note(_ event: BodyEvent, of index: Int, at time: Duration) {
        guard hasSucceeded == nil, entries.indices.contains(index) else { return }
        switch event {
        case .read(let count):
            entries[index].hasBegun = true
            entries[index].position += Int64(count)
            // A sealed file is a little longer than the file.
            let position = min(entries[index].position, entries[index].total ?? .max)
            entries[index].completed = max(entries[index].completed, position)
            current = max(current, index)
            if time >= Self.warmUp, rate.isDue(at: time) {
                rate.note(completed - metered, at: time)
                metered = completed
            }
        case .end:
            entries[index].hasBegun = true
            entries[index].hasEnded = true
            current = max(current, index)
        case .rewound:
            entries[index].position = 0
        }
    }

    /// The upload is over.
    mutating func finish(isSuccess: Bool) {
        if hasSucceeded == nil { hasSucceeded = isSuccess }
    }

    private var completed: Int64 { entries.reduce(0) { $0 + $1.completed } }

    var progress: UploadProgress {
        let files = entries.indices.map(file)
        let isKnown = files.allSatisfy { $0.total != nil }
        let state: UploadProgress.State =
            switch hasSucceeded {
            case true?: .done
            case false?: .failed
            case nil: entries.contains(where: \.hasBegun) ? .uploading : .waiting
            }
        return UploadProgress(
            state: state, completed: files.reduce(0) { $0 + $1.completed },
            total: isKnown ? files.reduce(0) { $0 + ($1.total ?? 0) } : nil, files: files,
            bytesPerSecond: hasSucceeded == nil ? rate.bytesPerSecond : nil)
    }

    private func file(_ index: Int) -> UploadProgress.File {
        let entry = entries[index]
        let isSent = entry.hasEnded || index < current || (entry.hasBegun && entry.completed == entry.total)
        // An answer from elsewhere (a fixture, a stand-in transport) came without a byte read.
        let completed = hasSucceeded == true ? entry.total ?? entry.completed : entry.completed
        let state: UploadProgress.State =
            switch hasSucceeded {
            case true?: .done
            case false?: .failed
            case nil: isSent ? .done : entry.hasBegun ? .uploading : .waiting
            }
        return UploadProgress.File(
            name: entry.name, fileName: entry.fileName, state: state, completed: completed,
            total: entry.total ?? (state == .done ? completed : nil))
    }
}

/// What is known of a file before it is sent.
struct UploadItem: Sendable {
    var name: String
    var fileName: String?
    var total: Int64?
}
