internal import FoundationEssentials
import JSONText
import Synchronization

extension HTTPResponse {
    /// The values of a body that is read as it arrives: one JSON text in each line (NDJSON, JSON Lines), or a JSON sequence (RFC
    /// 7464).
    ///
    /// ```swift
    /// for try await user in central.values("GET", "/users", of: User.self) { print(user.name) }
    ///
    /// let users = central.values("GET", "/users", of: User.self, options: .init(skipsBadLines: true))
    /// for try await user in users { print(user.name) }
    /// print(users.skippedCount, "lines were left out")
    /// ```
    ///
    /// The request is sent when the loop begins, and the transfer pauses while the loop is busy, so the memory stays flat. Leaving
    /// the loop cancels the transfer. Empty lines do not count as values. The last line needs no line feed, unless it is a number,
    /// of which digits may be missing.
    public struct Values<Model: Decodable & Sendable>: AsyncSequence, Sendable {
        let options: ValueOptions
        let open: @Sendable () async throws -> (response: HTTPResponse, request: HTTPRequest?)
        private let skipped = Counter()

        package init(
            _ options: ValueOptions,
            open: @escaping @Sendable () async throws -> (response: HTTPResponse, request: HTTPRequest?)
        ) {
            self.options = options
            self.open = open
        }

        /// How many lines were left out so far because they could not be decoded. More than 0 only with
        /// ``ValueOptions/skipsBadLines``.
        public var skippedCount: Int { skipped.count.load(ordering: .relaxed) }

        /// Starts a loop, which sends a request of its own.
        public func makeAsyncIterator() -> Iterator { Iterator(values: self) }

        fileprivate func noteSkipped() { skipped.count.add(1, ordering: .relaxed) }

        /// The iterator of the values.
        public struct Iterator: AsyncIteratorProtocol {
            fileprivate let values: Values
            private var reader: ValueReader?
            private var isOver = false

            fileprivate init(values: Values) { self.values = values }

            /// The next value, `nil` at the end.
            ///
            /// - Throws: ``NetworkError`` of kind `decoding` for a line that is not JSON or not the model, with its number and its
            ///   text without secrets; `connectionLost` for a body that ends in the middle of a value; `bodyTooLarge` for a value
            ///   above ``ValueOptions/limit``; as ``ResponseBody`` and the call otherwise.
            public mutating func next() async throws -> Model? { try await next(isolation: nil) }

            /// The next value, as ``next()``, without leaving the actor of the caller while values are there.
            public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Model? {
                guard !isOver else { return nil }
                do {
                    while true {
                        while let record = reader?.records.next() {
                            if let value = try value(of: record) { return value }
                        }
                        if reader == nil {
                            let (response, request) = try await values.open()
                            reader = ValueReader(response, request, values.options)
                        }
                        if try await reader?.advance() != true { break }
                    }
                } catch {
                    reader?.response.body.abandon()
                    (reader, isOver) = (nil, true)
                    throw error
                }
                (reader, isOver) = (nil, true)
                return nil
            }

            /// The value of a record; `nil` for one that is skipped.
            private func value(of record: JSONRecords.Record) throws -> Model? {
                guard let reader else { return nil }
                do {
                    let document = try record.document.get()
                    if Model.self == JSONRecordText.self {
                        return JSONRecordText(bytes: reader.records.text(of: record)) as? Model
                    }
                    return try document.decode(Model.self, by: reader.response.coding)
                } catch {
                    guard values.options.skipsBadLines else { throw reader.failure(error, in: record, "\(Model.self)") }
                    values.noteSkipped()
                    return nil
                }
            }
        }
    }

    /// How the values of a body are read.
    public struct ValueOptions: Sendable, Hashable {
        /// How the values follow each other. Default `nil`: as `Content-Type` says, `application/json-seq` for a sequence, else
        /// as the first byte says.
        public var format: HTTPBody.ValueFormat?
        /// Whether lines that cannot be decoded are left out and counted in ``Values/skippedCount``. Default `false`: the first
        /// one is thrown.
        public var skipsBadLines: Bool
        /// The largest size of a value, in bytes. Default 16 MiB.
        public var limit: Int

        /// Makes options. Each parameter has the default of its property.
        public init(format: HTTPBody.ValueFormat? = nil, skipsBadLines: Bool = false, limit: Int = 16 << 20) {
            self.format = format
            self.skipsBadLines = skipsBadLines
            self.limit = limit
        }
    }

    /// The values of this response; see ``Values``. A streamed body can be read once.
    public func values<Model: Decodable & Sendable>(
        of model: Model.Type, options: ValueOptions = ValueOptions()
    ) -> Values<Model> {
        Values(options) { (self, nil) }
    }

    private final class Counter: Sendable {
        let count = Atomic(0)
    }
}

/// A value of ``HTTPResponse/Values`` as the bytes that were received, for tools that pass it on.
package struct JSONRecordText: Decodable, Sendable {
    package let bytes: [UInt8]
}

/// Reads the texts of one body.
private struct ValueReader {
    /// Of a body that is there already, only so much is scanned at once.
    private static let pieceSize = 64 << 10
    /// How many bytes of a text an error shows.
    private static let shownSize = 300

    let response: HTTPResponse
    var records: JSONRecords
    private let request: HTTPRequest?
    private let limit: Int
    private var body: ResponseBody
    private var chunk = Data()
    private var hasEnded = false

    init(_ response: HTTPResponse, _ request: HTTPRequest?, _ options: HTTPResponse.ValueOptions) {
        self.response = response
        self.request = request
        limit = options.limit
        body = response.body
        let type = response.headers["Content-Type"].map(MediaType.essence) ?? ""
        let isSequence = type == "application/json-seq" || type.hasSuffix("+json-seq")
        records = JSONRecords(options.format ?? (isSequence ? .jsonSequence : nil), limit: limit)
    }

    /// Gets more bytes. Returns whether there may be more records.
    mutating func advance(isolation actor: isolated (any Actor)? = #isolation) async throws -> Bool {
        guard !hasEnded else { return false }
        if chunk.isEmpty {
            chunk = try await Self.chunk(of: body)
            // A body that was collected is one chunk.
            if !body.isStream { body = .empty }
        }
        hasEnded = chunk.isEmpty
        do throws(JSONRecords.Problem) {
            if hasEnded { try records.end() } else { try records.append(chunk.prefix(Self.pieceSize)) }
        } catch {
            throw failure(error)
        }
        // What follows the last record may be missing.
        if hasEnded, let fault = response.cutFault("read the whole body, and see whether it mayBeCut") {
            throw failure(.connectionLost, fault, [])
        }
        chunk = chunk.dropFirst(Self.pieceSize)
        return true
    }

    private static func chunk(of body: ResponseBody) async throws -> Data {
        // All iterators of a stream share one position.
        var chunks = body.makeAsyncIterator()
        return try await chunks.next() ?? Data()
    }

    // MARK: Errors

    private var noun: String { records.format == .jsonSequence ? "value" : "line" }

    private func failure(_ problem: JSONRecords.Problem) -> NetworkError {
        switch problem {
        case .cut(let text):
            let end = text.last?.isDigit == true ? ", or lacks the line feed that ends a number" : ""
            return failure(
                .connectionLost,
                "the body ends in the middle of \(noun) \(records.number)\(end); send the request again", text)
        case .tooLong:
            return failure(
                .bodyTooLarge,
                "\(noun) \(records.number) is larger than \(limit) bytes; raise the limit of the options if the server is "
                    + "right to send it, or read a JSON document with startRequest", [])
        }
    }

    /// The error of a text that is not JSON or not the model.
    func failure(_ error: any Error, in record: JSONRecords.Record, _ model: String) -> NetworkError {
        let text = records.text(of: record)
        var (path, expected, reason) = ("", model, "\(error)")
        if let failure = error as? JSONFailure {
            let problem = records.error(failure, in: record)
            (expected, reason) = ("JSON", noun == "line" ? "column \(problem.column): \(problem.reason)" : "\(problem)")
        } else if error is DecodingError {
            let place = DecodingPath(error)
            (path, reason) = (place.path, place.reason)
        }
        let place = path.isEmpty ? "" : " at \(path)"
        return failure(
            .decoding(path: path), "\(noun) \(record.number) is not \(expected)\(place): \(reason)", text, error)
    }

    private func failure(
        _ kind: NetworkError.Kind, _ message: String, _ text: [UInt8], _ underlying: (any Error)? = nil
    ) -> NetworkError {
        var head = response
        head.body = ResponseBody(Data(text))
        let shown = String(decoding: text.prefix(Self.shownSize), as: UTF8.self)
        let quoted = text.isEmpty ? "" : "; its text is \"\(shown)\"\(text.count > Self.shownSize ? "…" : "")"
        let message = URLText.visible(Redactor.scrubbed(message + quoted, of: request))
        return NetworkError(kind, message: message, request: request, response: head, underlying: underlying)
    }
}
