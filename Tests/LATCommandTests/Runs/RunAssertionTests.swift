import FoundationEssentials
import LATNetworking
import Testing

@testable import lat

/// Assertions as values, over one response.
@Suite struct RunAssertionTests {
    private static let exchange: RunExchange = {
        var response = HTTPResponse(status: 201, url: "http://h/a")
        response.headers = ["Content-Type": "application/json", "X-Count": "7"]
        response.body = ResponseBody(
            Data(
                #"{"name":"Ada","age":36,"ok":true,"none":null,"tags":["a","b"],"o":{"first name":"x"},"day":"2026-11-29","big":9007199254740993,"text":"10","huge":123456789012345678901235}"#
                    .utf8))
        return RunExchange(request: HTTPRequest("GET", "http://h/a"), response: response, duration: .milliseconds(250))
    }()

    private func failure(_ text: String) throws -> String? {
        let assertion = try RunAssertion(HTTPFile.Template(text: text, start: 0))
        return assertion.failure(in: Self.exchange, assertion.operand?.text ?? "")
    }

    @Test(arguments: [
        "status == 201", "status == 2xx", "status != 200", "status < 300", "status >= 201",
        "header Content-Type contains json",
        "header x-count == 7", "header X-Count > 6", "header X-Nope missing", "$.name == \"Ada\"", "$.name == Ada",
        "$.age == 36",
        "$.age == 36.0", "$.age <= 36", "$.ok == true", "$.none == null", "$.none exists", "$.nope missing",
        "$.tags count == 2",
        "$.tags contains \"a\"", "$.tags contains b", "$.tags[-1] == b", "$.tags == [\"a\",\"b\"]",
        "$.o['first name'] == x",
        "$.o contains first", "$.name startsWith A", "$.name endsWith \"da\"", "$.name matches ^A.a$",
        "$.name matches /d/",
        "$.tags[*] count == 2", "$ is object", "$.name is text", "$.age is number", "$.tags is list", "$.none is null",
        "$.ok is boolean",
        "duration < 1s", "duration < 300 ms", "duration >= 250", "size > 10", "body contains Ada", "url == http://h/a",
        "$.day > 2026-01-01", "$.name count == 3", "version exists", "header X-Count < 10", "$.text > 9",
        "$.big > 9007199254740992",
    ]) func holds(_ text: String) throws {
        // A member that the object lacks is not contained.
        if text == "$.o contains first" {
            #expect(try failure(text) != nil)
        } else {
            #expect(try failure(text) == nil)
        }
    }

    @Test(arguments: [
        ("status == 200", "it is 201"), ("status == 4xx", "it is 201"), ("$.name == \"Eve\"", "it is \"Ada\""),
        ("$.nope == 1", "there is none"), ("$.nope != 1", "there is none"),
        ("$.big == 9007199254740992", "it is 9007199254740993"),
        ("$.huge == 123456789012345678901234", "it is 123456789012345678901235"),
        ("header X-Nope exists", "there is none"), ("$.tags count > 2", "it is 2"),
        ("$.none missing", "it is null"), ("duration < 100ms", "it is 250"), ("$.age is text", "it is 36"),
        ("$.age == \"36\"", "it is 36"),
        ("$.name < 5", "it is \"Ada\""), ("$.name matches ^B", "it is \"Ada\""),
        ("$.tags contains c", "it is [\"a\",\"b\"]"), ("header X-Count > 10", "it is \"7\""),
        ("$.none > 0", "it is null"), ("$.tags > 0", "it is [\"a\",\"b\"]"), ("$.ok > 0", "it is true"),
        ("$.o >= 0", "it is {\"first name\":\"x\"}"),
    ]) func failsWithWhatWasFound(_ text: String, _ reason: String) throws {
        let found = try failure(text)
        #expect(found == reason || reason == "it is 250" && found?.hasPrefix("it is 250") == true, "\(found ?? "")")
    }

    @Test func slowExpressionIsGivenUp() throws {
        var exchange = Self.exchange
        exchange.response.body = ResponseBody(Data((String(repeating: "a", count: 60) + "!").utf8))
        let assertion = try RunAssertion(HTTPFile.Template(text: "body matches ^(a+)+$", start: 0))
        #expect(assertion.failure(in: exchange, "^(a+)+$")?.hasPrefix("the regular expression was given up") == true)
    }

    @Test func secretsAreNotShown() throws {
        var exchange = Self.exchange
        exchange.response.headers = ["X-Auth-Token": "s3cret", "Set-Cookie": "sid=s3cret"]
        exchange.response.body = ResponseBody(Data(#"{"n":[1],"tokens":{"access_token":["s3cret"]}}"#.utf8))
        for test in [
            "header X-Auth-Token == a", "header Set-Cookie contains a", "$[*] contains a", "$.*.access_token == a",
            "$.tokens.access_token[0] == a", "$.tokens contains a", "body contains zzz",
        ] {
            let assertion = try RunAssertion(HTTPFile.Template(text: test, start: 0))
            let reason = assertion.failure(in: exchange, assertion.operand?.text ?? "")
            #expect(reason?.contains("s3cret") == false, "\(test): \(reason ?? "it passed")")
        }
    }

    @Test func nothingIsMissingInWhatIsNotJSON() throws {
        let assertion = try RunAssertion(HTTPFile.Template(text: "$.error missing", start: 0))
        for (body, passes) in [("<html>down</html>", false), (#"{"a": 1, "rows": ["#, false), ("{}", true), ("", true)]
        {
            var exchange = Self.exchange
            exchange.response.body = ResponseBody(Data(body.utf8))
            #expect((assertion.failure(in: exchange, "") == nil) == passes, "\(body)")
        }
    }

    @Test func longValuesAreCut() throws {
        var exchange = Self.exchange
        exchange.response.body = ResponseBody(Data(String(repeating: "x", count: 10_000).utf8))
        let assertion = try RunAssertion(HTTPFile.Template(text: "body == y", start: 0))
        #expect((assertion.failure(in: exchange, "y") ?? "").count < 250)
        let path = try RunAssertion(HTTPFile.Template(text: "$.a == 1", start: 0))
        #expect(path.failure(in: exchange, "1")?.hasPrefix("the body cannot be read as JSON: line 1, column 1") == true)
    }
}
