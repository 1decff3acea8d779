import Testing

@testable import DomainTables

/// The differences between two tables.
@Suite struct DifferenceTests {
    private func difference(_ old: String, _ new: String) -> TableDifference {
        TableDifference(from: Array(old.utf8), to: Array(new.utf8))
    }

    @Test func layoutCommentsAndSpellingsDoNotCount() {
        let difference = difference(
            """
            { defaults: { timeout: "60s" }, domains: { a: { baseURL: "http://h", retries: 2 }, b: { baseURL: "http://i" } } }
            """,
            """
            // another layout
            { "domains": { "b": { "baseURL": 'http://i' }, a: { retries: 0x2, baseURL: "http://h", }, },
              defaults: { timeout: "1m", }, }
            """)
        #expect(difference.isEmpty)
    }

    @Test func numbersAreComparedByTheirValues() {
        #expect(
            difference("{ servers: { s: { n: 1e4, m: 2.0 } } }", "{ servers: { s: { n: 10000, m: 0x2 } } }").isEmpty)
        #expect(!difference("{ servers: { s: { n: 1.5 } } }", "{ servers: { s: { n: 1.25 } } }").isEmpty)
    }

    @Test func rowsAreAddedRemovedAndChanged() throws {
        let difference = difference(
            "{ domains: { a: { baseURL: 'http://h', headers: { X: '1', Y: '2' } }, c: { baseURL: 'http://c' } } }",
            "{ domains: { b: { baseURL: 'http://b' }, a: { baseURL: 'http://h', headers: { X: '3' }, timeout: '5s' } } }"
        )
        #expect(difference.rows.map(\.name) == ["b", "a", "c"])
        #expect(difference.rows.map(\.change) == [.added, .changed, .removed])
        #expect(
            difference.rows[1].values == [
                .init(path: ["headers", "X"], old: "\"1\"", new: "\"3\""),
                .init(path: ["timeout"], old: nil, new: "\"5s\""),
                .init(path: ["headers", "Y"], old: "\"2\"", new: nil),
            ])
        #expect(difference.count(.added) == 1 && difference.count(.changed) == 1)
    }

    @Test(arguments: ["1234567890123456789", "0.123456789012345678", "9007199254740993.", "0xFFFFFFFFFFFFFF0"])
    func longNumbersAreComparedByAllDigits(_ digits: String) {
        func table(_ last: Int) -> String { "{ servers: { s: { parameters: { id: \(digits)\(last) } } } }" }
        #expect(difference(table(1), table(1)).isEmpty)
        #expect(!difference(table(1), table(2)).isEmpty)
    }

    @Test func productionIsCompared() {
        let rows = "domains: { a: { baseURL: 'http://h' } }"
        let removed = difference("{ production: true, \(rows) }", "{ \(rows) }")
        #expect(removed.rows.map(\.section) == ["table"] && removed.rows.map(\.change) == [.removed])
        #expect(removed.rows.first?.values == [.init(path: ["production"], old: "true", new: nil)])
        let changed = difference("{ production: true, \(rows) }", "{ production: ['live'], \(rows) }")
        #expect(changed.rows.first?.values == [.init(path: ["production"], old: "true", new: "[\"live\"]")])
        #expect(difference("{ $schema: 'a', production: true }", "{ production: true }").isEmpty)
    }

    @Test func secretMembersInArraysAreHidden() {
        func table(_ secret: String) -> String {
            "{ domains: { a: { parameters: { list: [{ token: '\(secret)', n: 1 }] } } } }"
        }
        let value = difference(table("one"), table("two")).rows.first?.values.first
        #expect(value?.old == "[{\"token\": ***, \"n\": 1}]" && value?.new == value?.old)
    }

    @Test func textAndNumberAreNotTheSame() {
        let difference = difference("{ servers: { s: { ttl: '5' } } }", "{ servers: { s: { ttl: 5 } } }")
        #expect(difference.rows.first?.values == [.init(path: ["ttl"], old: "\"5\"", new: "5")])
    }

    @Test func onlySettingsAreComparedAsDurations() {
        let equal = difference(
            "{ servers: { s: { ttl: 'sliding 60s', retry: { firstWait: '1s' }, circuit: { pause: '60s' } } } }",
            "{ servers: { s: { ttl: 'sliding 1m', retry: { firstWait: '1000ms' }, circuit: { pause: '1m' } } } }")
        #expect(equal.isEmpty)
        let changed = difference(
            "{ servers: { s: { headers: { timeout: '60s' }, parameters: { delay: '60s' }, ttl: 'sliding 60s' } } }",
            "{ servers: { s: { headers: { timeout: '1m' }, parameters: { delay: '1m' }, ttl: '60s' } } }")
        #expect(
            changed.rows.first?.values.map(\.path) == [["headers", "timeout"], ["parameters", "delay"], ["ttl"]])
    }

    @Test func secretParametersOfURLsAreHidden() {
        let texts = ["/a/{id}?token=SECRET&b=1", "http://u:SECRET@h/a?b=1&api_key=SECRET"].map(HTTPAddress.redacted)
        #expect(texts == ["/a/{id}?token=***&b=1", "http://u:***@h/a?b=1&api_key=***"])
    }

    @Test func passwordsOfURLsAreHidden() {
        let difference = difference(
            "{ domains: { a: { mirrors: ['http://u:one@h'] } } }", "{ domains: { a: { mirrors: ['http://u:two@h'] } } }"
        )
        let value = difference.rows.first?.values.first
        #expect(value?.old == "[\"http://u:***@h\"]" && value?.new == value?.old)
    }

    @Test func quotedTextIsCutAfterHidingPasswords() {
        let password = String(repeating: "p", count: 60)
        #expect(QuotedText.of("http://u:\(password)@h/") == "\"http://u:***@h/\"")
        let path = String(repeating: "x", count: 47)
        #expect(QuotedText.of("http://u:p@h/" + path) == "\"http://u:***@h/\(path.dropLast(2))…\"")
    }

    @Test func brokenTextCountsAsEmpty() {
        #expect(difference("{", "[]").isEmpty)
        #expect(difference("{", "{ domains: { a: {} } }").count(.added) == 1)
    }

    // MARK: Files that rows name

    private let naming = """
        { domains: { a: { baseURL: "https://h", tls: { caFile: "ca.pem" } }, b: { baseURL: "https://i",
          tls: { caFile: "/etc/ca.pem" } }, c: { baseURL: "https://j", simulation: { directory: "../x" } } } }
        """

    @Test func tableFromElsewhereNamesNoFile() {
        let reading = DomainTableFile.read(Array(naming.utf8), name: "t", files: .none)
        #expect(reading.errors.count == 3)
        #expect(
            reading.errors.first?.summary
                == "t:1:56: error: \"caFile\" names the file \"ca.pem\", which is not allowed in a table from a source"
                + "; leave it out, or name the folder of such files in the program: DomainTable(from: …, files:)")
        #expect(DomainTableFile.read(Array(naming.utf8), name: "t").errors.isEmpty)
    }

    @Test func tableFromElsewhereNamesNoSocketInAPath() {
        let text = """
            { domains: { d: { baseURL: "http://h" } }, servers: { s: { domain: "d", allowsAbsolute: true,
              path: "unix:///run/docker.sock:/containers/{id}" } } }
            """
        #expect(DomainTableFile.read(Array(text.utf8), name: "t").errors.isEmpty)
        for files in [AllowedFiles.none, .below] {
            let errors = DomainTableFile.read(Array(text.utf8), name: "t", files: files).errors
            #expect(errors.map(\.found) == ["\"/run/docker.sock\""], "\(errors)")
        }
    }

    @Test func filesBelowAFolderStayThere() {
        let reading = DomainTableFile.read(Array(naming.utf8), name: "t", files: .below)
        #expect(reading.errors.map(\.found) == ["\"/etc/ca.pem\"", "\"../x\""])
    }
}
