/// Which files the rows of a table may name: certificates, keys, and folders of fixtures.
package enum AllowedFiles: Sendable {
    /// Any, as in a file that belongs to the app.
    case any
    /// None, as in a table from a source.
    case none
    /// Those below a folder that the program chose: relative paths without `..`.
    case below

    fileprivate func allows(_ path: String) -> Bool {
        switch self {
        case .any: true
        case .none: false
        case .below: !path.hasPrefix("/") && !path.split(separator: "/").contains("..")
        }
    }
}

extension TableReader {
    /// The path of a file that a row names, relative to the table's folder. A file that may not be named is reported.
    mutating func file(_ path: String, _ key: String, _ node: JSON5Node) -> String {
        if !files.allows(path) {
            let advice =
                if case .none = files {
                    "leave it out, or name the folder of such files in the program: DomainTable(from: …, files:)"
                } else {
                    "write a path below the program's folder of files, without \"..\""
                }
            refuse("file", path, key, node, advice)
        }
        guard let folder, !path.hasPrefix("/") else { return path }
        return "\(folder)/\(path)"
    }

    /// Reports a variable of the environment that a row may not name, because its value would be sent.
    mutating func checkVariable(_ name: String, _ key: String, _ node: JSON5Node) {
        if case .any = files { return }
        refuse("variable", name, key, node, "set the authenticator in the program")
    }

    /// Reports a socket of this machine that a row may not name.
    mutating func checkSocket(_ path: String, _ key: String, _ node: JSON5Node) {
        if case .any = files { return }
        refuse("socket", path, key, node, "set the base URL of the domain in the program")
    }

    private mutating func refuse(_ kind: String, _ name: String, _ key: String, _ node: JSON5Node, _ advice: String) {
        report(
            node.range,
            "\(QuotedText.of(key)) names the \(kind) \(QuotedText.of(name)), which is not allowed in a table from a source; "
                + advice, found: QuotedText.of(name))
    }
}
