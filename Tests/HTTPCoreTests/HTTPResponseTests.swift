import FoundationEssentials
import Testing

@testable import HTTPCore

@Suite struct HTTPResponseTests {
    private struct Thing: Decodable, Equatable {
        struct Inner: Decodable, Equatable { let values: [Int] }
        let name: String
        let inner: Inner?
    }

    private func response(_ text: String, headers: HTTPHeaders = [:], status: Int = 200) -> HTTPResponse {
        HTTPResponse(status: status, headers: headers, body: ResponseBody(Data(text.utf8)), url: "http://h/")
    }

    @Test func changesDoNotReachCopies() {
        let original = HTTPResponse(status: 200, trailers: ["X": "1"], url: "http://a/")
        var copy = original
        copy.trailers = ["X": "2"]
        copy.attempts = 3
        var second = copy
        second.redirects = [.init(url: "http://b/", status: 301)]
        #expect(original.trailers["x"] == "1" && original.attempts == 1 && original.redirects.isEmpty)
        #expect(copy.trailers["x"] == "2" && copy.attempts == 3 && copy.redirects.isEmpty)
        #expect(second.trailers["x"] == "2" && second.attempts == 3 && second.redirects.count == 1)
    }

    @Test func decodingErrorShowsNoMoreOfABodyThanALine() {
        enum Word: String, Decodable { case known }
        let long = String(repeating: "x", count: 100_000)
        for text in [#"{"a\u001b[2J\nb": "word"}"#, #"{"a": "\u001b[2J\nb"}"#, #"{"\#(long)": "\#(long)"}"#] {
            let error = #expect(throws: NetworkError.self) { try response(text).decode([String: Word].self) }
            let shown = "\(error?.kind ?? .other) \(error?.message ?? "")"
            #expect(shown.unicodeScalars.allSatisfy { !$0.controlsTerminal } && shown.count < 2_000)
        }
    }

    @Test(arguments: [
        (#"{"inner": null}"#, "name"), (#"{"name": 1}"#, "name"), (#"{"name": null}"#, "name"),
        (#"{"name": "n", "inner": {}}"#, "inner.values"),
        (#"{"name": "n", "inner": {"values": [1, "x"]}}"#, "inner.values[1]"), ("[]", ""), ("", ""), ("{", ""),
    ])
    func decodingErrorHasThePath(_ text: String, _ path: String) {
        let error = #expect(throws: NetworkError.self) { try response(text).decode(Thing.self) }
        #expect(error?.kind == .decoding(path: path))
        #expect(error?.response?.text == text)
        #expect(error?.underlying is DecodingError)
        if !path.isEmpty { #expect(error?.message.contains(path) == true) }
    }

    @Test func withoutContentOptionalIsNilAndEmptyIsDecoded() throws {
        for nothing in [response("", status: 204), response(" \r\n"), response("{}", status: 304)] {
            #expect(try nothing.decode(Thing?.self) == nil)
            #expect(try nothing.decode(Empty.self) == Empty())
            #expect(try nothing.decode(JSONValue.self) == .null)
            #expect(try nothing.decode(Thing?.self, decoder: JSONDecoder()) == nil)
            let error = #expect(throws: NetworkError.self) { try nothing.decode(Thing.self) }
            #expect(error?.kind == .decoding(path: ""))
            #expect(error?.message.hasSuffix("make the model optional, or Empty") == true)
        }
        #expect(try response("hello").decode(Empty.self) == Empty())
        #expect(throws: NetworkError.self) { try response("hello").decode(Thing?.self) }
    }

    @Test func nullIsNamedInPlainWords() {
        let nulls = [
            ("null", "expected an object, found null"),
            (#"{"name": "n", "inner": {"values": null}}"#, "expected an array, found null"),
        ]
        for (text, words) in nulls {
            let error = #expect(throws: NetworkError.self) { try response(text).decode(Thing.self) }
            #expect(error?.message.hasSuffix(words) == true, "\(error?.message ?? "")")
        }
    }

    @Test func typeIsInferredAndDecoderCanBeGiven() throws {
        let thing: Thing = try response(#"{"name": "n"}"#).decode()
        #expect(thing == Thing(name: "n", inner: nil))
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        struct Snake: Decodable { let firstName: String }
        #expect(try response(#"{"first_name": "A"}"#).decode(Snake.self, decoder: decoder).firstName == "A")
    }

    @Test func byteOrderMarkIsSkipped() throws {
        let bytes = Data([0xEF, 0xBB, 0xBF]) + Data(#"{"name": "n"}"#.utf8)
        let response = HTTPResponse(status: 200, body: ResponseBody(bytes), url: "")
        #expect(try response.json()["name"].string == "n")
        #expect(try response.decode(Thing.self).name == "n")
        #expect(response.text == #"{"name": "n"}"#)
    }

    @Test func onlyStatuses2xxAreSuccesses() {
        for (status, isSuccess) in [(199, false), (200, true), (299, true), (300, false), (304, false), (0, false)] {
            #expect(response("", status: status).isSuccess == isSuccess)
        }
    }

    @Test func collectedBodyCanBeReadRepeatedly() async throws {
        let response = response("one\ntwo")
        #expect(!response.body.isStream)
        for _ in 0..<2 {
            var lines: [String] = []
            for try await line in response.body.lines { lines.append(line) }
            #expect(lines == ["one", "two"])
            var chunks: [Data] = []
            for try await chunk in response.body { chunks.append(chunk) }
            #expect(chunks == [Data("one\ntwo".utf8)])
        }
        #expect(try await response.body.collect(upTo: 7) == response.data)
        let error = await #expect(throws: NetworkError.self) { try await response.body.collect(upTo: 6) }
        #expect(error?.kind == .bodyTooLarge)
        for try await _ in ResponseBody.empty { Issue.record("an empty body has a chunk") }
    }

    private final class Chunks: ResponseBody.Source {
        nonisolated(unsafe) private var left: [Data]
        init(_ chunks: [String]) { left = chunks.map { Data($0.utf8) } }
        func next() async throws -> Data? { left.isEmpty ? nil : left.removeFirst() }
    }

    @Test func customSourceIsRead() async throws {
        let body = ResponseBody(Chunks(["on", "e\nt", "wo"]))
        #expect(body.isStream)
        #expect(body.data == nil)
        var lines: [String] = []
        for try await line in body.lines { lines.append(line) }
        #expect(lines == ["one", "two"])
    }
}
