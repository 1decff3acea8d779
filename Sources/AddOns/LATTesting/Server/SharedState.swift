import FoundationEssentials
import Glibc
import HTTPCore
import Platform
import Synchronization

/// The state shared by the server's users and its thread, behind one lock. Handlers and continuations are never called
/// under the lock.
final class SharedState: Sendable {
    struct Contents {
        // Set by the user.
        var queue: [MockReply] = []
        /// How many elements of `queue` are taken. Taking one does not move the rest.
        var queueHead = 0
        var routes: [(pattern: RoutePattern, handler: MockServer.Handler)] = []
        var fallback: MockServer.Handler?
        /// What receives the bodies of requests as they arrive.
        var receivers: [any BodyReceiver] = []
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
        var sentBytes: Int64 = 0
        var socketMessages: [RecordedMessage] = []
        var socketMessageCount = 0

        // Set by both.
        var stopIsRequested = false
        var portIsKept = false
        var idleConnectionsAreToClose = false
        /// Wakes the thread; `nil` after it has ended.
        var wakeUp: WakeUp?
        var waits: [ObjectIdentifier: Wait] = [:]

        var openConnections: Int { acceptedConnections - closedConnections }
        var queuedReplies: Int { queue.count - queueHead }
        var hasEnded: Bool { wakeUp == nil }
    }

    /// Settings that may change while the server runs.
    struct Settings: Sendable {
        var bodyLimit = 16 << 20
        var bodyReadRate: Int?
        var expectPolicy = MockServer.ExpectPolicy.continue
        var recordsRequests = true
    }

    struct Wait {
        let isSatisfied: @Sendable (Contents) -> Bool
        let description: @Sendable (Contents) -> String
        let done = Waiter<Void>()
    }

    private let contents: Mutex<Contents>
    private let limits = TimeLimits()
    /// Sockets that keep the ports of servers.
    private static let keptPorts = Mutex<[Int32]>([])
    private static let keptPortLimit = 128

    init(_ wakeUp: WakeUp) { contents = Mutex(Contents(wakeUp: wakeUp)) }

    /// Keeps the port of a server that was stopped, so that nobody else gets it by chance. Many tests need the port
    /// longer than the server itself, so it stays taken after the server is released.
    func keep(_ port: Int) {
        // With SO_REUSEADDR, so that another server may be given the port.
        guard read(\.portIsKept), let descriptor = try? Socket.bindLoopback(port: port, backlog: nil) else { return }
        let oldest = Self.keptPorts.withLock { ports in
            ports.append(descriptor)
            return ports.count > Self.keptPortLimit ? ports.removeFirst() : nil
        }
        if let oldest { close(oldest) }
    }

    func read<Result: Sendable>(_ body: (Contents) -> Result) -> Result {
        contents.withLock { body($0) }
    }

    /// Changes the contents, then resumes the waits that they now satisfy.
    @discardableResult
    func update<Result: Sendable>(_ change: (inout Contents) -> Result) -> Result {
        let (result, satisfied) = contents.withLock { contents in
            let result = change(&contents)
            guard !contents.waits.isEmpty else { return (result, [Wait]()) }
            let satisfied = contents.waits.filter { $0.value.isSatisfied(contents) }
            for id in satisfied.keys { contents.waits[id] = nil }
            return (result, Array(satisfied.values))
        }
        for wait in satisfied { wait.done.end(.success(())) }
        return result
    }

    /// Wakes the thread, which then reads the contents.
    func wake() { contents.withLock { $0.wakeUp?.signal() } }

    /// Waits until the contents satisfy a condition.
    func wait(
        timeout: Duration, for description: @escaping @Sendable (Contents) -> String,
        until isSatisfied: @escaping @Sendable (Contents) -> Bool
    ) async throws {
        let wait = Wait(isSatisfied: isSatisfied, description: description)
        let id = ObjectIdentifier(wait.done)
        let waits = try contents.withLock { contents in
            if isSatisfied(contents) { return false }
            if contents.hasEnded { throw MockServerError.stopped(waitingFor: description(contents)) }
            contents.waits[id] = wait
            return true
        }
        guard waits else { return }
        defer { contents.withLock { $0.waits[id] = nil } }
        try await limits.value(
            of: wait.done, within: min(timeout, .seconds(1_000_000_000)),
            late: .failure(
                MockServerError(kind: .timedOut, description: "waited \(timeout) for \(self.read(description))")))
    }

    /// Called last by the thread: ends all waits and releases the handlers.
    func end() {
        let (left, handlers) = contents.withLock { contents in
            contents.wakeUp = nil
            let left = contents.waits.values.map { ($0, $0.description(contents)) }
            contents.waits = [:]
            let handlers = contents.routes.map(\.handler) + [contents.fallback].compactMap { $0 }
            contents.routes = []
            contents.receivers = []
            contents.fallback = nil
            contents.queue = []
            contents.queueHead = 0
            return (left, handlers)
        }
        for (wait, what) in left { wait.done.end(.failure(MockServerError.stopped(waitingFor: what))) }
        // Released outside the lock: a handler may own the server.
        withExtendedLifetime(handlers) {}
    }
}

extension SharedState.Contents {
    /// Takes the next queued reply if it meets a condition.
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
