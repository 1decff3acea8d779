import Foundation
import HTTPCore
import Testing

/// Decoding from values, which equals `JSONDecoder` with its defaults.
struct JSONValueDecodingTests {
    private struct Everything: Codable, Equatable {
        enum Color: String, Codable { case red, blue }
        struct Nested: Codable, Equatable {
            var a: Int?
            var list: [[Double]]
        }
        var text: String
        var flag: Bool
        var small: Int8
        var large: UInt64
        var fraction: Float
        var price: Decimal
        var when: Date
        var bytes: Data
        var link: URL
        var id: UUID
        var color: Color
        var nested: Nested?
        var absent: String?
        var table: [String: Int]
        var numbers: [Int: String]
        var any: JSONValue
    }

    private let everything = Everything(
        text: "é\u{0}", flag: true, small: -128, large: .max, fraction: 0.1, price: Decimal(string: "12.34") ?? 0,
        when: Date(timeIntervalSinceReferenceDate: 12.5), bytes: Data([0, 255]), link: URL(filePath: "/a b"),
        id: UUID(), color: .blue, nested: .init(a: nil, list: [[1, 2.5], []]), absent: nil, table: ["a": 1],
        numbers: [1: "x"], any: ["k": [1, nil]])

    @Test func decodesWhatJSONEncoderWrites() throws {
        let data = try JSONEncoder().encode(everything)
        let coding = Coding(dates: .secondsSince2001)
        #expect(try JSONValue(parsing: data).decode(Everything.self, coding: coding) == everything)
        #expect(try JSONDecoder().decode(Everything.self, from: data) == everything)
    }

    @Test(arguments: ["1.0", "1e2", "255", "-0"])
    func wholeNumbersDecodeInEveryNotation(text: String) throws {
        let expected = try JSONDecoder().decode([UInt8].self, from: Data("[\(text)]".utf8))
        #expect(try JSONValue(parsing: "[\(text)]").decode([UInt8].self) == expected)
    }

    /// In the three containers.
    @Test func wideIntegersDecodeExactly() throws {
        struct Wide: Codable, Equatable {
            var least: Int128
            var most: UInt128
            var none: UInt128?
            var list: [UInt128]
            var pair: Pair
            var single: Single
        }
        struct Pair: Codable, Equatable {
            var first: Int128
            var second: UInt128

            init(first: Int128, second: UInt128) { (self.first, self.second) = (first, second) }

            init(from decoder: any Decoder) throws {
                var elements = try decoder.unkeyedContainer()
                try self.init(first: elements.decode(Int128.self), second: elements.decode(UInt128.self))
            }

            func encode(to encoder: any Encoder) throws {
                var elements = encoder.unkeyedContainer()
                try elements.encode(first)
                try elements.encode(second)
            }
        }
        struct Single: Codable, Equatable {
            var value: UInt128

            init(value: UInt128) { self.value = value }

            init(from decoder: any Decoder) throws { value = try decoder.singleValueContainer().decode(UInt128.self) }

            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode(value)
            }
        }
        let wide = Wide(
            least: .min, most: .max, none: nil, list: [UInt128(UInt64.max) + 1, .max],
            pair: Pair(first: .max, second: .max), single: Single(value: .max))
        #expect(try JSONValueEncoder(rules: nil).encode(wide).decode(Wide.self) == wide)
        #expect(try JSONValue(parsing: JSONEncoder().encode(wide)).decode(Wide.self) == wide)
        // A number is what is written, also where the nearest `Double` is another one.
        for text in ["1.2345678901234568e18", "-1.2345678901234568e18", "9007199254740994.0", "9.223372036854775e18"] {
            let value = try JSONValue(parsing: text)
            let whole = try #require(value.int)
            #expect(try value.decode(Int.self) == whole && value.decode(Int128.self) == Int128(whole))
            #expect(try JSONDocument(parsing: Data(text.utf8)).decode(Int.self) == whole)
        }
        #expect(try JSONValue(parsing: "1.2345678901234568e18").decode(Int.self) == 1_234_567_890_123_456_800)
        #expect(try JSONValue(parsing: "18446744073709551615").decode(UInt64.self) == .max)
        #expect(try JSONValue(parsing: "2e38").decode(UInt128.self) == UInt128("2" + String(repeating: "0", count: 38)))
    }

    @Test(arguments: ["340282366920938463463374607431768211456", "18446744073709551616", "1e20", "1.5", "-1e3"])
    func integerThatDoesNotFitIsAnError(text: String) throws {
        let value = try JSONValue(parsing: text)
        let error = #expect(throws: DecodingError.self) { _ = try value.decode(UInt64.self) }
        guard case .dataCorrupted = error else { throw try #require(error) }
    }

    @Test(arguments: ["1e300", "-1e39"]) func numberThatFloatCannotHoldIsAnError(text: String) throws {
        let value = try JSONValue(parsing: "[\(text)]")
        for decode in [
            { try JSONDecoder().decode([Float].self, from: Data("[\(text)]".utf8)) },
            { try value.decode([Float].self) },
        ] {
            let error = #expect(throws: DecodingError.self) { _ = try decode() }
            guard case .dataCorrupted = error else { throw try #require(error) }
        }
        #expect(try JSONValue(parsing: "[3.4e38, 1e-60]").decode([Float].self) == [3.4e38, 0])
    }

    @Test func topLevelMayBeAnyValue() throws {
        #expect(try JSONValue.int(3).decode(Int.self) == 3)
        #expect(try JSONValue.null.decode(Int?.self) == nil)
        #expect(try JSONValue.string("x").decode(String?.self) == "x")
        #expect(try JSONValue.array([1, nil]).decode([Int?].self) == [1, nil])
    }

    /// The kinds and paths are those of `JSONDecoder`.
    @Test(arguments: [
        (#"{"a": 1}"#, "keyNotFound list"), (#"{"a": "x", "list": []}"#, "typeMismatch a"),
        (#"{"a": 1.5, "list": []}"#, "dataCorrupted a"), (#"{"list": null}"#, "valueNotFound list"),
        (#"{"list": [[1], [true]]}"#, "typeMismatch list.1.0"), (#"[1]"#, "typeMismatch "),
        (#"{"a": 9223372036854775808, "list": []}"#, "dataCorrupted a"),
        (#"{"list": [[1], 2]}"#, "typeMismatch list.1"),
    ])
    func errorsHaveKindAndPath(text: String, expected: String) throws {
        #expect(place { try JSONValue(parsing: text).decode(Everything.Nested.self) } == expected)
        // For a number that does not fit, JSONDecoder reports no path.
        guard !expected.hasPrefix("dataCorrupted") else { return }
        #expect(place { try JSONDecoder().decode(Everything.Nested.self, from: Data(text.utf8)) } == expected)
    }

    private func place(_ decode: () throws -> Everything.Nested) -> String? {
        func text(_ context: DecodingError.Context, _ key: (any CodingKey)? = nil) -> String {
            (context.codingPath + (key.map { [$0] } ?? []))
                .map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: ".")
        }
        do {
            _ = try decode()
            return nil
        } catch DecodingError.keyNotFound(let key, let context) {
            return "keyNotFound \(text(context, key))"
        } catch DecodingError.typeMismatch(_, let context) {
            return "typeMismatch \(text(context))"
        } catch DecodingError.valueNotFound(_, let context) {
            return "valueNotFound \(text(context))"
        } catch DecodingError.dataCorrupted(let context) {
            return "dataCorrupted \(text(context))"
        } catch {
            return "\(error)"
        }
    }

    private class Base: Codable {
        var id: Int
        init(id: Int) { self.id = id }
    }

    private final class Derived: Base {
        var name: String
        init(id: Int, name: String) {
            self.name = name
            super.init(id: id)
        }
        private enum CodingKeys: CodingKey { case name }
        required init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            name = try container.decode(String.self, forKey: .name)
            try super.init(from: container.superDecoder())
        }
        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(name, forKey: .name)
            try super.encode(to: container.superEncoder())
        }
    }

    private final class Tree: Codable {
        var inner: [Tree]?
        var value: [String: Tree]?
    }

    /// A model that contains itself, from JSON that is deeper than any stack.
    @Test(arguments: [("{\"inner\":[", "]}"), ("{\"value\":{\"a\":", "}}")]) func deepModelIsAnError(
        open: String, close: String
    ) throws {
        func text(_ depth: Int) -> Data {
            let ends = (String(repeating: open, count: depth), String(repeating: close, count: depth))
            return Data((ends.0 + "{}" + ends.1).utf8)
        }
        for depth in [300, 5_000, 200_000] {
            let error = #expect(throws: (any Error).self) { try JSONDocument(parsing: text(depth)).decode(Tree.self) }
            #expect(error.map { "\($0)".contains("512") } == true, "\(depth)")
            let response = HTTPResponse(status: 200, body: ResponseBody(text(depth)), url: "http://h/")
            let typed = #expect(throws: NetworkError.self) { try response.decode(Tree.self) }
            #expect(typed?.kind == .decoding(path: ""), "\(typed as Any)")
        }
        let tree = try JSONDocument(parsing: text(200)).decode(Tree.self)
        #expect((tree.inner?.first ?? tree.value?["a"]) != nil)
    }

    @Test func subclassDecodesItsSuperclass() throws {
        let data = try JSONEncoder().encode(Derived(id: 7, name: "x"))
        let decoded = try JSONValue(parsing: data).decode(Derived.self)
        #expect(decoded.id == 7 && decoded.name == "x")
    }
}
