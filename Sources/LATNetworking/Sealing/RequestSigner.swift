import Cryptography
import CurlTransport
public import FoundationEssentials
public import HTTPCore

/// Signs requests: gives the header fields by which the server knows who sent them and that nobody changed them.
///
/// ```swift
/// configuration.signer = try HMACSigner(keyID: "app-7", key: secret)
/// ```
///
/// Asked once for each attempt, after the request was put together and sealed, so that times and nonces are fresh and
/// what is signed is what is sent.
public protocol RequestSigner: Sendable {
    /// Fields laid over the request's headers.
    ///
    /// - Parameters:
    ///   - request: the request, its address as it goes on the wire.
    ///   - digest: the SHA-256 of the body in hexadecimal digits, of no bytes for none; `nil` for a stream and for
    ///   parts, whose bytes are not known before they are sent.
    func sign(_ request: HTTPRequest, bodyDigest digest: String?) async throws -> HTTPHeaders
}

/// Signs with HMAC-SHA-256 (RFC 2104) over method, address, time, nonce, chosen header fields and the body's digest.
///
/// What is signed is this text, its lines ended by line feeds but the last:
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
/// It is sent as `X-Signature`, in base64, with `X-Signature-Key`, `X-Signature-Time`, `X-Signature-Nonce`,
/// `X-Signature-Fields` (the names, with semicolons) and `X-Signature-Body` (the digest's line).
public struct HMACSigner: RequestSigner {
    private let keyID: String
    private let key: Data
    private let fields: [String]
    private let clock: @Sendable () -> Int64

    /// Makes a signer.
    ///
    /// - Parameters:
    ///   - keyID: what the server knows the key by.
    ///   - key: the secret, 16 bytes or more.
    ///   - fields: the header fields that are signed when a request has them. Default `Content-Type` and
    ///   `Authorization`.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` for a key that is too short, or a name
    ///   that cannot stand in a header.
    public init(
        keyID: String, key: Data, fields: [String] = ["Content-Type", "Authorization"]
    ) throws(NetworkError) {
        try self.init(keyID: keyID, key: key, fields: fields, clock: { SealingCore.systemClock() / 1000 })
    }

    init(
        keyID: String, key: Data, fields: [String], clock: @escaping @Sendable () -> Int64
    ) throws(NetworkError) {
        guard key.count >= 16 else {
            throw .invalidRequest("the key of a signer has \(key.count) bytes; give 16 or more, 32 are best")
        }
        guard !keyID.isEmpty, keyID.utf8.allSatisfy({ (0x21..<0x7F).contains($0) }) else {
            throw .invalidRequest("the key's name \"\(keyID)\" has to be visible ASCII, at least one character")
        }
        for field in fields where !HTTPMethod(field).isToken {
            throw .invalidRequest("\"\(field)\" is no name of a header field")
        }
        self.keyID = keyID
        self.key = key
        self.fields = Set(fields.map { $0.lowercased() }).sorted()
        self.clock = clock
    }

    /// The fields of a signature.
    public func sign(_ request: HTTPRequest, bodyDigest digest: String?) async throws -> HTTPHeaders {
        let nonce = MessageDigest.hexadecimal(try randomBytes(16))
        let text = CanonicalRequest(request, fields: fields, time: clock(), nonce: nonce, digest: digest)
        return [
            "X-Signature-Key": keyID, "X-Signature-Time": "\(text.time)", "X-Signature-Nonce": nonce,
            "X-Signature-Fields": text.fields.map(\.name).joined(separator: ";"), "X-Signature-Body": text.digest,
            "X-Signature": Data(try code(text)).base64EncodedString(),
        ]
    }

    private func code(_ text: CanonicalRequest) throws -> [UInt8] {
        try MessageDigest.hmac(Data(text.description.utf8), key: key)
    }

    /// Whether a request that came was signed with this key. For servers in Swift, and for tests.
    ///
    /// Time and nonce are part of what is signed; refusing old times and nonces seen before is the server's part.
    ///
    /// - Parameter target: path and query as they came.
    public func verifies(method: String, target: String, headers: HTTPHeaders, body: Data) -> Bool {
        guard headers["X-Signature-Key"] == keyID, let time = headers["X-Signature-Time"].flatMap({ Int64($0) }),
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

/// The text that a signature is made of; ``HMACSigner`` shows it.
struct CanonicalRequest: Equatable, CustomStringConvertible {
    var method: String
    var target: String
    var host: String
    var time: Int64
    var nonce: String
    var fields: [(name: String, value: String)]
    /// The body's SHA-256 in hexadecimal digits, or ``unsigned``.
    var digest: String

    /// In place of a digest that cannot be known.
    static let unsigned = "UNSIGNED"

    init(
        method: String, target: String, host: String, time: Int64, nonce: String,
        fields: [(name: String, value: String)], digest: String
    ) {
        self.method = method
        self.target = target
        self.host = host.lowercased()
        self.time = time
        self.nonce = nonce
        self.fields = fields
        self.digest = digest
    }

    init(_ request: HTTPRequest, fields: [String], time: Int64, nonce: String, digest: String?) {
        var headers = request.headers
        if headers["Content-Type"] == nil, let type = request.body?.contentType { headers["Content-Type"] = type }
        self.init(
            method: request.method.rawValue, target: request.wireTarget,
            host: request.wireHost,
            time: time, nonce: nonce, fields: Self.values(of: fields, in: headers), digest: digest ?? Self.unsigned)
    }

    /// The values of fields, those that there are: blanks around them taken off, repeats joined by commas.
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
            ["LAT-HMAC-SHA256", method, target, host, "\(time)", nonce] + fields.map { "\($0.name):\($0.value)" } + [
                digest
            ]
        return lines.joined(separator: "\n")
    }

    static func == (lhs: CanonicalRequest, rhs: CanonicalRequest) -> Bool { lhs.description == rhs.description }
}
