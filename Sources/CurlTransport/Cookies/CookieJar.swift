import FoundationEssentials
import HTTPCore

/// The cookies of a manager: to look at, to set, to clear.
///
/// ```swift
/// configuration.cookies = .memory
/// let manager = try CentralRequestManager(configuration: configuration)
/// try await manager.cookies?.set(Cookie("session", "4711", domain: "api.example.org", isSecure: true))
/// for cookie in try await manager.cookies?.all() ?? [] { print(cookie) }
/// try await manager.cookies?.removeAll()
/// ```
///
/// Responses set and change them by the rules of RFC 6265; a domain that is a public suffix is refused. Requests get
/// those that fit, at each hop of a redirect anew. A `Cookie` field of a request is sent with them in one field, and
/// `"Cookie": nil` keeps them all back. A call here is done at once, whatever the engine's thread does; when it changes
/// something and there is a file, the file is written before it returns.
public struct CookieJar: Sendable {
    let store: CookieStore

    /// All cookies that have not expired, in no order.
    ///
    /// - Throws: ``NetworkError/Kind/shutDown`` when the manager was shut down.
    public func all() async throws -> [Cookie] {
        guard let all = store.all else { throw EngineFailure.shutDown }
        return all
    }

    /// Adds a cookie, in place of one with the same name, domain and path. One that is over takes that one out.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a cookie that cannot be sent, such as one with a control
    ///   character, or is not what its name or `SameSite` says (`__Secure-`, `None`) without being secure;
    ///   ``NetworkError/Kind/shutDown`` when the manager was shut down.
    public func set(_ cookie: Cookie) async throws {
        _ = try NetscapeCookie.line(cookie)
        guard cookie.keepsItsPromise else {
            throw NetworkError.invalidRequest(
                "the cookie \(cookie) must be secure, and for its whole host alone where its name begins with __Host-: its "
                    + "name or its SameSite says so (RFC 6265bis §4.1.3, §5.7)")
        }
        try await change { $0.set(cookie, now: .now) }
    }

    /// Takes out the cookie with this name, domain and path.
    ///
    /// - Throws: ``NetworkError/Kind/shutDown`` when the manager was shut down.
    public func remove(_ cookie: Cookie) async throws { try await change { $0.remove(cookie) } }

    /// Takes all out.
    ///
    /// - Throws: ``NetworkError/Kind/shutDown`` when the manager was shut down.
    public func removeAll() async throws {
        try await change { table in
            defer { table = CookieTable() }
            return table.count > 0
        }
    }

    /// Returns when the file has what the jar has; at once when there is no file.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` when the file cannot be written.
    public func flush() async throws { try await store.flush() }

    private func change(_ body: (inout CookieTable) -> Bool) async throws {
        guard let hasChanged = store.changeIfOpen(body) else { throw EngineFailure.shutDown }
        // A file that cannot be written was reported; the jar in memory is as it should be.
        if hasChanged { try? await store.flush() }
    }
}
