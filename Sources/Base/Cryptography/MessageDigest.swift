import CLibcrypto
package import FoundationEssentials

/// An incremental digest, computed with libcrypto's `EVP_DigestUpdate`. One task at a time may use a value.
package struct MessageDigest: ~Copyable {
    /// A hash function. MD5 and SHA-1 are for comparison with published digests, not for security.
    package enum Algorithm: String, CaseIterable, Sendable {
        case md5, sha1, sha256, sha384, sha512
        /// SHA-512/256 (FIPS 180-4), which is not a prefix of SHA-512.
        case sha512Truncated = "sha512-256"

        package var byteCount: Int {
            switch self {
            case .md5: 16
            case .sha1: 20
            case .sha256, .sha512Truncated: 32
            case .sha384: 48
            case .sha512: 64
            }
        }

        var function: OpaquePointer? {
            switch self {
            case .md5: Function.md5.pointer
            case .sha1: Function.sha1.pointer
            case .sha256: Function.sha256.pointer
            case .sha384: Function.sha384.pointer
            case .sha512: Function.sha512.pointer
            case .sha512Truncated: Function.sha512Truncated.pointer
            }
        }
    }

    /// A hash function of libcrypto, fetched once. With `EVP_sha256()` and the like, libcrypto would fetch it for each digest.
    private struct Function: @unchecked Sendable {
        /// Never changed and never freed. libcrypto allows several threads to use it at a time.
        let pointer: OpaquePointer?

        private init(_ algorithm: Algorithm) { pointer = EVP_MD_fetch(nil, algorithm.rawValue, nil) }

        static let md5 = Function(.md5)
        static let sha1 = Function(.sha1)
        static let sha256 = Function(.sha256)
        static let sha384 = Function(.sha384)
        static let sha512 = Function(.sha512)
        static let sha512Truncated = Function(.sha512Truncated)
    }

    private let context: OpaquePointer?
    private var isValid: Bool

    package init(_ algorithm: Algorithm) {
        context = EVP_MD_CTX_new()
        isValid = context != nil && EVP_DigestInit_ex(context, algorithm.function, nil) == 1
    }

    deinit { EVP_MD_CTX_free(context) }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        guard isValid, let base = bytes.baseAddress else { return }
        isValid = EVP_DigestUpdate(context, base, bytes.count) == 1
    }

    package mutating func update(_ data: some ContiguousBytes) { data.withUnsafeBytes { update($0) } }

    /// Returns the digest of all bytes added. Throws when libcrypto lacks the function, such as MD5 in a FIPS build.
    package consuming func finalize() throws(CryptographyError) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        guard isValid, EVP_DigestFinal_ex(context, &digest, &count) == 1 else { throw .unavailable }
        return Array(digest.prefix(Int(count)))
    }

    package static func of(_ data: some ContiguousBytes, _ algorithm: Algorithm) throws(CryptographyError) -> [UInt8] {
        let digest = [UInt8](unsafeUninitializedCapacity: Int(EVP_MAX_MD_SIZE)) { digest, byteCount in
            var count: UInt32 = 0
            let isDone = data.withUnsafeBytes { data in
                EVP_Digest(data.baseAddress, data.count, digest.baseAddress, &count, algorithm.function, nil) == 1
            }
            byteCount = isDone ? Int(count) : 0
        }
        guard !digest.isEmpty else { throw .unavailable }
        return digest
    }

    /// Returns the value of `Sec-WebSocket-Accept` that belongs to a key (RFC 6455 §4.2.2).
    package static func webSocketAccept(_ key: String) -> String {
        let digest = try? of(Data((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8), .sha1)
        return Data(digest ?? []).base64EncodedString()
    }

    /// Returns the HMAC (RFC 2104) of some bytes.
    package static func hmac(
        _ data: some ContiguousBytes, key: some ContiguousBytes, _ algorithm: Algorithm = .sha256
    ) throws(CryptographyError) -> [UInt8] {
        var code = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        let isDone = key.withUnsafeBytes { key in
            data.withUnsafeBytes { data in
                // A null key would mean the previous key, so an empty key needs an address.
                let none: [UInt8] = [0]
                return none.withUnsafeBytes { none in
                    HMAC(
                        algorithm.function, key.baseAddress ?? none.baseAddress, Int32(key.count),
                        data.baseAddress?.assumingMemoryBound(to: UInt8.self), data.count, &code, &count) != nil
                }
            }
        }
        guard isDone else { throw .unavailable }
        return Array(code.prefix(Int(count)))
    }

    /// Returns bytes as lower-case hexadecimal digits.
    package static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
        func digit(_ value: UInt8) -> UInt8 { value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10 }
        let bytes = Array(bytes)
        return String(unsafeUninitializedCapacity: 2 * bytes.count) { text in
            for (index, byte) in bytes.enumerated() {
                text[2 * index] = digit(byte >> 4)
                text[2 * index + 1] = digit(byte & 15)
            }
            return 2 * bytes.count
        }
    }
}

/// A failure of libcrypto, or an input that it cannot take.
package enum CryptographyError: Error, Equatable {
    /// libcrypto does not support the function, or has no memory or randomness left.
    case unavailable
    /// The key does not have the length that the cipher requires.
    case keyLength(expected: Int, found: Int)
    /// The nonce does not have the length that the cipher requires.
    case nonceLength(expected: Int, found: Int)
    /// The tag does not match the sealed bytes, key, nonce and associated data.
    case authentication
    /// The data does not fit into the `int` of libcrypto: it is longer than about 2 GiB.
    case tooLong
}
