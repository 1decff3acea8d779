import CLibcurl
import FoundationEssentials

/// The OpenSSL that libcurl uses.
enum OpenSSL {
    /// The functions of OpenSSL; `nil` when libcurl uses another TLS library or an OpenSSL older than 3.0.
    ///
    /// Written once, under Swift's lock for globals, and only read afterwards.
    nonisolated(unsafe) static let shared: UnsafePointer<lat_openssl>? = {
        guard GlobalCurl.usesOpenSSL else { return nil }
        let table = UnsafeMutablePointer<lat_openssl>.allocate(capacity: 1)
        guard lat_openssl_find(table) == 1 else {
            table.deallocate()
            return nil
        }
        return UnsafePointer(table)
    }()

    /// The result of a verification that ``TLSHandshake`` sets for a revoked certificate (`X509_V_ERR_CERT_REVOKED`).
    static let revoked: CInt = 23
    /// The one for a certificate that could not be checked (`X509_V_ERR_UNABLE_TO_GET_CRL`).
    static let notChecked: CInt = 3

    /// Whether the list names a TLS 1.2 cipher that OpenSSL knows; `nil` without OpenSSL.
    static func knows(cipherList list: String) -> Bool? {
        knows { library, context in library.pointee.SSL_CTX_set_cipher_list(context, list) }
    }

    /// Whether OpenSSL knows all of these TLS 1.3 cipher suites; `nil` without OpenSSL.
    static func knows(cipherSuites suites: String) -> Bool? {
        knows { library, context in library.pointee.SSL_CTX_set_ciphersuites(context, suites) }
    }

    /// Whether ALPN (RFC 7301) chose HTTP/2 for the connection of a handle.
    static func choseHTTP2(_ curl: UnsafeMutableRawPointer) -> Bool {
        guard let library = shared, let connection = lat_openssl_connection(curl) else { return false }
        return choseHTTP2(connection, library)
    }

    /// Whether ALPN chose HTTP/2 for an `SSL`.
    static func choseHTTP2(_ connection: UnsafeMutableRawPointer, _ library: UnsafePointer<lat_openssl>) -> Bool {
        var name: UnsafePointer<UInt8>?
        var length: CUnsignedInt = 0
        library.pointee.SSL_get0_alpn_selected(connection, &name, &length)
        return UnsafeBufferPointer(start: name, count: Int(length)).elementsEqual("h2".utf8)
    }

    private static func knows(
        _ set: (UnsafePointer<lat_openssl>, UnsafeMutableRawPointer) -> CInt
    ) -> Bool? {
        guard let library = shared, let context = library.pointee.SSL_CTX_new(library.pointee.TLS_client_method())
        else { return nil }
        defer {
            library.pointee.SSL_CTX_free(context)
            library.pointee.ERR_clear_error()
        }
        return set(library, context) == 1
    }
}

/// Trusted certificates as OpenSSL looks them up: an `X509_STORE`.
///
/// `@unchecked Sendable`: OpenSSL counts the store's references atomically and locks its content.
final class CertificateStore: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer
    private let library: UnsafePointer<lat_openssl>

    /// What is wrong with a file of certificates. ``reason`` completes a sentence whose subject is the file.
    struct Problem: Error {
        let reason: String
    }

    /// Makes an empty store; `nil` without OpenSSL, and when memory is short.
    init?() {
        guard let library = OpenSSL.shared, let pointer = library.pointee.X509_STORE_new() else { return nil }
        self.pointer = pointer
        self.library = library
        // libcurl sets the same flags: X509_V_FLAG_TRUSTED_FIRST, X509_V_FLAG_PARTIAL_CHAIN.
        _ = library.pointee.X509_STORE_set_flags(pointer, 0x8000 | 0x80000)
    }

    deinit { library.pointee.X509_STORE_free(pointer) }

    /// Adds the certificates of a PEM file.
    ///
    /// - Throws: ``Problem`` when there is no certificate or one is malformed; those before the malformed one are added.
    func add(_ pem: Data) throws(Problem) {
        var count = 0
        let isWhole = pem.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress,
                let input = library.pointee.BIO_new_mem_buf(start, CInt(clamping: bytes.count))
            else { return true }
            defer {
                _ = library.pointee.BIO_free(input)
                library.pointee.ERR_clear_error()
            }
            library.pointee.ERR_clear_error()
            // Without a pass phrase OpenSSL would ask for one on the terminal.
            var password: CChar = 0
            while let certificate = library.pointee.PEM_read_bio_X509_AUX(input, nil, nil, &password) {
                let isAdded = library.pointee.X509_STORE_add_cert(pointer, certificate) == 1
                library.pointee.X509_free(certificate)
                if !isAdded { return false }
                count += 1
            }
            // This error is expected at the end of the file: ERR_LIB_PEM, PEM_R_NO_START_LINE.
            let error = library.pointee.ERR_peek_last_error()
            return error >> 23 & 0xFF == 9 && error & 0x7F_FFFF == 108
        }
        if !isWhole { throw Problem(reason: "holds a malformed certificate after \(count) good ones; replace it") }
        if pem.isEmpty { throw Problem(reason: "is empty; give certificates in PEM") }
        if count == 0 { throw Problem(reason: "holds no certificate in PEM (-----BEGIN CERTIFICATE-----); convert it") }
    }

    /// Adds a folder whose files are named by the hash of the subject (`openssl rehash`). OpenSSL reads them on demand.
    func add(folder: String) { _ = library.pointee.X509_STORE_load_locations(pointer, nil, folder) }
}
