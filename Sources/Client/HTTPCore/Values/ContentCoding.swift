public import FoundationEssentials

/// A content coding (RFC 9110 §8.4.1): its name in header fields, and how bodies are coded and decoded.
///
/// ```swift
/// request.contentCoding = .gzip                 // of the request's body
/// configuration.contentCodings = [.gzip]        // of responses
/// ```
///
/// Two codings are equal when their names are.
public struct ContentCoding: Sendable, Hashable, CustomStringConvertible {
    /// The name, in lower case.
    public let name: String
    package let encoder: (@Sendable () throws -> any ContentCoding.Encoder)?
    package let decoder: (@Sendable () throws -> any ContentCoding.Decoder)?

    /// Makes a coding of the app's own.
    ///
    /// - Parameters:
    ///   - name: the name in `Content-Encoding` and `Accept-Encoding`; case does not matter.
    ///   - encoder: makes the encoder of one body. Default `nil`: bodies of requests cannot have this coding.
    ///   - decoder: makes the decoder of one body. Default `nil`: bodies of responses cannot have this coding.
    public init(
        _ name: String, encoder: (@Sendable () throws -> any ContentCoding.Encoder)? = nil,
        decoder: (@Sendable () throws -> any ContentCoding.Decoder)? = nil
    ) {
        self.name = name.lowercased()
        self.encoder = encoder
        self.decoder = decoder
    }

    /// gzip (RFC 1952).
    public static let gzip = ContentCoding("gzip")
    /// zlib (RFC 1950). Responses with it are always decoded, and servers disagree on what it is (RFC 9110 §8.4.1.2), so ask for
    /// another.
    public static let deflate = ContentCoding("deflate")
    /// Brotli (RFC 7932), where libbrotli is installed (Debian: `libbrotli1`).
    public static let br = ContentCoding("br")
    /// Zstandard (RFC 8878), where libzstd is installed (Debian: `libzstd1`).
    public static let zstd = ContentCoding("zstd")
    /// No coding, whatever the rows say.
    public static let identity = ContentCoding("identity")

    /// The codings that the SDK has itself.
    package static let known: [ContentCoding] = [.gzip, .deflate, .br, .zstd]

    /// The name.
    public var description: String { name }

    /// Whether the names are equal.
    public static func == (lhs: Self, rhs: Self) -> Bool { lhs.name == rhs.name }

    /// Hashes the name.
    public func hash(into hasher: inout Hasher) { hasher.combine(name) }
}

extension ContentCoding {
    /// Codes one body, piece by piece. Used by one task.
    public protocol Encoder: AnyObject {
        /// Returns the next coded bytes; empty when the encoder keeps the piece for later.
        ///
        /// - Parameter flushes: whether everything up to the end of the piece must be decodable from what is returned, because the
        ///   next piece may come late.
        /// - Throws: any error; the call fails with ``NetworkError/Kind/requestBody``.
        func encode(_ piece: Data, flushes: Bool) throws -> Data

        /// Returns the last coded bytes.
        ///
        /// - Throws: as ``encode(_:flushes:)``.
        func finish() throws -> Data
    }

    /// Decodes one body, piece by piece. Used by the engine's thread, so it must not wait.
    public protocol Decoder: AnyObject {
        /// Returns what a piece decodes to; empty when more is needed for it.
        ///
        /// - Throws: any error for bytes that are not in the coding; the call fails with ``NetworkError/Kind/protocolViolation``.
        func decode(_ piece: Data) throws -> Data

        /// Whether what was decoded so far is a whole body. One that ends earlier is an error.
        var isComplete: Bool { get }
    }
}
