internal import FoundationEssentials
import JSONText

extension JSONTokens {
    /// Scans a document of JSON.
    static func scanning(_ bytes: UnsafeBufferPointer<UInt8>) throws(JSONValue.ParsingError) -> JSONTokens {
        do throws(JSONFailure) {
            return try JSONScanner.tokens(of: bytes, .json, maximumDepth: JSONValue.maximumDepth)
        } catch {
            throw JSONValue.ParsingError(error, in: bytes)
        }
    }

    /// The tokens of a value, which refer to no bytes; `nil` when it has more than ``JSONValue/maximumDepth`` levels.
    init?(_ value: JSONValue) {
        self.init()
        mayRepeatNames = true  // The names are strings, which are not compared by their bytes.
        guard append(value, depth: 0) else { return nil }
    }

    private mutating func append(_ value: JSONValue, depth: Int) -> Bool {
        guard depth <= JSONValue.maximumDepth else { return false }
        switch value {
        case .null: append(.null)
        case .bool(let value): append(.bool(value))
        case .int(let value): append(.int(value))
        case .double(let value): append(.double(value))
        case .decimal(let value): append(number: value.description)
        case .string(let value): append(value)
        case .array(let elements):
            let place = open()
            for element in elements where !append(element, depth: depth + 1) { return false }
            close(place, isObject: false, count: elements.count)
        case .object(let members):
            let place = open()
            for (name, value) in members {
                append(name)
                guard append(value, depth: depth + 1) else { return false }
            }
            close(place, isObject: true, count: members.count)
        }
        return true
    }

    /// The number of a token; `nil` for every other one.
    func number(at index: Int) -> JSONValue? {
        switch list[index] {
        case .int(let value): .int(value)
        case .double(let value): .double(value)
        case .number(let index): Self.number(strings[index])
        default: nil
        }
    }

    /// The number of a token, if a `Decimal` holds all its digits.
    func exactDecimal(at index: Int) -> Decimal? {
        let text: String
        switch list[index] {
        case .int(let value): return Decimal(value)
        case .double(let value):
            text = value.description
            // `Decimal` holds the 17 digits of a double whose exponent is in its range.
            if (1e-100...1e100).contains(value.magnitude) { return Decimal(string: text) }
        case .number(let index): text = strings[index]
        default: return nil
        }
        guard let decimal = Decimal(string: text), decimal.isFinite,
            DecimalDigits(text) == DecimalDigits(decimal.description)
        else { return nil }
        return decimal
    }

    /// A number that is neither an `Int64` nor a `Double`: a `Decimal` if that can hold it, else the nearest `Double`.
    private static func number(_ text: String) -> JSONValue {
        if let decimal = Decimal(string: text), decimal.isFinite { return .decimal(decimal) }
        return .double(Double(text) ?? .nan)
    }

    /// A value whose text is the same for documents that are equal but for white space, the order of members and the way
    /// in which a number or a string is written. Repeated members count; `nil` for a string that had unpaired surrogates.
    ///
    /// - Parameter omitted: the names of members of the document itself that do not count.
    func comparable(
        at index: Int = 0, without omitted: Set<String> = [], in bytes: UnsafeBufferPointer<UInt8>
    ) -> JSONValue? {
        var next = index + 1
        switch list[index] {
        // Digits that `Decimal` may not hold are compared as they are written.
        case .number(let index): return ["#": .string(strings[index])]
        case .string(let index):
            return strings[index].unicodeScalars.contains("\u{FFFD}") ? nil : .string(strings[index])
        case .array(_, let count):
            var elements: [JSONValue] = []
            for _ in 0..<count {
                guard let element = comparable(at: next, in: bytes) else { return nil }
                elements.append(element)
                next = end(of: next)
            }
            return .array(elements)
        case .object(_, let count):
            var members: [(name: String, value: JSONValue)] = []
            for _ in 0..<count {
                guard case .string(let name)? = comparable(at: next, in: bytes),
                    let value = comparable(at: next + 1, in: bytes)
                else { return nil }
                if !omitted.contains(name) { members.append((name, value)) }
                next = end(of: next + 1)
            }
            // Names are ordered by their bytes, since `String` has one order for two spellings of a character.
            let sorted = members.enumerated().sorted {
                $0.element.name.utf8.elementsEqual($1.element.name.utf8)
                    ? $0.offset < $1.offset : $0.element.name.utf8.lexicographicallyPrecedes($1.element.name.utf8)
            }
            return ["": .array(sorted.map { [.string($0.element.name), $0.element.value] })]
        default: return value(at: index, in: bytes)
        }
    }

    /// The value whose token is at an index. Default: the whole document.
    func value(at index: Int = 0, in bytes: UnsafeBufferPointer<UInt8>) -> JSONValue {
        switch list[index] {
        case .null: return .null
        case .bool(let value): return .bool(value)
        case .int(let value): return .int(value)
        case .double(let value): return .double(value)
        case .number(let index): return Self.number(strings[index])
        case .text(let start, let count): return .string(bytes.text(at: start, count))
        case .string(let index): return .string(strings[index])
        case .array(_, let count):
            var elements: [JSONValue] = []
            elements.reserveCapacity(Int(count))
            var next = index + 1
            for _ in 0..<count {
                elements.append(value(at: next, in: bytes))
                next = end(of: next)
            }
            return .array(elements)
        case .object(_, let count):
            var members: [String: JSONValue] = [:]
            members.reserveCapacity(Int(count))
            var next = index + 1
            for _ in 0..<count {
                if let name = string(at: next, in: bytes) { members[name] = value(at: next + 1, in: bytes) }
                next = end(of: next + 1)
            }
            return .object(members)
        }
    }
}

extension JSONValue.ParsingError {
    /// - Parameter start: where the bytes begin in those that were scanned.
    init(_ failure: JSONFailure, in bytes: UnsafeBufferPointer<UInt8>, from start: Int = 0) {
        let place = failure.range.lowerBound - start
        line = 1 + bytes[..<place].count { $0 == 0x0A }
        column = 1 + bytes[..<place].reversed().prefix { $0 != 0x0A }.count { $0 & 0xC0 != 0x80 }
        let next = Self.character(at: place, in: bytes)
        let found = ", found " + next
        reason =
            switch failure.problem {
            case .empty: "the document is empty"
            case .value: "expected a value" + found
            case .name: "expected a member's name" + found
            case .colon: "expected \":\" after the name" + found
            case .comma(let closing, _): "expected \",\" or \"\(Unicode.Scalar(closing))\"" + found
            case .end: "expected the end of the document" + found
            case .openString: "the string has no closing quote"
            case .escape: "unknown escape: \\ followed by " + next
            case .number(let digit?): "expected \(digit)" + found
            case .number(nil): "a number must not begin with 0"
            case .unclosed, .comment, .bareName: "expected JSON" + found  // Of JSON5 only.
            case .other(let reason): reason
            }
    }

    /// The character at a place, for messages, which show no more of a document.
    private static func character(at place: Int, in bytes: UnsafeBufferPointer<UInt8>) -> String {
        guard place < bytes.count else { return "the end of the document" }
        let next = String(decoding: bytes[place..<min(place + 4, bytes.count)], as: UTF8.self)
        return next.unicodeScalars.first.map { "\"\($0.escaped(asASCII: false))\"" } ?? "nothing"
    }
}
