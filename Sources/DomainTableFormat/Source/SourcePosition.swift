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
