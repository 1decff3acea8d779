import Foundation
import HTTPCore
import LATTesting
import Testing

@testable import LATInspect
@testable import LATClient
@testable import LATTransfers

@Suite struct CopyTextTests {
    private let request = HTTPRequest(
        "POST", "https://api.example.com/v2/orders?page=1",
        headers: ["Content-Type": "application/json", "X-Note": "it's", "Host": "api.example.com", ":path": "/v2"],
        body: .data(Data(#"{"age":36,"name":"Ada","tags":["a"]}"#.utf8)))

    @Test func curlSendsTheSameRequest() {
        #expect(
            CopyText(request).text(as: .curl)
                == "curl -H 'Content-Type: application/json' -H 'X-Note: it'\\''s' -H 'User-Agent:' -H 'Accept:' "
                + #"--data-raw '{"age":36,"name":"Ada","tags":["a"]}' --compressed "#
                + "'https://api.example.com/v2/orders?page=1'")
    }

    @Test func httpieCommandHasItems() {
        #expect(
            CopyText(request).text(as: .httpie)
                == "http POST 'https://api.example.com/v2/orders?page=1' 'X-Note:it'\\''s' 'age:=36' 'name=Ada' 'tags:=[\"a\"]'"
        )
    }

    @Test func methodIsQuotedForTheShell() {
        let foreign = HTTPRequest("GET; touch x", "https://api.example.com/")
        #expect(CopyText(foreign).text(as: .httpie) == "http 'GET; touch x' 'https://api.example.com/'")
    }

    @Test func httpieTextsAreNotReadAsItems() {
        var tricky = request
        tricky.headers = ["X-At": "@ada", "X-Equals": "=1", "X-Colon": ":@", "X-Empty": ""]
        tricky.body = .data(Data(#"{"a":"@ada","b":"=b","c":"x\\=y","d":":=1","e":"\u0000","f:@":"x=@y"}"#.utf8))
        #expect(
            CopyText(tricky).text(as: .httpie)
                == #"http POST 'https://api.example.com/v2/orders?page=1' 'X-At:\@ada' 'X-Equals:\=1' 'X-Colon::@' 'X-Empty;' "#
                + #"'a:="@ada"' 'b:="=b"' 'c:="x\\=y"' 'd=:=1' 'e:="\u0000"' 'f\:\@=x=@y'"#)
    }

    @Test(arguments: [#"{"-a":1}"#, #"{"":1}"#, #"{"{a":1}"#, "--boundary"])
    func httpieBodyThatIsNoListOfItemsIsRaw(body: String) {
        var raw = request
        raw.body = .data(Data(body.utf8))
        #expect(CopyText(raw).text(as: .httpie).hasPrefix("http --raw='\(body)' POST "))
    }

    @Test func fieldThatHTTPieCannotSendIsCopiedAsCurl() {
        var tricky = request
        tricky.headers = ["X-Pattern": #"a\=b"#]
        let text = CopyText(tricky).text(as: .httpie)
        #expect(text.hasPrefix("# HTTPie") && text.contains("\ncurl -H 'X-Pattern: a\\=b'"))
    }

    @Test func swiftCallsTheManager() {
        #expect(
            CopyText(request).text(as: .swift) == """
                let response = try await central.startRequest(
                    "POST", "https://api.example.com/v2/orders?page=1",
                    body: .data(Data(#"{"age":36,"name":"Ada","tags":["a"]}"#.utf8), contentType: "application/json"),
                    headers: ["X-Note": "it's"])

                """)
    }

    @Test func entityHasParametersAndRoute() {
        var request = request
        request.url = "https://api.example.com/v2/orders"
        #expect(
            CopyText(request, server: "orders.new").text(as: .entity) == """
                struct PostOrders: RequestEntity {
                    // {name} in the row's path takes the parameter or property of that name.
                    static let route = Route("POST", server: "orders.new")
                    var parameters: Parameters? {
                        ["age": 36, "name": "Ada", "tags": ["a"] as JSONValue]
                    }
                    var options: RequestOptions {
                        RequestOptions(headers: ["X-Note": "it's"])
                    }
                }

                let value = try await PostOrders().startRequest()

                """)
    }

    /// The lines of the entity between its route and its end.
    private func entity(
        _ method: HTTPMethod, _ url: String, _ body: String? = nil, type: String? = nil, server: String? = nil
    ) -> [String] {
        let body = body.map { HTTPBody.data(Data($0.utf8), contentType: type) }
        let text = CopyText(HTTPRequest(method.rawValue, url, body: body), server: server).text(as: .entity)
        let lines = text.split(separator: "\n").map { $0.drop { $0 == " " } }.filter { !$0.hasPrefix("//") }
        return lines[1...].prefix { !$0.hasPrefix("let value") }.dropLast().map(String.init)
    }

    private static let json = "application/json"
    private static let form = "application/x-www-form-urlencoded"

    @Test func entityKeepsTheQueryBesideABody() {
        #expect(
            entity("POST", "http://h/x?dryRun=true", #"{"a":1}"#, type: Self.json) == [
                #"static let route = Route("POST", url: "http://h/x?dryRun=true")"#,
                "var parameters: Parameters? {", #"["a": 1]"#, "}",
            ])
        #expect(
            entity("POST", "http://h/x?dryRun=true", "a=b%20c", type: Self.form) == [
                #"static let route = Route("POST", url: "http://h/x?dryRun=true")"#,
                "var parameters: Parameters? {", #"["a": "b c"]"#, "}",
                "var options: RequestOptions {", "RequestOptions(parameterEncoding: .form)", "}",
            ])
        // A row has no query.
        #expect(
            entity("POST", "http://h/x?dryRun=true", #"{"a":1}"#, type: Self.json, server: "x") == [
                #"static let route = Route("POST", server: "x")"#,
                "var parameters: Parameters? {", #"["dryRun": "true"]"#, "}",
                ##"var body: HTTPBody? { .data(Data(#"{"a":1}"#.utf8), contentType: "application/json") }"##,
            ])
    }

    @Test func entityKeepsTheQueryWithoutABody() {
        #expect(entity("POST", "http://h/x?a=1") == [#"static let route = Route("POST", url: "http://h/x?a=1")"#])
        #expect(
            entity("POST", "http://h/x?a=1", server: "x") == [
                #"static let route = Route("POST", server: "x")"#,
                "var parameters: Parameters? {", #"["a": "1"]"#, "}", "var body: HTTPBody? { .data(Data()) }",
            ])
        #expect(
            entity("GET", "http://h/x?a=1&b") == [
                #"static let route = Route("GET", url: "http://h/x")"#,
                "var parameters: Parameters? {", #"["a": "1", "b": JSONValue.null]"#, "}",
            ])
    }

    @Test(arguments: ["a=1&a=2", "b[]=3&b[]=4", "a=%FF"])
    func entityKeepsAQueryThatIsNoDictionary(_ query: String) {
        for server in [nil, "x"] {
            #expect(
                entity("GET", "http://h/x?\(query)#part", server: server) == [
                    "static let route = Route(\"GET\", url: \"http://h/x?\(query)\")"
                ])
        }
    }

    @Test func entityOfDeleteKeepsItsBody() {
        #expect(
            entity("DELETE", "http://h/x?all=1", #"{"ids":[1]}"#, type: Self.json) == [
                #"static let route = Route("DELETE", url: "http://h/x?all=1")"#,
                ##"var body: HTTPBody? { .data(Data(#"{"ids":[1]}"#.utf8), contentType: "application/json") }"##,
            ])
    }

    @Test(arguments: [
        (#"{"a":1}"#, "application/merge-patch+json"), (#"{"a":1}"#, "application/json; charset=utf-8"),
        (#"{"a":1.10}"#, json), (#"{"a":1e2}"#, json), (#"{"a":123456789012345678901234567890}"#, json),
        (#"{"a":1,"a":1}"#, json), ("[1]", json), ("a=1&a=2", form), ("a=%FF", form), ("x", "text/plain"),
    ])
    func bodyThatParametersWouldChangeIsGivenWhole(_ body: String, _ type: String) {
        let literal = body.contains("\"") ? "#\"\(body)\"#" : "\"\(body)\""
        #expect(
            entity("PUT", "http://h/x", body, type: type) == [
                #"static let route = Route("PUT", url: "http://h/x")"#,
                "var body: HTTPBody? { .data(Data(\(literal).utf8), contentType: \"\(type)\") }",
            ])
    }

    @Test func emptyObjectIsNoParameters() {
        #expect(
            entity("PUT", "http://h/{x}", "{ }", type: Self.json) == [
                #"static let route = Route("PUT", url: "http://h/%7Bx%7D")"#,
                "var parameters: Parameters? {", "[:]", "}",
            ])
    }

    @Test(arguments: [#"{"a":1.10}"#, #"{"a":1e2}"#, #"{"a":1,"a":1}"#])
    func httpieDoesNotChangeNumbers(_ body: String) {
        var raw = request
        raw.body = .data(Data(body.utf8))
        #expect(CopyText(raw).text(as: .httpie).hasPrefix("http --raw='\(body)' POST "))
    }

    @Test func bytesAreGivenInBase64() {
        var binary = request
        binary.body = .data(Data([0, 255, 1]), contentType: "image/png")
        binary.headers = ["Content-Type": "image/png"]
        #expect(CopyText(binary).text(as: .curl).hasPrefix("echo AP8B | base64 -d | curl "))
        #expect(CopyText(binary).text(as: .curl).contains("--data-binary @-"))
        #expect(CopyText(binary).text(as: .swift).contains(#"Data(base64Encoded: "AP8B")!"#))
    }

    @Test func noteComesFirst() {
        let text = CopyText(request, note: "Only the beginning of this body is kept.").text(as: .swift)
        #expect(text.hasPrefix("// Only the beginning of this body is kept.\nlet response"))
    }

    /// A quote with a combining mark is one character, but ends what is in quotes.
    @Test func quoteWithACombiningMarkIsEscaped() {
        let request = HTTPRequest(
            "POST", "https://a.test/'\u{301};id;'\u{301}", headers: ["X": "\"\u{301}+\"\\\u{301}", "Y": "\"#\u{301}"],
            body: .data(Data(#"{"=\#u{301}a":"'\#u{301}"}"#.utf8)))
        let curl = CopyText(request).text(as: .curl)
        let httpie = CopyText(request).text(as: .httpie)
        #expect(curl.hasSuffix("'https://a.test/'\\''%CC%81;id;'\\''%CC%81'"))
        #expect(httpie.utf8.firstRange(of: "'https://a.test/'\\''\u{301};id;'\\''\u{301}'".utf8) != nil)
        #expect(httpie.utf8.firstRange(of: "'\\=\u{301}a='\\''\u{301}'".utf8) != nil)
        let swift = CopyText(request).text(as: .swift)
        #expect(swift.utf8.firstRange(of: "#\"\"\u{301}+\"\\\u{301}\"#".utf8) != nil)
        #expect(swift.utf8.firstRange(of: "##\"\"#\u{301}\"##".utf8) != nil)
    }

    /// A command of a log is run again, too, and the values of a form are those of its users.
    @Test func valueOfAFormNamesNoFile() {
        let form = HTTPRequest(
            "POST", "https://a.test/",
            body: .multipart([
                UploadFile(name: "a", data: Data("@/etc/passwd".utf8)),
                UploadFile(name: "b=\u{338}@/etc/passwd;", data: Data("<c;type=d".utf8)),
            ]))
        #expect(
            CurlCommand(.log).text(of: form)
                == #"curl -F 'a="@/etc/passwd"' -F 'b%3D\#u{338}@/etc/passwd;="<c;type=d"' --compressed 'https://a.test/'"#
        )
    }

    private static let hostile = [
        "a\nb; touch ran", "it's\t\\n\u{1B}[2J", "$(touch ran)`touch ran`\u{7}", "\u{85}é\u{202E}x\u{2028}",
        "\r\n'; touch ran #",
        "$'\\''; touch ran; '", "!!\u{9B}31m", "\\\n touch ran", "\u{301}'\u{301};touch ran;'",
    ]

    /// Runs a text as it would be pasted, with functions in place of the programs. Fails when another command has run.
    ///
    /// - Returns: the arguments of the program.
    private func paste(_ text: String) throws -> [String] {
        let folder = try TemporaryDirectory()
        let (shell, input, output) = (Process(), Pipe(), Pipe())
        shell.executableURL = URL(filePath: "/bin/bash")
        shell.currentDirectoryURL = URL(filePath: folder.path)
        shell.standardInput = input
        shell.standardOutput = output
        try shell.run()
        let functions = ["curl", "http"].map { "\($0)() { printf '%s\\0' \"$@\"; }\n" }.joined()
        try input.fileHandleForWriting.write(contentsOf: Data("\(functions)\(text)\n".utf8))
        try input.fileHandleForWriting.close()
        let printed = output.fileHandleForReading.readDataToEndOfFile()
        shell.waitUntilExit()
        #expect(shell.terminationStatus == 0 && folder.read("ran") == nil, "\(text)")
        return printed.split(separator: 0, omittingEmptySubsequences: false).dropLast().map {
            String(decoding: $0, as: UTF8.self)
        }
    }

    /// A shell that gets the text gives the program exactly the words of the request, and runs nothing else.
    @Test(arguments: hostile) func pastedTextRunsNothingElse(_ text: String) throws {
        let request = HTTPRequest(
            "P\(text)", "https://a.test/\(text)", headers: ["X": text, "Y\(text)": "y"],
            body: .data(Data("b\(text)".utf8)))
        for form in [CopyText.Form.curl, .httpie] {
            let command = CopyText(request, note: "cut\(text)").text(as: form)
            #expect(!command.dropLast().replacing("\n", with: "").unicodeScalars.contains { $0.controlsTerminal })
            let words = try paste(command)
            let isCurl = form == .curl
            for word in [
                // curl gets the URL as the engine sends it.
                "P\(text)", isCurl ? "https://a.test/\(text)".idempotentlyPercentEncoded : "https://a.test/\(text)",
                isCurl ? "X: \(text)" : "X:\(text)",
                isCurl ? "Y\(text): y" : "Y\(text):y",
                isCurl ? "b\(text)" : "--raw=b\(text)",
            ] { #expect(words.contains { $0.utf8.elementsEqual(word.utf8) }, "\(word.debugDescription) in \(command)") }
        }
        for form in [CopyText.Form.swift, .entity] {
            let code = CopyText(request, note: "cut\(text)").text(as: form)
            #expect(code.utf8.starts(with: "// cut".utf8))
            #expect(code.split(separator: "\n").filter { $0.hasPrefix("//") }.count == 1)
            #expect(!code.replacing("\n", with: "").unicodeScalars.contains { $0.controlsTerminal })
        }
    }

    @Test(arguments: hostile) func pastedPartsArriveUnchanged(_ text: String) throws {
        let files = [
            UploadFile(name: "a", value: text),
            UploadFile(name: "f", fileName: text, path: "/tmp/\(text)", contentType: "text/plain"),
        ]
        let request = HTTPRequest("POST", "https://a.test/", body: .multipart(files))
        let words = try paste(CurlCommand(.run).text(of: request))
        // curl itself removes the quotes of the values of -F, and the backslashes in them.
        let escaped = text.replacingScalars(["\\": "\\\\", "\"": "\\\""])
        for word in ["a=\"\(escaped)\"", "f=@\"/tmp/\(escaped)\";filename=\"\(escaped)\";type=text/plain"] {
            #expect(words.contains { $0.utf8.elementsEqual(word.utf8) }, "\(word.debugDescription) in \(words)")
        }
    }

    /// HTTPie's own tests read its command lines with shlex.
    @Test func pastedTextIsReadByShlex() async throws {
        let request = HTTPRequest(
            "POST", "https://a.test/?q='$(id)'", headers: ["X": "it's \\ \"x\"", "Y": "`id`"],
            body: .data(Data(#"{"a":"it's","b c":[1,"$(id)"]}"#.utf8)))
        let text = CopyText(request).text(as: .httpie)
        let script = "import shlex, sys, json; print(json.dumps(shlex.split(sys.argv[1])))"
        let (python, output) = (Process(), Pipe())
        python.executableURL = URL(filePath: "/usr/bin/env")
        python.arguments = ["python3", "-c", script, text]
        python.standardOutput = output
        try python.run()
        let words = try JSONValue(parsing: output.fileHandleForReading.readDataToEndOfFile()).array?.compactMap(
            \.string)
        python.waitUntilExit()
        #expect(
            words == [
                "http", "POST", request.url, "X:it's \\ \"x\"", "Y:`id`", "a=it's", #"b c:=[1,"$(id)"]"#,
            ])
    }

    @Test func textWithANULIsRefused() {
        let request = HTTPRequest("GET", "https://a.test/", headers: ["X": "a\u{0}b"])
        for form in [CopyText.Form.curl, .httpie] {
            #expect(
                CopyText(request).text(as: form)
                    == "# This request has a NUL, which no argument of a command can hold.\n")
        }
    }

    @Test func hostileTextStaysALiteral() {
        let request = HTTPRequest("GET", "https://a.test/\"\\(x)", headers: ["X": "a\nb\u{1}\"#"])
        let text = CopyText(request).text(as: .swift)
        #expect(text.contains(###"#"https://a.test/"\(x)"#"###))
        #expect(text.contains(##""a\nb\u{1}\"#""##))
    }
}
