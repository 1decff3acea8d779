import Glibc

/// A value or a name in a document. The contents of an array or object follow its token: elements, or names and values in
/// turn.
package enum JSONToken: Sendable {
    case null
    case bool(Bool)
    case int(Int64)
    case double(Double)
    /// The index of a number's text in `strings`. Neither an `Int64` nor a `Double` holds all its digits.
    case number(Int)
    /// The bytes of an ASCII string without escapes.
    case text(start: Int, count: UInt32)
    /// The index of any other string in `strings`.
    case string(Int)
    /// `end` is the index of the token after the contents. In this order a token takes 16 bytes, in the other 24.
    case array(end: Int, count: UInt32)
    case object(end: Int, count: UInt32)
}

/// The tokens of a document, whose bytes the caller keeps.
package struct JSONTokens: Sendable {
    package internal(set) var list: [JSONToken] = []
    package private(set) var strings: [String] = []
    /// The bytes of each token; for JSON5 only.
    package internal(set) var ranges: [Range<Int>] = []
    /// The tokens before which a comma is missing; for JSON5 only.
    package internal(set) var missingCommas: [Range<Int>] = []
    /// Whether an object of at most ``mostCompared`` members may have two of one name. Names with escapes or beyond ASCII are
    /// not compared, and count as repeated.
    package var mayRepeatNames = false
    static let mostCompared: UInt32 = 64

    package init() {}

    package mutating func append(_ token: JSONToken) { list.append(token) }

    package mutating func append(_ string: String) {
        list.append(.string(strings.count))
        strings.append(string)
    }

    package mutating func append(number: String) {
        list.append(.number(strings.count))
        strings.append(number)
    }

    /// Removes the tokens of a text that turned out not to be JSON.
    mutating func removeLast(after count: Int, _ stringCount: Int) {
        list.removeLast(list.count - count)
        strings.removeLast(strings.count - stringCount)
    }

    /// Reserves the token of an array or object, and returns its index for ``close(_:isObject:count:)``.
    package mutating func open() -> Int {
        list.append(.null)
        return list.count - 1
    }

    /// Sets the token of an array or object whose contents are complete.
    package mutating func close(_ place: Int, isObject: Bool, count: Int) {
        let (size, next) = (UInt32(clamping: count), list.count)
        list[place] = isObject ? .object(end: next, count: size) : .array(end: next, count: size)
    }

    /// The index of the token after a value.
    package func end(of index: Int) -> Int {
        switch list[index] {
        case .array(let end, _), .object(let end, _): end
        default: index + 1
        }
    }

    /// The string or name of a token; `nil` for every other one.
    package func string(at index: Int, in bytes: UnsafeBufferPointer<UInt8>) -> String? {
        switch list[index] {
        case .text(let start, let count): bytes.text(at: start, count)
        case .string(let index): strings[index]
        default: nil
        }
    }

    /// The index of the name of a member of the object at an index. The last of repeated members counts.
    ///
    /// - Parameter start: the index of the name where the search begins if no name is repeated. Default: the first.
    package func member(
        _ name: String, ofObjectAt index: Int, from start: Int = 0, in bytes: UnsafeBufferPointer<UInt8>
    ) -> Int? {
        guard case .object(let end, let count) = list[index] else { return nil }
        var contiguous = name
        return contiguous.withUTF8 { key in
            if !mayRepeatNames, count <= Self.mostCompared {
                let (first, start) = (index + 1, max(start, index + 1))
                let found =
                    plainMember(key, from: start, to: end, in: bytes)
                    ?? plainMember(key, from: first, to: start, in: bytes)
                if found != nil { return found }
            }
            // Names are compared as `String`s. For ASCII, comparing the bytes is the same.
            let isASCII = key.endOfPlainText(from: 0) == key.count
            if isASCII, !mayRepeatNames, count <= Self.mostCompared { return nil }
            var found: Int?
            var next = index + 1
            for _ in 0..<count {
                let isEqual =
                    switch list[next] {
                    case .text(let start, let count) where isASCII:
                        Int(count) == key.count && bytes.isEqual(to: key, at: start)
                    case .text(let start, let count): name == bytes.text(at: start, count)
                    case .string(let index): strings[index] == name
                    default: false
                    }
                if isEqual { found = next }
                next = self.end(of: next + 1)
            }
            return found
        }
    }

    /// The index of the first of some names without escapes that is equal to a key.
    @inline(__always)
    func plainMember(
        _ key: UnsafeBufferPointer<UInt8>, from start: Int, to end: Int, in bytes: UnsafeBufferPointer<UInt8>
    ) -> Int? {
        var next = start
        while next < end {
            if case .text(let start, let count) = list[next], Int(count) == key.count,
                bytes.isEqual(to: key, at: start)
            {
                return next
            }
            next = self.end(of: next + 1)
        }
        return nil
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// A string that is known to be ASCII.
    package func text(at start: Int, _ count: UInt32) -> String {
        String(decoding: UnsafeBufferPointer(rebasing: self[start..<start + Int(count)]), as: UTF8.self)
    }

    /// The bytes as a string; `nil` when they are not UTF-8. `String(validating:as:)` takes about a thousand
    /// instructions more.
    var utf8Text: String? {
        var text = String(decoding: self, as: UTF8.self)
        // Decoding replaces invalid UTF-8, so the bytes differ then.
        return text.withUTF8 { $0.count == count && $0.isEqual(to: self, at: 0) } ? text : nil
    }

    fileprivate func isEqual(to other: UnsafeBufferPointer<UInt8>, at start: Int) -> Bool {
        guard let left = baseAddress, let right = other.baseAddress else { return other.isEmpty }
        return memcmp(left + start, right, other.count) == 0
    }

    /// The index of the first byte that is `"`, `\`, a control character or not ASCII; the end if there is none. Compares
    /// eight bytes at a time.
    package func endOfPlainText(from start: Int) -> Int {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let bytes = UnsafeRawBufferPointer(self)
        var position = start
        while count - position >= 8 {
            let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self))
            let quotes = word ^ (ones &* 0x22)
            let backslashes = word ^ (ones &* 0x5C)
            // The high bit of every byte that matches. Borrows can set it in other bytes, but only above the first match.
            let hits =
                ((quotes &- ones) & ~quotes | (backslashes &- ones) & ~backslashes | (word &- ones &* 0x20) & ~word
                    | word) & (ones &* 0x80)
            if hits != 0 { return position + hits.trailingZeroBitCount / 8 }
            position += 8
        }
        while position < count, case let byte = self[position], byte < 0x80, byte >= 0x20, byte != 0x22, byte != 0x5C {
            position += 1
        }
        return position
    }
}

extension UInt8 {
    /// The value of an ASCII hexadecimal digit; `nil` for every other byte.
    package var hexadecimalValue: UInt8? {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// Whether this is an ASCII digit.
    package var isDigit: Bool { self >= UInt8(ascii: "0") && self <= UInt8(ascii: "9") }
}

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

    package init(_ problem: Problem, at range: Range<Int>) {
        self.problem = problem
        self.range = range
    }
}
