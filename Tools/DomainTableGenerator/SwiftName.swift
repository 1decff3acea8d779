/// Converts names of a table to Swift identifiers.
enum SwiftName {
    /// Returns the identifier for a name: `user.detail` → `userDetail`, `GET-token` → `getToken`, `2fa` → `_2fa`. `nil` when
    /// the name has no letter or digit.
    static func member(for name: String) -> String? {
        let words = name.split { !($0.isLetter || $0.isNumber) }.map(String.init)
        guard let first = words.first else { return nil }
        var member = lowercasedStart(first)
        for word in words.dropFirst() { member += word.prefix(1).uppercased() + word.dropFirst() }
        member = String(String.UnicodeScalarView(member.unicodeScalars.filter(\.properties.isXIDContinue)))
        guard let start = member.unicodeScalars.first else { return nil }
        if !start.properties.isXIDStart { member = "_" + member }
        // A name that every type has as a member, or that backticks do not allow, gets an underscore at its end.
        if reserved.contains(member) { return member + "_" }
        return keywords.contains(member) ? "`\(member)`" : member
    }

    /// Lowercases the capitals at the start, but not the one that begins the next word: `URLCheck` → `urlCheck`.
    private static func lowercasedStart(_ word: String) -> String {
        let capitals = word.prefix { $0.isUppercase }
        let rest = word.dropFirst(capitals.count)
        let taken = capitals.count > 1 && rest.first?.isLetter == true ? capitals.count - 1 : capitals.count
        return word.prefix(taken).lowercased() + word.dropFirst(taken)
    }

    private static let reserved: Set<String> = ["self", "Type", "Protocol", "all", "init"]

    private static let keywords: Set<String> = [
        "Any", "Self", "as", "associatedtype", "await", "break", "case", "catch", "class", "continue", "default",
        "defer", "deinit", "do", "else", "enum", "extension", "fallthrough", "false", "fileprivate", "for", "func",
        "guard", "if", "import", "in", "inout", "internal", "is", "let", "nil", "operator", "precedencegroup",
        "private", "protocol", "public", "repeat", "rethrows", "return", "static", "struct", "subscript", "super",
        "switch", "throw", "throws", "true", "try", "typealias", "var", "where", "while",
    ]
}
