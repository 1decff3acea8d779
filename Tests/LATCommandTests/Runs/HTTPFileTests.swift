import LATNetworking
import Testing

@testable import lat

/// `.http` files as values.
@Suite struct HTTPFileTests {
    private let scope = RunScope(RunOutside(variable: { _ in nil }, dotenv: { _ in nil }))

    private func file(_ text: String) throws -> HTTPFile { try HTTPFile(text, name: "a.http") }

    private func lines(_ request: HTTPFile.Request) -> [String] {
        request.body.map { line in
            switch line {
            case .text(let text): text.text
            case .file(let path, let expands): (expands ? "<@ " : "< ") + path.text
            }
        }
    }

    @Test func fileOfJetBrainsIsRead() throws {
        let file = try file(
            """
            // Orders of the shop
            @base = http://h.test:8080/v1
            @token=abc

            ### List the orders
            # @no-redirect
            # @timeout 600 ms
            GET {{base}}/orders
                ?status=open
                &page={{page}} HTTP/1.1
            Accept: application/json
            // a comment between fields
            X-Long: one
              two

            ### Create
            POST {{base}}/orders HTTP/2
            Content-Type: application/json
            Authorization: Bearer {{token}}

            {
              "name": "Ada",

              "n": 1
            }

            > {%
              client.global.set("id", response.body.id);
            %}
            <> 2026-11-29T100000.200.json

            ###
            < ./before.js
            PUT http://h.test/a.bin

            < ./a.bin
            >>! out/a.json
            """)
        #expect(file.variables.map(\.name) == ["base", "token"] && file.variables[1].value.text == "abc")
        #expect(file.requests.map(\.name) == ["List the orders", "Create", nil])
        #expect(file.requests.map(\.method) == ["GET", "POST", "PUT"])
        let list = file.requests[0]
        #expect(list.target.text == "{{base}}/orders" && list.targetLines.map(\.text).count == 2)
        #expect(!list.followsRedirects && list.timeout == .milliseconds(600))
        #expect(list.headers.map(\.name.text) == ["Accept", "X-Long"] && list.headers[1].value.text == "one two")
        #expect(file.requests[1].version == "HTTP/2")
        #expect(lines(file.requests[1]) == ["{", "  \"name\": \"Ada\",", "", "  \"n\": 1", "}"])
        #expect(lines(file.requests[2]) == ["< ./a.bin"])
        #expect(file.requests[2].output?.path.text == "out/a.json" && file.requests[2].output?.replaces == true)
        // Two scripts are not run, each with its place.
        #expect(file.warnings.map(\.position.line) == [27, 33])
        #expect(
            file.warnings[0].message.contains("lat runs no JavaScript, so this handler is skipped; write # @assert"))
    }

    @Test func fileOfVSCodeIsRead() throws {
        let file = try file(
            """
            @host = h.test
            # @name login
            # @prompt user the name
            POST https://{{host}}/login
            Content-Type: application/x-www-form-urlencoded

            name={{user}}
            &password=x

            ###
            # @capture token = $.access_token
            # @assert status == 200
            # @assert $.items count > 2

            https://{{host}}/me
            ?a=1
            Authorization: Bearer {{login.response.body.$.token}}

            ###
            {{host}}/bare
            """)
        #expect(file.requests.map(\.name) == ["login", nil, nil])
        #expect(file.requests[0].prompts.map(\.text) == ["user"])
        #expect(lines(file.requests[0]) == ["name={{user}}", "&password=x"])
        #expect(file.requests[1].method == nil && file.requests[1].target.text == "https://{{host}}/me")
        #expect(file.requests[1].targetLines.map(\.text) == ["?a=1"])
        #expect(file.requests[1].captures.map(\.subject) == [.json([.member("access_token")])])
        #expect(file.requests[1].assertions.map(\.operation) == [.equal, .above])
        #expect(file.requests[1].assertions[1].counts && file.requests[2].target.text == "{{host}}/bare")
    }

    @Test func bodiesKeepWhatBelongsToThem() throws {
        let file = try file(
            """
            POST http://h/x
            Content-Type: text/xml

            <note to="a">
            # no comment
            > quoted
            <@ ./part.xml
            </note>


            # @assert status == 201
            ### next
            POST http://h/multi
            Content-Type: multipart/form-data; boundary=b

            --b
            Content-Disposition: form-data; name="f"; filename="a.png"

            < ./a.png
            --b--
            """)
        #expect(lines(file.requests[0]) == ["<note to=\"a\">", "# no comment", "> quoted", "<@ ./part.xml", "</note>"])
        #expect(file.requests[0].assertions.count == 1)
        #expect(lines(file.requests[1]).count == 5 && lines(file.requests[1])[3] == "< ./a.png")
    }

    @Test func remarksBetweenRequestsAreNoBody() throws {
        let file = try file(
            """
            ### a
            GET http://h/1

            # the next one
            // is longer
            ### b
            POST http://h/2
            Content-Type: application/json

            {"a": 1}

            # done

            ### c
            POST http://h/3
            Content-Type: text/markdown

            # Title
            """)
        #expect(file.requests.map(lines) == [[], [#"{"a": 1}"#], ["# Title"]])
    }

    @Test func lineEndsAndMarksDoNotMatter() throws {
        let unix = "### a\nGET http://h/1\nX: 1\n\nbody\n### b\nGET http://h/2\n"
        for text in [unix, unix.replacing("\n", with: "\r\n"), "\u{FEFF}" + unix] {
            let file = try HTTPFile(text, name: "a.http")
            #expect(file.requests.map(\.name) == ["a", "b"] && lines(file.requests[0]) == ["body"])
            #expect(file.requests[0].headers[0].value.text == "1")
        }
    }

    @Test(arguments: [
        ("GET http://h/\nX-Broken\n", 2, 1, "this line is no header field: it has no colon; put an empty line"),
        ("GET\n", 1, 1, "the request has no URL; write GET http://host/path"),
        ("@host\nGET http://h\n", 1, 1, "a variable has no value; write @name = value"),
        ("@a b = 1\nGET http://h\n", 1, 1, "\"a b\" is not a name of a variable"),
        ("# @asert status == 200\nGET http://h\n", 1, 3, "unknown word @asert; did you mean @assert?"),
        ("# @assert stats == 200\nGET http://h\n", 1, 11, "\"stats\" is no part of a response; write one of status,"),
        ("# @assert status = 200\nGET http://h\n", 1, 18, "\"=\" is no comparison; write one of == != <="),
        ("# @assert status ==\nGET http://h\n", 1, 11, "the assertion has no value after =="),
        ("# @assert $.a..b exists\nGET http://h\n", 1, 11, "the path has \"..\", which lat does not know"),
        ("# @assert $.a[x] exists\nGET http://h\n", 1, 11, "[x] is no step of a path; write [0]"),
        ("# @assert body matches (\nGET http://h\n", 1, 24, "this is not a regular expression"),
        ("# @assert $.a is thing\nGET http://h\n", 1, 18, "\"thing\" is no kind of value; write text, number"),
        ("# @assert $.a exists now\nGET http://h\n", 1, 22, "there is something after the end: now"),
        ("# @capture token\nGET http://h\n", 1, 12, "a capture has no =; write # @capture token = $.access_token"),
        ("# @timeout soon\nGET http://h\n", 1, 12, "\"soon\" is not a duration; write 500 ms, 10 s or 2 m"),
        ("intranet\n", 1, 1, ""),
        ("GET http://h\n\n> {%\nx\n", 3, 1, "this handler is not closed; end it with a line %}"),
        ("WEBSOCKET ws://h\n", 1, 1, "lat run sends no WEBSOCKET requests; use lat ws"),
        ("POST http://h\n\n<@latin1 ./a\n", 3, 1, "lat reads files as UTF-8; write <@ ./a"),
        ("GET http://h\nBad Name: 1\n", 2, 1, "\"Bad Name\" is not the name of a header field"),
        ("GET {{host/a\n", 1, 5, "this variable is not closed; write {{name}}"),
        ("@u = {{base/x\nGET http://h\n", 1, 6, "this variable is not closed"),
        ("GET http://h\nX-A: {{ b\n", 2, 6, "this variable is not closed"),
        ("POST http://h\n\n{\"a\": \"{{b\"}\n", 3, 8, "this variable is not closed"),
        ("### a\n# @assert status == 200\n### b\nGET http://h\n", 2, 11, "this assertion belongs to no request"),
    ]) func mistakesHavePlaceAndNextStep(_ text: String, _ line: Int, _ column: Int, _ message: String) throws {
        do {
            _ = try file(text)
            // A word alone is the address of a host.
            #expect(message.isEmpty)
        } catch let problem as RunProblem {
            let first = try #require(problem.diagnostics.first)
            #expect(first.message.hasPrefix(message) && !message.isEmpty, "\(first)")
            #expect(first.position.line == line && first.position.column == column, "\(first)")
            #expect(first.excerpt.count == 2 && first.excerpt[1].contains("^"))
        }
    }

    @Test func allMistakesAreReportedAtOnce() {
        #expect(throws: RunProblem.self) { try file("@a\nGET http://h\nX\n\n### \nGET http://h\nY\n") }
        do {
            _ = try file("@a\nGET http://h\nX\n\n### \nGET http://h\nY\n")
        } catch let problem as RunProblem {
            #expect(problem.diagnostics.map(\.position.line) == [1, 3, 7])
        } catch {}
        #expect(throws: RunProblem.self) { try file("# nothing\n@a = 1\n") }
    }

    @Test func equalNamesAreTold() throws {
        let warnings = try file("### a\nGET http://h\n### b\n# @name a\nGET http://h\n### c\nGET http://h\n").warnings
        #expect(warnings.count == 1 && warnings.first?.position.line == 4)
        #expect(warnings.first?.message.hasPrefix("the request of line 1 has this name, too") == true)
    }

    @Test func neededRequestsAreChosenToo() throws {
        let file = try file(
            """
            @auth = Bearer {{token}}
            ### login
            # @capture token = $.t
            POST http://h/login
            ### other
            GET http://h/other
            ### item
            GET http://h/items/{{list.response.body.$.id}}
            Authorization: {{auth}}
            ### list
            GET http://h/items
            """)
        #expect(try file.chosen([], in: scope).count == 4)
        // The list comes after the item, so its response cannot be needed.
        #expect(try file.chosen(["item"], in: scope).map(\.name) == ["login", "item"])
        #expect(try file.chosen(["other", "login"], in: scope).map(\.name) == ["login", "other"])
        do {
            _ = try file.chosen(["logn"], in: scope)
            Issue.record("an unknown name was chosen")
        } catch {
            #expect(error.message == "there is no request \"logn\" in a.http; did you mean \"login\"?")
        }
    }

    /// A request of which nothing is used is not sent, whatever its name and those of the variables begin with.
    @Test(
        arguments: [
            ("{{user.realm}}", [:], false), ("{{user.requests.a}}", [:], false),
            ("{{user.response.body.$.a}}", [:], true),
            ("{{user.request.headers.X}}", [:], true),
            ("{{user.response.body.$.a}}", ["user.response.body.$.a": "1"], false),
            ("{{token}}", [:], true), ("{{token}}", ["token": "t"], false), ("{{auth}}", [:], true),
            ("{{auth}}", ["auth": "a"], false), ("{{auth}}", ["token": "t"], false),
            ("{{env.response.status}}", [:], false),
        ] as [(String, [String: String], Bool)])
    func onlyWhatIsUsedIsNeeded(_ text: String, _ given: [String: String], _ isNeeded: Bool) throws {
        let file = try file(
            """
            @auth = Bearer {{token}}
            ### user
            # @capture token = $.t
            DELETE http://h/user
            ### env
            DELETE http://h/env
            ### look
            GET http://h/look?a=\(text)
            """)
        var scope = scope
        scope.given = given
        scope.environment = ["env": ["response": ["status": 200]]]
        #expect(try file.chosen(["look"], in: scope).map(\.name) == (isNeeded ? ["user", "look"] : ["look"]))
    }
}
