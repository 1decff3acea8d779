internal import FoundationEssentials
import Glibc
import JSONText

/// Divides the bytes of a body into JSON texts: lines, or a sequence (RFC 7464). Bytes in, documents out; where the bytes are
/// cut does not matter.
///
/// The texts that have ended are scanned together, which costs little more than scanning one array of them.
struct JSONRecords {
    /// A text that has ended.
    struct Record {
        /// The number of the line or the value, from 1. Empty lines count.
        let number: Int
        let document: Result<JSONDocument, JSONFailure>
        fileprivate let range: Range<Int>
    }

    /// Why the bytes cannot be read further.
    enum Problem: Error, Equatable {
        /// The bytes end in the middle of a text.
        case cut(text: [UInt8])
        /// A text is longer than the limit.
        case tooLong
    }

    private static let recordSeparator: UInt8 = 0x1E

    /// The format; `nil` until the first byte decides.
    private(set) var format: HTTPBody.ValueFormat?
    /// The number of the text that has not ended.
    private(set) var number: Int
    private let limit: Int
    private var isAtStart = true
    /// The bytes after the last separator.
    private var rest: [UInt8] = []
    /// How many bytes `rest` must have before it is worth scanning again.
    private var nextAttempt = 0

    private var bytes: [UInt8] = []
    private var records: ArraySlice<Record> = []

    /// - Parameters:
    ///   - format: the format. Default `nil`: a sequence if the first byte is the record separator, else lines.
    ///   - limit: the largest size of a text, in bytes.
    init(_ format: HTTPBody.ValueFormat? = nil, limit: Int) {
        self.format = format
        self.limit = limit
        number = format == .jsonSequence ? 0 : 1
    }

    mutating func next() -> Record? { records.popFirst() }

    /// The bytes of the record that ``next()`` returned last.
    func text(of record: Record) -> [UInt8] { Array(bytes[record.range]) }

    /// Why the record that ``next()`` returned last is not JSON, with the place in its text.
    func error(_ failure: JSONFailure, in record: Record) -> JSONValue.ParsingError {
        text(of: record).withUnsafeBufferPointer {
            JSONValue.ParsingError(failure, in: $0, from: record.range.lowerBound)
        }
    }

    /// Appends bytes. All records that have ended must have been taken.
    mutating func append(_ chunk: some Collection<UInt8>) throws(Problem) {
        let known = rest.count
        rest.append(contentsOf: chunk)
        if isAtStart, !skipStart() { return }
        let separator = format == .jsonSequence ? Self.recordSeparator : 0x0A
        if let last = rest[min(known, rest.count)...].lastIndex(of: separator) {
            bytes = rest
            rest = Array(bytes[(last + 1)...])
            nextAttempt = 0
            scan(try texts(upTo: last, separator))
        }
        if format == .jsonSequence { scanUnended() }
        guard rest.count <= limit else { throw .tooLong }
    }

    /// Ends the bytes. A last text without its separator is a record if it is whole.
    mutating func end() throws(Problem) {
        guard !rest.allSatisfy(\.isBlank) else { return }
        bytes = rest
        rest = []
        scan([(number, bytes.indices)])
        guard let record = records.first else { return }
        switch record.document {
        case .success(let document):
            if document.number != nil, bytes.last?.isBlank != true { throw .cut(text: bytes) }
        case .failure(let failure):
            if isCut(at: failure) { throw .cut(text: bytes) }
        }
    }

    /// Whether a text was malformed because its end is missing.
    private func isCut(at failure: JSONFailure) -> Bool {
        if case .openString = failure.problem { return true }
        let place = failure.range.lowerBound
        let tail = bytes[place...]
        if tail.isEmpty || ["true", "false", "null"].contains(where: { $0.utf8.starts(with: tail) }) { return true }
        let isEscape = place > 0 && bytes[place - 1] == UInt8(ascii: "u") && tail.count < 4
        return isEscape && tail.allSatisfy { $0.hexadecimalValue != nil }
    }

    /// Skips a byte order mark and blanks, and finds out the format. Returns whether the first text has begun.
    private mutating func skipStart() -> Bool {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        if mark.starts(with: rest), rest.count < mark.count { return false }
        if rest.starts(with: mark) { rest.removeFirst(mark.count) }
        let start = rest.firstIndex { !$0.isBlank } ?? rest.count
        if format != .jsonSequence { number += rest[..<start].count { $0 == 0x0A } }
        rest.removeFirst(start)
        guard let first = rest.first else { return false }
        if format == nil {
            format = first == Self.recordSeparator ? .jsonSequence : .jsonLines
            if format == .jsonSequence { number = 0 }
        }
        isAtStart = false
        return true
    }

    /// The numbers and ranges of the texts that have ended and are not blank.
    private mutating func texts(upTo end: Int, _ separator: UInt8) throws(Problem) -> [(Int, Range<Int>)] {
        var texts: [(Int, Range<Int>)] = []
        var start = 0
        while start <= end {
            let stop = bytes.firstIndex(of: separator, from: start) ?? end
            if !bytes[start..<stop].allSatisfy(\.isBlank) {
                guard stop - start <= limit else { throw .tooLong }
                texts.append((number, start..<stop))
            }
            number += 1
            start = stop + 1
        }
        return texts
    }

    private mutating func scan(_ texts: [(Int, Range<Int>)]) {
        let documents = JSONDocument.parsing(bytes, at: texts.map(\.1))
        records = zip(texts, documents).map { Record(number: $0.0, document: $1, range: $0.1) }[...]
        if format == .jsonSequence { records = records.map(checked)[...] }
    }

    /// A record of a sequence. Its failure is one of the sequence if there is one.
    private func checked(_ record: Record) -> Record {
        var problem: String?
        if record.number == 0 {
            problem = "a JSON sequence begins with the byte 1E (RFC 7464 §2.1); are these JSON lines?"
        } else if case .success(let document) = record.document, document.elementCount ?? document.memberCount == nil,
            document.string == nil, bytes[record.range].last?.isBlank != true
        {
            problem = "its end may be missing, because no line feed follows (RFC 7464 §2.4)"
        }
        guard let problem else { return record }
        let place = record.number == 0 ? record.range.lowerBound : record.range.upperBound
        let failure = JSONFailure(.other(problem), at: place..<place)
        return Record(number: record.number, document: .failure(failure), range: record.range)
    }

    /// Makes a record of a value of a sequence whose line feed has arrived, before the next value begins.
    ///
    /// A value may have several lines, so it may not be whole yet. It is scanned again when it has twice as many bytes, so that
    /// the cost stays proportional to its size.
    private mutating func scanUnended() {
        guard number > 0, rest.last == 0x0A, rest.count >= nextAttempt else { return }
        // Line feeds that keep the connection alive are not collected.
        if rest.allSatisfy(\.isBlank) { return rest = [] }
        let document = JSONDocument.parsing(rest, at: [rest.indices])[0]
        guard case .success = document else { return nextAttempt = rest.count * 2 }
        let start = bytes.count
        bytes += rest
        records.append(Record(number: number, document: document, range: start..<bytes.count))
        rest = []
    }
}

extension UInt8 {
    /// Whether this is white space of JSON (RFC 8259 §2).
    fileprivate var isBlank: Bool { self == 0x20 || self == 0x0A || self == 0x0D || self == 0x09 }
}

extension [UInt8] {
    fileprivate func firstIndex(of byte: UInt8, from start: Int) -> Int? {
        withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress, start < bytes.count,
                let found = memchr(base + start, Int32(byte), bytes.count - start)
            else { return nil }
            return base.distance(to: UnsafeRawPointer(found))
        }
    }
}
