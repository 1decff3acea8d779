import DomainTables
import Glibc
import LATNetworking

/// The table that a command reads, and the environment.
struct TableArgument: Hashable, Sendable {
    static let table = Option("--table", value: "FILE", help: "The table. Default: \(standardPath) in this folder.")
    static let environment = Option(
        "--environment", value: "NAME", kind: .environment,
        help: "The environment whose base URLs are used; \"\" for none. Default: the value of LAT_ENVIRONMENT.")

    static let standardPath = "Config/domains.json5"

    /// The file; `nil` for the standard path.
    var file: String?
    /// The environment; `nil` for that of `LAT_ENVIRONMENT`.
    var environment: String?

    var path: String { file ?? Self.standardPath }
}

extension TableArgument {
    init(_ arguments: ParsedArguments) throws(UsageError) {
        file = try arguments.file(Self.table, "write --table FILE")
        environment = arguments.value(Self.environment)
    }

    func read() throws(TableProblem) -> DomainTable {
        if file == nil, access(Self.standardPath, F_OK) != 0 {
            throw TableProblem("there is no \(Self.standardPath) in this folder; name a table with --table FILE")
        }
        do {
            return try DomainTable(contentsOf: path, environment: environment ?? DomainTable.environmentOfProcess)
        } catch {
            throw TableProblem(path, error)
        }
    }
}

/// Why a table cannot be used.
struct TableProblem: Error {
    /// The errors and warnings in the file; empty when the file was not read or has none.
    let diagnostics: [DomainTable.Diagnostic]
    /// The reason in one sentence.
    let message: String

    init(_ message: String) {
        diagnostics = []
        self.message = message
    }

    init(_ path: String, _ error: NetworkError) {
        let diagnostics = (error.underlying as? DomainTableError)?.diagnostics ?? []
        self = diagnostics.isEmpty ? TableProblem(error.message) : TableProblem(path, diagnostics)
    }

    init(_ path: String, _ diagnostics: [DomainTable.Diagnostic]) {
        self.diagnostics = diagnostics
        message = "the table \(path) has \(Self.count(diagnostics)); correct it and run the command again"
    }

    /// Shows every diagnostic with its line, then the sentence.
    func show(on console: Console) {
        console.note(diagnostics)
        console.complain(message)
    }

    /// A count such as `2 errors and 1 warning`.
    static func count(_ diagnostics: [DomainTable.Diagnostic]) -> String {
        [DomainTable.Diagnostic.Severity.error, .warning].compactMap { severity in
            let count = diagnostics.count { $0.severity == severity }
            return count == 0 ? nil : TableReport.count(count, severity.rawValue)
        }.listed
    }
}

extension Console {
    /// Shows diagnostics as the library renders them, in colour where the terminal has it.
    func note(_ diagnostics: [DomainTable.Diagnostic]) {
        for diagnostic in diagnostics { Self.lines(of: diagnostic, errStyle).forEach(note) }
    }

    private static func lines(of diagnostic: DomainTable.Diagnostic, _ style: Style) -> [String] {
        let severity = "\(diagnostic.severity.rawValue):"
        let place = style.bold(SafeText.line("\(diagnostic.position)"))
        let kind = diagnostic.severity == .error ? style.red(severity) : style.magenta(severity)
        var lines = ["\(place): \(kind) \(diagnostic.message)"] + diagnostic.excerpt
        // The last line of an excerpt is the one with the caret.
        if diagnostic.excerpt.count > 1, let caret = lines.popLast() { lines.append(style.green(caret)) }
        return lines
    }
}
