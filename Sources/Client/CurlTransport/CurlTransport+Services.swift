package import HTTPCore

// The transport's side of ``EngineServices``.
extension CurlTransport {
    /// Connects to a request's origin as the request would (proxy, TLS, pins, overrides), sends nothing, and closes the
    /// connection. Probes and requests do not wait for each other.
    package func connect(
        for request: HTTPRequest, options: ConnectionOptions = ConnectionOptions()
    ) async -> ConnectionReport {
        let probe: ConnectionProbe
        do throws(NetworkError) {
            probe = try self.probe(request, options)
        } catch {
            return ConnectionReport(error: error.attaching(request))
        }
        let report = await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                probe.continuation = continuation
                let isPosted = mailbox.post(
                    .services { services in
                        guard let services else { return probe.finish(ConnectionReport(error: EngineFailure.shutDown)) }
                        services.probes.start(probe)
                    })
                if !isPosted { probe.finish(ConnectionReport(error: EngineFailure.shutDown)) }
            }
        } onCancel: {
            mailbox.post(.services { $0?.probes.cancel(probe) })
        }
        guard let error = report.error else { return report }
        do {
            guard let rest = try await requestToRepeat(after: error, of: probe.transfer, request) else { return report }
            return await connect(for: rest, options: options)
        } catch {
            return ConnectionReport(error: error as? NetworkError ?? EngineFailure.cancelled)
        }
    }

    /// Calls back on the engine's thread whenever links, addresses or routes change. The closure is released when the
    /// engine ends.
    package func observeNetwork(_ observer: @escaping @Sendable () -> Void) {
        mailbox.post(.services { $0?.observeNetwork(observer) })
    }

    private func probe(
        _ request: HTTPRequest, _ options: ConnectionOptions
    ) throws(NetworkError) -> ConnectionProbe {
        var request = request
        let target = try targets.target(for: request.url)
        if let path = target.socketPath { request.unixSocketPath = path }
        var plan = try plan(for: request, target)
        // One timeout covers the whole probe: name look-up, connection and TLS.
        plan.connectTimeout = plan.timeout > 0 ? min(plan.timeout, plan.connectTimeout) : plan.connectTimeout
        plan.timeout = plan.connectTimeout
        let transfer = Transfer(request: request, target: target, plan: plan, pipe: nil)
        transfer.isProbe = true
        return ConnectionProbe(transfer, options)
    }

    // MARK: Other protocols

    /// Checks the settings of a connection for bytes of another protocol. The scheme of the request's URL is `http` for
    /// a connection in clear text and `https` for one with TLS.
    package func endpoint(for request: HTTPRequest) throws(NetworkError) -> ByteEndpoint {
        let target = try targets.target(for: request.url)
        return ByteEndpoint(request: request, target: target, plan: try plan(for: request, target))
    }

    /// Lets a tenant work on the engine's thread. The tenant lives as long as the engine.
    ///
    /// - Returns: `false` when the engine has ended.
    @discardableResult
    package func host(_ tenant: any EngineTenant) -> Bool { mailbox.post(.services { $0?.host(tenant) }) }

    /// Returns a function that any thread may call, so that ``EngineTenant/turn(_:)`` of a hosted tenant is called on the
    /// engine's thread. The function returns `false` when the engine has ended, and does not keep the engine alive.
    package func waker(of tenant: any EngineTenant) -> @Sendable () -> Bool {
        { [mailbox, weak tenant] in
            guard let tenant else { return false }
            return mailbox.post(.services { if $0 != nil { tenant.turn(.now) } })
        }
    }
}

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
        await perform(transfer)
        do {
            _ = try transfer.takeResult()
        } catch {
            if error.kind == .cancelled, Task.isCancelled { throw CancellationError() }
            guard let rest = try await requestToRepeat(after: error, of: transfer, request) else {
                throw error.attaching(request)
            }
            return try await warm(rest, acceptsExisting: acceptsExisting)
        }
        return warmUp.isMultiplexed
    }
}
