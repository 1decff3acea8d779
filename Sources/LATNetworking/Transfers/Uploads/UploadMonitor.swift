import CurlTransport
import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import Synchronization

/// Records the progress of an upload while the engine's thread reads its body, and wakes the readers of the progress.
final class UploadMonitor: Sendable {
    private struct State {
        var ledger: UploadLedger
        /// The number of changes.
        var version = 0
        var isOver = false
        var waiters: [Waiter<Void>] = []

        mutating func takeWaiters() -> [Waiter<Void>] {
            guard !waiters.isEmpty else { return [] }
            defer { waiters = [] }
            return waiters
        }
    }

    private let state: Mutex<State>
    private let start = ContinuousClock.now

    init(_ items: [UploadItem]) { state = Mutex(State(ledger: UploadLedger(items))) }

    /// Monitors the files of a multipart body, without its plain fields.
    convenience init(_ parts: [UploadFile]) { self.init(parts.filter { $0.fileName != nil }.map { UploadItem($0) }) }

    /// Receives the call's reports of the bytes that it reads.
    var handler: BodyHandler { { [self] event, file in note(event, of: file ?? 0) } }

    /// The progress, and the number of changes up to it.
    var snapshot: (progress: UploadProgress, version: Int) { state.withLock { ($0.ledger.progress, $0.version) } }

    /// Ends the upload. Later events are ignored.
    func finish(isSuccess: Bool) {
        let waiters = state.withLock { state in
            state.ledger.finish(isSuccess: isSuccess)
            state.version += 1
            state.isOver = true
            return state.takeWaiters()
        }
        for waiter in waiters { waiter.end(.success(())) }
    }

    private func note(_ event: BodyEvent, of index: Int) {
        let time = ContinuousClock.now - start
        let waiters = state.withLock { state -> [Waiter<Void>] in
            guard !state.isOver else { return [] }
            state.ledger.note(event, of: index, at: time)
            state.version += 1
            return state.takeWaiters()
        }
        for waiter in waiters { waiter.end(.success(())) }
    }

    /// Returns when there is a change after a version, or the current task is cancelled.
    func change(after version: Int) async {
        let waiter = Waiter<Void>()
        let waits = state.withLock { state in
            guard state.version == version else { return false }
            state.waiters.append(waiter)
            return true
        }
        if waits { try? await waiter.value() }
    }
}

/// The progress of an upload from now on, ending with the final value.
///
/// The first element is the current value. Later ones follow at most twenty times a second. A slow reader misses
/// intermediate values, but never the last. Any number of tasks may iterate the sequence.
public struct UploadUpdates: AsyncSequence, Sendable {
    /// The progress of the upload.
    public typealias Element = UploadProgress

    let monitor: UploadMonitor

    /// Creates an iterator that begins with the current value.
    public func makeAsyncIterator() -> Iterator { Iterator(monitor: monitor) }

    /// Returns one value after the other.
    public struct Iterator: AsyncIteratorProtocol {
        let monitor: UploadMonitor
        private var last: (progress: UploadProgress, version: Int, time: ContinuousClock.Instant)?

        init(monitor: UploadMonitor) { self.monitor = monitor }

        /// Twenty values a second are enough to look continuous.
        private static let interval = Duration.milliseconds(50)

        /// The next value; `nil` after the final one, and if the current task is cancelled.
        public mutating func next() async -> UploadProgress? {
            if let last, last.progress.isFinal { return nil }
            while !Task.isCancelled {
                if let last {
                    try? await Task.sleep(until: last.time + Self.interval, clock: .continuous)
                    await monitor.change(after: last.version)
                    if Task.isCancelled { break }
                }
                let (progress, version) = monitor.snapshot
                let isChange = last?.progress != progress
                last = (progress, version, .now)
                if isChange { return progress }
            }
            return nil
        }
    }
}

extension UploadItem {
    init(_ file: UploadFile) {
        let total: Int64? =
            switch file.source {
            case .data(let data): Int64(data.count)
            case .path(let path): Self.size(ofFileAt: path)
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
            total = Self.size(ofFileAt: path)
        case .parameters, .encoded, .multipart: break
        }
    }

    /// The size of a regular file; `nil` for anything else, which fails with the reason when it is sent.
    private static func size(ofFileAt path: String) -> Int64? {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        return Int64(status.st_size)
    }
}
