package import CurlTransport
public import FoundationEssentials
public import LATNetworking
internal import Synchronization

/// Makes a ``CallRecord`` of every call and passes it to a closure when the call has ended. ``HARRecorder`` and
/// ``TraceExporter`` use it.
///
/// ```swift
/// configuration.accessories = [CallRecorder { record in print(record.url, record.response?.status ?? 0) }]
/// ```
///
/// The closure is called before the caller gets the result, so it delays the call and should be quick.
public final class CallRecorder: RequestAccessory {
    /// A change of a call.
    public enum Change: Sendable {
        /// The call is running: an attempt began or ended, or the call waits.
        case running(CallRecord)
        /// The call has ended.
        case ended(CallRecord)
    }

    /// One lock for each of a few groups of calls, so that calls that run at once seldom wait for each other.
    private final class Shard: Sendable {
        let calls = Mutex<[UInt64: CallCollector]>([:])
    }

    private let shards = (0..<16).map { _ in Shard() }
    private let capture: BodyCapture
    private let reportsChanges: Bool
    private let receive: @Sendable (Change) -> Void

    /// Makes a recorder that reports each call once, at its end.
    ///
    /// - Parameters:
    ///   - bodies: which bodies are kept. Default: the first 256 KiB of most types.
    ///   - receive: called with each record.
    public convenience init(
        bodies: BodyCapture = BodyCapture(), _ receive: @escaping @Sendable (_ record: CallRecord) -> Void
    ) {
        self.init(bodies: bodies, reportsChanges: false) { change in
            if case .ended(let record) = change { receive(record) }
        }
    }

    /// Makes a recorder that also reports running calls, after each event except the bytes of streams.
    ///
    /// - Parameters:
    ///   - bodies: which bodies are kept. Default: the first 256 KiB of most types.
    ///   - changes: called with each change.
    public convenience init(
        bodies: BodyCapture = BodyCapture(), changes: @escaping @Sendable (_ change: Change) -> Void
    ) {
        self.init(bodies: bodies, reportsChanges: true, changes)
    }

    private init(bodies: BodyCapture, reportsChanges: Bool, _ receive: @escaping @Sendable (Change) -> Void) {
        capture = bodies
        self.reportsChanges = reportsChanges
        self.receive = receive
    }

    /// The calls that run now, the oldest first.
    public var running: [CallRecord] {
        shards.flatMap { $0.calls.withLock { Array($0.values) } }.sorted { $0.call.id < $1.call.id }.map { $0.record() }
    }

    /// How many calls run now.
    var runningCount: Int { shards.reduce(0) { $0 + $1.calls.withLock(\.count) } }

    private func shard(_ id: UInt64) -> Shard { shards[Int(id % UInt64(shards.count))] }

    /// Begins the record of a call.
    public func willStart(_ call: ObservedCall) {
        shard(call.id).calls.withLock { $0[call.id] = CallCollector(call, capture) }
    }

    /// Notes an event. Passes the record to the closure if the event is the last one, or if running calls are reported too.
    public func handle(_ event: CallEvent) {
        let id = event.call.id
        var isOver = false
        if case .answered(_, let response) = event.kind {
            let (shard, start) = (shard(id), event.call.startTime)
            SocketTap.attach(to: response) { kind, bytes, isSent in
                shard.calls.withLock { $0[id]?.note(kind, bytes, isSent: isSent, at: .since(start)) }
            }
        }
        if case .finished = event.kind { isOver = true }
        let collector = shard(id).calls.withLock { calls -> CallCollector? in
            calls[id]?.note(event)
            return isOver ? calls.removeValue(forKey: id) : reportsChanges ? calls[id] : nil
        }
        // The record is made outside the lock.
        guard let collector else { return }
        receive(isOver ? .ended(collector.record()) : .running(collector.record()))
    }

    /// Keeps the beginning of a stream.
    public func didRead(_ chunk: Data, of call: ObservedCall) {
        let time = Duration.since(call.startTime)
        shard(call.id).calls.withLock { $0[call.id]?.note(read: chunk, at: time) }
    }
}

extension CallRecorder: SentHeadObserver {
    package func didSend(_ head: SentHead, for call: ObservedCall) {
        shard(call.id).calls.withLock { $0[call.id]?.note(sent: head) }
    }
}

extension Duration {
    /// The time since a date, at least 0.
    static func since(_ date: Date) -> Duration { .microseconds(Int64(max(0, -date.timeIntervalSinceNow) * 1_000_000)) }
}
