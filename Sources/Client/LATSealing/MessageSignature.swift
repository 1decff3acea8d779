import Cryptography
public import FoundationEssentials
public import HTTPCore

/// Signs requests by HTTP Message Signatures (RFC 9421), with the digest of the body in `Content-Digest` (RFC 9530).
///
/// ```swift
/// configuration.signer = try MessageSignature(key: .ed25519(pem: pem), keyID: "app-7")
/// configuration.networkInterceptors = [
///     try MessageSignature.Verifier(keys: ["server-1": .ecdsaP256(pem: publicPEM)], requires: ["@status", "content-digest"])
/// ]
/// ```
///
/// A component is a header field, or one of `@method`, `@target-uri`, `@authority`, `@scheme`, `@request-target`, `@path`,
/// `@query` and `@query-param;name="page"`. A field may have the parameters `sf` (structured, strictly written), `bs` (its
/// bytes) and `key="member"`. For responses there are `@status`, and the components of their request with `req`.
///
/// `content-digest` is added if it is a component. A request without content is signed without `content-digest`, `content-type`
/// and `content-length`. Any other field that is a component and missing fails the request.
public struct MessageSignature: RequestSigner {
    /// A key with its algorithm (RFC 9421 §3.3). Keys in PEM are unencrypted; a public key can only verify.
    public struct Key: Sendable {
        enum Material: Sendable {
            case secret(Data)
            case pair(SignatureKey)
        }

        let material: Material
        /// The name of the algorithm in the parameter `alg`.
        public let algorithm: String

        /// A shared secret of 16 bytes or more, for HMAC-SHA-256 (`hmac-sha256`).
        ///
        /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` for a shorter one.
        public static func hmac(_ secret: Data) throws(NetworkError) -> Key {
            guard secret.count >= 16 else {
                throw .invalidRequest("the signature's key has \(secret.count) bytes; give 16 or more, preferably 32")
            }
            return Key(material: .secret(secret), algorithm: "hmac-sha256")
        }

        /// A key for Ed25519 (`ed25519`).
        ///
        /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` for a text that is not such a key in PEM.
        public static func ed25519(pem: String) throws(NetworkError) -> Key { try pair(pem, .ed25519, "ed25519") }

        /// A key for ECDSA over P-256 with SHA-256 (`ecdsa-p256-sha256`). Throws the same as ``ed25519(pem:)``.
        public static func ecdsaP256(pem: String) throws(NetworkError) -> Key {
            try pair(pem, .ecdsaP256, "ecdsa-p256-sha256")
        }

        /// A key for ECDSA over P-384 with SHA-384 (`ecdsa-p384-sha384`). Throws the same as ``ed25519(pem:)``.
        public static func ecdsaP384(pem: String) throws(NetworkError) -> Key {
            try pair(pem, .ecdsaP384, "ecdsa-p384-sha384")
        }

        /// A key for RSA with PSS and SHA-512 (`rsa-pss-sha512`). Throws the same as ``ed25519(pem:)``.
        public static func rsaPSS(pem: String) throws(NetworkError) -> Key { try pair(pem, .rsaPSS, "rsa-pss-sha512") }

        /// A key for RSA by PKCS #1 v1.5 with SHA-256 (`rsa-v1_5-sha256`). Throws the same as ``ed25519(pem:)``.
        public static func rsaPKCS1(pem: String) throws(NetworkError) -> Key {
            try pair(pem, .rsaPKCS1, "rsa-v1_5-sha256")
        }

        private static func pair(
            _ pem: String, _ scheme: SignatureKey.Scheme, _ algorithm: String
        ) throws(NetworkError) -> Key {
            do {
                return Key(material: .pair(try SignatureKey(pem: pem, scheme)), algorithm: algorithm)
            } catch {
                throw .invalidRequest("the key for \(algorithm) \(error.reason)")
            }
        }

        func signature(of text: String) throws -> [UInt8] {
            switch material {
            case .secret(let secret): try MessageDigest.hmac(Data(text.utf8), key: secret)
            case .pair(let key): try key.signature(of: Data(text.utf8))
            }
        }

        func verifies(_ signature: [UInt8], of text: String) -> Bool {
            switch material {
            case .secret(let secret):
                (try? MessageDigest.hmac(Data(text.utf8), key: secret)).map { isEqualInConstantTime($0, signature) }
                    ?? false
            case .pair(let key): key.verifies(signature, of: Data(text.utf8))
            }
        }
    }

    /// The identifier of the key, in the parameter `keyid`.
    public let identity: String
    private let key: Key
    private let components: [SignatureComponent]
    private let label: String
    private let lifetime: Duration?
    private let digest: RequestOptions.Digests.Algorithm
    private let hasNonce: Bool
    private let namesAlgorithm: Bool
    private let tag: String?
    /// Seconds since 1970.
    var clock: @Sendable () -> Int64 = { SealingCore.systemClock() / 1000 }

    /// Creates a signer.
    ///
    /// - Parameters:
    ///   - key: The key, a private or shared one.
    ///   - keyID: The identifier of the key for the server.
    ///   - components: What is signed, in this order. Default the method, the URL and the digest of the body.
    ///   - label: The name of the signature in the fields `Signature-Input` and `Signature`. Default `sig1`.
    ///   - lifetime: The time until the signature expires, which adds `expires`. Default `nil`: the server decides.
    ///   - hasNonce: Whether a random `nonce` is added, by which a server finds a request that was sent again. Default `false`.
    ///   - namesAlgorithm: Whether `alg` is added. Default `false`: the server knows it by the key.
    ///   - tag: The application that the signature is for. Default `nil`: none.
    ///   - digest: SHA-256 or SHA-512, for `Content-Digest`. Default SHA-256.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` for an unknown component, a public key, or a
    ///   value
    ///   that cannot be written.
    public init(
        key: Key, keyID: String, components: [String] = ["@method", "@target-uri", "content-digest"],
        label: String = "sig1", lifetime: Duration? = nil, hasNonce: Bool = false, namesAlgorithm: Bool = false,
        tag: String? = nil, digest: HMAC.Algorithm = .sha256
    ) throws(NetworkError) {
        if case .pair(let pair) = key.material, !pair.isPrivate {
            throw .invalidRequest("the signature's key is a public one, which can only verify; give the private key")
        }
        do throws(SignatureComponent.Problem) {
            self.components = try Self.parsed(components)
            for component in self.components where component.isOfRequest || component.name == "@status" {
                throw .init(
                    reason: "the component \(component.text) is for the signatures of responses; leave it out")
            }
        } catch {
            throw .invalidRequest("the signature cannot be made: \(error.reason)")
        }
        if let lifetime, lifetime < .seconds(1) || lifetime > .seconds(3_155_760_000) {
            throw .invalidRequest(
                "the lifetime of the signature is \(lifetime); give a second or more, at most 100 years, or nil")
        }
        guard digest == .sha256 || digest == .sha512 else {
            throw .invalidRequest("Content-Digest has no \(digest.rawValue); use sha256 or sha512")
        }
        for (name, text) in [("keyID", keyID), ("tag", tag ?? "")] where StructuredField.Value.string(text).text == nil
        {
            throw .invalidRequest("the \(name) of the signature cannot be sent; use visible ASCII characters")
        }
        var probe = StructuredField.Keyed<StructuredField.Member>()
        probe[label] = StructuredField.Member(.boolean(true))
        guard StructuredField.text(probe) != nil, !keyID.isEmpty else {
            throw .invalidRequest(
                keyID.isEmpty
                    ? "the keyID of the signature is empty; give the name by which the server knows the key"
                    : "the label \(SignatureComponent.quoted(label)) cannot be sent; use lower-case letters and digits")
        }
        identity = keyID
        self.key = key
        self.label = label
        self.lifetime = lifetime
        self.hasNonce = hasNonce
        self.namesAlgorithm = namesAlgorithm
        self.tag = tag
        self.digest = digest == .sha512 ? .sha512 : .sha256
    }

    static func parsed(_ texts: [String]) throws(SignatureComponent.Problem) -> [SignatureComponent] {
        var components: [SignatureComponent] = []
        for text in texts { components.append(try SignatureComponent(text)) }
        return components
    }

    /// Returns the header fields of the signature, and `Content-Digest` if it is signed.
    public func sign(_ request: HTTPRequest, body: HTTPBody.Bytes) async throws -> HTTPHeaders {
        var added = HTTPHeaders()
        var request = request
        let hasContent = request.body != nil
        let components = components.filter { hasContent || !Self.ofContent.contains($0.name) }
        if components.contains(where: { $0.name == "content-digest" }), !request.headers.contains("Content-Digest") {
            added["Content-Digest"] = try body.contentDigest(digest)
            request.headers.merge(added)
        }
        if components.contains(where: { $0.name == "content-length" }), !request.headers.contains("Content-Length") {
            request.headers["Content-Length"] = "\(try body.data().count)"
        }
        let member = StructuredField.Member(.list(components.map(\.member)), try parameters())
        guard let parameters = member.text else { throw NetworkError.invalidRequest("the signature cannot be written") }
        let base: String
        do {
            base = try SignedMessage(request: request).signatureBase(components, parameters)
        } catch {
            throw NetworkError.invalidRequest("the request cannot be signed: \(error.reason)")
        }
        let signature = StructuredField.Member(.bytes(try key.signature(of: base)))
        // The app's own signatures, under other labels, stay.
        added["Signature-Input"] = try Self.adding(member, label, to: request.headers[values: "Signature-Input"])
        added["Signature"] = try Self.adding(signature, label, to: request.headers[values: "Signature"])
        return added
    }

    private static let ofContent: Set<String> = ["content-digest", "content-type", "content-length"]

    /// The parameters of the signature (RFC 9421 §2.3).
    private func parameters() throws -> StructuredField.Parameters {
        var parameters = StructuredField.Parameters()
        let now = clock()
        parameters["created"] = .integer(now)
        if let lifetime { parameters["expires"] = .integer(now + lifetime.components.seconds) }
        parameters["keyid"] = .string(identity)
        if namesAlgorithm { parameters["alg"] = .string(key.algorithm) }
        if hasNonce { parameters["nonce"] = .string(Data(try randomBytes(18)).base64EncodedString()) }
        if let tag { parameters["tag"] = .string(tag) }
        return parameters
    }

    private static func adding(
        _ member: StructuredField.Member, _ label: String, to fields: [String]
    ) throws -> String {
        guard var dictionary = StructuredField.dictionary(fields.joined(separator: ", ")) else {
            throw NetworkError.invalidRequest(
                "the request has a malformed field Signature or Signature-Input; correct or remove it")
        }
        dictionary[label] = member
        return StructuredField.text(dictionary) ?? ""
    }

}
