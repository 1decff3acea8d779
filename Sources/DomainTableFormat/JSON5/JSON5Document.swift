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
    package let diagnostics: [TableDiagnostic]

    /// Parses a document. Never traps, whatever the bytes.
    package init(_ bytes: [UInt8], name: String) {
        let source = SourceText(bytes, name: name)
        self.source = source
        if let invalid = Self.firstInvalidByte(bytes) {
            root = nil
            let code = String(bytes[invalid], radix: 16)
            diagnostics = [
                TableDiagnostic(
                    .error, at: invalid..<invalid, of: source, "byte 0x\(code) is not UTF-8; save the file as UTF-8")
            ]
            return
        }
        var parser = JSON5Parser(source)
        do throws(JSON5Parser.Failure) {
            root = try parser.document()
            diagnostics = parser.diagnostics
        } catch {
            root = nil
            diagnostics =
                parser.diagnostics + [
                    TableDiagnostic(
                        .error, at: error.range, of: source, error.message, expected: error.expected, found: error.found
                    )
                ]
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
    /// The value if it is an integer that fits.
    package var integer: Int64?
    /// The number as written.
    package var text: String
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
