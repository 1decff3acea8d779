import FoundationEssentials

@testable import DomainTables
@testable import HTTPCore

/// Both JSON parsers agree. An error has a position in the text. A written value parses to the same value.
@Sendable func fuzzJSON(_ bytes: [UInt8]) throws {
    let data = Data(bytes)
    let value = Result { try JSONValue(parsing: data) }
    let document = Result { try JSONDocument(parsing: data) }
    switch (value, document) {
    case (.success(let value), .success(let document)):
        try expect(document.value == value, "the parsers differ: \(document.value) and \(value)")
        for isPretty in [false, true] {
            let written = try value.data(prettyPrinted: isPretty)
            let again = try JSONValue(parsing: written)
            try expect(again == value, "\(text(written)) is parsed as \(again), was \(value)")
        }
    case (.failure(let one), .failure(let other)):
        guard let one = one as? JSONValue.ParsingError, let other = other as? JSONValue.ParsingError else { throw one }
        try expect(one == other, "the errors differ: \(one) and \(other)")
        try expectPlace(line: one.line, column: one.column, in: bytes)
    default:
        throw FuzzFault(description: "only one parser fails: \(value), \(document)")
    }
}

/// An error has a position in the text. The range of a value lies inside that of its parent. For a JSON text, the
/// result is the value that the JSON parser returns.
@Sendable func fuzzJSON5(_ bytes: [UInt8]) throws {
    let document = JSON5Document(bytes, name: "f")
    for diagnostic in document.diagnostics { try expectPlace(diagnostic, in: bytes) }
    guard let root = document.root else {
        return try expect(!document.diagnostics.isEmpty, "no value and no error")
    }
    try expectInside(root, 0..<bytes.count)
    guard document.diagnostics.isEmpty, let value = try? JSONValue(parsing: Data(bytes)) else { return }
    try expect(isEqual(root, value), "JSON5 reads \(root.value) where JSON reads \(value)")
}

private func expectInside(_ node: JSON5Node, _ outer: Range<Int>) throws {
    let range = node.range
    try expect(!range.isEmpty && outer.contains(range.lowerBound), "\(range) is not in \(outer)")
    try expect(range.upperBound <= outer.upperBound, "\(range) is not in \(outer)")
    switch node.value {
    case .array(let elements):
        for element in elements { try expectInside(element, range) }
    case .object(let members):
        for member in members {
            let isBefore = member.keyRange.upperBound <= member.value.range.lowerBound
            try expect(member.keyRange.lowerBound > range.lowerBound && isBefore, "the key \(member.key) is misplaced")
            try expectInside(member.value, range)
        }
    case .null, .bool, .number, .string: break
    }
}

private func isEqual(_ node: JSON5Node, _ value: JSONValue) -> Bool {
    switch (node.value, value) {
    case (.null, .null): return true
    case (.bool(let one), .bool(let other)): return one == other
    case (.string(let one), .string(let other)): return one == other
    case (.number(let number), _): return isEqual(number, value)
    case (.array(let one), .array(let other)):
        return one.count == other.count && zip(one, other).allSatisfy { isEqual($0, $1) }
    case (.object(let members), .object(let other)):
        // In JSON the last of duplicate keys counts.
        let last = Dictionary(members.map { ($0.key, $0.value) }) { $1 }
        guard last.count == other.count else { return false }
        return last.allSatisfy { key, node in other[key].map { isEqual(node, $0) } ?? false }
    default: return false
    }
}

private func isEqual(_ number: JSON5Number, _ value: JSONValue) -> Bool {
    switch value {
    case .int(let int): return number.integer == int
    case .double(let double): return number.double == double
    case .decimal(let decimal):
        // A decimal has more digits than a double.
        let double = Double(decimal.description) ?? .nan
        return abs(number.double - double) <= abs(double) * 1e-15
    default: return false
    }
}
