import DomainTables
import FoundationEssentials
import LATNetworking
import TestSupport
import Testing

@Suite("Mistakes in a table")
struct MistakeTests {
    /// Tables with a mistake, `NAME.json5`, and beside each its diagnostics as `line:column: severity: message`,
    /// `NAME.expected`.
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Mistakes")

    static let names = ((try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? [])
        .filter { $0.hasSuffix(".json5") }.map { String($0.dropLast(".json5".count)) }.sorted()

    private static func text(_ file: String) throws -> String {
        String(decoding: try Data(contentsOf: folder.appending(path: file)), as: UTF8.self)
    }

    @Test func corpusIsThere() { #expect(Self.names.count > 150) }

    @Test(arguments: names)
    func mistakesAreReportedWithPositionAndAdvice(_ name: String) throws {
        let table = try Self.text("\(name).json5")
        let expected = try Self.text("\(name).expected").split(separator: "\n").map { "Config/domains.json5:\($0)" }
        let reading = DomainTableFile.read(Array(table.utf8), name: "Config/domains.json5")
        #expect(reading.diagnostics.map(\.summary) == expected)
    }

    /// 1,500 tables that are damaged at random, from those of the corpus and the table of this repository.
    @Test func damagedTablesAreReadOrRefusedWithTheirPlace() throws {
        let root = URL(filePath: #filePath).appending(path: "../../..").standardizedFileURL
        let own = Array(try Data(contentsOf: root.appending(path: "Config/domains.json5")))
        let seeds = try [own] + Self.names.map { Array(try Self.text("\($0).json5").utf8) }
        let seed = UInt64.random(in: 0...UInt64.max)
        print("damaged tables: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for _ in 0..<1_500 {
            var table = Bool.random(using: &random) ? own : seeds.randomElement(using: &random) ?? own
            for _ in 0..<Int.random(in: 1...4, using: &random) { Self.damage(&table, &random) }
            let lines = table.count { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") } + 1
            for diagnostic in DomainTableFile.read(table, name: "t").diagnostics {
                let place = diagnostic.position
                let isInside = (1...lines).contains(place.line) && place.column >= 1
                let isOneLine = !diagnostic.message.isEmpty && !diagnostic.summary.contains(where: \.isNewline)
                #expect(isInside && isOneLine, "\(diagnostic.summary)\n\(String(decoding: table, as: UTF8.self))")
            }
            // What is read without an error can be used.
            guard let table = try? DomainTable(json5: String(decoding: table, as: UTF8.self), environment: nil) else {
                continue
            }
            for name in table.serverNames { _ = try? table.resolve(server: name) }
        }
    }

    private static func damage(_ table: inout [UInt8], _ random: inout SeededGenerator) {
        guard !table.isEmpty else { return table = [UInt8(ascii: "{")] }
        let index = Int.random(in: 0..<table.count, using: &random)
        let end = min(table.count, index + Int.random(in: 1...30, using: &random))
        switch Int.random(in: 0..<6, using: &random) {
        case 0: table.remove(at: index)
        case 1: table.insert(Array("{}[]:,\"'/*\\\n\0é".utf8).randomElement(using: &random) ?? 0, at: index)
        case 2: table[index] = .random(in: 0...255, using: &random)
        case 3: table.removeSubrange(index..<end)
        case 4: table.insert(contentsOf: table[index..<end], at: Int.random(in: 0...table.count, using: &random))
        default: table.removeSubrange(index...)
        }
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
        #expect(!"\(diagnostic) \(diagnostic.suggestion ?? "")".contains("secret"))
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

    @Test(arguments: [
        "headers: { Authorization: \"Bearer SECRET\n\" }", #"headers: { "X-Zoo": 'SECRET' }, oops: 1"#,
        #"headers: { cookie: ["a=SECRET", /* "b" */ 'c=SECRET'] }"#,
        #"oauth2: { secret: "SECRET" }"#, #"parameters: { api_key: "SECRET", key: "SECRET" }, oops: 1"#,
        #"baseURL: "http://h/a?b=1&access%5Ftoken=SECRET&c=2", oops: 1"#, #"baseURL: "http://h/{a}?token=SECRET""#,
        // Mistakes in the line of the secret itself.
        "headers: { Authorization: Bearer SECRET }", #"headers: { Authorization = "Bearer SECRET" }"#,
        #"headers: { Authorization "Bearer SECRET" }"#, #"headers: { Authorization: "Bearer " "SECRET" }"#,
        #"headers: { Authorization: "Bearer " + "SECRET" }"#, "headers: { Authorization: `Bearer SECRET` }",
        #"headers: { Authorization: { value: "SECRET" } }"#, #"headers: { "Authorization ": "SECRET" }"#,
        #"headers: { 'X-Zoo' "SECRET" }"#, #"proxy: "u:SECRET@h:1""#, #"baseURL: "u:SECRET@h""#,
        #"baseURL: "http://u:a/SECRET@h/""#, #"baseURL: "http:/u:SECRET@h/""#, #"baseURL: "http://u:SEC SECRET@h/""#,
    ]) func secretsOfRowsAreNotShown(_ text: String) {
        let table = "{ domains: { d: { secretHeaders: ['X-Zoo'], timeout: \"1s\",\n \(text) } } }"
        let diagnostics = DomainTableFile.read(Array(table.utf8), name: "t").diagnostics
        #expect(!diagnostics.isEmpty && !diagnostics.contains { $0.description.contains("SECRET") }, "\(diagnostics)")
        #expect(diagnostics.contains { $0.excerpt[0].contains("******") }, "\(diagnostics)")
    }

    @Test(arguments: ["Authorization", "x-zoo"]) func numberOfASecretHeaderIsNotShown(_ name: String) {
        let table =
            "{ domains: { d: { baseURL: 'http://h', secretHeaders: ['X-Zoo'], headers: { '\(name)': 5551212 } } } }"
        let diagnostics = DomainTableFile.read(Array(table.utf8), name: "t").diagnostics
        #expect(diagnostics.count == 1 && !"\(diagnostics)".contains("5551212"), "\(diagnostics)")
        #expect(diagnostics[0].message.hasSuffix("put the number in quotes"))
    }

    @Test(arguments: [
        " secretHeaders: [\"A\", \"Cookie\"], oops: 1", " path: \"v1/token\", oops: 1",
        " a: \"the password, x\", oops: 1",
        " headers: { Cookie: null, \"X-A\": \"b\" }, oops: 1", " mirrors: [\"https://h:1/a\"], oops: 1",
    ]) func wordsOfSecretsHideNothingElse(_ line: String) {
        #expect(excerpt("{ domains: { d: { baseURL: \"http://h\",\n\(line) } } }")[0].contains("oops: 1"), "\(line)")
    }

    @Test func otherValuesAreShown() {
        let line = " keys: [1], tokens: \"a?b=1\", codes: { \"x\": \"y\" }, \"secretHeaders\": [\"X-Zoo\"], oops: 1"
        #expect(excerpt("{ domains: { d: { baseURL: \"http://h\",\n\(line) } } }")[0].hasPrefix(line))
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
