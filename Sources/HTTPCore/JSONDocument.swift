package import FoundationEssentials

/// A JSON document (RFC 8259) that was checked and is not yet made into anything; or one of its values.
///
/// ```swift
/// let document = try JSONDocument(parsing: data)
/// document["meta"]?["code"]?.int                         // Int?
/// document[path: "meta.message"]?.string                 // String?
/// let user = try document[path: "data"]?.decode(User.self)
/// let rest = document["extra"]?.value                    // JSONValue?
/// ```
///
/// Looking up and decoding read the bytes, which the document keeps: what
/// nobody asks for is never made a text, an array or a dictionary.
/// What is JSON, and what is not, ``JSONValue/init(parsing:)-(Data)`` says.
package struct JSONDocument: Sendable {
    private final class Storage: Sendable {
        /// A copy: to reach the bytes of `Data` takes longer than most of what is done with them here.
        let bytes: [UInt8]
        let tokens: JSONTokens

        init(_ bytes: [UInt8], _ tokens: JSONTokens) {
            self.bytes = bytes
            self.tokens = tokens
        }
    }

    private let storage: Storage
    /// The token of the value.
    private let index: Int

    /// Reads a document.
    ///
    /// - Throws: ``JSONValue/ParsingError``, which says where and what.
    package init(parsing data: Data) throws {
        let bytes = [UInt8](data)
        self.init(Storage(bytes, try bytes.withUnsafeBufferPointer { try JSONScanner.tokens(of: $0) }), 0)
    }

    /// A value that was read already. What is in its arrays and objects becomes tokens when it is asked for.
    init(_ value: JSONValue) {
        self.init(Storage([], JSONTokens(value)), 0)
    }

    private init(_ storage: Storage, _ index: Int) {
        self.storage = storage
        self.index = index
    }

    private var token: JSONToken { storage.tokens.list[index] }

    // MARK: Values

    /// All of it as a value.
    package var value: JSONValue {
        switch token {
        case .text, .array, .object: withBytes { storage.tokens.value(at: index, in: $0) }
        case .null: .null
        case .bool(let value): .bool(value)
        case .int(let value): .int(value)
        case .double(let value): .double(value)
        case .value(let index): storage.tokens.values[index]
        }
    }

    /// The text, `nil` for everything else.
    package var string: String? {
        switch token {
        case .text(let start, let count): withBytes { $0.text(at: start, count) }
        case .value(let index): storage.tokens.values[index].string
        default: nil
        }
    }

    /// The number when it is whole and an `Int` holds it exactly, `nil` for everything else.
    package var int: Int? { number?.int }

    /// `true` or `false`, `nil` for everything else.
    package var bool: Bool? {
        if case .bool(let value) = token { value } else { nil }
    }

    /// The number, `nil` for everything else.
    var number: JSONValue? {
        switch token {
        case .int(let value): .int(value)
        case .double(let value): .double(value)
        case .value(let index):
            if case .decimal = storage.tokens.values[index] { storage.tokens.values[index] } else { nil }
        default: nil
        }
    }

    /// Whether it is null.
    package var isNull: Bool {
        if case .null = token { true } else { false }
    }

    /// What it is, for messages.
    var kindName: String {
        switch opened.token {
        case .null: "null"
        case .bool: "a Boolean"
        case .int, .double: "a number"
        case .text: "a text"
        case .value: string == nil ? "a number" : "a text"
        case .array: "an array"
        case .object: "an object"
        }
    }

    // MARK: Members and elements

    /// The member of an object; `nil` when this is no object or has no such member. Of a name given twice, the last.
    package subscript(name: String) -> JSONDocument? {
        let document = opened
        return document.withBytes {
            document.storage.tokens.member(name, ofObjectAt: document.index, in: $0)
        }.map { JSONDocument(document.storage, $0) }
    }

    /// The value at a path: the member of just this name, or else members of members with dots between the names.
    /// The empty path is the value itself.
    package subscript(path path: String) -> JSONDocument? {
        if let member = self[path] { return member }
        guard path.isEmpty || path.utf8.contains(UInt8(ascii: ".")) else { return nil }
        return path.split(separator: ".").reduce(Optional(self)) { $0?[String($1)] }
    }

    /// The names and values of an object as they are written, repeats kept.
    var members: [(name: String, value: JSONDocument)] {
        guard case .object(let count, _) = token else { return [] }
        var name = JSONDocument(storage, index + 1)
        return (0..<count).map { _ in
            let value = JSONDocument(storage, name.index + 1)
            defer { name = value.next }
            return (name.string ?? "", value)
        }
    }

    /// How many members an object has, repeats counted; `nil` when it is none.
    var memberCount: Int? {
        if case .object(let count, _) = token { Int(count) } else { nil }
    }

    /// How many elements an array has; `nil` when it is none.
    var elementCount: Int? {
        if case .array(let count, _) = token { Int(count) } else { nil }
    }

    /// What is first in an array, if anything is.
    var first: JSONDocument { JSONDocument(storage, index + 1) }

    /// What comes after an element, if anything does.
    var next: JSONDocument { JSONDocument(storage, storage.tokens.end(of: index)) }

    /// The same with what is in it as tokens, if it is a value so far.
    var opened: JSONDocument {
        guard case .value(let index) = token, let tokens = JSONTokens(opening: storage.tokens.values[index]) else {
            return self
        }
        return JSONDocument(Storage([], tokens), 0)
    }

    private func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        storage.bytes.withUnsafeBufferPointer(body)
    }
}
