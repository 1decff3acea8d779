/// The rows of a table file.
package struct DomainTableFile: Sendable {
    /// The name of the file in messages.
    package var name: String
    /// Where the table is for production; `nil` where nothing is said.
    package var production: Located<DomainTable.Production>?
    package var defaults = DomainTable.RouteSettings()
    /// The domains in file order.
    package var domains: [Entry<DomainTable.DomainRow>] = []
    /// The servers in file order.
    package var servers: [Entry<DomainTable.ServerRow>] = []

    /// A row with its name.
    package struct Entry<Row: Sendable>: Sendable {
        package var name: Located<String>
        package var row: Row
    }

    /// The result of reading a file.
    package struct Reading: Sendable {
        /// What could be read. It must not be used when there are errors.
        package var file: DomainTableFile
        /// The diagnostics in file order.
        package var diagnostics: [DomainTable.Diagnostic]

        package var errors: [DomainTable.Diagnostic] { diagnostics.filter { $0.severity == .error } }
    }

    /// Reads and checks a whole file.
    ///
    /// - Parameters:
    ///   - folder: what paths in the rows are relative to; `nil` to leave them as they are.
    ///   - files: which files the rows may name.
    package static func read(
        _ bytes: [UInt8], name: String, folder: String? = nil, files: AllowedFiles = .any
    ) -> Reading {
        let document = JSON5Document(bytes, name: name)
        guard let root = document.root else {
            return Reading(file: DomainTableFile(name: name), diagnostics: document.diagnostics.inFileOrder)
        }
        var reader = TableReader(document.source, folder: folder, files: files)
        reader.readTable(root)
        let diagnostics = document.diagnostics + reader.diagnostics + reader.ending
        return Reading(file: reader.file, diagnostics: diagnostics.inFileOrder)
    }
}
