import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// The command that `lat --curl` prints sends the same request as `lat`.
@Suite(.timeLimit(.minutes(1))) struct CurlOptionTests {
    private let server: MockServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try MockServer()
        directory = try TemporaryDirectory()
        server.fallback { _ in .text("ok") }
        try directory.write(Data("it's \"a\"; file\n".utf8), to: "it's $HOME.txt")
        try directory.write(Data(#"{"a": [1]}"#.utf8), to: "a.json")
    }

    /// A request as a server sees it, without the boundary of a multipart body.
    private struct Facts: Equatable {
        var line: String
        var headers: [String]
        var body: String

        init(_ request: RecordedRequest) {
            line = "\(request.method) \(request.target)"
            var boundary: String?
            headers = request.headers.map { name, value in
                if name.lowercased() == "content-type", let mark = value.firstRange(of: "boundary=") {
                    boundary = String(value[mark.upperBound...])
                    return "content-type: multipart/form-data"
                }
                // The length of a multipart body includes its boundaries.
                if name.lowercased() == "content-length", value != "0", request.text.contains("form-data;") {
                    return "content-length"
                }
                // curl offers one coding more.
                return "\(name.lowercased()): \(value.replacing("deflate, ", with: ""))"
            }.sorted()
            body = boundary.map { request.text.replacing($0, with: "BOUNDARY") } ?? request.text
        }
    }

    @Test(arguments: [
        [], ["q==a b&c", "X-A:it's", "X-E;", "User-Agent:"], ["a=1", "b:=[1,2]", "c[d]=ü\n\"x\" $HOME `id` \\"],
        ["-f", "a=1 2", "b=&"], ["POST"], ["PUT"], ["DELETE"], ["PROPFIND", "Depth:1"], ["PATCH", #"{"it's": 1}"#],
        ["-d", "text's end\n"], ["@it's $HOME.txt"], ["--json", "a.json"], ["-p", "a=1", "-p", "b:=2"],
        ["PUT", "-p", "a=1", "-d", "@a.json"], ["HEAD"], ["-u", "ada:it's"], ["--bearer", "-x $(id)"],
        ["title=a;b=\"c\" \\", "doc@it's $HOME.txt", "raw@a.json;type=text/csv;filename=x y.csv", "at=@a.json"],
        ["-F", "f=a.json", "-p", "a=<b"], ["-H", "Content-Type: text/x", "-d", "x"], ["-H", "Accept:"],
    ])
    func curlSendsTheSameRequest(arguments: [String]) async throws {
        let hasMethod = arguments.first.map { $0.allSatisfy(\.isUppercase) } ?? false
        let line =
            (hasMethod ? [arguments[0]] : []) + [server.url("/x?z=1")] + arguments.dropFirst(hasMethod ? 1 : 0)
        let (own, curls, printed) = try await requests(line)
        #expect(own.count == 1 && own == curls, "\(printed.text)")
        #expect(printed.text.hasPrefix("curl ") && printed.text.hasSuffix("\n"))
        #expect(printed.err.isEmpty == printed.text.contains(" -L "), "\(printed)")
    }

    /// The requests of `lat` with these arguments, those of the command that it prints, and that command.
    private func requests(_ line: [String]) async throws -> (own: [Facts], curls: [Facts], printed: LatProcess.Result) {
        #expect(try await LatProcess.run(line, in: directory.path).exitCode == 0)
        let own = server.requests
        let printed = try await LatProcess.run(line + ["--curl"], in: directory.path)
        #expect(printed.exitCode == 0 && server.requestCount == own.count)
        let curl = try LatProcess(["-c", printed.text], in: directory.path, program: "/bin/bash")
        let result = await curl.result
        #expect(result.exitCode == 0, "\(printed.text)\(result.err)")
        return (own.map(Facts.init), server.requests.dropFirst(own.count).map(Facts.init), printed)
    }

    @Test(arguments: ["/x?ids=[1-3]&q={a,b}", "/[a-c]/{1,2}", "/x?filter[name]=ü|^`\"<>"])
    func urlIsNoPattern(target: String) async throws {
        let (own, curls, printed) = try await requests(["POST", server.url(target), "a=1"])
        #expect(own.count == 1 && own == curls, "\(printed.text)")
    }

    /// curl keeps a method of `-X` over redirects, and sends fields of `-H` to any server.
    @Test(arguments: [
        ([], true), (["POST"], true), (["POST", "a=1"], true), (["HEAD"], true), (["GET", "-d", "x"], true),
        (["DELETE"], false), (["PUT", "a=1"], false), (["PATCH"], false), (["POST", "a=1", "X-Api-Key:x"], false),
    ])
    func redirectsAreFollowedAsByLat(arguments: [String], follows: Bool) async throws {
        server.fallback { $0.path == "/old" ? .status(303).header("Location", "/new") : .text("ok") }
        let line = arguments.prefix(1) + [server.url("/old")] + arguments.dropFirst(1)
        let (own, curls, printed) = try await requests(Array(line))
        #expect(own.count == 2, "\(own)")
        #expect(curls.map(\.line) == own.prefix(follows ? 2 : 1).map(\.line), "\(printed.text)")
        #expect(printed.err.contains("lat: -L is left out") != follows, "\(printed.err)")
    }

    @Test func onlyIdempotentMethodsAreRepeated() async throws {
        let post = try await LatProcess.run(["POST", server.url(), "a=1", "--retry", "2", "--curl"])
        #expect(post.exitCode == 0 && !post.text.contains("--retry"))
        let put = try await LatProcess.run(["PUT", server.url(), "a=1", "--retry", "2", "--curl"])
        #expect(put.text.contains(" --retry '2'"))
    }

    /// A part of a form whose value is read from a file.
    @Test func bytesThatNoArgumentHoldsAreRefused() async throws {
        try directory.write(Data("a\0b".utf8), to: "raw")
        let arguments = [server.url(), "at=@raw", "doc@a.json"]
        let printed = try await LatProcess.run(arguments + ["--curl"], in: directory.path)
        #expect(
            printed.exitCode == 2 && printed.text.isEmpty && printed.err.contains("the part at has a NUL"), "\(printed)"
        )
        // The file itself can be sent.
        let file = try await LatProcess.run([server.url(), "at@raw", "--curl"], in: directory.path)
        #expect(file.exitCode == 0 && file.text.contains("@"))
    }

    @Test func standardInputIsNotRead() async throws {
        let printed = try await LatProcess.run([server.url(), "@-", "--curl"], input: "secret")
        #expect(printed.text.contains("--data-binary '@-'") && !printed.text.contains("secret"))
        #expect(server.acceptedConnections == 0)
    }

    @Test func optionsOfTheConnectionAreTranslated() async throws {
        let printed = try await LatProcess.run([
            "https://h:81/x", "--curl", "-ki", "-m", "1.5s", "--connect-timeout", "2", "--retry", "3", "-x",
            "socks5h://p:1",
            "--cookies", "my jar", "--resolve", "h:127.0.0.1", "--connect-to", "::a:1", "--limit-rate", "2K", "-o",
            "out",
            "--max-redirects", "4", "--interface", "lo", "--pin",
            "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        ])
        for words in [
            "-k", "-i", "-m '1.500'", "--connect-timeout '2'", "--retry '3'", "-x 'socks5h://p:1'",
            "-b 'my jar' -c 'my jar'",
            "--resolve 'h:81:127.0.0.1'", "--connect-to '::a:1'", "--limit-rate '2048'", "-o 'out'", "-L",
            "--max-redirs '4'",
            "--interface 'lo'", "--pinnedpubkey 'sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
            "'https://h:81/x'\n",
        ] {
            #expect(printed.text.contains(" \(words)"), "\(words): \(printed.text)")
        }
        #expect(printed.exitCode == 0, "\(printed.err)")
        let left = try await LatProcess.run(["h/", "a=1", "--gzip", "--curl"])
        #expect(left.err.contains("lat: curl has no option like --gzip; it is left out\n"), "\(left.err)")
        let two = try await LatProcess.run(["h/", "a=1", "--gzip", "--idle-timeout", "2", "--curl"])
        #expect(two.err.contains("; they are left out\n"), "\(two.err)")
    }
}
