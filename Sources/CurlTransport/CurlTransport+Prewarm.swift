import HTTPCore

extension CurlTransport {
    /// Opens connections to a URL's origin, name look-up and TLS done, and leaves them in the pool for the requests that
    /// follow. Nothing is sent on them; with libcurl 8 and in clear text one `HEAD` of `/` on each.
    ///
    /// - Parameters:
    ///   - url: an absolute URL; its path does not matter.
    ///   - connections: how many. An idle one counts as the first of them. Where the server speaks HTTP/2 over TLS one is
    ///     enough, and no more are opened.
    /// - Throws: ``NetworkError`` when a connection does not come about; of kind ``NetworkError/Kind/invalidRequest`` for
    ///   fewer than one, and for more than ``EngineConfiguration/maxConnectionsPerHost``, which would close each other.
    ///   Those that came about stay.
    public func prewarm(_ url: String, connections: Int = 1) async throws {
        try await prewarm(HTTPRequest("HEAD", url), connections: connections)
    }

    /// The same with the settings of a request: its pins, its proxy.
    package func prewarm(_ request: HTTPRequest, connections: Int) async throws {
        let limit = request.maxConnectionsPerHost ?? standardPlan.maxConnectionsPerHost
        guard (1...limit).contains(connections) else {
            throw NetworkError.invalidRequest(
                "prewarm: connections is \(connections); there can be 1 to \(limit) (maxConnectionsPerHost)")
        }
        var root = request
        root.url = try targets.target(for: request.url).origin + "/"
        let request = root
        guard try await !warm(request, takesKnown: true) else { return }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 1..<connections { group.addTask { _ = try await self.warm(request, takesKnown: false) } }
            try await group.waitForAll()
        }
    }

    /// Returns whether the connection is shared by requests.
    private func warm(_ request: HTTPRequest, takesKnown: Bool) async throws -> Bool {
        let warmUp = WarmUp(takesKnown: takesKnown)
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
