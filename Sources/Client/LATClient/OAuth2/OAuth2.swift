public import DomainTables
import FoundationEssentials
public import HTTPCore
import Platform
import Synchronization

/// Gets tokens by OAuth 2.0 (RFC 6749), renews them before they end, and puts them on requests.
///
/// ```swift
/// configuration.authenticator = try OAuth2(
///     .init(issuer: "https://login.example.org", clientID: "shop", secret: .variable("SHOP_SECRET"), scopes: ["orders"]))
/// ```
///
/// For a user who signs in, the token is kept in a store, and later runs of the program use it:
///
/// ```swift
/// let oauth = try OAuth2(
///     .init(issuer: "https://login.example.org", clientID: "cli"), store: OAuth2.FileStore("/home/ada/.config/cli/token"))
/// try await oauth.signInWithDeviceCode(on: manager) { prompt in print("Open \(prompt.url) and enter \(prompt.userCode)") }
/// ```
///
/// However many requests need a token, it is got once. It is renewed ahead of its end, and when a server rejects it (401). A
/// refresh token that the server replaces is stored before a request uses the new token; if that fails, the token stays in
/// memory, a warning says so, and storing is tried again. `fleet.authenticator(_:sharing:key:)` shares it with other processes.
///
/// A request that has its own `Authorization` or `authentication` keeps it, and needs no token.
///
/// The requests to the server have no token, signature or seal, follow no redirect and are never repeated by a policy.
public final class OAuth2: Authenticator, AuthorizationAuthenticator {
    /// The settings, which a row of the table may have, too (`oauth2`).
    public typealias Settings = DomainTable.OAuth2Rule

    /// A token that is not in the store, because storing failed.
    struct Unsaved {
        let token: Token
        /// What the store had instead, and whether that is known.
        let stored: Token?
        let isStoredKnown: Bool
        /// When storing was tried last.
        var tried: Date
    }

    struct State {
        var token: Token?
        var isLoaded = false
        var unsaved: Unsaved?
        var metadata: OAuth2Metadata?

        mutating func use(_ token: Token) {
            self.token = token
            isLoaded = true
            unsaved = nil
        }
    }

    /// The settings.
    public let settings: Settings
    let store: (any TokenStore)?
    let clock: @Sendable () -> Date
    /// Waits between two questions of a device. Tests replace it.
    let pause: @Sendable (Duration) async throws -> Void
    let state = Mutex(State())
    /// Several managers may share this object. The lock of a store is for other processes.
    private let turns = Turns()
    private let warningHandler: @Sendable (String) -> Void

    /// Creates an authenticator.
    ///
    /// - Parameters:
    ///   - settings: The server and the client.
    ///   - store: Where the token is kept. Default `nil`: in memory, so that a user signs in at each start.
    ///   - warningHandler: Called when a token cannot be stored. Default `nil`: a line on standard error.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` for settings that cannot be used.
    public convenience init(
        _ settings: Settings, store: (any TokenStore)? = nil, warningHandler: (@Sendable (String) -> Void)? = nil
    ) throws(NetworkError) {
        try self.init(
            settings, store: store, warningHandler: warningHandler, clock: { .now },
            pause: { try await Task.sleep(for: $0) })
    }

    init(
        _ settings: Settings, store: (any TokenStore)?, warningHandler: (@Sendable (String) -> Void)?,
        clock: @escaping @Sendable () -> Date, pause: @escaping @Sendable (Duration) async throws -> Void
    ) throws(NetworkError) {
        if let problem = settings.problem { throw .invalidRequest("oauth2: \(problem)") }
        self.settings = settings
        self.store = store
        self.clock = clock
        self.pause = pause
        self.warningHandler = warningHandler ?? { EngineConfiguration().warn($0) }
    }

    /// The token that is used; `nil` before the first one. It is a secret.
    public var token: Token? { state.withLock { $0.token } }

    // MARK: Authenticator

    /// Whether there is no token, or it ends soon.
    public var needsRefresh: Bool {
        get async {
            try? await load()
            return !(token?.isFresh(at: clock(), leeway: settings.leeway) ?? false)
        }
    }

    /// Puts the token on a request.
    ///
    /// - Throws: ``NetworkError/Kind/authentication`` if there is none, or it has ended.
    public func apply(to request: inout HTTPRequest) async throws {
        await saveAgain()
        guard let token, !token.hasEnded(at: clock()) else { throw signInError("there is no valid token") }
        request.headers["Authorization"] = "Bearer \(token.access)"
    }

    /// Throws, because the requests to the server are sent by a manager.
    public func refresh() async throws { throw signInError("there is no manager to get a token with") }

    /// Gets a new token: with the refresh token, or by the client's own secret.
    ///
    /// - Throws: ``NetworkError/Kind/authentication`` with what to do. Its ``NetworkError/underlying`` is an ``OAuth2/Failure``
    ///   if the server refused.
    public func refresh(using manager: CentralRequestManager) async throws {
        try await load()
        let before = token
        try await exclusively {
            // Another manager or process may have renewed the token while this one waited, or signed out. Its refresh token
            // counts, also when its access token has ended.
            do {
                try await self.takeStored()
            } catch {
                guard self.state.withLock({ $0.unsaved != nil }) else { throw error }
            }
            if let current = self.token, !current.isSame(as: before),
                current.isFresh(at: self.clock(), leeway: self.settings.leeway)
            {
                return
            }
            try await self.renew(on: manager)
        }
    }

    private func renew(on manager: CentralRequestManager) async throws {
        let exchange = OAuth2Exchange(self, manager)
        if let old = token, let refresh = old.refresh {
            do {
                var new = try await exchange.token([("grant_type", "refresh_token"), ("refresh_token", refresh)])
                // A server that does not replace it goes on with the same (RFC 6749 §6).
                new.refresh = new.refresh ?? refresh
                new.scopes = new.scopes ?? old.scopes
                return await keep(new, replaces: new.refresh == refresh ? nil : refresh)
            } catch let error as NetworkError {
                guard (error.underlying as? Failure)?.reason == .invalidGrant else { throw error }
                // It is of no use any more. Asking again would look like an attack to the server.
                state.withLock { state in
                    state.token?.refresh = nil
                    state.unsaved = nil
                }
                try? await store?.store(token?.hasEnded(at: clock()) == false ? token : nil)
                guard settings.effectiveGrant == .clientCredentials else { throw error }
            }
        }
        guard settings.effectiveGrant == .clientCredentials else {
            throw signInError(token == nil ? "there is no token" : "there is no refresh token")
        }
        var parameters = [("grant_type", "client_credentials")]
        if !settings.scopes.isEmpty { parameters.append(("scope", settings.scopes.joined(separator: " "))) }
        var new = try await exchange.token(parameters)
        // Such a client does not need one (RFC 6749 §4.4.3).
        new.refresh = nil
        await keep(new, replaces: nil)
    }

    // MARK: For fleets and other programs

    /// The token, for `SharedTokenAuthenticator`.
    public func exportToken() async throws -> Token? { token }

    /// Takes a token from elsewhere, and stores it.
    public func adopt(_ token: Token) async throws { await keep(token, replaces: nil) }

    /// Forgets the token, and removes it from the store. The server revokes it if it can (RFC 7009). A renewal that is under
    /// way ends first, so that it leaves no token behind.
    ///
    /// - Throws: ``NetworkError/Kind/storage`` if it cannot be removed from the store.
    /// - Returns: whether the server revoked it.
    @discardableResult
    public func signOut(on manager: CentralRequestManager) async throws -> Bool {
        try await load()
        let last = Mutex<Token?>(nil)
        try await exclusively {
            // Another process may have renewed the token since. A store that cannot be read is emptied all the same.
            let before = self.token
            try? await self.takeStored()
            try await self.store?.store(nil)
            let token = self.state.withLock { state in
                defer { (state.token, state.unsaved) = (nil, nil) }
                return state.token
            }
            last.withLock { $0 = token ?? before }
        }
        guard let token = last.withLock(\.self) else { return false }
        return (try? await OAuth2Exchange(self, manager).revoke(token.refresh ?? token.access)) ?? false
    }

    // MARK: The store

    /// Reads the store, once.
    private func load() async throws {
        guard let store, !state.withLock({ $0.isLoaded }) else { return }
        let stored = try await store.token()
        state.withLock { state in
            // Another task may have read it meanwhile, and the user may have signed out since.
            guard !state.isLoaded else { return }
            if state.token == nil { state.token = stored }
            state.isLoaded = true
        }
    }

    /// Uses the token of the store if another process has put it there, or none if that one has signed out. The lock is held.
    private func takeStored() async throws {
        guard let store, state.withLock({ $0.unsaved?.isStoredKnown ?? true }) else { return }
        let stored = try await store.token()
        state.withLock { state in
            let known = state.unsaved.map(\.stored) ?? state.token
            guard stored.map({ !$0.isSame(as: known) }) ?? (known != nil) else { return }
            (state.token, state.unsaved) = (stored, nil)
        }
    }

    func exclusively(_ work: @escaping @Sendable () async throws -> Void) async throws {
        try await turns.run { [store] in
            if let store { try await store.exclusively(work) } else { try await work() }
        }
    }

    /// Uses a token from now on, and stores it.
    ///
    /// - Parameter replaces: The refresh token that the server has replaced, so that it is of no use any more.
    func keep(_ token: Token, replaces old: String?) async {
        do {
            try await store?.store(token)
            state.withLock { $0.use(token) }
        } catch {
            var stored: Token?
            var isStoredKnown = true
            do { stored = try await store?.token() } catch { isStoredKnown = false }
            let unsaved = Unsaved(token: token, stored: stored, isStoredKnown: isStoredKnown, tried: clock())
            state.withLock { state in
                state.use(token)
                state.unsaved = unsaved
            }
            let reason = (error as? NetworkError)?.message ?? "\(error)"
            warningHandler(
                "the new token of \"\(settings.clientID)\" is not stored: \(reason); "
                    + (old == nil
                        ? "it is kept in memory, and storing is tried again with later requests"
                        : "the server has replaced the stored refresh token, so correct this while the program runs: storing "
                            + "is tried again with later requests, and after its end you must sign in again"))
        }
    }

    /// Stores a token that could not be stored, at most every 10 seconds.
    private func saveAgain() async {
        let now = clock()
        let unsaved = state.withLock { state -> Token? in
            guard let unsaved = state.unsaved, abs(now.timeIntervalSince(unsaved.tried)) >= 10 else { return nil }
            state.unsaved?.tried = now
            return unsaved.token
        }
        guard let unsaved, let store else { return }
        // A request does not wait for a process that has stopped with the lock.
        try? await TimeLimits().run(within: .seconds(10), for: nil) { [self] in
            try await exclusively { try await self.storeAgain(unsaved, in: store) }
        }
    }

    private func storeAgain(_ unsaved: Token, in store: any TokenStore) async throws {
        try await takeStored()
        // A later token, or signing out, here or in another process, has taken its place meanwhile.
        guard state.withLock({ $0.unsaved?.token == unsaved }) else { return }
        try await store.store(unsaved)
        state.withLock { $0.unsaved = nil }
    }

    func signInError(_ reason: String) -> NetworkError {
        let step =
            settings.effectiveGrant == .clientCredentials
            ? "look at the error of the last renewal"
            : "sign in: lat login DOMAIN, or a function of OAuth2"
        return NetworkError(
            .authentication, message: "\(reason) for the client \"\(settings.clientID)\" of \(settings.place); \(step)")
    }
}
