import Cryptography
public import FoundationEssentials
public import HTTPCore

/// An authentication code with a secret key (RFC 2104), computed by libcrypto: what signers and webhooks are made of.
///
/// ```swift
/// let code = try HMAC.sha256(data, key: secret)
/// code.hexadecimal                                   // "f7bc83f430538424…"
/// code.matches(incoming.headers["X-Signature"] ?? "")   // in constant time
/// ```
///
/// Two codes are compared in constant time, so that a server that compares does not tell how much of a guess was right.
public struct HMAC: Hashable, Sendable {
    /// A hash function. SHA-1 is for services that still ask for it.
    public enum Algorithm: String, Hashable, Sendable, CaseIterable {
        /// 160 bits.
        case sha1
        /// 256 bits.
        case sha256
        /// 384 bits.
        case sha384
        /// 512 bits.
        case sha512

        package var function: MessageDigest.Algorithm {
            switch self {
            case .sha1: .sha1
            case .sha256: .sha256
            case .sha384: .sha384
            case .sha512: .sha512
            }
        }
    }

    /// The bytes of the code.
    public let bytes: Data

    /// Computes the code of a message.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/unsupported`` if libcrypto does not have the function.
    public init(
        _ algorithm: Algorithm, _ message: some ContiguousBytes, key: some ContiguousBytes
    ) throws(NetworkError) {
        do {
            bytes = Data(try MessageDigest.hmac(message, key: key, algorithm.function))
        } catch {
            throw .unsupported(algorithm)
        }
    }

    /// The code with SHA-1, for services that still ask for it. Throws the same as ``init(_:_:key:)``.
    public static func sha1(_ message: some ContiguousBytes, key: some ContiguousBytes) throws(NetworkError) -> HMAC {
        try HMAC(.sha1, message, key: key)
    }

    /// The code with SHA-256. Throws the same as ``init(_:_:key:)``.
    public static func sha256(_ message: some ContiguousBytes, key: some ContiguousBytes) throws(NetworkError) -> HMAC {
        try HMAC(.sha256, message, key: key)
    }

    /// The code with SHA-512. Throws the same as ``init(_:_:key:)``.
    public static func sha512(_ message: some ContiguousBytes, key: some ContiguousBytes) throws(NetworkError) -> HMAC {
        try HMAC(.sha512, message, key: key)
    }

    /// The code as lower-case hexadecimal digits.
    public var hexadecimal: String { MessageDigest.hexadecimal(bytes) }

    /// The code in base64.
    public var base64: String { bytes.base64EncodedString() }

    /// Whether a text is this code, in hexadecimal digits of any case or in base64. Compared in constant time.
    public func matches(_ text: String) -> Bool {
        let lower = text.lowercased()
        // Both are compared, so that the time does not depend on the result of the first.
        let isHexadecimal = isEqualInConstantTime(Array(hexadecimal.utf8), Array(lower.utf8))
        let isBase64 = isEqualInConstantTime(Array(base64.utf8), Array(text.utf8))
        return isHexadecimal || isBase64
    }

    /// Whether two codes are equal, in constant time.
    public static func == (lhs: HMAC, rhs: HMAC) -> Bool { isEqualInConstantTime(Array(lhs.bytes), Array(rhs.bytes)) }
}

extension NetworkError {
    static func unsupported(_ algorithm: HMAC.Algorithm) -> NetworkError {
        NetworkError(
            .unsupported, message: "libcrypto does not support \(algorithm.rawValue); use sha256 instead")
    }
}

extension HTTPBody {
    /// The bytes of a body exactly as they are sent, for ``RequestSigner/sign(_:body:)``: after encoding, compression and
    /// sealing. The body of a request without content has no bytes.
    public struct Bytes: Sendable {
        package enum Source: Sendable {
            case data(Data)
            /// A file, and what computes its digest without reading all of it into memory.
            case file(path: String, digest: @Sendable (MessageDigest.Algorithm) throws -> [UInt8])
            /// A part of a file, by what computes its digest.
            case slice(digest: @Sendable (MessageDigest.Algorithm) throws -> [UInt8])
            /// A stream or a multipart body.
            case unknown
        }

        private let source: Source

        /// The largest file that ``data()`` reads.
        private static let limit = 64 << 20

        package init(_ source: Source) { self.source = source }

        /// The bytes of a body in memory.
        public init(_ data: Data) { source = .data(data) }

        /// Whether the bytes are known before they are sent: not for a stream and a multipart body.
        public var isKnown: Bool { if case .unknown = source { false } else { true } }

        /// All bytes. A file is read into memory.
        ///
        /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/invalidRequest`` for a body whose bytes are not known, or
        ///   ``NetworkError/Kind/requestBody`` for a file that cannot be read or has more than 64 MiB.
        public func data() throws(NetworkError) -> Data {
            switch source {
            case .data(let data): return data
            case .file(let path, _):
                return try Self.content(
                    of: path, upTo: Self.limit, "signed",
                    tooLarge: "signed as a whole; sign its digest, or send a smaller file")
            case .slice:
                throw NetworkError.invalidRequest(
                    "the signature needs the bytes of a part of a file in memory; sign the digest of the body instead")
            case .unknown: throw Self.unknown
            }
        }

        /// The digest of all bytes. A file of any size is read in pieces.
        ///
        /// - Throws: the errors of ``data()``, and ``NetworkError/Kind/unsupported`` if libcrypto does not have the function.
        public func digest(_ algorithm: HMAC.Algorithm = .sha256) throws -> Data {
            switch source {
            case .data(let data):
                do {
                    return Data(try MessageDigest.of(data, algorithm.function))
                } catch {
                    throw NetworkError.unsupported(algorithm)
                }
            case .file(_, let digest), .slice(let digest): return Data(try digest(algorithm.function))
            case .unknown: throw Self.unknown
            }
        }

        /// The value of `Content-Digest` (RFC 9530).
        package func contentDigest(_ algorithm: RequestOptions.Digests.Algorithm) throws -> String {
            RequestOptions.Digests.field(algorithm, try digest(algorithm == .sha512 ? .sha512 : .sha256))
        }

        private static let unknown = NetworkError.invalidRequest(
            "a signature or digest needs the bytes of the body, which a stream or a multipart body has only while it is sent; send "
                + "data or a file, or leave the body out of it")

        /// The content of a file that is signed or sealed.
        ///
        /// - Parameters:
        ///   - limit: The largest size in bytes.
        ///   - purpose: What is done with it, as in `sealed`.
        ///   - tooLarge: What cannot be done with a larger file, and the next step.
        package static func content(
            of path: String, upTo limit: Int, _ purpose: String, tooLarge: String
        ) throws(NetworkError) -> Data {
            do {
                let size = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0
                guard size <= limit else {
                    throw NetworkError(
                        .requestBody,
                        message:
                            "the file \"\(path)\" has \(size) bytes, more than the \(limit) that can be \(tooLarge)")
                }
                return try Data(contentsOf: URL(filePath: path))
            } catch let error as NetworkError {
                throw error
            } catch {
                throw NetworkError(
                    .requestBody,
                    message: "the file \"\(path)\" cannot be \(purpose): \(NetworkError.reason(of: error))",
                    underlying: error)
            }
        }
    }
}
