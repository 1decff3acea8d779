package import HTTPCore

extension CurlTransport {
    /// Opens connections to a URL's origin, including name look-up and TLS handshake, and leaves them in the pool. It
    /// sends no request, except for an `http` URL with libcurl 8: then it sends one `HEAD` for `/` on each connection.
    ///
    /// - Parameters:
    ///   - url: An absolute URL; its path is ignored.
    ///   - connections: How many connections to open, 1 by default. An idle connection counts as the first. If the
    ///     server speaks HTTP/2 over TLS, one is enough and no more are opened.
    /// - Throws: ``NetworkError`` when a connection cannot be opened; those already open stay in the pool. The kind is
    ///   ``NetworkError/Kind/invalidRequest`` when `connections` is below 1 or above
    ///   ``EngineConfiguration/maxConnectionsPerHost``. `CancellationError` when the current task was cancelled.
    public func prewarm(_ url: String, connections: Int = 1) async throws {
        try await prewarm(HTTPRequest("HEAD", url), connections: connections)
    }

    /// Prewarms with a request's own settings, such as its pins and proxy.
    package func prewarm(_ request: HTTPRequest, connections: Int) async throws {
        let limit = request.maxConnectionsPerHost ?? standardPlan.maxConnectionsPerHost
        guard limit >= 1 else { throw RequestCheck.tooFewConnections(limit) }
        guard (1...limit).contains(connections) else {
            throw NetworkError.invalidRequest(
                "prewarm: connections is \(connections); give 1 to \(limit) (maxConnectionsPerHost)")
        }
        var root = request
        root.url = try targets.target(for: request.url).origin + "/"
        let request = root
        guard try await !warm(request, acceptsExisting: true) else { return }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 1..<connections { group.addTask { _ = try await self.warm(request, acceptsExisting: false) } }
            try await group.waitForAll()
        }
    }

    /// Opens one connection. Returns whether it is multiplexed.
    private func warm(_ request: HTTPRequest, acceptsExisting: Bool) async throws -> Bool {
        let warmUp = WarmUp(acceptsExisting: acceptsExisting)
        let transfer = try prepare(request, nil, warmUp: warmUp)
        do {
            _ = try await answer(to: transfer)
        } catch let error as NetworkError {
            if error.kind == .cancelled, Task.isCancelled { throw CancellationError() }
            throw error.attaching(request)
        }
        return warmUp.isMultiplexed
    }
}
