import DomainTableFormat
import HTTPCore

/// What a table is made of: the rows of the file, what was set in code over them, and the environment.
struct TableContents: Sendable {
    var name: String
    /// The file it was read from; `nil` for a table made of text or in code.
    var path: String?
    var warnings: [TableDiagnostic] = []
    var fileDefaults = RouteSettings()
    var fileDomains = RowList<DomainName, DomainRow>()
    var fileServers = RowList<ServerName, ServerRow>()

    // Set in code, and kept when the file is read again. A `nil` row is one taken away.
    var defaults: RouteSettings?
    var domains: [(name: DomainName, row: DomainRow?)] = []
    var servers: [(name: ServerName, row: ServerRow?)] = []
    var baseURLs: [DomainName: String] = [:]
    var environment = Tracked<String>(wrappedValue: nil)

    init(name: String) { self.name = name }

    /// - Throws: ``NetworkError/Kind/invalidRequest`` when anything is wrong with the file.
    init(_ bytes: [UInt8], name: String, folder: String?) throws(NetworkError) {
        let reading = DomainTableFile.read(bytes, name: name)
        guard reading.errors.isEmpty else { throw DomainTableError.broken(name, reading.diagnostics) }
        self.name = name
        warnings = reading.diagnostics
        fileDefaults = RouteSettings(reading.file.defaults, folder: folder)
        for entry in reading.file.domains {
            fileDomains.set(DomainRow(entry, folder: folder), for: DomainName(entry.name.value))
            fileDomains.positions[DomainName(entry.name.value)] = entry.name.position
        }
        for entry in reading.file.servers {
            fileServers.set(ServerRow(entry, folder: folder), for: ServerName(entry.name.value))
            fileServers.positions[ServerName(entry.name.value)] = entry.name.position
        }
    }
}

/// Rows by name, in order.
struct RowList<Name: Hashable & Sendable, Row: Sendable>: Sendable {
    private(set) var names: [Name] = []
    private var rows: [Name: Row] = [:]
    /// Where the rows of a file begin.
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
