import CurlTransport
import FoundationEssentials
import HTTPCore

/// What an authorization server says about itself (RFC 8414 §2), where the settings do not.
struct OAuth2Metadata: Hashable, Sendable {
    var issuer: String?
    var token: String?
    var authorization: String?
    var device: String?
    var revocation: String?
    /// Whether the answer of the browser names the issuer (RFC 9207 §3).
    var namesIssuer = false

    /// The metadata of the settings alone.
    init(_ settings: OAuth2.Settings) {
        issuer = settings.issuer
        token = settings.tokenURL
        authorization = settings.authorizationURL
        device = settings.deviceURL
    }

    /// Adds what the document of the issuer says. The settings take precedence.
    ///
    /// - Throws: ``OAuth2Metadata/Problem``.
    mutating func merge(_ document: JSONValue) throws(Problem) {
        guard let issuer, document["issuer"].string == issuer else {
            throw Problem(
                reason:
                    "it names the issuer \"\(document["issuer"].string ?? "")\" and not \"\(issuer ?? "")\"; write it so in "
                    + "the settings if it is right")
        }
        token = token ?? document["token_endpoint"].string
        authorization = authorization ?? document["authorization_endpoint"].string
        device = device ?? document["device_authorization_endpoint"].string
        revocation = revocation ?? document["revocation_endpoint"].string
        namesIssuer = document["authorization_response_iss_parameter_supported"].bool ?? false
        for address in [token, authorization, device, revocation].compactMap(\.self)
        where !OAuth2.Settings.isSafe(address) {
            throw Problem(reason: "it names the address \"\(address)\", which is not https")
        }
    }

    /// Why a document cannot be used; the end of a sentence.
    struct Problem: Error {
        let reason: String
    }

    /// Where the document of an issuer is: that of RFC 8414 §3, then that of OpenID Connect Discovery.
    static func addresses(of issuer: String) -> [String] {
        let parts = URLParts(issuer)
        let path = parts.path.hasSuffix("/") ? String(parts.path.dropLast()) : String(parts.path)
        return [
            "\(parts.beforePath)/.well-known/oauth-authorization-server\(path)",
            "\(parts.beforePath)\(path)/.well-known/openid-configuration",
        ]
    }
}

/// The requests to an authorization server.
struct OAuth2Exchange {
    private let oauth: OAuth2
    private let manager: CentralRequestManager
    private var settings: OAuth2.Settings { oauth.settings }

    init(_ oauth: OAuth2, _ manager: CentralRequestManager) {
        self.oauth = oauth
        self.manager = manager
    }

    // MARK: Addresses

    /// The addresses of the server, which are asked for once.
    func metadata() async throws -> OAuth2Metadata {
        if let known = oauth.state.withLock({ $0.metadata }) { return known }
        let known = OAuth2Metadata(settings)
        guard let issuer = settings.issuer else { return known }
        // A server that has no document now may have one later.
        guard let found = try await discover(issuer, known) else { return known }
        oauth.state.withLock { $0.metadata = found }
        return found
    }

    /// - Returns: `nil` when the server has no document, and the settings have an address for tokens.
    private func discover(_ issuer: String, _ settings: OAuth2Metadata) async throws -> OAuth2Metadata? {
        var problem = ""
        for address in OAuth2Metadata.addresses(of: issuer) {
            let response = try await send(HTTPRequest("GET", address))
            guard response.status == 200, let document = try? response.json() else {
                problem = "\(address) answers \(response.status) without such a document"
                continue
            }
            do throws(OAuth2Metadata.Problem) {
                var metadata = settings
                try metadata.merge(document)
                return metadata
            } catch {
                throw failure("the metadata of \(issuer) cannot be used: \(error.reason)")
            }
        }
        // All that is needed may be in the settings.
        if settings.token != nil { return nil }
        throw failure(
            "the issuer \(issuer) has no metadata: \(problem); check it, or give tokenURL and the other addresses")
    }

    func address(_ part: KeyPath<OAuth2Metadata, String?>, _ name: String) async throws -> String {
        guard let address = try await metadata()[keyPath: part] else {
            throw failure(
                "the metadata of \(settings.place) has no \(name); give it in the settings, or use another grant")
        }
        return address
    }

    // MARK: Tokens

    /// Asks for a token (RFC 6749 §4 and §6).
    func token(_ parameters: [(String, String)]) async throws -> OAuth2.Token {
        let url = try await address(\.token, "tokenURL")
        let asked = oauth.clock()
        let response = try await post(parameters + settings.sortedParameters, to: url)
        guard response.isSuccess, let json = try? response.json(), let access = json["access_token"].string,
            !access.isEmpty
        else { throw refusal("a token", response, to: parameters) }
        if let type = json["token_type"].string, type.lowercased() != "bearer" {
            throw failure("the server gave a token of the type \"\(type.prefix(40))\"; only Bearer is supported")
        }
        let seconds = Self.seconds(json["expires_in"])
        let scopes = json["scope"].string.map { $0.split(separator: " ").map(String.init) }
        return OAuth2.Token(
            access: access, refresh: json["refresh_token"].string.flatMap { $0.isEmpty ? nil : $0 }, issued: asked,
            // The time counts from when the server answered; the earlier one errs on the safe side.
            expires: seconds.flatMap { $0 > 0 ? asked.addingTimeInterval(min($0, 3.2e9)) : nil },
            scopes: scopes)
    }

    /// A number of seconds, which some servers write as a text.
    static func seconds(_ value: JSONValue?) -> Double? {
        (value?.double ?? value?.string.flatMap { Double($0) }).flatMap { $0.isFinite ? $0 : nil }
    }

    /// Sends a form with the client's credentials (RFC 6749 §2.3.1).
    func post(_ parameters: [(String, String)], to url: String) async throws -> HTTPResponse {
        var request = HTTPRequest("POST", url, headers: ["Accept": "application/json"])
        var form = parameters
        switch settings.effectiveAuthentication {
        case .basic:
            let pair = "\(settings.clientID.percentEncodedComponent):\(try secret().percentEncodedComponent)"
            request.headers["Authorization"] = "Basic \(Data(pair.utf8).base64EncodedString())"
        case .post: form += [("client_id", settings.clientID), ("client_secret", try secret())]
        case .none: form.append(("client_id", settings.clientID))
        }
        let text = form.map { "\($0.0.percentEncodedComponent)=\($0.1.percentEncodedComponent)" }.joined(separator: "&")
        request.body = .data(Data(text.utf8), contentType: "application/x-www-form-urlencoded")
        return try await send(request)
    }

    /// Revokes a token (RFC 7009). Returns whether the server did.
    func revoke(_ token: String) async throws -> Bool {
        guard let url = try await metadata().revocation else { return false }
        return try await post([("token", token)], to: url).isSuccess
    }

    private func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        var request = request
        // The manager's headers may be secrets of the API, which this server must not get.
        request.replacesGlobalHeaders = true
        if let name = manager.configuration.headers["User-Agent"] { request.headers["User-Agent"] = name }
        request.authenticator = .off
        request.signer = .off
        request.sealing = .unsealed
        request.redirects = .none
        request.cachePolicy = .networkOnly
        request.duplicates = .allow
        request.retries = 0
        request.maxBodySize = 1 << 20
        return try await manager.send(request)
    }

    // MARK: Errors

    /// The error for an answer without what was asked for.
    ///
    /// - Parameter sent: what was sent, which the server may repeat in its text: long values of it are not shown.
    func refusal(
        _ what: String, _ response: HTTPResponse, to sent: [(String, String)] = []
    ) -> NetworkError {
        if let refused = Self.failure(in: response) {
            let secrets = sent.filter { $0.0 != "grant_type" && $0.0 != "scope" && $0.1.utf8.count >= 6 }
            let text = secrets.reduce(refused.text) { $0?.replacing($1.1, with: Secrets.placeholder) }
            return OAuth2.Failure(code: refused.code, text: text).error(what, settings, response)
        }
        let answer = response.isSuccess ? "without one" : "with \(response.status)"
        let step = response.isOutage ? "try again later" : "check the addresses in the settings"
        return NetworkError(
            .authentication,
            message: "\(URLParts.redacted(settings.place)) answered the request for \(what) \(answer); \(step)",
            response: response.isSuccess ? nil : response)
    }

    static func failure(in response: HTTPResponse) -> OAuth2.Failure? {
        guard let json = try? response.json(), let code = json["error"].string else { return nil }
        return OAuth2.Failure(code: code, text: json["error_description"].string)
    }

    func failure(_ message: String) -> NetworkError { NetworkError(.authentication, message: message) }

    private func secret() throws -> String {
        switch settings.secret {
        case nil: return ""
        case .value(let secret): return secret
        case .variable(let name):
            if let secret = ProcessInfo.processInfo.environment[name], !secret.isEmpty { return secret }
            throw failure(
                "the environment variable \(name), with the secret of \"\(settings.clientID)\", is not set; set it")
        case .file(let path):
            let text = (try? String(contentsOfFile: path, encoding: .utf8))?
                .split(whereSeparator: \.isNewline).first.map(String.init)
            if let text, !text.isEmpty { return text }
            throw failure(
                "the file \"\(path)\", with the secret of \"\(settings.clientID)\", cannot be read or is empty")
        }
    }
}

extension OAuth2.Settings {
    var sortedParameters: [(String, String)] { parameters.sorted { $0.key < $1.key }.map { ($0.key, $0.value) } }

    var scopeParameter: [(String, String)] { scopes.isEmpty ? [] : [("scope", scopes.joined(separator: " "))] }
}
