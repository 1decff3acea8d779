public import HTTPCore

/// A download in the hands of a ``DownloadManager``, as it is at one moment.
public struct DownloadItem: Sendable, Identifiable {
    /// Names the download in its manager, also after the process was started again.
    public struct ID: Hashable, Sendable, CustomStringConvertible {
        /// Counts up in the order of adding.
        let number: UInt64

        /// The number.
        public var description: String { "\(number)" }
    }

    /// What a download in a queue does.
    public enum State: Hashable, Sendable {
        /// It waits for its turn.
        case waiting
        /// It goes on.
        case running
        /// It stands still until ``DownloadManager/resume(_:)``.
        case paused
        /// It ended with an error, which this tells in a sentence. ``DownloadManager/resume(_:)`` tries again.
        case failed(String)
        /// The file is there. Finished downloads are not remembered over a restart of the process.
        case finished
    }

    /// Names it.
    public let id: ID
    /// The URL it was added with.
    public let url: String
    /// The file or folder it goes to.
    public let path: String
    /// Its connections.
    public let segments: Int
    /// Its place in the queue: higher ones start first, of equal ones those that were added first.
    public internal(set) var priority: RequestPriority
    /// What it does.
    public internal(set) var state: State
    /// How far it is.
    public internal(set) var progress: DownloadProgress
}

/// What happens in a ``DownloadManager``.
public enum DownloadEvent: Sendable {
    /// A download was added, or found again after a restart of the process.
    case added(DownloadItem)
    /// A download does something else than before. Its progress is told by ``DownloadManager/progress(of:)``.
    case changed(DownloadItem)
    /// A file is there.
    case finished(DownloadItem, DownloadedFile)
    /// A download ended with an error; its item stays, and can be resumed.
    case failed(DownloadItem, NetworkError)
    /// A download was taken out.
    case removed(DownloadItem)
    /// Something of the manager's own could not be written or read: its folder no longer tells what a restart needs to
    /// know. Downloads go on.
    case trouble(NetworkError)
}
