@testable import DomainTables
@testable import LATClient

/// Every diagnostic has a position in the file. A table is made exactly when the file has no errors, and has every row of
/// the file.
@Sendable func fuzzTable(_ bytes: [UInt8]) throws {
    let reading = DomainTableFile.read(bytes, name: "f")
    for diagnostic in reading.diagnostics { try expectPlace(diagnostic, in: bytes) }
    try expect(reading.diagnostics == reading.diagnostics.inFileOrder, "the diagnostics are not in file order")
    do {
        let contents = try TableContents(bytes, name: "f", folder: "/tmp")
        try expect(reading.errors.isEmpty, "a broken file made a table: \(reading.errors)")
        try expect(contents.fileDomains.names.count == reading.file.domains.count, "a domain is missing")
        try expect(contents.fileServers.names.count == reading.file.servers.count, "a server is missing")
        _ = TableSnapshot(contents).routes
    } catch let error as FuzzFault {
        throw error
    } catch {
        try expect(!reading.errors.isEmpty, "a file without errors made no table: \(error)")
    }
}
