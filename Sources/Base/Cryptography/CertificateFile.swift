import CLibcrypto
package import FoundationEssentials

/// Checks certificates and keys before they are used for a connection.
package enum CertificateFile {
    /// A problem with a certificate or key, worded as the end of a sentence that begins with the file.
    package struct Problem: Error, Equatable {
        package let reason: String
    }

    /// The number of certificates in a PEM file. Throws when there is none, or one of them is malformed.
    @discardableResult
    package static func countCertificates(in pem: Data) throws(Problem) -> Int {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let input = buffer(pem) else { throw Problem(reason: "is empty; give certificates in PEM") }
        defer { BIO_free(input) }
        var count = 0
        while let certificate = readPEM({ PEM_read_bio_X509_AUX(input, nil, nil, $0) }) {
            X509_free(certificate)
            count += 1
        }
        // Reading ends with an error; only the one for the end of the file is expected.
        guard lat_is_end_of_pem() == 1 else {
            throw Problem(reason: "holds a malformed certificate after \(count) good ones; replace it")
        }
        guard count > 0 else {
            throw Problem(reason: "holds no certificate in PEM (-----BEGIN CERTIFICATE-----); convert it")
        }
        return count
    }

    /// Checks that a PEM certificate and a PEM key can be read and belong together.
    package static func checkPEM(certificate: Data, key: Data, password: String?) throws(Problem) {
        try countCertificates(in: certificate)
        guard let keyInput = buffer(key) else { throw Problem(reason: "has an empty key") }
        defer { BIO_free(keyInput) }
        // The data holds a certificate, so it is not empty, and this fails only without memory.
        guard let certificateInput = buffer(certificate) else { throw Problem(reason: "cannot be read") }
        defer {
            BIO_free(certificateInput)
            ERR_clear_error()
        }
        guard let certificate = readPEM({ PEM_read_bio_X509_AUX(certificateInput, nil, nil, $0) }) else {
            throw Problem(reason: "holds no certificate in PEM")
        }
        defer { X509_free(certificate) }
        guard let privateKey = privateKey(keyInput, password: password ?? "") else {
            let isEncrypted = key.firstRange(of: Data("ENCRYPTED".utf8)) != nil
            throw Problem(
                reason: isEncrypted
                    ? password == nil
                        ? "has an encrypted key; give its password" : "has a key that the password does not decrypt"
                    : "has no readable private key in PEM")
        }
        defer { EVP_PKEY_free(privateKey) }
        guard X509_check_private_key(certificate, privateKey) == 1 else {
            throw Problem(reason: "and the key do not belong together")
        }
    }

    /// Checks that a PKCS#12 file opens and holds a certificate with its key.
    ///
    /// - Returns: The file; one without a MAC (`openssl pkcs12 -export -nomac`) gets one, because `PKCS12_parse`, which
    ///   libcurl uses too, refuses it otherwise.
    package static func checkedPKCS12(_ data: Data, password: String) throws(Problem) -> Data {
        ERR_clear_error()
        defer { ERR_clear_error() }
        guard let input = buffer(data) else { throw Problem(reason: "is empty") }
        defer { BIO_free(input) }
        guard let file = d2i_PKCS12_bio(input, nil) else { throw Problem(reason: "is not a PKCS#12 file") }
        defer { PKCS12_free(file) }
        let hasMAC = PKCS12_mac_present(file) == 1
        if hasMAC {
            guard
                PKCS12_verify_mac(file, password, -1) == 1 || password.isEmpty && PKCS12_verify_mac(file, nil, 0) == 1
            else { throw Problem(reason: "does not open with the password") }
        } else if PKCS12_set_mac(file, password, -1, nil, 0, 1, nil) != 1 {
            throw Problem(reason: "has no MAC, and OpenSSL cannot add one; export it again without -nomac")
        }
        var key: OpaquePointer?
        var certificate: OpaquePointer?
        guard PKCS12_parse(file, password, &key, &certificate, nil) == 1 else {
            throw Problem(
                reason: (hasMAC ? "" : "does not open with the password, or ")
                    + "uses an encryption that OpenSSL no longer supports (most likely RC2-40); export it again with "
                    + "AES: openssl pkcs12 -export")
        }
        defer {
            EVP_PKEY_free(key)
            X509_free(certificate)
        }
        guard key != nil, certificate != nil else { throw Problem(reason: "lacks the certificate or its key") }
        guard !hasMAC else { return data }
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_PKCS12(file, &bytes)
        defer { CRYPTO_free(bytes, nil, 0) }
        guard let bytes, count > 0 else { throw Problem(reason: "cannot be copied") }
        return Data(bytes: bytes, count: Int(count))
    }

    /// Reads a private key in PEM. The caller frees it.
    static func privateKey(_ input: OpaquePointer, password: String) -> OpaquePointer? {
        readPEM(password: password) { PEM_read_bio_PrivateKey(input, nil, nil, $0) }
    }

    /// Reads an item in PEM, which the caller frees. Any kind of item can be encrypted (RFC 1421).
    ///
    /// - Parameter read: A function of libcrypto, which gets the pass phrase as its last argument. Without one, and without a
    ///   callback, it would ask on the terminal.
    static func readPEM(password: String = "", _ read: (UnsafeMutableRawPointer?) -> OpaquePointer?) -> OpaquePointer? {
        Array(password.utf8CString).withUnsafeBufferPointer { read(UnsafeMutableRawPointer(mutating: $0.baseAddress)) }
    }

    /// The data as input of libcrypto, which the caller frees; `nil` when the data is empty or cannot be copied.
    static func buffer(_ data: Data) -> OpaquePointer? {
        guard !data.isEmpty, let input = BIO_new(BIO_s_mem()) else { return nil }
        // The bytes are copied, so that the buffer does not refer to the data's storage.
        let count = data.withUnsafeBytes { BIO_write(input, $0.baseAddress, Int32(clamping: $0.count)) }
        guard count == data.count else {
            BIO_free(input)
            return nil
        }
        return input
    }
}
