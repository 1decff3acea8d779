import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import lat

/// Messages of errors: one sentence in the words of the command line.
@Suite(.timeLimit(.minutes(1))) struct ErrorWordsTests {
    private let server: MockServer
    private let closed: ClosedPort

    init() throws {
        server = try MockServer()
        closed = try ClosedPort()
    }

    /// The words of a message that come from the code: names in camel case, and members of enumerations.
    private static func wordsOfCode(in message: String) -> [Substring] {
        let address = message.lastIndex(of: "[") ?? message.endIndex
        return message[..<address].split(separator: " ").filter { word in
            let letters = word.filter(\.isLetter)
            let isCamel = zip(letters, letters.dropFirst()).contains { $0.isLowercase && $1.isUppercase }
            let isName =
                ["libcurl", "OpenSSL", "LATNetworking", "GnuTLS", "WebSocket"].contains { word.contains($0) }
                || word.hasPrefix("error:")
            return isCamel && !isName && !word.contains("\"") || word.hasPrefix(".") && word.count > 1 || word == "="
                || word == "nil"
        }
    }

    private func check(
        _ arguments: [String], _ code: Int32, _ parts: [String], environment: [String: String] = [:]
    ) async throws {
        let result = try await LatProcess.run(arguments, environment: environment)
        #expect(result.exitCode == code, "\(arguments): \(result.err)")
        #expect(
            result.err.hasPrefix("lat: ") && result.err.split(separator: "\n").count == 1, "\(arguments): \(result.err)"
        )
        for part in parts { #expect(result.err.contains(part), "\(arguments): \(result.err)") }
        #expect(Self.wordsOfCode(in: result.err) == [], "\(arguments): \(result.err)")
    }

    @Test func failedConnectionsNameTheNextStep() async throws {
        try await check(
            [closed.url("/")], 3, ["lat: Failed to connect to 127.0.0.1", "is the server running, and is the port"])
        try await check(["http://no.such.host.invalid/"], 3, ["no.such.host.invalid", "check the name for a typo"])
        try await check(
            [server.url(), "--unix-socket", "/no/such"], 3, ["cannot connect to the Unix domain socket \"/no/such\""])
    }

    @Test(.needsNginx) func handshakeWithAPlainPortNamesTheNextStep() async throws {
        let plain = try #require(Servers.nginx)
        try await check(
            [plain.replacing("http:", with: "https:")], 3,
            ["the TLS handshake with", "does this port speak plain http?"])
    }

    @Test func failedProxiesNameTheNextStep() async throws {
        let proxy = closed.url("")
        try await check([server.url(), "--proxy", proxy], 3, ["the proxy \(proxy)", "cannot be reached"])
        try await check(
            [server.url(), "--proxy", "ftp://h"], 2, ["the proxy's scheme \"ftp\" is not known; use one of http"])
        try await check([server.url(), "-x", "http://p q"], 2, ["the proxy is not a URL; write scheme://host:port"])
        try await check([server.url()], 2, ["http_proxy"], environment: ["http_proxy": "ftp://h"])
        server.enqueue(.status(407).header("Proxy-Authenticate", "Basic realm=\"r\""))
        try await check(["http://h/", "--proxy", server.url("")], 3, ["requires credentials", "(407)"])
    }

    @Test func badAnswersNameTheNextStep() async throws {
        server.enqueue(.raw("nonsense\r\n\r\n"), .status(302).header("Location", "ftp://h/"))
        try await check([server.url()], 3, ["the server violated HTTP"])
        try await check(
            [server.url()], 3, ["is not an http or https URL", "use --no-follow to see the response itself"])
        for (status, advice) in [
            (401, "give credentials"), (403, "do not permit"), (404, "check the address"), (405, "allowed method"),
            (429, "try again later"), (500, "the body of its response may say why"),
            (418, "the body of the response may say"),
        ] {
            server.enqueue(.status(status))
            try await check([server.url()], 1, ["the server answered \(status)", advice])
        }
        server.enqueue(.redirect(to: "/x"))
        try await check(
            [server.url(), "--no-follow"], 1,
            ["the server answered 302 Found; --no-follow leaves it to you ["])
    }

    @Test func existingFileIsNotAnsweredWithOptionsOfDownload() async throws {
        let directory = try TemporaryDirectory()
        let target = try directory.write(Data("own".utf8), to: "a.bin")
        server.fallback { _ in .text("new").header("Content-Disposition", "attachment; filename=a.bin") }
        let result = try await LatProcess.run([server.url("/x"), "-O", "-o", directory.path])
        let words = "exists already; remove it, or name another target with --output; nothing is kept ["
        #expect(result.exitCode == 2 && result.err.contains(words), "\(result.err)")
        #expect(try Data(contentsOf: URL(filePath: target)) == Data("own".utf8))
    }

    @Test func timeLimitsNameTheirOptions() async throws {
        server.enqueue(.text("x").stalling(.start), .text("x").stalling(.start))
        try await check([server.url(), "--timeout", "100ms"], 3, ["not done within 100 ms", "raise --timeout ["])
        try await check(
            [server.url(), "--idle-timeout", "100ms"], 3, ["no bytes moved for 100 ms", "raise --idle-timeout if"])
        let full = try FullBacklogListener()
        try await check(
            ["http://127.0.0.1:\(full.port)/", "--connect-timeout", "150ms"], 3, ["raise --connect-timeout"])
    }

    @Test func impossibleSettingsNameTheirOptions() async throws {
        let url = "https://127.0.0.1:1/"
        for (options, parts) in [
            (["--ca", "/no/ca"], ["--ca \"/no/ca\" cannot be read"]),
            (["--cert", "/no/cert"], ["--cert", "/no/cert"]),
            (["--cert", "/no/c.p12"], ["--cert", "/no/c.p12"]), (["--pin", "abc"], ["--pin", "\"abc\" is not a pin"]),
            (["--key-log", "/no/keys"], ["--key-log \"/no/keys\" cannot be written"]),
            (["--cookies", "/no/jar"], ["the cookie file \"/no/jar\" cannot be used"]),
            (["--cookies", "/"], ["the cookie file \"/\" cannot be read", "name another"]),
            (
                ["--netrc-file", "/no/netrc"],
                ["--netrc-file: the file \"/no/netrc\" cannot be read (No such file or directory); name another"]
            ),
            (["--hsts", "/no/h"], ["--hsts: the file \"/no/h\""]),
            (["--alt-svc", "/no/a"], ["--alt-svc: the file \"/no/a\""]),
            (["--doh", "http://h/"], ["--doh: \"http://h/\" is not an https URL"]),
            (["--dns-servers", "name"], ["--dns-servers: \"name\" is not the address of a DNS server"]),
            (["--interface", "none7"], ["--interface: this machine has no network interface \"none7\""]),
            (["--interface", "192.0.2.7"], ["--interface: 192.0.2.7 is not an address of this machine"]),
            (["--ocsp-stapling", "-k"], ["--ocsp-stapling needs certificates to be verified; leave out --insecure"]),
        ] {
            try await check([url] + options, 2, parts)
        }
        try await check([server.url(), "--http3-only"], 2, ["--http3-only needs"])
        try await check(["HEAD", server.url(), "-d", "x"], 2, ["a HEAD request has no body"])
        try await check(["http://h:x/"], 2, ["the URL \"http://h:x/\" cannot be used: its port is not a number"])
        #expect(server.requests.isEmpty)
    }

    @Test func settingsOfTheLibraryAreNotNamed() async throws {
        #expect(ErrorWords().replaced("the policy .cacheOnly forbids") == "--cache cacheOnly forbids")
        server.fallback { _ in .json("[1]").header("Link", "</x>; rel=next") }
        try await check([server.url("/x"), "--all-pages"], 3, ["or read fewer pages with --max-pages"])
        let words = ErrorWords().replaced("x unless journalFolder names another folder")
        #expect(words == "x unless --journal names another folder")
    }

    @Test func reportHasTheSameWords() async throws {
        server.enqueue(.text("x").stalling(.start))
        let result = try await LatProcess.run([server.url(), "--timeout", "100ms", "--format", "json"])
        let message = try JSONValue(parsing: result.out)["error"]["message"].string
        #expect(message?.hasSuffix("raise --timeout") == true)
    }

    @Test func settingsAreNamedByTheOptionThatWasGiven() throws {
        func words(_ message: String, _ arguments: [String] = []) throws -> String {
            let parsed = try ArgumentParser(options: RequestCommand.options).parse(arguments)
            return ErrorWords(parsed).text(of: NetworkError(.other, message: message))
        }
        #expect(try words("nameResolver: no", ["--dns-servers", "x"]) == "--dns-servers: no")
        #expect(try words("nameResolver: no") == "--doh: no")
        #expect(try words("netrc: no", ["--netrc"]) == "--netrc: no")
        // English words that are also names of settings.
        #expect(
            try words("the proxy did not resolve the name; raise timeout")
                == "the proxy did not resolve the name; raise --timeout")
        #expect(
            try words("give it as tls.caFile, or check connectionSource and localPorts")
                == "give it as --ca, or check --interface and --local-port")
    }
}
