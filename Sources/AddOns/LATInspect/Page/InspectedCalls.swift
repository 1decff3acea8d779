internal import CurlTransport
internal import Dispatch
internal import FoundationEssentials
internal import LATNetworking
internal import Synchronization

/// The calls that the page can show: the newest ones, bounded by number and by bytes.
///
/// A call is kept as its events. It becomes a record, which is redacted, when a page asks for it, so that calls cost little
/// while no page is open.
final class InspectedCalls: Sendable {
    /// One call. Everything that changes is protected by the lock of ``InspectedCalls``.
    private final class Kept: @unchecked Sendable {
        let number: UInt64
        var collector: CallCollector?
        var record: CallRecord?
        var version = 0
        var weight = 0
        /// The call without the body of its request, to send it again; `nil` for one of another process.
        let sender: Sender?

        init(_ number: UInt64, _ collector: CallCollector?, _ sender: Sender? = nil) {
            self.number = number
            self.sender = sender
            self.collector = collector
        }
    }

    /// The manager of a call, and the settings of its request.
    struct Sender: Sendable {
        private(set) weak var manager: CentralRequestManager?
        let settings: RequestOptions
    }

    /// A page that follows the calls. It gets the calls that changed since it asked last, each once.
    final class Reader: Sendable {
        fileprivate let number: Int
        private let signals: AsyncStream<Void>
        private let signal: AsyncStream<Void>.Continuation

        fileprivate init(_ number: Int) {
            self.number = number
            (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        }

        /// Makes ``change()`` return.
        func wake() { signal.yield() }

        /// Waits for a change. Only one task may wait at a time.
        func change() async { for await _ in signals { return } }
    }

    private struct Changes {
        let reader: Reader
        var ids: [UInt64] = []
        var known: Set<UInt64> = []
        /// How many calls were removed before the reader has got their newest state.
        var missed = 0
    }

    private struct State {
        var calls: [UInt64: Kept] = [:]
        /// The calls in the order of their start. Those before `first` are gone.
        var order: [UInt64] = []
        var first = 0
        var bytes = 0
        var count: UInt64 = 0
        var changes: [Int: Changes] = [:]
        /// The calls that their programs could not pass on.
        var missed = 0
        var nextReader = 0
        /// The names of the processes of a session by the upper bits of the identifiers of their calls.
        var programs: [UInt64: String] = [:]

        var ids: [UInt64] { order[first...].filter { calls[$0] != nil } }
    }

    let countLimit: Int
    let byteLimit: Int
    private let capture: BodyCapture
    private let state = Mutex(State())
    private let conversions = DispatchQueue(label: "lat-inspect")
    private let answers = DispatchQueue(label: "lat-inspect-page", attributes: .concurrent)
    /// The identifiers of calls have fewer bits than this. The bits above hold the number of the process. JavaScript has 53.
    static let processShift: UInt64 = 40
    /// The estimated bytes of a call without its bodies.
    private static let plainWeight = 6 << 10
    /// A finished call whose bodies are larger becomes a record at once, which keeps only their beginning.
    private static let heavyWeight = 64 << 10

    init(countLimit: Int, byteLimit: Int, capture: BodyCapture) {
        self.countLimit = max(1, countLimit)
        self.byteLimit = max(1 << 20, byteLimit)
        self.capture = capture
    }

    // MARK: Events

    func begin(_ call: ObservedCall) {
        state.withLock { state in
            state.count += 1
            let sender = Sender(manager: call.manager, settings: call.request.options)
            let kept = Kept(state.count, CallCollector(call, capture), sender)
            kept.weight = Self.plainWeight
            state.calls[call.id] = kept
            state.order.append(call.id)
            state.bytes += kept.weight
            Self.note(call.id, &state)
            trim(&state)
        }
    }

    func note(_ event: CallEvent) {
        let id = event.call.id
        if case .answered(_, let response) = event.kind {
            let start = event.call.startTime
            SocketTap.attach(to: response) { [weak self] kind, bytes, isSent in
                self?.update(id) { $0?.note(kind, bytes, isSent: isSent, at: .since(start)) }
            }
        }
        let isHeavy = state.withLock { state in
            guard let kept = state.calls[id], kept.collector != nil else { return false }
            kept.collector?.note(event)
            kept.version += 1
            Self.note(id, &state)
            guard case .finished = event.kind else { return false }
            let bodies = kept.collector?.bodyByteCount ?? 0
            kept.weight += bodies
            state.bytes += bodies
            if bodies <= Self.heavyWeight { trim(&state) }
            return bodies > Self.heavyWeight
        }
        if isHeavy { conversions.async { [weak self] in _ = self?.record(id) } }
    }

    func note(read chunk: Data, of call: ObservedCall) {
        let time = Duration.since(call.startTime)
        update(call.id) { $0?.note(read: chunk, at: time) }
    }

    func note(sent head: SentHead, for id: UInt64) { update(id) { $0?.note(sent: head) } }

    private func update(_ id: UInt64, _ change: (inout CallCollector?) -> Void) {
        state.withLock { state in
            guard let kept = state.calls[id], let before = kept.collector?.keptByteCount else { return }
            change(&kept.collector)
            let added = (kept.collector?.keptByteCount ?? before) - before
            kept.weight += added
            state.bytes += added
            kept.version += 1
            Self.note(id, &state)
            trim(&state)
        }
    }

    /// Takes the newest record of a call of another process, whose identifier is unique among all processes.
    func put(_ record: CallRecord) {
        state.withLock { state in
            let kept: Kept
            if let known = state.calls[record.id] {
                kept = known
            } else {
                state.count += 1
                kept = Kept(state.count, nil)
                state.calls[record.id] = kept
                state.order.append(record.id)
            }
            state.bytes -= kept.weight
            kept.record = record
            kept.version += 1
            kept.weight = Self.plainWeight + record.bodyWeight
            state.bytes += kept.weight
            Self.note(record.id, &state)
            trim(&state)
        }
    }

    private static func note(_ id: UInt64, _ state: inout State) {
        guard !state.changes.isEmpty else { return }
        for number in state.changes.keys where state.changes[number]?.known.insert(id).inserted == true {
            state.changes[number]?.ids.append(id)
            let waiting = state.changes[number]?.ids.count ?? 0
            if waiting == 1 { state.changes[number]?.reader.wake() }
            // The page is not reading, so calls that are gone are removed from its list.
            if waiting > 4096, waiting > 2 * state.calls.count {
                let calls = state.calls
                state.changes[number]?.ids.removeAll { calls[$0] == nil }
            }
        }
    }

    private func trim(_ state: inout State) {
        while state.calls.count > 1, state.calls.count > countLimit || state.bytes > byteLimit {
            let id = state.order[state.first]
            state.first += 1
            state.bytes -= state.calls.removeValue(forKey: id)?.weight ?? 0
            for number in state.changes.keys where state.changes[number]?.known.remove(id) != nil {
                state.changes[number]?.missed += 1
            }
        }
        if state.first > 1024, state.first > state.order.count / 2 {
            state.order.removeFirst(state.first)
            state.first = 0
        }
    }

    // MARK: Reading

    /// The record of a call as it is now, and its number; `nil` when it is gone.
    func record(_ id: UInt64) -> (record: CallRecord, number: UInt64)? {
        let kept = state.withLock { state in
            state.calls[id].map { ($0.collector, $0.record, $0.version, $0.number) }
        }
        guard let (collector, record, version, number) = kept else { return nil }
        if let record { return (record, number) }
        guard let fresh = collector?.record() else { return nil }
        state.withLock { state in
            // The record of a finished call replaces its events.
            guard let kept = state.calls[id], kept.version == version, fresh.outcome != nil else { return }
            kept.collector = nil
            kept.record = fresh
            state.bytes -= kept.weight
            kept.weight = Self.plainWeight + fresh.bodyWeight
            state.bytes += kept.weight
            trim(&state)
        }
        return (fresh, number)
    }

    /// What sends a call of this process again; `nil` for one of another process.
    func sender(of id: UInt64) -> Sender? { state.withLock { $0.calls[id]?.sender } }

    /// The process that a call belongs to; `nil` where only one is shown.
    func program(of id: UInt64) -> String? { state.withLock { $0.programs[id >> Self.processShift] } }

    func setProgram(_ name: String, _ number: UInt64) { state.withLock { $0.programs[number] = name } }

    /// All calls, the oldest first.
    var ids: [UInt64] { state.withLock(\.ids) }

    /// Adds a page. All calls count as changed for it.
    func addReader() -> Reader {
        state.withLock { state in
            state.nextReader += 1
            let reader = Reader(state.nextReader)
            let ids = state.ids
            state.changes[reader.number] = Changes(reader: reader, ids: ids, known: Set(ids))
            if !ids.isEmpty { reader.wake() }
            return reader
        }
    }

    func remove(_ reader: Reader) { state.withLock { _ = $0.changes.removeValue(forKey: reader.number) } }

    /// The calls that changed since the reader asked last, the oldest change first.
    func changes(for reader: Reader, limit: Int) -> [UInt64] {
        state.withLock { state in
            guard let changes = state.changes[reader.number] else { return [] }
            let ids = changes.ids.prefix(limit)
            state.changes[reader.number]?.ids.removeFirst(ids.count)
            for id in ids { state.changes[reader.number]?.known.remove(id) }
            // The next call of this method returns the rest.
            if changes.ids.count > ids.count { reader.wake() }
            return ids.filter { state.calls[$0] != nil }
        }
    }

    /// How many calls were removed before the reader has got their newest state, since it asked last.
    func missed(by reader: Reader) -> Int {
        state.withLock { state in
            defer { state.changes[reader.number]?.missed = 0 }
            return state.changes[reader.number]?.missed ?? 0
        }
    }

    func noteMissed(_ count: Int) { state.withLock { $0.missed += count } }

    /// How many calls there were that are not kept.
    var lostCount: Int { state.withLock { $0.missed + Int(clamping: $0.count) - $0.calls.count } }

    func wakeReaders() {
        state.withLock { state in
            for changes in state.changes.values { changes.reader.wake() }
        }
    }

    /// Makes many records for a page on another thread than those of tasks, which belong to the program.
    func apart<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in answers.async { continuation.resume(returning: work()) } }
    }

    /// The calls whose bodies or messages contain a text, in any case.
    func ids(containing text: String) -> [UInt64] {
        let pattern = BodySearch(text)
        return ids.filter { id in record(id).map { pattern.matches($0.record) } ?? false }
    }

    /// The number of bytes that are kept, estimated.
    var byteCount: Int { state.withLock(\.bytes) }
}

extension CallRecord {
    fileprivate var bodyWeight: Int {
        let answers = exchanges.map { $0.response?.body ?? $0.failure?.response?.body }
        let bodies = exchanges.map(\.request.body) + answers + [request.body, response?.body]
        return bodies.reduce(0) { sum, body in
            switch body?.content {
            case .text(let text): sum + text.utf8.count
            case .bytes(let bytes): sum + bytes.count
            case .parts(let parts): sum + parts.reduce(0) { $0 + ($1.text?.utf8.count ?? 0) }
            case .omitted, nil: sum
            }
        } + messages.reduce(0) { $0 + $1.text.utf8.count }
    }
}

/// Looks for a text in the bodies of records. A pure value.
struct BodySearch {
    private let pattern: [UInt8]

    init(_ text: String) { pattern = Self.lowered(text) }

    func matches(_ record: CallRecord) -> Bool {
        guard !pattern.isEmpty else { return true }
        let bodies = record.exchanges.flatMap { [$0.request.body, $0.response?.body ?? $0.failure?.response?.body] }
        return ([record.request.body, record.response?.body] + bodies).contains { $0.map(matches) ?? false }
            || record.messages.contains { $0.kind != .binary && contains(Self.lowered($0.text)) }
    }

    private func matches(_ body: CallRecord.Body) -> Bool {
        switch body.content {
        case .text(let text): contains(Self.lowered(text))
        case .bytes(let bytes): contains(Self.lowered(bytes))
        case .parts(let parts): parts.contains { $0.text.map { contains(Self.lowered($0)) } ?? false }
        case .omitted: false
        }
    }

    private func contains(_ text: [UInt8]) -> Bool {
        text.withUnsafeBytes { text in
            var rest = text[...]
            while rest.count >= pattern.count, let start = rest.firstIndex(of: pattern[0]) {
                rest = rest[start...]
                if rest.starts(with: pattern) { return true }
                rest = rest.dropFirst()
            }
            return false
        }
    }

    private static func lowered(_ text: String) -> [UInt8] { Array(text.lowercased().utf8) }

    /// In bytes that are not text, only ASCII letters have two cases.
    private static func lowered(_ bytes: Data) -> [UInt8] {
        bytes.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
    }
}
