/// The bytes of a file and where its lines begin.
///
/// Lines end at LF, CR LF or CR, as editors and compilers count them.
package struct SourceText: Sendable {
    /// What the file is called in messages.
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

    /// The place of a byte. One behind the end is the end.
    package func position(of offset: Int) -> SourcePosition {
        let offset = min(max(0, offset), bytes.count)
        let line = lineIndex(of: offset)
        let column = text(lineStarts[line]..<offset).count
        return SourcePosition(file: name, line: line + 1, column: column + 1)
    }

    /// The bytes of a range as text; what is no UTF-8 becomes U+FFFD.
    package func text(_ range: Range<Int>) -> String {
        String(decoding: bytes[range.clamped(to: 0..<bytes.count)], as: UTF8.self)
    }

    /// The bytes of the line that holds a byte, without its end.
    package func line(of offset: Int) -> Range<Int> {
        let index = lineIndex(of: min(max(0, offset), bytes.count))
        var end = index + 1 < lineStarts.count ? lineStarts[index + 1] : bytes.count
        while end > lineStarts[index], bytes[end - 1] == 0x0A || bytes[end - 1] == 0x0D { end -= 1 }
        return lineStarts[index]..<end
    }

    /// The last line that begins at or before the byte.
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

/// A place in a text file, as editors and compilers name it.
public struct SourcePosition: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The file, as it was named when it was read.
    public var file: String
    /// The line, from 1.
    public var line: Int
    /// The character of the line, from 1. A tab is one character, and so is an emoji.
    public var column: Int

    /// Makes a position.
    public init(file: String, line: Int, column: Int) {
        self.file = file
        self.line = line
        self.column = column
    }

    /// `file:line`, which is enough for a person to find it.
    public var fileAndLine: String { "\(file):\(line)" }

    /// `file:line:column`, as terminals and editors turn into a link.
    public var description: String { "\(file):\(line):\(column)" }

    /// By file, then by place.
    public static func < (lhs: Self, rhs: Self) -> Bool {
        (lhs.file, lhs.line, lhs.column) < (rhs.file, rhs.line, rhs.column)
    }
}

/// A value of a file, and where it stands.
package struct Located<Value: Sendable>: Sendable {
    package var value: Value
    package var position: SourcePosition
    /// The bytes of the file it was written with.
    package var range: Range<Int>

    package init(_ value: Value, at position: SourcePosition, range: Range<Int>) {
        self.value = value
        self.position = position
        self.range = range
    }
}

extension Located: Equatable where Value: Equatable {}
