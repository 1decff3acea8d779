public import FoundationEssentials

/// The content of a response as a sequence of chunks, with backpressure: the
/// transfer is paused while nobody reads, so a slow reader holds a bounded
/// number of bytes.
///
/// ```swift
/// for try await chunk in response.body { try file.write(chunk) }
/// for try await line in response.body.lines { print(line) }
/// let bytes = try await response.body.collect(upTo: 1 << 20)
/// ```
///
/// A streamed body is read once; letting go of it before the end cancels the
/// transfer. A collected one is a sequence of one chunk, any number of times.
public struct ResponseBody: AsyncSequence, Sendable {
    /// A chunk of bytes, never empty.
    public typealias Element = Data

    fileprivate enum Storage: Sendable {
        case collected(Data)
        case source(any ResponseBodySource)
    }

    private let storage: Storage

    /// No bytes.
    public static let empty = ResponseBody(Data())

    /// Bytes that are all there.
    public init(_ data: Data) { storage = .collected(data) }

    /// Bytes that something else produces: the engine, a stand-in transport, a test.
    public init(_ source: some ResponseBodySource) { storage = .source(source) }

    /// The bytes of a collected body, `nil` for a stream.
    public var data: Data? {
        if case .collected(let data) = storage { data } else { nil }
    }

    /// Whether the bytes come while they are read.
    public var isStream: Bool { data == nil }

    /// Starts reading. A stream throws ``NetworkError`` when it breaks off.
    public func makeAsyncIterator() -> Iterator { Iterator(storage) }

    /// All bytes, read to the end.
    ///
    /// - Parameter limit: the most bytes to take.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/bodyTooLarge`` when there are more; the transfer
    ///   is cancelled then.
    public func collect(upTo limit: Int) async throws -> Data {
        if let data {
            guard data.count <= limit else { throw NetworkError.bodyTooLarge(limit: Int64(limit)) }
            return data
        }
        var collected = Data()
        for try await chunk in self {
            guard collected.count + chunk.count <= limit else { throw NetworkError.bodyTooLarge(limit: Int64(limit)) }
            if collected.isEmpty { collected = chunk } else { collected.append(chunk) }
        }
        return collected
    }

    /// Ends the transfer of a stream that nobody will read on, also where copies of the response are kept.
    package func abandon() {
        if case .source(let source as any AbandonableBodySource) = storage { source.abandon() }
    }

    /// The body as lines of UTF-8, without their ends (LF or CR LF). A last line without an end counts; bytes
    /// that are no UTF-8 become U+FFFD.
    public var lines: Lines { Lines(body: self, limit: 1 << 20) }

    /// The same as ``lines`` with another limit than 1 MiB to the length of a line; a longer one throws
    /// ``NetworkError/Kind/bodyTooLarge``.
    public func lines(upTo limit: Int) -> Lines { Lines(body: self, limit: limit) }

    /// Reads chunk by chunk.
    public struct Iterator: AsyncIteratorProtocol {
        private var collected: Data?
        private let source: (any ResponseBodySource)?

        fileprivate init(_ storage: Storage) {
            switch storage {
            case .collected(let data):
                collected = data.isEmpty ? nil : data
                source = nil
            case .source(let source):
                self.source = source
            }
        }

        /// The next chunk, `nil` at the end.
        ///
        /// - Throws: ``NetworkError``; `CancellationError` when the current task was cancelled.
        public mutating func next() async throws -> Data? {
            guard let source else {
                defer { collected = nil }
                return collected
            }
            return try await source.next()
        }
    }

    /// A body line by line.
    public struct Lines: AsyncSequence, Sendable {
        /// A line without its end.
        public typealias Element = String

        fileprivate let body: ResponseBody
        fileprivate let limit: Int

        /// Starts reading.
        public func makeAsyncIterator() -> Iterator { Iterator(chunks: body.makeAsyncIterator(), limit: limit) }

        /// Reads line by line.
        public struct Iterator: AsyncIteratorProtocol {
            private var chunks: ResponseBody.Iterator
            private var splitter: LineSplitter

            fileprivate init(chunks: ResponseBody.Iterator, limit: Int) {
                self.chunks = chunks
                splitter = LineSplitter(limit: limit)
            }

            /// The next line, `nil` at the end.
            ///
            /// - Throws: ``NetworkError``; `CancellationError` when the current task was cancelled.
            public mutating func next() async throws -> String? {
                while true {
                    if let line = try splitter.next() { return line }
                    guard let chunk = try await chunks.next() else { return splitter.rest() }
                    splitter.append(chunk)
                }
            }
        }
    }
}

/// Produces the chunks of a streamed body for one reader.
public protocol ResponseBodySource: AnyObject, Sendable {
    /// The next chunk, not empty; `nil` at the end, and again after it.
    ///
    /// - Throws: ``NetworkError`` when the body breaks off, `CancellationError` when the task is cancelled.
    func next() async throws -> Data?
}

/// A source that can be told that nobody reads on, while there still are references to it.
package protocol AbandonableBodySource: ResponseBodySource {
    /// Ends what produces the bytes. Reading on throws ``NetworkError/Kind/cancelled``.
    func abandon()
}

/// Cuts chunks into lines.
struct LineSplitter {
    private let limit: Int
    private var buffer: [UInt8] = []
    private var start = 0
    private var searched = 0

    init(limit: Int) { self.limit = limit }

    mutating func append(_ chunk: Data) {
        if start > 0 {
            buffer.removeFirst(start)
            searched -= start
            start = 0
        }
        buffer.append(contentsOf: chunk)
    }

    mutating func next() throws -> String? {
        guard let end = buffer[searched...].firstIndex(of: 0x0A) else {
            searched = buffer.count
            guard buffer.count - start <= limit else { throw NetworkError.bodyTooLarge(limit: Int64(limit)) }
            return nil
        }
        guard end - start <= limit else { throw NetworkError.bodyTooLarge(limit: Int64(limit)) }
        defer {
            start = end + 1
            searched = start
        }
        return text(upTo: end)
    }

    mutating func rest() -> String? {
        guard start < buffer.count else { return nil }
        defer { start = buffer.count }
        return text(upTo: buffer.count)
    }

    private func text(upTo end: Int) -> String {
        let hasCarriageReturn = end > start && end <= buffer.count && buffer[end - 1] == 0x0D && end < buffer.count
        return String(decoding: buffer[start..<(hasCarriageReturn ? end - 1 : end)], as: UTF8.self)
    }
}
