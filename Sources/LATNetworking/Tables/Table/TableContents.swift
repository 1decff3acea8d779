public import FoundationEssentials
public import DomainTableFormat
import HTTPCore

/// The parts of a table: the rows of the file, the changes made in code, and the environment.
struct TableContents: Sendable {
    var name: String
    /// The file that the table was read from; `nil` for a table made from text or in code.
    var path: String?
    var warnings: [TableDiagnostic] = []
    var fileDefaults = DomainTable.RouteSettings()
    var fileDomains = RowList<DomainName, DomainTable.DomainRow>()
    var fileServers = RowList<ServerName, DomainTable.ServerRow>()

    // Set in code, and kept when the file is read again. A `nil` row is a removed one.
    var defaults: DomainTable.RouteSettings?
    var domains: [(name: DomainName, row: DomainTable.DomainRow?)] = []
    var servers: [(name: ServerName, row: DomainTable.ServerRow?)] = []
    var baseURLs: [DomainName: String] = [:]
    var environment = DomainTable.Tracked<String>(wrappedValue: nil)

    init(name: String) { self.name = name }

    /// - Throws: ``NetworkError/Kind/invalidRequest`` when the file has an error.
    init(_ bytes: [UInt8], name: String, folder: String?) throws(NetworkError) {
        let reading = DomainTableFile.read(bytes, name: name)
        guard reading.errors.isEmpty else { throw DomainTableError.broken(name, reading.diagnostics) }
        self.name = name
        warnings = reading.diagnostics
        fileDefaults = DomainTable.RouteSettings(reading.file.defaults, folder: folder)
        for entry in reading.file.domains {
            fileDomains.set(DomainTable.DomainRow(entry, folder: folder), for: DomainName(entry.name.value))
            fileDomains.positions[DomainName(entry.name.value)] = entry.name.position
        }
        for entry in reading.file.servers {
            fileServers.set(DomainTable.ServerRow(entry, folder: folder), for: ServerName(entry.name.value))
            fileServers.positions[ServerName(entry.name.value)] = entry.name.position
        }
    }
}

/// Rows by name, in order.
struct RowList<Name: Hashable & Sendable, Row: Sendable>: Sendable {
    private(set) var names: [Name] = []
    private var rows: [Name: Row] = [:]
    /// The positions of the file's rows.
    var positions: [Name: SourcePosition] = [:]

    subscript(name: Name) -> Row? { rows[name] }

    mutating func set(_ row: Row, for name: Name) {
        if rows.updateValue(row, forKey: name) == nil { names.append(name) }
    }

    mutating func apply(_ edits: [(name: Name, row: Row?)]) {
        for (name, row) in edits {
            positions[name] = nil
            if let row {
                set(row, for: name)
            } else if rows.removeValue(forKey: name) != nil {
                names.removeAll { $0 == name }
            }
        }
    }
}

/// All problems of a table file: the ``NetworkError/underlying`` error of a table that cannot be read.
public struct DomainTableError: Error, Sendable, CustomStringConvertible {
    /// The path of the file, as it was given.
    public var file: String
    /// The problems, in the order of the file, including warnings. Empty when the file could not be read at all.
    public var diagnostics: [TableDiagnostic]
    private var reason: String

    /// Every problem with its line of the file and a caret, as compilers print them.
    public var description: String {
        diagnostics.isEmpty ? reason : diagnostics.map(\.description).joined(separator: "\n")
    }

    static func broken(_ file: String, _ diagnostics: [TableDiagnostic]) -> NetworkError {
        let errors = diagnostics.filter { $0.severity == .error }
        var message = errors.first?.summary ?? "\(file) cannot be used"
        if errors.count > 1 {
            let others = errors.count == 2 ? "1 more problem" : "\(errors.count - 1) more problems"
            message += " (and \(others); lat domains check \(file) shows all)"
        }
        let error = DomainTableError(file: file, diagnostics: diagnostics, reason: message)
        return NetworkError(.invalidRequest, message: message, underlying: error)
    }

    static func unreadable(_ file: String, _ problem: SourceFile.Problem) -> NetworkError {
        let message = "the table \(file) \(problem.isMissing ? "is not there" : problem.reason); check the path"
        let error = DomainTableError(file: file, diagnostics: [], reason: message)
        return NetworkError(.invalidRequest, message: message, underlying: error)
    }
}

extension DomainTableError: LocalizedError {
    /// The same as the description, which `localizedDescription` returns too.
    public var errorDescription: String? { "\(self)" }
}

extension DomainTable {
    /// What is wrong with a table, or doubtful, and where.
    public typealias Diagnostic = TableDiagnostic
    /// A place in the file of a table.
    public typealias Position = SourcePosition
}
