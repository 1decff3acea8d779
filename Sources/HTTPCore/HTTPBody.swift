public import FoundationEssentials

/// The content of a request.
///
/// ```swift
/// try await manager.startRequest("POST", url, body: .json(order))
/// try await manager.startRequest("POST", url, parameters: ["name": "Ada"], body: .form)
/// try await manager.startRequest("PUT", url, body: .file("/tmp/report.pdf"))
/// try await manager.startRequest("POST", url, body: .stream(rows, contentType: "text/csv"))
/// ```
///
/// Data and files can be sent again, after a redirect or on a fresh
/// connection; a stream can when it was made with a closure. A `Content-Type`
/// among the request's headers wins over the body's own.
public struct HTTPBody: Sendable, Hashable {
    /// Behind one pointer: most requests have no body, and all are passed around.
    package indirect enum Content: Sendable, Hashable {
        case parameters(ParameterEncoding)
        case encoded(BodyEncoder)
        case data(Data)
        case file(path: String)
        case stream(BodyStream)
        case multipart([UploadFile])
    }

    package var content: Content
    package var contentType: String?

    /// The call's parameters as a JSON object, also where the manager's default is another.
    public static var json: HTTPBody { HTTPBody(content: .parameters(.json)) }

    /// The call's parameters as `application/x-www-form-urlencoded`.
    public static var form: HTTPBody { HTTPBody(content: .parameters(.form)) }

    /// A value as JSON. Encoded when sent; a value that does not encode fails as
    /// ``NetworkError/Kind/invalidRequest`` that names the coding path.
    public static func json(_ value: some Encodable & Sendable, encoder: JSONEncoder = JSONEncoder()) -> HTTPBody {
        // Sendable: JSONEncoder's settings are read, never written, from here on.
        HTTPBody(content: .encoded(BodyEncoder { try encoder.encode(value) }), contentType: "application/json")
    }

    /// Parameters as `application/x-www-form-urlencoded`, flattened as in a query.
    public static func form(_ parameters: Parameters) -> HTTPBody {
        HTTPBody(
            content: .encoded(BodyEncoder { Data(try EncodedMembers(parameters: parameters).queryText.utf8) }),
            contentType: ParameterEncoding.form.contentType)
    }

    /// Bytes as they are.
    public static func data(_ data: Data, contentType: String? = nil) -> HTTPBody {
        HTTPBody(content: .data(data), contentType: contentType)
    }

    /// Text as UTF-8.
    public static func text(_ text: String, contentType: String = "text/plain; charset=utf-8") -> HTTPBody {
        HTTPBody(content: .data(Data(text.utf8)), contentType: contentType)
    }

    /// A file, read while it is sent, in constant memory. The type comes from the file's name when not given.
    /// A file that cannot be read fails the request before anything is sent.
    public static func file(_ path: String, contentType: String? = nil) -> HTTPBody {
        HTTPBody(content: .file(path: path), contentType: contentType ?? MediaType.forFileName(path))
    }

    /// Chunks as they come, read no faster than they are sent. It can be sent only once: where a
    /// redirect or a fresh connection would need it again, the request fails.
    ///
    /// - Parameter length: the number of bytes, when known; without it HTTP/1.1 uses chunked coding.
    public static func stream<S: AsyncSequence & Sendable>(
        _ chunks: S, length: Int64? = nil, contentType: String? = nil
    ) -> HTTPBody where S.Element == Data {
        let stream = BodyStream(length: length, isReplayable: false) { BodyStream.iterate(chunks) }
        return HTTPBody(content: .stream(stream), contentType: contentType)
    }

    /// Chunks of a sequence that the closure makes afresh each time the body is sent.
    public static func stream<S: AsyncSequence & Sendable>(
        length: Int64? = nil, contentType: String? = nil, _ makeChunks: @escaping @Sendable () -> S
    ) -> HTTPBody where S.Element == Data {
        let stream = BodyStream(length: length, isReplayable: true) { BodyStream.iterate(makeChunks()) }
        return HTTPBody(content: .stream(stream), contentType: contentType)
    }

    /// Parts as `multipart/form-data` (RFC 7578), streamed in constant memory.
    public static func multipart(_ files: [UploadFile]) -> HTTPBody {
        HTTPBody(content: .multipart(files))
    }

    /// A stream that was made elsewhere.
    package static func stream(made stream: BodyStream, contentType: String?) -> HTTPBody {
        HTTPBody(content: .stream(stream), contentType: contentType)
    }

    /// Whether the body can be sent a second time.
    public var isReplayable: Bool {
        switch content {
        case .stream(let stream): stream.isReplayable
        case .multipart(let files): files.allSatisfy(\.isReplayable)
        case .parameters, .encoded, .data, .file: true
        }
    }
}

/// How parameters become a body.
public enum ParameterEncoding: String, Hashable, Sendable {
    /// A JSON object; numbers and Booleans stay typed. The default.
    case json
    /// `application/x-www-form-urlencoded`.
    case form

    package var contentType: String {
        switch self {
        case .json: "application/json"
        case .form: "application/x-www-form-urlencoded"
        }
    }
}

/// A value that is encoded when it is sent. It equals only itself.
package final class BodyEncoder: Sendable, Hashable {
    package let encode: @Sendable () throws -> Data

    init(_ encode: @escaping @Sendable () throws -> Data) { self.encode = encode }

    package static func == (lhs: BodyEncoder, rhs: BodyEncoder) -> Bool { lhs === rhs }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// A body that is produced while it is sent. It equals only itself.
package final class BodyStream: Sendable, Hashable {
    package typealias NextChunk = () async throws -> Data?

    /// The number of bytes, `nil` when unknown.
    package let length: Int64?
    package let isReplayable: Bool
    /// Whether whoever made it tells how far it is.
    package let countsItself: Bool
    /// Starts over and returns the function that gives one chunk after the other.
    package let makeIterator: @Sendable () -> NextChunk

    package init(
        length: Int64?, isReplayable: Bool, countsItself: Bool = false,
        makeIterator: @escaping @Sendable () -> NextChunk
    ) {
        self.length = length
        self.isReplayable = isReplayable
        self.countsItself = countsItself
        self.makeIterator = makeIterator
    }

    package static func == (lhs: BodyStream, rhs: BodyStream) -> Bool { lhs === rhs }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    static func iterate<S: AsyncSequence>(_ chunks: S) -> NextChunk where S.Element == Data {
        var iterator = chunks.makeAsyncIterator()
        return { try await iterator.next() }
    }
}
