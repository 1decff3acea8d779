import Cryptography
public import FoundationEssentials
public import HTTPCore

/// Signs and verifies webhooks by the schemes that most services use: an HMAC of the body in a header field.
///
/// ```swift
/// let hook = try WebhookSignature(.body(header: "X-Hub-Signature-256", prefix: "sha256="), keys: [secret])
/// configuration.signer = hook                               // sending
/// try hook.verify(headers: incoming.headers, body: data)    // receiving, before anything else is done with the body
/// ```
///
/// During a rotation give the new key first and the old one after it: any of them verifies. What is sent has the code of the
/// first key, and with ``Scheme/timestamped(header:)`` and ``Scheme/standard`` that of each.
public struct WebhookSignature: RequestSigner {
    /// What is signed, and how it is written.
    public enum Scheme: Hashable, Sendable {
        /// The code of the body, in hexadecimal digits or base64, after a prefix such as `sha256=`.
        ///
        /// It says nothing about when the message was sent, so a recorded message verifies for ever: reject deliveries that
        /// were processed before by an identifier in the message.
        case body(header: String, prefix: String = "", algorithm: HMAC.Algorithm = .sha256, isBase64: Bool = false)
        /// `t=1767225600,v1=5257a8…` in the field: seconds since 1970, and the HMAC-SHA-256 of `1767225600.` and the body in
        /// hexadecimal digits, one `v1` for each key. As Stripe does in `Stripe-Signature`.
        case timestamped(header: String)
        /// Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`, with `v1,` and the HMAC-SHA-256 of
        /// `id.timestamp.body` in base64 for each key. The key is what follows `whsec_`, decoded from base64.
        case standard
    }

    /// How messages are signed.
    public let scheme: Scheme
    /// The longest age of a message, and how far in the future its time may be.
    public let tolerance: Duration
    private let keys: [Data]
    /// Seconds since 1970.
    var clock: @Sendable () -> Int64 = { SealingCore.systemClock() / 1000 }

    /// Creates a signature.
    ///
    /// - Parameters:
    ///   - scheme: How messages are signed.
    ///   - keys: The secrets, the one that signs first.
    ///   - tolerance: The longest age of a message with a time, and how far in the future its time may be. Default 5 min.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` without a key, for an empty key, for a name that
    ///   is not that of a field, and for a tolerance that is not above zero.
    public init(
        _ scheme: Scheme, keys: [Data], tolerance: Duration = .seconds(300)
    ) throws(NetworkError) {
        guard !keys.isEmpty, keys.allSatisfy({ !$0.isEmpty }) else {
            throw .invalidRequest(
                keys.isEmpty
                    ? "a webhook signature needs a key; give the secret that both sides have"
                    : "a key of the webhook signature is empty; was its variable or file read?")
        }
        for field in scheme.fields where !HTTPMethod(field).isToken {
            throw .invalidRequest("\"\(field)\" is not the name of a header field; use letters, digits and hyphens")
        }
        guard tolerance > .zero else {
            throw .invalidRequest("the tolerance of the webhook signature is \(tolerance); give more than 0")
        }
        self.scheme = scheme
        self.keys = keys
        self.tolerance = tolerance
        let names = scheme.fields.joined(separator: ",")
        identity = "webhook \(names) \(try HMAC(.sha256, Data("identity \(names)".utf8), key: keys[0]).hexadecimal)"
    }

    /// The fields of the scheme, and a code of the first key, which does not tell the key.
    public let identity: String

    /// Returns the header fields of the signature.
    public func sign(_ request: HTTPRequest, body: HTTPBody.Bytes) async throws -> HTTPHeaders {
        let time = "\(clock())"
        let data = try body.data()
        switch scheme {
        case .body(let header, let prefix, let algorithm, let isBase64):
            let code = try HMAC(algorithm, data, key: keys[0])
            return [header: prefix + (isBase64 ? code.base64 : code.hexadecimal)]
        case .timestamped(let header):
            let codes = try keys.map { "v1=" + (try Self.code(["\(time)"], data, $0).hexadecimal) }
            return [header: (["t=\(time)"] + codes).joined(separator: ",")]
        case .standard:
            let id = try request.headers[Self.id] ?? "msg_" + MessageDigest.hexadecimal(randomBytes(16))
            let codes = try keys.map { "v1," + (try Self.code([id, time], data, $0).base64) }
            return [Self.id: id, Self.time: time, Self.signature: codes.joined(separator: " ")]
        }
    }

    /// Verifies a received message. The body must be the bytes as they were received, not JSON that was decoded and encoded
    /// again.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/integrity`` with the reason: a field is missing or malformed, no
    ///   key fits, or the message is too old.
    public func verify(headers: HTTPHeaders, body: Data) throws(NetworkError) {
        switch scheme {
        case .body(let header, let prefix, let algorithm, let isBase64):
            let text = try Self.field(header, headers).trimmingFieldWhitespace
            guard text.hasPrefix(prefix) else {
                throw Self.refusal("the field \(header) does not begin with \"\(prefix)\"; check the scheme")
            }
            let given = String(text.dropFirst(prefix.count))
            try check(.zero) { key throws(NetworkError) in
                let code = try HMAC(algorithm, body, key: key)
                return code.matches(isBase64 ? given : given.lowercased())
            }
        case .timestamped(let header):
            let parts = try Self.field(header, headers).split(separator: ",").map { part in
                part.split(separator: "=", maxSplits: 1).map { String($0).trimmingFieldWhitespace }
            }
            let given = parts.filter { $0.count == 2 && $0[0] == "v1" }.map { $0[1].lowercased() }
            guard let time = parts.first(where: { $0.count == 2 && $0[0] == "t" })?[1], !given.isEmpty else {
                throw Self.refusal("the field \(header) lacks t= or v1=; check the scheme")
            }
            try check(age(of: time, in: header)) { key throws(NetworkError) in
                let code = try Self.code([time], body, key)
                return given.count(where: code.matches) > 0
            }
        case .standard:
            let id = try Self.field(Self.id, headers)
            let time = try Self.field(Self.time, headers)
            let given = try Self.field(Self.signature, headers).split(separator: " ").filter { $0.hasPrefix("v1,") }
                .map { String($0.dropFirst(3)) }
            try check(age(of: time, in: Self.time)) { key throws(NetworkError) in
                let code = try Self.code([id, time], body, key)
                return given.count(where: code.matches) > 0
            }
        }
    }

    // MARK: Parts of messages

    fileprivate static let id = "webhook-id"
    fileprivate static let time = "webhook-timestamp"
    fileprivate static let signature = "webhook-signature"

    /// The code of the parts before the body, each with a full stop after it, and the body.
    private static func code(_ parts: [String], _ body: Data, _ key: Data) throws(NetworkError) -> HMAC {
        try HMAC(.sha256, Data(parts.map { $0 + "." }.joined().utf8) + body, key: key)
    }

    private static func field(_ name: String, _ headers: HTTPHeaders) throws(NetworkError) -> String {
        let values = headers[values: name]
        guard let value = values.first else { throw refusal("the field \(name) is missing; was the message signed?") }
        // Of two, another reader could take the other one.
        guard values.count == 1 else { throw refusal("the field \(name) is there \(values.count) times") }
        return value
    }

    /// How long ago a message was sent.
    private func age(of time: String, in field: String) throws(NetworkError) -> Duration {
        guard let seconds = Int64(time), seconds >= 0 else {
            throw Self.refusal("the time in \(field) is not a number of seconds since 1970")
        }
        return .seconds(clock()) - .seconds(seconds)
    }

    /// Checks the codes first, so that a stranger learns nothing about clocks.
    private func check(
        _ age: Duration, _ matches: (_ key: Data) throws(NetworkError) -> Bool
    ) throws(NetworkError) {
        var isSigned = false
        for key in keys where try matches(key) { isSigned = true }
        guard isSigned else {
            throw Self.refusal(
                "no key fits; check the secret, and that the body is verified byte for byte as it was received")
        }
        guard age <= tolerance, age >= .zero - tolerance else {
            let seconds = age.components.seconds
            throw Self.refusal(
                "it was sent \(seconds < 0 ? "\(-seconds) s in the future" : "\(seconds) s ago"), and \(tolerance) are "
                    + "tolerated; look at the clocks, or at a message that was sent again")
        }
    }

    private static func refusal(_ reason: String) -> NetworkError {
        NetworkError(.integrity, message: "the webhook is refused: \(reason)")
    }
}

extension WebhookSignature.Scheme {
    /// The names of the fields that hold the signature.
    fileprivate var fields: [String] {
        switch self {
        case .body(let header, _, _, _), .timestamped(let header): [header]
        case .standard: [WebhookSignature.id, WebhookSignature.time, WebhookSignature.signature]
        }
    }
}
