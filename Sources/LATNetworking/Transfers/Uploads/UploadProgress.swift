/// The progress of an upload, in total and for each file.
///
/// ```swift
/// for await progress in upload.progress {
///     print(progress)                                    // "61 %, 2440000 of 4000000 bytes"
///     for file in progress.files { print(file.fileName ?? file.name, file.state, file.fraction ?? 0) }
/// }
/// ```
///
/// It counts the content of the files, in bytes passed to the connection, without form fields and framing. The numbers
/// never decrease, even if a file has to be sent again after a redirect or on another connection.
public struct UploadProgress: Hashable, Sendable {
    /// The state of an upload or of one of its files.
    public enum State: String, Hashable, Sendable, CaseIterable {
        /// Nothing has been sent yet.
        case waiting
        /// It is being sent. The whole upload stays in this state until the server has responded.
        case uploading
        /// For a file: all of it has been sent. For the upload: the server has responded with success.
        case done
        /// The upload failed or was cancelled. All files of a request have the same response, so all of them failed.
        case failed
    }

    /// The progress of one file.
    public struct File: Hashable, Sendable {
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

        /// Creates a value, for stand-ins and tests.
        public init(name: String, fileName: String?, state: State, completed: Int64, total: Int64?) {
            self.name = name
            self.fileName = fileName
            self.state = state
            self.completed = completed
            self.total = total
        }

        /// The completed share, from 0 to 1; `nil` while the total is unknown.
        public var fraction: Double? { UploadProgress.fraction(completed, total, isDone: state == .done) }
    }

    /// The state of the upload.
    public let state: State
    /// The number of bytes sent of all files.
    public let completed: Int64
    /// The size of all files in bytes; `nil` while the size of any is unknown.
    public let total: Int64?
    /// The files in the order in which they are sent, without plain form fields.
    public let files: [File]
    /// The bytes sent per second, smoothed over about three seconds; `nil` at the beginning, when bytes only fill the
    /// system's buffers, and after the end.
    public let bytesPerSecond: Double?

    /// Creates a value, for stand-ins and tests.
    public init(state: State, completed: Int64, total: Int64?, files: [File], bytesPerSecond: Double? = nil) {
        self.state = state
        self.completed = completed
        self.total = total
        self.files = files
        self.bytesPerSecond = bytesPerSecond
    }

    /// The completed share, from 0 to 1; `nil` while the total is unknown.
    public var fraction: Double? { Self.fraction(completed, total, isDone: state == .done) }

    /// The estimated time to the end at the present rate; `nil` while either number is unknown, and after the end.
    public var estimatedTimeRemaining: Duration? {
        guard let total, let bytesPerSecond, bytesPerSecond > 0 else { return nil }
        let seconds = Double(max(0, total - completed)) / bytesPerSecond
        // More than a year means a standstill, which gives no estimate.
        return seconds < 31_536_000 ? .seconds(seconds) : nil
    }

    /// Whether this is the final progress.
    public var isFinal: Bool { state == .done || state == .failed }

    static func fraction(_ completed: Int64, _ total: Int64?, isDone: Bool) -> Double? {
        guard let total else { return nil }
        return total == 0 ? (isDone ? 1 : 0) : min(1, Double(completed) / Double(total))
    }
}

extension UploadProgress: CustomStringConvertible {
    /// Percentage and bytes, as in `61 %, 2440000 of 4000000 bytes`. Without a total only the bytes, or the state.
    public var description: String {
        switch state {
        case .waiting: return "waiting"
        case .failed: return "failed after \(completed) bytes"
        case .uploading, .done:
            guard let total, let fraction else { return "\(completed) bytes" }
            return "\(Int(fraction * 100)) %, \(completed) of \(total) bytes"
        }
    }
}
