import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// `lat run` as a process, against servers.
@Suite(.timeLimit(.minutes(1))) struct RunProcessTests {
    let server: MockServer
    let folder: TemporaryDirectory

    init() throws {
        server = try MockServer()
        folder = try TemporaryDirectory()
    }

    func run(_ text: String, _ options: String...) async throws -> LatProcess.Result {
        _ = try folder.write(Data(text.utf8), to: "a.http")
        return try await LatProcess.run(["run", "a.http"] + options, in: folder.path)
    }

    @Test func responsesAreKeptAndUsed() async throws {
        server.enqueue(
            .json(#"{"token":"t-1","user":{"id":7}}"#), .json(#"{"name":"Ada"}"#), .text("bye"))
        let result = try await run(
            """
            @base = \(server.baseURL)
            ### login
            # @capture token = $.token
            POST {{base}}/login
            Content-Type: application/json

            {"user": "ada", "nonce": "{{$uuid}}"}

            # @assert status == 200
            # @assert $.user.id == 7
            ### user
            GET {{base}}/users/{{login.response.body.$.user.id}}
                ?full=true
            Authorization: Bearer {{token}}
            Cookie: a={{token}}

            # @assert $.name == "Ada"
            ### bye
            DELETE {{base}}/login
            """)
        #expect(result.exitCode == 0 && result.err == "", "\(result.err)")
        let lines = result.text.split(separator: "\n")
        #expect(lines[0].hasPrefix("✓ login  POST \(server.baseURL)/login  200"), "\(result.text)")
        #expect(lines.count == 4 && lines[3].hasPrefix("3 requests, all passed, 3 assertions, in "))
        #expect(server.requests[0].headers["Content-Type"] == "application/json")
        #expect(server.requests[1].target == "/users/7?full=true")
        #expect(server.requests[1].headers["Authorization"] == "Bearer t-1" && server.requests[2].method == "DELETE")
    }

    @Test func fileMayBeAPipe() async throws {
        server.fallback { _ in .text("x") }
        let script = "lat run <(printf 'GET \(server.url("/piped"))\\n')"
        let result = try await Shell.run("/bin/bash", script, in: folder)
        #expect(result.exitCode == 0 && server.requests.map(\.path) == ["/piped"], "\(result.err)")
    }

    @Test func environmentsComeFromFilesAndTable() async throws {
        server.fallback { _ in .text("x") }
        _ = try folder.writeTable(
            """
            { domains: { shop: { baseURL: "http://h.test", environments: { dev: "\(server.baseURL)/shop" } } },
              servers: { "item": { domain: "shop", path: "items/{id}", method: "GET" },
                         "save": { domain: "shop", path: "items/{id}", method: "PUT" } } }
            """)
        _ = try folder.write(
            Data(#"{"$shared":{"v":"2"},"dev":{"v":3,"who":"dev","deep":{"x":"y"}},"prod":{"who":"prod"}}"#.utf8),
            to: "http-client.env.json")
        _ = try folder.write(Data(#"{"dev":{"key":"k3y"}}"#.utf8), to: "http-client.private.env.json")
        _ = try folder.write(Data("DOT=env\n".utf8), to: ".env")
        let text = """
            ### url
            GET {{shop}}/a?v={{v}}&who={{who}}&deep={{deep.x}}&key={{key}}&dot={{$dotenv DOT}}
            ### row
            GET item id={{v}} X-Who:{{who}} page:=2
              note="a b"
            ### save
            save id=1

            {"name": "{{who}}"}
            """
        let result = try await run(text, "--env", "dev")
        #expect(result.exitCode == 0, "\(result.err)\(result.text)")
        #expect(server.requests[0].target == "/shop/a?v=3&who=dev&deep=y&key=k3y&dot=env")
        #expect(server.requests[1].path == "/shop/items/3" && server.requests[1].headers["X-Who"] == "dev")
        #expect(Set(server.requests[1].queryItems) == [.init("page", "2"), .init("note", "a b")])
        #expect(server.requests[2].method == "PUT" && server.requests[2].text == #"{"name":"dev"}"#)
        #expect(server.requests[2].headers["Content-Type"] == "application/json")
        #expect(result.text.contains("✓ row   GET item  200"))
        let unknown = try await run(text, "--env", "dve")
        #expect(unknown.exitCode == 2 && unknown.err.contains("there is no environment \"dve\"; did you mean \"dev\"?"))
        let row = try await run("GET itm id=1\n", "--env", "dev")
        #expect(row.exitCode == 2 && row.err.contains("there is no row \"itm\" in the table; did you mean \"item\"?"))
        let method = try await run("POST item id=1\n", "--env", "dev")
        #expect(method.exitCode == 2 && method.err.contains("the row \"item\" has the method GET, not POST"))
    }

    @Test func parametersOfARowAreGivenOnce() async throws {
        server.fallback { _ in .text("x") }
        _ = try folder.writeTable(
            """
            { domains: { d: { baseURL: "\(server.baseURL)" } },
              servers: { item: { domain: "d", path: "items/{id}", method: "GET" } } }
            """)
        let sound = try await run("GET item id={{$randomInt 5 6}} X-A:1 X-A:2 'note=a {{$random.alphabetic 3}}'\n")
        #expect(sound.exitCode == 0, "\(sound.err)")
        #expect(server.requests[0].path == "/items/5" && server.requests[0].headers[values: "X-A"] == ["1", "2"])
        #expect(server.requests[0].queryItems.first?.value?.hasPrefix("a ") == true)
        for text in ["GET item id=1 tag=a tag=b\n", "GET item id=1\n\n{\"id\": 2}\n"] {
            let twice = try await run(text)
            #expect(twice.exitCode == 2 && twice.err.contains("is given twice"), "\(twice.err)")
        }
        let secret = try await run("GET item id=1 n:={{t}}\n", "--variable", "t=s3cret")
        #expect(secret.exitCode == 2 && secret.err.contains("\"n:={{t}}\" is not JSON"), "\(secret.err)")
        #expect(!(secret.err + secret.text).contains("s3cret") && server.requestCount == 1)
    }

    @Test func bodiesOfFilesAndPartsAreSentAsTheyAre() async throws {
        server.echo()
        _ = try folder.write(Data([0, 1, 0xFF]), to: "a.bin")
        _ = try folder.write(Data("Hello {{who}}".utf8), to: "part.txt")
        let url = server.url("/anything")
        let result = try await run(
            """
            @who = Ada
            ### file
            POST \(url)
            Content-Type: application/octet-stream

            < ./a.bin
            ### expanded
            POST \(url)

            <@ ./part.txt
            ### parts
            POST \(url)
            Content-Type: multipart/form-data; boundary=b

            --b
            Content-Disposition: form-data; name="who"

            {{who}}
            --b
            Content-Disposition: form-data; name="f"; filename="a.bin"

            < ./a.bin
            --b--
            ### form
            POST \(url)
            Content-Type: application/x-www-form-urlencoded

            a=1
            &b=2
            ### graphql
            GRAPHQL \(url)

            query ($id: ID!) { user(id: $id) { name } }

            {"id": 7}
            ### missing
            POST \(url)

            < ./nope.bin
            """)
        #expect(server.requests[0].body == Data([0, 1, 0xFF]) && server.requests[1].text == "Hello Ada")
        #expect(server.requests[1].headers["Content-Type"] == "text/plain; charset=utf-8")
        let parts = server.requests[2].body
        #expect(
            parts.starts(with: Data("--b\r\nContent-Disposition: form-data; name=\"who\"\r\n\r\nAda\r\n--b\r\n".utf8)))
        #expect(parts.suffix(9) == Data("\r\n--b--\r\n".utf8) && parts.firstRange(of: Data([0, 1, 0xFF])) != nil)
        #expect(server.requests[3].text == "a=1&b=2")
        let query = try JSONValue(parsing: server.requests[4].body)
        #expect(
            query["variables"] == ["id": 7] && query["query"].string == "query ($id: ID!) { user(id: $id) { name } }")
        #expect(
            result.exitCode == 2 && result.err.contains("a.http:39:3: error: \"./nope.bin\" cannot be read"),
            "\(result.err)")
    }

    @Test func cookiesRedirectsAndCredentialsFollowTheFile() async throws {
        server.fallback { request in
            var reply = request.path == "/old" ? MockReply.redirect(to: "/new") : .text("x")
            reply.headers["Set-Cookie"] = "a=1"
            return reply
        }
        let url = server.baseURL
        let result = try await run(
            """
            GET \(url)/old
            Authorization: Basic ada pw
            ###
            # @no-redirect
            # @no-cookie-jar
            GET /old
            Host: \(url.dropFirst(7))

            # @assert status == 302
            # @assert header Location == /new
            """)
        #expect(result.exitCode == 0, "\(result.text)\(result.err)")
        #expect(server.requests.map(\.path) == ["/old", "/new", "/old"])
        #expect(server.requests[0].headers["Authorization"] == "Basic YWRhOnB3")
        #expect(server.requests[1].headers["Cookie"] == "a=1" && server.requests[2].headers["Cookie"] == nil)
    }

    @Test func rowsObeyTheirRequest() async throws {
        server.fallback { $0.path == "/old" ? .redirect(to: "/new") : .text("x") }
        _ = try folder.writeTable(
            """
            { domains: { d: { baseURL: "\(server.baseURL)", headers: { "X-Row": "1" } } },
              servers: { "old.item": { domain: "d", path: "old", method: "GET" } } }
            """)
        let result = try await run(
            """
            # @no-redirect
            # @connection-timeout 5 s
            GET old.item
            Authorization: Basic ada pw

            # @assert status == 302
            """)
        #expect(result.exitCode == 0, "\(result.text)\(result.err)")
        #expect(server.requests.map(\.path) == ["/old"] && server.requests[0].headers["X-Row"] == "1")
        #expect(server.requests[0].headers["Authorization"] == "Basic YWRhOnB3")
    }

    @Test func brokenTableMattersOnlyWhereItIsUsed() async throws {
        server.fallback { _ in .text("x") }
        _ = try folder.writeTable("{ domains: { d: { baseURL: 7 } } }")
        let plain = try await run("GET \(server.url("/a"))\n")
        #expect(plain.exitCode == 0 && plain.err.contains("lat domains check says why"), "\(plain.err)")
        for (text, options) in [("GET item.x id=1\n", []), ("GET \(server.url("/a"))\n", ["--env", "dev"])] {
            _ = try folder.write(Data(text.utf8), to: "b.http")
            let result = try await LatProcess.run(["run", "b.http"] + options, in: folder.path)
            #expect(result.exitCode == 2 && result.err.contains("baseURL"), "\(result.err)")
        }
        #expect(server.requestCount == 1)
    }

    @Test func verboseShowsHeadsAndBodies() async throws {
        server.fallback { _ in .json(#"{"n":1}"#) }
        let result = try await run("### a\nGET \(server.url("/x"))\n\n>> out.json\n", "-v")
        #expect(result.err.contains("> GET /x HTTP/1.1\n") && result.err.contains("< HTTP/1.1 200 OK\n"))
        #expect(result.text.hasPrefix("{\"n\":1}\n✓ a"))
        _ = try await run("### a\nGET \(server.url("/x"))\n\n>> out.json\n")
        #expect(folder.read("out.json") == Data(#"{"n":1}"#.utf8) && folder.read("out-1.json") != nil)
    }

    @Test func definitionUsesTheTokenOfTheLastLogin() async throws {
        server.fallback { .json("{\"token\":\"\($0.path)\"}") }
        let text = """
            @host = \(server.baseURL)
            @auth = Bearer {{token}}
            ### login admin
            # @capture token = $.token
            POST {{host}}/admin
            ### as admin
            GET {{host}}/all
            Authorization: {{auth}}
            ### login user
            # @capture token = $.token
            POST {{host}}/user
            ### as user
            DELETE {{host}}/me
            Authorization: {{auth}}
            """
        #expect(try await run(text).exitCode == 0)
        #expect(
            server.requests.map { $0.headers["Authorization"] } == [nil, "Bearer /admin", nil, "Bearer /user"])
    }

    /// What a failed request would have captured, and its response, are not those of an earlier request.
    @Test(arguments: ["GET {{host}}/broken", "GET {{host}}/none", "GET {{closed}}/user", "GET {{nothing}}/user"])
    func failedRequestLeavesNothingOfTheOneBefore(_ login: String) async throws {
        let closed = try ClosedPort()
        server.fallback { $0.path == "/none" ? .noReply : .json($0.path == "/admin" ? #"{"token":"admin"}"# : "{}") }
        let text = """
            @host = \(server.baseURL)
            @closed = \(closed.url(""))
            ### login
            # @capture token = $.token
            GET {{host}}/admin
            ### login
            # @capture token = $.token
            \(login)?user={{token}}
            ### captured
            DELETE {{host}}/captured
            Authorization: Bearer {{token}}
            ### part
            DELETE {{host}}/part
            Authorization: Bearer {{login.response.body.$.token}}
            """
        let result = try await run(text, "--continue")
        #expect(result.exitCode != 0 && result.text.contains("there is no variable \"token\""), "\(result.text)")
        #expect(!server.requests.contains { $0.method == "DELETE" }, "\(server.requests)")
    }

    @Test func onlyNamedRequestsAndThoseNeededRun() async throws {
        server.fallback { _ in .json(#"{"t":"x"}"#) }
        let text = """
            ### login
            # @capture t = $.t
            GET \(server.url("/login"))
            ### other
            GET \(server.url("/other"))
            ### last
            GET \(server.url("/last"))?t={{t}}
            """
        #expect(try await run(text, "--name", "last").exitCode == 0)
        #expect(server.requests.map(\.target) == ["/login", "/last?t=x"])
    }

    @Test(.needsHTTPBin) func realServerIsTested() async throws {
        let base = try #require(Servers.httpbin)
        let result = try await run(
            """
            ### post
            POST \(base)/post
            Content-Type: application/json

            {"n": 1, "word": "世界"}

            # @assert $.json.word == "世界"
            # @assert header Content-Type startsWith application/json
            ### digest
            GET \(base)/digest-auth/auth/ada/pw
            Authorization: Digest ada pw

            # @assert $.authenticated == true
            ### teapot
            # @assert status == 418
            GET \(base)/status/418
            """)
        #expect(result.exitCode == 0, "\(result.text)\(result.err)")
        #expect(result.text.contains("3 requests, all passed, 4 assertions"))
    }
}
