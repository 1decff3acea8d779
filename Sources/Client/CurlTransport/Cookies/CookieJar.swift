import FoundationEssentials
package import HTTPCore

/// The cookies of a manager, to read and to change.
///
/// ```swift
/// configuration.cookies = .memory
/// let manager = try CentralRequestManager(configuration: configuration)
/// try await manager.cookies?.set(Cookie("session", "4711", domain: "api.example.org", isSecure: true))
/// for cookie in try await manager.cookies?.all() ?? [] { print(cookie) }
/// try await manager.cookies?.removeAll()
/// ```
///
/// Responses set and change cookies by the rules of RFC 6265; a cookie for a public suffix is refused. Each hop of a
/// redirect gets the cookies that match it. The cookies of a request's own `Cookie` field follow them in the same
/// field; a request that sets this field to `nil` sends no cookies at all. The methods of the jar do not wait for the
/// engine's thread. A method that changes the jar returns after the file, if there is one, is written.
public struct CookieJar: Sendable {
    let store: CookieStore

    /// Returns all cookies that have not expired, in no particular order.
    ///
    /// - Throws: ``NetworkError/Kind/shutDown`` when the manager was shut down.
    public func all() async throws -> [Cookie] {
        guard let all = store.all else { throw EngineFailure.shutDown }
        return all
    }

    /// All cookies that may be added to a request, whatever their paths.
    package func all(reaching request: HTTPRequest) -> [Cookie] {
        guard let all = store.all, !all.isEmpty, let target = try? Target(request.url) else { return [] }
        let place = CookieTable.Place(request, target)
        return all.filter { place.isReached(by: $0) }
    }

    /// Adds a cookie, in place of one with the same name, domain, ``Cookie/includesSubdomains`` and path. An expired cookie
    /// only removes that one.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a cookie that cannot be sent, such as one with a control
    ///   character, and for one that lacks what its name prefix or `SameSite` requires (`__Secure-`, `__Host-`,
    ///   `None`); ``NetworkError/Kind/shutDown`` when the manager was shut down.
    public func set(_ cookie: Cookie) async throws {
        _ = try NetscapeCookie.line(cookie)
        guard cookie.meetsPrefixRules else {
            throw NetworkError.invalidRequest(
                "the cookie \(cookie) lacks what its name prefix or SameSite requires (RFC 6265bis §4.1.3, §5.7); set "
                    + "isSecure, and for __Host- also path \"/\" and no subdomains")
        }
        try await change { $0.set(cookie, now: .now) }
    }

    /// Removes the cookies with the same name, domain and path.
    ///
    /// - Throws: ``NetworkError/Kind/shutDown`` when the manager was shut down.
    public func remove(_ cookie: Cookie) async throws { try await change { $0.remove(cookie) } }

    /// Removes all cookies.
    ///
    /// - Throws: ``NetworkError/Kind/shutDown`` when the manager was shut down.
    public func removeAll() async throws {
        try await change { table in
            defer { table = CookieTable() }
            return table.count > 0
        }
    }

    /// Writes all changes to the file; returns at once when there is no file.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` when the file cannot be written.
    public func flush() async throws { try await store.flush() }

    private func change(_ body: (inout CookieTable) -> Bool) async throws {
        guard let hasChanged = store.change(body) else { throw EngineFailure.shutDown }
        // A failed write has been reported through the warning handler, and the jar in memory has the change.
        if hasChanged { try? await store.flush() }
    }
}
