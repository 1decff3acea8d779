/// How far an upload is: the whole and each of its files.
///
/// ```swift
/// for await progress in upload.progress {
///     print(progress)                                    // "61 %, 2440000 of 4000000 bytes"
///     for file in progress.files { print(file.fileName ?? file.name, file.state, file.fraction ?? 0) }
/// }
/// ```
///
/// What is counted is content of the files, in bytes handed to the connection; fields and framing are not. The numbers
/// never go down, also when a file has to be sent again after a redirect or on a fresh connection.
public struct UploadProgress: Hashable, Sendable {
    /// Where an upload, or a file of it, stands.
    public enum State: String, Hashable, Sendable, CaseIterable {
        /// Nothing of it was sent yet.
        case waiting
        /// It is being sent. The whole stays so until the server has answered.
        case uploading
        /// Of a file: all of it was sent. Of the whole: the server has answered with success.
        case done
        /// The upload failed or was cancelled. The files of one request have one answer, so that all of them failed.
        case failed
    }

    /// How far one file is.
    public struct File: Hashable, Sendable {
        /// The name of the form field; empty for a file that is the whole body.
        public let name: String
        /// The file name told to the server, or that of the path; `nil` for data without a name.
        public let fileName: String?
        /// Where it stands.
        public let state: State
        /// The bytes sent.
        public let completed: Int64
        /// All bytes; `nil` for a stream of unknown length, until it is over.
        public let total: Int64?

        /// Makes a value, for stand-ins and tests.
        public init(name: String, fileName: String?, state: State, completed: Int64, total: Int64?) {
            self.name = name
            self.fileName = fileName
            self.state = state
            self.completed = completed
            self.total = total
        }

        /// The share that was sent, from 0 to 1; `nil` while the total is unknown.
        public var fraction: Double? { UploadProgress.fraction(completed, total, isDone: state == .done) }
    }

    /// Where the whole stands.
    public let state: State
    /// The bytes sent, of all files together.
    public let completed: Int64
    /// All bytes of all files; `nil` while that of one is unknown.
    public let total: Int64?
    /// The files in the order in which they are sent. Plain form fields are not among them.
    public let files: [File]
    /// The speed, smoothed over about three seconds; `nil` in the first moments, when what the system takes into its
    /// buffers says nothing of the network, and when the upload is over.
    public let bytesPerSecond: Double?

    /// Makes a value, for stand-ins and tests.
    public init(state: State, completed: Int64, total: Int64?, files: [File], bytesPerSecond: Double? = nil) {
        self.state = state
        self.completed = completed
        self.total = total
        self.files = files
        self.bytesPerSecond = bytesPerSecond
    }

    /// The share that was sent, from 0 to 1; `nil` while the total is unknown.
    public var fraction: Double? { Self.fraction(completed, total, isDone: state == .done) }

    /// How long the rest takes at the present speed; `nil` while speed or total are unknown, and when the upload is
    /// over.
    public var estimatedTimeRemaining: Duration? {
        guard let total, let bytesPerSecond, bytesPerSecond > 0 else { return nil }
        let seconds = Double(max(0, total - completed)) / bytesPerSecond
        // A standstill is no estimate: more than a year cannot be meant.
        return seconds < 31_536_000 ? .seconds(seconds) : nil
    }

    /// Whether nothing comes after this.
    public var isFinal: Bool { state == .done || state == .failed }

    static func fraction(_ completed: Int64, _ total: Int64?, isDone: Bool) -> Double? {
        guard let total else { return nil }
        return total == 0 ? (isDone ? 1 : 0) : min(1, Double(completed) / Double(total))
    }
}

extension UploadProgress: CustomStringConvertible {
    /// Percentage and bytes, as in `61 %, 2440000 of 4000000 bytes`, or what else is known.
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
