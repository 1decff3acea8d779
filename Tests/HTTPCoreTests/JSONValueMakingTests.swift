import Foundation
import HTTPCore
import Testing

@Suite struct JSONValueMakingTests {
    struct Filter: Codable, Equatable, Sendable {
        var createdAfter: Date
        var words: [String]
    }

    private let filter = Filter(createdAfter: Date(timeIntervalSince1970: 60), words: ["a"])
    private let cursor: String? = nil
    private let first = 10

    @Test func variablesAndEncodableValuesMix() throws {
        let value: JSONValue = [
            "first": JSONValue(first), "after": JSONValue(cursor), "filter": try JSONValue(encoding: filter),
            "flag": JSONValue(true), "half": JSONValue(0.5), "price": JSONValue(Decimal(3)),
            "list": [1, "b", nil, 2.5],
        ]
        let text =
            #"{"after":null,"filter":{"createdAfter":"1970-01-01T00:01:00Z","words":["a"]},"first":10,"flag":true,"#
            + #""half":0.5,"list":[1,"b",null,2.5],"price":3}"#
        #expect(value.description == text)
        #expect(try value["filter"].decode(Filter.self) == filter)
        #expect(try JSONValue(encoding: filter, coding: Coding(dates: .unixSeconds))["createdAfter"].int == 60)
    }

    @Test func objectIsEncodedWithTheCodingOfTheCall() throws {
        var variables: JSONValue.Object = ["first": first, "after": cursor, "byFilter": filter]
        variables["skip"] = Settable<Int>.leftOut
        variables["more"] = ["deepName": 1] as JSONValue
        let parameters: Parameters = ["query": "{ a }", "variables": variables]
        let rules = CodingRules.of(Coding(dates: .unixSeconds, keys: .snakeCase))
        let members = try EncodedMembers(parameters: parameters, by: JSONValueEncoder(rules: rules))
        let expected: JSONValue = [
            "first": 10, "after": nil, "byFilter": ["created_after": 60, "words": ["a"]], "more": ["deepName": 1],
        ]
        #expect(members["variables"] == expected)
        #expect(try EncodedMembers(deferring: parameters).coded(by: rules).named(by: rules)["variables"] == expected)
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.dateEncodingStrategy = .secondsSince1970
        #expect(try JSONValue(parsing: encoder.encode(variables))["byFilter"]["created_after"].int == 60)
    }

    @Test func bodyTakesALiteralOfAnyTypes() throws {
        func text(_ body: HTTPBody) throws -> String {
            guard case .encoded(let encoder) = body.content else { return "" }
            return String(decoding: try encoder.encode(), as: UTF8.self)
        }
        let variables: Parameters = ["id": 42, "name": cursor]
        #expect(
            try text(.json(["query": "q", "variables": JSONValue.Object(variables), "note": nil]))
                == #"{"note":null,"query":"q","variables":{"id":42,"name":null}}"#)
        #expect(try text(.json(["a": 1, "b": nil])) == #"{"a":1,"b":null}"#)
        #expect(try text(.json(variables)) == #"{"id":42,"name":null}"#)
        #expect(try text(.json(filter)).hasPrefix(#"{"createdAfter""#))
        #expect(
            try text(.json(["user": ["name": "Ada", "age": 36, "note": nil], "tags": [1, "b"]]))
                == #"{"tags":[1,"b"],"user":{"age":36,"name":"Ada","note":null}}"#)
        #expect(
            try text(.json([1, "b", nil])) == #"[1,"b",null]"# && text(.json([])) == "[]" && text(.json(nil)) == "null")
    }

    @Test func lookUpsPrintWithoutOptional() throws {
        let json: JSONValue = ["name": "Ada", "items": [1]]
        #expect("\(json["name"]) \(json["items"][0]) \(json["none"]["x"])" == #""Ada" 1 nil"#)
        #expect(json["name"].description == #""Ada""# && "\(json)" == json.description)
    }
}
