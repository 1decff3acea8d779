/// A recursive descent parser of JSON5.
struct JSON5Parser {
    /// An error that ends parsing.
    struct Failure: Error {
        var range: Range<Int>
        var message: String
        var expected: String?
        var found: String?
    }

    /// The largest depth of arrays and objects: more than any table needs, and safe for any stack.
    static let depthLimit = 64

    let source: SourceText
    let bytes: [UInt8]
    var index = 0
    private(set) var diagnostics: [TableDiagnostic] = []

    init(_ source: SourceText) {
        self.source = source
        bytes = source.bytes
    }

    mutating func document() throws(Failure) -> JSON5Node {
        try skipBlanks()
        guard index < bytes.count else {
            throw Failure(range: index..<index, message: "the file is empty; expected { … }", expected: "an object")
        }
        let root = try value(depth: 0)
        try skipBlanks()
        guard index == bytes.count else { throw unexpected("the end of the file") }
        return root
    }

    private mutating func value(depth: Int) throws(Failure) -> JSON5Node {
        guard let byte = current else { throw unexpected("a value") }
        switch byte {
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "\""), UInt8(ascii: "'"):
            let start = index
            return JSON5Node(.string(try string()), at: start..<index)
        case UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "0")...UInt8(ascii: "9"):
            return try number()
        default: return try word()
        }
    }

    // MARK: Objects and arrays

    private mutating func object(depth: Int) throws(Failure) -> JSON5Node {
        let start = try open(depth)
        var members: [JSON5Member] = []
        while true {
            try skipBlanks()
            if take(UInt8(ascii: "}")) { return JSON5Node(.object(members), at: start..<index) }
            try requireOpen(start, closedBy: "}")
            let keyStart = index
            let key = try self.key()
            let keyRange = keyStart..<index
            try skipBlanks()
            guard take(UInt8(ascii: ":")) else { throw unexpected("\":\" after the key \(QuotedText.of(key))") }
            try skipBlanks()
            let value = try value(depth: depth + 1)
            members.append(JSON5Member(key: key, keyRange: keyRange, value: value))
            try skipBlanks()
            if take(UInt8(ascii: ",")) || current == UInt8(ascii: "}") { continue }
            try requireOpen(start, closedBy: "}")
            guard let byte = current, byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") || startsIdentifier else {
                throw unexpected("\",\" or \"}\" after the value of \(QuotedText.of(key))")
            }
            reportMissingComma()
        }
    }

    private mutating func array(depth: Int) throws(Failure) -> JSON5Node {
        let start = try open(depth)
        var elements: [JSON5Node] = []
        while true {
            try skipBlanks()
            if take(UInt8(ascii: "]")) { return JSON5Node(.array(elements), at: start..<index) }
            try requireOpen(start, closedBy: "]")
            elements.append(try value(depth: depth + 1))
            try skipBlanks()
            if take(UInt8(ascii: ",")) || current == UInt8(ascii: "]") { continue }
            try requireOpen(start, closedBy: "]")
            guard let byte = current, byte != UInt8(ascii: ":"), byte != UInt8(ascii: "=") else {
                throw unexpected("\",\" or \"]\" in the array")
            }
            reportMissingComma()
        }
    }

    private mutating func open(_ depth: Int) throws(Failure) -> Int {
        guard depth < Self.depthLimit else {
            throw Failure(
                range: index..<(index + 1), message: "more than \(Self.depthLimit) levels of nesting; nest less deeply")
        }
        index += 1
        return index - 1
    }

    /// Throws at the end of the file, and at a closing bracket of the wrong kind.
    private func requireOpen(_ start: Int, closedBy bracket: String) throws(Failure) {
        let kind = bracket == "}" ? "object" : "array"
        guard let byte = current else {
            let line = source.position(of: start).line
            throw Failure(
                range: index..<index,
                message: "the file ends inside the \(kind) that begins in line \(line); expected \"\(bracket)\"",
                expected: "\"\(bracket)\"", found: "the end of the file")
        }
        if byte == UInt8(ascii: "}") || byte == UInt8(ascii: "]") {
            throw unexpected(
                "\"\(bracket)\" to close the \(kind) that begins in line \(source.position(of: start).line)")
        }
    }

    private mutating func reportMissingComma() {
        let token = token(at: index)
        diagnostics.append(
            TableDiagnostic(
                .error, at: token, of: source, "expected \",\" before \(shown(token))", expected: "\",\"",
                found: shown(token)))
    }

    // MARK: Keys and words

    private mutating func key() throws(Failure) -> String {
        if current == UInt8(ascii: "\"") || current == UInt8(ascii: "'") { return try string() }
        guard startsIdentifier || current == UInt8(ascii: "\\") else {
            if let byte = current, byte.isDigit || byte == UInt8(ascii: "-") {
                throw unexpected("a key", advice: "; keys like this one need quotes")
            }
            throw unexpected("a key")
        }
        return try identifier()
    }

    /// `IdentifierName` of ECMAScript 5.1 §7.6.
    private mutating func identifier() throws(Failure) -> String {
        var name = String.UnicodeScalarView()
        while let (scalar, length) = scalar(at: index) {
            let start = index
            if scalar == "\\" {
                index += 1
                guard take(UInt8(ascii: "u")), let escaped = Unicode.Scalar(try hexadecimal(digits: 4, from: start))
                else { throw Failure(range: start..<index, message: "the only escape in a bare key is \\uXXXX") }
                guard name.isEmpty ? escaped.startsIdentifier : escaped.continuesIdentifier else {
                    throw Failure(range: start..<index, message: "this character needs quotes around the key")
                }
                name.append(escaped)
            } else {
                guard name.isEmpty ? scalar.startsIdentifier : scalar.continuesIdentifier else { break }
                name.append(scalar)
                index += length
            }
        }
        if current == UInt8(ascii: "-") || current == UInt8(ascii: ".") {
            let token = token(at: index - name.reduce(0) { $0 + UTF8.width($1) })
            throw Failure(range: token, message: "the key \(shown(token)) needs quotes", found: shown(token))
        }
        return String(name)
    }

    private mutating func word() throws(Failure) -> JSON5Node {
        let token = token(at: index)
        let values: [(String, JSON5Node.Value)] = [("true", .bool(true)), ("false", .bool(false)), ("null", .null)]
        let text = source.text(token)
        if let value = values.first(where: { $0.0 == text })?.1 {
            index = token.upperBound
            return JSON5Node(value, at: token)
        }
        if text == "Infinity" || text == "NaN" { return try number() }
        guard startsIdentifier else { throw unexpected("a value") }
        let advice =
            NearestName.of(text, among: values.map(\.0)).map { "did you mean \($0)?" } ?? "strings need quotes"
        throw unexpected("a value", advice: "; \(advice)")
    }

    // MARK: White space

    /// Skips white space and comments.
    private mutating func skipBlanks() throws(Failure) {
        while let byte = current {
            switch byte {
            case 0x09...0x0D, 0x20: index += 1
            case UInt8(ascii: "/"): try skipComment()
            case 0x80...:
                guard let (scalar, length) = scalar(at: index), scalar.isJSON5Space else { return }
                index += length
            default: return
            }
        }
    }

    private mutating func skipComment() throws(Failure) {
        let start = index
        switch index + 1 < bytes.count ? bytes[index + 1] : 0 {
        case UInt8(ascii: "/"):
            index += 2
            while index < bytes.count, lineEndLength(at: index) == 0 { index += 1 }
        case UInt8(ascii: "*"):
            index += 2
            while index + 1 < bytes.count {
                if bytes[index] == UInt8(ascii: "*"), bytes[index + 1] == UInt8(ascii: "/") {
                    index += 2
                    return
                }
                index += 1
            }
            throw Failure(
                range: start..<(start + 2), message: "the comment is not closed; expected */", expected: "*/")
        default: throw unexpected("a comment (// or /*) or a value")
        }
    }

    // MARK: Characters and tokens

    var current: UInt8? { index < bytes.count ? bytes[index] : nil }

    mutating func take(_ byte: UInt8) -> Bool {
        guard current == byte else { return false }
        index += 1
        return true
    }

    private var startsIdentifier: Bool { scalar(at: index)?.0.startsIdentifier ?? false }

    /// The character that begins at a byte, and its length in bytes.
    func scalar(at index: Int) -> (Unicode.Scalar, Int)? {
        guard index < bytes.count else { return nil }
        if bytes[index] < 0x80 { return (Unicode.Scalar(bytes[index]), 1) }
        var decoder = UTF8()
        var rest = bytes[index..<min(index + 4, bytes.count)].makeIterator()
        guard case .scalarValue(let scalar) = decoder.decode(&rest) else { return nil }
        return (scalar, UTF8.width(scalar))
    }

    /// The length of LF, CR, LS or PS at a byte; 0 when there is none. For CR LF it is 1, the length of CR.
    func lineEndLength(at index: Int) -> Int {
        switch bytes[index] {
        case 0x0A, 0x0D: return 1
        case 0xE2:
            let isSeparator =
                index + 2 < bytes.count && bytes[index + 1] == 0x80
                && (bytes[index + 2] == 0xA8 || bytes[index + 2] == 0xA9)
            return isSeparator ? 3 : 0
        default: return 0
        }
    }

    /// The token at a byte, for messages: at least one character, up to the next white space, bracket, comma, colon, quote or
    /// slash.
    func token(at start: Int) -> Range<Int> {
        var end = start
        while let (scalar, length) = scalar(at: end) {
            let isDelimiter =
                scalar.isJSON5Space || ("\t"..."\r").contains(scalar) || scalar == " "
                || "{}[]:,'\"/".unicodeScalars.contains(scalar)
            if isDelimiter, end > start { break }
            end += length
            if isDelimiter { break }
        }
        return start..<end
    }

    func shown(_ token: Range<Int>) -> String {
        token.isEmpty ? "the end of the file" : QuotedText.of(source.text(token))
    }

    func unexpected(_ expected: String, advice: String = "") -> Failure {
        let token = token(at: index)
        return Failure(
            range: token, message: "expected \(expected), found \(shown(token))\(advice)", expected: expected,
            found: shown(token))
    }
}

extension UInt8 {
    var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }

    var isLetter: Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self | 0x20) }
}

extension Unicode.Scalar {
    fileprivate var startsIdentifier: Bool {
        if isASCII { return properties.isAlphabetic || self == "_" || self == "$" }
        return properties.isIDStart
    }

    fileprivate var continuesIdentifier: Bool {
        if startsIdentifier || ("0"..."9").contains(self) { return true }
        return !isASCII && (properties.isIDContinue || self == "\u{200C}" || self == "\u{200D}")
    }

    /// White space and line ends of JSON5 §8 outside ASCII.
    fileprivate var isJSON5Space: Bool {
        switch value {
        case 0xA0, 0x1680, 0x2000...0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF: true
        default: false
        }
    }
}
