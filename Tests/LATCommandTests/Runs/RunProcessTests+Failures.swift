import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

// What fails, and how it is told.
extension RunProcessTests {
    @Test func junitIsXMLThatServersRead() async throws {
        server.fallback { $0.path == "/bad" ? .status(500, reason: "a<b & \"c\"") : .text("x") }
        let closed = try ClosedPort()
        let result = try await run(
            """
            ### good & <first>
            # @name good
            GET \(server.url("/good"))
            ### bad
            GET \(server.url("/bad?a=1&b=2"))
            ### down
            GET \(closed.url("/"))
            """, "--continue", "--junit", "out.xml")
        #expect(result.exitCode == 1)
        let script = """
            import json, xml.etree.ElementTree as tree
            root = tree.parse('out.xml').getroot()
            suite = root[0]
            assert root.tag == 'testsuites' and suite.tag == 'testsuite'
            cases = [[case.get('name'), [child.tag for child in case], float(case.get('time')) >= 0] for case in suite]
            print(json.dumps([suite.attrib, cases, suite[1][0].get('message'), suite[1][0].text]))
            """
        let parsed = try await LatProcess(["-c", script], in: folder.path, program: "/usr/bin/python3").result
        let value = try JSONValue(parsing: parsed.text)
        #expect(value[0]["name"].string == "a.http" && value[0]["tests"].string == "3", "\(parsed.err)")
        #expect(
            value[0]["failures"].string == "1" && value[0]["errors"].string == "1" && value[0]["skipped"].string == "0")
        #expect(value[1][0] == ["good", [], true] && value[1][1] == ["bad", ["failure"], true])
        #expect(value[1][2] == ["down", ["error"], true])
        #expect(value[2].string?.hasPrefix("the server answered 500 a<b & \"c\";") == true)
        #expect(value[3].string?.contains("a.http:5: ") == true)
    }

    @Test func interruptionIsInTheJUnitFile() async throws {
        server.fallback { $0.path == "/hang" ? MockReply.status(200).stalling(.start) : .text("x") }
        let text = ["a", "hang", "c"].map { "### \($0)\nGET \(server.url("/\($0)"))\n" }.joined()
        for name in ["a.http", "b.http"] { try folder.write(Data(text.utf8), to: name) }
        let process = try LatProcess(["run", "a.http", "b.http", "--junit", "out.xml"], in: folder.path)
        try await eventually("the second request") { server.requestCount == 2 }
        process.send(signal: SIGINT)
        #expect(await process.result.exitCode == 130)
        let xml = String(decoding: folder.read("out.xml") ?? Data(), as: UTF8.self)
        #expect(xml.contains("tests=\"3\" failures=\"0\" errors=\"1\" skipped=\"1\""), "\(xml)")
        #expect(xml.contains("tests=\"3\" failures=\"0\" errors=\"0\" skipped=\"3\""), "\(xml)")
        #expect(xml.contains("<error message=\"the run was interrupted\">"))
    }

    @Test func reportDoesNotReplaceTheRequests() async throws {
        let result = try await run("GET \(server.url())\n", "--junit", "a.http")
        #expect(result.exitCode == 2 && result.err.contains("would replace the requests"), "\(result.err)")
        #expect(folder.read("a.http")?.starts(with: Data("GET".utf8)) == true)
    }

    @Test func failuresNamePlaceAndWhatWasFound() async throws {
        server.fallback { $0.path == "/404" ? .status(404) : .json(#"{"n":1}"#) }
        let text = """
            ### one
            GET \(server.url("/ok"))

            # @assert $.n == 2
            # @assert duration < 1h
            ### two
            GET \(server.url("/404"))
            ### three
            # @assert status == 404
            GET \(server.url("/404"))
            """
        let first = try await run(text)
        #expect(first.exitCode == 1 && first.text.contains("    a.http:4  $.n == 2: it is 1\n"))
        #expect(
            first.text.contains("– two    not run\n")
                && first.text.contains("1 request, 1 failed, 2 not run, 2 assertions"))
        #expect(server.requests.count == 1)
        let whole = try await run(text, "--continue")
        #expect(whole.exitCode == 1 && whole.text.contains("3 requests, 2 failed, 3 assertions"))
        #expect(
            whole.text.contains("    a.http:7  the server answered 404 Not Found; # @assert status == … allows it\n"))
        let json = try await run(text, "--continue", "--format", "json")
        let entries = try json.text.split(separator: "\n").map { try JSONValue(parsing: String($0)) }
        #expect(
            entries.map { $0["outcome"].string } == ["failed", "failed", "passed"] && entries[2]["status"].int == 404)
        #expect(entries[0]["failures"][0]["place"].string == "a.http:4")
    }

    @Test func exitCodesTellWhatWentWrong() async throws {
        let closed = try ClosedPort()
        #expect(try await run("GET \(closed.url("/"))\n").exitCode == 3)
        let missing = try await run("GET {{host}}/\n")
        #expect(
            missing.exitCode == 2
                && missing.err.contains(
                    "a.http:1:5: error: there is no variable \"host\"; define it with @host = value")
        )
        #expect(missing.err.contains("GET {{host}}/\n    ^") || missing.err.contains("^~"))
        let broken = try await run("GET http://h\nX\n")
        #expect(
            broken.exitCode == 2
                && broken.err.hasSuffix("lat: a.http has 1 error; correct it and run the command again\n"))
        let none = try await LatProcess.run(["run", "nope.http"], in: folder.path)
        #expect(none.exitCode == 2 && none.err.contains("nope.http"))
        let prompt = try await run("# @prompt user\nGET \(server.url("/{{user}}"))\n")
        #expect(prompt.exitCode == 2 && prompt.err.contains("give it with --variable user=VALUE"))
        server.enqueue(.text("x"))
        #expect(
            try await run("# @prompt user\nGET \(server.url("/{{user}}"))\n", "--variable", "user=ada").exitCode == 0)
        #expect(server.requests.last?.path == "/ada")
    }

    @Test func bodyThatCannotBeReadAsJSONSaysWhy() async throws {
        let deep = String(repeating: "[", count: 600) + String(repeating: "]", count: 600)
        server.enqueue(.json(#"{"id":1,"z":1e400}"#), .json(deep), .json(#"{"id":2}"#))
        for (test, words) in [
            ("$.id == 1", "cannot be read as JSON"), ("$ is list", "cannot be read as JSON"),
            ("$.no == 1", "there is none"),
        ] {
            let result = try await run("GET \(server.url())\n# @assert \(test)\n")
            #expect(
                result.exitCode == 1 && result.text.contains(words) && !result.text.contains("not JSON"),
                "\(result.text)")
        }
    }

    @Test func nullIsNotCaptured() async throws {
        server.fallback { _ in .json(#"{"token": null}"#) }
        let result = try await run("### login\n# @capture t = $.token\nGET \(server.url())\n")
        #expect(result.exitCode == 1 && result.text.contains("there is nothing to keep as t"), "\(result.text)")
    }

    @Test func targetsThatAreNotSentHideSecretsToo() async throws {
        let text = "GET {{nope}}/a?access_token=s3cret&x=1\n###\nGET item password=s3cret\n"
        let result = try await run(text, "--format", "json")
        let urls = try result.text.split(separator: "\n").map { try JSONValue(parsing: String($0))["url"].string }
        #expect(urls == ["{{nope}}/a?access_token=***&x=1", "item"], "\(result.text)")
    }

    /// An assertion about the status does not make a response whole.
    @Test(arguments: ["cut", "digest", "loop", "page"]) func responseThatIsNotWholeFails(_ kind: String) async throws {
        server.fallback { request in
            switch request.path {
            case "/cut": .json(#"{"token": "x"}"#).closing(afterBytes: 5)
            case "/digest":
                .json(#"{"token": "x"}"#)
                    .header("Repr-Digest", "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:")
            case "/loop": .redirect(to: "/loop")
            default: .data(Data("<html>".utf8), contentType: "text/html")
            }
        }
        _ = try folder.writeTable(
            """
            { domains: { d: { baseURL: "\(server.baseURL)", envelope: { code: "code", success: [0], data: "data" } } },
              servers: { page: { domain: "d", path: "page", method: "GET" } } }
            """)
        let result = try await run(
            """
            ### first
            # @capture t = $.token
            # @assert status < 400
            GET \(kind == "page" ? kind : server.url("/" + kind))

            >>! ./out.json
            ### second
            GET \(server.url("/second?t={{t}}"))
            """, "--continue")
        #expect(result.text.hasPrefix("✗ first"), "\(result.text)")
        #expect(result.exitCode == (["cut", "loop"].contains(kind) ? 3 : 1), "\(result.exitCode)")
        #expect(folder.read("out.json") == nil && !server.requests.contains { $0.path == "/second" })
    }
}
