package import FoundationEssentials
import JSONText

/// A checked JSON document (RFC 8259), or one of its values. Swift values are made only on access.
///
/// ```swift
/// let document = try JSONDocument(parsing: data)
/// document["meta"]?["code"]?.int                         // Int?
/// document[path: "meta.message"]?.string                 // String?
/// let user = try document[path: "data"]?.decode(User.self)
/// let rest = document["extra"]?.value                    // JSONValue?
/// ```
///
/// Look-ups and decoding read the bytes that the document keeps, so no text,
/// array or dictionary is made for a value that is never read.
/// ``JSONValue/init(parsing:)-(Data)`` says what is accepted as JSON.
package struct JSONDocument: Sendable {
    private final class Storage: Sendable {
        /// A copy of the data, because access through `Data` costs more than most of the work done here.
        let bytes: [UInt8]
        let tokens: JSONTokens

        init(_ bytes: [UInt8], _ tokens: JSONTokens) {
            self.bytes = bytes
            self.tokens = tokens
        }
    }

    private let storage: Storage
    /// The index of the value's token.
    private let index: Int

    /// Parses a document.
    ///
    /// - Throws: ``JSONValue/ParsingError``, with the position and the reason.
    package init(parsing data: Data) throws {
        // `Array(data)` takes about a thousand instructions more.
        let bytes = data.withUnsafeBytes { [UInt8]($0) }
        self.init(Storage(bytes, try bytes.withUnsafeBufferPointer { try JSONTokens.scanning($0) }), 0)
    }

    /// The documents at several ranges, which share their bytes.
    static func parsing(_ bytes: [UInt8], at ranges: [Range<Int>]) -> [Result<JSONDocument, JSONFailure>] {
        let (tokens, roots) = bytes.withUnsafeBufferPointer {
            JSONScanner.tokens(of: $0, at: ranges, maximumDepth: JSONValue.maximumDepth)
        }
        let storage = Storage(bytes, tokens)
        return roots.map { $0.map { JSONDocument(storage, $0) } }
    }

    /// A document of a parsed value; `nil` when it has more than ``JSONValue/maximumDepth`` levels.
    init?(_ value: JSONValue) {
        guard let tokens = JSONTokens(value) else { return nil }
        self.init(Storage([], tokens), 0)
    }

    /// A document that is a null.
    static let null: JSONDocument = {
        var tokens = JSONTokens()
        tokens.append(.null)
        return JSONDocument(Storage([], tokens), 0)
    }()

    /// Bytes that are the same for equal documents; `nil` for text that is not JSON, and for a document that cannot be
    /// compared by its value. For comparison only.
    package static func comparable(_ data: Data, without omitted: Set<String> = []) -> Data? {
        guard let document = try? JSONDocument(parsing: data) else { return nil }
        return document.withBytes { try? document.storage.tokens.comparable(without: omitted, in: $0)?.data() }
    }

    private init(_ storage: Storage, _ index: Int) {
        self.storage = storage
        self.index = index
    }

    private var token: JSONToken { storage.tokens.list[index] }

    // MARK: Values

    // `string`, `int`, `bool` and `isNull` return the same as the properties of ``JSONValue`` with these names.

    package var value: JSONValue { withBytes { storage.tokens.value(at: index, in: $0) } }

    package var string: String? { withBytes { storage.tokens.string(at: index, in: $0) } }

    package var int: Int? { number?.int }

    package var bool: Bool? {
        if case .bool(let value) = token { value } else { nil }
    }

    /// The number if it is an `Int64` or a `Double`, which most are.
    var plainNumber: (int: Int64?, double: Double?) {
        switch token {
        case .int(let value): (value, nil)
        case .double(let value): (nil, value)
        default: (nil, nil)
        }
    }

    /// The number, `nil` for everything else.
    var number: JSONValue? { storage.tokens.number(at: index) }

    /// The number with all its digits; `nil` for everything else, and for a number that a `Decimal` does not hold exactly.
    var exactDecimal: Decimal? { storage.tokens.exactDecimal(at: index) }

    /// The number as it is written in the document; `nil` for everything else.
    package var numberText: String? {
        switch token {
        case .int(let value): return "\(value)"
        case .number(let index): return storage.tokens.strings[index]
        case .double(let value):
            // Its token has no place: it is found as the number that follows as many others in the text.
            let earlier = storage.tokens.list[..<index].count { $0.isNumber }
            return withBytes { $0.number(after: earlier) } ?? "\(value)"
        case .null, .bool, .text, .string, .array, .object: return nil
        }
    }

    package var isNull: Bool {
        if case .null = token { true } else { false }
    }

    /// The kind of the value, for messages.
    package var kindName: String {
        switch token {
        case .null: "null"
        case .bool: "a Boolean"
        case .int, .double, .number: "a number"
        case .text, .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }

    // MARK: Members and elements

    /// The member of an object; `nil` when this is not an object or has no such member. The last of repeated members counts.
    package subscript(name: String) -> JSONDocument? {
        var place = 0
        return member(name, from: &place)
    }

    /// The member of an object. Members that are looked up in document order are found at once.
    ///
    /// - Parameter place: where the last look-up in the same object ended; 0 for the first.
    func member(_ name: String, from place: inout Int) -> JSONDocument? {
        guard let found = withBytes({ storage.tokens.member(name, ofObjectAt: index, from: place, in: $0) })
        else { return nil }
        place = found
        return JSONDocument(storage, found + 1)
    }

    /// The value at a path: the member with the whole path as its name, else the nested member whose names are separated
    /// by dots. The empty path is the value itself, unless it has a member without a name.
    package subscript(path path: String) -> JSONDocument? {
        if let member = self[path] { return member }
        guard path.isEmpty || path.utf8.contains(UInt8(ascii: ".")) else { return nil }
        return path.split(separator: ".").reduce(Optional(self)) { $0?[String($1)] }
    }

    /// The names and values of an object in document order, including repeated ones.
    var members: [(name: String, value: JSONDocument)] {
        guard case .object(_, let count) = token else { return [] }
        var name = JSONDocument(storage, index + 1)
        return (0..<count).map { _ in
            let value = JSONDocument(storage, name.index + 1)
            defer { name = value.next }
            return (name.string ?? "", value)
        }
    }

    /// The number of members, including repeated ones; `nil` when this is not an object.
    var memberCount: Int? {
        if case .object(_, let count) = token { Int(count) } else { nil }
    }

    /// The number of elements; `nil` when this is not an array.
    package var elementCount: Int? {
        if case .array(_, let count) = token { Int(count) } else { nil }
    }

    /// The first element of an array that is not empty.
    var first: JSONDocument { JSONDocument(storage, index + 1) }

    /// The element after this one, unless this is the last.
    var next: JSONDocument { JSONDocument(storage, storage.tokens.end(of: index)) }

    private func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        storage.bytes.withUnsafeBufferPointer(body)
    }
}

extension JSONToken {
    fileprivate var isNumber: Bool {
        switch self {
        case .int, .double, .number: true
        case .null, .bool, .text, .string, .array, .object: false
        }
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// The text of the number that follows so many others in a document of valid JSON.
    fileprivate func number(after count: Int) -> String? {
        var (left, place) = (count, startIndex)
        while place < endIndex {
            switch self[place] {
            case UInt8(ascii: "\""):
                place += 1
                while place < endIndex, self[place] != UInt8(ascii: "\"") {
                    place += self[place] == UInt8(ascii: "\\") ? 2 : 1
                }
                place += 1
            case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
                let start = place
                while place < endIndex, "+-.0123456789Ee".utf8.contains(self[place]) { place += 1 }
                if left == 0 { return String(decoding: self[start..<place], as: UTF8.self) }
                left -= 1
            default: place += 1
            }
        }
        return nil
    }
}
