import FoundationEssentials
import LATNetworking

/// Formats a JSON document for reading: indented and coloured, with members in their order and numbers as they were
/// written.
struct JSONLayout {
    private let bytes: [UInt8]
    private let style: Style
    private var index = 0
    private var text = ""
    /// Whether each open container is an object.
    private var containers: [Bool] = []
    private var isAtName = false

    /// The formatted document without a newline at its end; `nil` when the bytes are not JSON.
    static func text(of data: Data, style: Style) -> String? {
        guard (try? JSONValue(parsing: data)) != nil else { return nil }
        var layout = JSONLayout(bytes: Array(data), style: style)
        layout.run()
        return layout.text
    }

    /// The document is valid JSON, so the first byte of each token identifies its kind.
    private mutating func run() {
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "{"): open(isObject: true)
            case UInt8(ascii: "["): open(isObject: false)
            case UInt8(ascii: "}"), UInt8(ascii: "]"): close()
            case UInt8(ascii: ","):
                text += ","
                index += 1
                startLine()
                isAtName = containers.last ?? false
            case UInt8(ascii: ":"):
                text += ": "
                index += 1
                isAtName = false
            case UInt8(ascii: "\""): string()
            case 0x20, 0x09, 0x0A, 0x0D: index += 1
            default: literal()
            }
        }
    }

    private mutating func open(isObject: Bool) {
        var next = index + 1
        while next < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[next]) { next += 1 }
        if next < bytes.count, bytes[next] == UInt8(ascii: "}") || bytes[next] == UInt8(ascii: "]") {
            text += isObject ? "{}" : "[]"
            index = next + 1
            return
        }
        text += isObject ? "{" : "["
        containers.append(isObject)
        isAtName = isObject
        index += 1
        startLine()
    }

    private mutating func close() {
        let isObject = containers.popLast() ?? false
        startLine()
        text += isObject ? "}" : "]"
        index += 1
    }

    private mutating func startLine() {
        text += "\n" + String(repeating: "  ", count: containers.count)
    }

    private mutating func string() {
        let start = index
        index += 1
        while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
            index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        index = min(index + 1, bytes.count)
        // JSON requires escapes only for C0, so DEL and the C1 control characters would reach the terminal.
        let written = String(decoding: bytes[start..<index], as: UTF8.self)
        let string = SafeText.escaped(style.isUnicode ? Self.unescaped(written) : written) { scalar in
            "\\u" + String(scalar.value, radix: 16).padded(toStart: 4, with: "0")
        }
        text += isAtName ? style.name(string) : style.green(string)
    }

    /// A string in which characters beyond ASCII are not escaped: `"世界"` for `"\u4e16\u754c"`. Half a surrogate pair stays
    /// as it is.
    private static func unescaped(_ string: String) -> String {
        guard string.utf8.contains(UInt8(ascii: "\\")) else { return string }
        var result = ""
        var rest = string[...]
        while let mark = rest.firstIndex(of: "\\") {
            result += rest[..<mark]
            rest = rest[mark...]
            var units: [UInt16] = []
            var next = rest
            while units.count < 2, next.hasPrefix("\\u"), let unit = UInt16(next.dropFirst(2).prefix(4), radix: 16) {
                units.append(unit)
                next = next.dropFirst(6)
                guard UTF16.isLeadSurrogate(unit) else { break }
            }
            let text = String(validating: units, as: UTF16.self) ?? ""
            let isShown = text.unicodeScalars.first.map { $0.value > 0x7F && !$0.controlsTerminal } ?? false
            // Any other escape has two characters, or is left in two steps.
            result += isShown ? text : String(rest.prefix(2))
            rest = isShown ? next : rest.dropFirst(2)
        }
        return result + rest
    }

    private mutating func literal() {
        let start = index
        while index < bytes.count, !",]} \t\r\n".utf8.contains(bytes[index]) { index += 1 }
        let literal = String(decoding: bytes[start..<index], as: UTF8.self)
        text += literal == "null" ? style.dim(literal) : style.number(literal)
    }
}

extension Console {
    /// Prints a JSON document: formatted on a terminal, in one line elsewhere.
    func print(_ document: JSONValue) throws {
        let data = try document.data()
        let text = outTerminal.isTerminal ? JSONLayout.text(of: data, style: outStyle) : nil
        try print(text ?? String(decoding: data, as: UTF8.self))
    }
}
