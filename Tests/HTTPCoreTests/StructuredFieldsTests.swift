import FoundationEssentials
import HTTPCore
import Testing

/// Cases after those of github.com/httpwg/structured-field-tests: what is read, and how it is written again.
@Suite struct StructuredFieldsTests {
    @Test(arguments: [
        ("1", "1"), ("-0", "0"), ("00042", "42"), ("999999999999999", "999999999999999"), ("-42", "-42"),
        ("1.5", "1.5"),
        ("1.500", "1.5"), ("-0.10", "-0.1"), ("999999999999.999", "999999999999.999"), ("0.0", "0.0"), ("  1  ", "1"),
        ("\"a b\"", "\"a b\""), (#""\"\\""#, #""\"\\""#), ("\"\"", "\"\""), ("a", "a"), ("*a/b:c", "*a/b:c"),
        ("A.b-c_d~e|f", "A.b-c_d~e|f"), ("?1", "?1"), ("?0", "?0"), (":aGVsbG8=:", ":aGVsbG8=:"), ("::", "::"),
        (":aGVsbG8:", ":aGVsbG8=:"), ("@1659578233", "@1659578233"), ("@-1", "@-1"),
        (#"%"f%c3%bc""#, #"%"f%c3%bc""#), (#"%"a%25%22""#, #"%"a%25%22""#), ("a;b", "a;b"), ("a;b=?1", "a;b"),
        ("a;b=?0", "a;b=?0"), ("a; b=1;  c=x", "a;b=1;c=x"), ("a;b=1;b=2", "a;b=2"), ("a;*k.-_=\"v\"", "a;*k.-_=\"v\""),
        ("1;a=2;b=3;a=4", "1;a=4;b=3"),
    ])
    func itemIsWrittenStrictly(_ text: String, _ written: String) throws {
        #expect(try #require(StructuredField.item(text)).text == written)
    }

    @Test(arguments: [
        "", " ", "1 2", "--1", "1.", ".5", "1.1234", "1234567890123456", "1234567890123.1", "- 1", "+1", "\"a", "a\"",
        #""\a""#, "\"\u{7F}\"", "\"ü\"", "ü", "?", "?2", "?true", ":a", ":_-8=:",
        ":aGVsbG8= :", "a;", "a;;b", "a;B=1",
        "a;b=", "a ;b", "@1.5", "@", "%a", #"%"%C3%BC""#, #"%"%c3""#, #"%"%ff""#, "%\"a", "\t1", "(1 2)", "a,b", "1;=2",
    ])
    func malformedItemIsRefused(_ text: String) { #expect(StructuredField.item(text) == nil) }

    @Test(
        arguments: [
            ("", ""), ("a", "a"), ("1,2", "1, 2"), ("1 ,\t2", "1, 2"), ("(a b)", "(a b)"), ("( a   b );x", "(a b);x"),
            ("()", "()"), ("(1;a 2);b=c, d", "(1;a 2);b=c, d"), ("a=1", nil), ("1,", nil), (",1", nil), ("1,,2", nil),
            ("(a", nil), ("(a,b)", nil), ("(a(b))", nil), ("a b", nil), ("(\"a\"\"b\")", nil), ("(a)b", nil),
            ("1, \t", nil),
        ] as [(String, String?)])
    func listIsWrittenStrictly(_ text: String, _ written: String?) {
        #expect(StructuredField.list(text).flatMap { StructuredField.text($0) } == written)
    }

    @Test(
        arguments: [
            ("", ""), ("a=1", "a=1"), ("a", "a"), ("a=?1", "a"), ("a=?0", "a=?0"), ("a;x=1", "a;x=1"),
            ("a=?1;x", "a;x"),
            ("a=1,b=2,a=3", "a=3, b=2"), ("a=(1 2);q , *b", "a=(1 2);q, *b"), ("a =1", nil), ("a= 1", nil),
            ("A=1", nil),
            ("a=1,", nil), ("a=1 b=2", nil), ("=1", nil), ("1=a", nil), ("a=,b", nil),
        ] as [(String, String?)])
    func dictionaryIsWrittenStrictly(_ text: String, _ written: String?) {
        #expect(StructuredField.dictionary(text).flatMap { StructuredField.text($0) } == written)
    }

    @Test(
        arguments: [
            .string("ü"), .string("a\n"), .token(""), .token("a b"), .token("1a"), .integer(1_000_000_000_000_000),
            .date(.max), .decimal(thousandths: .max),
        ] as [StructuredField.Value])
    func unwritableValueHasNoText(_ value: StructuredField.Value) { #expect(value.text == nil) }

    @Test func keysKeepTheirPlace() {
        var fields = StructuredField.Parameters()
        for (key, value) in [("a", 1), ("b", 2), ("a", 3)] as [(String, Int64)] { fields[key] = .integer(value) }
        #expect(fields.keys == ["a", "b"] && fields["a"] == .integer(3))
        fields["a"] = nil
        #expect(fields.keys == ["b"] && fields.text == ";b=2")
        fields["B"] = .integer(1)
        #expect(fields.text == nil)
    }

    @Test func anyBytesAreReadWithoutTrap() {
        var generator = SystemRandomNumberGenerator()
        let alphabet = Array("()\":;=,?@%*a1.-\\ \u{7F}ü".utf8)
        for _ in 0..<5_000 {
            let bytes = (0..<Int.random(in: 0...24)).map { _ in alphabet.randomElement(using: &generator) ?? 0 }
            let text = String(decoding: bytes, as: UTF8.self)
            // What is written is read as the same again.
            if let item = StructuredField.item(text) { #expect(item.text.flatMap(StructuredField.item) == item) }
            if let list = StructuredField.list(text) {
                #expect(StructuredField.text(list).flatMap(StructuredField.list) == list)
            }
            if let fields = StructuredField.dictionary(text) {
                #expect(StructuredField.text(fields).flatMap(StructuredField.dictionary) == fields)
            }
        }
    }
}

@Suite struct HTTPBodyTests {
    @Test func bodyCanBeRead() {
        let chunks = AsyncStream<Data> { $0.finish() }
        let bodies: [(HTTPBody, HTTPBody.Kind, String?, Int64?, String?)] = [
            (.text("abc"), .data, "abc", 3, "text/plain; charset=utf-8"),
            (.json(["a": 1]), .value, #"{"a":1}"#, 7, "application/json"),
            (.form(["a": "b c"]), .value, "a=b%20c", 7, "application/x-www-form-urlencoded"),
            (.json, .parameters(.json), nil, nil, nil),
            (.file("/a.png"), .file(path: "/a.png"), nil, nil, "image/png"),
            (.stream(chunks, length: 9), .stream, nil, 9, nil), (.stream(chunks), .stream, nil, nil, nil),
            (.multipart([]), .multipart([]), nil, nil, nil),
        ]
        for (body, kind, text, size, type) in bodies {
            #expect(body.kind == kind && body.size == size && body.contentType == type)
            #expect(body.data.map { String(decoding: $0, as: UTF8.self) } == text)
        }
    }

    @Test func valueThatDoesNotEncodeHasNoData() {
        let body = HTTPBody.json(Double.nan)
        #expect(body.kind == .value && body.data == nil && body.size == nil)
    }
}
