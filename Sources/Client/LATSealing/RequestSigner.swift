import Cryptography
import CurlTransport
public import FoundationEssentials
public import HTTPCore
import Platform

/// Signs requests: adds header fields from which the server learns who sent a request, and that it is unchanged.
///
/// ```swift
/// configuration.signer = try HMACSigner(keyID: "app-7", key: secret)
/// ```
///
/// The signer is called for each attempt and each hop of a redirect, after the request was composed and sealed. So times and
/// nonces are fresh, and the signature covers what is sent. A hop to another origin than that of the call is not signed. An
/// error that the signer throws fails the call; one that is not a ``NetworkError`` becomes ``NetworkError/Kind/provider``.
///
/// A signer of one's own implements ``sign(_:body:)``, or ``sign(_:bodyDigest:)`` if the digest is all it needs:
///
/// ```swift
/// struct Partner: RequestSigner {
///     var key: Data
///
///     func sign(_ request: HTTPRequest, body: HTTPBody.Bytes) async throws -> HTTPHeaders {
///         ["X-Partner-Signature": try HMAC.sha256(body.data(), key: key).hexadecimal]
///     }
/// }
/// ```
///
/// ``WebhookSignature`` and ``MessageSignature`` (RFC 9421) are ready to use.
public protocol RequestSigner: Sendable {
    /// The identity that requests are signed with. A stored response to a signed request is used only for requests of the
    /// same identity. Default: the name of the type; then it is used only by the same manager, for requests that name the
    /// signer in the same way, because two signers of one type may have two keys.
    var identity: String { get }
    /// Returns fields that are added to the request's headers, replacing those of the same name. Default: calls
    /// ``sign(_:bodyDigest:)`` with the digest of the body.
    ///
    /// - Parameters:
    ///   - request: The request, with its URL as it is sent.
    ///   - body: The bytes of the body as they are sent; none for a request without one.
    func sign(_ request: HTTPRequest, body: HTTPBody.Bytes) async throws -> HTTPHeaders

    /// Returns fields that are added to the request's headers, replacing those of the same name.
    ///
    /// - Parameters:
    ///   - request: The request, with its URL as it is sent.
    ///   - digest: The SHA-256 of the body in hexadecimal digits, or of no bytes for a request without one; `nil` for a
    ///     stream or multipart body, whose bytes are unknown before they are sent.
    func sign(_ request: HTTPRequest, bodyDigest digest: String?) async throws -> HTTPHeaders
}

extension RequestSigner {
    /// The name of the type.
    public var identity: String { String(reflecting: Self.self) }

    /// Calls ``sign(_:bodyDigest:)`` with the digest of the body.
    public func sign(_ request: HTTPRequest, body: HTTPBody.Bytes) async throws -> HTTPHeaders {
        try await sign(request, bodyDigest: body.isKnown ? MessageDigest.hexadecimal(body.digest()) : nil)
    }

    /// Throws ``NetworkError/Kind/provider``, because there is nothing to sign with.
    public func sign(_ request: HTTPRequest, bodyDigest digest: String?) async throws -> HTTPHeaders {
        throw NetworkError(
            .provider, message: "the signer \"\(identity)\" cannot sign; implement sign(_:body:) or sign(_:bodyDigest:)"
        )
    }
}

/// Signs with HMAC-SHA-256 (RFC 2104) over method, URL, time, nonce, chosen header fields and the body's digest.
///
/// The signature is made of this text, with a line feed after every line but the last:
///
///     LAT-HMAC-SHA256
///     POST                                     the method
///     /v1/orders?page=2                        path and query as on the wire
///     api.example.org                          the Host, lower case
///     1767225600                               seconds since 1970
///     6f1c…                                    the nonce, 32 hexadecimal digits
///     content-type:application/json            one line for each signed field that the request has, by name
///     x-tenant:7
///     9f86d0…                                  the body's SHA-256, or UNSIGNED
///
/// The signature is sent in base64 as `X-Signature`, with `X-Signature-Key`, `X-Signature-Time`, `X-Signature-Nonce`,
/// `X-Signature-Fields` (the names, separated by semicolons) and `X-Signature-Body` (the last line).
public struct HMACSigner: RequestSigner {
    /// The identifier of the key.
    public let identity: String
    private let key: Data
    private let fields: [String]
    /// Seconds since 1970.
    var clock: @Sendable () -> Int64 = { SealingCore.systemClock() / 1000 }

    /// Creates a signer.
    ///
    /// - Parameters:
    ///   - keyID: The identifier of the key for the server.
    ///   - key: The secret, 16 bytes or more.
    ///   - fields: The header fields that are signed if a request has them. Default `Content-Type` and `Authorization`.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` for a key that is too short, or a name
    ///   that is not allowed in a header.
    public init(
        keyID: String, key: Data, fields: [String] = ["Content-Type", "Authorization"]
    ) throws(NetworkError) {
        guard key.count >= 16 else {
            throw .invalidRequest("the signer's key has \(key.count) bytes; give 16 or more, preferably 32")
        }
        guard !keyID.isEmpty, keyID.utf8.allSatisfy({ (0x21..<0x7F).contains($0) }) else {
            throw .invalidRequest("the keyID \"\(keyID)\" cannot be sent; give one or more visible ASCII characters")
        }
        for field in fields where !HTTPMethod(field).isToken {
            throw .invalidRequest("\"\(field)\" is not the name of a header field; use letters, digits and hyphens")
        }
        identity = keyID
        self.key = key
        self.fields = Set(fields.map { $0.lowercased() }).sorted()
    }

    /// Returns the header fields of the signature.
    public func sign(_ request: HTTPRequest, bodyDigest digest: String?) async throws -> HTTPHeaders {
        let nonce = MessageDigest.hexadecimal(try randomBytes(16))
        let text = CanonicalRequest(request, fields: fields, time: clock(), nonce: nonce, digest: digest)
        return [
            "X-Signature-Key": identity, "X-Signature-Time": "\(text.time)", "X-Signature-Nonce": nonce,
            "X-Signature-Fields": text.fields.map(\.name).joined(separator: ";"), "X-Signature-Body": text.digest,
            "X-Signature": Data(try code(text)).base64EncodedString(),
        ]
    }

    private func code(_ text: CanonicalRequest) throws -> [UInt8] {
        try MessageDigest.hmac(Data(text.description.utf8), key: key)
    }

    /// Whether a received request was signed with this key. For servers in Swift, and for tests.
    ///
    /// Time and nonce are part of the signature, but the server has to reject old times and repeated nonces itself.
    ///
    /// - Parameters:
    ///   - method: The method of the request.
    ///   - target: Path and query as they were received.
    ///   - headers: All its fields, those of the signature included.
    ///   - body: The whole body as it was received.
    public func verifies(method: String, target: String, headers: HTTPHeaders, body: Data) -> Bool {
        guard headers["X-Signature-Key"] == identity, let time = headers["X-Signature-Time"].flatMap({ Int64($0) }),
            let nonce = headers["X-Signature-Nonce"], let names = headers["X-Signature-Fields"],
            let digest = headers["X-Signature-Body"],
            let signature = headers["X-Signature"].flatMap({ Data(base64Encoded: $0) }),
            digest == CanonicalRequest.unsigned || digest == CanonicalRequest.digest(of: body)
        else { return false }
        let text = CanonicalRequest(
            method: method, target: target, host: headers["Host"] ?? "", time: time, nonce: nonce,
            fields: CanonicalRequest.values(of: names.split(separator: ";").map(String.init), in: headers),
            digest: digest)
        guard let expected = try? code(text) else { return false }
        return isEqualInConstantTime(expected, Array(signature))
    }
}

/// The text that is signed; ``HMACSigner`` shows its format.
struct CanonicalRequest: CustomStringConvertible {
    var method: String
    var target: String
    var host: String
    var time: Int64
    var nonce: String
    var fields: [(name: String, value: String)]
    /// The body's SHA-256 in hexadecimal digits, or ``unsigned``.
    var digest: String

    /// Stands for a digest that is unknown before the body is sent.
    static let unsigned = "UNSIGNED"

    /// The values of the fields that exist, without surrounding white space, repeated ones joined by commas.
    static func values(of names: [String], in headers: HTTPHeaders) -> [(name: String, value: String)] {
        names.compactMap { name in
            let values = headers[values: name]
            guard !values.isEmpty else { return nil }
            return (name, values.map(\.trimmingFieldWhitespace).joined(separator: ","))
        }
    }

    static func digest(of body: Data) -> String? {
        (try? MessageDigest.of(body, .sha256)).map { MessageDigest.hexadecimal($0) }
    }

    var description: String {
        let lines =
            ["LAT-HMAC-SHA256", method, target, host.lowercased(), "\(time)", nonce]
            + fields.map { "\($0.name):\($0.value)" } + [digest]
        return lines.joined(separator: "\n")
    }
}

extension CanonicalRequest {
    init(_ request: HTTPRequest, fields: [String], time: Int64, nonce: String, digest: String?) {
        self.init(
            method: request.method.rawValue, target: request.wireTarget, host: request.wireHost, time: time,
            nonce: nonce, fields: Self.values(of: fields, in: request.signedHeaders), digest: digest ?? Self.unsigned)
    }
}

extension HTTPRequest {
    /// The request's fields, and the `Content-Type` of its body.
    var signedHeaders: HTTPHeaders {
        var headers = headers
        if headers["Content-Type"] == nil, let type = body?.contentType { headers["Content-Type"] = type }
        return headers
    }
}
