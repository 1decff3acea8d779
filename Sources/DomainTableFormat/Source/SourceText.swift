/// The bytes of a file, and the starts of its lines.
///
/// Lines end at LF, CR LF or CR, as in editors and compilers.
package struct SourceText: Sendable {
    /// The name of the file in messages.
    package let name: String
    package let bytes: [UInt8]
    private let lineStarts: [Int]

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
    }

    /// The position of a byte. An offset beyond the end means the end.
    package func position(of offset: Int) -> SourcePosition {
        let offset = min(max(0, offset), bytes.count)
        let line = lineIndex(of: offset)
        let column = text(lineStarts[line]..<offset).count
        return SourcePosition(file: name, line: line + 1, column: column + 1)
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

/// A position in a text file: file, line and column.
public struct SourcePosition: Hashable, Sendable, Comparable, CustomStringConvertible {
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

/// A value in a file, with its position.
package struct Located<Value: Sendable>: Sendable {
    package var value: Value
    package var position: SourcePosition
    /// The bytes of the value in the file.
    package var range: Range<Int>
}

extension Located: Equatable where Value: Equatable {}
