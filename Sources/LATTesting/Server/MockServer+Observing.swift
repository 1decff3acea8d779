import HTTPCore

/// What has happened so far. Each of these is a snapshot.
extension MockServer {
    /// The requests in the order in which they had been read and were about to be answered.
    public var requests: [RecordedRequest] { shared.read { $0.requests } }

    /// How many requests came to be answered, also those that were not recorded.
    public var requestCount: Int { shared.read { $0.requestCount } }

    /// Requests whose connection ended before they were whole: cancelled uploads.
    public var abandonedRequests: [RecordedRequest] { shared.read { $0.abandonedRequests } }

    /// Forgets the requests recorded so far; ``requestCount`` starts at 0 again.
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

    /// How many bytes of request bodies have been read, of requests that are not whole yet too.
    public var receivedBodyBytes: Int64 { shared.read { $0.receivedBodyBytes } }

    /// How many file descriptors the server holds: 3 and one for each connection; 0 after ``stop()``.
    public var openDescriptors: Int { shared.read { $0.hasEnded ? 0 : 3 + $0.openConnections } }

    /// Closes the connections on which no request is being read or answered: a client's pool goes stale. Returns
    /// before it is done; see ``waitForClosedConnections(_:timeout:)``.
    public func closeIdleConnections() {
        shared.update { $0.idleConnectionsAreToClose = true }
        shared.wake()
    }
}

/// Waiting for what is to happen. An event ends the wait, there is no polling; a
/// ``MockServerError`` says what there was instead when the time is over or the server was
/// stopped, and `CancellationError` is thrown when the task is cancelled.
extension MockServer {
    /// Waits until so many requests came to be answered (in all, not more than before).
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

    /// Waits until so many connections were accepted in all.
    public func waitForConnections(_ count: Int, timeout: Duration = .seconds(30)) async throws {
        try await shared.wait(timeout: timeout) {
            "\(count) connections, got \($0.acceptedConnections)"
        } until: {
            $0.acceptedConnections >= count
        }
    }

    /// Waits until so many connections were closed in all, by either side.
    public func waitForClosedConnections(_ count: Int, timeout: Duration = .seconds(30)) async throws {
        try await shared.wait(timeout: timeout) {
            "\(count) closed connections, got \($0.closedConnections) and \($0.openConnections) open"
        } until: {
            $0.closedConnections >= count
        }
    }

    /// Waits until so many bytes of request bodies have been read in all.
    public func waitForBodyBytes(_ count: Int64, timeout: Duration = .seconds(30)) async throws {
        try await shared.wait(timeout: timeout) {
            "\(count) bytes of request bodies, got \($0.receivedBodyBytes)"
        } until: {
            $0.receivedBodyBytes >= count
        }
    }

    /// Waits until no request is being read or answered. Open connections may remain. A stalled reply is
    /// being answered until its connection closes.
    public func waitUntilIdle(timeout: Duration = .seconds(30)) async throws {
        try await shared.wait(timeout: timeout) {
            "the end of all requests, \($0.activeExchanges) go on"
        } until: {
            $0.activeExchanges == 0
        }
    }

    /// Waits until no connection is open: the client has let go of everything.
    public func waitUntilDisconnected(timeout: Duration = .seconds(30)) async throws {
        try await shared.wait(timeout: timeout) {
            "the end of all connections, \($0.openConnections) are open"
        } until: {
            $0.openConnections == 0
        }
    }
}
