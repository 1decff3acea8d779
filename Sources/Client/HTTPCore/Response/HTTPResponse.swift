public import FoundationEssentials

/// A response: status, headers, and the body, collected or as a stream.
///
/// ```swift
/// let response = try await manager.startRequest("GET", url)
/// response.status                                  // 200
/// response.headers["content-type"]                 // "application/json"
/// try response.json()["user"]["name"].string       // "Ada", nil when absent
/// try response.decode(User.self)
/// ```
public struct HTTPResponse: Sendable {
    /// The status code (RFC 9110 §15).
    public var status: Int
    /// The reason phrase, empty when the server sent none (HTTP/2 has none).
    public var reason: String
    /// The HTTP version of the response.
    public var version: Version
    /// The header fields as received, in wire order, including repeated ones. `Content-Encoding` and `Content-Length`
    /// describe the bytes on the wire, also when the body was decompressed.
    public var headers: HTTPHeaders
    /// The fields sent after the body (RFC 9110 §6.5); empty for a streamed body.
    public var trailers: HTTPHeaders {
        get { facts.trailers }
        set { change { $0.trailers = newValue } }
    }
    /// The body. A collected body can be iterated any number of times, a stream once.
    public var body: ResponseBody
    /// The URL that the response came from, after redirects.
    public var url: String
    /// The redirects that led to ``url``, first to last; empty when there were none.
    public var redirects: [Redirect] {
        get { facts.redirects }
        set { change { $0.redirects = newValue } }
    }
    /// Where the response came from.
    public var source: Source
    /// How long the stages took.
    public var timings: Timings {
        get { facts.timings }
        set { change { $0.timings = newValue } }
    }
    /// The bytes to send on the connection after its upgrade (101); `nil` for any other response. The received ones are
    /// the ``body``.
    package var output: ConnectionOutput? {
        get { facts.output }
        set { change { $0.output = newValue } }
    }
    package var connectionFacts: ConnectionFacts? {
        get { facts.connection }
        set { change { $0.connection = newValue } }
    }
    /// How often the request was sent for it, for the errors that are made of it.
    package var attempts: Int {
        get { facts.attempts }
        set { change { $0.attempts = newValue } }
    }
    /// The failure that this stored response replaces.
    package var standsInFor: NetworkError? {
        get { facts.standsInFor }
        set { change { $0.standsInFor = newValue } }
    }
    /// The values of `Vary` of the redirects that were followed.
    package var redirectsVary: [String] {
        get { facts.redirectsVary }
        set { change { $0.redirectsVary = newValue } }
    }
    /// How ``decode(_:decoder:)`` reads values; `nil` for the standard coding.
    package var coding: CodingRules? {
        get { facts.coding }
        set { change { $0.coding = newValue } }
    }
    /// The method of the call, for the errors of ``decode(_:decoder:)``; `nil` when no manager delivered the response.
    package var requestMethod: HTTPMethod? {
        get { facts.requestMethod }
        set { change { $0.requestMethod = newValue } }
    }

    /// Whether nothing shows that the body is whole, although the call succeeded: no field tells its length, and its TLS
    /// connection was closed without `close_notify` (RFC 9112 §9.8). `false` for a body that its coding or a digest shows to be
    /// whole. Known when a stream has been read to its end; `true` until then.
    ///
    /// Such a body is never stored in the cache.
    public var mayBeCut: Bool { facts.bodyEnd?.mayBeCut ?? false }
    /// The end of a body whose length no field tells; `nil` for any other.
    package var bodyEnd: BodyEnd? {
        get { facts.bodyEnd }
        set { change { $0.bodyEnd = newValue } }
    }
    /// The value of `Content-Digest` that the engine has compared with the bytes on the wire; `nil` when it has not.
    package var comparedDigest: String? {
        get { facts.comparedDigest }
        set { change { $0.comparedDigest = newValue } }
    }

    /// Why the body, a part of the content, does not answer the request as it was sent; `nil` if nothing speaks against it.
    package var partFault: String? {
        get { facts.partFault }
        set { change { $0.partFault = newValue } }
    }

    /// What is rarely read, so that a copy of a response copies one reference to it. It changes only while one response
    /// refers to it, which makes it `Sendable`.
    private final class Facts: @unchecked Sendable {
        var trailers: HTTPHeaders
        var redirects: [Redirect]
        var timings: Timings
        var output: ConnectionOutput?
        var connection: ConnectionFacts?
        var attempts = 1
        var standsInFor: NetworkError?
        var redirectsVary: [String] = []
        var coding: CodingRules?
        var requestMethod: HTTPMethod?
        var partFault: String?
        var bodyEnd: BodyEnd?
        var comparedDigest: String?

        init(_ trailers: HTTPHeaders, _ redirects: [Redirect], _ timings: Timings) {
            (self.trailers, self.redirects, self.timings) = (trailers, redirects, timings)
        }

        convenience init(_ other: Facts) {
            self.init(other.trailers, other.redirects, other.timings)
            (output, connection, attempts) = (other.output, other.connection, other.attempts)
            (standsInFor, coding, requestMethod) = (other.standsInFor, other.coding, other.requestMethod)
            (partFault, bodyEnd, comparedDigest) = (other.partFault, other.bodyEnd, other.comparedDigest)
            redirectsVary = other.redirectsVary
        }
    }

    private var facts: Facts

    private mutating func change(_ change: (Facts) -> Void) {
        if !isKnownUniquelyReferenced(&facts) { facts = Facts(facts) }
        change(facts)
    }

    /// A redirect that was followed.
    public struct Redirect: Hashable, Sendable {
        /// The URL that redirected.
        public let url: String
        /// Its status: 301, 302, 303, 307 or 308.
        public let status: Int

        /// Makes a redirect.
        public init(url: String, status: Int) {
            self.url = url
            self.status = status
        }
    }

    /// Where a response came from.
    public enum Source: String, Hashable, Sendable, Codable {
        /// From the network.
        case network
        /// From the cache's memory.
        case memoryCache
        /// From the cache's disk.
        case diskCache
        /// From a cache that other machines share.
        case remoteCache
        /// From the cache, after the server confirmed it (304).
        case revalidated
        /// From the cache, although expired.
        case stale
        /// From a simulation: a fixture, a response made in code, or another server.
        case simulated

        /// Whether the response came from the cache without the server. `false` for ``revalidated``, which the server
        /// confirmed.
        public var isFromCache: Bool {
            self == .memoryCache || self == .diskCache || self == .remoteCache || self == .stale
        }
    }

    /// Makes a response, for transports and for interceptors that respond without the network. By default it is of
    /// HTTP/1.1 and from the network, and everything else is empty.
    public init(
        status: Int, reason: String = "", version: Version = .http1_1,
        headers: HTTPHeaders = HTTPHeaders(),
        trailers: HTTPHeaders = HTTPHeaders(), body: ResponseBody = .empty, url: String, redirects: [Redirect] = [],
        source: Source = .network, timings: Timings = .none
    ) {
        self.status = status
        self.reason = reason
        self.version = version
        self.headers = headers
        self.body = body
        self.url = url
        self.source = source
        facts = Facts(trailers, redirects, timings)
    }

    /// The bytes of a collected body. Empty for a stream, which is read from ``body``.
    public var data: Data { body.data ?? Data() }

    /// Whether the status is 200…299.
    public var isSuccess: Bool { (200...299).contains(status) }

    /// Parses the body as JSON.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/decoding(path:)`` when the body is not JSON.
    public func json() throws -> JSONValue {
        try parsed { try JSONValue(parsing: $0) }
    }

    /// Parses the body as a JSON document whose values are made on access.
    ///
    /// - Throws: the same as ``json()``.
    package func document() throws -> JSONDocument {
        try parsed { try JSONDocument(parsing: $0) }
    }

    private func parsed<Value>(_ parse: (Data) throws -> Value) throws -> Value {
        do {
            return try parse(data)
        } catch {
            throw decodingFailure(error)
        }
    }

    /// Decodes a value from the JSON of the body. Without content (204, 304, an empty body) an optional is `nil`, and ``Empty``
    /// takes any content.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/decoding(path:)``. The path, such as `items[3].price`, is
    ///   the place in the document that did not match the type.
    ///
    /// - Parameter decoder: a decoder with settings of its own. Default `nil`: the ``Coding`` of the request or the
    ///   manager. A response that no manager delivered is decoded with the standard coding.
    public func decode<Value: Decodable>(
        _ type: Value.Type = Value.self, decoder: JSONDecoder? = nil
    ) throws -> Value {
        if type == Empty.self, let empty = Empty() as? Value { return empty }
        if hasNoContent { return try Self.nothing(type) ?? { throw noContent(type) }() }
        do {
            if let decoder = decoder ?? coding?.coding.decoder { return try decoder.decode(type, from: data) }
            return try JSONDocument(parsing: data).decode(type, by: coding)
        } catch let error as JSONValue.ParsingError {
            throw decodingFailure(
                DecodingError.dataCorrupted(
                    .init(codingPath: [], debugDescription: "\(error)", underlyingError: error)),
                expecting: "\(type)")
        } catch {
            throw decodingFailure(error, expecting: "\(type)")
        }
    }

    /// Whether there is nothing to decode: status 204 or 304, or a body that is empty or white space.
    package var hasNoContent: Bool {
        guard status != 204, status != 304 else { return true }
        return data.withUnsafeBytes { bytes in
            bytes.allSatisfy { $0 == 0x20 || $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }
        }
    }

    /// The model of a response without content: `nil` of an optional, ``Empty``, or the JSON null.
    package static func nothing<Value>(_ type: Value.Type) -> Value? {
        // Tests for an optional first, because a value casts to an optional of its type.
        if let optional = type as? any ExpressibleByNilLiteral.Type, type != JSONValue.self {
            return optional.init(nilLiteral: ()) as? Value
        }
        return Empty() as? Value ?? JSONValue.null as? Value
    }

    private func noContent(_ type: Any.Type) -> NetworkError {
        NetworkError(
            .decoding(path: ""),
            message: "the response has no content to decode \(type) from; make the model optional, or Empty",
            response: self,
            underlying: DecodingError.valueNotFound(
                type, .init(codingPath: [], debugDescription: "there is no content")))
    }

    /// The body as text, in the charset that `Content-Type` declares, else UTF-8. `nil` when the bytes are not valid in
    /// that charset or the system does not know it.
    public var text: String? {
        Charset.declared(in: headers["Content-Type"]).decode(data)
    }

    /// Whether the body is HTML, whatever its media type.
    private var isPage: Bool {
        let start = String(decoding: data.prefix(256), as: UTF8.self).lowercased().drop {
            $0.isWhitespace || $0 == "\u{FEFF}"
        }
        return ["<!doctype html", "<html", "<head"].contains { start.hasPrefix($0) }
    }

    private func decodingFailure(_ error: any Error, expecting type: String = "JSON") -> NetworkError {
        let path = DecodingPath(error)
        let place = path.path.isEmpty ? "" : " at \(path.path)"
        let mediaType = headers["Content-Type"].map { " (\($0))" } ?? ""
        let reason = isPage ? "it is an HTML page; does the address need a sign-in, or another path?" : path.reason
        return NetworkError(
            .decoding(path: path.path),
            message: "the body of \(data.count) bytes\(mediaType) is not \(type)\(place): \(reason)",
            response: self, underlying: error)
    }
}

/// The place in a document where decoding failed, and the reason, taken from a decoder's error.
package struct DecodingPath {
    package let path: String
    package let reason: String

    package init(_ error: any Error) {
        let (path, reason) =
            switch error as? DecodingError {
            case .keyNotFound(let key, let context): ((context.codingPath + [key]).jsonPath, "there is no such key")
            case .typeMismatch(let type, let context):
                (
                    context.codingPath.jsonPath,
                    context.debugDescription.isEmpty ? "it is not of type \(type)" : context.debugDescription
                )
            case .valueNotFound(let type, let context):
                (
                    context.codingPath.jsonPath,
                    // Our own words know more than the type; those of Foundation begin with a capital.
                    context.debugDescription.first?.isLowercase ?? false
                        ? context.debugDescription : "it is null where \(type) is expected"
                )
            case .dataCorrupted(let context): (context.codingPath.jsonPath, context.debugDescription)
            default: ("", "\(error)")
            }
        (self.path, self.reason) = (Self.shown(path, 256), Self.shown(reason, 1_000))
    }

    /// A server chooses the names and the values in it.
    private static func shown(_ text: String, _ limit: Int) -> String {
        let start = text.unicodeScalars.prefix(limit)
        return URLText.visible(String(start)) + (start.endIndex < text.endIndex ? "…" : "")
    }
}
