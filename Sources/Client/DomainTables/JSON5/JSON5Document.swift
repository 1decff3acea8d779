import FoundationEssentials
import HTTPCore
import JSONText

/// A JSON5 document (<https://spec.json5.org>) as a tree with source positions.
///
/// It supports comments, trailing commas, single quotes, keys without quotes, hexadecimal numbers, `Infinity` and `NaN`,
/// and lines continued with a backslash. Duplicate keys are kept; the reader of the tree reports them.
package struct JSON5Document: Sendable {
    package let source: SourceText
    /// The top-level value; `nil` when parsing ended with an error.
    package let root: JSON5Node?
    /// The errors in the document. After a missing comma parsing continues, so that the rest is checked. Every other error
    /// ends parsing.
    package let diagnostics: [DomainTable.Diagnostic]

    /// The largest depth of arrays and objects: more than any table needs, and safe for any stack.
    private static let depthLimit = 64

    /// Parses a document. Never traps, whatever the bytes.
    package init(_ bytes: [UInt8], name: String) {
        let source = SourceText(bytes, name: name)
        self.source = source
        if let invalid = Self.firstInvalidByte(bytes) {
            root = nil
            let code = String(bytes[invalid], radix: 16)
            diagnostics = [
                DomainTable.Diagnostic(
                    .error, at: invalid..<invalid, of: source, "byte 0x\(code) is not UTF-8; save the file as UTF-8")
            ]
            return
        }
        do throws(JSONFailure) {
            let tokens = try bytes.withUnsafeBufferPointer { bytes throws(JSONFailure) in
                try JSONScanner.tokens(of: bytes, .json5, maximumDepth: Self.depthLimit)
            }
            var reader = JSON5Reader(source, tokens)
            root = reader.value()
            diagnostics = source.diagnostics(missingCommas: tokens.missingCommas)
        } catch {
            root = nil
            diagnostics = source.diagnostics(missingCommas: error.missingCommas) + [source.diagnostic(error)]
        }
    }

    /// The index of the first byte that is not UTF-8.
    private static func firstInvalidByte(_ bytes: [UInt8]) -> Int? {
        guard String(validating: bytes, as: UTF8.self) == nil else { return nil }
        var repaired = String(decoding: bytes, as: UTF8.self).utf8.makeIterator()
        for (index, byte) in bytes.enumerated() where repaired.next() != byte { return index }
        return bytes.count - 1
    }
}

/// Makes the tree of a document from its tokens.
private struct JSON5Reader {
    private let source: SourceText
    private let tokens: JSONTokens
    /// The index of the next token.
    private var next = 0

    init(_ source: SourceText, _ tokens: JSONTokens) {
        self.source = source
        self.tokens = tokens
    }

    /// Reads the next value, and all of its contents.
    mutating func value() -> JSON5Node {
        let (token, range) = (tokens.list[next], tokens.ranges[next])
        next += 1
        let value: JSON5Node.Value =
            switch token {
            case .null: .null
            case .bool(let flag): .bool(flag)
            case .int(let integer):
                .number(JSON5Number(double: Double(integer), integer: integer, text: source.text(range)))
            case .double(let double): .number(number(double, range))
            case .number(let index): .number(number(Double(tokens.strings[index]) ?? .nan, range))
            case .text, .string: .string(string(at: next - 1))
            case .array(_, let count): .array((0..<count).map { _ in self.value() })
            case .object(_, let count): .object((0..<count).map { _ in member() })
            }
        return JSON5Node(value, at: range)
    }

    private mutating func member() -> JSON5Member {
        let name = next
        next += 1
        return JSON5Member(key: string(at: name), keyRange: tokens.ranges[name], value: value())
    }

    private func string(at index: Int) -> String {
        source.bytes.withUnsafeBufferPointer { tokens.string(at: index, in: $0) } ?? ""
    }

    private func number(_ double: Double, _ range: Range<Int>) -> JSON5Number {
        let text = source.text(range)
        // The scanner reads `-0` as a double; in a table it is the integer 0.
        return JSON5Number(double: double, integer: Int64(text), text: text)
    }
}

/// A value in a JSON5 document, and its range of bytes.
package struct JSON5Node: Sendable {
    package enum Value: Sendable {
        case null
        case bool(Bool)
        case number(JSON5Number)
        case string(String)
        case array([JSON5Node])
        /// The members in document order, including duplicate keys.
        case object([JSON5Member])
    }

    package var value: Value
    /// The bytes of the value, with brackets and quotes.
    package var range: Range<Int>

    package init(_ value: Value, at range: Range<Int>) {
        self.value = value
        self.range = range
    }
}

/// A key of an object and its value.
package struct JSON5Member: Sendable {
    package var key: String
    package var keyRange: Range<Int>
    package var value: JSON5Node
}

/// A number, which is exact if it is a 64-bit integer.
package struct JSON5Number: Hashable, Sendable {
    /// The value; it may be infinite or NaN.
    package var double: Double
    /// The value if it is written as an integer and fits; `nil` for `1e4`.
    package var integer: Int64?
    /// The number as written.
    package var text: String

    /// The value with all its digits; `nil` for a number with more than a `Decimal` holds.
    package var exact: JSONValue? {
        if let integer { return .int(integer) }
        if !double.isFinite { return .double(double) }
        // Of hexadecimal digits, only those that fit a 64-bit integer are exact for sure.
        guard !text.lowercased().contains("0x") else { return nil }
        let digits = DecimalDigits(text)
        if DecimalDigits(double.description) == digits { return .double(double) }
        guard let decimal = Decimal(string: text), DecimalDigits(decimal.description) == digits else { return nil }
        return .decimal(decimal)
    }
}

extension JSON5Node {
    /// A description of the value for messages: `the string "abc"`, `the number 60`, `an object`.
    package var phrase: String {
        switch value {
        case .null: "null"
        case .bool(let flag): "\(flag)"
        case .number(let number): "the number \(number.text)"
        case .string(let text): "the string \(QuotedText.of(text))"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

extension JSONValue {
    /// The value of a tree. Of equal keys the first counts.
    package init(_ node: JSON5Node.Value) {
        switch node {
        case .null: self = .null
        case .bool(let flag): self = .bool(flag)
        case .number(let number): self = number.exact ?? .double(number.double)
        case .string(let text): self = .string(text)
        case .array(let elements): self = .array(elements.map { JSONValue($0.value) })
        case .object(let members):
            self = .object(Dictionary(members.map { ($0.key, JSONValue($0.value.value)) }) { first, _ in first })
        }
    }
}
