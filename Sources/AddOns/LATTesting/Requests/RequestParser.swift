import HTTPCore
import JSONText

/// An incremental parser of HTTP/1.1 requests (RFC 9112): bytes in, events out, no I/O.
///
/// Input that is left after an ``Event/end(trailers:)`` belongs to the next request of the connection (pipelining). The
/// caller keeps it until then.
struct RequestParser {
    enum Event: Equatable {
        case head(RequestHead)
        /// A piece of the body, never empty.
        case body(ArraySlice<UInt8>)
        case end(trailers: HTTPHeaders)
    }

    /// Bytes that are not a valid request. The parser must not be used after it.
    struct Failure: Error, Equatable {
        /// The status to answer with.
        let status: Int
        let reason: String

        static func badRequest(_ reason: String) -> Failure { Failure(status: 400, reason: reason) }
    }

    private enum State {
        case head
        /// Inside the body, or inside one of its chunks.
        case body(remaining: Int64, isChunk: Bool)
        case chunkSize
        case chunkEnd
        case trailers
        case end
    }

    private var state = State.head
    /// The bytes of the head, chunk line or trailers received so far.
    private var buffer: [UInt8] = []
    private var lineStart = 0

    /// Whether a request has begun and not ended.
    var isInsideRequest: Bool {
        if case .head = state { !buffer.isEmpty } else { true }
    }

    static let headLimit = 8 << 20
    static let chunkLineLimit = 4_096

    /// Takes the bytes of the next event from the front of the input; `nil` when it needs more input.
    mutating func next(_ input: inout ArraySlice<UInt8>) throws(Failure) -> Event? {
        while true {
            switch state {
            case .head:
                guard try takeSection(&input) else { return nil }
                let head = try RequestHead(parsing: takeBuffer())
                switch head.framing {
                case .none: state = .end
                case .length(let length): state = .body(remaining: length, isChunk: false)
                case .chunked: state = .chunkSize
                }
                return .head(head)
            case .body(let remaining, let isChunk):
                guard !input.isEmpty else { return nil }
                let piece = input.prefix(Int(min(Int64(input.count), remaining)))
                input = input[piece.endIndex...]
                let rest = remaining - Int64(piece.count)
                state = rest > 0 ? .body(remaining: rest, isChunk: isChunk) : isChunk ? .chunkEnd : .end
                return .body(piece)
            case .chunkSize:
                guard let line = try takeLine(&input) else { return nil }
                let size = try chunkSize(of: line)
                state = size > 0 ? .body(remaining: size, isChunk: true) : .trailers
            case .chunkEnd:
                guard let line = try takeLine(&input) else { return nil }
                guard line.isEmpty else { throw .badRequest("a chunk is longer than its size says") }
                state = .chunkSize
            case .trailers:
                guard try takeSection(&input) else { return nil }
                let trailers = takeBuffer()
                state = .head
                return .end(trailers: trailers.count > 2 ? HTTPHeaders(wireHead: Array(trailers)) : [:])
            case .end:
                state = .head
                return .end(trailers: [:])
            }
        }
    }

    private mutating func takeBuffer() -> [UInt8] {
        let taken = buffer
        buffer = []
        lineStart = 0
        return taken
    }

    /// Collects lines up to an empty one. Empty lines before a request line are skipped (RFC 9112 §2.2).
    private mutating func takeSection(_ input: inout ArraySlice<UInt8>) throws(Failure) -> Bool {
        while true {
            let isLine = appendLine(of: &input)
            let length = buffer.count - lineStart
            if isLine, length == 1 || (length == 2 && buffer[lineStart] == 0x0D) {
                guard lineStart == 0, case .head = state else { return true }
                buffer.removeAll(keepingCapacity: true)
            } else if isLine {
                lineStart = buffer.count
            }
            guard buffer.count <= Self.headLimit else {
                throw Failure(status: 431, reason: "the header is longer than \(Self.headLimit) bytes")
            }
            if !isLine { return false }
        }
    }

    private mutating func takeLine(_ input: inout ArraySlice<UInt8>) throws(Failure) -> ArraySlice<UInt8>? {
        let isComplete = appendLine(of: &input)
        guard buffer.count <= Self.chunkLineLimit else { throw .badRequest("a chunk line is too long") }
        guard isComplete else { return nil }
        return takeBuffer().dropLast().droppingCarriageReturn()
    }

    /// Moves bytes to the buffer up to the end of a line. Returns `false` when there was none.
    private mutating func appendLine(of input: inout ArraySlice<UInt8>) -> Bool {
        let newline = input.firstIndex(of: 0x0A)
        let end = newline.map { $0 + 1 } ?? input.endIndex
        buffer.append(contentsOf: input[..<end])
        input = input[end...]
        return newline != nil
    }

    private func chunkSize(of line: ArraySlice<UInt8>) throws(Failure) -> Int64 {
        let digits = line.prefix { $0 != UInt8(ascii: ";") && $0 != 0x20 && $0 != 0x09 }
        guard digits.allSatisfy({ $0.hexadecimalValue != nil }),
            let size = Int64(String(decoding: digits, as: UTF8.self), radix: 16)
        else {
            throw .badRequest("a chunk size is not a hexadecimal number")
        }
        return size
    }
}
