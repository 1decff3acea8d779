/// The arguments of the program; `main.swift` lists them.
struct GeneratorArguments {
    struct Problem: Error {
        var message: String
    }

    var tables: [String] = []
    /// The file to write; `nil` for standard output.
    var output: String?
    /// The prefix to remove from file names in comments, so that the generated code is the same on every machine.
    var root: String?
    var isPublic = false

    init(tables: [String]) { self.tables = tables }

    init(_ arguments: [String]) throws(Problem) {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--output", "--root", "--access":
                guard let value = rest.popFirst() else { throw Problem(message: "\(argument) needs a value") }
                if argument == "--output" { output = value }
                if argument == "--root" { root = value.hasSuffix("/") ? value : value + "/" }
                if argument == "--access" {
                    guard value == "public" || value == "internal" else {
                        throw Problem(message: "--access is public or internal, not \"\(value)\"")
                    }
                    isPublic = value == "public"
                }
            default:
                guard !argument.hasPrefix("-") else {
                    throw Problem(message: "unknown option \(argument); the options are --access, --output and --root")
                }
                tables.append(argument)
            }
        }
        guard !tables.isEmpty else { throw Problem(message: "name a table file, such as Config/domains.json5") }
    }
}
