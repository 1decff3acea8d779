import LATNetworking
import Testing

@testable import lat

@Suite struct ArgumentValueTests {
    private let option = Option("--thing", value: "X", help: "")

    @Test(arguments: [
        ("500ms", Duration.milliseconds(500)), ("1s", .seconds(1)), ("1.5s", .milliseconds(1_500)),
        ("0.3s", .milliseconds(300)), ("2m", .seconds(120)), ("1h", .seconds(3_600)), ("1h30m", .seconds(5_400)),
        (".5ms", .microseconds(500)), ("5", .seconds(5)), ("0.2", .milliseconds(200)), (".5", .milliseconds(500)),
        ("500h", .seconds(1_800_000)),
    ])
    func durationsAreExact(text: String, duration: Duration) throws {
        #expect(try DurationArgument.parse(text, of: option) == duration)
    }

    @Test(arguments: [
        ("5x", "--thing \"5x\" is not a duration; write it as 500ms, 1.5s, 2m or 1h"),
        ("", "--thing \"\" is not a duration; write it as 500ms, 1.5s, 2m or 1h"),
        ("-1s", "--thing \"-1s\" is not a duration; write it as 500ms, 1.5s, 2m or 1h"),
        ("1.2.3s", "--thing \"1.2.3s\" is not a duration; write it as 500ms, 1.5s, 2m or 1h"),
        ("0s", "--thing 0s is out of range; give more than 0 and at most 500h"),
        ("501h", "--thing 501h is out of range; give more than 0 and at most 500h"),
        ("99999h", "--thing 99999h is out of range; give more than 0 and at most 500h"),
    ])
    func invalidDurationIsRefused(text: String, message: String) {
        #expect(throws: UsageError(message)) { try DurationArgument.parse(text, of: option) }
    }

    @Test func agesMayBeLongerThanATimer() throws {
        let parsed = try ArgumentParser(options: [option]).parse(["--thing", "cacheElseNetwork:30d"])
        #expect(try CacheArgument.parse(parsed, of: option) == .cacheElseNetwork(.fixed(.seconds(2_592_000))))
        let age = try DurationArgument.parse("90d", of: option, upTo: DurationArgument.longestAge)
        #expect(age == .seconds(7_776_000))
    }

    @Test func parametersAreTextUnlessTyped() throws {
        let parsed = try ParameterArgument.parse(
            [
                "q=swift", "page:=2", "on:=true", "tags:=[\"a\",1]", "none:=null", "f:={\"a\":{}}", "e=", "x=a:=b",
                "a:b=c",
            ],
            of: option)
        #expect(
            parsed == [
                "q": "swift", "page": 2, "on": true, "tags": ["a", 1], "none": .null, "f": ["a": [:]], "e": "",
                "x": "a:=b", "a:b": "c",
            ])
    }

    @Test(arguments: [
        (["q"], "--thing \"q\" has no value; write name=text, or name:=json for a number, list or object"),
        (["=x"], "--thing \"=x\" has no name; write name=text or name:=json"),
        ([":=1"], "--thing \":=1\" has no name; write name=text or name:=json"),
        (["a=1", "a=2"], "--thing \"a\" is given twice; for several values write 'a:=[\"a\",\"b\"]'"),
    ])
    func invalidParameterIsRefused(arguments: [String], message: String) {
        #expect(throws: UsageError(message)) { try ParameterArgument.parse(arguments, of: option) }
    }

    @Test func nonJSONParameterErrorShowsTextSyntax() throws {
        let error = #expect(throws: UsageError.self) { try ParameterArgument.parse(["a:=b c"], of: option) }
        let message = try #require(error?.message)
        #expect(message.hasPrefix("--thing \"a:=b c\" is not JSON after := (line 1, column 1"))
        #expect(message.hasSuffix("for text, write a=b c"))
    }

    @Test func headersAreSetRemovedAndSentEmpty() throws {
        let headers = try HeaderArgument.parse(
            ["Accept: a/b", "accept:  c/d", "X-Empty;", "User-Agent:", "X-Time: 12:30;"], of: option)
        #expect(headers[values: "Accept"] == ["a/b", "c/d"])
        #expect(headers["X-Empty"] == "")
        #expect(headers["User-Agent"] == nil)
        #expect(headers["X-Time"] == "12:30;")
        var laidOver: HTTPHeaders = ["User-Agent": "default"]
        laidOver.merge(headers)
        #expect(laidOver["User-Agent"] == nil)
    }

    @Test(arguments: [
        ("Accept", "has no colon; write 'Name: value'"),
        ("X Y: z", "has no usable name before the colon; write 'Name: value' without spaces in the name"),
        (": z", "has no usable name before the colon; write 'Name: value' without spaces in the name"),
        ("X; y", "has no colon; write 'Name: value', or 'X;' to send it empty"),
        ("X: a\r\nY: b", "contains a control character; remove it"),
    ])
    func invalidHeaderIsRefusedInOneLine(text: String, message: String) throws {
        let error = #expect(throws: UsageError.self) { try HeaderArgument.parse([text], of: option) }
        let text = try #require(error?.message)
        #expect(text.hasPrefix("--thing \"") && text.hasSuffix(message))
        #expect(!text.contains("\n"))
    }
}
