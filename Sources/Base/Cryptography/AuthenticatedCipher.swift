import CLibcrypto
package import FoundationEssentials

/// Authenticated encryption with associated data (RFC 5116), through libcrypto.
package enum AuthenticatedCipher: String, CaseIterable, Sendable {
    /// AES-256 in Galois/Counter Mode (NIST SP 800-38D).
    case aes256GCM
    /// ChaCha20-Poly1305 (RFC 8439).
    case chaCha20Poly1305

    package static let keyByteCount = 32
    /// The length of a nonce in bytes. A nonce must never be used twice with the same key.
    package static let nonceByteCount = 12
    /// The length of the tag in bytes. It follows the ciphertext.
    package static let tagByteCount = 16

    /// Encrypts the plaintext and appends the tag.
    package func seal(
        _ plaintext: some ContiguousBytes, key: some ContiguousBytes, nonce: [UInt8], associated: [UInt8] = []
    ) throws(CryptographyError) -> [UInt8] {
        try Self.check(plaintext)
        let context = try context(key: key, nonce: nonce, isSealing: true)
        defer { EVP_CIPHER_CTX_free(context) }
        var written: Int32 = 0
        var isDone = EVP_EncryptUpdate(context, nil, &written, associated, Int32(associated.count)) == 1
        var sealed: [UInt8] = plaintext.withUnsafeBytes { bytes in
            var sealed = [UInt8](repeating: 0, count: bytes.count + Self.tagByteCount)
            if let base = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), isDone {
                isDone = EVP_EncryptUpdate(context, &sealed, &written, base, Int32(bytes.count)) == 1
            }
            return sealed
        }
        let count = sealed.count - Self.tagByteCount
        sealed.withUnsafeMutableBufferPointer { buffer in
            guard isDone, let base = buffer.baseAddress else { return }
            let tag = base + count
            isDone =
                EVP_EncryptFinal_ex(context, tag, &written) == 1
                && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(Self.tagByteCount), tag) == 1
        }
        guard isDone else { throw .unavailable }
        return sealed
    }

    /// Decrypts the bytes and checks the tag. When the tag is wrong, no plaintext is returned.
    package func open(
        _ sealed: some ContiguousBytes, key: some ContiguousBytes, nonce: [UInt8], associated: [UInt8] = []
    ) throws(CryptographyError) -> [UInt8] {
        try Self.check(sealed)
        let context = try context(key: key, nonce: nonce, isSealing: false)
        defer { EVP_CIPHER_CTX_free(context) }
        var written: Int32 = 0
        var isRight = EVP_DecryptUpdate(context, nil, &written, associated, Int32(associated.count)) == 1
        let plaintext: [UInt8] = sealed.withUnsafeBytes { bytes in
            let count = bytes.count - Self.tagByteCount
            guard count >= 0, let base = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else {
                isRight = false
                return []
            }
            var plaintext = [UInt8](repeating: 0, count: count + 1)
            if count > 0, isRight {
                isRight = EVP_DecryptUpdate(context, &plaintext, &written, base, Int32(count)) == 1
            }
            // The pointer is mutable, but libcrypto only reads the tag.
            let tag = UnsafeMutableRawPointer(mutating: base + count)
            isRight =
                isRight && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(Self.tagByteCount), tag) == 1
            var end: [UInt8] = [0]
            isRight = isRight && EVP_DecryptFinal_ex(context, &end, &written) == 1
            plaintext.removeLast()
            return plaintext
        }
        guard isRight else { throw .authentication }
        return plaintext
    }

    /// Checks that the length fits into the `int` of libcrypto's functions.
    private static func check(_ bytes: some ContiguousBytes) throws(CryptographyError) {
        guard bytes.withUnsafeBytes({ $0.count }) <= Int(Int32.max) - tagByteCount else { throw .tooLong }
    }

    private func context(
        key: some ContiguousBytes, nonce: [UInt8], isSealing: Bool
    ) throws(CryptographyError) -> OpaquePointer {
        let found = key.withUnsafeBytes(\.count)
        guard found == Self.keyByteCount else { throw .keyLength(expected: Self.keyByteCount, found: found) }
        guard nonce.count == Self.nonceByteCount else {
            throw .nonceLength(expected: Self.nonceByteCount, found: nonce.count)
        }
        guard let context = EVP_CIPHER_CTX_new() else { throw .unavailable }
        let cipher = self == .aes256GCM ? EVP_aes_256_gcm() : EVP_chacha20_poly1305()
        let isReady = key.withUnsafeBytes { key in
            EVP_CipherInit_ex(
                context, cipher, nil, key.baseAddress?.assumingMemoryBound(to: UInt8.self), nonce, isSealing ? 1 : 0)
        }
        guard isReady == 1 else {
            EVP_CIPHER_CTX_free(context)
            throw .unavailable
        }
        return context
    }
}

/// Returns cryptographically secure random bytes (`RAND_bytes`).
package func randomBytes(_ count: Int) throws(CryptographyError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    guard RAND_bytes(&bytes, Int32(count)) == 1 else { throw .unavailable }
    return bytes
}

package func isEqualInConstantTime(_ a: [UInt8], _ b: [UInt8]) -> Bool {
    a.count == b.count && CRYPTO_memcmp(a, b, a.count) == 0
}
