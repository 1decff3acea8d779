/// The progress of a request, an upload or a download, in bytes of content.
///
/// ```swift
/// for await progress in upload.progress {
///     print(progress)                                    // "61 %, 2440000 of 4000000 bytes"
///     for file in progress.files { print(file.fileName ?? file.name, file.state, file.fraction ?? 0) }
/// }
/// ```
///
/// A request that sends a body reports the upload, any other request the download. An upload of files counts their
/// content, without form fields and framing. A download to a file counts the bytes in the file, including those of
/// earlier runs. The numbers never decrease, even if something has to be sent again, and the last value of a successful
/// transfer has `completed == total`.
public struct TransferProgress: Hashable, Sendable {
    /// The direction of a transfer.
    public enum Direction: Hashable, Sendable {
        /// To the server.
        case upload
        /// From the server.
        case download
    }

    /// The direction of the counted bytes.
    public let direction: Direction
    /// The bytes transferred so far.
    public package(set) var completed: Int64
    /// The total number of bytes; `nil` while unknown.
    public package(set) var total: Int64?
    /// The bytes per second, smoothed over about three seconds; `nil` at the beginning, while a download is paused, and
    /// after the end.
    public package(set) var bytesPerSecond: Double?
    /// The estimated time to the end at that rate; `nil` when the rate or the total is unknown.
    public package(set) var estimatedTimeRemaining: Duration?
    /// The files of an upload in the order in which they are sent, without plain form fields. Empty for anything else.
    public let files: [File]

    /// The completed share, from 0 to 1; `nil` while the total is unknown.
    public var fraction: Double? {
        total == 0 && !files.allSatisfy { $0.state == .done } ? 0 : Self.fraction(completed, total)
    }

    /// Makes a progress value, by default at 0 bytes of an unknown total.
    public init(
        direction: Direction, completed: Int64 = 0, total: Int64? = nil, bytesPerSecond: Double? = nil,
        estimatedTimeRemaining: Duration? = nil, files: [File] = []
    ) {
        self.direction = direction
        self.completed = completed
        self.total = total
        self.bytesPerSecond = bytesPerSecond
        self.estimatedTimeRemaining = estimatedTimeRemaining
        self.files = files
    }

    private static func fraction(_ completed: Int64, _ total: Int64?) -> Double? {
        guard let total else { return nil }
        return total == 0 ? 1 : min(1, Double(completed) / Double(total))
    }

    /// The progress of one file of an upload.
    public struct File: Hashable, Sendable {
        /// The state of a file.
        public enum State: String, Hashable, Sendable, CaseIterable {
            /// Nothing of it has been sent yet.
            case waiting
            /// It is being sent.
            case uploading
            /// All of it has been sent.
            case done
            /// The upload failed or was cancelled. All files of a request have the same response, so all of them failed.
            case failed
        }

        /// The name of the form field; empty for a file that is the whole body.
        public let name: String
        /// The file name sent to the server, or that of the path; `nil` for data without a name.
        public let fileName: String?
        /// The state of the file.
        public let state: State
        /// The number of bytes sent.
        public let completed: Int64
        /// The size in bytes; `nil` for a stream of unknown length, until it has ended.
        public let total: Int64?

        /// Makes a value.
        public init(name: String, fileName: String?, state: State, completed: Int64, total: Int64?) {
            self.name = name
            self.fileName = fileName
            self.state = state
            self.completed = completed
            self.total = total
        }

        /// The completed share, from 0 to 1; `nil` while the total is unknown.
        public var fraction: Double? {
            total == 0 && state != .done ? 0 : TransferProgress.fraction(completed, total)
        }
    }
}

extension TransferProgress: CustomStringConvertible {
    /// Percentage and bytes, as in `61 %, 2440000 of 4000000 bytes`; without a total only the bytes.
    public var description: String {
        guard let total, let fraction else { return "\(completed) bytes" }
        return "\(Int(fraction * 100)) %, \(completed) of \(total) bytes"
    }
}
