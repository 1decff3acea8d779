package import HTTPCore

extension CurlTransport {
    /// Checks the settings of a connection for bytes of another protocol. Its URL is `http://` for one in clear text and
    /// `https://` for one with TLS.
    package func endpoint(for request: HTTPRequest) throws(NetworkError) -> ByteEndpoint {
        let target = try targets.target(for: request.url)
        return ByteEndpoint(request: request, target: target, plan: try plan(for: request, target))
    }

    /// Has the engine's thread do the work of a tenant, which lives as long as the engine.
    ///
    /// - Returns: `false` when the engine has ended.
    @discardableResult
    package func host(_ tenant: any EngineTenant) -> Bool { mailbox.post(.services { $0?.host(tenant) }) }

    /// Returns a function that has a hosted tenant take its turn, from any thread. It returns `false` when the engine has
    /// ended, and does not keep the engine alive.
    package func waker(of tenant: any EngineTenant) -> @Sendable () -> Bool {
        { [mailbox, weak tenant] in
            guard let tenant else { return false }
            return mailbox.post(.services { if $0 != nil { tenant.turn(.now) } })
        }
    }
}
