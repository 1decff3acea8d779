import DomainTables
import Glibc
import HTTPCore
import LATNetworking
import OpenAPIImport
import Platform

/// `lat openapi import|diff`: rows and Swift from a document of the OpenAPI, and what another version of it changes.
struct OpenAPICommand: Command {
    enum Action: Hashable, Sendable {
        case importing(String)
        case diff(String, String)
    }

    static let name = "openapi"
    static let summary = "Makes rows and Swift from an OpenAPI document."
    static let usage = "import DOCUMENT | diff OLD NEW [options]"

    static let all = Option("--all", help: "Imports all operations.")
    static let tags = Option(
        "--tags", value: "TAGS", repeats: true, help: "Imports the operations with one of these tags: A,B.")
    static let operations = Option(
        "--operations", value: "NAMES", repeats: true,
        help: "Imports these operations: operationId,… or 'GET /path'.")
    static let only = Option("--only", help: "Takes the choice of earlier imports back: imports what is named now.")
    static let domain = Option(
        "--domain", value: "NAME", help: "The domain in the table. Default: a word of the document's title.")
    static let folder = Option(
        "--to", value: "DIR",
        help: "The folder of the Swift files. Default: that of the last import, else one of the only target in Sources."
    )
    static let overrides = Option(
        "--overrides", value: "FILE", help: "Names and types by JSON pointer, in JSON5. Later imports use it again.")
    static let isPublic = Option("--public", help: "Makes the Swift types public.")
    static let examples = Option(
        "--examples", value: "DIR", help: "Writes the document's example replies there, for the row key simulation.")
    static let isDry = Option("--dry-run", help: "Shows what would be written, and writes nothing.")
    static let allWarnings = Option("--warnings", help: "Shows all warnings about the document, not only the first 20.")

    static let options = [
        all, tags, operations, only, domain, folder, TableArgument.table, overrides, isPublic, examples, isDry,
        allWarnings,
    ]
    static let details = """
          import   writes rows into the table and Swift files into a folder
          diff     what the second document changes in the first, row by row

        DOCUMENT is Swagger 2.0 or OpenAPI 3.0 to 3.2, in JSON or YAML. Without a choice, import
        lists what there is to choose from. A later import adds to the choice, and without one it
        repeats the last; --only takes it back. What was edited in the table stays as it is.

        Examples
          lat openapi import museum.yaml
          lat openapi import museum.yaml --tags Tickets,Events
          lat openapi import museum.yaml --operations getTicketCode --domain museum --dry-run
          lat openapi diff museum-1.yaml museum-2.yaml

        Exit codes of import: 0 success, 2 the document cannot be used, and nothing was written.
        Of diff: 0 nothing breaks a caller, 1 something does, 2 a document cannot be used.
        """

    static let actions = [
        ValueKind.Choice("import", "Writes rows and Swift"), .init("diff", "What another version changes"),
    ]

    static func operandKind(after operands: [String]) -> ValueKind { operands.isEmpty ? .choices(actions) : .file }

    let action: Action
    let table: TableArgument
    let arguments: ParsedArguments

    init(_ arguments: ParsedArguments) throws(UsageError) {
        self.arguments = arguments
        table = try TableArgument(arguments)
        let operands = arguments.operands
        switch operands.first {
        case "import":
            guard operands.count > 1 else { throw UsageError("DOCUMENT is missing; write lat openapi import DOCUMENT") }
            try UsageError.refuse(operands, after: 2, "lat openapi --help shows the usage")
            action = .importing(operands[1])
            try arguments.refuse(Self.all, with: Self.tags)
            try arguments.refuse(Self.all, with: Self.operations)
            try arguments.refuse(Self.all, with: Self.only)
            guard
                !arguments.contains(Self.only) || arguments.contains(Self.tags) || arguments.contains(Self.operations)
            else { throw UsageError("--only needs --tags or --operations") }
            if let domain = arguments.value(Self.domain) {
                let isName = domain.allSatisfy { $0.isLetter || $0.isNumber || "-_.".contains($0) } && !domain.isEmpty
                guard isName else {
                    throw UsageError("--domain \"\(SafeText.line(domain))\" is no name; use letters, digits, - and _")
                }
            }
        case "diff":
            guard operands.count > 2 else {
                throw UsageError("two documents are needed; write lat openapi diff OLD NEW")
            }
            try UsageError.refuse(operands, after: 3, "lat openapi --help shows the usage")
            action = .diff(operands[1], operands[2])
        case let word?:
            let near = NearestName.of(word, among: Self.actions.map(\.name)).map { "did you mean \($0)?" }
            throw UsageError(
                "lat openapi knows no \"\(SafeText.line(word))\"; \(near ?? "write lat openapi import or diff")")
        case nil: throw UsageError("the action is missing; write lat openapi import DOCUMENT, or diff OLD NEW")
        }
    }

    func run(_ console: Console) async throws -> ExitCode {
        do {
            switch action {
            case .importing(let document): return try runImport(document, console)
            case .diff(let old, let new): return try runDiff(old, new, console)
            }
        } catch let problem as ImportProblem {
            console.complain(problem.message)
            return .usage
        }
    }

    // MARK: Files

    func importer(_ document: String, domain: String?) throws(ImportProblem) -> OpenAPIImporter {
        var overrides: (bytes: [UInt8], file: String)?
        if let file = arguments.value(Self.overrides) {
            overrides = (try Self.bytes(of: file, "a file of overrides"), file)
        }
        let folder = Self.realFolder(of: document)
        return try OpenAPIImporter(
            try Self.bytes(of: document, "a document"), name: document, domain: domain, overrides: overrides
        ) { path throws(ImportProblem) in
            // A symbolic link may lead elsewhere.
            if let folder, let real = realpath(path, nil) {
                defer { free(real) }
                let isInside = String(cString: real).hasPrefix(folder == "/" ? folder : folder + "/")
                guard isInside else {
                    throw ImportProblem("\(path) is a link out of the folder of the document; copy the file there")
                }
            }
            return try Self.bytes(of: path, "a document")
        }
    }

    private static func realFolder(of path: String) -> String? {
        guard let real = realpath(PathParts(path).folder, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }

    /// Gives importers the overrides of the last import, unless this command names others.
    func takeOverrides(of state: ImportState, _ importers: OpenAPIImporter...) throws(ImportProblem) {
        guard arguments.value(Self.overrides) == nil, let file = state.overrides else { return }
        let bytes = try Self.bytes(
            of: file, "a file of overrides", advice: "the last import used it: restore it, or name one with --overrides"
        )
        for importer in importers { try importer.take(bytes, overrides: file) }
    }

    private static func bytes(
        of path: String, _ kind: String, advice: String = "name a file that can be read"
    ) throws(ImportProblem) -> [UInt8] {
        do throws(SourceFile.Problem) {
            return try SourceFile.bytes(of: path, limit: OpenAPIImporter.byteLimit, kind: kind)
        } catch {
            let isLarge = error.reason.hasPrefix("is larger")
            let step = isLarge ? "split it into files that refer to each other" : advice
            throw ImportProblem("\(SafeText.line(path)) \(error.reason); \(step)")
        }
    }

    /// The words of an option that has a list.
    func list(_ option: Option) -> [String] {
        arguments.values(option).joined(separator: ",").split(separator: ",")
            .map { String($0).trimmingFieldWhitespace }.filter { !$0.isEmpty }
    }
}
