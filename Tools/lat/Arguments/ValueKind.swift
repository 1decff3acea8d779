/// What a value on the command line is, so that completions can propose it.
enum ValueKind: Hashable, Sendable {
    /// A text that cannot be proposed.
    case text
    /// A file. With a separator, such as the `=` of `NAME=PATH`, the path begins after that character.
    case file(after: Character?)
    case folder
    case choices([Choice])
    /// The name of a row under `servers` in the table.
    case row
    /// The name of a domain in the table.
    case domain
    case rowOrDomain
    case environment
    /// The base URL of a domain in the table.
    case url
    case methodOrURL
    /// A parameter of the row that the command line names: `id=VALUE`, `age:=JSON`.
    case parameter

    /// A word with a short explanation.
    struct Choice: Hashable, Sendable {
        let name: String
        let help: String

        init(_ name: String, _ help: String = "") {
            self.name = name
            self.help = help
        }
    }

    static let file = ValueKind.file(after: nil)
    static let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "QUERY"]

    /// Derives the kind from a placeholder.
    ///
    /// A value is a file if one of the forms ends in `FILE` or `PATH`: `KEYFILE`, `NAME=PATH`, `TEXT|@FILE`. Forms in
    /// small letters are choices: `text|json`. `DIR` is a folder, `METHOD` a method, `POLICY` a cache policy. Any other
    /// value is a text.
    init(placeholder: String) {
        let forms = placeholder.split(separator: "|")
        let files = ["FILE", "PATH"]
        if forms.count > 1, forms.allSatisfy({ $0.allSatisfy { $0.isASCII && $0.isLowercase } }) {
            self = .choices(forms.map { Choice(String($0)) })
        } else if let form = forms.first(where: { form in files.contains { form.hasSuffix($0) } }) {
            let separator = form.dropLast(4).last
            self = .file(after: separator?.isLetter == true ? nil : separator)
        } else {
            self =
                switch placeholder {
                case "DIR": .folder
                case "METHOD": .choices(Self.methods.map { Choice($0) })
                case "POLICY": .choices(CacheArgument.choices)
                default: .text
                }
        }
    }
}
