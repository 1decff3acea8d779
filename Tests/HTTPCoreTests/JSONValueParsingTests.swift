import FoundationEssentials
import HTTPCore
import Testing

@Suite("JSONValue parsing")
struct JSONValueParsingTests {
    private static let valid: [(String, JSONValue)] = [
        ("null", JSONValue.null), ("true", true), (" false ", false), ("0", 0), ("-12", -12), ("\"\"", ""),
        ("\t\r\n[ ]", []), ("{ }", [:]), ("[1 , 2]", [1, 2]), ("{\"a\" : {\"b\":[null]}}", ["a": ["b": [nil]]]),
        ("\u{FEFF}{\"a\":1}", ["a": 1]), ("{\"\":1}", ["": 1]), ("{\"a\":1,\"a\":2}", ["a": 2]),
    ]

    @Test(arguments: valid)
    func validDocumentsAreParsed(_ text: String, _ value: JSONValue) throws {
        #expect(try JSONValue(parsing: text) == value)
        #expect(try JSONValue(parsing: Data(text.utf8)) == value)
    }

    @Test(arguments: [
        (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"), (#""é雪🙂""#, "é雪🙂"), (#""\u00e9\u96EA""#, "é雪"),
        (#""\ud83d\ude42!""#, "🙂!"), (#""a\u0000b""#, "a\0b"), (#""\ud83d""#, "\u{FFFD}"),
        (#""\ude42x""#, "\u{FFFD}x"), (#""\ud83d\u0041""#, "\u{FFFD}A"), (#""\ud83d\ud83d\ude42""#, "\u{FFFD}🙂"),
        (#""\ud83d\n""#, "\u{FFFD}\n"),
    ])
    func stringsAreParsed(_ text: String, _ value: String) throws {
        #expect(try JSONValue(parsing: text).string == value)
    }

    /// How a number is stored, which `==` does not tell.
    private func form(_ value: JSONValue) -> String {
        switch value {
        case .int(let value): "int \(value)"
        case .double(let value): "double \(value)"
        case .decimal(let value): "decimal \(value)"
        default: "none"
        }
    }

    @Test(arguments: [
        ("9223372036854775807", "int 9223372036854775807"), ("-9223372036854775808", "int -9223372036854775808"),
        ("999999999999999999", "int 999999999999999999"), ("1.0", "double 1.0"), ("1e3", "double 1000.0"),
        ("1E+2", "double 100.0"), ("-0", "double -0.0"), ("-0.0", "double -0.0"), ("0.1", "double 0.1"),
        ("123.456e-5", "double 0.00123456"), ("1e22", "double 1e+22"), ("1e23", "double 1e+23"),
        ("1.7976931348623157e308", "double 1.7976931348623157e+308"), ("5e-324", "double 5e-324"),
        ("0.30000000000000004", "double 0.30000000000000004"), ("1000000000000000000000", "double 1e+21"),
        ("10000000000000000000", "double 1e+19"), ("0.000", "double 0.0"),
        ("0.10000000000000000000000", "double 0.1"), ("-1.50000000000000000", "double -1.5"),
        ("0.12345678901234567", "decimal 0.12345678901234567"), ("-9007199254740993.5", "decimal -9007199254740993.5"),
        ("12345678901234567890", "decimal 12345678901234567890"),
        ("-9223372036854775809", "decimal -9223372036854775809"),
        ("0.12345678901234567890", "decimal 0.1234567890123456789"),
        ("1234567890.12345678901e2", "decimal 123456789012.345678901"),
        ("0.10000000000000000555", "decimal 0.10000000000000000555"),
        // Neither type holds these exactly: the nearest double.
        ("1.2345678901234567890e200", "double 1.2345678901234567e+200"), ("1e-400", "double 0.0"),
    ])
    func numbersAreStoredExactly(_ text: String, _ expected: String) throws {
        #expect(form(try JSONValue(parsing: text)) == expected)
    }

    @Test func fractionsParseAsTheNearestDouble() throws {
        var random = SplitMix64(state: 11)
        for _ in 0..<20_000 {
            let double = Double(bitPattern: random.next())
            guard double.isFinite else { continue }
            #expect(try JSONValue(parsing: "\(double)").double == double)
            let short = "\(Int64(truncatingIfNeeded: random.next() >> 16)).\(random.next() % 1000)"
            #expect(try JSONValue(parsing: short).double == Double(short))
        }
    }

    @Test(arguments: [
        ("", "line 1, column 1: the document is empty"),
        (" \n ", "line 2, column 2: the document is empty"),
        ("[1,]", #"line 1, column 4: expected a value, found "]""#),
        ("[1 2]", #"line 1, column 4: expected "," or "]", found "2""#),
        ("{\"a\":1\n \"b\"", #"line 2, column 2: expected "," or "}", found "\"""#),
        ("{\"é雪\" 1}", #"line 1, column 7: expected ":" after the name, found "1""#),
        ("{a:1}", #"line 1, column 2: expected a member's name, found "a""#),
        ("{\"a\":1,}", #"line 1, column 8: expected a member's name, found "}""#),
        ("[", "line 1, column 2: expected a value, found the end of the document"),
        ("{\"a\":", "line 1, column 6: expected a value, found the end of the document"),
        ("1 2", #"line 1, column 3: expected the end of the document, found "2""#),
        ("<html>", #"line 1, column 1: expected a value, found "<""#),
        ("nul", #"line 1, column 1: expected a value, found "n""#),
        ("NaN", #"line 1, column 1: expected a value, found "N""#),
        ("-", "line 1, column 2: expected a digit, found the end of the document"),
        ("-Infinity", #"line 1, column 2: expected a digit, found "I""#),
        ("01", "line 1, column 2: a number must not begin with 0"),
        ("1.", "line 1, column 3: expected a digit after the decimal point, found the end of the document"),
        (".5", #"line 1, column 1: expected a value, found ".""#),
        ("+1", #"line 1, column 1: expected a value, found "+""#),
        ("1e", "line 1, column 3: expected a digit in the exponent, found the end of the document"),
        ("[1e400]", "line 1, column 2: the number is too large"),
        ("[1e99999999999999999999]", "line 1, column 2: the number is too large"),
        ("\"a", "line 1, column 1: the string has no closing quote"),
        ("[\"a\\n", "line 1, column 2: the string has no closing quote"),
        ("\"a\nb\"", "line 1, column 3: a control character in a string must be escaped"),
        (#""\x""#, #"line 1, column 3: unknown escape: \ followed by "x""#),
        (#""\u12g4""#, "line 1, column 4: expected four hexadecimal digits after \\u"),
        (#""\u12"#, "line 1, column 4: expected four hexadecimal digits after \\u"),
        ("[1] // comment", #"line 1, column 5: expected the end of the document, found "/""#),
        ("\0", #"line 1, column 1: expected a value, found "\0""#),
    ])
    func invalidJSONIsRejectedWithItsPosition(_ text: String, _ expected: String) throws {
        let error = try #require(throws: JSONValue.ParsingError.self) { try JSONValue(parsing: text) }
        #expect(error.description == expected)
        #expect(throws: JSONValue.ParsingError.self) { try JSONValue(parsing: Data(text.utf8)) }
    }

    @Test func invalidUTF8IsRejected() throws {
        for content: [UInt8] in [[0xE9], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0x5C, 0x6E, 0xFF]] {
            let data = Data([0x22] + content + [0x22])
            let error = try #require(throws: JSONValue.ParsingError.self) { try JSONValue(parsing: data) }
            #expect(error.description == "line 1, column 2: the string is not in UTF-8")
        }
        #expect(throws: JSONValue.ParsingError.self) { try JSONValue(parsing: Data([0xFF, 0xFE, 0x31, 0x00])) }
        #expect(throws: JSONValue.ParsingError.self) { try JSONValue(parsing: Data([0xEF, 0xBB])) }
    }

    @Test(arguments: ["[", "{\"a\":", "[[{\"a\":"])
    func deeplyNestedDocumentIsAnError(_ opening: String) throws {
        let text = String(repeating: opening, count: 100_000)
        let error = try #require(throws: JSONValue.ParsingError.self) { try JSONValue(parsing: text) }
        #expect(error.reason.contains("512"))
    }

    @Test func nestingUpToTheLimitIsParsed() throws {
        let depth = JSONValue.maximumDepth
        let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        #expect(try JSONValue(parsing: text).description == text)
        #expect(throws: JSONValue.ParsingError.self) { try JSONValue(parsing: "[\(text)]") }
    }

    @Test func sliceOfALargerBufferIsParsed() throws {
        let data = Data("xx[1,2]yy".utf8)
        #expect(try JSONValue(parsing: data[2..<7]) == [1, 2])
        #expect(try JSONValue(parsing: data[2..<6].dropFirst(1).prefix(1)) == 1)
    }

    @Test func everyPrefixOfADocumentIsAnError() throws {
        let text = #"{"a":[1,-2.5e3,"x\u00e9\n"],"b":{"c":true,"d":null},"e":false}"#
        for end in 0..<text.utf8.count {
            #expect(throws: JSONValue.ParsingError.self) { try JSONValue(parsing: Data(text.utf8.prefix(end))) }
        }
        #expect(try JSONValue(parsing: text)["b"]["d"].isNull)
    }

    @Test func randomBytesNeverCrash() {
        var random = SplitMix64(state: 5)
        let alphabet = Array(#"{}[]",:0123456789.eE+-truefalsn\u "#.utf8) + [0x00, 0xFF, 0xC3]
        for _ in 0..<20_000 {
            let bytes = (0..<Int(random.next() % 24)).map { _ in alphabet[Int(random.next() % UInt64(alphabet.count))] }
            _ = try? JSONValue(parsing: Data(bytes))
        }
    }

    @Test func writtenValueParsesToTheSameValue() throws {
        var random = SplitMix64(state: 3)
        for _ in 0..<2_000 {
            let value = JSONValue.random(using: &random, depth: 4)
            #expect(try JSONValue(parsing: value.data()) == value)
            #expect(try JSONValue(parsing: value.data(prettyPrinted: true, sortedKeys: false)) == value)
            #expect(try JSONValue(parsing: value.description).hashValue == value.hashValue)
        }
    }
}

/// A random number generator with a seed, so that failures are reproducible.
struct SplitMix64: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

extension String {
    /// A random text with many characters that are special in JSON and URLs.
    static func random(using random: inout SplitMix64, maximumLength: Int = 12) -> String {
        let special = Array("%/?#[]&=+ \"\\:@.0aF~\0\n\r\u{7F}éé雪🙂\u{301}\u{200D}<>^`{|}".unicodeScalars)
        var text = String.UnicodeScalarView()
        for _ in 0..<Int(random.next() % UInt64(maximumLength + 1)) {
            if random.next() % 4 == 0, let scalar = Unicode.Scalar(UInt32(random.next() % 0x11_0000)) {
                text.append(scalar)
            } else {
                text.append(special[Int(random.next() % UInt64(special.count))])
            }
        }
        return String(text)
    }
}

extension JSONValue {
    fileprivate static func random(using random: inout SplitMix64, depth: Int) -> JSONValue {
        switch random.next() % (depth == 0 ? 7 : 9) {
        case 0: return .null
        case 1: return .bool(random.next() % 2 == 0)
        case 2: return .int(Int64(truncatingIfNeeded: random.next() >> (random.next() % 64)))
        case 3, 4:
            let value = Double(bitPattern: random.next())
            return .double(value.isFinite ? value : 0.5)
        case 5: return .decimal(Decimal(random.next()) / Decimal(1_000_000))
        case 6: return .string(.random(using: &random))
        case 7: return .array((0..<random.next() % 5).map { _ in .random(using: &random, depth: depth - 1) })
        default:
            var members: [String: JSONValue] = [:]
            for _ in 0..<random.next() % 5 {
                members[.random(using: &random)] = .random(using: &random, depth: depth - 1)
            }
            return .object(members)
        }
    }
}
