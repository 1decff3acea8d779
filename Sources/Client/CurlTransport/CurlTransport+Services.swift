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
        return await withTaskCancellationHandler {
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
    }

    /// Calls back on the engine's thread whenever links, addresses or routes change. The closure is released when the
    /// engine ends.
    package func observeNetwork(_ observer: @escaping @Sendable () -> Void) {
        mailbox.post(.services { $0?.observeNetwork(observer) })
    }

    private func probe(
        _ request: HTTPRequest, _ options: ConnectionOptions
    ) throws(NetworkError) -> ConnectionProbe {
        let target = try targets.target(for: request.url)
        var plan = try plan(for: request, target)
        // One timeout covers the whole probe: name look-up, connection and TLS.
        plan.connectTimeout = plan.timeout > 0 ? min(plan.timeout, plan.connectTimeout) : plan.connectTimeout
        plan.timeout = plan.connectTimeout
        return ConnectionProbe(Transfer(request: request, target: target, plan: plan, pipe: nil), options)
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
