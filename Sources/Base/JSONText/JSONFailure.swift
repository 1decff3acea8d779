/// The reason why a text is not JSON, or not JSON5. The caller of the scanner makes the message from it.
package struct JSONFailure: Error {
    package enum Problem: Sendable {
        /// There is no value in the text.
        case empty
        /// Expected a value.
        case value
        /// Expected the name of a member.
        case name
        /// Expected a colon after the name at this range.
        case colon(name: Range<Int>)
        /// Expected a comma, or the closing bracket: after the value of the name at this range, or in an array.
        case comma(closing: UInt8, name: Range<Int>?)
        /// Expected the end of the text.
        case end
        /// A string without the closing quote; in JSON5 it must be in the same line.
        case openString(quote: UInt8)
        /// Expected an escape after the backslash.
        case escape
        /// Not a number. `expected` says what is missing, such as a digit in the exponent. It is `nil` for a digit
        /// after a leading 0, and in JSON5 for other faults too.
        case number(expected: String?)
        /// JSON5: the text ends inside of the array or object that begins at this index, or another bracket closes it.
        case unclosed(start: Int, closing: UInt8)
        /// JSON5: expected a comment after the slash, or a value.
        case comment
        /// JSON5: this name must be in quotes.
        case bareName
        /// Any other problem, in words.
        case other(String)
    }

    package let problem: Problem
    /// The bytes that are wrong. They are empty at the end of the text.
    package let range: Range<Int>
    /// The tokens before which a comma is missing, up to the failure; see ``JSONTokens/missingCommas``.
    package internal(set) var missingCommas: [Range<Int>] = []

    init(_ problem: Problem, at range: Range<Int>) {
        self.problem = problem
        self.range = range
    }
}
