import Glibc

/// A value or a name in a document. The contents of an array or object follow its token: elements, or names and values in
/// turn.
enum JSONToken {
    case null
    case bool(Bool)
    case int(Int64)
    case double(Double)
    /// The bytes of an ASCII string without escapes.
    case text(start: Int, count: UInt32)
    /// The index of a value that was made while parsing: any other string, or a decimal.
    case value(Int)
    /// `end` is the index of the token after the contents.
    case array(count: UInt32, end: Int)
    case object(count: UInt32, end: Int)
}

/// The tokens of a document, whose bytes the caller keeps.
struct JSONTokens: Sendable {
    var list: [JSONToken] = []
    private(set) var values: [JSONValue] = []

    init() {}

    init(_ value: JSONValue) { append(value) }

    /// The tokens of an array or object and its contents; `nil` for everything else.
    init?(opening value: JSONValue) {
        switch value {
        case .array(let elements):
            list = [.array(count: UInt32(clamping: elements.count), end: 1 + elements.count)]
            for element in elements { append(element) }
        case .object(let members):
            list = [.object(count: UInt32(clamping: members.count), end: 1 + 2 * members.count)]
            for (name, value) in members {
                append(.string(name))
                append(value)
            }
        default: return nil
        }
    }

    mutating func append(_ value: JSONValue) {
        switch value {
        case .null: list.append(.null)
        case .bool(let value): list.append(.bool(value))
        case .int(let value): list.append(.int(value))
        case .double(let value): list.append(.double(value))
        case .decimal, .string, .array, .object:
            list.append(.value(values.count))
            values.append(value)
        }
    }

    /// Reserves a token that is set when its contents are known, and returns its index.
    mutating func open() -> Int {
        list.append(.null)
        return list.count - 1
    }

    /// The index of the token after a value.
    func end(of index: Int) -> Int {
        switch list[index] {
        case .array(_, let end), .object(_, let end): end
        default: index + 1
        }
    }

    /// The index of a member's value in the object at an index. The last of repeated members counts.
    func member(_ name: String, ofObjectAt index: Int, in bytes: UnsafeBufferPointer<UInt8>) -> Int? {
        guard case .object(let count, _) = list[index] else { return nil }
        var contiguous = name
        return contiguous.withUTF8 { key in
            // Names are compared as `String`s. For ASCII, comparing the bytes is the same.
            let isASCII = key.endOfPlainText(from: 0) == key.count
            var found: Int?
            var next = index + 1
            for _ in 0..<count {
                let isEqual =
                    switch list[next] {
                    case .text(let start, let count) where isASCII:
                        Int(count) == key.count && bytes.isEqual(to: key, at: start)
                    case .text(let start, let count): name == bytes.text(at: start, count)
                    case .value(let index): values[index] == .string(name)
                    default: false
                    }
                if isEqual { found = next + 1 }
                next = end(of: next + 1)
            }
            return found
        }
    }

    /// The value whose token is at an index. Default: the whole document.
    func value(at index: Int = 0, in bytes: UnsafeBufferPointer<UInt8>) -> JSONValue {
        switch list[index] {
        case .null: return .null
        case .bool(let value): return .bool(value)
        case .int(let value): return .int(value)
        case .double(let value): return .double(value)
        case .text(let start, let count): return .string(bytes.text(at: start, count))
        case .value(let index): return values[index]
        case .array(let count, _):
            var elements: [JSONValue] = []
            elements.reserveCapacity(Int(count))
            var next = index + 1
            for _ in 0..<count {
                elements.append(value(at: next, in: bytes))
                next = end(of: next)
            }
            return .array(elements)
        case .object(let count, _):
            var members: [String: JSONValue] = [:]
            members.reserveCapacity(Int(count))
            var next = index + 1
            for _ in 0..<count {
                if case .string(let name) = value(at: next, in: bytes) {
                    members[name] = value(at: next + 1, in: bytes)
                }
                next = end(of: next + 1)
            }
            return .object(members)
        }
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// A string that is known to be ASCII.
    func text(at start: Int, _ count: UInt32) -> String {
        String(decoding: UnsafeBufferPointer(rebasing: self[start..<start + Int(count)]), as: UTF8.self)
    }

    /// The bytes as a string; `nil` when they are not UTF-8. `String(validating:as:)` takes about a thousand
    /// instructions more.
    var utf8Text: String? {
        var text = String(decoding: self, as: UTF8.self)
        // Decoding replaces invalid UTF-8, so the bytes differ then.
        return text.withUTF8 { $0.count == count && $0.isEqual(to: self, at: 0) } ? text : nil
    }

    fileprivate func isEqual(to other: UnsafeBufferPointer<UInt8>, at start: Int) -> Bool {
        guard let left = baseAddress, let right = other.baseAddress else { return other.isEmpty }
        return memcmp(left + start, right, other.count) == 0
    }
}
