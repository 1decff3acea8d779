@testable import DomainTables
import Testing

/// Tables that are much larger than any that a person writes.
@Suite("Large tables")
struct LargeTableTests {
    private func read(_ text: String) -> DomainTableFile.Reading {
        DomainTableFile.read(Array(text.utf8), name: "t.json5")
    }

    private static let head = #"{ domains: { a: { baseURL: "http://127.0.0.1:1" } }, servers: {"#

    @Test func rowWithoutSettingsStoresNone() {
        let rows = #"x: { domain: "a", path: "p" }, y: { domain: "a", path: "p", timeout: "1s" }"#
        let reading = read(Self.head + rows + "} }")
        #expect(reading.diagnostics.isEmpty)
        #expect(reading.file.servers.map(\.row.hasSettings) == [false, true])
        #expect(reading.file.servers[1].row.settings.timeout == .seconds(1))
        #expect(MemoryLayout<DomainTableFile.Entry<DomainTable.ServerRow>>.stride <= 512, "a row is small")
    }

    /// The sizes are so large that work which grows with their square would take many minutes.
    @Test func manyNamesOfATableAreRead() {
        let rows = (0..<40_000).map { "s\($0): { domain: 'a', path: 'p' },\n" }.joined()
        let reading = read(Self.head + rows + "} }")
        #expect(reading.diagnostics.isEmpty && reading.file.servers.count == 40_000)
    }

    /// A text whose middle is repeated, which the log shows only once.
    struct Long: Sendable, CustomTestStringConvertible {
        let count: Int
        var start = ""
        let middle: String
        var end = ""
        var closing = ""

        var text: String {
            start + String(repeating: middle, count: count) + String(repeating: closing, count: count) + end
        }
        var testDescription: String { "\(start)\(middle)\(closing)\(end), \(count) times" }
    }

    @Test(.timeLimit(.minutes(1))) func manyRowsAndSettingsAreCompared() {
        func table(_ value: Int) -> String {
            let rows = (0..<30_000).map { "s\($0): { domain: 'a', path: '\(value)' },\n" }.joined()
            let parameters = (0..<30_000).map { "p\($0): \(value)," }.joined()
            return Self.head + rows + "x: { parameters: { \(parameters) } } } }"
        }
        let difference = TableDifference(from: Array(table(1).utf8), to: Array(table(2).utf8))
        #expect(difference.rows.count == 30_001 && difference.rows.last?.values.count == 30_000)
    }

    @Test(.timeLimit(.minutes(1))) func secretHeadersWithoutAListAreReadOnce() {
        #expect(read(String(repeating: "secretHeaders", count: 40_000)).errors.count == 1)
    }

    @Test(arguments: [
        Long(count: 1 << 20, middle: "["), Long(count: 1 << 18, middle: "{a:"),
        Long(count: 5_000, middle: "{a:[", closing: "]}"),
    ])
    func deepNestingOfATableIsAnError(_ long: Long) {
        let errors = read(long.text).errors
        #expect(!errors.isEmpty && errors.allSatisfy { $0.message.utf8.count < 1_000 })
    }

    @Test(arguments: [
        Long(count: 1 << 20, start: "'", middle: "x", end: "'"),
        Long(count: 1 << 18, start: "'", middle: "\\x41", end: "'"),
        Long(count: 1 << 19, start: "'", middle: "\\\n", end: "'"),
        Long(count: 1 << 20, start: "// ", middle: "/", end: "\n'p'"),
        Long(count: 1 << 20, start: "/*", middle: "*", end: "*/'p'"), Long(count: 1 << 20, middle: " ", end: "'p'"),
        Long(count: 1 << 20, middle: "\n", end: "'p'"), Long(count: 1 << 20, middle: "9"),
    ])
    func longValueOfATableIsRead(_ value: Long) {
        let reading = read(
            "{ domains: { a: { baseURL: 'http://127.0.0.1:1' } }, "
                + "servers: { x: { domain: 'a', path: \(value.text) } } }")
        #expect(reading.file.servers.count <= 1 && reading.diagnostics.allSatisfy { $0.message.utf8.count < 1_000 })
    }

    @Test func onlyTheFirstUnknownDomainsGetAdvice() {
        let rows = (0..<100).map { "s\($0): { domain: \"aa\($0)a\", path: \"p\" }," }.joined()
        let table = "{ domains: { aaaaaa: { baseURL: \"http://127.0.0.1:1\" } }, servers: {" + rows + "} }"
        let errors = read(table).errors
        #expect(errors.count == 100)
        #expect(errors.filter { $0.message.contains("domains are") || $0.suggestion != nil }.count <= 20)
        #expect(errors.allSatisfy { $0.message.hasPrefix("unknown domain") })
    }

    @Test func diagnosticsBeyondTheLimitAreCounted() {
        let rows = (0..<1_500).map { "s\($0): { domain: \"a\", path: \"p\", oops: 1 },\n" }.joined()
        let reading = read(Self.head + rows + "} }")
        #expect(reading.diagnostics.count == TableReader.mostDiagnostics + 1)
        #expect(reading.diagnostics.last?.message == "500 more problems are not shown; correct the others first")
        #expect(reading.diagnostics.last?.severity == .error)
    }

    @Test func missingCommasAreCountedToTheLimit() {
        let rows = (0..<1_500).map { "s\($0): { domain: \"a\", path: \"p\" }\n" }.joined()
        #expect(read(Self.head + rows + "} }").errors.count == TableReader.mostDiagnostics)
    }

    @Test func tooManyHeadersAreAnError() {
        let fields = (0..<1_001).map { "\"X-\($0)\": \"v\"," }.joined()
        let table = "{ domains: { a: { baseURL: \"http://127.0.0.1:1\", headers: { " + fields + " } } } }"
        #expect(read(table).errors.map(\.message) == ["\"headers\" has 1001 members; at most 1000 are of use"])
    }

    /// The column in a long line is counted from a mark, and is that of a count from its start.
    @Test(arguments: ["x", "\u{e9}", "e\u{301}", "\u{1F469}\u{200D}\u{1F4BB}", "\t\u{4e2d}"])
    func columnOfALongLineIsExact(_ piece: String) {
        let line = String(repeating: piece + "ab", count: 3_000)
        let text = "first\r\n" + line + "\nlast \(piece)z"
        let source = SourceText(Array(text.utf8), name: "t")
        let start = "first\r\n".utf8.count
        var offset = start
        for (column, character) in line.enumerated() {
            if column % 97 == 0 {
                #expect(source.position(of: offset) == DomainTable.Position(file: "t", line: 2, column: column + 1))
            }
            offset += character.utf8.count
        }
        #expect(source.position(of: 0) == DomainTable.Position(file: "t", line: 1, column: 1))
        #expect(source.position(of: text.utf8.count - 1).line == 3)
        #expect(source.position(of: text.utf8.count - 1).column == "last \(piece)".count + 1)
    }

    @Test func excerptOfALongLineHidesPasswordsNearby() {
        let filler = String(repeating: "k: 1, ", count: 5_000)
        let text = "{ " + filler + "password: \"secret\", oops: 1, " + filler + " }"
        let source = SourceText(Array(text.utf8), name: "t")
        let offset = "{ \(filler)password: \"secret\", ".utf8.count
        let excerpt = SourceExcerpt.lines(of: source, at: offset..<offset + 4)
        #expect(excerpt[0].contains("password: \"******\", oops: 1"))
        #expect(excerpt[0].count < 300 && excerpt[1].hasSuffix(" ^~~~"))
    }

    @Test func adviceIsBoundedByLengthAndNumber() {
        let long = String(repeating: "a", count: NearestName.longestText + 1)
        #expect(NearestName.of(long + "b", among: [long]) == nil)
        let names = (0..<NearestName.mostNames).map { "n\($0)" } + ["request"]
        #expect(NearestName.of("reqeust", among: names) == nil)
        #expect(NearestName.distance(Array("abcdefgh"), Array("zyxwvuts"), atMost: 2) == 3)
        #expect(NearestName.distance(Array("abcdefgh"), Array("abdcefgh"), atMost: 1) == 1)
    }
}
