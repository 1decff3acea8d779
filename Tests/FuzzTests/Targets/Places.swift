@testable import DomainTables

/// Expects a position to be in the text or at its end.
///
/// - Parameter endsAtCR: whether a CR alone ends a line too.
func expectPlace(line: Int, column: Int, in bytes: [UInt8], endsAtCR: Bool = false) throws {
    var lengths = [0]
    for (index, byte) in bytes.enumerated() {
        let isLoneCR = endsAtCR && byte == 0x0D && (index + 1 == bytes.count || bytes[index + 1] != 0x0A)
        if byte == 0x0A || isLoneCR { lengths.append(0) } else { lengths[lengths.count - 1] += 1 }
    }
    try expect(lengths.indices.contains(line - 1), "line \(line) of \(lengths.count)")
    let longest = lengths[line - 1] + 1
    try expect((1...longest).contains(column), "column \(column) in line \(line), which has \(longest - 1) bytes")
}

/// Expects a diagnostic to have a position in the text, and an excerpt of one line with a caret under it.
func expectPlace(_ diagnostic: DomainTable.Diagnostic, in bytes: [UInt8]) throws {
    let position = diagnostic.position
    try expectPlace(line: position.line, column: position.column, in: bytes, endsAtCR: true)
    try expect(diagnostic.excerpt.count == 2, "the excerpt has \(diagnostic.excerpt.count) lines")
    try expect(diagnostic.excerpt.last?.contains("^") == true, "no caret in \(diagnostic.excerpt)")
    try expect(!diagnostic.message.isEmpty, "no message")
    for line in diagnostic.excerpt + [diagnostic.message] {
        let isPlain = line.unicodeScalars.allSatisfy { $0 == "\t" || $0.properties.generalCategory != .control }
        try expect(isPlain, "a control character in \(line.debugDescription)")
    }
}
