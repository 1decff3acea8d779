import Glibc
import LATNetworking

/// Which table a command reads, and for which environment.
struct TableArgument: Hashable, Sendable {
    static let table = Option("--table", value: "FILE", help: "The table. Default: \(standardPath) below this folder.")
    static let environment = Option(
        "--environment", value: "NAME",
        help: "The environment whose base URLs are used; \"\" for none. Default: what LAT_ENVIRONMENT says.")

    static let standardPath = "Config/domains.json5"

    /// The file; `nil` for the standard one.
    var file: String?
    /// The environment; `nil` for what the variable says.
    var environment: String?

    /// - Throws: ``UsageError`` for an empty name.
    init(_ arguments: ParsedArguments) throws(UsageError) {
        file = arguments.value(Self.table)
        environment = arguments.value(Self.environment)
        if file?.isEmpty == true { throw UsageError("\(Self.table.name) \"\" names no file; write --table FILE") }
    }

    var path: String { file ?? Self.standardPath }

    /// - Throws: ``TableProblem`` when it cannot be used.
    func read() throws(TableProblem) -> DomainTable {
        if file == nil, access(Self.standardPath, F_OK) != 0 {
            throw TableProblem("there is no \(Self.standardPath) below this folder; name a table with --table FILE")
        }
        do {
            return try DomainTable(contentsOf: path, environment: environment ?? DomainTable.environmentOfProcess)
        } catch {
            throw TableProblem(path, error)
        }
    }
}
