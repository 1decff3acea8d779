public import FoundationEssentials

extension JSONValue {
    /// Reads one JSON document in UTF-8 (RFC 8259).
    ///
    /// Any value may stand at the top, a byte order mark before it is skipped, of
    /// a member named twice the last stays. A half of a surrogate pair in an
    /// escape reads as U+FFFD, since servers that cut texts send them. Everything
    /// else the RFC does not allow is an error: comments, trailing commas, `NaN`,
    /// text after the value, bytes that are no UTF-8, more than
    /// ``maximumDepth`` levels, numbers beyond `Double` and `Decimal`.
    ///
    /// - Throws: ``ParsingError``, which says where and what.
    public init(parsing data: Data) throws {
        self = try data.withUnsafeBytes { raw throws(ParsingError) in
            try raw.withMemoryRebound(to: UInt8.self) { bytes throws(ParsingError) in
                try JSONScanner.tokens(of: bytes).value(in: bytes)
            }
        }
    }

    /// Reads one JSON document; see ``init(parsing:)-(Data)``.
    ///
    /// - Throws: ``ParsingError``, which says where and what.
    public init(parsing text: String) throws {
        var text = text
        self = try text.withUTF8 { bytes throws(ParsingError) in
            try JSONScanner.tokens(of: bytes).value(in: bytes)
        }
    }

    /// Why a text is no JSON.
    public struct ParsingError: Error, Hashable, Sendable, CustomStringConvertible {
        /// The line, from 1.
        public let line: Int
        /// The character in the line (a Unicode scalar), from 1.
        public let column: Int
        /// What was expected or is wrong there.
        public let reason: String

        /// `line 3, column 14: expected ":" after the name, found "}"`.
        public var description: String { "line \(line), column \(column): \(reason)" }
    }
}
