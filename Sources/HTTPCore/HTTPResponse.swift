public import FoundationEssentials

/// The answer to a request: status, headers, and the body, collected or as a stream.
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
    /// The version the server answered with.
    public var version: HTTPVersion
    /// The header fields in wire order, repeats kept. They are as received: `Content-Encoding` and
    /// `Content-Length` still tell of the bytes on the wire where the body was decompressed.
    public var headers: HTTPHeaders
    /// The fields sent after a chunked body (RFC 9110 §6.5); empty for a streamed body.
    public var trailers: HTTPHeaders
    /// The body. Of a collected response it can be iterated any number of times, of a stream once.
    public var body: ResponseBody
    /// The address that answered, after redirects.
    public var url: String
    /// The hops on the way to ``url``, first to last; empty when there were none.
    public var redirects: [Redirect]
    /// Where the response came from.
    public var source: Source
    /// How long the stages took.
    public var timings: Timings
    /// The failure in whose place a stored response is given.
    package var standsInFor: NetworkError?

    /// One hop: the address that was asked, and the status with which it pointed elsewhere.
    public struct Redirect: Hashable, Sendable {
        /// The address that redirected.
        public let url: String
        /// Its status: 301, 302, 303, 307 or 308.
        public let status: Int

        /// Makes a hop.
        public init(url: String, status: Int) {
            self.url = url
            self.status = status
        }
    }

    /// Where a response came from.
    public enum Source: String, Hashable, Sendable {
        /// From the network.
        case network
        /// From the cache's memory.
        case memoryCache
        /// From the cache's disk.
        case diskCache
        /// From the cache, after the server confirmed it (304).
        case revalidated
        /// From the cache though expired.
        case stale
        /// From a fixture or canned reply.
        case simulated

        /// Whether the cache gave the answer and no server was asked for it, or none could be: not so for
        /// ``revalidated``.
        public var isFromCache: Bool { self == .memoryCache || self == .diskCache || self == .stale }
    }

    /// Makes a response; transports and interceptors that answer by themselves do.
    public init(
        status: Int, reason: String = "", version: HTTPVersion = .http1_1, headers: HTTPHeaders = HTTPHeaders(),
        trailers: HTTPHeaders = HTTPHeaders(), body: ResponseBody = .empty, url: String, redirects: [Redirect] = [],
        source: Source = .network, timings: Timings = .none
    ) {
        self.status = status
        self.reason = reason
        self.version = version
        self.headers = headers
        self.trailers = trailers
        self.body = body
        self.url = url
        self.redirects = redirects
        self.source = source
        self.timings = timings
    }

    /// The bytes of a collected body. Empty for a response that was opened as a stream: read ``body`` there.
    public var data: Data { body.data ?? Data() }

    /// Whether the status is 200…299.
    public var isSuccess: Bool { (200...299).contains(status) }

    /// The body as JSON.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/decoding(path:)`` when it is none.
    public func json() throws -> JSONValue {
        do {
            return try JSONValue(parsing: data)
        } catch {
            throw decodingFailure(error)
        }
    }

    /// The body as JSON that nothing was made of yet.
    ///
    /// - Throws: as ``json()`` does.
    package func document() throws -> JSONDocument {
        do {
            return try JSONDocument(parsing: data)
        } catch {
            throw decodingFailure(error)
        }
    }

    /// The body as a value, from JSON.
    ///
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/decoding(path:)``; the path tells where in
    ///   the document the value did not fit, as in `items[3].price`.
    ///
    /// - Parameter decoder: for other strategies, of dates for one; `nil`, the default, for a quicker decoder with the
    ///   rules of `JSONDecoder`'s defaults.
    public func decode<Value: Decodable>(
        _ type: Value.Type = Value.self, decoder: JSONDecoder? = nil
    ) throws -> Value {
        do {
            if let decoder { return try decoder.decode(type, from: data) }
            return try JSONDocument(parsing: data).decode(type)
        } catch let error as JSONValue.ParsingError {
            throw decodingFailure(
                DecodingError.dataCorrupted(
                    .init(codingPath: [], debugDescription: "\(error)", underlyingError: error)),
                expecting: "\(type)")
        } catch {
            throw decodingFailure(error, expecting: "\(type)")
        }
    }

    /// The body as text, in the charset that `Content-Type` declares, else UTF-8. `nil` when the bytes are
    /// not valid in it, or the system does not know it.
    public var text: String? {
        Charset.declared(in: headers["Content-Type"]).decode(data)
    }

    private func decodingFailure(_ error: any Error, expecting type: String = "JSON") -> NetworkError {
        let path = DecodingPath(error)
        let place = path.path.isEmpty ? "" : " at \(path.path)"
        let mediaType = headers["Content-Type"].map { " (\($0))" } ?? ""
        return NetworkError(
            .decoding(path: path.path),
            message: "the body of \(data.count) bytes\(mediaType) is not \(type)\(place): \(path.reason)",
            response: self, underlying: error)
    }
}

/// Where in a document a value did not fit, and why, from what a decoder threw.
package struct DecodingPath {
    package let path: String
    package let reason: String

    package init(_ error: any Error) {
        guard let error = error as? DecodingError else {
            path = ""
            reason = "\(error)"
            return
        }
        switch error {
        case .keyNotFound(let key, let context):
            path = Self.text(context.codingPath + [key])
            reason = "there is no such key"
        case .typeMismatch(let type, let context):
            path = Self.text(context.codingPath)
            reason = "it is not of type \(type)"
        case .valueNotFound(let type, let context):
            path = Self.text(context.codingPath)
            reason = "it is null where \(type) is wanted"
        case .dataCorrupted(let context):
            path = Self.text(context.codingPath)
            reason = context.debugDescription
        @unknown default:
            path = ""
            reason = "\(error)"
        }
    }

    private static func text(_ codingPath: [any CodingKey]) -> String {
        codingPath.reduce(into: "") { text, key in
            if let index = key.intValue {
                text += "[\(index)]"
            } else {
                text += text.isEmpty ? key.stringValue : ".\(key.stringValue)"
            }
        }
    }
}
