import FoundationEssentials
import Testing

@testable import HTTPCore

@Suite("EncodedMembers")
struct EncodedMembersTests {
    private struct Entity: Encodable {
        var name = "a b"
        var page = 2
        var absent: String?
        var filter = ["z": [1.5], "a": []]
    }

    @Test func propertiesBecomeQueryAndJSON() throws {
        var members = try #require(try EncodedMembers(encoding: Entity()))
        #expect(members["page"] == 2 && members["absent"] == nil && !members.isEmpty)
        #expect(members.queryText == "filter%5Bz%5D%5B%5D=1.5&name=a%20b&page=2")
        #expect(members.remove("name") == "a b" && members.remove("name") == nil)
        #expect(members.object == ["page": 2, "filter": ["z": [1.5], "a": []]])
        #expect(try String(decoding: members.jsonData(), as: UTF8.self) == #"{"filter":{"a":[],"z":[1.5]},"page":2}"#)
    }

    @Test func missingMembersAreAdded() throws {
        var members = EncodedMembers(["b": 1, "a": 2])
        members.addMissing(EncodedMembers(["b": 9, "c": nil]))
        #expect(members == EncodedMembers(["a": 2, "b": 1, "c": nil]))
        #expect(members.hashValue == EncodedMembers(["c": nil, "b": 1, "a": 2]).hashValue)
        members.addMissing(EncodedMembers())
        #expect(members.queryText == "a=2&b=1&c" && EncodedMembers().isEmpty)
    }

    @Test func otherValuesHaveNoMembers() throws {
        #expect(try EncodedMembers(encoding: 1) == nil && EncodedMembers(encoding: [1]) == nil)
        #expect(try EncodedMembers(encoding: Int?.none) == nil && EncodedMembers(encoding: Date.distantPast) == nil)
        #expect(try EncodedMembers(encoding: [String: Int]())?.isEmpty == true)
        #expect(try EncodedMembers(encoding: ["a": 1] as JSONValue)?.object == ["a": 1])
    }

    @Test(.timeLimit(.minutes(1))) func manyDatesTakeNoMoreTimeEach() throws {
        struct Row: Encodable {
            var date = Date(timeIntervalSince1970: 0)
            var number: Int
        }
        struct Rows: Encodable {
            var list = (0..<60_000).map { Row(number: $0) }
            var named: [String: Row]

            init() { named = Dictionary(uniqueKeysWithValues: list.map { ("\($0.number)", $0) }) }
        }
        let members = try #require(try EncodedMembers(deferring: Rows()))
        let coded = try members.coded(by: CodingRules(Coding(dates: .unixSeconds)))
        for number in [0, 59_999] {
            #expect(coded["list"][number] == ["date": 0, "number": .int(Int64(number))])
            #expect(coded["named"]["\(number)"] == coded["list"][number])
        }
        #expect(coded["list"].array?.count == 60_000 && coded["named"].object?.count == 60_000)
    }

    @Test func memberOfALargeObjectReplacesAnEarlierDate() throws {
        struct Twice: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: JSONKey.self)
                for number in 0..<100 { try container.encode(Date(), forKey: .name("\(number)")) }
                for number in 0..<100 { try container.encode(number, forKey: .name("\(number)")) }
            }
        }
        let members = try #require(try EncodedMembers(deferring: Twice()))
        #expect(members.notes.isEmpty && members["99"] == 99)
    }

    @Test func commaInAnElementIsEscaped() {
        let members = EncodedMembers(["ids": ["a,b", "c d"], "of": ["k": "1,2"]])
        func query(_ style: ParameterEncoding.Arrays) -> String {
            members.queryText(by: .init(arrays: style, styles: ["of": style]))
        }
        #expect(query(.comma) == "ids=a%2Cb,c%20d&of=k,1%2C2")
        #expect(query(.pipe) == "ids=a%2Cb%7Cc%20d&of=k%7C1%2C2")
        #expect(members.fields(by: .init(arrays: .comma))[0].value == "a,b,c d")
    }

    /// Encodes random values with every method of an encoder.
    private struct Script: Encodable {
        struct Key: CodingKey {
            var stringValue: String
            var intValue: Int? { nil }
            init(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }
        let seed: UInt64
        let depth: Int

        func encode(to encoder: any Encoder) throws {
            var random = SplitMix64(state: seed)
            var container = encoder.container(keyedBy: Key.self)
            for _ in 0..<random.next() % 8 {
                let key = Key(stringValue: ["a", "b", "\u{E9}", "e\u{301}", "B", ""][Int(random.next() % 6)])
                let inner = Script(seed: random.next(), depth: depth - 1)
                switch random.next() % 12 {
                case 0: try container.encodeNil(forKey: key)
                case 1: try container.encode(Int?.none, forKey: key)
                case 2: try container.encode(random.next() % 2 == 0, forKey: key)
                case 3: try container.encode(String.random(using: &random), forKey: key)
                case 4: try container.encode(UInt64.max - random.next() % 2, forKey: key)
                case 5: try container.encode(Double(bitPattern: random.next()), forKey: key)
                case 6: try container.encode(["x": JSONValue.null, "y": [nil, 1]], forKey: key)
                case 7: try container.encodeIfPresent(Float(0.1), forKey: key)
                case 8 where depth > 0: try container.encode(inner, forKey: key)
                case 9 where depth > 0: try container.encode([inner], forKey: key)
                case 10 where depth > 0: try inner.encode(to: container.superEncoder(forKey: key))
                case 11 where depth > 0:
                    var list = container.nestedUnkeyedContainer(forKey: key)
                    try list.encode(inner)
                default: try container.encode(Int8(-1), forKey: key)
                }
            }
        }
    }

    @Test func randomValuesEncodeLikeJSONValue() throws {
        for seed in 0..<3_000 as Range<UInt64> {
            let script = Script(seed: seed, depth: 3)
            let value = Result { try JSONValueEncoder().encode(script) }
            let members = Result { try EncodedMembers(encoding: script) }
            guard case .success(let value) = value, case .success(let members) = members else {
                #expect(throws: EncodingError.self) { try value.get() }
                #expect(throws: EncodingError.self) { try members.get() }
                continue
            }
            #expect(members?.object == value.object)
            #expect(try members?.jsonData() == value.data())
            #expect(members == value.object.map { EncodedMembers($0) })
            #expect(members?.queryText == value.object.map { EncodedMembers($0).queryText })
            #expect(try JSONValue(parsing: value.data()) == value)
        }
    }
}

extension EncodedMembers {
    /// Encodes a value at once, to compare with ``init(deferring:)``.
    init?(encoding value: some Encodable, by encoder: JSONValueEncoder = JSONValueEncoder()) throws {
        guard let list = try encoder.members(of: value) else { return nil }
        self.init(list, [])
    }
}
