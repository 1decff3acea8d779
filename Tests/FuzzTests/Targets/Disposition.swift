@testable import HTTPCore

/// A file name stays in its folder, is not hidden, and has no control characters, whatever the input.
@Sendable func fuzzDisposition(_ bytes: [UInt8]) throws {
    let field = text(bytes)
    if let name = FileName.disposition(field) { try expectHarmless(name) }
    try expectHarmless(FileName.url(field))
    try expectHarmless(FileName.url("https://example.org/\(field)"))
    let parameters = FileName.parameters(of: field)
    try expect(Set(parameters.map(\.name)).count == parameters.count, "a parameter twice")
}

private func expectHarmless(_ name: String) throws {
    try expect(!name.isEmpty && name.utf8.count <= FileName.longest, "\(name.utf8.count) bytes")
    try expect(name.utf8.allSatisfy { $0 != 0x2F && $0 != 0x5C && $0 >= 0x20 && $0 != 0x7F }, name.debugDescription)
    try expect(name.utf8.first != UInt8(ascii: ".") && name.utf8.last != UInt8(ascii: "."), name.debugDescription)
    try expect(FileName.sanitized(name) == name, "\(name.debugDescription) changes when it is sanitized again")
}
