public import FoundationEssentials

/// The content of a response as a sequence of chunks, with backpressure: the
/// transfer pauses while nobody reads, so a slow reader buffers a bounded
/// number of bytes.
///
/// ```swift
/// for try await chunk in response.body { print(chunk.count) }
/// for try await line in response.body.lines { print(line) }
/// let bytes = try await response.body.collect(upTo: 1 << 20)
/// ```
///
/// A streamed body can be read once; releasing it before the end cancels the
/// transfer. A collected body is a sequence of one chunk and can be read any
/// number of times.
public struct ResponseBody: AsyncSequence, Sendable {
    /// A chunk of bytes, never empty.
    public typealias Element = Data

    fileprivate enum Storage: Sendable {
        case collected(Data)
        case source(any Source)
    }

    private let storage: Storage

    /// An empty body.
    public static let empty = ResponseBody(Data())

    /// Makes a collected body.
    public init(_ data: Data) { storage = .collected(data) }

    /// Makes a streamed body from a source of chunks: the engine, another transport, a test.
    public init(_ source: some Source) { storage = .source(source) }

    /// The bytes of a collected body, `nil` for a stream.
    public var data: Data? {
        if case .collected(let data) = storage { data } else { nil }
    }

    /// Whether this is a streamed body, whose bytes arrive while it is read.
    public var isStream: Bool { data == nil }

    /// Starts reading. A stream throws ``NetworkError`` when it ends early.
    public func makeAsyncIterator() -> Iterator { Iterator(storage: storage) }

    /// Reads the body to its end and returns all bytes.
    ///
    /// - Parameter limit: the largest number of bytes.
    /// - Throws: ``NetworkError`` of kind ``NetworkError/Kind/bodyTooLarge`` when there are more bytes, which also
    ///   cancels the transfer.
    public func collect(upTo limit: Int) async throws -> Data {
        if let data {
            guard data.count <= limit else { throw NetworkError.bodyTooLarge(limit: Int64(limit)) }
            return data
        }
        var collected = Data()
        for try await chunk in self {
            guard collected.count + chunk.count <= limit else {
                abandon()
                throw NetworkError.bodyTooLarge(limit: Int64(limit))
            }
            if collected.isEmpty { collected = chunk } else { collected.append(chunk) }
        }
        return collected
    }

    /// Cancels the transfer of a stream that will not be read further, even if copies of the response exist.
    package func abandon() {
        if case .source(let source as any AbandonableBodySource) = storage { source.abandon() }
    }

    /// The body as lines of UTF-8, without their line ends (LF or CR LF). The last line needs no line end. Bytes that are
    /// not UTF-8 become U+FFFD.
    public var lines: Lines { Lines(body: self, limit: 1 << 20) }

    /// The same as ``lines``, with a limit in bytes other than 1 MiB for the length of a line. A longer line throws
    /// ``NetworkError/Kind/bodyTooLarge``.
    public func lines(upTo limit: Int) -> Lines { Lines(body: self, limit: limit) }

    /// The iterator of the chunks.
    public struct Iterator: AsyncIteratorProtocol {
        /// The part of the body that was not read yet.
        fileprivate var storage: Storage

        /// The next chunk, `nil` at the end.
        ///
        /// - Throws: ``NetworkError``; `CancellationError` when the current task was cancelled.
        public mutating func next() async throws -> Data? {
            switch storage {
            case .source(let source): return try await source.next()
            case .collected(let data):
                storage = .collected(Data())
                return data.isEmpty ? nil : data
            }
        }
    }

    /// The lines of a body.
    public struct Lines: AsyncSequence, Sendable {
        /// A line without its line end.
        public typealias Element = String

        fileprivate let body: ResponseBody
        fileprivate let limit: Int

        /// Starts reading.
        public func makeAsyncIterator() -> Iterator {
            Iterator(chunks: body.makeAsyncIterator(), splitter: LineSplitter(limit: limit))
        }

        /// The iterator of the lines.
        public struct Iterator: AsyncIteratorProtocol {
            fileprivate var chunks: ResponseBody.Iterator
            fileprivate var splitter: LineSplitter

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

extension ResponseBody {
    /// A source of the chunks of a streamed body, for one reader.
    public protocol Source: AnyObject, Sendable {
        /// Returns the next chunk, which is not empty; `nil` at the end and in every call after it.
        ///
        /// - Throws: ``NetworkError`` when the body ends early, `CancellationError` when the task is cancelled.
        func next() async throws -> Data?
    }
}

/// A source that can be cancelled while references to it exist.
package protocol AbandonableBodySource: ResponseBody.Source {
    /// Stops producing bytes. Reads return the bytes that have already arrived, then throw
    /// ``NetworkError/Kind/cancelled`` unless the body has ended.
    func abandon()
}

/// Splits chunks into lines.
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
        let lineFeed = buffer[searched...].firstIndex(of: 0x0A)
        searched = lineFeed ?? buffer.count
        guard lineEnd(before: searched) - start <= limit else { throw NetworkError.bodyTooLarge(limit: Int64(limit)) }
        guard let end = lineFeed else { return nil }
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
        // Without a line feed, a carriage return is part of the last line.
        String(decoding: buffer[start..<(end < buffer.count ? lineEnd(before: end) : end)], as: UTF8.self)
    }

    /// The end of the line before a position, without its carriage return, which is not content.
    private func lineEnd(before end: Int) -> Int { start < end && buffer[end - 1] == 0x0D ? end - 1 : end }
}
