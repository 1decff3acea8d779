import FoundationEssentials
import HTTPCore

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
    private mutating func mark(_ value: String) -> String {
        let mark = standIns?.text(for: value) ?? Secrets.placeholder
        for text in [value, value[...].percentDecoded(), value.replacing("+", with: " ")[...].percentDecoded()]
        where !(isAnswer && Self.isWord(text)) { values.insert(text, shownAs: mark) }
        return mark
    }

    /// Whether a text is of everyday words, such as `shipped-today`, which many other members may have as their value.
    private static func isWord(_ text: String) -> Bool {
        text.utf8.count < 16
            && text.utf8.allSatisfy { (0x61...0x7A).contains($0) || $0 == 0x2D || $0 == 0x5F || $0 == 0x20 }
    }

    // MARK: By name

    /// Remembers what the SDK adds to a request by itself: its credentials and those of its proxy.
    package mutating func noteCredentials(of request: HTTPRequest) {
        switch request.authentication {
        case .bearer(let token)?: _ = mark(token)
        case .basic(let user, let password)?, .digest(let user, let password)?, .any(let user, let password)?:
            noteUser(user, password)
        case nil: break
        }
        if case .url(let url)? = request.proxy { noteUser(ofURL: url) }
    }

    private mutating func noteUser(_ user: String, _ password: String) {
        _ = mark(password)
        _ = mark(Data("\(user):\(password)".utf8).base64EncodedString())
    }

    /// - Returns: The user information as it is shown; `nil` when there is none.
    @discardableResult private mutating func noteUser(ofURL url: String) -> String? {
        guard let user = URLParts(url).userInformation else { return nil }
        let parts = user.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        for part in parts { _ = mark(String(part)) }
        noteUser(parts[0].percentDecoded(), parts.count > 1 ? parts[1].percentDecoded() : "")
        return mark(String(user))
    }

    package mutating func field(_ name: String, _ value: String) -> String {
        let isCookie = name.equalsIgnoringASCIICase("Set-Cookie")
        guard secrets.contains(header: name) || isCookie else {
            return secrets.shown(value, of: name) == value ? urls(in: value) : url(value)
        }
        let parts = shownParts(ofField: value, name)
        return standIns == nil ? Secrets.placeholder : parts
    }

    /// Notes the whole value, the credentials after a scheme, and the values of cookies and of `name=value` lists.
    ///
    /// - Returns: The value with its parts replaced: the names of cookies and the scheme of credentials stay.
    private mutating func shownParts(ofField value: String, _ name: String) -> String {
        var shown: [String] = []
        let isList = ["cookie", "set-cookie"].contains(name.lowercased())
        for part in value.split(whereSeparator: { $0 == ";" || $0 == "," || $0 == " " }) {
            if let equals = part.firstIndex(of: "="), part.index(after: equals) != part.endIndex {
                let attribute = part[..<equals].lowercased()
                guard !["path", "domain", "expires", "max-age", "samesite", "realm", "algorithm"].contains(attribute)
                else { continue }
                _ = mark(String(part[part.index(after: equals)...].trimmingQuotes))
            } else if part.utf8.count >= 8, !["httponly", "partitioned"].contains(part.lowercased()) {
                _ = mark(String(part))
            }
            // The credentials of `Basic`.
            if part.utf8.count >= 8, let data = Data(base64Encoded: String(part)),
                let pair = String(validating: data, as: UTF8.self), let colon = pair.firstIndex(of: ":")
            {
                _ = mark(String(pair[pair.index(after: colon)...]))
            }
        }
        guard isList else {
            guard name.lowercased().hasSuffix("authorization"), let space = value.firstIndex(of: " ") else {
                return mark(value)
            }
            return "\(value[..<space]) \(mark(String(value[value.index(after: space)...])))"
        }
        for (index, item) in value.split(separator: ";", omittingEmptySubsequences: false).enumerated() {
            let isValue = index == 0 || name.equalsIgnoringASCIICase("Cookie")
            guard isValue, let equals = item.firstIndex(of: "=") else {
                shown.append(isValue ? mark(String(item)) : String(item))
                continue
            }
            shown.append("\(item[...equals])\(mark(String(item[item.index(after: equals)...])))")
        }
        return shown.joined(separator: ";")
    }

    package mutating func url(_ url: String) -> String {
        let user = noteUser(ofURL: url)
        let shown = form(ofURL: url)
        guard standIns != nil, isAnswer else { return secrets.shown(url: shown) }
        // A replay gives the program the address with the stand-ins, also its user and its fragment.
        guard let user, let own = URLParts(shown).userInformation else { return shown }
        return "\(shown[..<own.startIndex])\(user)\(shown[own.endIndex...])"
    }

    /// A URL with its query, and its fragment, redacted as forms.
    private mutating func form(ofURL url: String) -> String {
        let stem = url.prefix { $0 != "?" && $0 != "#" }
        var shown = String(stem)
        var rest = url[stem.endIndex...]
        while let mark = rest.first {
            let part = rest.dropFirst().prefix { $0 != "#" }
            shown += "\(mark)\(form(String(part)))"
            rest = rest[part.endIndex...]
        }
        return shown
    }

    package mutating func form(_ text: String) -> String {
        let secrets = secrets
        return secrets.replaced(form: text) { _, value in mark(value) }
    }

    /// The content of a part of a form.
    package mutating func part(_ name: String, _ content: String) -> String {
        secrets.contains(parameter: name) ? mark(content) : text(content)
    }

    /// Text that may hold members of JSON, `name=value` and URLs anywhere: a body, or the text of an error.
    package mutating func text(_ text: String) -> String {
        urls(in: String(decoding: scanned(Array(text.utf8)), as: UTF8.self))
    }

    /// The same for bytes that are not text as a whole.
    package mutating func bytes(_ data: Data) -> Data {
        let shown = scanned(Array(data))
        return Data(shown)
    }

    private mutating func scanned(_ bytes: [UInt8]) -> [UInt8] {
        SecretScanner(secrets, keepsTypes: isAnswer && standIns != nil).scan(bytes) { mark($0) }
    }

    /// A member of JSON that is not a string.
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
    private mutating func urls(in text: String) -> String {
        var utf8 = text
        let mayHaveSecrets = utf8.withUTF8 {
            $0.contains(UInt8(ascii: "@")) || $0.contains(UInt8(ascii: "?")) || $0.contains(UInt8(ascii: "#"))
        }
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
                        || $0 == "\\"
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
    package var hasValues: Bool { !values.isEmpty }

    /// The text without any value that was removed by name.
    package func scrubbed(_ text: String) -> String {
        var text = text
        return text.withUTF8 { values.removed(from: UnsafeRawBufferPointer($0)) }
            .map { String(decoding: $0, as: UTF8.self) } ?? text
    }

    package func scrubbed(_ data: Data) -> Data { data.withUnsafeBytes(values.removed).map { Data($0) } ?? data }

    /// JSON as bytes, of which only the strings are changed, so that it stays valid and keeps its white space.
    package func scrubbed(json data: Data) -> Data {
        var shown = Data()
        let bytes = Array(data)
        var index = 0
        while index < bytes.count {
            guard bytes[index] == UInt8(ascii: "\"") else {
                shown.append(bytes[index])
                index += 1
                continue
            }
            let end = SecretScanner.endOfString(bytes, index)
            let literal = bytes[index..<end]
            index = end
            guard literal.contains(UInt8(ascii: "\\")), let plain = (try? JSONValue(parsing: Data(literal)))?.string
            else {
                shown += scrubbed(Data(literal))
                continue
            }
            let text = scrubbed(plain)
            shown += text == plain ? Data(literal) : Data(JSONValue.string(text).description.utf8)
        }
        return shown
    }

    // MARK: Stand-ins

    /// The secret of a stand-in; `nil` for an unknown one.
    package func secret(of standIn: String) -> String? { standIns?.secret(of: standIn) }
}

/// A text for each secret, the same wherever it occurs.
package struct StandIns: Sendable {
    private var numbers: [String: Int] = [:]
    private var secrets: [String] = []
    /// What a number in JSON is replaced by, plus the number of the secret. It fits 32 bits.
    private static let firstNumber = 2_000_000_000

    package mutating func text(for secret: String) -> String {
        // A stand-in that a replay has given to the program stays itself.
        if Self.pieces(of: secret).count == 1, Self.pieces(of: secret)[0].isStandIn { return secret }
        if let number = numbers[secret] { return "\(Secrets.placeholder)\(number)" }
        secrets.append(secret)
        numbers[secret] = secrets.count
        return "\(Secrets.placeholder)\(secrets.count)"
    }

    package func secret(of standIn: String) -> String? {
        guard let number = Int(standIn.dropFirst(Secrets.placeholder.count)), secrets.indices.contains(number - 1)
        else {
            return nil
        }
        return secrets[number - 1]
    }

    /// A number in place of a secret one, from the stand-in of its text.
    package static func number(_ standIn: String) -> String {
        "\(firstNumber + (Int(standIn.drop { $0 == "*" }) ?? 0))"
    }

    /// A text in pieces: stand-ins, and what is between them.
    package static func pieces(of text: String) -> [(text: String, isStandIn: Bool)] {
        var pieces: [(text: String, isStandIn: Bool)] = []
        var rest = text.replacing("%2A", with: "*")[...]
        while let stars = rest.firstRange(of: Secrets.placeholder) {
            if stars.lowerBound > rest.startIndex { pieces.append((String(rest[..<stars.lowerBound]), false)) }
            let digits = rest[stars.upperBound...].prefix { $0.isASCII && $0.isNumber }
            pieces.append((Secrets.placeholder + digits, true))
            rest = rest[digits.endIndex...]
        }
        if !rest.isEmpty { pieces.append((String(rest), false)) }
        return pieces
    }
}

extension Substring {
    fileprivate var trimmingQuotes: Substring {
        utf8.count >= 2 && first == "\"" && last == "\"" ? dropFirst().dropLast() : self
    }
}
