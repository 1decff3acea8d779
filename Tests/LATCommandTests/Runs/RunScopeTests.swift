import DomainTables
import FoundationEssentials
import LATNetworking
import TestSupport
import Testing

@testable import lat

/// The variables of a run as values, with an outside that is known.
@Suite struct RunScopeTests {
    private static let outside = RunOutside(
        variable: { $0 == "HOME" ? "/home/ada" : $0 == "WHICH" ? "HOME" : nil },
        dotenv: { $0 == "KEY" ? "s3cret" : nil },
        now: { Date(timeIntervalSince1970: 1_794_220_001.25) }, random: { $0.upperBound }, uuid: { "u-1" })

    private func expand(_ text: String, _ change: (inout RunScope) -> Void = { _ in }) throws -> String {
        var scope = RunScope(Self.outside)
        change(&scope)
        let source = SourceText(Array(text.utf8), name: "a.http")
        return try scope.expanded(HTTPFile.Template(text: text, start: 0), of: source)
    }

    @Test(arguments: [
        ("{{$uuid}}-{{$guid}}-{{$random.uuid}}", "u-1-u-1-u-1"), ("{{$timestamp}}", "1794220001"),
        ("{{$timestamp -1 d}}", "1794133601"), ("{{ $timestamp 2 h }}", "1794227201"),
        ("{{$isoTimestamp}}", "2026-11-09T10:26:41.250Z"), ("{{$datetime rfc1123}}", "Mon, 09 Nov 2026 10:26:41 GMT"),
        ("{{$datetime iso8601 1 w}}", "2026-11-16T10:26:41.250Z"),
        ("{{$datetime 'DD.MM.YYYY HH:mm'}}", "09.11.2026 10:26"),
        ("{{$randomInt}}", "999"), ("{{$randomInt 5 10}}", "9"), ("{{$random.integer(1, 4)}}", "3"),
        ("{{$random.hexadecimal(4)}}", "ffff"), ("{{$random.alphabetic(3)}}", "zzz"),
        ("{{$random.email}}", "zzzzzzzz@example.org"),
        ("{{$processEnv HOME}}{{$env.HOME}}", "/home/ada/home/ada"), ("{{$processEnv %WHICH}}", "/home/ada"),
        ("{{$dotenv KEY}}", "s3cret"), ("no {{ mark", "no {{ mark"), ("{{#if x}}{{/if}}", "{{#if x}}{{/if}}"),
        ("{}}", "{}}"),
    ]) func computedVariablesAreReplaced(_ text: String, _ expanded: String) throws {
        #expect(try expand(text) == expanded)
    }

    @Test func precedenceIsGivenCapturedFileEnvironmentDomain() throws {
        let all = "{{a}} {{b}} {{c}} {{d}} {{e}} {{d.inner}}"
        let text = try expand(all) { scope in
            let names = ["a", "b", "c", "d", "e"]
            scope.domains = Dictionary(uniqueKeysWithValues: names.map { ($0, "domain") })
            for name in names.prefix(4) { scope.environment[name] = "environment" }
            scope.environment["d.inner"] = 7
            for name in names.prefix(3) { scope.definitions[name] = HTTPFile.Template(text: "file", start: 0) }
            for name in names.prefix(2) { scope.captured[name] = "captured" }
            scope.given["a"] = "given"
        }
        #expect(text == "given captured file environment domain 7")
    }

    @Test func definitionsMayUseOthersAndAreEvaluatedOnce() throws {
        let text = try expand("{{url}} {{id}} {{id}}") { scope in
            scope.definitions["host"] = HTTPFile.Template(text: "h.test", start: 0)
            scope.definitions["url"] = HTTPFile.Template(text: "http://{{host}}/{{id}}", start: 0)
            scope.definitions["id"] = HTTPFile.Template(text: "{{$uuid}}", start: 0)
        }
        #expect(text == "http://h.test/u-1 u-1 u-1")
    }

    /// A response that leaves something new changes the definitions that use it, but not what they compute.
    @Test func definitionsFollowCapturesAndExchanges() throws {
        let numbers = Box(0)
        var outside = Self.outside
        outside.uuid = {
            numbers.change { $0 += 1 }
            return "u-\(numbers.value)"
        }
        var scope = RunScope(outside)
        for (name, text) in [
            ("auth", "Bearer {{token}} {{id}}"), ("id", "{{$uuid}}.{{$uuid}}"), ("last", "{{login.response.status}}"),
        ] { scope.definitions[name] = HTTPFile.Template(text: text, start: 0) }
        func expanded() throws -> String {
            let text = "{{auth}} {{last}} {{auth}}"
            return try scope.expanded(
                HTTPFile.Template(text: text, start: 0), of: SourceText(Array(text.utf8), name: "a.http"))
        }
        for (user, status) in [("admin", 200), ("user", 201)] {
            scope.captured["token"] = .string(user)
            scope.exchanges["login"] = RunExchange(
                request: HTTPRequest("POST", "http://h/login"),
                response: HTTPResponse(status: status, url: "http://h/login"),
                duration: .zero)
            let auth = "Bearer \(user) u-1.u-2"
            #expect(try expanded() == "\(auth) \(status) \(auth)")
        }
        scope.captured["token"] = nil
        #expect(throws: RunProblem.self) { try expanded() }
    }

    @Test func partsOfEarlierExchangesAreFound() throws {
        var response = HTTPResponse(status: 201, url: "http://h/login")
        response.headers = ["Location": "/a"]
        response.body = ResponseBody(Data(#"{"t":"x","l":[{"id":1},{"id":2}]}"#.utf8))
        let request = HTTPRequest(
            "POST", "http://h/login", headers: ["X-Own": "o"], body: .data(Data(#"{"n":"Ada"}"#.utf8)))
        let exchange = RunExchange(request: request, response: response, duration: .zero)
        func part(_ path: String) throws -> String {
            try expand("{{login.\(path)}}") { $0.exchanges["login"] = exchange }
        }
        #expect(try part("response.body.$.t") == "x" && part("response.body.$.l[-1].id") == "2")
        #expect(try part("response.body.$.l[*].id") == "[1,2]" && part("response.body.*").hasPrefix("{\"t\""))
        #expect(try part("response.headers.location") == "/a" && part("response.status") == "201")
        #expect(try part("request.headers.X-Own") == "o" && part("request.body.$.n") == "Ada")
        for (path, message) in [
            ("response.body.$.nope", "the body of the response of \"login\" has nothing at $.nope"),
            ("response.headers.X", "the response of \"login\" has no header field X"),
            ("response.cookies.a", "names no part"),
        ] {
            #expect(throws: RunProblem.self) { try part(path) }
            do { _ = try part(path) } catch let problem as RunProblem {
                #expect(problem.summary.contains(message))
            } catch {}
        }
    }

    @Test(arguments: [
        ("x {{tokn}}", 3, "there is no variable \"tokn\"; did you mean \"token\"?"),
        ("{{$uid}}", 1, "unknown variable $uid; did you mean \"$uuid\"?"),
        ("{{$randomInt 5 5}}", 1, "$randomInt needs a minimum below its maximum"),
        ("{{$timestamp -1 fortnight}}", 1, "$timestamp takes a number and a unit, which is ms, s, m, h, d or w"),
        ("{{$processEnv NOPE}}", 1, "the variable NOPE of this process is not set; export it before lat run"),
        ("{{$dotenv NOPE}}", 1, "the file .env beside this one has no NOPE"),
        ("{{loop}}", 1, "the variable \"loop\" is defined by itself"),
        ("{{login.response.body.$.a}}", 1, "no response of \"login\" is known"),
    ]) func missingVariablesHaveAPlace(_ text: String, _ column: Int, _ message: String) throws {
        do {
            _ = try expand(text) { scope in
                scope.captured["token"] = "t"
                scope.definitions["loop"] = HTTPFile.Template(text: "{{loop}}", start: 0)
            }
            Issue.record("\(text) has a value")
        } catch let problem as RunProblem {
            let first = try #require(problem.diagnostics.first)
            #expect(first.message.hasPrefix(message), "\(first)")
            #expect(first.position.line == 1 && first.position.column == column)
        }
    }

    @Test func dotenvIsReadLikeAShell() {
        let text = "# keys\nA=1\nexport B = two words # why\nC='q # r'\nD=\"x\"\nE=\"y # z\" # why\n\nnothing\n"
        #expect(
            RunEnvironment.dotenv(text) == ["A": "1", "B": "two words", "C": "q # r", "D": "x", "E": "y # z"])
    }
}
