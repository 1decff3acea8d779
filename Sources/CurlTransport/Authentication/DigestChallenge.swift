import Cryptography
internal import HTTPCore

/// A server's Digest challenge (RFC 7616 §3.3), and the answer to it (§3.4).
///
/// Some challenges are left to libcurl: those with `auth-int` only, those with a hash function other than MD5 and SHA-256,
/// and those with a `-sess` algorithm, whose key includes a client nonce that libcurl does not expose.
struct DigestChallenge: Hashable, Sendable {
    let realm: String
    var nonce: String
    let opaque: String?
    /// The algorithm as the server spells it; `nil` when it names none, which means MD5.
    let algorithm: String?
    /// Whether the server offers `qop=auth`. Without it, uses are not counted (RFC 2069).
    let countsUses: Bool
    /// Whether the user name is sent as a hash.
    let hashesUser: Bool
    /// Whether the server rejected only the nonce, and the credentials may be right.
    let isStale: Bool
    private let function: MessageDigest.Algorithm

    /// The maximum size of a challenge, in bytes. To limit the cache's memory, larger ones are left to libcurl.
    private static let sizeLimit = 4096

    /// Makes a challenge from a scheme's parameters; `nil` for one that is left to libcurl.
    init?(_ parameters: [String: String]) {
        guard let realm = parameters["realm"], let nonce = parameters["nonce"], !nonce.isEmpty,
            parameters.values.reduce(0, { $0 + $1.utf8.count }) <= Self.sizeLimit,
            parameters.values.allSatisfy({ $0.utf8.isFieldValue })
        else { return nil }
        switch parameters["algorithm"]?.lowercased() {
        case nil, "md5": function = .md5
        case "sha-256": function = .sha256
        default: return nil
        }
        let qualities = parameters["qop"].map { $0.lowercased().split { $0 == "," || $0 == " " || $0 == "\t" } }
        if let qualities, !qualities.contains("auth") { return nil }
        countsUses = qualities != nil
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
    }

    /// Returns the value of `Authorization`; `nil` when libcrypto lacks the hash function.
    ///
    /// - Parameter count: How often the nonce was used, including this use.
    func answer(to request: Request, count: UInt32, clientNonce: String) -> String? {
        guard let key = hash("\(request.user):\(realm):\(request.password)"),
            let what = hash("\(request.method):\(request.target)"),
            let user = hashesUser ? hash("\(request.user):\(realm)") : request.user
        else { return nil }
        let digits = String(count, radix: 16)
        let use = String(repeating: "0", count: max(0, 8 - digits.count)) + digits
        let middle = countsUses ? "\(nonce):\(use):\(clientNonce):auth" : nonce
        guard let response = hash("\(key):\(middle):\(what)") else { return nil }
        var text = "Digest username=\(quoted(user)), realm=\(quoted(realm)), nonce=\(quoted(nonce))"
        text += ", uri=\(quoted(request.target)), response=\"\(response)\""
        if countsUses { text += ", cnonce=\(quoted(clientNonce)), nc=\(use), qop=auth" }
        if let opaque { text += ", opaque=\(quoted(opaque))" }
        if let algorithm { text += ", algorithm=\(algorithm)" }
        if hashesUser { text += ", userhash=true" }
        return text
    }

    private func hash(_ text: String) -> String? {
        guard let bytes = try? MessageDigest.of(Array(text.utf8), function) else { return nil }
        return MessageDigest.hexadecimal(bytes)
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
