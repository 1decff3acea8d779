internal import FoundationEssentials

/// Finds secret members of JSON, secret `name=value` pairs and `name:value` lines, and bearer tokens in a text, in one pass and
/// without parsing it as a whole, so that it also handles truncated texts, lines of JSON, event streams and bytes that are not
/// text. The rest is unchanged.
struct SecretScanner {
    private let secrets: Secrets
    /// Whether a secret number is replaced by a number, a list by a list, and truth values and `null` stay.
    private let keepsTypes: Bool
    /// Remembers a secret, and returns what is shown in its place; or returns what is shown of a string that has escapes, and
    /// may hold JSON or a URL of its own.
    typealias Mark = (_ text: String, _ isSecret: Bool) -> String

    init(_ secrets: Secrets, keepsTypes: Bool) {
        self.secrets = secrets
        self.keepsTypes = keepsTypes
    }

    func scan(_ bytes: [UInt8], by mark: Mark) -> [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count)
        var index = 0
        while true {
            let plain = Self.endOfPlain(bytes, index)
            output += bytes[index..<plain]
            index = plain
            guard index < bytes.count else { return output }
            let byte = bytes[index]
            if byte == UInt8(ascii: "\"") {
                let end = Self.endOfString(bytes, index)
                let colon = Self.skipSpaces(bytes, end)
                guard colon < bytes.count, bytes[colon] == UInt8(ascii: ":"), end - index >= 2,
                    secrets.contains(member: Self.name(bytes[(index + 1)..<(end - 1)]))
                else {
                    index = inner(bytes, index, end, &output, mark)
                    continue
                }
                let start = Self.startOfValue(bytes, colon + 1)
                let stop = Self.endOfValue(bytes, start)
                output += bytes[index..<start]
                index = replace(bytes, start, stop, &output, quotes: true, mark)
            } else if byte == UInt8(ascii: "="), let start = Self.startOfWord(bytes, index),
                secrets.contains(parameter: String(decoding: bytes[start..<index], as: UTF8.self))
            {
                output.append(byte)
                index = replace(bytes, index + 1, Self.endOfWord(bytes, index + 1), &output, quotes: false, mark)
            } else if byte == 0x20 || byte == UInt8(ascii: ":"),
                let value = secretLine(bytes, index) ?? bearerToken(bytes, index)
            {
                output += bytes[index..<value.lowerBound]
                index = replace(bytes, value.lowerBound, value.upperBound, &output, quotes: false, mark)
            } else if byte == UInt8(ascii: "\\"), index + 1 < bytes.count, bytes[index + 1] == UInt8(ascii: "\"") {
                index = escapedMember(bytes, index, &output, mark)
            } else {
                output.append(byte)
                index += 1
            }
        }
    }

    /// The index of the next byte at which ``scan(_:by:)`` looks.
    private static func endOfPlain(_ bytes: [UInt8], _ start: Int) -> Int {
        bytes.withUnsafeBufferPointer { bytes in
            var index = start
            while index < bytes.count {
                switch bytes[index] {
                case UInt8(ascii: "\""), UInt8(ascii: "="), 0x20, UInt8(ascii: ":"), UInt8(ascii: "\\"): return index
                default: index += 1
                }
            }
            return index
        }
    }

    /// The value after the colon of a line `name:value`, as STOMP, YAML and the heads of messages have it.
    private func secretLine(_ bytes: [UInt8], _ colon: Int) -> Range<Int>? {
        guard bytes[colon] == UInt8(ascii: ":"), var lineStart = Self.startOfWord(bytes, colon) else { return nil }
        let start = lineStart
        // In YAML, a line may be indented, and an element of a list.
        while lineStart > 0, start - lineStart < 64, " \t-".utf8.contains(bytes[lineStart - 1]) { lineStart -= 1 }
        guard lineStart == 0 || bytes[lineStart - 1] == 0x0A,
            secrets.contains(member: String(decoding: bytes[start..<colon], as: UTF8.self))
        else { return nil }
        let rest = bytes[(colon + 1)...]
        let value = rest.prefix { $0 != 0x0A && $0 != 0x0D && $0 != 0 }.drop { $0 == 0x20 || $0 == 0x09 }
        return value.isEmpty ? nil : value.indices
    }

    /// What follows the scheme `Bearer` (RFC 6750 §2.1), unless it is a word of a sentence.
    private func bearerToken(_ bytes: [UInt8], _ space: Int) -> Range<Int>? {
        guard bytes[space] == 0x20, let start = Self.startOfWord(bytes, space), space - start == 6,
            String(decoding: bytes[start..<space], as: UTF8.self).lowercased() == "bearer",
            secrets.contains(header: "Authorization")
        else { return nil }
        let token = bytes[(space + 1)...].prefix {
            Self.isOfName($0) && !"[]%".utf8.contains($0) || "~+/=".utf8.contains($0)
        }
        let isToken = token.count >= 8 && !Redactor.isWord(String(decoding: token, as: UTF8.self))
        return isToken ? token.indices : nil
    }

    /// A string that is scanned itself, as it may hold a form, or JSON with escaped quotes.
    ///
    /// - Returns: the index after what is written of it.
    private func inner(_ bytes: [UInt8], _ index: Int, _ end: Int, _ output: inout [UInt8], _ mark: Mark) -> Int {
        let literal = bytes[index..<end]
        guard literal.holds(UInt8(ascii: "\\")), let plain = (try? JSONValue(parsing: Data(literal)))?.string else {
            output.append(bytes[index])
            return index + 1
        }
        let shown = mark(plain, false)
        output += shown == plain ? Array(literal) : Array(JSONValue.string(shown).description.utf8)
        return end
    }

    /// JSON inside of a string whose end is missing: `\"token\":\"…`.
    private func escapedMember(
        _ bytes: [UInt8], _ index: Int, _ output: inout [UInt8], _ mark: Mark
    ) -> Int {
        let quote: [UInt8] = [UInt8(ascii: "\\"), UInt8(ascii: "\"")]
        func next(_ start: Int) -> Int? {
            var at = start
            while at + 1 < bytes.count, at - start < 8_192 {
                if bytes[at] == quote[0], bytes[at + 1] == quote[1] { return at }
                if bytes[at] == quote[1] { return nil }
                // An escape of the inner JSON: two backslashes, and one character or its escape.
                if bytes[at] == quote[0], bytes[at + 1] == quote[0] { at += 2 }
                if at < bytes.count, bytes[at] == quote[0] { at += 1 }
                at += 1
            }
            return nil
        }
        guard let nameEnd = next(index + 2), case let colon = Self.skipSpaces(bytes, nameEnd + 2), colon < bytes.count,
            bytes[colon] == UInt8(ascii: ":"),
            secrets.contains(member: String(decoding: bytes[(index + 2)..<nameEnd], as: UTF8.self)),
            case let start = Self.skipSpaces(bytes, colon + 1), start + 1 < bytes.count
        else {
            output += bytes[index..<(index + 2)]
            return index + 2
        }
        guard bytes[start] == quote[0], bytes[start + 1] == quote[1] else {
            let end = Self.endOfValue(bytes, start, isInString: true)
            let value = Array(Self.name(bytes[start..<end]).utf8)
            var shown: [UInt8] = []
            _ = replace(value, 0, value.count, &shown, quotes: false, mark)
            let isScalar = keepsTypes && shown.first.map { !"{[*".utf8.contains($0) } ?? false
            output += bytes[index..<start] + (isScalar ? shown : quote + shown.filter { $0 != quote[1] } + quote)
            return end
        }
        let end = next(start + 2) ?? Self.endOfWord(bytes, start + 2)
        output += bytes[index..<(start + 2)]
        output += Array(mark(Self.name(Array(Self.name(bytes[(start + 2)..<end]).utf8)[...]), true).utf8)
        return end
    }

    /// - Returns: the index after the value.
    private func replace(
        _ bytes: [UInt8], _ start: Int, _ stop: Int, _ output: inout [UInt8], quotes: Bool, _ mark: Mark
    ) -> Int {
        guard stop > start else { return stop }
        let isString = bytes[start] == UInt8(ascii: "\"")
        let inside = isString ? bytes[(start + 1)..<max(start + 1, stop - 1)] : bytes[start..<stop]
        if keepsTypes, quotes || !isString, Self.isTyped(inside) || isString {
            output += typed(bytes, start, stop, mark)
            return stop
        }
        let shown = mark(Self.name(inside), true)
        // Each string inside of a secret object or list is a secret, too.
        if !isString, let first = inside.first, first == UInt8(ascii: "{") || first == UInt8(ascii: "[") {
            _ = typed(bytes, start, stop, mark)
        }
        output += Array((quotes ? "\"\(shown)\"" : shown).utf8)
        return stop
    }

    /// Whether a value of JSON is not a string. A word such as `abc` of a form is none.
    private static func isTyped(_ value: ArraySlice<UInt8>) -> Bool {
        guard let first = value.first else { return false }
        if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") { return true }
        return (try? JSONValue(parsing: Data(value))) != nil
    }

    /// A value of JSON with other strings and numbers.
    private func typed(_ bytes: [UInt8], _ start: Int, _ stop: Int, _ mark: Mark) -> [UInt8] {
        var output: [UInt8] = []
        var index = start
        while index < stop {
            let byte = bytes[index]
            if byte == UInt8(ascii: "\"") {
                let end = min(stop, Self.endOfString(bytes, index))
                let colon = Self.skipSpaces(bytes, end)
                let isName = index > start && colon < stop && bytes[colon] == UInt8(ascii: ":")
                if isName || end - index <= 2 {
                    output += bytes[index..<end]
                } else {
                    let isClosed = bytes[end - 1] == byte
                    let secret = Self.name(bytes[(index + 1)..<(isClosed ? end - 1 : end)])
                    output += Array("\"\(mark(secret, true))\"".utf8)
                }
                index = end
            } else if byte == UInt8(ascii: "-") || (0x30...0x39).contains(byte) {
                var end = index + 1
                while end < stop, (0x30...0x39).contains(bytes[end]) || "+-.eE".utf8.contains(bytes[end]) { end += 1 }
                let standIn = mark(String(decoding: bytes[index..<end], as: UTF8.self), true)
                output += Array(StandIns.number(standIn).utf8)
                index = end
            } else {
                output.append(byte)
                index += 1
            }
        }
        return output
    }

    // MARK: Places

    /// The index after the closing quote; the end of the text for a truncated string.
    static func endOfString(_ bytes: [UInt8], _ start: Int) -> Int {
        var index = start + 1
        while index < bytes.count {
            if bytes[index] == UInt8(ascii: "\\") {
                index += 2
            } else if bytes[index] == UInt8(ascii: "\"") {
                return index + 1
            } else {
                index += 1
            }
        }
        return bytes.count
    }

    /// The index after a value of JSON.
    ///
    /// - Parameter isInString: whether the JSON is inside a string, whose closing quote also ends the value.
    private static func endOfValue(_ bytes: [UInt8], _ start: Int, isInString: Bool = false) -> Int {
        guard start < bytes.count else { return start }
        if bytes[start] == UInt8(ascii: "\""), !isInString { return endOfString(bytes, start) }
        var depth = 0
        var index = start
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "\""):
                if isInString { return index }
                index = endOfString(bytes, index)
                continue
            case UInt8(ascii: "\\") where isInString: index += 1
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if depth == 0 { return index }
                depth -= 1
                if depth == 0 { return index + 1 }
            case UInt8(ascii: ","), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: " "):
                if depth == 0 { return index }
            default: break
            }
            index += 1
        }
        return bytes.count
    }

    /// The index of what follows white space. In an event stream, JSON may go on in the next line, after `data:`.
    private static func skipSpaces(_ bytes: [UInt8], _ start: Int) -> Int {
        var index = start
        while index < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[index]) {
            let endsLine = bytes[index] == 0x0A || bytes[index] == 0x0D
            index += 1
            if endsLine, bytes[index...].starts(with: dataField) { index += dataField.count }
        }
        return index
    }

    private static let dataField = Array("data:".utf8)
    /// What other lines of an event begin with; `:` is a comment.
    private static let otherFields = [":", "id:", "event:", "retry:"].map { Array($0.utf8) }

    /// The start of the value after a colon. Lines of an event that are no data may come before it.
    private static func startOfValue(_ bytes: [UInt8], _ afterColon: Int) -> Int {
        var index = skipSpaces(bytes, afterColon)
        while index > afterColon, bytes[index - 1] == 0x0A || bytes[index - 1] == 0x0D,
            otherFields.contains(where: { bytes[index...].starts(with: $0) })
        {
            index = skipSpaces(bytes, bytes[index...].firstIndex { $0 == 0x0A || $0 == 0x0D } ?? bytes.count)
        }
        return index
    }

    /// The start of the name before an equals sign.
    private static func startOfWord(_ bytes: [UInt8], _ end: Int) -> Int? {
        var index = end
        while index > 0, end - index < 128, isOfName(bytes[index - 1]) { index -= 1 }
        return index < end ? index : nil
    }

    private static func endOfWord(_ bytes: [UInt8], _ start: Int) -> Int {
        var index = start
        if index < bytes.count, bytes[index] == UInt8(ascii: "\"") { return endOfString(bytes, index) }
        while index < bytes.count, bytes[index] > 0x20, !"&;,\"'<>)]}\\".utf8.contains(bytes[index]) { index += 1 }
        return index
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
            || "_-.[]%".utf8.contains(byte)
    }

    /// The text of a string of JSON, without its quotes.
    private static func name(_ bytes: ArraySlice<UInt8>) -> String {
        let text = String(decoding: bytes, as: UTF8.self)
        guard bytes.holds(UInt8(ascii: "\\")),
            let value = try? JSONValue(parsing: Data("\"\(text)\"".utf8)), let plain = value.string
        else { return text }
        return plain
    }
}

extension ArraySlice<UInt8> {
    fileprivate func holds(_ byte: UInt8) -> Bool { withUnsafeBufferPointer { $0.contains(byte) } }
}
