import HTTPCore

extension DomainTable {
    /// How tokens are got by OAuth 2.0 (RFC 6749): the key `oauth2` of a row, and the settings of an `OAuth2` authenticator.
    ///
    /// ```json5
    /// oauth2: {
    ///   issuer: "https://login.example.org", clientID: "shop",
    ///   secretVariable: "SHOP_CLIENT_SECRET", scopes: ["orders.read"],
    /// }
    /// ```
    ///
    /// Addresses that are `nil` are read from the metadata of the issuer (RFC 8414, or OpenID Connect Discovery).
    public struct OAuth2Rule: Hashable, Sendable {
        /// How the first token is got. Later ones are got with the refresh token, if there is one.
        public enum Grant: String, Hashable, Sendable, CaseIterable {
            /// With the client's own secret (RFC 6749 §4.4): a service calls a service.
            case clientCredentials
            /// A user signs in on another device, with a code (RFC 8628).
            case deviceCode
            /// A user signs in with the browser of this machine (RFC 6749 §4.1 with PKCE, RFC 7636 and RFC 8252).
            case authorizationCode
        }

        /// How the client proves who it is (RFC 6749 §2.3).
        public enum ClientAuthentication: String, Hashable, Sendable, CaseIterable {
            /// Identifier and secret in the field `Authorization`.
            case basic
            /// Identifier and secret in the body.
            case post
            /// Only the identifier, in the body: a public client.
            case none
        }

        /// Where the secret of the client comes from. It is read each time it is needed, and never shown.
        public enum Secret: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable
        {
            /// The secret itself, from a store of the app.
            case value(String)
            /// An environment variable.
            case variable(String)
            /// The first line of a file.
            case file(String)

            /// Where the secret comes from.
            public var description: String {
                switch self {
                case .value: "a secret in code"
                case .variable(let name): "the environment variable \(name)"
                case .file(let path): "the file \"\(path)\""
                }
            }

            /// Where the secret comes from.
            public var debugDescription: String { description }

            /// Nothing that a dump would show.
            public var customMirror: Mirror { Mirror(self, children: []) }
        }

        /// Where the token of a user is kept, by the calls of a row and by `lat login`.
        public enum Store: String, Hashable, Sendable, CaseIterable {
            /// A file that only its owner can read: `OAuth2.FileStore`.
            case file
            /// The Secret Service of the desktop, by libsecret: `OAuth2.SecretStore`.
            case secretService
        }

        /// The issuer, an `https` URL whose metadata names the addresses. Default `nil`: ``tokenURL`` is given.
        public var issuer: String?
        /// The token endpoint. Default `nil`: that of the metadata, as for the other addresses.
        public var tokenURL: String?
        /// The authorization endpoint, for ``Grant/authorizationCode``.
        public var authorizationURL: String?
        /// The device authorization endpoint, for ``Grant/deviceCode``.
        public var deviceURL: String?
        /// The identifier of the client.
        public var clientID: String
        /// The secret of the client. Default `nil`: a public client.
        public var secret: Secret?
        /// How the client proves who it is. Default `nil`: ``ClientAuthentication/basic`` with a secret, else
        /// ``ClientAuthentication/none``.
        public var clientAuthentication: ClientAuthentication?
        /// How the first token is got. Default `nil`: ``Grant/clientCredentials`` with a secret, else ``Grant/deviceCode``.
        public var grant: Grant?
        /// What the token is to allow. Default none: what the server allows by itself.
        public var scopes: [String]
        /// Further parameters of the requests, such as `audience` or `resource` (RFC 8707). Default none.
        public var parameters: [String: String]
        /// How long before its end a token is renewed. Default 30 s, and never more than a quarter of its lifetime.
        public var leeway: Duration
        /// Where the token of a user is kept. Default ``Store/file``.
        public var store: Store

        /// Creates settings.
        public init(
            issuer: String? = nil, tokenURL: String? = nil, authorizationURL: String? = nil, deviceURL: String? = nil,
            clientID: String, secret: Secret? = nil, clientAuthentication: ClientAuthentication? = nil,
            grant: Grant? = nil, scopes: [String] = [], parameters: [String: String] = [:],
            leeway: Duration = .seconds(30), store: Store = .file
        ) {
            self.issuer = issuer
            self.tokenURL = tokenURL
            self.authorizationURL = authorizationURL
            self.deviceURL = deviceURL
            self.clientID = clientID
            self.secret = secret
            self.clientAuthentication = clientAuthentication
            self.grant = grant
            self.scopes = scopes
            self.parameters = parameters
            self.leeway = leeway
            self.store = store
        }

        /// The grant that is used.
        package var effectiveGrant: Grant { grant ?? (secret == nil ? .deviceCode : .clientCredentials) }

        package var effectiveAuthentication: ClientAuthentication {
            clientAuthentication ?? (secret == nil ? .none : .basic)
        }

        /// The server, in messages.
        package var place: String { issuer ?? tokenURL ?? clientID }

        /// Why the settings cannot be used, as the rest of a sentence with the next step; `nil` if they can.
        package var problem: String? {
            if clientID.isEmpty { return "the client has no identifier; give clientID as the server knows it" }
            if issuer == nil, tokenURL == nil {
                return "no server is named; give issuer, or tokenURL with the other addresses"
            }
            let addresses = [
                ("issuer", issuer), ("tokenURL", tokenURL), ("authorizationURL", authorizationURL),
                ("deviceURL", deviceURL),
            ]
            for (name, address) in addresses {
                guard let address else { continue }
                guard Self.isSafe(address) else {
                    return "\(name) is not an https URL; http:// sends secrets in the clear, and is for 127.0.0.1 alone"
                }
            }
            let isPublic = effectiveAuthentication == .none
            if secret == nil, !isPublic { return "clientAuthentication needs a secret; give one, or write none" }
            if secret != nil, isPublic {
                return "a secret is given, but clientAuthentication is none; leave one of them"
            }
            if effectiveGrant == .clientCredentials, secret == nil {
                return "clientCredentials needs the secret of the client; name its variable or file"
            }
            if issuer == nil, effectiveGrant == .deviceCode, deviceURL == nil {
                return "deviceCode needs deviceURL, or an issuer whose metadata has it"
            }
            if issuer == nil, effectiveGrant == .authorizationCode, authorizationURL == nil {
                return "authorizationCode needs authorizationURL, or an issuer whose metadata has it"
            }
            if leeway < .zero { return "the leeway is \(leeway); give 0 or more" }
            return nil
        }

        /// Whether secrets may be sent to a URL: over TLS, or to this machine.
        package static func isSafe(_ url: String) -> Bool {
            let parts = URLParts(url)
            guard parts.userInformation == nil, let authority = parts.hostAndPort, parts.host?.isEmpty == false else {
                return false
            }
            switch parts.scheme?.lowercased() {
            case "https": return true
            case "http": return HTTPAddress.isThisMachine(String(authority))
            default: return false
            }
        }
    }
}
