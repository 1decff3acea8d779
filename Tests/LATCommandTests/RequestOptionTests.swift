import Dispatch
import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import lat

/// The options of `lat` on credentials, names, certificates, cookies, repetition and files.
@Suite(.timeLimit(.minutes(1))) struct RequestOptionTests {
    private let server: MockServer
    private let directory: TemporaryDirectory

    init() throws {
        server = try MockServer()
        directory = try TemporaryDirectory()
    }

    private func lat(_ arguments: String...) async throws -> LatProcess.Result {
        try await LatProcess.run(arguments, in: directory.path)
    }

    // MARK: Credentials

    @Test func bearerTokenIsSentAndHidden() async throws {
        server.fallback { _ in .text("ok") }
        let result = try await lat(server.url(), "--bearer", "t0ken", "-v")
        #expect(server.requests.first?.headers["Authorization"] == "Bearer t0ken")
        #expect(result.err.contains("> Authorization: (not shown)\n") && !result.err.contains("t0ken"))
    }

    @Test func digestAnswersAChallenge() async throws {
        server.fallback { request in
            guard request.headers["Authorization"]?.hasPrefix("Digest ") == true else {
                return .status(401).header("WWW-Authenticate", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\"")
            }
            return .text("in")
        }
        let result = try await lat(server.url(), "--digest", "-u", "ada:pw")
        #expect(result.text == "in" && result.exitCode == 0, "\(result.err)")
        #expect(server.requests.last?.headers["Authorization"]?.contains("username=\"ada\"") == true)
    }

    // MARK: Cookies

    @Test func cookiesAreKeptForTheNextRun() async throws {
        server.route("GET", "/in") { _ in
            .text("ok").header("Set-Cookie", "session=1").header("Set-Cookie", "kept=2; Max-Age=1000")
        }
        server.route("GET", "/gone") { _ in .text("no", status: 404).header("Set-Cookie", "late=3; Path=/") }
        server.route("GET", "/me") { _ in .text("ok") }
        for path in ["/in", "/gone", "/me"] { _ = try await lat(server.url(path), "--cookies", "jar") }
        let cookies = server.requests.last?.headers["Cookie"]?.split(separator: "; ").sorted()
        #expect(cookies == ["kept=2", "late=3", "session=1"])
        let file = String(decoding: directory.read("jar") ?? Data(), as: UTF8.self)
        #expect(file.hasPrefix("# Netscape HTTP Cookie File\n") && file.contains("\tFALSE\t0\tsession\t1\n"), "\(file)")
    }

    @Test func runsAtTheSameTimeKeepEachOthersCookies() async throws {
        let (isAsked, mayRespond) = (Event(), DispatchSemaphore(value: 0))
        let slow = try RawServer { connection in
            _ = connection.read()
            isAsked.happen()
            mayRespond.wait()
            connection.write(Array("HTTP/1.1 200 OK\r\nSet-Cookie: slow=1\r\nContent-Length: 0\r\n\r\n".utf8))
        }
        server.fallback { _ in .text("ok").header("Set-Cookie", "fast=1") }
        let process = try LatProcess([slow.url(), "-b", "jar"], in: directory.path)
        await isAsked.wait()
        #expect(try await lat(server.url(), "-b", "jar").exitCode == 0)
        mayRespond.signal()
        #expect(await process.result.exitCode == 0)
        let file = String(decoding: directory.read("jar") ?? Data(), as: UTF8.self)
        #expect(file.contains("\tslow\t1\n") && file.contains("\tfast\t1\n"), "\(file)")
    }

    @Test func cookiesOfCurlAreRead() async throws {
        server.fallback { _ in .text("ok") }
        try directory.write(
            Data("# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t0\ta\tb\n".utf8), to: "jar")
        _ = try await lat(server.url(), "-b", "jar")
        #expect(server.requests.first?.headers["Cookie"] == "a=b")
    }

    // MARK: Caching

    @Test func verboseTellsThatTheCacheAnswers() async throws {
        server.fallback { _ in .text("a") }
        let arguments = [server.url("/1"), "--cache", "cacheElseNetwork:90d", "-v"]
        let variables = ["XDG_CACHE_HOME": directory.path]
        let first = try await LatProcess.run(arguments, environment: variables)
        let second = try await LatProcess.run(arguments, environment: variables)
        #expect(first.text == "a" && !first.err.contains("from the cache"), "\(first.err)")
        #expect(second.text == "a" && second.err.contains("* from the cache (diskCache)\n"), "\(second.err)")
        #expect(server.requestCount == 1)
        for command in ["events", "lines", "ws"] {
            let refused = try await LatProcess.run([command, server.url(), "--dictionaries"])
            #expect(refused.exitCode == 2 && refused.err.contains("unknown option --dictionaries"))
        }
    }

    @Test func responseOfEarlierRunIsDictionary() async throws {
        server.fallback { MockReply.repeated(to: $0) }
        let variables = ["XDG_CACHE_HOME": directory.path]
        func get(_ arguments: String...) async throws -> LatProcess.Result {
            try await LatProcess.run(["request", "GET"] + arguments, environment: variables)
        }
        #expect(try await get(server.url("/1"), "--cache", "http", "--dictionaries").text == "the dictionary")
        _ = try await get(server.url("/2"), "--cache", "http")
        #expect(server.requests.allSatisfy { !$0.headers.contains("Available-Dictionary") })
        // On a busy machine a look-up may take longer than a request waits for it.
        var coded = try await get(server.url("/3"), "--cache", "http", "--dictionaries", "-v")
        for number in 0..<20 where !coded.err.contains("> Available-Dictionary:") {
            coded = try await get(server.url("/3\(number)"), "--cache", "http", "--dictionaries", "-v")
        }
        #expect(coded.out == Data(repeating: 0x61, count: 131_072) && coded.exitCode == 0, "\(coded.err.prefix(500))")
        #expect(coded.err.contains("> Available-Dictionary: :") && coded.err.contains("< Content-Encoding: dcz\n"))
        for without in [["--dictionaries"], ["--dictionaries", "--cache", "cacheOnly"]] {
            let refused = try await LatProcess.run(["request", "GET", server.url("/4")] + without)
            #expect(
                refused.exitCode == 2
                    && refused.err.contains("--dictionaries needs the cache of HTTP; add --cache http"))
        }
        #expect(server.requestCount == 3)
    }

    // MARK: Names and addresses

    @Test func resolveNamesTheAddressOfAHost() async throws {
        server.fallback { _ in .text("ok") }
        let url = "http://api.example.org:\(server.port)/"
        for value in ["api.example.org:\(server.port):127.0.0.1", "api.example.org:127.0.0.1"] {
            #expect(try await lat(url, "--resolve", value).text == "ok")
        }
        #expect(
            server.requests.map { $0.headers["Host"] } == Array(repeating: "api.example.org:\(server.port)", count: 2))
    }

    @Test func connectToNamesAnotherServer() async throws {
        server.fallback { _ in .text("ok") }
        let result = try await lat("http://api.example.org/", "--connect-to", "::127.0.0.1:\(server.port)")
        #expect(result.text == "ok" && server.requests.first?.headers["Host"] == "api.example.org", "\(result.err)")
    }

    // MARK: Repetition and time

    @Test func failuresAreRepeated() async throws {
        server.enqueue(.status(503), .status(429), .text("third"))
        let result = try await lat(server.url(), "--retry", "3")
        #expect(result.text == "third" && result.exitCode == 0 && server.requestCount == 3)
        server.enqueue(.status(500), .text("never"))
        #expect(try await lat(server.url(), "a=1", "--retry", "3").exitCode == 1 && server.requestCount == 4)
    }

    @Test func numberAloneIsInSeconds() async throws {
        server.enqueue(.text("never").stalling(.start))
        let result = try await lat(server.url(), "-m", "0.2")
        #expect(result.exitCode == 3 && result.err.hasPrefix("lat: not done within 200 ms"), "\(result.err)")
        server.enqueue(.text("never").stalling(.start))
        let idle = try await lat(server.url(), "--idle-timeout", "200ms")
        #expect(idle.exitCode == 3 && idle.err.contains("raise --idle-timeout"), "\(idle.err)")
    }

    @Test func redirectsAreLimited() async throws {
        server.fallback { request in .redirect(to: request.path + "x") }
        let result = try await lat(server.url("/"), "--max-redirects", "2")
        #expect(result.exitCode == 3 && server.requestCount == 3)
        #expect(result.err.contains("raise the limit with --max-redirects, or use --no-follow to see"), "\(result.err)")
    }

    // MARK: Certificates

    @Test(.needsNginx) func certificatesAreVerifiedUnlessToldOtherwise() async throws {
        let url = try #require(Servers.nginxTLS) + "/1k.bin"
        let authority = try #require(Servers.authority)
        let unknown = try await lat(url)
        #expect(unknown.exitCode == 3 && unknown.err.contains("give its authority as --ca"), "\(unknown.err)")
        #expect(try await lat(url, "--ca", authority).exitCode == 0)
        let insecure = try await lat(url, "-k")
        #expect(insecure.exitCode == 0 && insecure.out.count == 1_024)
        #expect(
            insecure.err
                == "lat: warning: certificates are not verified: anyone who claims to be the server is trusted\n")
        let pin = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
        let pinned = try await lat(url, "--ca", authority, "--pin", pin)
        #expect(pinned.exitCode == 3 && pinned.err.contains("and the pins (--pin) must be updated"), "\(pinned.err)")
    }

    @Test(.needsNginx) func clientCertificateIsSent() async throws {
        let authority = try #require(Servers.authority)
        let folder = authority.prefix(upTo: try #require(authority.lastIndex(of: "/")))
        let (certificate, key) = ("\(folder)/server.pem", "\(folder)/server.key")
        let openssl = try LatProcess(
            [
                "s_server", "-accept", "127.0.0.1:0", "-cert", certificate, "-key", key, "-CAfile", authority,
                "-Verify", "1",
                "-verify_return_error", "-www",
            ], program: "/usr/bin/openssl")
        defer { openssl.send(signal: 15) }
        await openssl.waitForOutput("ACCEPT 127.0.0.1:")
        let line = try #require(await openssl.lines(1).first { $0.hasPrefix("ACCEPT ") })
        let url = "https://localhost:" + line.split(separator: ":")[1] + "/"
        let without = try await lat(url, "--ca", authority)
        #expect(without.exitCode == 3 && without.err.contains("give one as --cert"), "\(without.err)")
        let with = try await lat(url, "--ca", authority, "--cert", certificate, "--key", key)
        #expect(with.exitCode == 0 && with.text.contains("s_server"), "\(with.err)")
    }

    // MARK: Files

    @Test func downloadIsNamedByServerOrURL() async throws {
        server.enqueue(
            .text("named").header("Content-Disposition", "attachment; filename=\"../report.pdf\""), .text("by URL"),
            .text("posted"))
        #expect(try await lat(server.url("/x?y=1"), "--download").exitCode == 0)
        #expect(try await lat(server.url("/a.iso"), "-O", "X-A:1").out.isEmpty)
        #expect(try await lat(server.url("/q"), "-O", "-o", "out", "a=1").exitCode == 0)
        #expect(directory.contents == ["a.iso", "out", "report.pdf"])
        #expect(directory.read("report.pdf") == Data("named".utf8) && directory.read("out") == Data("posted".utf8))
        #expect(server.requests[1].headers["X-A"] == "1" && server.requests[2].text == #"{"a":"1"}"#)
    }

    @Test func downloadGoesOnWhereItStopped() async throws {
        let data = MockPattern.bytes(in: 0..<400_000)
        server.enqueue(.pattern(byteCount: 400_000).header("ETag", "\"a\"").closing(afterBytes: 100_000))
        let first = try await lat(server.url("/f"), "-O", "--bearer", "t")
        #expect(first.exitCode == 3, "\(first.err)")
        // In a folder the name carries a digest of the URL.
        let kept = directory.contents.map { $0.replacing(/^f\.[0-9a-f]{12}\./, with: "f.") }
        #expect(kept == ["f.part", "f.part.journal"])
        server.route("GET", "/f") { request in
            let start = request.headers["Range"].flatMap { Int64($0.dropFirst(6).prefix(while: \.isNumber)) } ?? -1
            return MockReply(
                status: start > 0 ? 206 : 500,
                headers: ["ETag": "\"a\"", "Content-Range": "bytes \(start)-399999/400000"],
                body: .bytes(MockPattern.bytes(in: max(0, start)..<400_000)))
        }
        let second = try await lat(server.url("/f"), "-O", "--bearer", "t")
        #expect(second.exitCode == 0 && directory.contents == ["f"] && directory.read("f") == data, "\(second.err)")
        #expect(server.requests.allSatisfy { $0.headers["Authorization"] == "Bearer t" })
    }
}
