import Foundation
import HTTPCore
import Testing

@Suite("JSONDocument")
struct JSONDocumentTests {
    private func document(_ text: String) throws -> JSONDocument { try JSONDocument(parsing: Data(text.utf8)) }

    // MARK: Looking up

    @Test func pathsFindNestedMembers() throws {
        let document = try document(#"{"meta": {"code": 7, "text": "é"}, "meta.code": 8, "a": [1], "b": null}"#)
        #expect(document[path: "meta.text"]?.string == "é" && document["meta"]?["code"]?.int == 7)
        #expect(document[path: "meta.code"]?.int == 8)
        #expect(document[path: "b"]?.isNull == true && document[path: "b.c"] == nil && document[path: "c"] == nil)
        #expect(document[path: ""]?.value == document.value)
        #expect(document[path: "a"]?.value == [1] && document["a"]?["0"] == nil && document[""] == nil)
    }

    @Test func scalarsAreNotConverted() throws {
        let document = try document(
            #"{"n": 1, "f": 2.0, "h": 2.5, "t": "1", "b": true, "big": 12345678901234567890, "e": "\u0031"}"#)
        #expect(document["n"]?.int == 1 && document["f"]?.int == 2 && document["h"]?.int == nil)
        #expect(document["n"]?.string == nil && document["t"]?.string == "1" && document["e"]?.string == "1")
        #expect(document["t"]?.int == nil && document["b"]?.bool == true && document["n"]?.bool == nil)
        #expect(document["big"]?.int == nil && document["big"]?.value.description == "12345678901234567890")
    }

    /// Names are compared as `String`s, so escapes and Unicode composition do not matter.
    @Test(arguments: [
        #"{"a": 1, "b": 0, "a": 2}"#, #"{"a": 1, "\u0061": 2}"#, #"{"\u0061": 1, "a": 2}"#,
        "{\"K\": 1, \"\u{212A}\": 2}", "{\"\u{212A}\": 1, \"K\": 2}", "{\"e\u{301}\": 1, \"\u{E9}\": 2}",
    ])
    func lastOfRepeatedMembersCounts(text: String) throws {
        let value = try JSONValue(parsing: text)
        for name in ["a", "b", "K", "\u{212A}", "\u{E9}", "e\u{301}"] {
            #expect(try document(text)[name]?.value == value[name])
            #expect(try document(text).decode([String: Int].self)[name] == value[name].int)
        }
    }

    @Test(arguments: [63, 64, 65, 500])
    func manyMembersAreFound(count: Int) throws {
        let members = (0..<count).map { "\"n\($0)\": \($0)" }.joined(separator: ", ")
        let decoded = try document("{\(members), \"n0\": -1}").decode([String: Int].self)
        #expect(decoded.count == count && decoded["n0"] == -1 && decoded["n\(count - 1)"] == count - 1)
    }

    /// Properties are read in another order than that of the document, and some names have the same first eight bytes.
    @Test(arguments: [
        (#"{"aReallyLongName1": 1, "aReallyLongName2": 2, "b": 3}"#, [1, 2, 3]),
        (#"{"b": 3, "aReallyLongName2": 2, "aReallyLongName1": 1}"#, [1, 2, 3]),
        (#"{"b": 3, "aReallyLongName1": 0, "aReallyLongName2": 2, "aReallyLongName1": 1}"#, [1, 2, 3]),
        (#"{"aReallyLongName1": 1, "x": {"b": 7, "b": 8}, "aReallyLongName2": 2, "b": 3}"#, [1, 2, 3]),
        (#"{"aReallyLongName1": 0, "b": 3, "aReallyLongName2": 2, "aReallyLongName\u0031": 1}"#, [1, 2, 3]),
        (#"{"b":0,"aReallyLongName1":1,"aReallyLongName2":2,"b":3}"#, [1, 2, 3]),
        (#"{"b":0,"":0,"aReallyLongName1":1,"aReallyLongName2":2,"":1,"b":3}"#, [1, 2, 3]),
    ])
    func membersAreFoundInAnyOrder(text: String, expected: [Int]) throws {
        struct Three: Decodable {
            var aReallyLongName1: Int
            var aReallyLongName2: Int
            var b: Int
            var absent: Int?
        }
        for three in try document("[\(text), \(text)]").decode([Three].self) + [document(text).decode(Three.self)] {
            #expect([three.aReallyLongName1, three.aReallyLongName2, three.b] == expected && three.absent == nil)
        }
    }

    @Test func decodersThatModelsKeepStay() throws {
        struct Kept: Decodable {
            let decoder: any Decoder
            init(from decoder: any Decoder) { self.decoder = decoder }
        }
        let kept = try document(#"[{"n": 1}, {"n": 2}, {"n": "x"}]"#).decode([Kept].self)
        #expect(kept.map { $0.decoder.codingPath.map(\.intValue) } == [[0], [1], [2]])
        #expect(try kept.prefix(2).map { try [String: Int](from: $0.decoder) } == [["n": 1], ["n": 2]])
        let error = try #require(throws: DecodingError.self) { try [String: Int](from: kept[2].decoder) }
        #expect(DecodingPath(error).path == "[2].n")
    }

    @Test(arguments: ["[1, \"x\"]", "[1, null]", "[[1], [2, {}]]", "{}", "[\"a\"]", "[]", "[[], [true]]"])
    func arraysFailWhereJSONDecoderFails(text: String) {
        func compare<T: Decodable & Equatable>(_ type: T.Type) {
            let (own, other) = (
                Result { try document(text).decode(type) },
                Result { try JSONDecoder().decode(type, from: Data(text.utf8)) }
            )
            switch (own, other) {
            case (.success(let own), .success(let other)): #expect(own == other)
            case (.failure(let own), .failure(let other)):
                #expect(DecodingPath(own).path == DecodingPath(other).path, "\(type)")
            default: Issue.record("\(own) and \(other)")
            }
        }
        compare([Int].self)
        compare([[Int]].self)
        compare([Double?].self)
        compare([String].self)
        compare([Set<Bool>].self)
    }

    @Test func errorPathBeginsAtTheDecodedPart() throws {
        let document = try document(#"{"data": {"list": [{"a": 1}, {"a": "x"}]}}"#)
        let data = try #require(document["data"])
        let error = try #require(throws: DecodingError.self) { try data.decode([String: [Probe]].self) }
        #expect(DecodingPath(error).path == "list[1].a")
    }

    // MARK: The same as JSONValue and JSONDecoder

    private final class Probe: Decodable {
        enum Key: CodingKey { case a, b, c, d, e, f, g, h }
        var text = ""

        /// Uses every method of a decoder.
        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Key.self)
            text += "\(try container.decodeIfPresent(Int.self, forKey: .a) as Any)"
            text += "\(try container.decodeIfPresent(String.self, forKey: .b) as Any)"
            text += "\(try container.decodeIfPresent([Probe].self, forKey: .c)?.map(\.text) as Any)"
            let table = try container.decodeIfPresent([String: JSONValue].self, forKey: .d)
            text += "\(table.map(JSONValue.object) as Any)"
            text += "\(try container.decodeIfPresent(Bool.self, forKey: .e) as Any)"
            if container.contains(.f), var list = try? container.nestedUnkeyedContainer(forKey: .f) {
                while !list.isAtEnd { if try !list.decodeNil() { text += "\(try list.decode(Float.self))" } }
            }
            if container.contains(.g), let inner = try? container.nestedContainer(keyedBy: Key.self, forKey: .g) {
                text += "\(inner.allKeys.map(\.stringValue).sorted()) \(try inner.decode([Int?].self, forKey: .a))"
            }
            if container.contains(.h) { text += try Probe(from: container.superDecoder(forKey: .h)).text }
        }
    }

    /// The decoded text, or the kind and path of the error.
    private func outcome(_ decode: () throws -> Probe) -> String {
        do {
            return try decode().text
        } catch {
            return "\(String("\(error)".prefix { $0 != "(" && $0 != ":" })) \(DecodingPath(error).path)"
        }
    }

    /// A random value from which a `Probe` can often be decoded.
    private func probe(_ random: inout SplitMix64, depth: Int) -> JSONValue {
        var members: [String: JSONValue] = [:]
        for (index, name) in ["a", "b", "c", "d", "e", "f", "g", "h"].enumerated() where random.next() % 3 == 0 {
            switch random.next() % 24 == 0 ? Int(random.next() % 9) : index {
            case 0: members[name] = .int(Int64(truncatingIfNeeded: random.next()))
            case 1: members[name] = .string(.random(using: &random))
            case 2 where depth > 0:
                members[name] = .array((0..<random.next() % 3).map { _ in probe(&random, depth: depth - 1) })
            case 3: members[name] = ["x": 1.5, .init(stringLiteral: .random(using: &random)): 2]
            case 4: members[name] = .bool(random.next() % 2 == 0)
            case 5: members[name] = [1, nil, 2.25, 1e30]
            case 6: members[name] = random.next() % 2 == 0 ? ["a": [1, nil]] : ["a": [true], "b": nil]
            case 7 where depth > 0: members[name] = probe(&random, depth: depth - 1)
            default: members[name] = .null
            }
        }
        return .object(members)
    }

    @Test func randomDocumentsDecodeLikeValues() throws {
        var random = SplitMix64(state: 17)
        var values = 0
        for _ in 0..<2_000 {
            let data = try probe(&random, depth: 3).data(prettyPrinted: random.next() % 2 == 0)
            let expected = outcome { try JSONValue(parsing: data).decode(Probe.self) }
            #expect(outcome { try JSONDocument(parsing: data).decode(Probe.self) } == expected)
            #expect(outcome { try JSONDecoder().decode(Probe.self, from: data) } == expected)
            if expected.contains("nil") { values += 1 }
        }
        #expect((200...1_800).contains(values))
    }

    @Test func brokenDocumentsAreRejected() throws {
        var random = SplitMix64(state: 23)
        for _ in 0..<2_000 {
            var data = try probe(&random, depth: 3).data()
            if random.next() % 2 == 0 {
                data = data.prefix(Int(random.next() % UInt64(data.count + 1)))
            } else {
                data[Int(random.next() % UInt64(data.count))] = UInt8(truncatingIfNeeded: random.next())
            }
            let expected = Result { try JSONValue(parsing: data) }
            let found = Result { try JSONDocument(parsing: data) }
            switch (expected, found) {
            case (.success(let value), .success(let document)):
                #expect(document.value == value)
                #expect(
                    outcome { try document.decode(Probe.self) } == outcome { try value.decode(Probe.self) })
            case (.failure(let left as JSONValue.ParsingError), .failure(let right as JSONValue.ParsingError)):
                #expect(left == right)
            default: Issue.record("\(expected) and \(found)")
            }
        }
    }
}
