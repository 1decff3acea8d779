import CLibcrypto
package import FoundationEssentials

/// A private or public key in PEM that signs or verifies by one scheme, through libcrypto.
package struct SignatureKey: Sendable {
    package enum Scheme: String, CaseIterable, Sendable {
        case ed25519
        /// ECDSA over P-256 with SHA-256. A signature is `r` and `s`, 32 bytes each, as in RFC 9421 and JWS.
        case ecdsaP256
        /// ECDSA over P-384 with SHA-384, 48 bytes each.
        case ecdsaP384
        /// RSASSA-PSS with SHA-512 and a salt of 64 bytes.
        case rsaPSS
        /// RSASSA-PKCS1-v1_5 with SHA-256.
        case rsaPKCS1

        var algorithm: MessageDigest.Algorithm? {
            switch self {
            case .ed25519: nil
            case .ecdsaP256, .rsaPKCS1: .sha256
            case .ecdsaP384: .sha384
            case .rsaPSS: .sha512
            }
        }

        /// The size of each number of an ECDSA signature.
        var numberSize: Int? {
            switch self {
            case .ecdsaP256: 32
            case .ecdsaP384: 48
            case .ed25519, .rsaPSS, .rsaPKCS1: nil
            }
        }

        /// The names of the types of its keys in libcrypto, their curve, and how one is made.
        fileprivate var keys: (types: [String], curve: String?, command: String) {
            switch self {
            case .ed25519: (["ED25519"], nil, "-algorithm ed25519")
            case .ecdsaP256: (["EC"], "prime256v1", "-algorithm EC -pkeyopt ec_paramgen_curve:P-256")
            case .ecdsaP384: (["EC"], "secp384r1", "-algorithm EC -pkeyopt ec_paramgen_curve:P-384")
            case .rsaPSS: (["RSA", "RSA-PSS"], nil, "-algorithm RSA -pkeyopt rsa_keygen_bits:3072")
            case .rsaPKCS1: (["RSA"], nil, "-algorithm RSA -pkeyopt rsa_keygen_bits:3072")
            }
        }
    }

    package let scheme: Scheme
    /// Whether the key can sign.
    package let isPrivate: Bool
    private let key: Ed25519.OwnedKey

    /// Reads an unencrypted private key or a public key in PEM.
    package init(pem: String, _ scheme: Scheme) throws(CertificateFile.Problem) {
        guard !pem.contains("ENCRYPTED") else {
            throw CertificateFile.Problem(
                reason: "is encrypted; decrypt it first: openssl pkey -in FILE -out DECRYPTED")
        }
        isPrivate = pem.contains("PRIVATE KEY")
        key =
            isPrivate
            ? try Ed25519.readPEM(pem, called: "private key") { CertificateFile.privateKey($0, password: "") }
            : try Ed25519.readPEM(pem, called: "private or public key") { input in
                CertificateFile.readPEM { PEM_read_bio_PUBKEY(input, nil, nil, $0) }
            }
        self.scheme = scheme
        let (types, curve, command) = scheme.keys
        let pointer = key.pointer
        guard types.contains(where: { EVP_PKEY_is_a(pointer, $0) == 1 }),
            curve.map({ Self.curve(of: pointer) == $0 }) ?? true
        else {
            throw CertificateFile.Problem(
                reason: "is of another kind; make one: openssl genpkey \(command) -out FILE")
        }
    }

    private static func curve(of key: OpaquePointer) -> String? {
        var name = [CChar](repeating: 0, count: 64)
        guard EVP_PKEY_get_group_name(key, &name, name.count, nil) == 1 else { return nil }
        return name.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } }
    }

    package func signature(of message: some ContiguousBytes) throws(CryptographyError) -> [UInt8] {
        guard let context = EVP_MD_CTX_new() else { throw .unavailable }
        defer {
            EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        guard start(context, EVP_DigestSignInit) else { throw .unavailable }
        let signature = message.withUnsafeBytes { message -> [UInt8] in
            let bytes = message.baseAddress?.assumingMemoryBound(to: UInt8.self)
            var count = 0
            guard EVP_DigestSign(context, nil, &count, bytes, message.count) == 1 else { return [] }
            var signature = [UInt8](repeating: 0, count: count)
            guard EVP_DigestSign(context, &signature, &count, bytes, message.count) == 1 else { return [] }
            return Array(signature.prefix(count))
        }
        let result = scheme.numberSize.map { Self.numbers(of: signature, size: $0) } ?? signature
        guard !result.isEmpty else { throw .unavailable }
        return result
    }

    package func verifies(_ signature: [UInt8], of message: some ContiguousBytes) -> Bool {
        var signature = signature
        if let size = scheme.numberSize {
            guard signature.count == 2 * size, let encoded = Self.encoded(numbers: signature, size: size) else {
                return false
            }
            signature = encoded
        }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer {
            EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        guard start(context, EVP_DigestVerifyInit) else { return false }
        return message.withUnsafeBytes { message in
            EVP_DigestVerify(
                context, signature, signature.count, message.baseAddress?.assumingMemoryBound(to: UInt8.self),
                message.count) == 1
        }
    }

    private typealias Start = (
        OpaquePointer?, UnsafeMutablePointer<OpaquePointer?>?, OpaquePointer?, OpaquePointer?, OpaquePointer?
    ) -> Int32

    private func start(_ context: OpaquePointer, _ begin: Start) -> Bool {
        let function = scheme.algorithm?.function
        var details: OpaquePointer?
        guard begin(context, &details, function, nil, key.pointer) == 1 else { return false }
        switch scheme {
        case .rsaPSS:
            return EVP_PKEY_CTX_set_rsa_padding(details, RSA_PKCS1_PSS_PADDING) == 1
                && EVP_PKEY_CTX_set_rsa_mgf1_md(details, function) == 1
                && EVP_PKEY_CTX_set_rsa_pss_saltlen(details, 64) == 1
        case .rsaPKCS1: return EVP_PKEY_CTX_set_rsa_padding(details, RSA_PKCS1_PADDING) == 1
        case .ed25519, .ecdsaP256, .ecdsaP384: return true
        }
    }

    // MARK: ECDSA: two numbers instead of their encoding in ASN.1

    private static func numbers(of encoded: [UInt8], size: Int) -> [UInt8] {
        encoded.withUnsafeBufferPointer { bytes in
            var start = bytes.baseAddress
            guard let signature = d2i_ECDSA_SIG(nil, &start, bytes.count) else { return [] }
            defer { ECDSA_SIG_free(signature) }
            var numbers = [UInt8](repeating: 0, count: 2 * size)
            let isDone = numbers.withUnsafeMutableBufferPointer { numbers -> Bool in
                guard let base = numbers.baseAddress else { return false }
                return BN_bn2binpad(ECDSA_SIG_get0_r(signature), base, Int32(size)) == size
                    && BN_bn2binpad(ECDSA_SIG_get0_s(signature), base + size, Int32(size)) == size
            }
            return isDone ? numbers : []
        }
    }

    private static func encoded(numbers: [UInt8], size: Int) -> [UInt8]? {
        guard let signature = ECDSA_SIG_new() else { return nil }
        defer { ECDSA_SIG_free(signature) }
        let r = BN_bin2bn(Array(numbers[..<size]), Int32(size), nil)
        let s = BN_bin2bn(Array(numbers[size...]), Int32(size), nil)
        guard ECDSA_SIG_set0(signature, r, s) == 1 else {
            BN_free(r)
            BN_free(s)
            return nil
        }
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_ECDSA_SIG(signature, &bytes)
        defer { CRYPTO_free(bytes, nil, 0) }
        guard let bytes, count > 0 else { return nil }
        return Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
    }
}
