internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking

/// Finds secret members of JSON and secret `name=value` pairs in a text, in one pass and without parsing it as a whole, so that
/// it also handles truncated texts, lines of JSON and event streams. The rest of the text is unchanged.
struct SecretScanner {
    private let secrets: Secrets
    /// The values that were replaced.
    private(set) var values: [String] = []

    init(_ secrets: Secrets) { self.secrets = secrets }

    mutating func scan(_ text: String) -> String {
        let bytes = Array(text.utf8)
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            if byte == UInt8(ascii: "\"") {
                let end = Self.endOfString(bytes, index)
                let colon = Self.skipSpaces(bytes, end)
                guard colon < bytes.count, bytes[colon] == UInt8(ascii: ":"), end - index >= 2,
                    secrets.contains(parameter: Self.name(bytes[(index + 1)..<(end - 1)]))
                else {
                    // The string itself is scanned too: it may hold a form, or JSON with escaped quotes.
                    output.append(byte)
                    index += 1
                    continue
                }
                let start = Self.skipSpaces(bytes, colon + 1)
                let stop = Self.endOfValue(bytes, start)
                output += bytes[index..<start]
                index = replace(bytes, start, stop, &output, quotes: true)
            } else if byte == UInt8(ascii: "="), let start = Self.startOfWord(bytes, index),
                secrets.contains(parameter: String(decoding: bytes[start..<index], as: UTF8.self))
            {
                output.append(byte)
                index = replace(bytes, index + 1, Self.endOfWord(bytes, index + 1), &output, quotes: false)
            } else if byte == UInt8(ascii: "\\"), index + 1 < bytes.count, bytes[index + 1] == UInt8(ascii: "\"") {
                index = escapedMember(bytes, index, &output)
            } else {
                output.append(byte)
                index += 1
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// JSON inside of a string: `\"token\":\"…\"`.
    private mutating func escapedMember(_ bytes: [UInt8], _ index: Int, _ output: inout [UInt8]) -> Int {
        let mark: [UInt8] = [UInt8(ascii: "\\"), UInt8(ascii: "\"")]
        func next(_ start: Int) -> Int? {
            var at = start
            while at + 1 < bytes.count, at - start < 8_192 {
                if bytes[at] == mark[0], bytes[at + 1] == mark[1] { return at }
                if bytes[at] == mark[1] { return nil }
                at += 1
            }
            return nil
        }
        guard let nameEnd = next(index + 2), case let colon = Self.skipSpaces(bytes, nameEnd + 2), colon < bytes.count,
            bytes[colon] == UInt8(ascii: ":"),
            secrets.contains(parameter: String(decoding: bytes[(index + 2)..<nameEnd], as: UTF8.self)),
            case let start = Self.skipSpaces(bytes, colon + 1), start + 1 < bytes.count
        else {
            output += bytes[index..<(index + 2)]
            return index + 2
        }
        guard bytes[start] == mark[0], bytes[start + 1] == mark[1] else {
            let end = Self.endOfValue(bytes, start, isInString: true)
            let value = Array(Self.name(bytes[start..<end]).utf8)
            var placeholder: [UInt8] = []
            _ = replace(value, 0, value.count, &placeholder, quotes: false)
            output += bytes[index..<start] + mark + placeholder + mark
            return end
        }
        let end = next(start + 2) ?? Self.endOfWord(bytes, start + 2)
        output += bytes[index..<(start + 2)]
        return replace(bytes, start + 2, end, &output, quotes: false)
    }

    /// - Returns: the index after the value.
    private mutating func replace(
        _ bytes: [UInt8], _ start: Int, _ stop: Int, _ output: inout [UInt8], quotes: Bool
    ) -> Int {
        guard stop > start else { return stop }
        let isString = bytes[start] == UInt8(ascii: "\"")
        let inside = isString ? bytes[(start + 1)..<max(start + 1, stop - 1)] : bytes[start..<stop]
        values.append(Self.name(inside))
        // Each string inside of a secret object or list is a secret, too.
        if !isString, let first = inside.first, first == UInt8(ascii: "{") || first == UInt8(ascii: "[") {
            var at = start
            while at < stop {
                if bytes[at] == UInt8(ascii: "\"") {
                    let end = min(stop, Self.endOfString(bytes, at))
                    if end - at > 2 { values.append(Self.name(bytes[(at + 1)..<(end - 1)])) }
                    at = end
                } else {
                    at += 1
                }
            }
        }
        output += Array((quotes ? "\"\(Secrets.placeholder)\"" : Secrets.placeholder).utf8)
        return stop
    }

    // MARK: Places

    /// The index after the closing quote; the end of the text for a truncated string.
    private static func endOfString(_ bytes: [UInt8], _ start: Int) -> Int {
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

    private static func skipSpaces(_ bytes: [UInt8], _ start: Int) -> Int {
        var index = start
        while index < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[index]) { index += 1 }
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
        guard bytes.contains(UInt8(ascii: "\\")),
            let value = try? JSONValue(parsing: Data("\"\(text)\"".utf8)), let plain = value.string
        else { return text }
        return plain
    }
}
