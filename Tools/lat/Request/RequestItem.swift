import LATNetworking

/// An argument after the URL, in HTTPie's notation: `name=text`, `age:=36`, `q==swift`, `X-Trace:1`, `file@path`.
///
/// The first separator counts. If several begin at the same place, the longest counts. A backslash before `:`, `;`, `=`
/// or `@` makes that character an ordinary one.
struct RequestItem: Hashable, Sendable {
    /// The kind of item, by its separator. A kind with `File` in its name takes the value from a file.
    enum Kind: String, CaseIterable, Sendable {
        /// A header field; without a value, the field is not sent.
        case header = ":"
        /// A header field that is sent with an empty value.
        case emptyHeader = ";"
        case headerFile = ":@"
        case query = "=="
        case queryFile = "==@"
        /// A member of the body with a text.
        case text = "="
        case textFile = "=@"
        /// A member of the body with any JSON value.
        case json = ":="
        case jsonFile = ":=@"
        case file = "@"
    }

    var kind: Kind
    var name: String
    var value: String

    /// The item as messages show it.
    var shown: String { SafeText.line("\(name)\(kind.rawValue)\(value)") }

    /// Whether the item is a member of the body.
    var isField: Bool {
        switch kind {
        case .text, .textFile, .json, .jsonFile: true
        case .header, .emptyHeader, .headerFile, .query, .queryFile, .file: false
        }
    }

    init(_ kind: Kind, _ name: String, _ value: String) {
        self.kind = kind
        self.name = name
        self.value = value
    }

    /// - Throws: ``UsageError`` for a text without a separator or name.
    init(_ text: String) throws(UsageError) {
        let characters = Self.unescaped(text)
        let shown = SafeText.line(text)
        guard let (start, kind) = Self.separator(in: characters) else {
            throw UsageError(
                "\"\(shown)\" is no item: it has none of = := == : @; write name=text, name:=json, name==query, "
                    + "Header:value or name@FILE")
        }
        func joined(_ part: ArraySlice<Character>) -> String { String(String.UnicodeScalarView(part.map(\.scalar))) }
        self.init(kind, joined(characters[..<start]), joined(characters[(start + kind.rawValue.count)...]))
        try check(shown)
    }

    private func check(_ shown: String) throws(UsageError) {
        switch kind {
        case .header where value.hasPrefix("//") && ["http", "https", "ws", "wss"].contains(name.lowercased()):
            throw UsageError("\"\(shown)\" is a second URL; give one URL for each request")
        case .emptyHeader where !value.isEmpty:
            throw UsageError(
                "\"\(shown)\" has text after the semicolon; write '\(name):\(value)', or '\(name);' to send it empty")
        case .header, .emptyHeader: try HeaderArgument.check(name, value, in: "\"\(shown)\"")
        case .headerFile, .queryFile, .textFile, .jsonFile:
            guard !value.isEmpty else {
                throw UsageError("\"\(shown)\" names no file; write \(name)\(kind.rawValue)FILE")
            }
            if kind == .headerFile { try HeaderArgument.check(name, "", in: "\"\(shown)\"") }
        case .file where value.isEmpty:
            throw UsageError("\"\(shown)\" names no file; write \(name)@FILE")
        case .file, .query, .text, .json: break
        }
        // Only a file needs no name: it is then the whole body.
        guard !name.isEmpty || kind == .file else {
            throw UsageError("\"\(shown)\" has no name before the \(kind.rawValue); write name\(kind.rawValue)value")
        }
    }

    // MARK: Escapes

    private struct Character {
        let scalar: Unicode.Scalar
        let isEscaped: Bool
    }

    private static let special: Set<Unicode.Scalar> = [":", ";", "=", "@"]

    /// As in HTTPie, a backslash before any other character stays.
    private static func unescaped(_ text: String) -> [Character] {
        var characters: [Character] = []
        var rest = text.unicodeScalars[...]
        while let scalar = rest.popFirst() {
            guard scalar == "\\", let next = rest.popFirst() else {
                characters.append(Character(scalar: scalar, isEscaped: false))
                continue
            }
            if !special.contains(next) { characters.append(Character(scalar: scalar, isEscaped: false)) }
            characters.append(Character(scalar: next, isEscaped: special.contains(next)))
        }
        return characters
    }

    private static func separator(in characters: [Character]) -> (start: Int, kind: Kind)? {
        for start in characters.indices where special.contains(characters[start].scalar) {
            let run = characters[start...].prefix { !$0.isEscaped && special.contains($0.scalar) }
            let text = String(String.UnicodeScalarView(run.map(\.scalar)))
            if let kind = Kind.allCases.filter({ text.hasPrefix($0.rawValue) })
                .max(by: { $0.rawValue.count < $1.rawValue.count })
            {
                return (start, kind)
            }
        }
        return nil
    }
}

/// The operands of a request: `[METHOD] URL [ITEM…]`.
struct RequestLine: Sendable {
    /// The method as it was typed; `nil` when it was left out.
    var method: String?
    var url: String
    /// Whether the URL was completed, so that it should be shown.
    var isCompleted: Bool
    var items: [RequestItem] = []
    /// A JSON document as the body.
    var document: String?

    /// - Throws: ``UsageError`` that names the operand.
    init(_ operands: [String]) throws(UsageError) {
        var words = operands[...]
        if let first = words.first, Self.isMethod(first, before: words.dropFirst().first) {
            guard HTTPMethod(first).isToken else {
                throw UsageError(
                    "METHOD \"\(SafeText.line(first))\" is not a method; write GET, POST or another word of letters")
            }
            method = first
            words.removeFirst()
        }
        guard let url = words.popFirst() else {
            let line = method.map { "\($0) URL, such as lat \($0) :8080/" }
            throw UsageError(
                "URL is missing; write lat \(line ?? "[METHOD] URL, such as lat :8080/ or lat POST :8080/ name=Ada")")
        }
        self.url = try URLArgument.checked(url)
        isCompleted = self.url != url
        for word in words { try add(word) }
    }

    private mutating func add(_ word: String) throws(UsageError) {
        guard word.hasPrefix("{") || word.hasPrefix("[") else { return items.append(try RequestItem(word)) }
        do {
            _ = try JSONValue(parsing: word)
        } catch {
            // `[0]:=1` and `[]=a` are members of an array.
            if word.hasPrefix("["), let item = try? RequestItem(word), item.isField { return items.append(item) }
            throw UsageError(
                "\"\(SafeText.line(word))\" begins like JSON but is invalid (\(error)); correct it, or give items such as "
                    + "name=text")
        }
        guard document == nil else {
            throw UsageError("two JSON documents are given; a request has one body, so give one")
        }
        document = word
    }

    /// Whether a first word begins a request: a URL, or a method.
    static func begins(with word: String) -> Bool { URLArgument.isURL(word) || isMethod(word, before: nil) }

    /// Whether a word is a method: one of HTTP in capitals or small letters, another word in capitals, or any word before
    /// a whole URL.
    private static func isMethod(_ word: String, before next: String?) -> Bool {
        if HTTPMethod(word.lowercased()).rawValue != word.lowercased() { return true }
        guard !URLArgument.isURL(word) else { return false }
        if let next, URLParts(next).isAbsolute { return true }
        return word.first?.isLetter ?? false
            && word.unicodeScalars.allSatisfy {
                ("A"..."Z").contains($0) || ("0"..."9").contains($0) || $0 == "-" || $0 == "_"
            }
    }
}

/// Makes a JSON document of members with nested names: `user[name]=Ada`, `tags[]=a`, `[0]:=1`.
struct NestedFields {
    private enum Step: Hashable {
        case name(String)
        case index(Int)
        case end
    }

    private static let longestArray = 10_000
    private(set) var value: JSONValue?

    /// - Throws: ``UsageError`` for a malformed name, or one that does not fit those before it.
    mutating func add(_ name: String, _ member: JSONValue) throws(UsageError) {
        let steps = try Self.steps(of: name)
        value = try Self.setting(member, at: steps[...], in: value, name)
    }

    private static func setting(
        _ member: JSONValue, at steps: ArraySlice<Step>, in value: JSONValue?, _ name: String
    ) throws(UsageError) -> JSONValue {
        guard let step = steps.first else {
            guard value == nil else {
                throw UsageError(
                    "\"\(SafeText.line(name))\" is given twice; for a list write \(SafeText.line(name))[]=a "
                        + "\(SafeText.line(name))[]=b")
            }
            return member
        }
        let rest = steps.dropFirst()
        switch step {
        case .name(let key):
            guard value == nil || value?.object != nil else { throw conflict(name, "an object") }
            var members = value?.object ?? [:]
            members[key] = try setting(member, at: rest, in: members[key], name)
            return .object(members)
        case .end, .index:
            guard value == nil || value?.array != nil else { throw conflict(name, "a list") }
            var elements = value?.array ?? []
            var index = elements.count
            if case .index(let wanted) = step { index = wanted }
            while elements.count <= index { elements.append(.null) }
            let known: JSONValue? = elements[index].isNull ? Optional<JSONValue>.none : elements[index]
            elements[index] = try setting(member, at: rest, in: known, name)
            return .array(elements)
        }
    }

    private static func conflict(_ name: String, _ kind: String) -> UsageError {
        UsageError("\"\(SafeText.line(name))\" needs \(kind), but an item before it made something else; use one form")
    }

    /// The steps of a name. A backslash before a bracket or a backslash makes it an ordinary character.
    private static func steps(of name: String) throws(UsageError) -> [Step] {
        var rest = name.unicodeScalars[...]
        func malformed(_ what: String) -> UsageError {
            UsageError("the name \"\(SafeText.line(name))\" \(what); write name[member], name[] or name[0]")
        }
        func text(until ends: [Unicode.Scalar]) -> String {
            var text = String.UnicodeScalarView()
            while let scalar = rest.first, !ends.contains(scalar) {
                rest.removeFirst()
                if scalar == "\\", let next = rest.first, ["[", "]", "\\"].contains(next) {
                    text.append(next)
                    rest.removeFirst()
                } else {
                    text.append(scalar)
                }
            }
            return String(text)
        }
        let root = text(until: ["["])
        var steps: [Step] = root.isEmpty ? [] : [.name(root)]
        while rest.popFirst() != nil {
            let key = text(until: ["]"])
            guard rest.popFirst() == "]" else { throw malformed("has a bracket that is not closed") }
            guard rest.isEmpty || rest.first == "[" else { throw malformed("has text after a bracket") }
            if key.isEmpty {
                steps.append(.end)
            } else if let index = Int(key), key.allSatisfy(\.isNumber) {
                guard index < longestArray else { throw malformed("has an index above \(longestArray - 1)") }
                steps.append(.index(index))
            } else {
                steps.append(.name(key))
            }
        }
        return steps
    }
}
