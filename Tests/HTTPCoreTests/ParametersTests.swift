import FoundationEssentials
import HTTPCore
import Testing

@Suite("Parameters")
struct ParametersTests {
    private func query(_ parameters: Parameters) throws -> String {
        try EncodedMembers(parameters: parameters).queryText
    }

    /// The query with unescaped brackets, for readability.
    private func readable(_ parameters: Parameters) throws -> String {
        var text = ""
        var rest = try query(parameters)[...]
        while let percent = rest.firstIndex(of: "%") {
            let escape = rest[percent...].prefix(3)
            text += rest[..<percent] + (escape == "%5B" ? "[" : escape == "%5D" ? "]" : escape)
            rest = rest[percent...].dropFirst(3)
        }
        return text + rest
    }

    private struct Filter: Encodable, Sendable {
        var year = 2025
        var author: String?
        var tags = ["b", "a"]
    }

    // MARK: To JSON

    @Test func nilIsLeftOutButJSONNullStays() throws {
        let none: Int? = nil
        let parameters: Parameters = [
            "q": "swift", "page": 2, "skip": nil, "keep": JSONValue.null, "boxed": none, "on": true, "ratio": 0.5,
            "filter": Filter(), "list": [1, 2], "mixed": ["a": 1, "b": "x"] as JSONValue,
        ]
        #expect(
            JSONValue.object(try EncodedMembers(parameters: parameters).object) == [
                "q": "swift", "page": 2, "keep": nil, "on": true, "ratio": 0.5,
                "filter": ["year": 2025, "tags": ["b", "a"]], "list": [1, 2], "mixed": ["a": 1, "b": "x"],
            ])
        #expect(try EncodedMembers(parameters: [:]).isEmpty)
    }

    private struct Stubborn: Encodable, Sendable {
        struct Refusal: Error {}
        func encode(to encoder: any Encoder) throws { throw Refusal() }
    }

    private struct Secretive: Encodable, Sendable {
        func encode(to encoder: any Encoder) throws {
            throw EncodingError.invalidValue(
                "hidden", .init(codingPath: encoder.codingPath, debugDescription: "bad"))
        }
    }

    @Test func errorsOfOwnTypesNameTheParameterOnly() throws {
        for name in ["odd", "b"] {
            let error = try #require(throws: EncodingError.self) {
                _ = try EncodedMembers(parameters: [name: Secretive()])
            }
            guard case .invalidValue(_, let context) = error else { throw error }
            #expect(context.debugDescription == "parameter \(name): bad")
            #expect(!"\(error)".contains("hidden"))
        }
    }

    @Test func errorsNameTheParameter() throws {
        let broken: [(Parameters, [String], String)] = [
            (["ok": 1, "price": Double.nan], ["price"], "parameter price: nan"),
            (["filter": ["prices": [1, .infinity]]], ["filter", "prices", "1"], "parameter filter.prices[1]: inf"),
            (["odd": Stubborn()], ["odd"], "parameter odd: Refusal"),
            (["odd": [Stubborn()]], ["odd"], "parameter odd: Refusal"),
        ]
        for (parameters, path, text) in broken {
            let error = try #require(throws: EncodingError.self) { _ = try EncodedMembers(parameters: parameters) }
            guard case .invalidValue(_, let context) = error else { throw error }
            #expect(context.codingPath.map(\.stringValue) == path)
            #expect(context.debugDescription.hasPrefix(text))
        }
    }

    // MARK: To a query

    @Test func namesAreSortedAtEveryLevel() throws {
        #expect(try readable(["b": 2, "a": 1, "C": 3]) == "C=3&a=1&b=2")
        #expect(
            try readable(["z": ["b": ["y": 1, "x": 2], "a": 0] as JSONValue, "f": Filter()])
                == "f[tags][]=b&f[tags][]=a&f[year]=2025&z[a]=0&z[b][x]=2&z[b][y]=1")
    }

    @Test func arraysRepeatTheirNameInOrder() throws {
        #expect(try readable(["k": [3, 1, 2]]) == "k[]=3&k[]=1&k[]=2")
        #expect(try readable(["k": [[1], [2, 3]]]) == "k[][]=1&k[][]=2&k[][]=3")
        #expect(try readable(["k": [["b": 1, "a": 2], ["a": 3]] as JSONValue]) == "k[][a]=2&k[][b]=1&k[][a]=3")
        #expect(try readable(["k": Set(["b", "a"])]) == "k[]=a&k[]=b")
    }

    @Test func nullIsANameWithoutValue() throws {
        #expect(try readable(["a": JSONValue.null, "b": ""]) == "a&b=")
        #expect(try readable(["a": [nil, 1] as JSONValue, "b": ["c": nil] as JSONValue]) == "a[]&a[]=1&b[c]")
    }

    @Test func emptyCollectionsAreLeftOut() throws {
        #expect(try readable(["a": [Int](), "b": [String: Int](), "c": 1, "d": [[], [:]] as JSONValue]) == "c=1")
        #expect(try readable([:]).isEmpty)
    }

    @Test func scalarsBecomeTheirShortestText() throws {
        #expect(try query(["a": true, "b": false]) == "a=true&b=false")
        #expect(try query(["a": 1.0, "b": 0.1, "c": -5, "d": 1e22]) == "a=1&b=0.1&c=-5&d=1e22")
        #expect(try query(["a": UInt64.max]) == "a=18446744073709551615")
        #expect(try query(["at": Date(timeIntervalSince1970: 0)]) == "at=1970-01-01T00%3A00%3A00Z")
    }

    @Test func everythingButUnreservedIsEscaped() throws {
        #expect(try query(["q": "a b+c&d=e/f?g#h[i]%20~-._"]) == "q=a%20b%2Bc%26d%3De%2Ff%3Fg%23h%5Bi%5D%2520~-._")
        #expect(try query(["é&[x]": "雪\r\n"]) == "%C3%A9%26%5Bx%5D=%E9%9B%AA%0D%0A")
        #expect(try query(["k": ["s=": [1]]]) == "k%5Bs%3D%5D%5B%5D=1")
    }

    @Test func emptyNameIsDistinctFromItsMembers() throws {
        #expect(try readable(["": 1]) == "=1")
        #expect(try readable(["": ["a": 1]]) == "[a]=1")
    }

    @Test func formBodyEqualsTheQuery() throws {
        let members = try EncodedMembers(parameters: ["a": "b c", "d": [1]])
        #expect(members.queryText == "a=b%20c&d%5B%5D=1")
        #expect(EncodedMembers().queryText.isEmpty)
    }

    // MARK: Into a URL

    @Test(arguments: [
        ("http://h/p", "http://h/p?a=1"),
        ("http://h/p?", "http://h/p?a=1"),
        ("http://h/p?b=2", "http://h/p?b=2&a=1"),
        ("http://h/p?b=2&", "http://h/p?b=2&a=1"),
        ("http://h/p#f", "http://h/p?a=1#f"),
        ("http://h/p?b=2#f?g&", "http://h/p?b=2&a=1#f?g&"),
        ("http://h/p?#f", "http://h/p?a=1#f"),
        ("http://h/p#f?", "http://h/p?a=1#f?"),
        ("http://h", "http://h?a=1"),
        ("http://h/p?b=é\u{301}", "http://h/p?b=é\u{301}&a=1"),
        ("http://h/p?\u{301}", "http://h/p?\u{301}&a=1"),
        ("", "?a=1"),
    ])
    func queryIsAddedBeforeTheFragment(_ url: String, _ expected: String) {
        let result = ParameterEncoder.appending(query: "a=1", to: url)
        #expect(Array(result.utf8) == Array(expected.utf8))
        #expect(ParameterEncoder.appending(query: "", to: url) == url)
    }
}
