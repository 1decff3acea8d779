import Cryptography
import FoundationEssentials
import HTTPCore

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
            let trimmed = values.map { value in
                let end = value.drop { $0 == " " || $0 == "\t" }
                return String(String(end.reversed().drop { $0 == " " || $0 == "\t" }.reversed()))
            }
            return (name, trimmed.joined(separator: ","))
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
