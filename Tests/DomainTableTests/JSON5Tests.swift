import DomainTables
import TestSupport
import Testing

@Suite("JSON5")
struct JSON5Tests {
    /// The tree as plain JSON text, so that it can be compared.
    private static func text(_ node: JSON5Node?) -> String {
        switch node?.value {
        case nil: "nothing"
        case .null: "null"
        case .bool(let flag): "\(flag)"
        case .number(let number): number.integer.map { "\($0)" } ?? "\(number.double)"
        case .string(let text): "'\(text)'"
        case .array(let elements): "[" + elements.map { Self.text($0) }.joined(separator: ",") + "]"
        case .object(let members):
            "{" + members.map { "\($0.key):\(Self.text($0.value))" }.joined(separator: ",") + "}"
        }
    }

    private func read(_ text: String) -> JSON5Document { JSON5Document(Array(text.utf8), name: "t") }

    @Test(arguments: [
        ("{}", "{}"), ("[]", "[]"), ("[1,2,]", "[1,2]"), ("{a:1,}", "{a:1}"), (" null ", "null"), ("true", "true"),
        ("{'a b':1,\"c\":2,$d_1:3,ünï:4,\\u0061b:5}", "{a b:1,c:2,$d_1:3,ünï:4,ab:5}"),
        ("{null:1,true:2,Infinity:3}", "{null:1,true:2,Infinity:3}"), ("{a:1,a:2}", "{a:1,a:2}"),
        ("// c\n[1,/* x */2]// end", "[1,2]"), ("/***/1", "1"), ("\u{FEFF}{\u{A0}a:\u{3000}1\u{2028}}", "{a:1}"),
        ("// c\u{2028}1", "1"), ("[0x1F,-0xff,+5,-0]", "[31,-255,5,0]"),
        ("[.5,5.,1e3,-1.5E-2,5.e1]", "[0.5,5.0,1000.0,-0.015,50.0]"),
        ("[.1234567890123456789,1234567890123456789.]", "[0.12345678901234568,1.2345678901234568e+18]"),
        ("[Infinity,-Infinity,+Infinity]", "[inf,-inf,inf]"), ("NaN", "nan"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9.223372036854776e+18"), ("0xFFFFFFFFFFFFFFFFFF", "4.722366482869645e+21"),
        ("'it''s'".replacing("''", with: "\\'"), "'it's'"), ("\"a\\\nb\\\r\nc\\\u{2029}d\"", "'abcd'"),
        ("'\\x41\\u0042\\t\\v\\0\\q\\ä'", "'AB\t\u{0B}\0qä'"), ("'\\uD83D\\uDE00'", "'😀'"),
        ("'\u{2028}'", "'\u{2028}'"),
        ("\"'\"", "'''"),
    ])
    func validDocumentsAreRead(_ text: String, _ expected: String) {
        let document = read(text)
        #expect(Self.text(document.root) == expected)
        #expect(document.diagnostics.isEmpty)
    }

    @Test(arguments: [
        "", "[", "{", "}", "[1", "{a", "{a:", "{a:1", "[,]", "{,}", "[1,,2]", "01", "1.2.3", "1e", "0x", "+", "--1",
        "1_000",
        "'", "'a", "'a\nb'", "'\\x4'", "'\\u12'", "'\\uDC00'", "'\\uD800x'", "'\\1'", "'\\00'", "tru", "nulll",
        "undefined",
        "{a-b:1}", "{1:1}", "{a 1}", "[1e999]", "[+-1]", "[.]", "[5.e]", "[0x+1]", "'\\", "/", "/*", "// only", "1 2",
        "[1 }", "{a:1]", "\\u0031", "`a`", "\u{2003}",
    ])
    func invalidDocumentsAreRejectedWithAPosition(_ text: String) {
        let document = read(text)
        #expect(!document.diagnostics.isEmpty)
        #expect(
            document.diagnostics.allSatisfy { $0.position.line >= 1 && !$0.message.isEmpty && $0.excerpt.count == 2 })
    }

    @Test func keysAndValuesHaveTheirPosition() throws {
        let text = "{\n  'a': [ 1,\n   \"é\", x ],\n}"
        let document = read("{\n  'a': [ 1,\n   \"é\", null ],\n}")
        guard case .object(let members)? = document.root?.value, case .array(let elements) = members[0].value.value
        else {
            Issue.record("no tree of \(text)")
            return
        }
        let position = { (range: Range<Int>) in document.source.position(of: range.lowerBound) }
        #expect(position(members[0].keyRange) == DomainTable.Position(file: "t", line: 2, column: 3))
        #expect(position(members[0].value.range) == DomainTable.Position(file: "t", line: 2, column: 8))
        #expect(position(elements[1].range) == DomainTable.Position(file: "t", line: 3, column: 4))
        #expect(position(elements[2].range) == DomainTable.Position(file: "t", line: 3, column: 9))
        #expect(document.source.text(elements[1].range) == "\"é\"")
    }

    @Test func invalidUTF8IsReportedAtItsPosition() {
        let document = JSON5Document(Array("{\n a: '".utf8) + [0xC3, 0x28] + Array("' }".utf8), name: "t")
        #expect(document.root == nil)
        #expect(document.diagnostics.map(\.summary) == ["t:2:6: error: byte 0xc3 is not UTF-8; save the file as UTF-8"])
    }

    @Test func deepNestingIsRejected() {
        let deep = { (depth: Int) in String(repeating: "[", count: depth) + String(repeating: "]", count: depth) }
        #expect(read(deep(64)).diagnostics.isEmpty)
        #expect(read(deep(65)).diagnostics[0].message == "more than 64 nested arrays and objects")
        #expect(read(String(repeating: "{a:", count: 1_000_000)).root == nil)
    }

    @Test func missingCommaDoesNotEndReading() {
        let document = read("{ a: 1 b: 2, c: [1 2] }")
        #expect(Self.text(document.root) == "{a:1,b:2,c:[1,2]}")
        #expect(document.diagnostics.map(\.message) == ["expected \",\" before \"b\"", "expected \",\" before \"2\""])
    }

    // MARK: Any input

    @Test(arguments: 0..<8)
    func readerSurvivesRandomInput(_ seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        let alphabet = Array("{}[]:,'\"/*\\\n\r\t 0129.eExX+-_$azuNI\u{2028}é😀".utf8)
        let example = Array(Samples.table.utf8)
        for round in 0..<400 {
            var bytes: [UInt8]
            switch round % 3 {
            case 0:
                bytes = (0..<Int.random(in: 0...60, using: &random)).map { _ in
                    UInt8.random(in: 0...255, using: &random)
                }
            case 1:
                bytes = (0..<Int.random(in: 0...80, using: &random)).map { _ in
                    alphabet[Int.random(in: 0..<alphabet.count, using: &random)]
                }
            default:
                bytes = example
                for _ in 0..<Int.random(in: 1...4, using: &random) {
                    let place = Int.random(in: 0..<bytes.count, using: &random)
                    switch Int.random(in: 0..<4, using: &random) {
                    case 0: bytes.remove(at: place)
                    case 1: bytes[place] = alphabet[Int.random(in: 0..<alphabet.count, using: &random)]
                    case 2: bytes.insert(UInt8.random(in: 0...255, using: &random), at: place)
                    default: bytes.removeSubrange(place..<min(place + 20, bytes.count))
                    }
                }
            }
            let reading = DomainTableFile.read(bytes, name: "t")
            for diagnostic in reading.diagnostics {
                #expect(diagnostic.position.line >= 1 && diagnostic.position.column >= 1)
                #expect(diagnostic.excerpt.count == 2)
            }
        }
    }

    @Test func truncatedTablesAreRejected() {
        let bytes = Array(Samples.table.utf8)
        for end in bytes.indices {
            let reading = DomainTableFile.read(Array(bytes[..<end]), name: "t")
            let isOnlyBlankMissing = bytes[end...].allSatisfy { $0 == 0x0A || $0 == 0x20 }
            #expect(reading.errors.isEmpty == isOnlyBlankMissing)
        }
    }
}

enum Samples {
    /// A table with every key.
    static let table = """
        {
          $schema: "./domains.schema.json",
          // for all
          defaults: { timeout: "60s", connectTimeout: "10s", maxConnectionsPerHost: 5, headers: { "User-Agent": "A/1", "X-A": "0" } },
          domains: {
            daxiang: {
              baseURL: "https://app.example.org/api?v=2",
              environments: { staging: "https://staging.example.org/api", dev: ["http://127.0.0.1:8080", "http://127.0.0.1:8081"] },
              mirrors: ["https://app2.example.org/api"],
              headers: { "X-App": "demo", "User-Agent": null, "X-Api-Token": "s3cret" },
              secretHeaders: ["X-Api-Token"],
              pins: ["sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="],
              envelope: {
                code: "result.code", message: "message", data: "datas", success: [10000, "OK"],
                messages: { "10001": "Token expired" },
              },
              timeout: "30s", idleTimeout: "1h30m", retries: 2, proxy: "socks5h://127.0.0.1:1080", redirects: 3,
              parameters: { channel: "linux", depth: 0x10 }, volatileParameters: ["nonce"],
            },
            other: { baseURL: "http://127.0.0.1:9090/", simulation: { directory: "Fixtures", delay: "200ms" } },
          },
          servers: {
            "user.detail": { domain: "daxiang", path: "/v1/users/{id}", method: "get", cache: "cacheElseNetwork", ttl: "sliding 5m" },
            "user.me": { domain: "daxiang", path: "v1/users/me?full=1", timeout: "250ms", headers: { "X-App": "me" }, envelope: null },
            elsewhere: { domain: "other", path: "https://cdn.example.org/{file}", allowsAbsolute: true, parameterEncoding: "form", simulation: null },
          },
        }

        """
}
