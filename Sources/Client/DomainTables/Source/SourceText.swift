/// The bytes of a file, and the starts of its lines.
///
/// Lines end at LF, CR LF or CR, as in editors and compilers.
package struct SourceText: Sendable {
    /// The name of the file in messages.
    package let name: String
    package let bytes: [UInt8]
    private let lineStarts: [Int]
    /// Whether each byte is a character, but for the ends of lines.
    private let isASCII: Bool
    /// Characters in long lines that are not ASCII: where each begins, and how many the line has before it. A column is
    /// counted from the last one, so that the positions in a file of one line do not cost the square of its length.
    private let marks: [(offset: Int, column: Int)]
    /// The names in `secretHeaders`, in lower case, wherever they stand.
    let secretHeaders: Set<String>

    package init(_ bytes: [UInt8], name: String) {
        self.name = name
        self.bytes = bytes
        var starts = [0]
        for (index, byte) in bytes.enumerated() {
            if byte == 0x0A || (byte == 0x0D && !(index + 1 < bytes.count && bytes[index + 1] == 0x0A)) {
                starts.append(index + 1)
            }
        }
        lineStarts = starts
        isASCII = bytes.allSatisfy { $0 < 0x80 }
        marks = isASCII ? [] : Self.marks(bytes, starts)
        secretHeaders = Self.secretHeaders(bytes)
    }

    private static func secretHeaders(_ bytes: [UInt8]) -> Set<String> {
        let key = Array("secretHeaders".utf8)
        var names: Set<String> = []
        var next = 6
        while next < bytes.count {
            guard bytes[next] == UInt8(ascii: "H"), bytes[(next - 6)...].starts(with: key) else {
                next += 1
                continue
            }
            let rest = bytes[(next + 7)...].prefix { $0 != UInt8(ascii: "]") && $0 != UInt8(ascii: "}") }
            let list = rest.drop { $0 != UInt8(ascii: "[") }
            for name in list.split(whereSeparator: { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "'") }) {
                names.insert(String(decoding: name, as: UTF8.self).lowercased())
            }
            // What was read is not read again, so that a file without brackets does not cost the square of its length.
            next = rest.endIndex
        }
        return names
    }

    private static let markDistance = 256

    private static func marks(_ bytes: [UInt8], _ starts: [Int]) -> [(offset: Int, column: Int)] {
        var marks: [(offset: Int, column: Int)] = []
        for (start, end) in zip(starts, starts.dropFirst() + [bytes.count]) where end - start > 16 * markDistance {
            // Repaired text has other offsets; a file that is not UTF-8 has one diagnostic.
            guard let line = String(validating: bytes[start..<end], as: UTF8.self) else { continue }
            var (offset, last) = (start, start)
            for (column, character) in line.enumerated() {
                if offset - last >= markDistance {
                    marks.append((offset, column))
                    last = offset
                }
                offset += character.utf8.count
            }
        }
        return marks
    }

    /// The position of a byte. An offset beyond the end means the end.
    package func position(of offset: Int) -> DomainTable.Position {
        let offset = min(max(0, offset), bytes.count)
        let line = lineIndex(of: offset)
        let column = column(of: offset, from: lineStarts[line])
        return DomainTable.Position(file: name, line: line + 1, column: column + 1)
    }

    private func column(of offset: Int, from start: Int) -> Int {
        // CR LF, the only character of two bytes, ends a line.
        if isASCII { return offset - start }
        var (low, high) = (0, marks.count)
        while low < high {
            let middle = (low + high) / 2
            if marks[middle].offset <= offset { low = middle + 1 } else { high = middle }
        }
        guard low > 0, marks[low - 1].offset >= start else { return text(start..<offset).count }
        return marks[low - 1].column + text(marks[low - 1].offset..<offset).count
    }

    /// The bytes of a range as text. Invalid UTF-8 becomes U+FFFD.
    package func text(_ range: Range<Int>) -> String {
        String(decoding: bytes[range.clamped(to: 0..<bytes.count)], as: UTF8.self)
    }

    /// The range of the line that contains a byte, without its line end.
    package func line(of offset: Int) -> Range<Int> {
        let index = lineIndex(of: min(max(0, offset), bytes.count))
        var end = index + 1 < lineStarts.count ? lineStarts[index + 1] : bytes.count
        while end > lineStarts[index], bytes[end - 1] == 0x0A || bytes[end - 1] == 0x0D { end -= 1 }
        return lineStarts[index]..<end
    }

    /// The index of the line that contains a byte.
    private func lineIndex(of offset: Int) -> Int {
        var low = 0
        var high = lineStarts.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if lineStarts[middle] <= offset { low = middle } else { high = middle }
        }
        return low
    }
}

extension DomainTable {
    /// A position in a text file: file, line and column.
    public struct Position: Hashable, Sendable, Comparable, CustomStringConvertible {
        /// The name under which the file was read.
        public var file: String
        /// The line, from 1.
        public var line: Int
        /// The column, counted in characters from 1. A tab is one character, and so is an emoji.
        public var column: Int

        /// Makes a position.
        public init(file: String, line: Int, column: Int) {
            self.file = file
            self.line = line
            self.column = column
        }

        /// The position as `file:line`.
        public var fileAndLine: String { "\(file):\(line)" }

        /// The position as `file:line:column`, which terminals and editors turn into a link.
        public var description: String { "\(file):\(line):\(column)" }

        /// Orders positions by file, line and column.
        public static func < (lhs: Self, rhs: Self) -> Bool {
            (lhs.file, lhs.line, lhs.column) < (rhs.file, rhs.line, rhs.column)
        }
    }
}

/// A value in a file, with its position.
package struct Located<Value: Sendable>: Sendable {
    package var value: Value
    package var position: DomainTable.Position
    /// The bytes of the value in the file.
    package var range: Range<Int>
}

extension Located: Equatable where Value: Equatable {}
