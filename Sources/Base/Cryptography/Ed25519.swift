import CLibcrypto
package import FoundationEssentials

/// Signatures with Ed25519 (RFC 8032), made and verified by libcrypto.
package enum Ed25519 {
    /// A problem with a key, worded as the end of a sentence that begins with its name.
    package typealias Problem = CertificateFile.Problem

    package static let keyByteCount = 32
    package static let signatureByteCount = 64

    package struct PublicKey: Hashable, Sendable {
        package let bytes: [UInt8]

        /// - Parameter bytes: the 32 bytes of the key.
        package init(_ bytes: [UInt8]) throws(Problem) {
            guard bytes.count == keyByteCount else {
                throw Problem(reason: "has \(bytes.count) bytes; an Ed25519 key has \(keyByteCount)")
            }
            self.bytes = bytes
        }

        /// Reads a key in PEM (`openssl pkey -pubout`), or as base64 of its 32 bytes.
        package init(text: String) throws(Problem) {
            if text.contains("-----BEGIN") {
                let key = try Ed25519.readPEM(text, called: "public key") { input in
                    CertificateFile.readPEM { PEM_read_bio_PUBKEY(input, nil, nil, $0) }
                }
                self = try key.publicKey()
                return
            }
            let plain = String(text.filter { !$0.isWhitespace })
            guard let data = Data(base64Encoded: plain), !data.isEmpty else {
                throw Problem(reason: "is neither PEM (-----BEGIN PUBLIC KEY-----) nor base64 of 32 bytes")
            }
            try self.init(Array(data))
        }

        /// The key as base64, which ``init(text:)`` reads.
        package var text: String { Data(bytes).base64EncodedString() }

        /// Whether the owner of the key has signed a message.
        package func verifies(_ signature: [UInt8], of message: some ContiguousBytes) -> Bool {
            guard signature.count == signatureByteCount,
                let key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nil, bytes, bytes.count)
            else { return false }
            defer { EVP_PKEY_free(key) }
            guard let context = EVP_MD_CTX_new() else { return false }
            defer {
                EVP_MD_CTX_free(context)
                ERR_clear_error()
            }
            guard EVP_DigestVerifyInit(context, nil, nil, nil, key) == 1 else { return false }
            return message.withUnsafeBytes { message in
                EVP_DigestVerify(
                    context, signature, signature.count, message.baseAddress?.assumingMemoryBound(to: UInt8.self),
                    message.count) == 1
            }
        }
    }

    package struct PrivateKey: Sendable {
        private let seed: [UInt8]

        /// - Parameter seed: the 32 bytes of the private key.
        package init(seed: [UInt8]) throws(Problem) {
            guard seed.count == keyByteCount else {
                throw Problem(reason: "has \(seed.count) bytes; an Ed25519 key has \(keyByteCount)")
            }
            self.seed = seed
        }

        /// Reads an unencrypted key in PEM (`openssl genpkey -algorithm ed25519`).
        package init(pem: String) throws(Problem) {
            guard !pem.contains("ENCRYPTED") else {
                throw Problem(reason: "is encrypted; decrypt it first: openssl pkey -in FILE -out DECRYPTED")
            }
            let key = try Ed25519.readPEM(pem, called: "private key") { CertificateFile.privateKey($0, password: "") }
            seed = try key.bytes(EVP_PKEY_get_raw_private_key)
        }

        /// The key that verifies what this one signs.
        package func publicKey() throws(Problem) -> PublicKey { try owned().publicKey() }

        package func signature(of message: some ContiguousBytes) throws(Problem) -> [UInt8] {
            let key = try owned()
            guard let context = EVP_MD_CTX_new() else { throw Ed25519.unavailable }
            defer { EVP_MD_CTX_free(context) }
            var signature = [UInt8](repeating: 0, count: signatureByteCount)
            var count = signature.count
            guard EVP_DigestSignInit(context, nil, nil, nil, key.pointer) == 1 else { throw Ed25519.unavailable }
            let isDone = message.withUnsafeBytes { message in
                EVP_DigestSign(
                    context, &signature, &count, message.baseAddress?.assumingMemoryBound(to: UInt8.self),
                    message.count) == 1
            }
            guard isDone else { throw Ed25519.unavailable }
            return signature
        }

        private func owned() throws(Problem) -> OwnedKey {
            guard let key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, seed, seed.count) else {
                throw Ed25519.unavailable
            }
            return OwnedKey(key)
        }
    }

    private static let unavailable = Problem(reason: "cannot be used: libcrypto has no Ed25519")

    /// A key of libcrypto, freed with this object.
    final class OwnedKey: @unchecked Sendable {
        /// Never changed. libcrypto allows several threads to use it at a time.
        let pointer: OpaquePointer

        init(_ pointer: OpaquePointer) { self.pointer = pointer }

        deinit { EVP_PKEY_free(pointer) }

        func publicKey() throws(Problem) -> PublicKey { try PublicKey(bytes(EVP_PKEY_get_raw_public_key)) }

        /// The bytes that a function of libcrypto reads from the key.
        func bytes(
            _ read: (OpaquePointer, UnsafeMutablePointer<UInt8>, UnsafeMutablePointer<Int>) -> Int32
        ) throws(Problem) -> [UInt8] {
            var bytes = [UInt8](repeating: 0, count: keyByteCount)
            var count = bytes.count
            guard read(pointer, &bytes, &count) == 1, count == keyByteCount else {
                throw Problem(reason: "is not an Ed25519 key; make one: openssl genpkey -algorithm ed25519")
            }
            return bytes
        }
    }

    static func readPEM(
        _ text: String, called name: String, _ read: (OpaquePointer) -> OpaquePointer?
    ) throws(Problem) -> OwnedKey {
        ERR_clear_error()
        defer { ERR_clear_error() }
        let input = CertificateFile.buffer(Data(text.utf8))
        defer { BIO_free(input) }
        guard let key = input.flatMap(read) else { throw Problem(reason: "holds no \(name) in PEM") }
        return OwnedKey(key)
    }
}
