import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// `lat request` as a process: its outputs and exit codes.
@Suite(.timeLimit(.minutes(1))) struct RequestProcessTests {
    private let server: MockServer

    init() throws { server = try MockServer() }

    private func request(_ method: String, _ path: String, _ options: String...) async throws -> LatProcess.Result {
        try await LatProcess.run(["request", method, server.url(path)] + options)
    }

    // MARK: What is sent

    @Test func parametersBecomeQueryOrJSONBody() async throws {
        server.echo()
        let get = try await request("get", "/anything", "-p", "q=a b", "-p", "page:=2", "-p", "tags:=[\"x\"]")
        #expect(get.exitCode == 0 && get.err == "")
        #expect(server.requests[0].method == "GET")
        #expect(server.requests[0].queryItems == [.init("page", "2"), .init("q", "a b"), .init("tags[]", "x")])
        _ = try await request("post", "/anything", "-p", "q=a b", "-p", "page:=2")
        #expect(server.requests[1].text == #"{"page":2,"q":"a b"}"#)
        #expect(server.requests[1].headers["Content-Type"] == "application/json")
        _ = try await request("post", "/anything", "-p", "q=a b", "--form")
        #expect(server.requests[2].formItems == [.init("q", "a b")])
        _ = try await request("put", "/anything", "-p", "q=1", "-d", "text as it is")
        #expect(server.requests[3].text == "text as it is" && server.requests[3].query == "q=1")
    }

    @Test func bodiesAreReadFromFilesAndStandardInput() async throws {
        server.echo()
        let directory = try TemporaryDirectory()
        let document = try directory.write(Data(#"{ "a": 1 }"#.utf8), to: "a.json")
        _ = try await request("POST", "/anything", "--json", document)
        #expect(server.requests[0].text == #"{ "a": 1 }"#)
        _ = try await LatProcess.run(["request", "POST", server.url("/anything"), "--json", "-"], input: "[1]")
        #expect(server.requests[1].text == "[1]" && server.requests[1].headers["Content-Type"] == "application/json")
        _ = try await request("POST", "/anything", "-d", "@\(document)")
        #expect(server.requests[2].text == #"{ "a": 1 }"#)
        _ = try await LatProcess.run(["request", "POST", server.url("/anything"), "-d", "@-"], input: "in")
        #expect(server.requests[3].text == "in")
        _ = try await request("POST", "/anything", "-F", "doc=\(document)", "-p", "title=Holiday")
        let multipart = server.requests[4]
        #expect(multipart.headers["Content-Type"]?.hasPrefix("multipart/form-data; boundary=") == true)
        #expect(multipart.text.contains("filename=\"a.json\"") && multipart.text.contains("Holiday"))
    }

    @Test func headersAreAddedRemovedAndSentEmpty() async throws {
        server.echo()
        _ = try await request("GET", "/anything", "-H", "X-A: 1", "-H", "x-a: 2", "-H", "User-Agent:", "-H", "X-E;")
        let headers = server.requests[0].headers
        #expect(headers[values: "X-A"] == ["1", "2"])
        #expect(headers["User-Agent"] == nil && headers["X-E"] == "" && headers["Accept"] == "*/*")
        _ = try await request("GET", "/anything", "-u", "ada:secret")
        #expect(server.requests[1].headers["Authorization"] == "Basic YWRhOnNlY3JldA==")
    }

    @Test(
        .enabled(if: LibcurlInfo.current.missing.contains("HTTP/3"), "this libcurl has HTTP/3"),
        arguments: ["--http3", "--http3-only"])
    func http3IsRefusedWithoutSupport(option: String) async throws {
        let result = try await request("GET", "/", option)
        #expect(result.exitCode != 0 && result.out.isEmpty)
        #expect(result.err.contains("HTTP/3") && result.err.contains(LibcurlInfo.current.version))
        #expect(server.acceptedConnections == 0)
    }

    @Test func unixSocketIsUsed() async throws {
        let directory = try TemporaryDirectory()
        let local = try MockServer(unixSocketPath: directory.path(of: "s"))
        local.enqueue(.text("local"))
        let result = try await LatProcess.run(
            ["request", "GET", local.url("/x"), "--unix-socket", directory.path(of: "s")])
        #expect(result.text == "local" && result.exitCode == 0)
    }

    // MARK: What is shown

    @Test func standardOutputHasOnlyTheBody() async throws {
        server.enqueue(.json(#"{"b":1,"a":2}"#), .pattern(byteCount: 3_000_000))
        let json = try await request("GET", "/")
        #expect(json.text == #"{"b":1,"a":2}"# && json.err == "")
        let binary = try await request("GET", "/")
        #expect(binary.out.count == 3_000_000 && MockPattern.firstMismatch(in: binary.out, at: 0) == nil)
        #expect(binary.err == "")
    }

    @Test func serverFailureShowsBodyAndExitsWith1() async throws {
        server.enqueue(.text("no such thing", status: 404))
        let result = try await request("GET", "/x?token=secret")
        #expect(result.exitCode == 1)
        #expect(result.text == "no such thing")
        #expect(result.err.hasPrefix("lat: the server answered 404 Not Found: \"no such thing\"; "))
        #expect(result.err.split(separator: "\n").count == 1 && !result.err.contains("secret"))
    }

    @Test func includeShowsTheHeadBeforeTheBody() async throws {
        server.enqueue(.text("hi", status: 201).header("X-Two", "a").header("X-Two", "b"))
        let result = try await request("POST", "/", "-i")
        let lines = result.text.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.first == "HTTP/1.1 201 Created")
        #expect(lines.filter { $0.hasPrefix("X-Two: ") } == ["X-Two: a", "X-Two: b"])
        #expect(result.text.hasSuffix("\n\nhi") && result.err == "")
    }

    @Test func verboseShowsEverythingButSecrets() async throws {
        server.route("GET", "/old") { _ in .redirect(to: "/new") }
        server.route("GET", "/new") { _ in .text("here") }
        let result = try await request(
            "GET", "/old", "-v", "-p", "a=1", "-H", "Authorization: Bearer abc", "-H", "X: y")
        #expect(result.text == "here" && !result.err.contains("abc"))
        for line in [
            "> GET /old?a=1 HTTP/1.1", "> Host: 127.0.0.1:\(server.port)", "> X: y", "> Authorization: (not shown)",
            "* 302 redirected by \(server.url("/old?a=1"))", "* answered by \(server.url("/new"))", "< HTTP/1.1 200 OK",
        ] {
            #expect(result.err.contains(line + "\n"))
        }
        #expect(result.err.contains("* first byte ") && result.err.contains(" · reused yes\n"))
    }

    @Test func verboseHidesSecretsOfRedirects() async throws {
        server.route("GET", "/old") { _ in .redirect(to: "/new?access_token=CANARY&b=2") }
        server.route("GET", "/new") { _ in .text("here").header("Content-Location", "/new?access_token=CANARY") }
        let result = try await request("GET", "/old?access_token=CANARY", "-v")
        #expect(result.text == "here" && !result.err.contains("CANARY"), "\(result.err)")
        for line in [
            "* 302 redirected by \(server.url("/old?access_token=***"))",
            "* answered by \(server.url("/new?access_token=***&b=2"))", "< Content-Location: /new?access_token=***",
        ] {
            #expect(result.err.contains(line + "\n"), "\(result.err)")
        }
        let unfollowed = try await request("GET", "/old", "-v", "--no-follow")
        #expect(unfollowed.err.contains("< Location: /new?access_token=***&b=2\n"), "\(unfollowed.err)")
    }

    @Test func noFollowShowsTheRedirect() async throws {
        server.enqueue(.redirect(to: "/new", status: 301))
        let result = try await request("GET", "/", "--no-follow", "-i")
        #expect(result.exitCode == 1 && result.text.hasPrefix("HTTP/1.1 301 Moved Permanently\n"))
        #expect(server.requestCount == 1)
    }

    @Test func terminalShowsColouredJSONAndNoBinary() async throws {
        server.enqueue(.json(#"{"b":1}"#), .json(#"{"b":1}"#), .pattern(byteCount: 1_000), .text("no newline"))
        let call = ["request", "GET", server.url("/")]
        let coloured = try await LatProcess.run(call, columns: 80)
        #expect(coloured.text == "{\r\n  \u{1B}[1;34m\"b\"\u{1B}[0m: \u{1B}[35m1\u{1B}[0m\r\n}\r\n")
        let plain = try await LatProcess.run(call, environment: ["NO_COLOR": "1"], columns: 80)
        #expect(plain.text == "{\r\n  \"b\": 1\r\n}\r\n")
        let binary = try await LatProcess.run(call, columns: 80)
        #expect(binary.text == "lat: the binary body of 1000 B is not shown; write it to a file with -o FILE\r\n")
        #expect(try await LatProcess.run(call, columns: 80).text == "no newline\r\n")
    }

    @Test(arguments: [
        ("gbk", Data([0xC4, 0xE3, 0xBA, 0xC3])), ("UTF-16BE", Data([0x4F, 0x60, 0x59, 0x7D])),
        ("utf-8", Data("你好".utf8)),
    ]) func terminalShowsTextOfOtherCharsets(charset: String, bytes: Data) async throws {
        server.fallback { _ in .data(bytes, contentType: "text/html; charset=\(charset)") }
        let call = ["request", "GET", server.url("/")]
        #expect(try await LatProcess.run(call, columns: 80).text == "你好\r\n")
        // A program gets the bytes of the server.
        #expect(try await LatProcess(call).result.out == bytes)
    }

    // MARK: How it ends

    @Test func missingResponseExitsWith3() async throws {
        let closed = try ClosedPort()
        let refused = try await LatProcess.run(["request", "GET", closed.url("/")])
        #expect(
            refused.exitCode == 3 && refused.out.isEmpty
                && refused.err.hasPrefix("lat: Failed to connect to 127.0.0.1 port "))
        server.route("GET", "/never") { _ in .text("never").stalling(.start) }
        let late = try await request("GET", "/never", "--timeout", "200ms")
        #expect(late.exitCode == 3 && late.err.hasPrefix("lat: not done within 200 ms"))
        server.enqueue(.pattern(byteCount: 100_000).closing(afterBytes: 50_000))
        let broken = try await request("GET", "/")
        #expect(broken.exitCode == 3 && broken.out.count > 10_000 && broken.err.contains(" bytes of the body"))
    }

    @Test(arguments: [
        ["request"], ["reqest"], ["GET"], ["request", "GET", "http://127.0.0.1:1/", "--timeout", "soon"],
        ["request", "POST", "http://127.0.0.1:1/", "--json", "/nonexistent.json"],
        ["request", "POST", "http://127.0.0.1:1/", "-d", "@/"],
        ["request", "POST", "http://127.0.0.1:1/", "-F", "a=/nonexistent"],
        ["request", "GET", "http://127.0.0.1:1/", "-o", "/nonexistent/file"],
        ["request", "GET", "http://127.0.0.1:1/", "-o", "/"],
        ["request", "HEAD", "http://127.0.0.1:1/", "-d", "body"],
        ["request", "GET", "http://127.0.0.1:1/", "--proxy", "ftp://nowhere"],
        [],
    ])
    func invalidCommandLineExitsWith2(arguments: [String]) async throws {
        let result = try await LatProcess.run(arguments)
        #expect(result.exitCode == 2 && result.out.isEmpty)
        #expect(result.err.hasPrefix("lat: ") && result.err.split(separator: "\n").count == 1)
    }

    @Test func invalidJSONIsNotSent() async throws {
        let result = try await LatProcess.run(
            ["request", "POST", server.url("/"), "--json", "-"], input: "{\n  \"a\": }")
        #expect(result.exitCode == 2 && result.err.contains("line 2, column 8"))
        #expect(server.acceptedConnections == 0)
    }

    @Test func closedPipeEndsQuietly() async throws {
        server.enqueue(.pattern(byteCount: 1 << 30))
        let result = try await LatProcess.run(["request", "GET", server.url("/")], closesOutput: true)
        #expect(result.exitCode == 141 && result.err == "")
    }

    @Test func helpAndVersionAreOnStandardOutput() async throws {
        for arguments in [
            ["help"], ["--help"], ["help", "request"], ["request", "--help"], ["demo", "-h"], ["--version"],
        ] {
            let result = try await LatProcess.run(arguments)
            #expect(result.exitCode == 0 && !result.out.isEmpty && result.err == "")
        }
    }

    // MARK: Compressed bodies

    @Test func cutCompressedBodyIsAFailure() async throws {
        let gzip = Data(base64Encoded: "H4sIAAAAAAACAwvJSFUoLM1MzlZIKsovz1NIy6/QUwgZFRxMggBPe1LxpAEAAA==") ?? Data()
        server.fallback { _ in .data(gzip.dropLast(8), contentType: "text/plain").header("Content-Encoding", "gzip") }
        let directory = try TemporaryDirectory()
        for options in [[], ["-o", directory.path(of: "body")]] {
            let result = try await LatProcess.run(["request", "GET", server.url(), "--retry", "0"] + options)
            #expect(result.exitCode != 0, "\(options)")
            #expect(result.err.contains("the body ends before its coding (gzip) does"), "\(result.err)")
            #expect(result.err.contains("-H 'Accept-Encoding: identity'"), "\(result.err)")
        }
        #expect(directory.read("body") == nil)
    }
}
