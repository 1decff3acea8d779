import FoundationEssentials
import HTTPCore
import Testing

@Suite("JSONValue")
struct JSONValueTests {
    private let sample: JSONValue = [
        "args": ["q": "swift", "n": 1, "none": nil, "list": [1, [2.5, true]]],
        "é": "snow",
    ]

    // MARK: Look-up

    @Test func lookUpNeedsNoQuestionMarks() throws {
        func json() throws -> JSONValue { sample }
        #expect(try json()["args"]["q"].string == "swift")
        #expect(try json()["args"]["list"][1][0].double == 2.5)
        #expect(try json()["args"]["absent"]["deeper"][3].string == nil)
    }

    @Test func absentValueIsNotNull() {
        #expect(sample["args"]["none"].isNull)
        #expect(!sample["args"]["absent"].isNull)
        #expect(sample["args"]["none"] != nil)
        #expect(sample["args"]["none"] == .null)
        #expect(sample["args"]["absent"] == nil)
        #expect(JSONValue.null.isNull)
    }

    @Test(arguments: [-1, 2, Int.max, Int.min])
    func indexOutOfRangeIsNil(_ index: Int) {
        let array: JSONValue = [1, 2]
        #expect(array[index] == nil)
        #expect(sample["args"]["list"][index] == nil)
    }

    @Test func lookUpInAnotherTypeIsNil() {
        for value: JSONValue in [nil, true, 1, 1.5, "text", [1]] { #expect(value["key"] == nil) }
        for value: JSONValue in [nil, true, 1, 1.5, "text", ["a": 1]] { #expect(value[0] == nil) }
    }

    @Test func accessorsReturnOnlyTheirType() {
        let values: [JSONValue] = [nil, true, 1, "1", [1], ["1": 1]]
        #expect(values.map(\.isNull) == [true, false, false, false, false, false])
        #expect(values.map(\.bool) == [nil, true, nil, nil, nil, nil])
        #expect(values.map(\.int) == [nil, nil, 1, nil, nil, nil])
        #expect(values.map(\.int64) == [nil, nil, 1, nil, nil, nil])
        #expect(values.map(\.double) == [nil, nil, 1, nil, nil, nil])
        #expect(values.map(\.decimal) == [nil, nil, 1, nil, nil, nil])
        #expect(values.map(\.string) == [nil, nil, nil, "1", nil, nil])
        #expect(values.map(\.array) == [nil, nil, nil, nil, [1], nil])
        #expect(values.map(\.object) == [nil, nil, nil, nil, nil, ["1": 1]])
    }

    @Test func accessorsOnAbsentValuesAreNil() {
        let absent: JSONValue? = sample["absent"]
        #expect(absent.string == nil && absent.int == nil && absent.int64 == nil && absent.double == nil)
        #expect(absent.decimal == nil && absent.bool == nil && absent.array == nil && absent.object == nil)
        #expect(sample["args"].object?.count == 4)
        #expect(sample["args"]["list"].array?.count == 2)
    }

    @Test func wholeNumbersAreExactOrNil() throws {
        #expect(JSONValue.double(2).int == 2)
        #expect(JSONValue.double(2.5).int == nil)
        #expect(JSONValue.double(1e19).int == nil)
        #expect(JSONValue.double(.nan).int == nil)
        #expect(JSONValue.double(.infinity).int64 == nil)
        #expect(JSONValue.int(.max).int64 == .max)
        #expect(JSONValue.decimal(Decimal(7)).int == 7)
        #expect(JSONValue.decimal(try #require(Decimal(string: "7.5"))).int == nil)
        #expect(JSONValue.decimal(try #require(Decimal(string: "12345678901234567890"))).int == nil)
    }

    @Test func everyNumberReadsAsDoubleAndDecimal() throws {
        #expect(JSONValue.int(3).double == 3)
        #expect(JSONValue.int(9_007_199_254_740_993).double == 9_007_199_254_740_992)
        #expect(JSONValue.double(0.1).decimal == Decimal(string: "0.1"))
        #expect(JSONValue.double(1e300).decimal == nil)
        #expect(JSONValue.double(.nan).decimal == nil)
        let long = try #require(Decimal(string: "0.12345678901234567890"))
        #expect(JSONValue.decimal(long).double == 0.12345678901234567890)
        #expect(JSONValue.decimal(long).decimal == long)
    }

    // MARK: Change

    @Test func settingAddsReplacesAndRemovesMembers() {
        var json: JSONValue = ["a": 1]
        json["b"] = "x"
        json["a"] = .null
        #expect(json == ["a": nil, "b": "x"])
        json["a"] = nil
        #expect(json == ["b": "x"])
        json["absent"] = nil
        #expect(json == ["b": "x"])
    }

    @Test func settingCreatesThePath() {
        var json = JSONValue.null
        json["a"]["b"]["c"] = 1
        json["a"]["list"][0] = "first"
        json["a"]["list"][1] = "second"
        #expect(json == ["a": ["b": ["c": 1], "list": ["first", "second"]]])
        json["x"]["y"] = nil
        json["x"][5] = 1
        json["x"][0] = nil
        #expect(json["x"] == nil)
        json["a"]["b"]["c"] = nil
        #expect(json["a"]["b"] == [:])
    }

    @Test func settingReplacesAppendsAndRemovesElements() {
        var json: JSONValue = [1, 2, 3]
        json[0] = 9
        json[1] = nil
        json[2] = 4
        #expect(json == [9, 3, 4])
        json[7] = 5
        json[-1] = 5
        json[-1] = nil
        #expect(json == [9, 3, 4])
    }

    @Test func settingMembersOfAScalarChangesNothing() {
        for value: JSONValue in [true, 1, "text"] {
            var copy = value
            copy["a"] = 1
            copy[0] = 1
            copy["a"]["b"] = nil
            #expect(copy == value)
        }
        var array: JSONValue = [1]
        array["a"] = 1
        #expect(array == [1])
    }

    @Test(.timeLimit(.minutes(1))) func settingCopiesNothing() throws {
        let count = 100_000
        var json: JSONValue = ["items": [], "names": [:]]
        for number in 0..<count {
            json["items"][number] = ["n": .int(Int64(number))]
            json["names"]["\(number)"] = true
        }
        func address() throws -> UnsafeRawPointer? {
            try #require(json["items"].array).withUnsafeBytes { $0.baseAddress }
        }
        let place = try address()
        for number in 0..<count {
            json["items"][number]["n"] = nil
            json["names"]["\(number)"] = nil
        }
        #expect(try address() == place)
        #expect(json["items"].array == Array(repeating: [:], count: count) && json["names"] == [:])
    }

    @Test func settingDoesNotChangeCopies() {
        var json: JSONValue = ["a": [1]]
        let copy = json
        json["a"][0] = 2
        #expect(copy == ["a": [1]])
        #expect(json == ["a": [2]])
    }

    // MARK: Equality

    @Test func numbersCompareByValue() throws {
        let one = JSONValue.decimal(1)
        #expect(JSONValue.int(1) == 1.0 && one == 1 && one == 1.0)
        #expect(Set<JSONValue>([1, 1.0, one]).count == 1)
        let tenth = JSONValue.decimal(try #require(Decimal(string: "0.1")))
        #expect(tenth == 0.1 && tenth.hashValue == JSONValue.double(0.1).hashValue)
        #expect(JSONValue.double(-0.0) == 0)
        #expect(JSONValue.double(-0.0).hashValue == JSONValue.int(0).hashValue)
        #expect(JSONValue.int(9_007_199_254_740_993) != .double(9_007_199_254_740_992))
        #expect(JSONValue.int(1) != true && JSONValue.int(0) != nil && JSONValue.int(1) != "1")
        #expect(JSONValue.double(0.5) != .int(0))
    }

    @Test func literalWithARepeatedNameKeepsTheLast() {
        let json: JSONValue = ["a": 1, "a": 2]
        #expect(json == ["a": 2])
    }

    // MARK: Writing

    @Test func descriptionIsCompactAndSorted() {
        let json: JSONValue = ["b": [1, 2.50, -0.0], "a": ["z": nil, "y": true], "c": "x"]
        #expect(json.description == #"{"a":{"y":true,"z":null},"b":[1,2.5,-0],"c":"x"}"#)
        #expect("\(JSONValue.null) \([] as JSONValue) \([:] as JSONValue)" == "null [] {}")
    }

    @Test func onlyRequiredCharactersAreEscaped() throws {
        let json: JSONValue = "\"\\/\u{8}\u{C}\n\r\t\0\u{1F}\u{7F}é🙂\u{2028}"
        let expected = #""\"\\/\u0008\u000c\n\r\t\u0000\u001f"# + "\u{7F}é🙂\u{2028}\""
        #expect(String(decoding: try json.data(), as: UTF8.self) == expected)
    }

    @Test func prettyPrintedHasOneValuePerLine() throws {
        let json: JSONValue = ["b": [1, []], "a": [:], "c": ["d": "e"]]
        let expected = """
            {
              "a": {},
              "b": [
                1,
                []
              ],
              "c": {
                "d": "e"
              }
            }
            """
        #expect(String(decoding: try json.data(prettyPrinted: true), as: UTF8.self) == expected)
    }

    @Test func unsortedDataHasTheSameMembers() throws {
        let json: JSONValue = ["a": 1, "b": ["c": 2, "d": 3]]
        #expect(try JSONValue(parsing: json.data(sortedKeys: false)) == json)
    }

    private static let shortest: [(JSONValue, String)] = [
        (.double(1), "1"), (.double(1e22), "1e22"), (.double(1e-7), "1e-07"), (.double(0.1), "0.1"),
        (.double(.leastNonzeroMagnitude), "5e-324"), (.int(.min), "-9223372036854775808"), (.double(100), "100"),
    ]

    @Test(arguments: shortest)
    func numbersAreWrittenAsShortestText(_ value: JSONValue, _ text: String) throws {
        #expect(value.description == text)
        #expect(try JSONValue(parsing: text) == value)
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity])
    func infiniteNumbersAndNaNAreRejectedWithPath(_ number: Double) throws {
        let json: JSONValue = ["a": [1, ["b": .double(number)]]]
        let error = try #require(throws: EncodingError.self) { _ = try json.data() }
        guard case .invalidValue(_, let context) = error else { return }
        #expect(context.codingPath.map(\.stringValue) == ["a", "1", "b"])
        #expect(context.debugDescription.contains("a[1].b: "))
        #expect(json.description == #"{"a":[1,{"b":null}]}"#)
    }

    @Test func nestingBeyondTheLimitIsNotWritten() throws {
        var json: JSONValue = 1
        for _ in 0..<JSONValue.maximumDepth { json = [json] }
        #expect(try JSONValue(parsing: json.data()) == json)
        json = ["a": json]
        #expect(throws: EncodingError.self) { try json.data() }
    }

    // MARK: Codable

    private struct Page: Codable, Equatable {
        var number: Int
        var title: String?
        var extra: JSONValue
    }

    @Test func modelsAreDecoded() throws {
        let json: JSONValue = ["page": ["number": 3, "title": nil, "extra": ["any": [1, 2.5, "x", nil, true]]]]
        let page = try json["page"].decode(Page.self)
        #expect(page == Page(number: 3, title: nil, extra: ["any": [1, 2.5, "x", nil, true]]))
        #expect(try json["page"]["number"].decode(Int.self) == 3)
        #expect(try json["page"]["title"].decode(String?.self) == nil)
        #expect(try json.decode(JSONValue.self) == json)
        #expect(throws: DecodingError.self) { try json["absent"].decode(Page.self) }
        #expect(throws: DecodingError.self) { try json["page"]["extra"].decode(Page.self) }
    }

    @Test func valueRoundTripsThroughOtherCoders() throws {
        let long = try #require(Decimal(string: "12345678901234567890.5"))
        let json: JSONValue = [
            "null": nil, "bool": [true, false], "int": [0, .int(.min), .int(.max)], "double": [0.1, -2.5, 1e300],
            "decimal": .decimal(long), "text": "é\n", "empty": [[], [:]],
        ]
        let data = try JSONEncoder().encode(json)
        #expect(try JSONDecoder().decode(JSONValue.self, from: data) == json)
        #expect(try JSONValue(parsing: data) == json)
        #expect(try JSONDecoder().decode(JSONValue.self, from: json.data()) == json)
    }
}
