import Cryptography
import CurlTransport
public import FoundationEssentials
import HTTPCore
import Platform

extension OAuth2 {
    /// What a user needs to sign in on another device (RFC 8628 §3.2).
    public struct Prompt: Hashable, Sendable {
        /// The code to enter. It is a secret until it is used.
        public let userCode: String
        /// The page on which it is entered.
        public let url: String
        /// The page with the code entered already, for a QR code; `nil` if the server has none.
        public let completeURL: String?
        /// When the code expires.
        public let expires: Date
    }

    /// Lets a user sign in on another device: shows a code, and waits until the user has entered it (RFC 8628).
    ///
    /// - Parameters:
    ///   - manager: Sends the requests.
    ///   - limit: The longest time until the user has decided. Default `nil`: until the code expires.
    ///   - show: Shows the code. It is called once.
    /// - Throws: ``NetworkError/Kind/authentication`` if the user or the server refused, the code has expired or the time is
    ///   over, and `CancellationError` when the task is cancelled.
    public func signInWithDeviceCode(
        on manager: CentralRequestManager, within limit: Duration? = nil,
        _ show: @Sendable (Prompt) async throws -> Void
    ) async throws {
        let exchange = OAuth2Exchange(self, manager)
        let url = try await exchange.address(\.device, "deviceURL")
        let asked = clock()
        let response = try await exchange.post(settings.scopeParameter + settings.sortedParameters, to: url)
        guard response.isSuccess, let json = try? response.json(), let code = json["device_code"].string,
            let userCode = json["user_code"].string,
            // Some servers use the name of an early draft.
            let page = json["verification_uri"].string ?? json["verification_url"].string
        else { throw exchange.refusal("a device code", response) }
        let lifetime = OAuth2Exchange.seconds(json["expires_in"]).map { min(max(0, $0), 86_400) } ?? 900
        let expires = asked.addingTimeInterval(lifetime)
        try await show(
            Prompt(
                userCode: userCode, url: page, completeURL: json["verification_uri_complete"].string, expires: expires))
        let interval = Duration.seconds(min(max(1, OAuth2Exchange.seconds(json["interval"]) ?? 5), 600))
        var late = Failure(code: Failure.Reason.expiredToken.rawValue, text: nil).error("a device code", settings)
        var end = expires
        if let limit, case let time = asked.addingTimeInterval(limit / .seconds(1)), time < expires {
            end = time
            late = exchange.failure(
                "nobody has signed in at \(settings.place) within \(limit); sign in again, and enter the code in time")
        }
        try await poll(exchange, code: code, every: interval, until: end, late)
    }

    /// Asks until the user has decided (RFC 8628 §3.4 and §3.5).
    private func poll(
        _ exchange: OAuth2Exchange, code: String, every first: Duration, until end: Date, _ late: NetworkError
    ) async throws {
        var interval = first
        while true {
            try await pause(min(interval, .seconds(max(0, end.timeIntervalSince(clock())))))
            guard clock() < end else { throw late }
            do {
                let token = try await exchange.token([
                    ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"), ("device_code", code),
                ])
                return try await keepOfUser(token)
            } catch let error as NetworkError {
                switch error.underlying as? Failure {
                case let failure? where failure.reason == .authorizationPending: break
                case let failure? where failure.reason == .slowDown: interval += .seconds(5)
                // A server that does not answer is asked less and less often.
                case nil where error.isOutage: interval = min(interval * 2, .seconds(600))
                default: throw error
                }
            }
        }
    }

    /// Lets a user sign in with the browser of this machine: opens the page of the server, and receives its answer on a free
    /// port of 127.0.0.1 (RFC 6749 §4.1, RFC 7636, RFC 8252 §7.3, RFC 9207).
    ///
    /// - Parameters:
    ///   - manager: Sends the requests.
    ///   - limit: The longest time until the user has decided. Default 5 min.
    ///   - open: Opens a URL in the browser. It is called once.
    /// - Throws: ``NetworkError/Kind/authentication`` if the user or the server refused, the answer is not for this request, or
    ///   the time is over, and `CancellationError` when the task is cancelled.
    public func signInWithBrowser(
        on manager: CentralRequestManager, within limit: Duration = .seconds(300),
        _ open: @Sendable (_ url: String) async throws -> Void
    ) async throws {
        let exchange = OAuth2Exchange(self, manager)
        let metadata = try await exchange.metadata()
        let page = try await exchange.address(\.authorization, "authorizationURL")
        let verifier = Self.urlSafe(try randomBytes(32))
        let sent = Self.urlSafe(try randomBytes(24))
        let challenge = Self.urlSafe(try MessageDigest.of(Data(verifier.utf8), .sha256))
        let receiver = try LoopbackRedirect()
        defer { receiver.close() }
        let parameters: [(String, String)] =
            [
                ("response_type", "code"), ("client_id", settings.clientID), ("redirect_uri", receiver.url),
            ] + settings.scopeParameter + settings.sortedParameters + [
                ("state", sent), ("code_challenge", challenge), ("code_challenge_method", "S256"),
            ]
        let query = parameters.map { "\($0.0)=\($0.1.percentEncodedComponent)" }.joined(separator: "&")
        try await open(page + (URLParts(page).query == nil ? "?" : "&") + query)
        let late = exchange.failure(
            "nobody has signed in at \(settings.place) within \(limit); sign in again, and finish it in the browser")
        let answer = try await TimeLimits().value(of: receiver.answer, within: limit, late: .failure(late))
        let code = try Self.code(in: answer, state: sent, metadata, settings)
        let token = try await exchange.token([
            ("grant_type", "authorization_code"), ("code", code), ("redirect_uri", receiver.url),
            ("code_verifier", verifier),
        ])
        try await keepOfUser(token)
    }

    /// Checks the answer of the browser, and returns its code (RFC 6749 §4.1.2, RFC 9207 §2.4).
    static func code(
        in query: String, state: String, _ metadata: OAuth2Metadata, _ settings: Settings
    ) throws(NetworkError) -> String {
        let items = query[...].formItems
        func value(_ name: String) -> String? { items.first { $0.name == name }?.value }
        guard isEqualInConstantTime(Array((value("state") ?? "").utf8), Array(state.utf8)) else {
            throw NetworkError(
                .authentication,
                message: "the answer in the browser is not for this sign-in (state); sign in again, in one window")
        }
        // Without an issuer in the settings there is nothing to compare, and one server only.
        if let issuer = value("iss"), let own = metadata.issuer, issuer != own {
            throw NetworkError(
                .authentication,
                message:
                    "the answer in the browser is from another server (iss), and was not used; sign in again, and check "
                    + "the issuer in the settings")
        }
        guard value("iss") != nil || !metadata.namesIssuer else {
            throw NetworkError(
                .authentication,
                message:
                    "the answer in the browser does not name its server (iss), although the metadata promises it; it was "
                    + "not used")
        }
        if let code = value("error") {
            throw Failure(code: code, text: value("error_description")).error("a code", settings)
        }
        guard let code = value("code"), !code.isEmpty else {
            throw NetworkError(
                .authentication, message: "the answer in the browser has no code; sign in again, and look at the server"
            )
        }
        return code
    }

    /// Keeps the token of a user who has just signed in. Unlike at a renewal, a store that fails is an error.
    private func keepOfUser(_ token: Token) async throws {
        try await exclusively { await self.keep(token, replaces: nil) }
        guard state.withLock({ $0.unsaved }) != nil else { return }
        // Tried once more, for its error.
        try await store?.store(token)
        state.withLock { $0.unsaved = nil }
    }

    /// Base64 for URLs, without padding (RFC 4648 §5).
    private static func urlSafe(_ bytes: [UInt8]) -> String {
        String(
            Data(bytes).base64EncodedString().compactMap { character in
                switch character {
                case "+": "-"
                case "/": "_"
                case "=": nil
                default: character
                }
            })
    }
}

extension OAuth2.Settings {
    /// A name for the file of a token, the same for the same server, client and scopes.
    var fileName: String {
        let parts = [issuer ?? tokenURL ?? "", clientID] + scopes.sorted() + sortedParameters.map { "\($0.0)=\($0.1)" }
        let digest = (try? MessageDigest.of(Data(parts.joined(separator: "\n").utf8), .sha256)) ?? []
        let name = clientID.utf8.filter { (0x30...0x39).contains($0) || (0x61...0x7A).contains($0 | 0x20) }.prefix(32)
        return String(decoding: name, as: UTF8.self) + "-" + MessageDigest.hexadecimal(digest.prefix(8))
    }
}
