import DomainTables

/// Names of Swift from names of a document.
enum SwiftName {
    /// Words that are written in capitals where they are not the first of a name.
    private static let acronyms: Set<String> = [
        "id", "ids", "url", "urls", "uri", "uris", "uuid", "http", "https", "html", "json", "xml", "api", "ip", "ips",
        "sdk",
        "sql", "ssl", "tls", "dns", "cpu", "gpu", "ui", "utc", "csv", "pdf", "png", "vpc", "vpn", "ssh", "oauth2",
        "ascii",
    ]
    private static let keywords = SwiftKeywords.all.union(["actor", "any", "async", "init", "open", "self"])
    /// Names that mean something else where generated types stand.
    static let takenTypes: Set<String> = [
        "Any", "AnyObject", "Array", "Bool", "Call", "Character", "Codable", "CodingKey", "CodingKeys",
        "Coding",
        "Data", "Date", "Decimal", "Decodable", "Decoder", "Dictionary", "Double", "Duration", "Empty", "Encodable",
        "Encoder",
        "Error", "Float", "Foundation", "HTTPBody", "HTTPHeaders", "Hashable", "Int", "Int32", "Int64", "JSONValue",
        "KnownValues",
        "JSONKey", "Model", "Never", "Optional", "Parameters", "Progress", "Protocol", "RawRepresentable",
        "RequestEntity",
        "RequestOptions", "Result", "Route", "Self", "Sendable", "Sequence", "Set", "Settable", "String", "Swift",
        "Task",
        "Timestamp", "Type", "UInt", "UInt64", "URL", "UUID", "UploadFile", "Verbatim", "Void", "LATNetworking",
        "Response",
        "Request",
        "Reply",
    ]
    /// Names of properties that would hide or change something.
    private static let takenMembers: Set<String> = [
        "self", "Self", "init", "hashValue", "additional", "hash", "encode", "rawValue", "unknown", "knownValues",
    ]
    /// Names that an entity has already.
    static let takenOfEntities: Set<String> = [
        "route", "parameters", "files", "options", "call", "body", "timeout", "header", "headers", "cache", "tag",
        "retries",
        "priority", "progress", "stream", "download", "upload", "pages", "reply", "replies", "coding",
    ]

    /// The words of a name: `user_id`, `userID`, `UserId` and `user-id` are two.
    static func words(_ text: String) -> [String] {
        var words: [String] = []
        var word = ""
        let letters = Array(text.unicodeScalars)
        func isUpper(_ index: Int) -> Bool { letters[index].properties.isUppercase }
        func isLower(_ index: Int) -> Bool { letters[index].properties.isLowercase }
        for index in letters.indices {
            let letter = letters[index]
            guard letter.properties.isAlphabetic || ("0"..."9").contains(letter) else {
                if !word.isEmpty { words.append(word) }
                word = ""
                continue
            }
            if !word.isEmpty, isUpper(index) {
                let endsCapitals =
                    isUpper(index - 1) && index + 1 < letters.count && isLower(index + 1)
                    && !(index + 2 >= letters.count && letters[index + 1] == "s")
                if !isUpper(index - 1) || endsCapitals {
                    words.append(word)
                    word = ""
                }
            }
            word.unicodeScalars.append(letter)
        }
        if !word.isEmpty { words.append(word) }
        return words
    }

    /// The name of a type: `user-detail` is `UserDetail`.
    static func type(_ text: String) -> String {
        let name = capitalized(words(text))
        return beginsWithLetter(name) ? name : "Type" + name
    }

    /// The name of a property: `user_id` is `userID`.
    static func member(_ text: String) -> String {
        let words = words(text)
        guard let first = words.first else { return symbols(text) }
        let start =
            first.contains { $0.isLowercase } && first.dropFirst().contains { $0.isUppercase }
            ? first.prefix(1).lowercased() + first.dropFirst() : first.lowercased()
        // `date<` and `date>` are parameters beside `date`.
        let end = String(text.reversed().prefix { "<>=".contains($0) }.reversed())
        let signs = end.isEmpty ? "" : symbols(end)
        let name =
            start + capitalized(words, from: 1) + signs.prefix(1).uppercased() + signs.dropFirst()
        // `+1` and `-1` are two values.
        let sign = ["+": "plus", "-": "minus"][text.prefix(1)] ?? "value"
        let safe = beginsWithLetter(name) ? name : sign + name
        return takenMembers.contains(safe) ? safe + "Value" : safe
    }

    /// A name for a text that has no letter, such as `+1` and `>=`.
    private static func symbols(_ text: String) -> String {
        let names: [Character: String] = [
            "+": "Plus", "-": "Minus", "*": "Star", "<": "Less", ">": "Greater", "=": "Equal", "!": "Not", "~": "Tilde",
            "/": "Slash", ".": "Dot", "_": "Underscore", "&": "And", "|": "Or", "%": "Percent", "$": "Dollar",
            "@": "At",
            "#": "Hash", "^": "Caret", "?": "Question", ":": "Colon", ",": "Comma", " ": "Space",
        ]
        let name = text.map { names[$0] ?? "Symbol" }.joined()
        return name.isEmpty ? "empty" : name.prefix(1).lowercased() + name.dropFirst()
    }

    /// The words of a name from one of them on, each with a capital.
    private static func capitalized(_ words: [String], from first: Int = 0) -> String {
        // `CHANNEL_NAME` has no acronym but the known ones; `GuildVIPs` and a single `SKU` have.
        let isShouted = words.count > 1 && words.allSatisfy { !$0.contains(where: \.isLowercase) }
        return words.dropFirst(first).map { capitalized($0, isShouted) }.joined()
    }

    private static func capitalized(_ word: String, _ isShouted: Bool) -> String {
        let lower = word.lowercased()
        if acronyms.contains(lower) {
            return lower.hasSuffix("s") && acronyms.contains(String(lower.dropLast()))
                ? lower.dropLast().uppercased() + "s" : lower.uppercased()
        }
        // A word in capitals is a constant of another language.
        let isConstant = isShouted || word.count > 4 && word.allSatisfy { !$0.isLowercase }
        return word.prefix(1).uppercased() + (isConstant ? lower.dropFirst() : word.dropFirst())
    }

    private static func beginsWithLetter(_ name: String) -> Bool {
        name.unicodeScalars.first.map { $0.properties.isXIDStart } ?? false
    }

    /// The name in code, in backticks if it is a keyword.
    static func escaped(_ name: String) -> String { keywords.contains(name) ? "`\(name)`" : name }

    /// A text as a literal.
    static func literal(_ text: String) -> String {
        var literal = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": literal += "\\\""
            case "\\": literal += "\\\\"
            case "\n": literal += "\\n"
            case "\r": literal += "\\r"
            case "\t": literal += "\\t"
            case _ where scalar.value < 0x20 || scalar.properties.isBidiControl || scalar.value == 0x7F:
                literal += "\\u{\(String(scalar.value, radix: 16))}"
            default: literal.unicodeScalars.append(scalar)
            }
        }
        return literal + "\""
    }
}

/// Gives each name once. Names that differ in case only count as equal, because people and file systems mix them up.
struct NameSet {
    private var taken: Set<String> = []
    private let others: Set<String>
    private let prefix: String

    /// - Parameters:
    ///   - others: names of others, which get a word in front.
    ///   - prefix: that word.
    init(avoiding others: Set<String> = [], prefix: String = "") {
        (self.others, self.prefix) = (Set(others.map { $0.lowercased() }), prefix)
    }

    /// The name, or the first free one of those with a number after it.
    mutating func claim(_ name: String) -> String {
        let name = others.contains(name.lowercased()) ? prefix + name : name
        if taken.insert(name.lowercased()).inserted { return name }
        var number = 2
        while !taken.insert("\(name)\(number)".lowercased()).inserted { number += 1 }
        return "\(name)\(number)"
    }

    func isTaken(_ name: String) -> Bool { taken.contains(name.lowercased()) }
}

extension SwiftName {
    /// The name of one element: `Passengers` is `Passenger`; a name without a plural gets `Item`.
    static func singular(_ name: String) -> String {
        let endings = [("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh")]
        for (ending, one) in endings where name.hasSuffix(ending) { return name.dropLast(ending.count) + one }
        let hasPlural = name.hasSuffix("s") && !name.hasSuffix("ss") && !name.hasSuffix("us") && !name.hasSuffix("is")
        return hasPlural ? String(name.dropLast()) : name + "Item"
    }
}

extension SwiftName {
    /// A name of a row with the characters that such a name may have.
    static func rowName(_ text: String) -> String {
        String(text.map { $0.isLetter || $0.isNumber || $0 == "." || $0 == "_" || $0 == "-" ? $0 : "_" })
    }
}
