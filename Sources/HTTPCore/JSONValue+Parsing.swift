public import FoundationEssentials

extension JSONValue {
    /// Parses a JSON document in UTF-8 (RFC 8259).
    ///
    /// The top level may be any value. A byte order mark is skipped. The last of
    /// repeated members counts. An escape of an unpaired surrogate reads as
    /// U+FFFD, because servers that truncate strings send them. Everything else
    /// that the RFC does not allow is an error: comments, trailing commas, `NaN`,
    /// text after the value, bytes that are not UTF-8. So are more than
    /// ``maximumDepth`` levels and numbers beyond `Double` and `Decimal`.
    ///
    /// - Throws: ``ParsingError``, with the position and the reason.
    public init(parsing data: Data) throws {
        self = try data.withUnsafeBytes { raw throws(ParsingError) in
            try raw.withMemoryRebound(to: UInt8.self) { bytes throws(ParsingError) in
                try JSONScanner.tokens(of: bytes).value(in: bytes)
            }
        }
    }

    /// Parses a JSON document; see ``init(parsing:)-(Data)``.
    ///
    /// - Throws: ``ParsingError``, with the position and the reason.
    public init(parsing text: String) throws {
        var text = text
        self = try text.withUTF8 { bytes throws(ParsingError) in
            try JSONScanner.tokens(of: bytes).value(in: bytes)
        }
    }

    /// The reason why a text is not JSON.
    public struct ParsingError: Error, Hashable, Sendable, CustomStringConvertible {
        /// The line, from 1.
        public let line: Int
        /// The column in the line, counted in Unicode scalars from 1.
        public let column: Int
        /// What was expected, or what is wrong.
        public let reason: String

        /// The position and the reason: `line 3, column 14: expected ":" after the name, found "}"`.
        public var description: String { "line \(line), column \(column): \(reason)" }
    }
}

extension JSONValue.ParsingError: LocalizedError {
    /// The same as the description, which `localizedDescription` returns too.
    public var errorDescription: String? { "\(self)" }
}
