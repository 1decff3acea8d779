import CLibcrypto
package import FoundationEssentials
import Synchronization

/// A revocation list (CRL, RFC 5280 §5) as libcrypto has parsed it.
///
/// `@unchecked Sendable`: the list does not change after the initializer, and libcrypto locks what it derives from it.
package final class RevocationList: @unchecked Sendable {
    /// What a list says about a certificate, whatever the time is.
    package enum Finding: Hashable, Sendable {
        case good
        case revoked
        /// The list does not count. The reason completes a sentence whose subject is the list.
        case unusable(String)
    }

    /// The name of the authority whose certificates it is about.
    package let issuer: String
    /// When it was made (`thisUpdate`).
    package let validFrom: Date?
    /// When the next list is to be there (`nextUpdate`); `nil` when it does not say.
    package let validUntil: Date?
    /// Its bytes in DER. It takes about eight times that in memory.
    package let size: Int

    private let list: OpaquePointer
    /// The findings, since to verify a list means to hash all of it.
    private let findings = Mutex(Findings())

    /// The last findings by certificate and authority.
    struct Findings {
        private var values: [[[UInt8]]: Finding] = [:]
        private var keys: [[[UInt8]]] = []
        static let limit = 64

        subscript(certificate: [UInt8], authority: [UInt8]) -> Finding? { values[[certificate, authority]] }

        /// Keeps a finding. The oldest one makes room for it.
        mutating func insert(_ finding: Finding, about certificate: [UInt8], by authority: [UInt8]) {
            guard values.updateValue(finding, forKey: [certificate, authority]) == nil else { return }
            keys.append([certificate, authority])
            if keys.count > Self.limit { values[keys.removeFirst()] = nil }
        }
    }

    /// Reads one list in DER, or any number in PEM. Equal ones count once.
    ///
    /// - Throws: a problem when there is no list, or one of them is malformed.
    package static func read(_ data: Data) throws(CertificateFile.Problem) -> [RevocationList] {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let input = CertificateFile.buffer(data) else {
            throw CertificateFile.Problem(reason: "is empty; give revocation lists in PEM")
        }
        defer { BIO_free(input) }
        // A SEQUENCE of more than 127 bytes, as each signed list is. Text has no byte above 127 in this place.
        if data.starts(with: [0x30]), data.dropFirst().first ?? 0 > 0x7F {
            guard let list = d2i_X509_CRL_bio(input, nil) else {
                throw CertificateFile.Problem(reason: "holds no revocation list in DER; replace it")
            }
            return [RevocationList(list)]
        }
        var lists: [RevocationList] = []
        var known: Set<[UInt8]> = []
        var count = 0
        while let list = CertificateFile.readPEM({ PEM_read_bio_X509_CRL(input, nil, nil, $0) }) {
            count += 1
            if known.insert(der(list)).inserted { lists.append(RevocationList(list)) } else { X509_CRL_free(list) }
        }
        guard lat_is_end_of_pem() == 1 else {
            throw CertificateFile.Problem(
                reason: "holds a malformed revocation list after \(count) good ones; replace it")
        }
        guard !lists.isEmpty else {
            throw CertificateFile.Problem(
                reason: "holds no revocation list (-----BEGIN X509 CRL-----); give one in PEM")
        }
        return lists
    }

    private init(_ list: OpaquePointer) {
        self.list = list
        issuer = CertificateFacts.text { lat_print_name($0, X509_CRL_get_issuer(list)) }
        validFrom = X509_CRL_get0_lastUpdate(list).flatMap { CertificateFacts.date($0) }
        validUntil = X509_CRL_get0_nextUpdate(list).flatMap { CertificateFacts.date($0) }
        size = Int(max(0, i2d_X509_CRL(list, nil)))
        // The first search sorts the entries. That is done here, because the engine's thread makes the others.
        guard let number = ASN1_INTEGER_new() else { return }
        defer { ASN1_INTEGER_free(number) }
        var entry: OpaquePointer?
        _ = X509_CRL_get0_by_serial(list, &entry, number)
    }

    deinit { X509_CRL_free(list) }

    private static func der(_ list: OpaquePointer) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(max(0, i2d_X509_CRL(list, nil)))) { buffer, written in
            var start = buffer.baseAddress
            written = start == nil ? 0 : Int(max(0, i2d_X509_CRL(list, &start)))
        }
    }

    /// The bytes that ``findings(of:about:by:verifying:)`` may verify in a moment, about a millisecond.
    package static let verifiedAtOnce = 256 << 10
    /// What the signature of a list costs, in bytes that are hashed.
    private static let signatureCost = 16 << 10

    /// What those lists say about a certificate that have the name of its authority.
    ///
    /// libcrypto checks signature, scope and extensions as in a chain of two certificates, of which the authority is trusted.
    ///
    /// - Parameters:
    ///   - certificate: in DER.
    ///   - authority: the certificate in DER of the one that has signed it.
    ///   - limit: how many bytes of lists may be verified. Those that were verified before do not count.
    /// - Returns: `nil` when more have to be verified.
    package static func findings(
        of lists: [RevocationList], about certificate: [UInt8], by authority: [UInt8], verifying limit: Int
    ) -> [(list: RevocationList, finding: Finding)]? {
        defer { ERR_clear_error() }
        guard !lists.isEmpty, let subject = CertificateFacts.parsed(der: certificate) else { return [] }
        defer { X509_free(subject) }
        guard let issuer = CertificateFacts.parsed(der: authority) else { return [] }
        defer { X509_free(issuer) }
        let named = lists.filter { $0.hasName(of: issuer) }
        let known = named.map { $0.findings.withLock { $0[certificate, authority] } }
        let cost = zip(named, known).reduce(0) { $0 + ($1.1 == nil ? $1.0.size + signatureCost : 0) }
        guard cost <= limit else { return nil }
        return zip(named, known).map { list, known in
            if let known { return (list, known) }
            let (finding, isLasting) = list.finding(about: subject, by: issuer)
            if isLasting { list.findings.withLock { $0.insert(finding, about: certificate, by: authority) } }
            return (list, finding)
        }
    }

    /// What those lists say about a certificate that have the name of its authority, however long it takes to verify them.
    package static func findings(
        of lists: [RevocationList], about certificate: [UInt8], by authority: [UInt8]
    ) -> [(list: RevocationList, finding: Finding)] {
        findings(of: lists, about: certificate, by: authority, verifying: .max) ?? []
    }

    /// Those lists that an authority has signed.
    ///
    /// - Parameter authority: its certificate, in DER.
    package static func signed(_ lists: [RevocationList], by authority: [UInt8]) -> [RevocationList] {
        defer { ERR_clear_error() }
        guard let issuer = CertificateFacts.parsed(der: authority) else { return [] }
        defer { X509_free(issuer) }
        return lists.filter { $0.hasName(of: issuer) && X509_CRL_verify($0.list, X509_get0_pubkey(issuer)) == 1 }
    }

    private func hasName(of authority: OpaquePointer) -> Bool {
        X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(authority)) == 0
    }

    /// What the list says, and whether it always says that, and not only now because memory is short.
    private func finding(
        about certificate: OpaquePointer, by authority: OpaquePointer
    ) -> (finding: Finding, isLasting: Bool) {
        let store = X509_STORE_new()
        let check = X509_STORE_CTX_new()
        defer {
            X509_STORE_CTX_free(check)
            X509_STORE_free(store)
        }
        // libcrypto takes a delta list for a whole one, unless X509_V_FLAG_EXTENDED_CRL_SUPPORT is set.
        if X509_CRL_get_ext_by_NID(list, NID_delta_crl, -1) >= 0 {
            return (.unusable("is a delta list, which is not supported"), true)
        }
        // The chain was verified before, and the times of the list are compared by the caller.
        let flags = X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_CRL_CHECK | X509_V_FLAG_NO_CHECK_TIME
        guard let store, let check, X509_STORE_set_flags(store, UInt(flags)) == 1,
            X509_STORE_add_cert(store, authority) == 1, X509_STORE_add_crl(store, list) == 1,
            X509_STORE_CTX_init(check, store, certificate, nil) == 1
        else { return (.unusable("cannot be checked, because memory is short"), false) }
        if X509_verify_cert(check) == 1 { return (.good, true) }
        let error = X509_STORE_CTX_get_error(check)
        if error == X509_V_ERR_CERT_REVOKED { return (.revoked, true) }
        let reason = Self.reason(error)
        return (.unusable(reason ?? "cannot be used (OpenSSL's verification error \(error))"), reason != nil)
    }

    private static func reason(_ error: Int32) -> String? {
        switch error {
        case X509_V_ERR_UNABLE_TO_GET_CRL:
            "is of another key, or an indirect or partial list, which are not supported"
        case X509_V_ERR_CRL_SIGNATURE_FAILURE, X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE: "is not signed by it"
        case X509_V_ERR_KEYUSAGE_NO_CRL_SIGN: "is signed by it, although its certificate does not allow that (cRLSign)"
        case X509_V_ERR_UNHANDLED_CRITICAL_CRL_EXTENSION: "has a critical extension that is not supported"
        case X509_V_ERR_DIFFERENT_CRL_SCOPE: "is about other certificates"
        default: nil
        }
    }
}

extension CertificateFacts {
    /// The addresses from which the revocation list of a certificate can be had without TLS (its CRL distribution points): at
    /// most four, since the peer chooses them.
    package static func listURLs(der: [UInt8]) -> [String] {
        defer { ERR_clear_error() }
        guard let certificate = parsed(der: der) else { return [] }
        defer { X509_free(certificate) }
        var urls: [String] = []
        withUnsafeMutablePointer(to: &urls) { urls in
            lat_visit_list_urls(
                certificate,
                { list, bytes, count in
                    guard let bytes, count > 0, count <= 2_048 else { return }
                    let url = String(decoding: UnsafeBufferPointer(start: bytes, count: Int(count)), as: UTF8.self)
                    list?.assumingMemoryBound(to: [String].self).pointee.append(url)
                }, urls)
        }
        return Array(
            urls.filter { $0.lowercased().hasPrefix("http://") && $0.utf8.allSatisfy { (0x21...0x7E).contains($0) } }
                .prefix(4))
    }
}
