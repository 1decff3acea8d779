import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// What `lat URL` and its items send to a server.
@Suite(.timeLimit(.minutes(1))) struct RequestItemProcessTests {
    private let server: MockServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try MockServer()
        directory = try TemporaryDirectory()
        server.fallback { _ in .text("ok") }
    }

    /// Runs `lat`, and returns the request that the server got.
    private func sent(_ arguments: String..., input: String = "") async throws -> RecordedRequest {
        server.forgetRequests()
        let result = try await LatProcess.run(arguments, input: input, in: directory.path)
        #expect(result.exitCode == 0 && result.err == "", "\(result.err)")
        return try #require(server.requests.last)
    }

    private var url: String { ":\(server.port)/x" }

    @Test func urlAloneIsAGet() async throws {
        let request = try await sent(url)
        #expect(request.method == "GET" && request.path == "/x")
        #expect(request.headers["Host"] == "localhost:\(server.port)")
        #expect(try await sent("DELETE", "localhost:\(server.port)/y").method == "DELETE")
        #expect(try await sent("-u", "a:b", url).headers["Authorization"] == "Basic YTpi")
    }

    @Test func queryHasItsItemsInTheBody() async throws {
        for method in ["QUERY", "query"] {
            let request = try await sent("request", method, url, "name=Ada", "page==2")
            #expect(request.method == "QUERY" && request.query == "page=2" && request.text == #"{"name":"Ada"}"#)
        }
        #expect(try await sent("QUERY", url, "a:=1").text == #"{"a":1}"#)
    }

    @Test func everyItemKindIsSent() async throws {
        try directory.write(Data("from a file\n".utf8), to: "t.txt")
        try directory.write(Data("[1, {\"a\": 2.50}]".utf8), to: "d.json")
        let request = try await sent(
            "POST", url, "name=Ada", "age:=36", "X-Trace:1", "X-Empty;", "User-Agent:", "q==swift 6", "q==two",
            "s==@t.txt",
            "text=@t.txt", "data:=@d.json", "X-File:@t.txt", #"a\=b=c"#, "tags[]=x", "tags[]=y")
        #expect(
            try JSONValue(parsing: request.body) == [
                "name": "Ada", "age": 36, "text": "from a file\n", "data": [1, ["a": 2.5]], "a=b": "c",
                "tags": ["x", "y"],
            ])
        #expect(request.headers["Content-Type"] == "application/json")
        #expect(request.headers["X-Trace"] == "1" && request.headers["X-Empty"] == "")
        #expect(request.headers["X-File"] == "from a file" && request.headers["User-Agent"] == nil)
        #expect(request.queryItems == [.init("q", "swift 6"), .init("q", "two"), .init("s", "from a file")])
    }

    @Test func formItemsKeepTheirOrder() async throws {
        let request = try await sent(url, "-f", "b=1 2", "a:=true", "b=&=", "c:=[1,2]")
        #expect(request.method == "POST" && request.headers["Content-Type"] == "application/x-www-form-urlencoded")
        #expect(request.formItems == [.init("b", "1 2"), .init("a", "true"), .init("b", "&="), .init("c", "[1,2]")])
    }

    @Test func filesMakeAMultipartBody() async throws {
        try directory.write(Data("PNG".utf8), to: "a.png")
        let request = try await sent(url, "title=Holiday", "img@a.png", "raw@a.png;type=text/csv;filename=b.csv")
        #expect(request.method == "POST" && request.headers["Content-Type"]?.hasPrefix("multipart/form-data;") == true)
        let text = request.text
        let parts = [
            "name=\"title\"\r\n\r\nHoliday\r\n",
            "name=\"img\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\nPNG\r\n",
            "name=\"raw\"; filename=\"b.csv\"\r\nContent-Type: text/csv\r\n\r\nPNG\r\n",
        ]
        let places = parts.map { text.firstRange(of: $0)?.lowerBound }
        #expect(
            places.allSatisfy { $0 != nil } && places.compactMap(\.self) == places.compactMap(\.self).sorted(),
            "\(text)")
    }

    @Test func wholeBodiesAreSentUnchanged() async throws {
        try directory.write(Data(#"{ "a": 1 }"#.utf8), to: "a.json")
        let inline = try await sent(url, #"{"a":  1}"#)
        #expect(inline.method == "POST" && inline.text == #"{"a":  1}"#)
        #expect(inline.headers["Content-Type"] == "application/json")
        #expect(try await sent("PUT", url, "[1, 2]", "q==1").text == "[1, 2]")
        let file = try await sent(url, "@a.json")
        #expect(file.text == #"{ "a": 1 }"# && file.headers["Content-Type"] == "application/json")
        let text = try await sent(url, "@-", input: "in")
        #expect(text.text == "in" && text.headers["Content-Type"] == nil)
        let json = try await sent(url, "@-", input: "{\"b\": 1.50}\n")
        #expect(json.text == "{\"b\": 1.50}\n" && json.headers["Content-Type"] == "application/json")
        for option in [#"{"b":2}"#, "@a.json", "a.json"] {
            let request = try await sent("POST", url, "--json", option)
            #expect(request.headers["Content-Type"] == "application/json")
            #expect(request.text == (option.hasPrefix("{") ? option : #"{ "a": 1 }"#))
        }
        #expect(try await sent("POST", url, "--json", "@-", input: "[3]").text == "[3]")
    }

    @Test(arguments: [
        "-d @<(printf '[1]')", "@<(printf '[1]')", "--json <(printf '[1]')", "-d @pipe", "@pipe",
    ]) func pipeIsReadWhole(_ arguments: String) async throws {
        server.fallback { _ in .text("x") }
        let feeding = arguments.contains("pipe") ? "mkfifo pipe; printf '[1]' > pipe & " : ""
        let result = try await Shell.run("/bin/bash", "\(feeding)lat \(server.url("/x")) \(arguments)", in: directory)
        let request = try #require(server.requests.first, "\(result.err)")
        #expect(result.exitCode == 0 && request.method == "POST" && request.text == "[1]", "\(result.err)")
        #expect(request.headers["Content-Type"] == "application/json" && request.headers["Content-Length"] == "3")
    }

    @Test func pipeIsAFileOfAForm() async throws {
        server.fallback { _ in .text("x") }
        let result = try await Shell.run(
            "/bin/bash", "lat \(server.url("/x")) 'a@'<(printf one)';filename=b.txt' -F c=<(printf two)", in: directory)
        let text = try #require(server.requests.first, "\(result.err)").text
        #expect(
            result.exitCode == 0 && text.contains("filename=\"b.txt\"") && text.contains("\r\n\r\none\r\n"), "\(text)")
        #expect(text.contains("\r\n\r\ntwo\r\n"))
        let upload = try await Shell.run("/bin/bash", "lat upload \(server.url()) <(printf one)", in: directory)
        #expect(upload.exitCode == 2 && upload.err.contains("write its bytes to a file\n"), "\(upload.err)")
    }

    @Test func jsonOfItemsIsSentAsItIsWritten() async throws {
        try directory.write(Data("{ \"n\": 1.50 }\n".utf8), to: "a.json")
        let request = try await sent(
            url, "a:=1.0", "b:=1.10", "c:=1e2", #"d:={"x": 1, "x": 2}"#, #"e:="\ud800""#, "f:=@a.json", "g[h]:=0.10",
            "i[]:=-0", "j=1.0", "k:=[1]", "k[]:=2.0")
        #expect(
            request.text
                == #"{"a":1.0,"b":1.10,"c":1e2,"d":{"x":1,"x":2},"e":"\ud800","f":{"n":1.50},"g":{"h":0.10},"i":[-0],"j":"1.0","k":[1,2.0]}"#
        )
        #expect(try await sent(url, "-f", "a:=1.0").formItems == [.init("a", "1.0")])
    }

    @Test(arguments: [
        (["a=@none"], "\"a=@none\": \"none\" cannot be read (No such file or directory); give the path of a file"),
        (["a:=@bad.json"], "\"a:=@bad.json\" is not JSON (line 1, column 1"),
        (["a:=nope"], "correct it, or write a=nope for text"),
        (["a@."], "\"a@.\": \".\" is a directory; give the path of a file"),
        (["a=1", "a=2"], "\"a\" is given twice; for a list write a[]=a a[]=b"),
        (["a=@bytes"], "\"a=@bytes\": the file is not UTF-8 text; write a@bytes to upload it"),
        (["@none"], "the body \"none\" cannot be read (No such file or directory); give the path of a file"),
    ])
    func unusableItemsSendNothing(items: [String], message: String) async throws {
        try directory.write(Data("nope".utf8), to: "bad.json")
        try directory.write(Data([0xFF, 0xFE]), to: "bytes")
        let result = try await LatProcess.run([url] + items, in: directory.path)
        #expect(result.exitCode == 2 && result.out.isEmpty && server.acceptedConnections == 0)
        #expect(result.err.contains(message) && result.err.split(separator: "\n").count == 1, "\(result.err)")
    }

    @Test func completedURLIsShownByVerbose() async throws {
        let result = try await LatProcess.run([url, "-v"])
        #expect(result.err.hasPrefix("* http://localhost:\(server.port)/x\n> GET /x HTTP/1.1\n"), "\(result.err)")
        #expect(try await !LatProcess.run([server.url("/x"), "-v"]).err.contains("* http"))
    }
}
