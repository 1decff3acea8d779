/// A request method (RFC 9110 §9): `GET`, `POST`, `PROPFIND`, …
///
/// ```swift
/// HTTPMethod("get") == .get        // known methods are recognised in any case
/// HTTPMethod("PROPFIND").rawValue  // any other token is sent as given
/// ```
///
/// A value may hold text that is not a token. A request with such a method
/// fails with ``NetworkError/Kind/invalidRequest`` before anything is sent.
public struct HTTPMethod: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The token that is sent. Methods are case-sensitive on the wire (RFC 9110 §9.1).
    public let rawValue: String

    /// Makes a method from text. The methods that have a constant here are recognised in any
    /// case; every other text is kept as given.
    public init(_ text: String) {
        rawValue = HTTPMethod.canonical[text] ?? HTTPMethod.canonical[text.lowercased()] ?? text
    }

    /// The same as ``init(_:)``; never fails.
    public init(rawValue: String) { self.init(rawValue) }

    /// The same as ``init(_:)``.
    public init(stringLiteral value: String) { self.init(value) }

    /// `GET`, RFC 9110 §9.3.1.
    public static let get = HTTPMethod("GET")
    /// `HEAD`, RFC 9110 §9.3.2.
    public static let head = HTTPMethod("HEAD")
    /// `POST`, RFC 9110 §9.3.3.
    public static let post = HTTPMethod("POST")
    /// `PUT`, RFC 9110 §9.3.4.
    public static let put = HTTPMethod("PUT")
    /// `DELETE`, RFC 9110 §9.3.5.
    public static let delete = HTTPMethod("DELETE")
    /// `CONNECT`, RFC 9110 §9.3.6. Not for callers: the engine makes the tunnels through a configured proxy.
    public static let connect = HTTPMethod("CONNECT")
    /// `OPTIONS`, RFC 9110 §9.3.7.
    public static let options = HTTPMethod("OPTIONS")
    /// `TRACE`, RFC 9110 §9.3.8.
    public static let trace = HTTPMethod("TRACE")
    /// `PATCH`, RFC 5789.
    public static let patch = HTTPMethod("PATCH")
    /// `QUERY`, RFC 10008: a safe request whose question is in its body.
    public static let query = HTTPMethod("QUERY")

    /// Whether the text is a token (RFC 9110 §5.6.2). Only tokens can be sent.
    public var isToken: Bool { rawValue.utf8.isToken }

    /// Whether sending the request twice has the same effect as sending it once
    /// (RFC 9110 §9.2.2). By default only idempotent requests are repeated.
    public var isIdempotent: Bool { isSafe || self == .put || self == .delete }

    /// Whether the method is safe: the request only reads (RFC 9110 §9.2.1).
    public var isSafe: Bool {
        switch rawValue {
        case "GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "PROPFIND", "REPORT", "SEARCH": true
        default: false
        }
    }

    /// Whether parameters go into the query (`GET`, `HEAD`, `DELETE`) rather than into the body.
    public var encodesParametersInQuery: Bool {
        self == .get || self == .head || self == .delete
    }

    /// The token.
    public var description: String { rawValue }

    private static let canonical: [String: String] = {
        let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"]
        return Dictionary(uniqueKeysWithValues: known.flatMap { [($0, $0), ($0.lowercased(), $0)] })
    }()

}

extension Sequence<UInt8> {
    /// Whether these bytes are a token (RFC 9110 §5.6.2): one or more `tchar`.
    @inlinable package var isToken: Bool {
        var isEmpty = true
        for byte in self {
            isEmpty = false
            let set = byte < 64 ? TokenCharacters.low : byte < 128 ? TokenCharacters.high : 0
            if set >> (UInt64(byte) & 63) & 1 == 0 { return false }
        }
        return !isEmpty
    }
}

extension String.UTF8View {
    /// Whether a field value (RFC 9110 §5.5) may have these bytes: it has no control character but the tab.
    package var isFieldValue: Bool { allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 } }
}

/// The characters of a token as a bit set: letters, digits and ``!#$%&'*+-.^_`|~``.
@usableFromInline package enum TokenCharacters {
    /// Characters below 64.
    @inlinable static var low: UInt64 { 0x03FF_6CFA_0000_0000 }
    /// Characters from 64 to 127.
    @inlinable static var high: UInt64 { 0x57FF_FFFF_C7FF_FFFE }
}
