import Foundation
import Testing

@testable import LATInspect

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
        for text in [curl, httpie] {
            #expect(text.utf8.firstRange(of: "'https://a.test/'\\''\u{301};id;'\\''\u{301}'".utf8) != nil)
        }
        #expect(httpie.utf8.firstRange(of: "'\\=\u{301}a='\\''\u{301}'".utf8) != nil)
        let swift = CopyText(request).text(as: .swift)
        #expect(swift.utf8.firstRange(of: "#\"\"\u{301}+\"\\\u{301}\"#".utf8) != nil)
        #expect(swift.utf8.firstRange(of: "##\"\"#\u{301}\"##".utf8) != nil)
    }

    /// A shell that interprets the command gives exactly the words of the request.
    @Test(arguments: ["a\nb; echo no", "it's\t\\n\u{1B}[2J", "$(id)`id`\u{7}", "\u{85}é\u{202E}x", "\r\n'; id #"])
    func controlCharactersStayInTheirWord(_ text: String) throws {
        let request = HTTPRequest("PUT", "https://a.test/", headers: ["X": text], body: .data(Data("b\(text)".utf8)))
        for form in [CopyText.Form.curl, .httpie] {
            let command = CopyText(request).text(as: form)
            #expect(!command.unicodeScalars.contains { $0.value < 0x20 || (0x7F..<0xA0).contains($0.value) })
            let shell = Process()
            let output = Pipe()
            shell.executableURL = URL(filePath: "/bin/bash")
            let words = command.drop { $0 != " " }
            shell.arguments = ["-c", "printf '%s\\0' \(words)"]
            shell.standardOutput = output
            try shell.run()
            let printed = output.fileHandleForReading.readDataToEndOfFile()
            shell.waitUntilExit()
            let list = printed.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
            #expect(list.contains(form == .curl ? "X: \(text)" : "X:\(text)"), "\(command)")
            #expect(list.contains(form == .curl ? "b\(text)" : "--raw=b\(text)"), "\(command)")
        }
    }

    @Test func hostileTextStaysALiteral() {
        let request = HTTPRequest("GET", "https://a.test/\"\\(x)", headers: ["X": "a\nb\u{1}\"#"])
        let text = CopyText(request).text(as: .swift)
        #expect(text.contains(###"#"https://a.test/"\(x)"#"###))
        #expect(text.contains(##""a\nb\u{1}\"#""##))
    }
}
