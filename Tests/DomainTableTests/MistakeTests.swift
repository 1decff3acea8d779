import DomainTables
import LATNetworking
import Testing

/// A table with a mistake, and the expected diagnostics.
struct Mistake: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let table: String
    let messages: [String]

    init(_ name: String, _ table: String, _ messages: [String]) {
        testDescription = name
        self.table = table
        self.messages = messages
    }
}

@Suite("Mistakes in a table")
struct MistakeTests {
    @Test(arguments: Mistake.ofTheFileAndItsAddresses + Mistake.ofSettingsAndServers + Mistake.ofPolicies)
    func mistakesAreReportedWithPositionAndAdvice(_ mistake: Mistake) {
        let reading = DomainTableFile.read(Array(mistake.table.utf8), name: "Config/domains.json5")
        #expect(reading.diagnostics.map(\.summary) == mistake.messages.map { "Config/domains.json5:" + $0 })
    }

    @Test func errorIsTheFirstMistakeAndCarriesAll() throws {
        let text = "{\n  domains: {\n    a: { basURL: 1, timeout: 5 },\n    b: { baseURL: \"x\" },\n  },\n}"
        let error = try #require(throws: NetworkError.self) {
            try DomainTable(json5: text, name: "Config/domains.json5", environment: nil)
        }
        #expect(error.kind == .invalidRequest)
        #expect(
            error.message == """
                Config/domains.json5:3:10: error: unknown key "basURL"; did you mean "baseURL"? \
                (and 2 more problems; lat domains check Config/domains.json5 shows all)
                """)
        let all = try #require(error.underlying as? DomainTableError)
        #expect(all.diagnostics.count == 3)
        #expect(all.diagnostics[0].suggestion == "baseURL")
        #expect(all.diagnostics[1].expected == DurationText.expectation)
        #expect(all.diagnostics[1].found == "the number 5")
        #expect(all.diagnostics.map(\.position.line) == [3, 3, 4])
    }

    @Test func tableWithAWarningStillWorks() throws {
        let text =
            "{ domains: { a: { baseURL: \"http://h\" } }, servers: { s: { domain: \"a\", path: \"\", method: \"PSOT\" } } }"
        let table = try DomainTable(json5: text, environment: nil)
        #expect(table.warnings.map(\.suggestion) == ["POST"])
        #expect(try table.resolve(server: "s").method == "PSOT")
    }
}

@Suite("Excerpts of a table")
struct ExcerptTests {
    private func excerpt(_ text: String) -> [String] {
        DomainTableFile.read(Array(text.utf8), name: "t").diagnostics.first?.excerpt ?? []
    }

    @Test func diagnosticShowsLineAndCaret() {
        let text = "{\n  domains: {\n    demo: {\n      basURL: \"https://app.example.org\",\n    },\n  },\n}"
        let description = DomainTableFile.read(Array(text.utf8), name: "Config/domains.json5").diagnostics[0]
            .description
        #expect(
            description == """
                Config/domains.json5:4:7: error: unknown key "basURL"; did you mean "baseURL"?
                      basURL: "https://app.example.org",
                      ^~~~~~
                """)
    }

    @Test func tabsAreRepeatedUnderTabs() {
        #expect(excerpt("{\n\tdomains: {},\n\tx:\t1 }") == ["\tx:\t1 }", "\t^"])
        #expect(excerpt("{\n\tdomains:\t5 }") == ["\tdomains:\t5 }", "\t        \t^"])
    }

    @Test func wideCharactersTakeTwoExcerptColumns() {
        let text = "{ domains: { \"大象\": { baseURL: \"http://h\", x: 1 } } }"
        let diagnostic = DomainTableFile.read(Array(text.utf8), name: "t").diagnostics[0]
        #expect(diagnostic.position.column == 43)
        #expect(diagnostic.excerpt[1] == String(repeating: " ", count: 44) + "^")
    }

    @Test func combiningMarksTakeNoColumn() {
        let diagnostic = DomainTableFile.read(Array("{ domains: { \"e\u{301}\": 5 } }".utf8), name: "t").diagnostics[0]
        #expect(diagnostic.position.column == 19)
        #expect(diagnostic.excerpt[1] == String(repeating: " ", count: 18) + "^")
    }

    @Test func longLinesAreCutAroundThePosition() {
        let filler = String(repeating: "/* filler */ ", count: 100)
        let lines = excerpt("{ \(filler) domains: 5 \(filler) }")
        #expect(lines[0].count < 200)
        let caret = lines[1].count - 1
        #expect(Array(lines[0])[caret] == "5")
    }

    @Test func passwordsAreNotShown() {
        let text = "{ domains: { a: { baseURL: \"ftp://ada:secret@h.example\" } } }"
        let diagnostic = DomainTableFile.read(Array(text.utf8), name: "t").diagnostics[0]
        #expect(!diagnostic.description.contains("secret"))
        #expect(diagnostic.excerpt[0].contains("ada:******@h.example"))
    }

    @Test func passwordsOfCertificatesAreNotShown() {
        let members = [
            #"password: "sec\"ret", x: 1"#, #""password" : 'secret', x: 1"#, #"password: /* it's */ "secret", x: 1"#,
            "password: // a comment\n  \"secret\", x: 1",
        ]
        for text in members {
            let table = "{ domains: { a: { baseURL: \"http://h\", tls: { clientCertificate: { \(text) } } } } }"
            let lines = DomainTableFile.read(Array(table.utf8), name: "t").diagnostics.map { $0.excerpt[0] }
            #expect(!lines.isEmpty && !lines.contains { $0.contains("ret") }, "\(lines)")
            #expect(lines.contains { $0.contains("******") }, "\(lines)")
        }
    }

    @Test func controlCharactersAreNotShown() {
        let lines = excerpt("{ domains: 5, \"\u{1B}[31m\": 1 }")
        #expect(!lines.joined().contains("\u{1B}"))
    }

    @Test func everyLineEndStartsANewLine() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["{", "  domains: {},", "  x: 1", "}"].joined(separator: end)
            let diagnostic = DomainTableFile.read(Array(text.utf8), name: "t").diagnostics[0]
            #expect(diagnostic.position == DomainTable.Position(file: "t", line: 3, column: 3))
            #expect(diagnostic.excerpt == ["  x: 1", "  ^"])
        }
    }
}
