import Cryptography
import FoundationEssentials
internal import HTTPCore

/// A server's Digest challenge (RFC 7616 §3.3), and the answer to it (§3.4).
///
/// Challenges with an unknown algorithm are not supported.
struct DigestChallenge: Hashable, Sendable {
    let realm: String
    var nonce: String
    let opaque: String?
    /// The algorithm as the server spells it; `nil` when it names none, which means MD5.
    let algorithm: String?
    /// Whether the server offers a `qop`. Without it, uses are not counted (RFC 2069).
    let countsUses: Bool
    /// Whether the server offers `qop=auth-int` alone, so that the answer covers the bytes of the body (RFC 7616 §3.4.3).
    let coversBody: Bool
    /// Whether the user name is sent as a hash.
    let hashesUser: Bool
    /// Whether the server rejected only the nonce, and the credentials may be right.
    let isStale: Bool
    /// Whether the key includes the nonces (`-sess`), so that the answer holds for one request only.
    let isForOneRequest: Bool
    /// Whether libcurl answers this challenge correctly. libcurl 7.88 takes SHA-512-256 for SHA-256, refuses some
    /// lists of `qop`, and answers `auth-int` as if the body were empty.
    let isForLibcurl: Bool
    /// Whether a user name in other characters than ASCII is sent as `username*`.
    private let isUTF8: Bool
    private let function: MessageDigest.Algorithm

    /// The maximum size of a challenge, in bytes. To limit the cache's memory, larger ones are not supported.
    private static let sizeLimit = 4096

    private static let functions: [String: MessageDigest.Algorithm] = [
        "md5": .md5, "sha-256": .sha256, "sha-512-256": .sha512Truncated, "sha-512": .sha512,
    ]

    /// The first of a server's challenges that is supported; a server lists them in the order of its preference (RFC 7616
    /// §3.7). One that covers the body is the last resort, because many bodies are not in memory.
    static func preferred(among schemes: [AuthenticationScheme]) -> DigestChallenge? {
        let challenges = schemes.compactMap { $0.name == "digest" ? DigestChallenge($0.parameters) : nil }
        return challenges.first { !$0.coversBody } ?? challenges.first
    }

    /// Makes a challenge from a scheme's parameters; `nil` for one that is not supported.
    init?(_ parameters: [String: String]) {
        guard let realm = parameters["realm"], let nonce = parameters["nonce"], !nonce.isEmpty,
            parameters.values.reduce(0, { $0 + $1.utf8.count }) <= Self.sizeLimit,
            parameters.values.allSatisfy({ $0.utf8.isFieldValue })
        else { return nil }
        var name = parameters["algorithm"]?.lowercased() ?? "md5"
        isForOneRequest = name.hasSuffix("-sess")
        if isForOneRequest { name.removeLast("-sess".count) }
        guard let function = Self.functions[name] else { return nil }
        self.function = function
        let qualities = parameters["qop"].map { FieldList.names($0) }
        if let qualities, !qualities.contains("auth"), !qualities.contains("auth-int") { return nil }
        countsUses = qualities != nil
        coversBody = qualities.map { !$0.contains("auth") } ?? false
        isForLibcurl =
            (function == .md5 || function == .sha256)
            && [nil, "auth", "auth,auth-int", "auth, auth-int"].contains(parameters["qop"]?.lowercased())
        isUTF8 = parameters["charset"]?.lowercased() == "utf-8"
        self.realm = realm
        self.nonce = nonce
        opaque = parameters["opaque"]
        algorithm = parameters["algorithm"]
        hashesUser = parameters["userhash"]?.lowercased() == "true"
        isStale = parameters["stale"]?.lowercased() == "true"
    }

    /// The request and the credentials that an answer covers.
    struct Request {
        var method: String
        /// The target of the request line: path and query.
        var target: String
        var user: String
        var password: String
        /// The bytes that are sent; `nil` when they are not in memory.
        var body: Data? = Data()
    }

    /// Returns the value of `Authorization`; `nil` when libcrypto lacks the hash function, and when the answer has to cover a
    /// body that is not in memory.
    ///
    /// - Parameter count: How often the nonce was used, including this use.
    func answer(to request: Request, count: UInt32, clientNonce: String) -> String? {
        var target = "\(request.method):\(request.target)"
        if coversBody {
            guard let body = request.body.flatMap({ hash($0) }) else { return nil }
            target += ":\(body)"
        }
        guard var key = hash("\(request.user):\(realm):\(request.password)"), let what = hash(target),
            let user = hashesUser ? hash("\(request.user):\(realm)") : request.user
        else { return nil }
        if isForOneRequest {
            guard let session = hash("\(key):\(nonce):\(clientNonce)") else { return nil }
            key = session
        }
        let digits = String(count, radix: 16)
        let use = String(repeating: "0", count: max(0, 8 - digits.count)) + digits
        let quality = coversBody ? "auth-int" : "auth"
        let middle = countsUses ? "\(nonce):\(use):\(clientNonce):\(quality)" : nonce
        guard let response = hash("\(key):\(middle):\(what)") else { return nil }
        let isPlain = !isUTF8 || user.utf8.allSatisfy { $0 < 0x80 }
        // RFC 7616 §3.4; the form is that of RFC 8187.
        let name = isPlain ? "username=\(quoted(user))" : "username*=UTF-8''\(Self.encoded(user))"
        var text = "Digest \(name), realm=\(quoted(realm)), nonce=\(quoted(nonce))"
        text += ", uri=\(quoted(request.target)), response=\"\(response)\""
        // The key of a session includes the client's nonce even where uses are not counted.
        if !countsUses, isForOneRequest { text += ", cnonce=\(quoted(clientNonce))" }
        if countsUses { text += ", cnonce=\(quoted(clientNonce)), nc=\(use), qop=\(quality)" }
        if let opaque { text += ", opaque=\(quoted(opaque))" }
        if let algorithm { text += ", algorithm=\(algorithm)" }
        if hashesUser { text += ", userhash=true" }
        return text
    }

    private func hash(_ text: String) -> String? { hash(Data(text.utf8)) }

    private func hash(_ data: Data) -> String? {
        guard let bytes = try? MessageDigest.of(Array(data), function) else { return nil }
        return MessageDigest.hexadecimal(bytes)
    }

    private static func encoded(_ text: String) -> String {
        text.utf8.reduce(into: "") { result, byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), 0x30...0x39:
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default: result += "%\(MessageDigest.hexadecimal([byte]).uppercased())"
            }
        }
    }

    private func quoted(_ text: String) -> String {
        var bytes: [UInt8] = [UInt8(ascii: "\"")]
        for byte in text.utf8 {
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { bytes.append(UInt8(ascii: "\\")) }
            bytes.append(byte)
        }
        bytes.append(UInt8(ascii: "\""))
        return String(decoding: bytes, as: UTF8.self)
    }
}
