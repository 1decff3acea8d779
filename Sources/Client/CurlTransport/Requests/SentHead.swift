import CLibcurl
import Cryptography
package import FoundationEssentials

/// The head of a request as it was sent, with the fields that libcurl adds.
package struct SentHead: Sendable {
    /// Its lines. They are read when the fields are asked for: most heads are kept by an inspector that nobody looks at.
    private let text: String
    /// The other end of the TLS connection; `nil` without TLS, and when libcurl does not use OpenSSL.
    package let peer: TLSPeer?

    /// Reads a head with or without the empty line at its end.
    package init(_ text: String, peer: TLSPeer? = nil) {
        self.text = text
        self.peer = peer
    }

    /// The request line. Over HTTP/2 and HTTP/3 it is that of HTTP/1.1 with their version.
    package var line: String { lines.first.map { String(Substring($0)) } ?? "" }

    /// The fields in the order in which they were sent.
    package var fields: [(name: String, value: String)] {
        lines.dropFirst().map { line in
            let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
            let value = line[colon...].dropFirst().drop { $0 == UInt8(ascii: " ") }
            return (String(Substring(line[..<colon])), String(Substring(value)))
        }
    }

    /// Whether a proxy was asked to open a tunnel (RFC 9110 §9.3.6).
    package var opensTunnel: Bool { text.utf8.starts(with: "CONNECT ".utf8) }

    // By bytes: going through the characters of a string cost as much as the rest of the record of a call.
    private var lines: [Substring.UTF8View] {
        text.utf8.split { $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\n") }
    }
}

/// What is known about the other end of a TLS connection.
package struct TLSPeer: Hashable, Sendable {
    /// The version in OpenSSL's notation: `TLSv1.3`.
    package let version: String
    /// The name of the cipher suite: `TLS_AES_256_GCM_SHA384`.
    package let cipher: String
    /// The subject of the certificate: `CN = example.org`.
    package let subject: String
    package let issuer: String
    package let validFrom: Date
    package let validUntil: Date
    /// Whether the certificate leads to a trusted authority. It may be `false` only where verification is off.
    package let isTrusted: Bool

    /// Reads the facts of a handle's connection; `nil` without TLS.
    init?(_ curl: UnsafeMutableRawPointer) {
        guard let library = OpenSSL.shared?.pointee, let connection = lat_openssl_connection(curl),
            let certificate = library.SSL_get1_peer_certificate(connection)
        else { return nil }
        defer { library.X509_free(certificate) }
        let count = library.i2d_X509(certificate, nil)
        var bytes = [UInt8](repeating: 0, count: max(0, Int(count)))
        let facts = bytes.withUnsafeMutableBufferPointer { buffer -> CertificateFacts? in
            var start = buffer.baseAddress
            guard library.i2d_X509(certificate, &start) == count else { return nil }
            return CertificateFacts(der: Array(buffer))
        }
        guard let facts else { return nil }
        version = library.SSL_get_version(connection).map { String(cString: $0) } ?? ""
        cipher =
            library.SSL_CIPHER_get_name(library.SSL_get_current_cipher(connection)).map { String(cString: $0) } ?? ""
        (subject, issuer) = (facts.subject, facts.issuer)
        (validFrom, validUntil) = (facts.validFrom, facts.validUntil)
        isTrusted = library.SSL_get_verify_result(connection) == 0
    }

    package init(
        version: String, cipher: String, subject: String, issuer: String, validFrom: Date, validUntil: Date,
        isTrusted: Bool = true
    ) {
        self.version = version
        self.cipher = cipher
        self.subject = subject
        self.issuer = issuer
        self.validFrom = validFrom
        self.validUntil = validUntil
        self.isTrusted = isTrusted
    }
}

/// Collects the heads that libcurl logs, which it may do in pieces.
struct SentHeads {
    private let handler: @Sendable (SentHead) -> Void
    private var bytes: [UInt8] = []
    /// A longer head than libcurl sends is not collected.
    private static let limit = 1 << 20

    init(_ handler: @escaping @Sendable (SentHead) -> Void) { self.handler = handler }

    mutating func note(_ piece: UnsafeRawBufferPointer, on curl: UnsafeMutableRawPointer) {
        bytes.append(contentsOf: piece)
        guard bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) || bytes.count > Self.limit else { return }
        handler(SentHead(String(decoding: bytes, as: UTF8.self), peer: TLSPeer(curl)))
        bytes = []
    }
}
