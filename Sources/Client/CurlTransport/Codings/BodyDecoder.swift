internal import HTTPCore

/// Decodes one content coding (RFC 9110 §8.4.1), piece by piece. Used by one thread at a time.
///
/// The engine decodes bodies itself: libcurl's decoders do not tell a body that ends early from a whole one, and refuse
/// gzip with several members.
protocol BufferDecoder: AnyObject {
    /// Decodes the beginning of the input, which then begins after it, until the input is used up or the output is full.
    /// Output that is full means that there may be more, so the next call follows even without new input.
    ///
    /// - Parameter output: at least one byte.
    /// - Returns: how many bytes the output got.
    func decode(
        _ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(CodingFault) -> Int

    /// Whether what was decoded so far is a whole body. Without a single byte it is: a body of no bytes is empty, whatever
    /// its coding (curl and browsers agree).
    var isComplete: Bool { get }
}

/// Why bytes cannot be decoded.
enum CodingFault: Error, Hashable {
    /// The bytes are not in the coding; with the name of the coding and what is wrong.
    case invalid(String, String)
    /// The body is for another dictionary than the one that the request offered.
    case otherDictionary
    /// No decoder has this name; with a hint when a library is missing.
    case unknown(String, hint: String?)
    /// More codings were applied than are decoded.
    case tooMany(Int)
    /// More than this many bytes that one coding became are nothing in the next one.
    case hollow(Int)
    case noMemory
}

/// Limits what is within the codings of a body and becomes nothing: padding, or empty members. Each coding may multiply that by a
/// thousand, so that a single piece would keep the engine's thread for hours.
final class CodingSurplus {
    /// The bytes between codings without those that became something.
    private var byteCount = 0

    static let limit = 16 << 20
    /// How many bytes between the codings one byte of the body may take: some that are flushed one by one.
    private static let factor = 32

    func note(between count: Int) throws(CodingFault) {
        byteCount += count
        guard byteCount <= Self.limit else { throw .hollow(Self.limit) }
    }

    func note(decoded count: Int) { byteCount = max(0, byteCount - count * Self.factor) }
}

/// Decodes a body with two codings: what the first decoder outputs is the input of the second.
final class PipedDecoder: BufferDecoder {
    private let first: any BufferDecoder
    private let second: any BufferDecoder
    private let between = UnsafeMutableRawBufferPointer.allocate(byteCount: 16 << 10, alignment: 16)
    /// The part of `between` that the second decoder has not taken.
    private var waiting = 0..<0
    private let surplus: CodingSurplus

    init(_ first: any BufferDecoder, _ second: any BufferDecoder, _ surplus: CodingSurplus) {
        self.first = first
        self.second = second
        self.surplus = surplus
    }

    deinit { between.deallocate() }

    var isComplete: Bool { waiting.isEmpty && first.isComplete && second.isComplete }

    func decode(
        _ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(CodingFault) -> Int {
        var count = 0
        while true {
            var rest = UnsafeRawBufferPointer(rebasing: between[waiting])
            count += try second.decode(&rest, into: UnsafeMutableRawBufferPointer(rebasing: output[count...]))
            waiting = (waiting.upperBound - rest.count)..<waiting.upperBound
            guard count < output.count else { return count }
            waiting = 0..<(try first.decode(&input, into: between))
            guard !waiting.isEmpty else { return count }
            try surplus.note(between: waiting.count)
        }
    }
}

/// Decodes the body of one response by its `Content-Encoding`, and counts its bytes.
final class BodyDecoder {
    /// The names of the codings, for messages.
    let name: String
    /// The number of bytes decoded so far, in the coding.
    private(set) var codedByteCount: Int64 = 0
    /// The number of bytes from which the body was decoded so far, with the dictionary that it may repeat.
    var sourceByteCount: Int64 { codedByteCount + dictionaryByteCount }
    private let dictionaryByteCount: Int64
    /// The number of bytes that they became.
    private(set) var byteCount: Int64 = 0
    /// How many bytes of the next piece are decoded already: libcurl delivers the piece in which a transfer was paused
    /// again, from its first byte.
    var repeatedByteCount = 0
    private let decoder: Result<any BufferDecoder, CodingFault>
    private let surplus: CodingSurplus

    /// Makes a decoder; `nil` when the body has no coding but `identity`.
    ///
    /// - Parameters:
    ///   - fields: the values of `Content-Encoding`. The coding that is named last was applied last (RFC 9110 §8.4).
    ///   - own: codings of the app, which take precedence.
    ///   - dictionary: the one that the request offered.
    init?(_ fields: [String], _ own: [ContentCoding] = [], _ dictionary: CompressionDictionary? = nil) {
        let names = fields.flatMap { FieldList.names($0) }.filter { !ContentCodings.isIdentity($0) }
        guard !names.isEmpty else { return nil }
        // What a server sends may be long.
        name = names.prefix(Self.limit + 1).map { $0.prefix(32) }.joined(separator: ", ")
        dictionaryByteCount = names.contains(DictionaryDecoder.name) ? Int64(dictionary?.bytes.count ?? 0) : 0
        let surplus = CodingSurplus()
        self.surplus = surplus
        decoder = Result { () throws(CodingFault) in try Self.decoder(for: names, own, dictionary, surplus) }
    }

    /// libcurl's limit, which bounds the memory of a response.
    private static let limit = 5

    private static func decoder(
        for names: [String], _ own: [ContentCoding], _ dictionary: CompressionDictionary?, _ surplus: CodingSurplus
    ) throws(CodingFault) -> any BufferDecoder {
        guard names.count <= limit else { throw .tooMany(limit) }
        var whole: (any BufferDecoder)?
        for name in names.reversed() {
            let next = try ContentCodings.decoder(for: name, own, dictionary)
            whole = whole.map { PipedDecoder($0, next, surplus) } ?? next
        }
        guard let whole else { throw .noMemory }
        return whole
    }

    /// Whether what was decoded so far is a whole body.
    var isComplete: Bool {
        guard codedByteCount > 0 else { return true }
        return (try? decoder.get().isComplete) ?? false
    }

    /// See ``BufferDecoder/decode(_:into:)``. Bytes in a coding that is unknown throw only here, so that a response
    /// without a body may name any coding.
    func decode(
        _ input: inout UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(CodingFault) -> Int {
        let before = input.count
        defer { codedByteCount += Int64(before - input.count) }
        let count = try decoder.get().decode(&input, into: output)
        byteCount += Int64(count)
        surplus.note(decoded: count)
        return count
    }
}
