import FoundationEssentials
import HTTPCore
import Platform
import Synchronization

/// What the server's users and its thread both touch, behind one lock. Handlers
/// and continuations are never called under it.
final class SharedState: Sendable {
    struct Contents {
        // Set by the user.
        var queue: [MockReply] = []
        /// How many of `queue` are taken; so that taking one does not move the rest.
        var queueHead = 0
        var routes: [(pattern: RoutePattern, handler: MockServer.Handler)] = []
        var fallback: MockServer.Handler?
        var settings = Settings()

        // Set by the thread.
        var requests: [RecordedRequest] = []
        var abandonedRequests: [RecordedRequest] = []
        var requestCount = 0
        var acceptedConnections = 0
        var closedConnections = 0
        /// Requests that are being read or answered.
        var activeExchanges = 0
        var receivedBodyBytes: Int64 = 0

        // Between the two.
        var stopIsRequested = false
        var idleConnectionsAreToClose = false
        var hasEnded = false
        /// Wakes the thread; `nil` once that has ended.
        var wakeUp: WakeUp?
        var waiters: [Int: Waiter] = [:]
        var waiterCount = 0

        var openConnections: Int { acceptedConnections - closedConnections }
        var queuedReplies: Int { queue.count - queueHead }
    }

    /// What may be changed while the server runs.
    struct Settings: Sendable {
        var bodyLimit = 16 << 20
        var bodyReadRate: Int?
        var expectPolicy = MockServer.ExpectPolicy.continue
        var recordsRequests = true
    }

    struct Waiter {
        let isSatisfied: @Sendable (Contents) -> Bool
        let description: @Sendable (Contents) -> String
        let timeout: Duration
        let deadline: Nanoseconds
        let continuation: CheckedContinuation<Void, any Error>
    }

    private let contents: Mutex<Contents>

    init(_ wakeUp: WakeUp) { contents = Mutex(Contents(wakeUp: wakeUp)) }

    func read<Result: Sendable>(_ body: (Contents) -> Result) -> Result {
        contents.withLock { body($0) }
    }

    /// Changes the contents, then resumes those that waited for what has become true.
    @discardableResult
    func update<Result: Sendable>(_ change: (inout Contents) -> Result) -> Result {
        let (result, satisfied) = contents.withLock { contents in
            let result = change(&contents)
            guard !contents.waiters.isEmpty else { return (result, [Waiter]()) }
            let satisfied = contents.waiters.filter { $0.value.isSatisfied(contents) }
            for id in satisfied.keys { contents.waiters[id] = nil }
            return (result, Array(satisfied.values))
        }
        for waiter in satisfied { waiter.continuation.resume() }
        return result
    }

    /// Makes the thread look at the contents.
    func wake() { contents.withLock { $0.wakeUp?.signal() } }

    /// Waits until the contents are as wanted. The thread keeps the time, and an event ends the wait.
    func wait(
        timeout: Duration, for description: @escaping @Sendable (Contents) -> String,
        until isSatisfied: @escaping @Sendable (Contents) -> Bool
    ) async throws {
        let id = contents.withLock { contents in
            contents.waiterCount += 1
            return contents.waiterCount
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let waiter = Waiter(
                    isSatisfied: isSatisfied, description: description, timeout: timeout,
                    deadline: Nanoseconds.monotonicNow().adding(timeout), continuation: continuation)
                add(waiter, id: id)
                // The cancellation may have come before there was anything to cancel.
                if Task.isCancelled { cancelWaiter(id) }
            }
        } onCancel: {
            cancelWaiter(id)
        }
    }

    private func add(_ waiter: Waiter, id: Int) {
        let outcome: Result<Void, any Error>? = contents.withLock { contents in
            if waiter.isSatisfied(contents) { return .success(()) }
            if contents.hasEnded {
                return .failure(MockServerError.stopped(waitingFor: waiter.description(contents)))
            }
            contents.waiters[id] = waiter
            return nil
        }
        if let outcome {
            waiter.continuation.resume(with: outcome)
        } else {
            wake()
        }
    }

    private func cancelWaiter(_ id: Int) {
        let waiter = contents.withLock { $0.waiters.removeValue(forKey: id) }
        waiter?.continuation.resume(throwing: CancellationError())
    }

    /// Fails those whose time is over, and says when the next one's will be.
    func expireWaiters(at now: Nanoseconds) -> Nanoseconds? {
        let (expired, next) = contents.withLock { contents -> ([(Waiter, String)], Nanoseconds?) in
            guard !contents.waiters.isEmpty else { return ([], nil) }
            let expired = contents.waiters.filter { $0.value.deadline <= now }
            for id in expired.keys { contents.waiters[id] = nil }
            let next = contents.waiters.values.map(\.deadline).min()
            return (expired.values.map { ($0, $0.description(contents)) }, next)
        }
        for (waiter, what) in expired {
            waiter.continuation.resume(throwing: MockServerError.timedOut(after: waiter.timeout, waitingFor: what))
        }
        return next
    }

    /// The thread's last words: nobody waits any more, and the handlers are let go, with whatever they hold.
    func end() {
        let (left, handlers) = contents.withLock { contents in
            contents.hasEnded = true
            contents.wakeUp = nil
            let left = contents.waiters.values.map { ($0, $0.isSatisfied(contents), $0.description(contents)) }
            contents.waiters = [:]
            let handlers = contents.routes.map(\.handler) + [contents.fallback].compactMap { $0 }
            contents.routes = []
            contents.fallback = nil
            contents.queue = []
            contents.queueHead = 0
            return (left, handlers)
        }
        for (waiter, isSatisfied, what) in left {
            if isSatisfied {
                waiter.continuation.resume()
            } else {
                waiter.continuation.resume(throwing: MockServerError.stopped(waitingFor: what))
            }
        }
        // Released here and not under the lock: one of them may hold the server.
        withExtendedLifetime(handlers) {}
    }
}

extension SharedState.Contents {
    /// The next queued reply, when it is one that is wanted.
    mutating func takeQueued(where isWanted: (MockReply) -> Bool = { _ in true }) -> MockReply? {
        guard queueHead < queue.count, isWanted(queue[queueHead]) else { return nil }
        let reply = queue[queueHead]
        queueHead += 1
        if queueHead == queue.count {
            queue.removeAll(keepingCapacity: true)
            queueHead = 0
        }
        return reply
    }

    mutating func record(_ request: RecordedRequest) {
        requestCount += 1
        if settings.recordsRequests { requests.append(request) }
    }
}
