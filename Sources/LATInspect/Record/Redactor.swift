internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking

/// Removes the secrets from all that is recorded of one call, or in one cassette.
///
/// First by name: fields, parameters, members and parts that ``Secrets`` lists. Each value that is removed is remembered, so
/// that ``scrubbed(_:)`` also finds it where it has no name: in a path, a reason or the text of an error.
struct Redactor {
    private(set) var secrets: Secrets
    private var values = SecretValues()

    init(_ secrets: Secrets) { self.secrets = secrets }

    mutating func adopt(_ more: Secrets) { secrets = secrets.union(more) }

    private mutating func note(_ value: some StringProtocol) {
        let text = String(value)
        values.insert(text)
        values.insert(text[...].percentDecoded())
    }

    // MARK: By name

    mutating func field(_ name: String, _ value: String) -> String {
        let shown = secrets.shown(value, of: name)
        guard shown != value else { return urls(in: value) }
        if shown == Secrets.placeholder {
            noteParts(ofField: value)
        } else {
            _ = url(value)
        }
        return shown
    }

    /// Notes the whole value, the credentials after a scheme, and the values of cookies and of `name=value` lists.
    private mutating func noteParts(ofField value: String) {
        note(value)
        for part in value.split(whereSeparator: { $0 == ";" || $0 == "," || $0 == " " }) {
            let text = part.drop { $0 == " " }
            if let equals = text.firstIndex(of: "="), text.index(after: equals) != text.endIndex {
                let attribute = text[..<equals].lowercased()
                guard !["path", "domain", "expires", "max-age", "samesite", "realm", "algorithm"].contains(attribute)
                else { continue }
                note(text[text.index(after: equals)...].trimmingQuotes)
            } else if text.utf8.count >= 8, !["httponly", "partitioned"].contains(text.lowercased()) {
                note(text)
            }
            // The credentials of `Basic`.
            if text.utf8.count >= 8, let data = Data(base64Encoded: String(text)),
                let pair = String(validating: data, as: UTF8.self), let colon = pair.firstIndex(of: ":")
            {
                note(pair[pair.index(after: colon)...])
            }
        }
    }

    mutating func url(_ url: String) -> String {
        if let slashes = url.firstRange(of: "://") {
            let authority = url[slashes.upperBound...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
            if let at = authority.lastIndex(of: "@") {
                let user = authority[..<at]
                note(user)
                for part in user.split(separator: ":") { note(part) }
            }
        }
        let fragmentless = url.prefix { $0 != "#" }
        if let mark = fragmentless.firstIndex(of: "?") { noteForm(fragmentless[fragmentless.index(after: mark)...]) }
        return secrets.shown(url: url)
    }

    mutating func form(_ text: String) -> String {
        noteForm(text[...])
        return secrets.shown(form: text)
    }

    private mutating func noteForm(_ text: Substring) {
        for item in text.split(separator: "&") {
            guard let equals = item.firstIndex(of: "="), secrets.contains(parameter: String(item[..<equals])) else {
                continue
            }
            note(item[item.index(after: equals)...].replacing("+", with: " "))
            note(item[item.index(after: equals)...])
        }
    }

    /// The content of a part of a form.
    mutating func part(_ name: String, _ content: String) -> String {
        guard secrets.contains(parameter: name) else { return text(content) }
        note(content)
        return Secrets.placeholder
    }

    /// Text that may hold members of JSON, `name=value` and URLs anywhere: a body, or the text of an error.
    mutating func text(_ text: String) -> String {
        var scanner = SecretScanner(secrets)
        let shown = scanner.scan(text)
        for value in scanner.values { note(value) }
        return urls(in: shown)
    }

    /// A text without user information and secret parameters in the URLs that it contains. A URL without either stays as it
    /// is.
    private mutating func urls(in text: String) -> String {
        var utf8 = text
        let mayHaveSecrets = utf8.withUTF8 { $0.contains(UInt8(ascii: "@")) || $0.contains(UInt8(ascii: "?")) }
        guard mayHaveSecrets else { return text }
        var result = ""
        var rest = text[...]
        while let slashes = rest.firstRange(of: "://") {
            let before = rest[..<slashes.lowerBound]
            let scheme = before.reversed().prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "+") }.count
            let start = rest.index(slashes.lowerBound, offsetBy: -scheme)
            let end =
                rest[slashes.upperBound...].firstIndex {
                    $0.isWhitespace || $0 == "\"" || $0 == "'" || $0 == "<" || $0 == ">" || $0 == "," || $0 == "]"
                } ?? rest.endIndex
            result += rest[..<start]
            let (found, shown) = (rest[start..<end], url(String(rest[start..<end])))
            result += found.prefix { $0 != "#" } == shown ? String(found) : shown
            rest = rest[end...]
        }
        return result + rest
    }

    // MARK: By value

    /// Whether any value was removed.
    var hasValues: Bool { !values.isEmpty }

    /// The text without any value that was removed by name.
    func scrubbed(_ text: String) -> String {
        var text = text
        return text.withUTF8 { values.removed(from: UnsafeRawBufferPointer($0)) }
            .map { String(decoding: $0, as: UTF8.self) } ?? text
    }

    func scrubbed(_ data: Data) -> Data { data.withUnsafeBytes(values.removed).map { Data($0) } ?? data }
}

/// Values that are found in a text in one pass, however many they are: a server can send thousands of them.
private struct SecretValues {
    /// The shortest value, in bytes. A value such as `1` or `yes` would be found everywhere.
    static let shortest = 6
    /// Beyond this number, values are removed by name only.
    private static let limit = 32_768
    private static let mask: UInt64 = (1 << (8 * UInt64(shortest))) - 1

    /// The values by their first bytes, sorted.
    private var byPrefix: [UInt64: [[UInt8]]] = [:]
    private var count = 0
    /// For each byte, whether a value begins with it. Most bytes of a text begin no value, and need no look-up.
    private var firstBytes = [Bool](repeating: false, count: 256)

    var isEmpty: Bool { count == 0 }

    /// Adds a value, unless it is too short.
    mutating func insert(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count >= Self.shortest, count < Self.limit else { return }
        let prefix = bytes[..<Self.shortest].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        var list = byPrefix[prefix] ?? []
        let place = bytes.withUnsafeBytes { Self.place(after: $0, in: list) }
        guard place == 0 || list[place - 1] != bytes else { return }
        byPrefix[prefix] = nil
        list.insert(bytes, at: place)
        byPrefix[prefix] = list
        firstBytes[Int(bytes[0])] = true
        count += 1
    }

    /// The bytes with a placeholder for each value; `nil` if they contain none. Overlapping values are removed as one.
    func removed(from bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        guard count > 0, bytes.count >= Self.shortest else { return nil }
        var output: [UInt8] = []
        var copied = 0
        var found: Range<Int>?
        func takeOut(_ range: Range<Int>) {
            output += bytes[copied..<range.lowerBound]
            output += Array(Secrets.placeholder.utf8)
            copied = range.upperBound
        }
        var prefix: UInt64 = 0
        for index in bytes.indices {
            prefix = (prefix << 8 | UInt64(bytes[index])) & Self.mask
            let start = index - Self.shortest + 1
            guard start >= 0, firstBytes[Int(bytes[start])], let list = byPrefix[prefix],
                let length = Self.longest(of: list, in: UnsafeRawBufferPointer(rebasing: bytes[start...]))
            else { continue }
            let end = start + length
            if let last = found, start < last.upperBound {
                found = last.lowerBound..<max(last.upperBound, end)
            } else {
                if let last = found { takeOut(last) }
                found = start..<end
            }
        }
        guard let last = found else { return nil }
        takeOut(last)
        return output + bytes[copied...]
    }

    /// The length of the longest value that a text begins with.
    private static func longest(of sorted: [[UInt8]], in text: UnsafeRawBufferPointer) -> Int? {
        var text = text
        while true {
            let place = place(after: text, in: sorted)
            guard place > 0 else { return nil }
            let value = sorted[place - 1]
            var common = 0
            while common < min(value.count, text.count), value[common] == text[common] { common += 1 }
            if common == value.count { return common }
            // A shorter value that the text begins with is the beginning of this one, too.
            guard common >= shortest else { return nil }
            text = UnsafeRawBufferPointer(rebasing: text[..<common])
        }
    }

    /// The index after the last value that is not greater than a text.
    private static func place(after text: UnsafeRawBufferPointer, in sorted: [[UInt8]]) -> Int {
        var range = sorted.indices
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            if text.lexicographicallyPrecedes(sorted[middle]) {
                range = range.lowerBound..<middle
            } else {
                range = (middle + 1)..<range.upperBound
            }
        }
        return range.lowerBound
    }
}

extension Substring {
    fileprivate var trimmingQuotes: Substring {
        utf8.count >= 2 && first == "\"" && last == "\"" ? dropFirst().dropLast() : self
    }
}
