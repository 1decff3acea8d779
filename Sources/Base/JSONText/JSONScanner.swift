/// A scanner of JSON (RFC 8259) and of JSON5 (<https://spec.json5.org>), which checks a whole document and produces its
/// tokens.
///
/// JSON5 allows all that JSON does. What it allows in addition is in `JSONScanner+JSON5.swift`, and is reached only where
/// `isJSON5` is set.
///
/// Decoding a `JSONValue` with `JSONDecoder` takes about 400 ms for a megabyte of small objects, because every wrong guess
/// of a type throws. `JSONDecoder` also accepts `[1,]` and does not report where a document is malformed.
package struct JSONScanner {
    package enum Dialect: Sendable {
        case json
        /// The tokens have ranges. After a missing comma scanning continues, so that the rest is checked.
        case json5
    }

    let bytes: UnsafeBufferPointer<UInt8>
    let isJSON5: Bool
    private let maximumDepth: Int
    var position = 0
    var tokens = JSONTokens()

    private init(_ bytes: UnsafeBufferPointer<UInt8>, _ dialect: Dialect, _ maximumDepth: Int) {
        self.bytes = bytes
        self.isJSON5 = dialect == .json5
        self.maximumDepth = maximumDepth
    }

    /// Scans a document. Never traps, whatever the bytes.
    ///
    /// - Parameter maximumDepth: the largest depth of arrays and objects that is allowed.
    package static func tokens(
        of bytes: UnsafeBufferPointer<UInt8>, _ dialect: Dialect, maximumDepth: Int
    ) throws(JSONFailure) -> JSONTokens {
        var scanner = JSONScanner(bytes, dialect, maximumDepth)
        // An estimate: names and values take about ten bytes each.
        scanner.tokens.list.reserveCapacity(bytes.count / 10 + 8)
        do throws(JSONFailure) {
            try scanner.document()
        } catch {
            var failure = error
            failure.missingCommas = scanner.tokens.missingCommas
            throw failure
        }
        return scanner.tokens
    }

    /// Scans the texts at several ranges, each a document of JSON, into one list of tokens.
    ///
    /// - Returns: the tokens, and for each text the index of its first token, or why it is not JSON.
    package static func tokens(
        of bytes: UnsafeBufferPointer<UInt8>, at ranges: [Range<Int>], maximumDepth: Int
    ) -> (tokens: JSONTokens, roots: [Result<Int, JSONFailure>]) {
        var tokens = JSONTokens()
        tokens.list.reserveCapacity(bytes.count / 10 + 8)
        var roots: [Result<Int, JSONFailure>] = []
        roots.reserveCapacity(ranges.count)
        for range in ranges {
            // A scanner reads up to the end of its bytes.
            let text = UnsafeBufferPointer(rebasing: bytes[..<range.upperBound])
            var scanner = JSONScanner(text, .json, maximumDepth)
            scanner.position = range.lowerBound
            swap(&scanner.tokens, &tokens)
            let (root, strings) = (scanner.tokens.list.count, scanner.tokens.strings.count)
            do throws(JSONFailure) {
                try scanner.wholeValue()
                roots.append(.success(root))
            } catch {
                scanner.tokens.removeLast(after: root, strings)
                roots.append(.failure(error))
            }
            swap(&scanner.tokens, &tokens)
        }
        return (tokens, roots)
    }

    private mutating func document() throws(JSONFailure) {
        if bytes.count >= 3, bytes[0] == 0xEF, bytes[1] == 0xBB, bytes[2] == 0xBF { position = 3 }
        try wholeValue()
    }

    private mutating func wholeValue() throws(JSONFailure) {
        try skipBlanks()
        if position == bytes.count { throw failure(.empty) }
        try value(depth: 0)
        try skipBlanks()
        if position < bytes.count { throw failure(.end) }
    }

    private mutating func value(depth: Int) throws(JSONFailure) {
        let (start, place) = (position, tokens.list.count)
        if isJSON5 { tokens.ranges.append(start..<start) }
        switch peek {
        case UInt8(ascii: "\""): try text(UInt8(ascii: "\""))
        case UInt8(ascii: "{"): try elements(upTo: UInt8(ascii: "}"), depth: depth + 1)
        case UInt8(ascii: "["): try elements(upTo: UInt8(ascii: "]"), depth: depth + 1)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): try number()
        case UInt8(ascii: "t") where take("true"): tokens.append(.bool(true))
        case UInt8(ascii: "f") where take("false"): tokens.append(.bool(false))
        case UInt8(ascii: "n") where take("null"): tokens.append(.null)
        case UInt8(ascii: "'") where isJSON5: try text(UInt8(ascii: "'"))
        default:
            guard isJSON5, beginsNumber else { throw failure(.value) }
            try number()
        }
        if isJSON5 { tokens.ranges[place] = start..<position }
    }

    /// Reads an array, or an object, whose elements have names.
    private mutating func elements(upTo end: UInt8, depth: Int) throws(JSONFailure) {
        guard depth <= maximumDepth else {
            throw failure(.other("more than \(maximumDepth) nested arrays and objects"))
        }
        let start = position
        position += 1
        let isObject = end == UInt8(ascii: "}")
        let place = tokens.open()
        var (count, names) = (0, UInt64(0))
        try skipBlanks()
        while !((count == 0 || isJSON5) && take(end)) {
            if isJSON5 { try requireOpen(start, closing: end) }
            let name = isObject ? try self.name() : nil
            if let name, count < JSONTokens.mostCompared { compare(name, with: &names, ofObjectAt: place) }
            try value(depth: depth)
            count += 1
            try skipBlanks()
            if take(end) { break }
            if !take(UInt8(ascii: ",")) {
                if isJSON5 { try requireOpen(start, closing: end) }
                guard isJSON5, beginsElement(isObject) else { throw failure(.comma(closing: end, name: name)) }
                tokens.missingCommas.append(token(at: position))
            }
            try skipBlanks()
        }
        tokens.close(place, isObject: isObject, count: count)
    }

    /// Notes whether the name of the last token is that of an earlier member of the object at a place.
    ///
    /// - Parameter names: a bit for each of the earlier names. Those with the same bit are compared.
    @inline(__always)
    private mutating func compare(_ name: Range<Int>, with names: inout UInt64, ofObjectAt place: Int) {
        guard !tokens.mayRepeatNames else { return }
        let last = tokens.list.count - 1
        guard case .text(let start, let count) = tokens.list[last] else { return tokens.mayRepeatNames = true }
        // The first bytes of the name, at most eight.
        let size = Int(min(count, 8))
        var word: UInt64 = 0
        if bytes.count - start >= 8 {
            word = UnsafeRawBufferPointer(bytes).loadUnaligned(fromByteOffset: start, as: UInt64.self)
            word = UInt64(littleEndian: word) << (64 - size * 8)
        } else {
            for byte in bytes[start..<start + size] { word = word >> 8 | UInt64(byte) << 56 }
        }
        let hash = (word &+ UInt64(count)) &* 0x9E37_79B9_7F4A_7C15
        let bit: UInt64 = 1 << (hash >> 58)
        if names & bit != 0 {
            let name = UnsafeBufferPointer(rebasing: bytes[start..<start + Int(count)])
            tokens.mayRepeatNames = tokens.plainMember(name, from: place + 1, to: last, in: bytes) != nil
        }
        names |= bit
    }

    /// Reads a name and the colon, and returns the range of the name.
    private mutating func name() throws(JSONFailure) -> Range<Int> {
        let start = position
        switch peek {
        case UInt8(ascii: "\""): try text(UInt8(ascii: "\""))
        case UInt8(ascii: "'") where isJSON5: try text(UInt8(ascii: "'"))
        default:
            guard isJSON5, beginsIdentifier || peek == UInt8(ascii: "\\") else { throw failure(.name) }
            tokens.append(try identifier())
        }
        let name = start..<position
        if isJSON5 { tokens.ranges.append(name) }
        try skipBlanks()
        guard take(UInt8(ascii: ":")) else { throw failure(.colon(name: name)) }
        try skipBlanks()
        return name
    }
}

// MARK: Strings

extension JSONScanner {
    private mutating func text(_ quote: UInt8) throws(JSONFailure) {
        position += 1
        let start = position
        if quote == UInt8(ascii: "\"") { position = bytes.endOfPlainText(from: start) }
        guard quote == UInt8(ascii: "\""), peek == quote, let count = UInt32(exactly: position - start) else {
            return tokens.append(try string(quote, from: start))
        }
        tokens.append(.text(start: start, count: count))
        position += 1
    }

    /// Reads a string with escapes, non-ASCII characters or single quotes, or throws the reason why it is malformed.
    private mutating func string(_ quote: UInt8, from start: Int) throws(JSONFailure) -> String {
        var content: [UInt8] = []
        var run = start  // The start of the bytes that are not yet in `content`.
        while position < bytes.count {
            switch bytes[position] {
            case quote:
                let rest = UnsafeBufferPointer(rebasing: bytes[run..<position])
                if run > start { content.append(contentsOf: rest) }
                let text = run > start ? content.withUnsafeBufferPointer { $0.utf8Text } : rest.utf8Text
                guard let text else { throw JSONFailure(.other("the string is not in UTF-8"), at: start..<position) }
                position += 1
                return text
            case UInt8(ascii: "\\"):
                content.append(contentsOf: bytes[run..<position])
                position += 1
                if !isJSON5 || !takeLineEnd() { content.append(contentsOf: String(try escape()).utf8) }
                run = position
            case 0x0A where isJSON5, 0x0D where isJSON5:
                throw JSONFailure(.openString(quote: quote), at: start - 1..<position)
            case 0..<0x20 where !isJSON5:
                throw failure(.other("a control character in a string must be escaped"))
            default:
                position += 1
            }
        }
        throw JSONFailure(.openString(quote: quote), at: start - 1..<position)
    }

    private mutating func escape() throws(JSONFailure) -> Unicode.Scalar {
        let scalar: Unicode.Scalar
        switch peek {
        case UInt8(ascii: "\""): scalar = "\""
        case UInt8(ascii: "\\"): scalar = "\\"
        case UInt8(ascii: "/"): scalar = "/"
        case UInt8(ascii: "b"): scalar = "\u{8}"
        case UInt8(ascii: "f"): scalar = "\u{C}"
        case UInt8(ascii: "n"): scalar = "\n"
        case UInt8(ascii: "r"): scalar = "\r"
        case UInt8(ascii: "t"): scalar = "\t"
        case UInt8(ascii: "u"):
            position += 1
            return try unicodeEscape()
        default:
            return try additionalEscape()
        }
        position += 1
        return scalar
    }

    private mutating func unicodeEscape() throws(JSONFailure) -> Unicode.Scalar {
        let start = position - 2
        let first = try hexadecimalUnit()
        if let scalar = Unicode.Scalar(first) { return scalar }
        // RFC 8259 §7: a character beyond the Basic Multilingual Plane takes two escapes.
        let afterFirst = position
        if first < 0xDC00, take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")), let second = try? hexadecimalUnit(),
            (0xDC00...0xDFFF).contains(second)
        {
            return Unicode.Scalar(0x10000 + (UInt32(first) - 0xD800) << 10 + (UInt32(second) - 0xDC00)) ?? "\u{FFFD}"
        }
        position = afterFirst
        guard !isJSON5 else {
            let advice = "write both halves, or the character itself"
            throw JSONFailure(
                .other("half a surrogate pair is not a character; \(advice)"), at: start..<position)
        }
        return "\u{FFFD}"
    }

    /// Reads the four digits after `\u`.
    mutating func hexadecimalUnit() throws(JSONFailure) -> UInt16 {
        var unit: UInt16 = 0
        for index in position..<position + 4 {
            guard index < bytes.count, let digit = bytes[index].hexadecimalValue else {
                throw JSONFailure(
                    .other("expected four hexadecimal digits after \\u"), at: position..<min(index + 1, bytes.count))
            }
            unit = unit << 4 | UInt16(digit)
        }
        position += 4
        return unit
    }
}

// MARK: Bytes

extension JSONScanner {
    /// The next byte. At the end it is 0, which JSON allows nowhere, and JSON5 only in strings and comments.
    var peek: UInt8 { position < bytes.count ? bytes[position] : 0 }

    mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        position += 1
        return true
    }

    /// Takes `true`, `false` or `null`. In JSON5, the beginning of a longer word is not taken.
    private mutating func take(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard bytes.count - position >= count else { return false }
        for offset in 0..<count where bytes[position + offset] != word.utf8Start[offset] { return false }
        if isJSON5, position + count < token(at: position).upperBound { return false }
        position += count
        return true
    }

    @inline(__always)  // In JSON there is often nothing to skip.
    private mutating func skipBlanks() throws(JSONFailure) {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x0A, 0x0D, 0x09: position += 1
            default: guard isJSON5, try skipAdditionalBlank() else { return }
            }
        }
    }

    func failure(_ problem: JSONFailure.Problem) -> JSONFailure { JSONFailure(problem, at: token(at: position)) }
}
