package import FoundationEssentials

/// Removes the secrets from all that is shown or recorded of one call, or in one cassette.
///
/// First by name: fields, parameters, members and parts that ``Secrets`` lists, and the credentials of requests. Each value
/// that is removed is remembered, so that ``scrubbed(_:)`` also finds it where it has no name: in a path, a reason or the
/// text of an error.
package struct Redactor: Sendable {
    package private(set) var secrets: Secrets
    private var values = SecretValues()
    private var standIns: StandIns?
    /// Whether what is redacted comes from the server. Everyday words in it are then removed by name only, and with
    /// stand-ins the values of JSON keep their types.
    package var isAnswer = false

    /// - Parameter numbersSecrets: whether each secret is replaced by a stand-in of its own, such as `***7`, so that a
    ///   recording can be replayed. Default `false`: by `***`.
    package init(_ secrets: Secrets, numbersSecrets: Bool = false) {
        self.secrets = secrets
        if numbersSecrets { standIns = StandIns() }
    }

    package mutating func adopt(_ more: Secrets) { secrets = secrets.union(more) }

    /// Remembers a secret.
    ///
    /// - Returns: What is shown in its place.
    package mutating func mark(_ value: String) -> String {
        let plain = value[...].percentDecoded()
        let base = standIns?.text(for: plain) ?? Secrets.placeholder
        var shown = value == plain ? base : nil
        remember(plain, base)
        // A server may repeat it in another notation. The stand-in tells which, so that a replay can write it.
        for notation in SecretNotation.allCases {
            let (text, mark) = (notation.text(of: plain), standIns == nil ? base : notation.stars + base)
            guard text != plain else { continue }
            if shown == nil, text == value { shown = mark }
            remember(text, mark)
        }
        for text in [value, value[...].percentDecoded(plusIsSpace: true)]
        where text != plain && text != value || shown == nil {
            let mark = standIns?.text(for: text) ?? base
            if text == value { shown = mark }
            remember(text, mark)
        }
        return shown ?? base
    }

    private mutating func remember(_ text: String, _ mark: String) {
        if !(isAnswer && Self.isWord(text)) { values.insert(text, shownAs: mark) }
    }

    /// Whether a text is of everyday words, such as `shipped-today`, which many other members may have as their value.
    static func isWord(_ text: String) -> Bool {
        text.utf8.count < 16
            && text.utf8.allSatisfy { (0x61...0x7A).contains($0) || $0 == 0x2D || $0 == 0x5F || $0 == 0x20 }
    }

    // MARK: By name

    mutating func noteUser(_ user: String, _ password: String) {
        _ = mark(password)
        _ = mark(Data("\(user):\(password)".utf8).base64EncodedString())
    }

    /// - Returns: The user information as it is shown; `nil` when there is none.
    @discardableResult mutating func noteUser(ofURL url: String) -> String? {
        guard let user = URLParts(url).userInformation else { return nil }
        let parts = user.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        for part in parts { _ = mark(String(part)) }
        noteUser(parts[0].percentDecoded(), parts.count > 1 ? parts[1].percentDecoded() : "")
        return mark(String(user))
    }

    package mutating func field(_ name: String, _ value: String) -> String {
        guard secrets.contains(header: name) || name.equalsIgnoringASCIICase("Set-Cookie") else {
            return Secrets.isURL(name) ? url(value) : text(value)
        }
        let parts = shownParts(ofField: value, name)
        return standIns == nil ? Secrets.placeholder : parts
    }

    /// Notes the values of cookies; or the credentials after a scheme, with the parts of a list `name=value`.
    ///
    /// - Returns: The value with its parts replaced: the names of cookies and the scheme of credentials stay.
    private mutating func shownParts(ofField value: String, _ name: String) -> String {
        let sendsCookies = name.equalsIgnoringASCIICase("Cookie")
        if sendsCookies || name.equalsIgnoringASCIICase("Set-Cookie") {
            let items = value.split(separator: ";", omittingEmptySubsequences: false).enumerated()
            return items.map { index, item in
                guard index == 0 || sendsCookies else { return String(item) }
                guard let equals = item.firstIndex(of: "=") else { return mark(String(item)) }
                let content = item[item.index(after: equals)...]
                if content.trimmingQuotes != content { _ = mark(String(content.trimmingQuotes)) }
                return "\(item[...equals])\(mark(String(content)))"
            }.joined(separator: ";")
        }
        let space = name.lowercased().hasSuffix("authorization") ? value.firstIndex(of: " ") : nil
        let credentials = space.map { value[value.index(after: $0)...] } ?? value[...]
        let parts = credentials.split { $0 == ";" || $0 == "," || $0 == " " }
        for part in parts {
            if let equals = part.firstIndex(of: "="), part.index(after: equals) != part.endIndex {
                let attribute = part[..<equals].lowercased()
                guard !["realm", "algorithm"].contains(attribute) else { continue }
                _ = mark(String(part[part.index(after: equals)...].trimmingQuotes))
            } else if part.utf8.count >= 8, parts.count > 1 {
                _ = mark(String(part))
            }
            // The credentials of `Basic`.
            if part.utf8.count >= 8, let data = Data(base64Encoded: String(part)),
                let pair = String(validating: data, as: UTF8.self), let colon = pair.firstIndex(of: ":")
            {
                _ = mark(String(pair[pair.index(after: colon)...]))
            }
        }
        return (space.map { "\(value[...$0])" } ?? "") + mark(String(credentials))
    }

    package mutating func url(_ url: String) -> String { self.url(url, Self.depth) }

    private mutating func url(_ url: String, _ depth: Int) -> String {
        let user = noteUser(ofURL: url)
        let shown = form(ofURL: url, depth)
        let parts = URLParts(shown)
        guard standIns != nil, isAnswer else { return parts.shownQuery.map { "\(parts.stem)?\($0)" } ?? parts.stem }
        // A replay gives the program the address with the stand-ins, also its user and its fragment.
        guard let user, let own = parts.userInformation else { return shown }
        return "\(shown[..<own.startIndex])\(user)\(shown[own.endIndex...])"
    }

    /// A URL with its query, and its fragment, redacted as forms, and its path as a text in which there may be a URL. Scheme
    /// and authority stay as they are.
    private mutating func form(ofURL url: String, _ depth: Int) -> String {
        let stem = url.prefix { $0 != "?" && $0 != "#" }
        let parts = URLParts(stem)
        var shown = ""
        if parts.authority != nil, !parts.mayContinueUser {
            let slash = parts.path.prefix(1)
            let path = urls(in: String(parts.path), depth).dropFirst()
            shown = parts.beforePath + slash + escapes(in: String(path), depth)
        } else {
            shown = escapes(in: String(stem), depth)
        }
        var rest = url[stem.endIndex...]
        while let mark = rest.first {
            let part = rest.dropFirst().prefix { $0 != "#" }
            shown += "\(mark)\(form(String(part), depth))"
            rest = rest[part.endIndex...]
        }
        return shown
    }

    package mutating func form(_ text: String) -> String { form(text, Self.depth) }

    private mutating func form(_ text: String, _ depth: Int) -> String {
        // Works on bytes: a `=` followed by a combining mark is one `Character`.
        text.utf8.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false).map { item in
            guard let equals = item.firstIndex(of: UInt8(ascii: "=")) else {
                return self.text(String(Substring(item)), depth - 1)
            }
            let (name, value) = (
                String(Substring(item[..<equals])), String(Substring(item[item.index(after: equals)...]))
            )
            return "\(name)=\(secrets.contains(parameter: name) ? mark(value) : self.text(value, depth - 1))"
        }.joined(separator: "&")
    }

    /// How often texts may be within each other: JSON in a string, a URL in a parameter.
    private static let depth = 6
    /// What ends a percent-encoded word.
    private static func endsWord(_ byte: UInt8) -> Bool { byte <= 0x20 || "\"'<>\\&".utf8.contains(byte) }

    /// Text that may hold members of JSON, `name=value` and URLs anywhere, also escaped: the value of a field or parameter, a
    /// body, the text of an error.
    package mutating func text(_ text: String) -> String { self.text(text, Self.depth) }

    private mutating func text(_ text: String, _ depth: Int) -> String {
        let bytes = Array(text.utf8)
        let shown = scanned(bytes, depth)
        return escapes(in: urls(in: shown == bytes ? text : String(decoding: shown, as: UTF8.self), depth), depth)
    }

    /// The same for bytes that are not text as a whole.
    package mutating func bytes(_ data: Data) -> Data { Data(scanned(Array(data), Self.depth)) }

    /// Percent-encoded words in which there may be a pair, JSON or a URL.
    private mutating func escapes(in text: String, _ depth: Int) -> String {
        var utf8 = text
        guard depth > 0, utf8.withUTF8({ $0.contains(UInt8(ascii: "%")) }) else { return text }
        var result = ""
        var rest = text.utf8[...]
        while !rest.isEmpty {
            let word = rest.prefix { !Self.endsWord($0) }
            let gap = rest[word.endIndex...].prefix { Self.endsWord($0) }
            result += shown(escaped: String(Substring(word)), depth) + String(Substring(gap))
            rest = rest[gap.endIndex...]
        }
        return result
    }

    private mutating func shown(escaped word: String, _ depth: Int) -> String {
        let plain = word[...].percentDecoded()
        guard plain != word, case let shown = text(plain, depth - 1), shown != plain else { return word }
        // The word keeps its own escapes, unless a secret is too short to be found by its value.
        let scrubbed = scrubbed(word)
        guard case let again = scrubbed[...].percentDecoded(), text(again, depth - 1) != again else { return scrubbed }
        return shown.percentEncodedComponent.replacing("%2A%2A%2A", with: Secrets.placeholder)
    }

    private mutating func scanned(_ bytes: [UInt8], _ depth: Int) -> [UInt8] {
        SecretScanner(secrets, keepsTypes: isAnswer && standIns != nil).scan(bytes) { text, isSecret in
            isSecret ? mark(text) : depth > 0 ? self.text(text, depth - 1) : text
        }
    }

    /// A value of JSON.
    package mutating func shown(json value: JSONValue) -> JSONValue {
        if let members = value.object {
            return .object(
                Dictionary(
                    uniqueKeysWithValues: members.map { name, member in
                        (name, secrets.contains(member: name) ? .string(mark(member)) : shown(json: member))
                    }))
        }
        if let elements = value.array { return .array(elements.map { shown(json: $0) }) }
        return value.string.map { .string(text($0)) } ?? value
    }

    /// Each string inside of a secret object or list is a secret, too.
    private mutating func mark(_ value: JSONValue) -> String {
        for inner in value.object.map({ Array($0.values) }) ?? value.array ?? [] { _ = mark(inner) }
        return mark(value.string ?? value.description)
    }

    /// A text without user information and secret parameters in the URLs that it contains. A URL without either stays as it
    /// is.
    private mutating func urls(in text: String, _ depth: Int) -> String {
        var utf8 = text
        let mayHaveSecrets = utf8.withUTF8 { bytes in
            let slash = UInt8(ascii: "/")
            return (1..<max(1, bytes.count)).contains { bytes[$0] == slash && bytes[$0 - 1] == slash }
                && bytes.contains { $0 == UInt8(ascii: "@") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
        }
        guard depth > 0, mayHaveSecrets else { return text }
        var result = ""
        var rest = text[...]
        while let slashes = rest.firstRange(of: "//") {
            var before = rest[..<slashes.lowerBound]
            if before.last == ":" {
                before = before.dropLast()
                let scheme = before.reversed().prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "+") }.count
                before = before.dropLast(scheme)
            }
            let start = before.endIndex
            let end =
                rest[slashes.upperBound...].firstIndex {
                    $0.isWhitespace || $0 == "\"" || $0 == "'" || $0 == "<" || $0 == ">" || $0 == "," || $0 == "]"
                        || $0 == "\\"
                } ?? rest.endIndex
            result += rest[..<start]
            let (found, shown) = (rest[start..<end], url(String(rest[start..<end]), depth - 1))
            result += found.prefix { $0 != "#" } == shown ? String(found) : shown
            rest = rest[end...]
        }
        return result + rest
    }

    // MARK: By value

    /// Whether any value was removed.
    package var hasValues: Bool { !values.isEmpty }

    /// The text without any value that was removed by name.
    package func scrubbed(_ text: String) -> String {
        var text = text
        return text.withUTF8 { values.removed(from: UnsafeRawBufferPointer($0)) }
            .map { String(decoding: $0, as: UTF8.self) } ?? text
    }

    package func scrubbed(_ data: Data) -> Data { data.withUnsafeBytes(values.removed).map { Data($0) } ?? data }

    /// JSON as bytes, of which only the strings are changed, so that it stays valid and keeps its white space.
    package func scrubbed(json data: Data) -> Data { Self.changed(json: data, by: scrubbed) }

    // MARK: Stand-ins

    /// Bytes in which the stand-ins that are whole strings of JSON say that their secrets have the escapes of JSON.
    package func inStringsOfJSON(_ data: Data) -> Data {
        let mark = Data("\"\(Secrets.placeholder)".utf8)
        var (shown, rest) = (Data(), data[...])
        while let found = rest.firstRange(of: mark) {
            let digits = rest[found.upperBound...].prefix { (0x30...0x39).contains($0) }
            let standIn = Secrets.placeholder + String(decoding: digits, as: UTF8.self)
            let secret = rest[digits.endIndex...].first == UInt8(ascii: "\"") ? secret(of: standIn) : nil
            let isEscaped = secret.map { SecretNotation.json.text(of: $0) != $0 } ?? false
            let stars = isEscaped ? SecretNotation.json.stars : ""
            shown += rest[..<found.upperBound] + Data(stars.utf8) + digits
            rest = rest[digits.endIndex...]
        }
        return shown + rest
    }

    /// Keeps the numbers of a recording free.
    package mutating func beginStandIns(after number: Int) { standIns?.begin(after: number) }

    /// The secret of a stand-in; `nil` for an unknown one.
    package func secret(of standIn: String) -> String? { standIns?.secret(of: standIn) }
}

extension Substring {
    fileprivate var trimmingQuotes: Substring {
        utf8.count >= 2 && first == "\"" && last == "\"" ? dropFirst().dropLast() : self
    }
}
