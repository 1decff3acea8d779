import HTTPCore

/// The history of the server. Each property is a snapshot.
extension MockServer {
    /// The requests in the order in which the server began to answer them. Each is recorded just before its answer.
    public var requests: [RecordedRequest] { shared.read { $0.requests } }

    /// How many requests the server has begun to answer, including those that were not recorded.
    public var requestCount: Int { shared.read { $0.requestCount } }

    /// Requests whose connection ended before they were complete: cancelled uploads.
    public var abandonedRequests: [RecordedRequest] { shared.read { $0.abandonedRequests } }

    /// Discards the recorded requests; ``requestCount`` starts at 0 again.
    public func forgetRequests() {
        shared.update { contents in
            contents.requests = []
            contents.abandonedRequests = []
            contents.requestCount = 0
        }
    }

    /// How many connections were accepted.
    public var acceptedConnections: Int { shared.read { $0.acceptedConnections } }

    /// How many connections are open on the server's side.
    public var openConnections: Int { shared.read { $0.openConnections } }

    /// How many connections were closed, by either side.
    public var closedConnections: Int { shared.read { $0.closedConnections } }

    /// How many bytes of request bodies have been read, including those of incomplete requests.
    public var receivedBodyBytes: Int64 { shared.read { $0.receivedBodyBytes } }

    /// How many bytes of replies, heads included, the system has taken.
    public var sentBytes: Int64 { shared.read { $0.sentBytes } }

    /// How many file descriptors the server has open: 3 and one for each connection; 0 after ``stop()``. The one that then
    /// keeps the port is not counted.
    public var openDescriptors: Int { shared.read { $0.hasEnded ? 0 : 3 + $0.openConnections } }

    /// Closes the idle connections, so that those in the client's pool are stale. Returns before they are closed; see
    /// ``waitForClosedConnections(_:timeout:)``.
    public func closeIdleConnections() {
        shared.update { $0.idleConnectionsAreToClose = true }
        shared.wake()
    }
}

/// Waits for events, without polling. A wait throws ``MockServerError``, with the state at that time, after its timeout
/// (default 30 s) or when the server is stopped, and `CancellationError` when the task is cancelled.
extension MockServer {
    /// Waits until the server has begun to answer this many requests in all.
    ///
    /// - Returns: The requests recorded so far.
    @discardableResult
    public func waitForRequests(_ count: Int, timeout: Duration = .seconds(30)) async throws -> [RecordedRequest] {
        try await shared.wait(timeout: timeout) { contents in
            let last = contents.requests.last.map { "; the last one is \($0)" } ?? ""
            return "\(count) requests, got \(contents.requestCount)\(last)"
        } until: {
            $0.requestCount >= count
        }
        return requests
    }

    /// Waits until this many connections were accepted in all.
    public func waitForConnections(_ count: Int, timeout: Duration = .seconds(30)) async throws {
        try await wait(timeout, for: count, "connections") { $0.acceptedConnections }
    }

    /// Waits until this many connections were closed in all, by either side.
    public func waitForClosedConnections(_ count: Int, timeout: Duration = .seconds(30)) async throws {
        try await shared.wait(timeout: timeout) {
            "\(count) closed connections, got \($0.closedConnections) and \($0.openConnections) open"
        } until: {
            $0.closedConnections >= count
        }
    }

    /// Waits until this many bytes of request bodies have been read in all.
    public func waitForBodyBytes(_ count: Int64, timeout: Duration = .seconds(30)) async throws {
        try await wait(timeout, for: count, "bytes of request bodies") { $0.receivedBodyBytes }
    }

    /// Waits until no request is being read or answered. Open connections may remain. A stalled reply counts until its
    /// connection closes.
    public func waitUntilIdle(timeout: Duration = .seconds(30)) async throws {
        try await shared.wait(timeout: timeout) {
            "the end of all requests, \($0.activeExchanges) are active"
        } until: {
            $0.activeExchanges == 0
        }
    }

    /// Waits until no connection is open.
    public func waitUntilDisconnected(timeout: Duration = .seconds(30)) async throws {
        try await shared.wait(timeout: timeout) {
            "the end of all connections, \($0.openConnections) are open"
        } until: {
            $0.openConnections == 0
        }
    }
}

extension MockServer {
    /// What clients have sent to WebSockets, control frames too, in the order of arrival. Empty without
    /// ``recordsRequests``.
    public var socketMessages: [RecordedMessage] { shared.read(\.socketMessages) }

    /// How many messages and control frames clients have sent to WebSockets.
    public var socketMessageCount: Int { shared.read(\.socketMessageCount) }

    /// Waits until WebSockets have received this many messages and control frames in all. Throws the same errors as
    /// ``waitForRequests(_:timeout:)``.
    ///
    /// - Returns: what was recorded so far.
    @discardableResult
    public func waitForSocketMessages(
        _ count: Int, timeout: Duration = .seconds(30)
    ) async throws -> [RecordedMessage] {
        try await wait(timeout, for: count, "messages of WebSockets") { $0.socketMessageCount }
        return socketMessages
    }

    private func wait<Count: Comparable & Sendable>(
        _ timeout: Duration, for count: Count, _ what: String,
        _ counted: @escaping @Sendable (SharedState.Contents) -> Count
    ) async throws {
        try await shared.wait(timeout: timeout) {
            "\(count) \(what), got \(counted($0))"
        } until: {
            counted($0) >= count
        }
    }
}
