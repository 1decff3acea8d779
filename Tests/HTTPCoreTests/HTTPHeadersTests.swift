import HTTPCore
import Testing

@Suite("HTTPHeaders")
struct HTTPHeadersTests {
    private func lines(_ headers: HTTPHeaders) -> [String] { headers.map { "\($0.name): \($0.value)" } }

    /// The lines and the removals, which are shown as `name: -`.
    private func fields(_ headers: HTTPHeaders) -> [String] { headers.fields.map { "\($0.name): \($0.value ?? "-")" } }

    private func wire(_ text: String) -> HTTPHeaders { HTTPHeaders(wireHead: Array(text.utf8)) }

    @Test func literalKeepsOrderRepeatsAndSpelling() {
        let headers: HTTPHeaders = ["B": "1", "a": "2", "b": "3"]
        #expect(lines(headers) == ["B: 1", "a: 2", "b: 3"])
        #expect(headers.count == 3)
        #expect(headers.description == "B: 1\na: 2\nb: 3")
    }

    @Test func lookUpIgnoresASCIICaseOnly() {
        let headers: HTTPHeaders = ["Content-Type": "a/b", "É": "x"]
        #expect(headers["content-TYPE"] == "a/b")
        #expect(headers["é"] == nil)
        #expect(headers.contains("CONTENT-type"))
        #expect(!headers.contains("Content"))
        // Characters next to the letters in ASCII that differ in the same bit as upper and lower case.
        #expect((["[": "x"] as HTTPHeaders)["{"] == nil)
    }

    @Test func lookUpReturnsFirstOrAllValues() {
        let headers: HTTPHeaders = ["Set-Cookie": "a=1, b", "X": "y", "set-cookie": "c=2"]
        #expect(headers["Set-Cookie"] == "a=1, b")
        #expect(headers[values: "SET-COOKIE"] == ["a=1, b", "c=2"])
        #expect(headers[values: "Absent"] == [])
    }

    @Test func settingReplacesEveryLineAtTheFirst() {
        var headers: HTTPHeaders = ["A": "1", "B": "2", "a": "3", "C": "4", "A": "5"]
        headers["a"] = "new"
        #expect(lines(headers) == ["a: new", "B: 2", "C: 4"])
        headers["D"] = "added"
        #expect(lines(headers) == ["a: new", "B: 2", "C: 4", "D: added"])
    }

    @Test func nilInALiteralIsARemoval() {
        let headers: HTTPHeaders = ["User-Agent": nil, "Accept": "x/y"]
        #expect(headers["User-Agent"] == nil)
        #expect(!headers.contains("User-Agent"))
        #expect(lines(headers) == ["Accept: x/y"])
        #expect(headers.count == 1)
        #expect(headers.fields.map(\.name) == ["User-Agent", "Accept"])

        let onlyRemoval: HTTPHeaders = ["User-Agent": nil]
        #expect(onlyRemoval.isEmpty)
        #expect(!onlyRemoval.hasNoFields)
        #expect(HTTPHeaders().hasNoFields)
    }

    @Test func settingNilLeavesARemoval() {
        var headers: HTTPHeaders = ["A": "1", "a": "2"]
        headers["A"] = nil
        #expect(headers.isEmpty)
        #expect(fields(headers) == ["A: -"])
        headers["A"] = "back"
        #expect(lines(headers) == ["A: back"])
    }

    @Test func appendAddsALineAndDropsARemoval() {
        var headers: HTTPHeaders = ["Accept": nil]
        headers.append("accept", "a")
        headers.append("Accept", "b")
        #expect(headers[values: "Accept"] == ["a", "b"])
        #expect(headers.fields.count == 2)
    }

    @Test func mergeReplacesByNameAndNilRemoves() {
        let base: HTTPHeaders = ["A": "1", "B": "1", "b": "2", "C": "1"]
        let merged = base.merging(["b": "3", "B": "4", "c": nil, "D": "5"])
        #expect(lines(merged) == ["A: 1", "b: 3", "B: 4", "D: 5"])
        #expect(fields(merged).last(where: { $0.hasSuffix("-") }) == "c: -")
        // A later merge restores a field that an earlier one removed.
        #expect(merged.merging(["C": "6"])["c"] == "6")
    }

    @Test func mergeWithNothingChangesNothing() {
        let headers: HTTPHeaders = ["A": "1"]
        #expect(headers.merging([:]) == headers)
        #expect(HTTPHeaders().merging(headers) == headers)
        #expect(fields(HTTPHeaders().merging(["A": nil])) == ["A: -"])
    }

    @Test func headersAreMadeFromDictionariesAndPairs() {
        #expect(lines(HTTPHeaders(["b": "2", "a": "1", "c": nil] as [String: String?])) == ["a: 1", "b: 2"])
        #expect(lines(HTTPHeaders([("x", "1"), ("X", "2")])) == ["x: 1", "X: 2"])
    }

    @Test func equalityIgnoresOnlyTheCaseOfNames() {
        let headers: HTTPHeaders = ["Accept": "a", "X": nil]
        let same: HTTPHeaders = ["ACCEPT": "a", "x": nil]
        #expect(headers == same)
        #expect(headers.hashValue == same.hashValue)
        #expect(headers != ["Accept": "A", "X": nil])
        #expect(headers != ["Accept": "a"])
        #expect((["A": "1", "B": "2"] as HTTPHeaders) != ["B": "2", "A": "1"])
        #expect(wire("HTTP/1.1 200 OK\r\nA: 1\r\n\r\n") == ["a": "1"])
    }

    // MARK: A received head

    @Test func wireHeadKeepsOrderWithoutStatusLine() {
        let headers = wire("HTTP/1.1 200 OK: fine\r\nB: 1\r\nSet-Cookie: a\r\nset-cookie: b\r\nA:2\r\n\r\n")
        #expect(lines(headers) == ["B: 1", "Set-Cookie: a", "set-cookie: b", "A: 2"])
        #expect(headers.count == 4)
        #expect(headers["SET-COOKIE"] == "a")
        #expect(headers[values: "Set-Cookie"] == ["a", "b"])
        #expect(headers["HTTP/1.1 200 OK"] == nil)
        #expect(!headers.hasNoFields)
    }

    @Test func wireHeadMayOmitReturnsAndTheLastLineEnd() {
        #expect(lines(wire("HTTP/1.0 200\nA: 1\nB: 2")) == ["A: 1", "B: 2"])
        #expect(lines(wire("HTTP/2 200 \r\nA: 1\nB: 2\r\n")) == ["A: 1", "B: 2"])
        #expect(lines(wire("A: without a status line\r\n")) == ["A: without a status line"])
    }

    @Test(arguments: ["", "\r\n", "\n\n\n", "HTTP/1.1 200 OK", "HTTP/1.1 204 No Content\r\n\r\n"])
    func wireHeadWithoutFieldsIsEmpty(_ text: String) {
        #expect(wire(text).isEmpty)
        #expect(wire(text).hasNoFields)
        #expect(wire(text)["A"] == nil)
    }

    @Test func wireLinesWithoutAFieldAreSkipped() {
        let headers = wire("HTTP/1.1 200 OK\r\nno colon\r\n: no name\r\n:\r\n\r\nA:\r\nB:   \r\nC: a:b: c\r\n")
        #expect(lines(headers) == ["A: ", "B: ", "C: a:b: c"])
        #expect(headers["A"] == "")
    }

    @Test func whiteSpaceAroundNameAndValueIsTrimmed() {
        let headers = wire("HTTP/1.1 200 OK\r\nA:\t 1 2 \t\r\nB : 3\r\nC\t:4\r\n")
        #expect(lines(headers) == ["A: 1 2", "B: 3", "C: 4"])
        #expect(headers["b"] == "3")
    }

    @Test func foldedLinesBecomeOneValue() {
        let headers = wire("HTTP/1.1 200 OK\r\nA: 1\r\n  2\r\n\t\r\n\tX: 3 \r\nB: 4\n 5\r\nC:\r\n 6\r\n\r\n")
        #expect(lines(headers) == ["A: 1 2 X: 3", "B: 4 5", "C: 6"])
        #expect(headers["X"] == nil)
        #expect(lines(wire("HTTP/1.1 200 OK\r\nno field\r\n folded: 1\r\nA: 2\r\n")) == ["A: 2"])
        #expect(lines(wire(" A: 1\r\nB: 2")) == ["B: 2"])
    }

    /// A look-up passes over most lines without reading them.
    @Test func lookUpsAgreeWithTheListOfLines() {
        let pieces = [
            "HTTP/1.1 200 OK", "A", "a", "AB", "ab", "B", ":", ": ", " :", " ", "\t", "1", "\r\n", "\r\n", "\n", "\n",
            "\r", "é",
        ]
        var random = SplitMix64(state: 1)
        for _ in 0..<2_000 {
            let text = (0..<24).map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
            let headers = wire(text)
            for name in ["A", "ab", "b", "HTTP/1.1", "1", ":", ""] {
                let values = headers.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
                #expect(headers[values: name] == values, "\(text.debugDescription) \(name)")
                #expect(headers[name] == values.first)
            }
        }
    }

    @Test func valuesAreUTF8ElseLatin1() {
        let utf8 = wire("HTTP/1.1 200 OK\r\nA: é – 雪\r\n")
        #expect(utf8["A"] == "é – 雪")
        let latin1 = HTTPHeaders(wireHead: Array([UInt8]("A: caf".utf8) + [0xE9, 0x20, 0xFF] + "\r\nB: 1".utf8))
        #expect(latin1["A"] == "café ÿ")
        #expect(latin1["B"] == "1")
    }

    @Test func wireHeadCanBeChanged() {
        var headers = wire("HTTP/1.1 200 OK\r\nA: 1\r\na: 2\r\nB: 3\r\n")
        headers["A"] = nil
        headers.append("C", "4")
        #expect(lines(headers) == ["B: 3", "C: 4"])
        #expect(lines(headers.merging(wire("HTTP/1.1 200 OK\r\nb: 5\r\n"))) == ["C: 4", "b: 5"])
    }

    /// Some servers, and attackers, send very many lines.
    @Test(.timeLimit(.minutes(1))) func manyLinesAreMergedAndReplaced() {
        let many = (0..<100_000).map { HTTPHeaders.Field(name: "x-\($0)", value: "1") }
        var headers = HTTPHeaders([HTTPHeaders.Field(name: "A", value: "1")] + many)
        headers.merge(HTTPHeaders(many.map { HTTPHeaders.Field(name: $0.name.uppercased(), value: "2") }))
        #expect(headers.count == 100_001 && headers["a"] == "1" && headers["x-99999"] == "2")
        var repeated = HTTPHeaders(
            (0..<300_000).map { HTTPHeaders.Field(name: $0 % 2 == 0 ? "A" : "B", value: "\($0)") })
        repeated["a"] = "x"
        #expect(repeated.count == 150_001 && repeated[values: "A"] == ["x"])
    }
}
