import FoundationEssentials
import Glibc
import HTTPCore
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import lat

@Suite struct ProbeProcessTests {
    @Test func unreachableServerShowsInTableAndExitsWith3() async throws {
        let server = try MockServer()
        let closed = try ClosedPort()
        let good = try await LatProcess.run(["probe", server.url()])
        #expect(good.exitCode == 0)
        #expect(good.text.hasPrefix("name"))
        #expect(good.text.contains("reachable") && good.text.contains("127.0.0.1"))
        let bad = try await LatProcess.run(["probe", server.url(), closed.url()])
        #expect(bad.exitCode == 3)
        #expect(bad.text.contains("unreachable: refused"))
        #expect(bad.err.contains("is the server running"))
        #expect(server.requestCount == 0)
    }

    @Test func jsonReportsEachServer() async throws {
        let server = try MockServer()
        let result = try await LatProcess.run(["probe", server.url(), "--format", "json"])
        let value = try JSONValue(parsing: result.out)
        #expect(value["reachable"].bool == true)
        #expect(value["targets"][0]["status"].string == "reachable")
        #expect(value["targets"][0]["latency"].double.map { $0 > 0 } == true)
        #expect(value["targets"][0]["reason"].string == nil)
    }

    @Test func namesAreLookedUpInTheTable() async throws {
        let server = try MockServer()
        let folder = try TemporaryDirectory()
        let text = #"{ domains: { here: { baseURL: "\#(server.url())" } } }"#
        let table = try folder.write(Data(text.utf8), to: "domains.json5")
        let good = try await LatProcess.run(["probe", "here", "--table", table])
        #expect(good.exitCode == 0)
        let typo = try await LatProcess.run(["probe", "hare", "--table", table])
        #expect(typo.exitCode == 2)
        #expect(typo.err.contains("\"here\""))
        let none = try await LatProcess.run(["probe", "here"], in: folder.path)
        #expect(none.exitCode == 2)
        #expect(none.err.contains("--table"))
    }

    @Test func usageMistakesNameTheNextStep() async throws {
        for (arguments, word) in [
            (["probe"], "NAME or URL"), (["probe", "http://a/", "--interval", "1s"], "--watch"),
            (["probe", "http://a/", "--check", "/x=y"], "--check"),
            (["doctor", "example.org"], "https://example.org/"),
            (["doctor", ":18080/x"], "write lat doctor http://localhost:18080/x"),
            (["probe", ":18080"], "write lat probe http://localhost:18080/"),
            (["doctor", "http://a/", "http://b/"], "one argument too many"),
            (["doctor", ""], "the URL is empty"), (["doctor", "ftp://h/"], "a scheme other than http and https"),
            (["doctor", "https://h:99999/"], "write https://HOST:PORT/"),
            (["doctor", "--ca", "no-such-file"], "--ca \"no-such-file\" cannot be read"),
            (["probe", "127.0.0.1"], "neither a domain of the table nor a URL; write lat probe http://127.0.0.1/"),
            (["probe", "ftp://h/"], "a scheme other than http and https"),
            (["probe", "http://a/", "--check", ""], "--check"),
            (["cache", "report", "--directory", "/dev/null"], "/dev/null is a file; name a folder"),
            (["cache", "explain", "ftp://h/"], "a scheme other than http and https"),
        ] {
            let result = try await LatProcess.run(arguments)
            #expect(result.exitCode == 2)
            #expect(result.err.contains(word), "\(arguments)")
        }
    }

    @Test func watchRedrawsATableOnATerminal() async throws {
        let server = try MockServer()
        let process = try LatProcess(["probe", server.url(), "--watch", "--interval", "100ms"], columns: 60)
        _ = await process.lines(2)
        server.stop()
        await process.waitForOutput("refused")
        process.send(signal: SIGINT)
        let result = await process.result
        #expect(result.exitCode == 130)
        #expect(result.text.contains("\u{1B}[2A"))
        // No line wraps.
        let lines = result.text.split(whereSeparator: \.isNewline).map { ProbeProcessTests.withoutColours(String($0)) }
        #expect(lines.allSatisfy { $0.count < 60 })
    }

    @Test func watchWritesALineForEachChange() async throws {
        let port = try ReservedPort()
        let server = try MockServer(port: port.port)
        let process = try LatProcess(
            ["probe", server.url(), "--watch", "--interval", "100ms", "--format", "json"])
        _ = await process.lines(1)
        server.stop()
        _ = await process.lines(2)
        let again = try MockServer(port: port.port)
        let lines = await process.lines(3)
        process.send(signal: SIGINT)
        _ = await process.result
        again.stop()
        let values = try lines.map { try JSONValue(parsing: Data($0.utf8)) }
        #expect(values.prefix(3).map { $0["status"].string } == ["reachable", "unreachable", "reachable"])
    }

    private static func withoutColours(_ text: String) -> String {
        var result = ""
        var isEscape = false
        for character in text {
            if character == "\u{1B}" { isEscape = true }
            if !isEscape, character != "\r" { result.append(character) }
            if isEscape, character.isLetter { isEscape = false }
        }
        return result
    }
}

@Suite struct DoctorProcessTests {
    @Test func reachableServerPassesEveryStep() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x").header("Date", "Sat, 21 Nov 2020 04:30:38 GMT") }
        let result = try await LatProcess.run(["doctor", server.url(), "--format", "json"])
        #expect(result.exitCode == 0)
        let steps = try JSONValue(parsing: result.out)["steps"]
        let names = (0..<6).compactMap { steps[$0]["name"].string }
        #expect(names == ["libcurl", "network", "name", "tcp", "http", "clock"])
        #expect(steps[4]["finding"].string?.contains("200") == true)
        // The server's clock is years off.
        #expect(steps[5]["outcome"].string == "warning")
        try await server.waitUntilDisconnected()
    }

    @Test func secretsOfAddressesAreHidden() async throws {
        let server = try MockServer()
        server.fallback { _ in
            MockReply(status: 302).header("Location", "http://ada:CANARY@a.test/?access_token=CANARY&page=2#CANARY")
        }
        let url = server.url("/?token=CANARY").replacing("http://", with: "http://ada:CANARY@")
        for format in ["json", "text"] {
            let result = try await LatProcess.run(["doctor", url, "--format", format])
            #expect(result.exitCode == 0 && !result.text.contains("CANARY"), "\(result.text)")
            #expect(result.text.contains("access_token=***&page=2"))
        }
    }

    @Test func responseOfACacheOnTheWayShowsNoWrongClock() async throws {
        let server = try MockServer()
        server.fallback { _ in
            let made = Date.now.addingTimeInterval(-3_000)
            return .text("x").header("Date", HTTPDate.format(made)).header("Age", "3000")
        }
        let result = try await LatProcess.run(["doctor", server.url(), "--format", "json"])
        let clock = try JSONValue(parsing: result.out)["steps"].array?.last
        #expect(clock?["name"].string == "clock" && clock?["outcome"].string == "good", "\(result.text)")
    }

    @Test func failedStepIsReportedWithAdvice() async throws {
        let closed = try ClosedPort()
        let refused = try await LatProcess.run(["doctor", closed.url()])
        #expect(refused.exitCode == 3)
        #expect(refused.text.contains("It fails at tcp") && refused.text.contains("is the server running"))
        let unknown = try await LatProcess.run(["doctor", "http://nowhere.invalid/"])
        #expect(unknown.exitCode == 3)
        #expect(unknown.text.contains("It fails at name"))
        let server = try MockServer()
        server.fallback { _ in .status(503) }
        let failing = try await LatProcess.run(["doctor", server.url()])
        #expect(failing.exitCode == 1)
        #expect(failing.text.contains("503"))
        let machine = try await LatProcess.run(["doctor"])
        #expect(machine.exitCode == 0)
        #expect(machine.text.contains("libcurl") && machine.text.contains("network"))
    }

    @Test(arguments: [
        ("127.0.0.1", "http://127.0.0.1:80/"), ("::1", "http://[::1]:80/"),
        ("fe80::1%eth0", "http://[fe80::1%25eth0]:80/"),
    ])
    func addressBecomesAURL(_ address: String, _ url: String) {
        #expect(DoctorExamination.url(of: address, 80) == url)
    }

    @Test(.enabled(if: RawServer.linkLocalAddress != nil, "needs a link-local IPv6 address"))
    func linkLocalAddressKeepsItsZone() async throws {
        let address = try #require(RawServer.linkLocalAddress)
        let server = try RawServer(address: address) { connection in
            guard !connection.read().isEmpty else { return }
            connection.write(Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8))
            connection.drain()
        }
        let doctor = try await LatProcess.run(["doctor", server.url()])
        #expect(doctor.exitCode == 0, "\(doctor.text)")
        #expect(doctor.text.contains("\(address), port \(server.port)"))
        let probe = try await LatProcess.run(["probe", server.url()])
        #expect(probe.exitCode == 0, "\(probe.text)\(probe.err)")
    }

    @Test func missingLibcurlFeaturesAreReported() async throws {
        let result = try await LatProcess.run(["doctor", "--format", "json"])
        let libcurl = try JSONValue(parsing: result.out)["steps"][0]
        let details = try #require(libcurl["details"].array).compactMap(\.string)
        let facts = LibcurlInfo.current
        #expect(libcurl["finding"].string?.hasPrefix(facts.version) == true)
        #expect(details.first == "has " + facts.features.joined(separator: ", "))
        for lack in facts.consequences {
            let line = details.first { $0.hasPrefix("without \(lack.feature): ") }
            #expect(line?.contains(lack.effect) == true, "\(lack.feature)")
            #expect(line?.contains("; refused: ") == (lack.refused != nil), "\(lack.feature)")
            #expect(line?.contains(" = .") == false, "\(lack.feature)")
        }
        let isRefused = details.contains {
            $0.hasPrefix("without HTTP/3: ") && $0.contains("refused: --http3 and --http3-only")
        }
        #expect(isRefused == facts.missing.contains("HTTP/3"))
    }

    @Test(.needsNginx) func certificateIsExamined() async throws {
        let url = try #require(Servers.nginxTLS)
        let authority = try #require(Servers.authority)
        let untrusted = try await LatProcess.run(["doctor", url])
        #expect(untrusted.exitCode == 3)
        #expect(untrusted.text.contains("It fails at tls") && untrusted.text.contains("--ca"))
        // The certificate is read although it is not trusted.
        #expect(untrusted.text.contains("names: localhost"))
        let trusted = try await LatProcess.run(["doctor", url, "--ca", authority])
        #expect(trusted.exitCode != 3)
        // The certificate is valid for two days.
        #expect(trusted.text.contains("the certificate expires in"))
    }
}

@Suite struct CertificateDateTests {
    @Test func certificateDateIsParsed() {
        #expect(CertificateAdvice.date("Nov  6 08:49:37 1994 GMT") == Date(timeIntervalSince1970: 784_111_777))
        for text in ["", "yesterday", "Nov  6 08:49:37 1994 CET", "Foo  6 08:49:37 1994 GMT"] {
            #expect(CertificateAdvice.date(text) == nil)
        }
    }
}
