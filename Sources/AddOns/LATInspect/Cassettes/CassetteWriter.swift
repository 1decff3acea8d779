internal import Cryptography
internal import FoundationEssentials
internal import HTTPCore

/// Writes a cassette as YAML: one document for each entry, with text bodies unchanged.
struct CassetteWriter {
    /// The text of the file, and the bodies in separate files, by name.
    struct Output {
        var text = ""
        var bodies: [String: Data] = [:]
    }

    /// A larger body, or a binary one of more than ``longestBase64``, is a separate file.
    private static let longestText = 64 << 10
    private static let longestBase64 = 1 << 10

    private var output = Output()

    /// - Parameter recorded: the time of the recording, in ISO 8601.
    static func write(_ entries: [CassetteEntry], recorded: String) -> Output {
        var writer = CassetteWriter()
        writer.line(
            0, "# Recorded HTTP exchanges, replayed without a network. Entries may be edited, moved and deleted;")
        writer.line(0, "# a value {{name}} matches any value. The last line is three dots.")
        writer.line(0, "version: \(CassetteReader.version)")
        writer.line(0, "recorded: \(YAMLText.quoted(recorded))")
        for entry in entries { writer.write(entry) }
        writer.line(0, "...")
        return writer.output
    }

    private mutating func line(_ depth: Int, _ text: String) {
        output.text += String(repeating: "  ", count: depth) + text + "\n"
    }

    private mutating func write(_ entry: CassetteEntry) {
        line(0, "---")
        line(0, "request:")
        line(1, "method: \(YAMLText.scalar(entry.request.method))")
        line(1, "url: \(YAMLText.scalar(entry.request.url))")
        fields("headers", entry.request.headers)
        body(entry.request.body)
        if let response = entry.response {
            line(0, "response:")
            line(1, "status: \(response.status)")
            if !response.reason.isEmpty { line(1, "reason: \(YAMLText.scalar(response.reason))") }
            line(1, "version: \(YAMLText.scalar(response.version.description))")
            fields("headers", response.headers)
            body(response.body)
            if !response.pieces.isEmpty {
                line(1, "pieces: [\(response.pieces.map(String.init).joined(separator: ", "))]")
            }
            fields("trailers", response.trailers)
        }
        if !entry.messages.isEmpty {
            line(0, "messages:")
            for message in entry.messages { line(1, "- \(message.name): \(message.text)") }
        }
        if let failure = entry.failure {
            line(0, "failure:")
            line(1, "kind: \(YAMLText.scalar(failure.kind.description))")
            line(1, "message: \(YAMLText.quoted(failure.message))")
        }
    }

    private mutating func fields(_ name: String, _ fields: [CassetteEntry.Field]) {
        guard !fields.isEmpty else { return }
        line(1, "\(name):")
        for field in fields { line(2, "- \(YAMLText.scalar(field.name)): \(YAMLText.scalar(field.value))") }
    }

    private mutating func body(_ body: RecordedBody) {
        switch body {
        case .none: break
        case .omitted(let count): line(1, "omitted: \(count)")
        case .bytes(let data):
            let text = YAMLText.printable(data)
            if let text, data.count <= Self.longestText {
                block(text)
            } else if data.count <= Self.longestBase64 {
                line(1, "base64: \(YAMLText.quoted(data.base64EncodedString()))")
            } else {
                // A digest needs libcrypto, which every build has.
                let digest = (try? MessageDigest.of(data, .sha256)) ?? []
                let name = MessageDigest.hexadecimal(digest) + (text == nil ? ".bin" : ".txt")
                output.bodies[name] = data
                line(1, "file: \(YAMLText.quoted(name))")
            }
        }
    }

    /// Whether a file beside the cassette has the name of a body: a SHA-256 digest, and `.bin` or `.txt`.
    static func isBodyName(_ name: String) -> Bool {
        name.utf8.count == 68 && (name.hasSuffix(".bin") || name.hasSuffix(".txt"))
            && name.utf8.prefix(64).allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }

    private mutating func block(_ text: String) {
        guard let indicator = YAMLText.blockIndicator(text) else {
            return line(1, "body: \(YAMLText.quoted(text))")
        }
        line(1, "body: \(indicator)")
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        if text.utf8.last == UInt8(ascii: "\n") { lines.removeLast() }
        for text in lines { text.isEmpty ? line(0, "") : line(2, String(text)) }
    }
}

/// Texts in the subset of YAML that cassettes use.
enum YAMLText {
    /// A text, in quotes if it needs them.
    static func scalar(_ text: String) -> String { isPlain(text) ? text : quoted(text) }

    /// Whether YAML reads the text unchanged without quotes.
    private static func isPlain(_ text: String) -> Bool {
        guard let first = text.utf8.first, first.isLetter, text.utf8.count <= 2_000, !words.contains(text.lowercased())
        else { return false }
        guard text.utf8.allSatisfy({ $0.isLetter || $0.isDigit || " /.:?&=%+~@_;,()*$!-".utf8.contains($0) }) else {
            return false
        }
        return text.utf8.last != UInt8(ascii: " ") && text.utf8.last != UInt8(ascii: ":") && !text.contains(": ")
    }

    /// Words that YAML reads as null or a Boolean.
    private static let words: Set<String> = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"]

    /// A text in double quotes, escaped as in JSON.
    static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case "\r": quoted += "\\r"
            case "\t": quoted += "\\t"
            case _ where isPrintable(scalar): quoted.unicodeScalars.append(scalar)
            default:
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
            }
        }
        return quoted + "\""
    }

    /// The text of bytes; `nil` if it would need escapes in a text file.
    static func printable(_ data: Data) -> String? {
        guard let text = String(validating: data, as: UTF8.self),
            text.unicodeScalars.allSatisfy({ isPrintable($0) || $0 == "\n" || $0 == "\t" || $0 == "\r" })
        else { return nil }
        return text
    }

    private static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F...0x9F, 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF: false
        default: true
        }
    }

    /// The indicator of a block of lines that holds the text; `nil` for a text that such a block would change.
    static func blockIndicator(_ text: String) -> String? {
        guard let first = text.unicodeScalars.first, first != " ", first != "\n", first != "\t",
            !text.unicodeScalars.contains("\r")
        else { return nil }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.allSatisfy({ $0.isEmpty || $0.contains { $0 != " " && $0 != "\t" } }) else { return nil }
        guard text.utf8.last == UInt8(ascii: "\n") else { return "|-" }
        return text.hasSuffix("\n\n") ? "|+" : "|"
    }
}

extension UInt8 {
    fileprivate var isLetter: Bool { (0x41...0x5A).contains(self) || (0x61...0x7A).contains(self) }
    fileprivate var isDigit: Bool { (0x30...0x39).contains(self) }
}

extension CassetteEntry.Message {
    /// The names of the kinds of messages in a file.
    static let names = ["sent", "received", "sentBytes", "receivedBytes", "sentClose", "receivedClose"]

    fileprivate var name: String {
        let direction = isSent ? "sent" : "received"
        return switch content {
        case .text: direction
        case .data: direction + "Bytes"
        case .close: direction + "Close"
        }
    }

    fileprivate var text: String {
        switch content {
        case .text(let text): YAMLText.scalar(text)
        case .data(let data): YAMLText.quoted(data.base64EncodedString())
        case .close(let code, let reason):
            YAMLText.quoted(
                [code.map(String.init), reason.isEmpty ? nil : reason].compactMap(\.self).joined(separator: " "))
        }
    }
}
