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
/// Data and files can be sent again, after a redirect or on a new connection. A stream can be sent again when it was
/// made with a closure. A `Content-Type` among the request's own headers takes precedence over the body's own; one of the
/// manager, the table or a provider is only for bodies without a type, and as a type of JSON for JSON.
public struct HTTPBody: Sendable, Hashable {
    /// Indirect, so that the content adds one pointer to a request: requests are copied often, and most have no body.
    package indirect enum Content: Sendable, Hashable {
        case parameters(ParameterEncoding)
        case encoded(BodyEncoder)
        case data(Data)
        case file(path: String)
        case stream(BodyStream)
        case multipart([UploadFile])

        package static func == (lhs: Content, rhs: Content) -> Bool {
            switch (lhs, rhs) {
            case (.parameters(let one), .parameters(let other)): one == other
            case (.encoded(let one), .encoded(let other)): one == other
            case (.data(let one), .data(let other)): one == other
            case (.file(let one), .file(let other)): one.hasSameBytes(as: other)
            case (.stream(let one), .stream(let other)): one == other
            case (.multipart(let one), .multipart(let other)): one == other
            case (.parameters, _), (.encoded, _), (.data, _), (.file, _), (.stream, _), (.multipart, _): false
            }
        }
    }

    package var content: Content
    /// The media type that the body was made with; `nil` for none, and for parameters and multipart bodies, whose type is known
    /// when they are sent.
    public package(set) var contentType: String?

    /// Whether content and type are equal. Texts are compared byte by byte.
    public static func == (lhs: HTTPBody, rhs: HTTPBody) -> Bool {
        lhs.contentType.hasSameBytes(as: rhs.contentType) && lhs.content == rhs.content
    }

    /// The call's parameters as a JSON object, whatever the manager's default.
    public static var json: HTTPBody { HTTPBody(content: .parameters(.json)) }

    /// The call's parameters as `application/x-www-form-urlencoded`, whatever the manager's default.
    public static var form: HTTPBody { HTTPBody(content: .parameters(.form)) }

    /// A value as JSON, encoded when the request is sent. When encoding fails, the request fails with
    /// ``NetworkError/Kind/invalidRequest`` and the error names the coding path.
    ///
    /// - Parameter encoder: an encoder with settings of its own. Default `nil`: the ``Coding`` of the request or the
    ///   manager.
    public static func json(_ value: some Encodable & Sendable, encoder: JSONEncoder? = nil) -> HTTPBody {
        let content = BodyEncoder { rules in
            if let encoder = encoder ?? rules?.coding.encoder { return try encoder.encode(value) }
            return try JSONValueEncoder(rules: rules).data(of: value)
        }
        return HTTPBody(content: .encoded(content), contentType: "application/json")
    }

    /// An object of values of any types as JSON, as ``json(_:encoder:)``: a literal, or parameters.
    ///
    /// ```swift
    /// try await manager.startRequest("POST", "/graphql", body: .json(["query": query, "variables": variables]))
    /// ```
    ///
    /// A `nil` is a null here, unlike in the `parameters` of a call.
    public static func json(_ members: Parameters) -> HTTPBody { json(JSONValue.Object(members), encoder: nil) }

    /// A JSON value, as ``json(_:encoder:)``. A literal may nest constants of different types.
    ///
    /// ```swift
    /// try await manager.startRequest("POST", url, body: .json(["user": ["name": "Ada", "age": 36], "tags": [1, "b", nil]]))
    /// ```
    public static func json(_ value: JSONValue) -> HTTPBody { json(value, encoder: nil) }

    /// Parameters as `application/x-www-form-urlencoded`, flattened as in a query. When encoding fails, the request
    /// fails as with ``json(_:encoder:)``.
    public static func form(_ parameters: Parameters) -> HTTPBody {
        HTTPBody(
            content: .encoded(
                BodyEncoder { rules in
                    let members = try EncodedMembers(parameters: parameters, by: JSONValueEncoder(rules: rules))
                    return Data(members.queryText.utf8)
                }),
            contentType: ParameterEncoding.form.contentType)
    }

    /// Bytes, sent unchanged. By default without a `Content-Type`.
    public static func data(_ data: Data, contentType: String? = nil) -> HTTPBody {
        HTTPBody(content: .data(data), contentType: contentType)
    }

    /// Text as UTF-8, by default `text/plain; charset=utf-8`.
    public static func text(_ text: String, contentType: String = "text/plain; charset=utf-8") -> HTTPBody {
        HTTPBody(content: .data(Data(text.utf8)), contentType: contentType)
    }

    /// A file, read in constant memory while it is sent. Without a `contentType` the file's name determines it.
    /// When the file cannot be read, the request fails with ``NetworkError/Kind/requestBody``, before anything is sent.
    public static func file(_ path: String, contentType: String? = nil) -> HTTPBody {
        HTTPBody(content: .file(path: path), contentType: contentType ?? MediaType.forFileName(path))
    }

    /// The chunks of a sequence, read no faster than they are sent, by default without a `Content-Type`. The body can
    /// be sent only once: the request fails when a redirect or a new connection needs it again. It also fails, with
    /// ``NetworkError/Kind/requestBody``, when the sequence throws.
    ///
    /// - Parameter length: the number of bytes; with 0 the sequence is not read. Default `nil`: unknown, so that HTTP/1.1 uses
    ///   chunked transfer coding.
    public static func stream<S: AsyncSequence & Sendable>(
        _ chunks: S, length: Int64? = nil, contentType: String? = nil
    ) -> HTTPBody where S.Element == Data {
        let stream = BodyStream(length: length, isReplayable: false) { BodyStream.iterate(chunks) }
        return HTTPBody(content: .stream(stream), contentType: contentType)
    }

    /// The chunks of a sequence that the closure makes again each time the body is sent; otherwise like
    /// ``stream(_:length:contentType:)``.
    public static func stream<S: AsyncSequence & Sendable>(
        length: Int64? = nil, contentType: String? = nil, _ makeChunks: @escaping @Sendable () -> S
    ) -> HTTPBody where S.Element == Data {
        let stream = BodyStream(length: length, isReplayable: true) { BodyStream.iterate(makeChunks()) }
        return HTTPBody(content: .stream(stream), contentType: contentType)
    }

    /// Parts as `multipart/form-data` (RFC 7578), streamed in constant memory. A file that cannot be read fails the
    /// request as with ``file(_:contentType:)``.
    public static func multipart(_ files: [UploadFile]) -> HTTPBody {
        HTTPBody(content: .multipart(files))
    }

    package static func stream(made stream: BodyStream, contentType: String?) -> HTTPBody {
        HTTPBody(content: .stream(stream), contentType: contentType)
    }

    /// The media type that the body itself determines; `nil` when it has none.
    package var ownContentType: String? {
        switch content {
        case .multipart: "multipart/form-data"
        case .parameters(let encoding): encoding.contentType
        case .encoded, .data, .file, .stream: contentType
        }
    }

    /// Whether a `Content-Type` that is set for all requests may name the type of this body: only if the body has none, or
    /// both are JSON, as in `application/vnd.api+json`.
    package func takesDefault(contentType: String?) -> Bool {
        guard let own = ownContentType else { return true }
        guard let contentType, MediaType.essence(of: own) == "application/json" else { return false }
        let type = MediaType.essence(of: contentType)
        return type == "application/json" || type.hasSuffix("+json")
    }

    /// What a body is made of.
    public enum Kind: Hashable, Sendable {
        /// The parameters of the call (``HTTPBody/json``, ``HTTPBody/form``).
        case parameters(ParameterEncoding)
        /// A value or parameters that are encoded when the request is sent.
        case value
        /// Bytes in memory.
        case data
        /// A file.
        case file(path: String)
        /// The chunks of a sequence.
        case stream
        /// The parts of a multipart body.
        case multipart([UploadFile])
    }

    /// What the body is made of.
    public var kind: Kind {
        switch content {
        case .parameters(let encoding): .parameters(encoding)
        case .encoded: .value
        case .data: .data
        case .file(let path): .file(path: path)
        case .stream: .stream
        case .multipart(let files): .multipart(files)
        }
    }

    /// The bytes of data, and those that a value is encoded to; `nil` for any other body, and for a value that does not encode.
    public var data: Data? {
        switch content {
        case .data(let data): data
        case .encoded(let encoder): try? encoder.encode()
        case .parameters, .file, .stream, .multipart: nil
        }
    }

    /// The number of bytes, where it is known without reading a file: that of ``data``, or the length of a stream.
    public var size: Int64? {
        if case .stream(let stream) = content { return stream.length }
        return data.map { Int64($0.count) }
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

/// A value that is encoded when it is sent. Compared by identity.
package final class BodyEncoder: Sendable, ComparedByIdentity {
    private let make: @Sendable (CodingRules?) throws -> Data
    private let rules: CodingRules?

    init(rules: CodingRules? = nil, _ make: @escaping @Sendable (CodingRules?) throws -> Data) {
        self.make = make
        self.rules = rules
    }

    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a value that does not encode. The message names its path.
    package func encode() throws(NetworkError) -> Data {
        do {
            return try make(rules)
        } catch let error as NetworkError {
            throw error
        } catch {
            throw NetworkError(
                .invalidRequest, message: "the body does not encode: \(Self.reason(error))", underlying: error)
        }
    }

    static func reason(_ error: any Error) -> String {
        // Leaves out the value itself, which may be a secret.
        guard case EncodingError.invalidValue(_, let context) = error else { return "\(error)" }
        return context.textWithPath
    }

    fileprivate func with(_ rules: CodingRules) -> BodyEncoder { BodyEncoder(rules: rules, make) }
}

extension HTTPBody {
    /// Encoded values with the coding of their request; any other body unchanged.
    package func coded(by rules: CodingRules) -> HTTPBody {
        var body = self
        switch content {
        case .encoded(let encoder): body.content = .encoded(encoder.with(rules))
        case .stream(let stream): body.content = .stream(stream.coded?(rules) ?? stream)
        case .parameters, .data, .file, .multipart: break
        }
        return body
    }
}

/// A body that is produced while it is sent. Compared by identity.
package final class BodyStream: Sendable, ComparedByIdentity {
    package typealias NextChunk = () async throws -> Data?

    /// The number of bytes, `nil` when unknown.
    package let length: Int64?
    package let isReplayable: Bool
    /// Whether the maker of the stream reports its progress.
    package let reportsProgress: Bool
    /// The part of a file that the stream consists of; `nil` for any other stream. The engine reads it from the file.
    package let slice: FileSlice?
    /// Makes the same body with another coding; `nil` for a body that has none.
    let coded: (@Sendable (CodingRules?) -> BodyStream)?
    /// Starts the body from the beginning and returns the function that gives its chunks one by one.
    package let makeIterator: @Sendable () -> NextChunk

    package init(
        length: Int64?, isReplayable: Bool, reportsProgress: Bool = false, slice: FileSlice? = nil,
        coded: (@Sendable (CodingRules?) -> BodyStream)? = nil, makeIterator: @escaping @Sendable () -> NextChunk
    ) {
        self.coded = coded
        self.slice = slice
        self.length = length
        self.isReplayable = isReplayable
        self.reportsProgress = reportsProgress
        self.makeIterator = makeIterator
    }

    static func iterate<S: AsyncSequence>(_ chunks: S) -> NextChunk where S.Element == Data {
        var iterator = chunks.makeAsyncIterator()
        return { try await iterator.next() }
    }
}

extension HTTPRequest {
    /// The trailer fields of a request, such as a checksum or signature, known only after the body was sent (RFC 9110 §6.5).
    ///
    /// ```swift
    /// request.body = .stream(rows)
    /// request.trailers = HTTPRequest.Trailers(["X-Checksum"]) { ["X-Checksum": digest.value] }
    /// ```
    ///
    /// The closure is called on the engine's thread after the last byte of the body was sent. It must not block. A request
    /// with trailers is sent over HTTP/1.1 with a chunked body, whatever its length (`CURLOPT_TRAILERFUNCTION`).
    ///
    /// Two trailers are equal when they are copies of one value and have the same names.
    public struct Trailers: Sendable, Hashable {
        /// The names in the field `Trailer`.
        public var names: [String]
        private let maker: Maker

        private final class Maker: Sendable, ComparedByIdentity {
            let make: @Sendable () -> HTTPHeaders

            init(_ make: @escaping @Sendable () -> HTTPHeaders) { self.make = make }
        }

        /// Makes the trailers of a request.
        ///
        /// - Parameters:
        ///   - names: the names of the fields. Each must be a token. Fields for framing or routing are not allowed (RFC
        ///     9110 §6.5.1).
        ///   - fields: called for the fields each time the body was sent. A field that is not among the names, or that
        ///     contains a control character, makes the request fail with ``NetworkError/Kind/requestBody``.
        public init(_ names: [String], _ fields: @escaping @Sendable () -> HTTPHeaders) {
            self.names = names
            maker = Maker(fields)
        }

        /// The fields, read after the body was sent.
        package var fields: HTTPHeaders { maker.make() }
    }
}
