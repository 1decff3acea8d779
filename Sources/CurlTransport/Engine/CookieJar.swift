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
/// `"Cookie": nil` keeps them all back. Each call is done in order with the engine's other work, and the file, if there
/// is one, is written before it returns.
public struct CookieJar: Sendable {
    let mailbox: Mailbox<Engine.Command>

    /// All cookies that have not expired, in no order.
    ///
    /// - Throws: ``NetworkError/Kind/shutDown`` when the manager was shut down.
    public func all() async throws -> [Cookie] {
        try await perform { $0.lines.compactMap(NetscapeCookie.cookie) }
    }

    /// Adds a cookie, in place of one with the same name, domain and path.
    ///
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a cookie that cannot be sent, such as one with a control
    ///   character, or named `__Secure-` without being it.
    public func set(_ cookie: Cookie) async throws {
        let line = try NetscapeCookie.line(cookie)
        let isSet = try await perform { store in
            store.add(line)
            return store.lines.contains(line)
        }
        let isOver = cookie.expires.map { $0 <= Date.now } ?? false
        guard isSet || isOver else {
            throw NetworkError.invalidRequest("libcurl does not take the cookie \(cookie); see RFC 6265bis §5.7")
        }
    }

    /// Takes out the cookie with this name, domain and path.
    public func remove(_ cookie: Cookie) async throws {
        var over = cookie
        over.expires = Date(timeIntervalSince1970: 1)
        over.value = ""
        let line = try NetscapeCookie.line(over)
        try await perform { $0.add(line) }
    }

    /// Takes all out.
    public func removeAll() async throws { try await perform { $0.removeAll() } }

    private func perform<Result: Sendable>(
        _ body: @escaping @Sendable (CookieStore) -> Result
    ) async throws -> Result {
        try await withUnsafeThrowingContinuation { (continuation: UnsafeContinuation<Result, any Error>) in
            let isTaken = mailbox.post(
                .cookies { store in
                    guard let store else { return continuation.resume(throwing: EngineFailure.shutDown) }
                    let result = body(store)
                    if store.mayHaveChanged { store.save() }
                    continuation.resume(returning: result)
                })
            if !isTaken { continuation.resume(throwing: EngineFailure.shutDown) }
        }
    }
}
