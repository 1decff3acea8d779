import FoundationEssentials

@testable import HTTPCore
@testable import LATClient

/// Structured fields (RFC 9651): what is read can be written, and what was written reads as the same. A quota that such a field
/// tells is within its bounds.
@Sendable func fuzzStructured(_ bytes: [UInt8]) throws {
    let field = text(bytes)
    if let list = StructuredField.list(field) {
        let written = StructuredField.text(list)
        try expect(written.flatMap(StructuredField.list) == list, "list: \(list) is written as \(written ?? "nothing")")
    }
    if let members = StructuredField.dictionary(field) {
        let written = StructuredField.text(members)
        try expect(
            written.flatMap(StructuredField.dictionary) == members,
            "dictionary: \(members) is written as \(written ?? "nothing")")
    }
    if let item = StructuredField.item(field) {
        let written = StructuredField.text([item])
        try expect(written.flatMap(StructuredField.item) == item, "item: \(item) is written as \(written ?? "nothing")")
    }
    for fields: HTTPHeaders in [
        ["RateLimit": field], ["RateLimit": "\"a\";r=1", "RateLimit-Policy": field],
        ["X-RateLimit-Remaining": field, "X-RateLimit-Reset": field],
    ] {
        for report in QuotaFields.reports(fields, date: 1_767_225_600) {
            let isBounded = report.remaining >= 0 && .zero <= report.reset && report.reset <= .seconds(86_400)
            try expect(isBounded && report.limit ?? 0 >= 0, "a quota of \(report)")
        }
    }
}
