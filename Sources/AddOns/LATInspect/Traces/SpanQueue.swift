internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking
internal import Platform
internal import Synchronization

/// The spans that wait for the collector, and the one task that sends them.
final class SpanQueue: Sendable {
    private struct State {
        var spans: [TraceSpan] = []
        var isSending = false
        var isScheduled = false
        var counts = TraceExporter.Counts()
        /// How many spans were ever added, and how many of them were sent or lost.
        var added = 0
        var finished = 0
        /// Each waits until the spans up to its number are finished.
        var waiters: [(last: Int, continuation: CheckedContinuation<Void, Never>)] = []

        mutating func takeDueWaiters() -> [CheckedContinuation<Void, Never>] {
            let due = waiters.filter { $0.last <= finished }.map(\.continuation)
            waiters.removeAll { $0.last <= finished }
            return due
        }
    }

    private let url: String
    private let headers: HTTPHeaders
    private let resource: [(String, JSONValue)]
    private let limits: TraceExporter.Limits
    private let manager: CentralRequestManager
    private let state = Mutex(State())

    init(url: String, service: String, headers: HTTPHeaders, _ limits: TraceExporter.Limits) throws {
        self.url = url
        self.headers = headers
        self.limits = limits
        resource = [
            ("service.name", .string(service)), ("telemetry.sdk.name", .string("LATNetworking")),
            ("telemetry.sdk.language", .string("swift")), ("telemetry.sdk.version", .string(CurlTransport.version)),
        ]
        // A manager without accessories: what it sends is neither recorded nor traced.
        var configuration = CentralRequestManager.Configuration()
        configuration.timeout = limits.timeout
        configuration.deadline = limits.timeout
        configuration.maxBodySize = 4 << 20
        configuration.retryPolicy = Self.retryPolicy(limits)
        manager = try CentralRequestManager(configuration: configuration)
    }

    /// Repeats what OTLP allows to be sent again, and requests whose connection failed. A collector that gives no usable
    /// `Retry-After` is left alone for longer than a server of the app: up to a second at first, as in other exporters.
    static func retryPolicy(_ limits: TraceExporter.Limits) -> RetryPolicy {
        RetryPolicy(
            retries: 5, statuses: [429, 502, 503, 504], firstWait: .seconds(1), longestRetryAfter: limits.timeout,
            repeatsOnlyIdempotent: false)
    }

    var counts: TraceExporter.Counts {
        state.withLock { state in
            var counts = state.counts
            counts.queued = state.spans.count
            return counts
        }
    }

    func add(_ spans: [TraceSpan]) {
        let (sends, schedules) = state.withLock { state in
            let room = max(0, limits.queue - state.spans.count)
            state.spans += spans.prefix(room)
            state.added += min(room, spans.count)
            state.counts.dropped += max(0, spans.count - room)
            let sends = !state.isSending && state.spans.count >= limits.batch
            let schedules = !state.isSending && !sends && !state.isScheduled && !state.spans.isEmpty
            if sends { state.isSending = true }
            if schedules { state.isScheduled = true }
            return (sends, schedules)
        }
        if sends { Task.detached { await self.sendAll() } }
        if schedules { schedule() }
    }

    private func schedule() {
        // Detached, so that the export does not join the trace of the caller's task.
        Task.detached { [weak self, limits] in
            try? await CallClock.continuous.sleep(limits.delay)
            await self?.wakeUp()
        }
    }

    /// Returns when the spans that are queued now were sent or lost.
    func flush() async {
        await withCheckedContinuation { continuation in
            let starts = state.withLock { state in
                state.waiters.append((state.added, continuation))
                guard !state.isSending else { return false }
                state.isSending = true
                return true
            }
            if starts { Task.detached { await self.sendAll() } }
        }
    }

    private func wakeUp() async {
        let (starts, last) = state.withLock { state in
            state.isScheduled = false
            guard !state.isSending else { return (false, 0) }
            state.isSending = true
            return (true, state.added)
        }
        if starts { await sendAll(upTo: last) }
    }

    /// Sends batches while there is a full one, and until the spans up to `last` and those that callers wait for are sent.
    private func sendAll(upTo last: Int = 0) async {
        while true {
            let (batch, waiters, isLeft) = state.withLock { state in
                let due = state.takeDueWaiters()
                let wanted = max(last, state.waiters.map(\.last).max() ?? 0)
                guard state.spans.count >= limits.batch || state.finished < wanted, !state.spans.isEmpty else {
                    state.isSending = false
                    let isLeft = !state.spans.isEmpty && !state.isScheduled
                    if isLeft { state.isScheduled = true }
                    return ([TraceSpan](), due, isLeft)
                }
                let batch = Array(state.spans.prefix(limits.batch))
                state.spans.removeFirst(batch.count)
                return (batch, due, false)
            }
            for waiter in waiters { waiter.resume() }
            if isLeft { schedule() }
            guard !batch.isEmpty else { return }
            let sent = await send(batch)
            state.withLock { state in
                state.counts.sent += sent
                state.counts.failed += batch.count - sent
                state.finished += batch.count
            }
        }
    }

    /// - Returns: how many of the spans the collector accepted.
    private func send(_ batch: [TraceSpan]) async -> Int {
        guard let body = try? TraceSpan.export(batch, resource: resource).data() else { return 0 }
        var request = HTTPRequest("POST", url, headers: headers)
        request.body = .data(body, contentType: "application/json")
        guard let response = try? await manager.send(request), response.isSuccess else { return 0 }
        // A partial success is not sent again.
        guard let rejected = try? response.json()["partialSuccess"]["rejectedSpans"] else { return batch.count }
        let count = rejected.int ?? rejected.string.flatMap { Int($0) } ?? 0
        return batch.count - min(max(0, count), batch.count)
    }
}
