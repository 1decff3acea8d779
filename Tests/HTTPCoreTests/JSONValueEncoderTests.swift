import FoundationEssentials
import HTTPCore
import Testing

@Suite("JSONValueEncoder")
struct JSONValueEncoderTests {
    private func json(_ value: some Encodable, dates: Coding.Dates = .iso8601) throws -> JSONValue {
        let encoder = JSONValueEncoder(rules: CodingRules.of(Coding(dates: dates)))
        let json = try encoder.encode(value)
        #expect(try encoder.data(of: value) == json.data())
        return json
    }

    private func failure(_ value: some Encodable) throws -> EncodingError.Context {
        let error = try #require(throws: EncodingError.self) { try JSONValueEncoder().encode(value) }
        guard case .invalidValue(_, let context) = error else { throw error }
        return context
    }

    /// Whether a number is stored as an `Int64`, which `==` does not tell.
    private func isInt(_ value: JSONValue) -> Bool { if case .int = value { true } else { false } }

    @Test func scalarsKeepTheirType() throws {
        #expect(try json("x") == "x" && json(true) == true && json(1.5) == 1.5)
        #expect(try isInt(json(1)) && isInt(json(UInt8.max)) && isInt(json(Int64.min)) && isInt(json(UInt64(7))))
        #expect(
            try [json(Int8(-1)), json(Int16(-1)), json(Int32(-1)), json(UInt16(1)), json(UInt32(1)), json(UInt(1))]
                == [-1, -1, -1, 1, 1, 1])
        #expect(try json(Character("x").unicodeScalars.map(\.value)) == [120])
    }

    @Test func integersBeyondInt64BecomeDecimals() throws {
        #expect(try json(UInt64.max) == .decimal(Decimal(UInt64.max)))
        #expect(try json(UInt64.max).description == "18446744073709551615")
        #expect(try json(UInt128(UInt64.max) + 1).description == "18446744073709551616")
        #expect(try isInt(json(Int128(-5))))
    }

    @Test func integersAreWrittenInFull() throws {
        let numbers: [Int64] = [0, 7, -1, 99_999_999, -99_999_999, 100_000_000, 10_000_000, .min, .max]
        let text = "[\(numbers.map(String.init).joined(separator: ","))]"
        #expect(String(decoding: try JSONValueEncoder().data(of: numbers), as: UTF8.self) == text)
    }

    @Test func errorsInArraysHaveTheirPath() throws {
        struct Price: Encodable { var amounts: [[Double]] }
        let error = try failure(["a": [[Price(amounts: [])], [Price(amounts: [[1], [2, .nan]])]]])
        #expect(error.codingPath.jsonPath == "a[1][0].amounts[1][1]")
    }

    @Test func membersAreWrittenSortedAndOnce() throws {
        struct Repeated: Encodable {
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: JSONName.self)
                try container.encode("c", forKey: JSONName("b"))
                try container.encode("old", forKey: JSONName("e\u{301}"))
                try container.encode([1], forKey: JSONName("a"))
                try container.encode("é\"\n雪", forKey: JSONName("\u{E9}"))
            }
        }
        struct JSONName: CodingKey {
            let stringValue: String
            var intValue: Int? { nil }
            init(_ name: String) { stringValue = name }
            init?(stringValue: String) { self.init(stringValue) }
            init?(intValue: Int) { nil }
        }
        let text = String(decoding: try JSONValueEncoder().data(of: ["x": [Repeated()]]), as: UTF8.self)
        #expect(Array(text.utf8) == Array("{\"x\":[{\"a\":[1],\"b\":\"c\",\"e\u{301}\":\"é\\\"\\n雪\"}]}".utf8))
        #expect(try json(Repeated()) == ["a": [1], "b": "c", "\u{E9}": "é\"\n雪"])
    }

    @Test func floatsKeepTheirShortestText() throws {
        #expect(try json(Float(0.1)) == 0.1)
        #expect(try json([Float(16_777_216)]) == [16_777_216])
    }

    private struct Model: Encodable {
        enum Level: String, Encodable { case low, high }
        enum Code: Int, Encodable { case one = 1 }
        struct Inner: Encodable { var list: [Level?], flag: Bool? }
        var name = "Ada"
        var absent: String?
        var null: JSONValue? = .null
        var level = Level.high
        var code = Code.one
        var inner = Inner(list: [.low, nil], flag: true)
        var any: JSONValue = ["a": [nil, 1]]
    }

    @Test func modelsBecomeObjectsWithoutNil() throws {
        #expect(
            try json(Model()) == [
                "name": "Ada", "null": nil, "level": "high", "code": 1, "inner": ["list": ["low", nil], "flag": true],
                "any": ["a": [nil, 1]],
            ])
    }

    private struct ExplicitNil: Encodable {
        enum Key: CodingKey { case skipped, null, kept, optional, wrapped, replaced, removed, list }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            try container.encodeIfPresent(Int?.none, forKey: .skipped)
            try container.encodeIfPresent(URL?.none, forKey: .skipped)
            try container.encodeNil(forKey: .null)
            try container.encode(JSONValue.null, forKey: .kept)
            try container.encode(Int?.none, forKey: .optional)
            try container.encode(Wrapper(value: nil), forKey: .wrapped)
            try container.encode(1, forKey: .replaced)
            try container.encode(2, forKey: .replaced)
            try container.encode(Date(timeIntervalSince1970: 0), forKey: .removed)
            try container.encodeNil(forKey: .removed)
            var list = container.nestedUnkeyedContainer(forKey: .list)
            try list.encodeNil()
            try list.encode(Int?.none)
            try list.encode(JSONValue.null)
        }
    }

    /// Encodes nil as its whole value, as a property wrapper for explicit nulls does.
    private struct Wrapper: Encodable {
        let value: Int?
        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            if let value { try container.encode(value) } else { try container.encodeNil() }
        }
    }

    @Test func explicitNilIsNull() throws {
        let expected: JSONValue = [
            "null": nil, "kept": nil, "optional": nil, "wrapped": nil, "replaced": 2, "removed": nil,
            "list": [nil, nil, nil],
        ]
        #expect(try json(ExplicitNil()) == expected)
        #expect(try json([ExplicitNil()]) == [expected])
        let members = try #require(try EncodedMembers(deferring: ExplicitNil())).coded(by: nil)
        #expect(JSONValue.object(members.object) == expected)
        #expect(
            members.queryText
                == "kept&list%5B%5D&list%5B%5D&list%5B%5D&null&optional&removed&replaced=2&wrapped")
    }

    @Test func explicitNilInParametersIsNull() throws {
        let boxed: any Encodable & Sendable = Int?.none
        let parameters: Parameters = [
            "gone": nil, "boxed": boxed, "wrapped": Wrapper(value: nil), "some": ["a": nil, "b": 1] as [String: Int?],
            "list": [nil, 1] as [Int?],
        ]
        for members in [try EncodedMembers(parameters: parameters), try EncodedMembers(deferring: parameters)] {
            #expect(members.object == ["wrapped": nil, "some": ["a": nil, "b": 1], "list": [nil, 1]])
            #expect(members.queryText == "list%5B%5D&list%5B%5D=1&some%5Ba%5D&some%5Bb%5D=1&wrapped")
        }
    }

    @Test func optionalsEncodeTheirValueOrNull() throws {
        #expect(try json(Int?.none) == .null)
        #expect(try json(Int?.some(1)) == 1)
        #expect(try json(Int??.some(nil)) == .null)
        #expect(try JSONValueEncoder().encodeIfPresent(Int?.none) == nil)
        #expect(try JSONValueEncoder().encodeIfPresent(JSONValue.null) == .null)
        #expect(try json(["a": 1, "b": nil] as [String: Int?]) == ["a": 1, "b": nil])
        #expect(try json([1, nil] as [Int?]) == [1, nil])
    }

    @Test func collectionsBecomeArraysAndObjects() throws {
        #expect(try json(["a": [1, 2], "b": []]) == ["a": [1, 2], "b": []])
        #expect(try json([1: "x", 20: "y"]) == ["1": "x", "20": "y"])
        #expect(try json([Model.Level.low: 1].mapValues { [$0] }) == [.string("low"), [1]])
        #expect(try json([[1.5], []]) == [[1.5], []])
        #expect(try json(Set(["c", "a", "b"])) == ["a", "b", "c"])
        #expect(try json(["s": Set([Model.Level.low, .high])]) == ["s": ["high", "low"]])
        #expect(try json(1...3) == [1, 3])
    }

    @Test func foundationTypesBecomeStringsAndNumbers() throws {
        #expect(try json(Data([0xFF, 0x00])) == "/wA=")
        #expect(try json(URL(string: "http://127.0.0.1/a?b=c")) == "http://127.0.0.1/a?b=c")
        let id = UUID()
        #expect(try json(["id": id]) == ["id": .string(id.uuidString.lowercased())])
        let price = try #require(Decimal(string: "12.30"))
        #expect(try json(price).description == "12.3")
    }

    @Test func datesFollowTheStrategy() throws {
        let date = Date(timeIntervalSince1970: 1_740_821_400.25)
        #expect(try json(date) == "2025-03-01T09:30:00Z")
        #expect(try json([date], dates: .iso8601WithFractionalSeconds) == ["2025-03-01T09:30:00.250Z"])
        #expect(try json(["at": date], dates: .unixSeconds) == ["at": 1_740_821_400.25])
        #expect(try isInt(json(date, dates: .unixMilliseconds)))
        #expect(try json(date, dates: .unixMilliseconds) == 1_740_821_400_250)
        #expect(try json(Date.distantPast) == "0000-12-30T00:00:00Z")
    }

    @Test(arguments: [Double.nan, .infinity, 253_402_300_800, -1e12])
    func datesOutsideOfRFC3339AreRejected(_ seconds: Double) throws {
        let date = Date(timeIntervalSince1970: seconds)
        #expect(try failure(["at": date]).debugDescription.contains("at: the date is outside"))
    }

    private class Base: Encodable {
        var base = 1
    }
    private final class Derived: Base {
        enum Key: CodingKey { case derived, own }
        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(2, forKey: .derived)
            try super.encode(to: container.superEncoder())
            try super.encode(to: container.superEncoder(forKey: .own))
        }
    }

    @Test func superEncodersBecomeMembers() throws {
        #expect(try json(Derived()) == ["derived": 2, "super": ["base": 1], "own": ["base": 1]])
    }

    private struct Nested: Encodable {
        enum Key: CodingKey { case a, b, c }
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            var inner = container.nestedContainer(keyedBy: Key.self, forKey: .a)
            try inner.encode("x", forKey: .b)
            var again = container.nestedContainer(keyedBy: Key.self, forKey: .a)
            try again.encode(Date(timeIntervalSince1970: 0), forKey: .c)
            var list = container.nestedUnkeyedContainer(forKey: .b)
            var first = list.nestedContainer(keyedBy: Key.self)
            try first.encode(1, forKey: .a)
            var second = list.nestedUnkeyedContainer()
            try second.encode(UInt8(2))
            try Base().encode(to: list.superEncoder())
            #expect(list.count == 3)
            _ = container.nestedContainer(keyedBy: Key.self, forKey: .c)
        }
    }

    @Test func nestedContainersBecomeNestedValues() throws {
        #expect(
            try json(Nested()) == [
                "a": ["b": "x", "c": "1970-01-01T00:00:00Z"], "b": [["a": 1], [2], ["base": 1]], "c": [:],
            ])
    }

    private struct Nothing: Encodable {
        func encode(to encoder: any Encoder) {}
    }
    private struct NoProperties: Encodable {}

    @Test func typesThatEncodeNothingBecomeEmptyObjects() throws {
        #expect(try json(Nothing()) == [:])
        #expect(try json(NoProperties()) == [:])
        #expect(try json(["a": Nothing()]) == ["a": [:]])
        #expect(try json([Int]()) == [])
    }

    private enum Choice: Encodable { case plain, with(id: Int, Double) }

    @Test func enumsEncodeAsInSwift() throws {
        #expect(try json(Choice.plain) == ["plain": [:]])
        #expect(try json([Choice.with(id: 1, 2.5)]) == [["with": ["id": 1, "_1": 2.5]]])
    }

    @Test func encodesLikeJSONEncoder() throws {
        struct Everything: Encodable {
            var model = [Choice.plain, .with(id: 1, 0.25)]
            var numbers: [Double] = [0, -1.5, 1e21]
            var words = ["a": ["b": Optional("c")]]
            var small = Int8.min, big = UInt64(Int64.max)
            var range = 0..<4
            var closed = Derived()
        }
        let expected = try JSONValue(parsing: JSONEncoder().encode(Everything()))
        #expect(try json(Everything()) == expected)
    }

    @Test func infiniteNumbersAndNaNAreRejectedWithPath() throws {
        struct Filter: Encodable { var prices: [Double], inner: [String: Float] }
        #expect(try failure(Filter(prices: [1, .nan], inner: [:])).codingPath.map(\.stringValue) == ["prices", "1"])
        let context = try failure([Filter(prices: [], inner: ["a": .infinity])])
        #expect(context.debugDescription == "[0].inner.a: inf is not a number in JSON")
        #expect(try failure(Double.nan).codingPath.isEmpty)
        #expect(try failure(["d": Decimal.nan]).codingPath.map(\.stringValue) == ["d"])
        #expect(try failure(["j": ["k": .double(.nan)] as JSONValue]).debugDescription.hasPrefix("j.k: "))
    }

    private final class Cycle: Encodable {
        var next: Cycle?
    }

    @Test func cycleIsAnError() throws {
        let cycle = Cycle()
        cycle.next = cycle
        #expect(try failure(cycle).debugDescription.contains("more than 512 levels of nesting"))
        cycle.next = nil
    }
}
