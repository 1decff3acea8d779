import CLibcrypto
package import FoundationEssentials

/// What a certificate says, for the text of errors. Control characters are replaced, because the peer chooses the texts.
package struct CertificateFacts: Sendable {
    /// The subject: `CN = example.org, O = Example`.
    package let subject: String
    package let issuer: String
    /// The alternative names of the subject, such as `DNS:example.org` and `IP Address:127.0.0.1`.
    package let names: [String]
    package let validFrom: Date
    package let validUntil: Date
    /// The public key as a pin: `sha256//` and the digest of its SubjectPublicKeyInfo in base64.
    package let pin: String?

    /// A certificate in DER for libcrypto, which the caller frees; `nil` when it is malformed.
    static func parsed(der: [UInt8]) -> OpaquePointer? {
        der.withUnsafeBufferPointer { bytes in
            var start = bytes.baseAddress
            return d2i_X509(nil, &start, bytes.count)
        }
    }

    /// Parses a certificate in DER; `nil` when it is malformed.
    package init?(der: [UInt8]) {
        defer { ERR_clear_error() }
        guard let certificate = Self.parsed(der: der) else { return nil }
        defer { X509_free(certificate) }
        guard let validFrom = Self.date(X509_get0_notBefore(certificate)),
            let validUntil = Self.date(X509_get0_notAfter(certificate))
        else { return nil }
        (self.validFrom, self.validUntil) = (validFrom, validUntil)
        subject = Self.text { lat_print_name($0, X509_get_subject_name(certificate)) }
        issuer = Self.text { lat_print_name($0, X509_get_issuer_name(certificate)) }
        let place = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1)
        let list =
            place < 0 ? "" : Self.text(upTo: 1 << 20) { X509V3_EXT_print($0, X509_get_ext(certificate, place), 0, 0) }
        names = list.split(separator: ",").map { String($0.drop { $0 == " " }) }
        var key: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &key)
        defer { CRYPTO_free(key, nil, 0) }
        pin = key.flatMap { key in
            let digest = try? MessageDigest.of(Data(bytes: key, count: max(0, Int(count))), .sha256)
            return digest.map { "sha256//\(Data($0).base64EncodedString())" }
        }
    }

    /// The first of the names, without their kinds; the subject when there are none.
    package var nameList: String {
        guard !names.isEmpty else { return subject.isEmpty ? "no name" : subject }
        let shown = names.prefix(5).map { name in
            name.firstIndex(of: ":").map { String(name[name.index(after: $0)...]) } ?? name
        }
        return shown.joined(separator: ", ") + (names.count > 5 ? " and \(names.count - 5) more" : "")
    }

    static func date(_ time: UnsafePointer<ASN1_TIME>?) -> Date? {
        var parts = tm()
        guard ASN1_TIME_to_tm(time, &parts) == 1 else { return nil }
        return Date(timeIntervalSince1970: Double(timegm(&parts)))
    }

    /// The beginning of the text that a function of libcrypto prints.
    static func text(upTo limit: Int = 1_000, _ write: (OpaquePointer) -> Int32) -> String {
        guard let output = BIO_new(BIO_s_mem()) else { return "" }
        defer { BIO_free(output) }
        guard write(output) >= 0 else { return "" }
        var bytes = [UInt8](repeating: 0, count: min(limit, BIO_ctrl_pending(output)))
        let count = BIO_read(output, &bytes, Int32(bytes.count))
        return String(
            decoding: bytes.prefix(Int(max(0, count))).map { $0 < 0x20 || $0 == 0x7F ? UInt8(ascii: "?") : $0 },
            as: UTF8.self)
    }
}
