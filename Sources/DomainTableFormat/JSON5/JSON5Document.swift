/// A text of JSON5 (<https://spec.json5.org>) as a tree that knows its places.
///
/// Comments, trailing commas, single quotes, keys without quotes, hexadecimal numbers, `Infinity` and `NaN`, and lines
/// continued with a backslash are read as the specification says. Keys that occur twice are kept; who reads the tree
/// reports them.
package struct JSON5Document: Sendable {
    /// The text.
    package let source: SourceText
    /// The value, `nil` when the text breaks off or cannot be read any further.
    package let root: JSON5Node?
    /// What is wrong with the text. A missing comma is reported and taken as there, so that the rest can be checked;
    /// everything else ends the reading.
    package let diagnostics: [TableDiagnostic]

    /// Reads a text. Never fails and never traps, whatever the bytes.
    package init(_ bytes: [UInt8], name: String) {
        let source = SourceText(bytes, name: name)
        self.source = source
        if let invalid = Self.firstInvalidByte(bytes) {
            root = nil
            let code = String(bytes[invalid], radix: 16)
            diagnostics = [
                TableDiagnostic(
                    .error, at: invalid..<invalid, of: source, "byte 0x\(code) is no UTF-8; save the file as UTF-8")
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

    /// The first byte that decoding changes.
    private static func firstInvalidByte(_ bytes: [UInt8]) -> Int? {
        guard String(validating: bytes, as: UTF8.self) == nil else { return nil }
        var repaired = String(decoding: bytes, as: UTF8.self).utf8.makeIterator()
        for (index, byte) in bytes.enumerated() where repaired.next() != byte { return index }
        return bytes.isEmpty ? nil : bytes.count - 1
    }
}
