internal import FoundationEssentials
internal import HTTPCore
internal import LATNetworking

/// Takes the secrets out of all that is recorded of one call.
///
/// First by name: fields, parameters, members and parts that ``Secrets`` lists. Each value that is taken out is remembered,
/// so that ``scrubbed(_:)`` also finds it where it has no name: in a path, a reason or the text of an error.
struct Redactor {
    private(set) var secrets: Secrets
    /// The values to search for, longest first, so that a shorter one never splits a longer one. Each is listed once.
    private var values: [String] = []

    /// Shorter values are not searched for elsewhere: `1` or `yes` would be found everywhere.
    static let shortestValue = 6

    init(_ secrets: Secrets) { self.secrets = secrets }

    mutating func adopt(_ more: Secrets) { secrets = secrets.union(more) }

    private mutating func note(_ value: some StringProtocol) {
        let text = String(value)
        guard text.utf8.count >= Self.shortestValue, text != Secrets.placeholder else { return }
        keep(text)
        let plain = text[...].percentDecoded()
        if plain.utf8.count >= Self.shortestValue { keep(plain) }
    }

    private mutating func keep(_ text: String) {
        let place = values.firstIndex { ($0.utf8.count, $0) <= (text.utf8.count, text) } ?? values.endIndex
        if place == values.endIndex || values[place] != text { values.insert(text, at: place) }
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

    /// A text without user information and secret parameters in the URLs that it contains.
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
            result += url(String(rest[start..<end]))
            rest = rest[end...]
        }
        return result + rest
    }

    // MARK: By value

    /// Whether any value was taken out.
    var hasValues: Bool { !values.isEmpty }

    /// The text without any value that was taken out by name.
    func scrubbed(_ text: String) -> String {
        values.reduce(text) { $0.utf8.count >= $1.utf8.count ? $0.replacing($1, with: Secrets.placeholder) : $0 }
    }

    func scrubbed(_ data: Data) -> Data {
        var data = data
        for value in values {
            let bytes = Data(value.utf8)
            while let range = data.firstRange(of: bytes) {
                data.replaceSubrange(range, with: Data(Secrets.placeholder.utf8))
            }
        }
        return data
    }
}

extension Substring {
    fileprivate var trimmingQuotes: Substring {
        utf8.count >= 2 && first == "\"" && last == "\"" ? dropFirst().dropLast() : self
    }
}
