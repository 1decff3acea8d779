import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport
@testable import lat

/// What `--verbose` shows of a request: the head as it was sent, and the certificate of the server.
@Suite(.timeLimit(.minutes(1))) struct SentTraceTests {
    private func peer(days: Double, isTrusted: Bool = true, now: Date) -> TLSPeer {
        TLSPeer(
            version: "TLSv1.3", cipher: "c", subject: "CN = a.test", issuer: "CN = CA", validFrom: now,
            validUntil: now.addingTimeInterval(days * 86_400), isTrusted: isTrusted)
    }

    @Test func certificateIsOneLine() {
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        func line(_ peer: TLSPeer) -> String { RequestTrace.line(of: peer, now: now, .plain) }
        #expect(line(peer(days: 89.5, now: now)) == "* TLSv1.3 · CN = a.test · issued by CN = CA · 89 days left")
        #expect(line(peer(days: 1.5, now: now)).hasSuffix("1 day left"))
        #expect(line(peer(days: -2, isTrusted: false, now: now)).hasSuffix("expired 2 days ago · not trusted"))
    }

    @Test func secretsOfASentHeadAreHidden() {
        let head = SentHead("GET /a?access_token=x&q=1 HTTP/1.1\r\nHost: h\r\nCookie: a=b\r\nX-Empty:\r\n\r\n")
        #expect(head.fields.map(\.name) == ["Host", "Cookie", "X-Empty"] && head.fields[2].value == "")
        #expect(
            RequestTrace.lines(of: head, hiding: .standard, .plain)
                == ["> GET /a?access_token=***&q=1 HTTP/1.1", "> Host: h", "> Cookie: (not shown)", "> X-Empty: "])
        #expect(!head.opensTunnel && SentHead("CONNECT h:443 HTTP/1.1\r\n").opensTunnel)
    }

    @Test func fieldsAreThoseThatTheServerReceived() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let result = try await LatProcess.run(["POST", server.url("/echo"), "a=1", "X-Own:o", "-v"])
        let shown = result.err.split(separator: "\n").filter { $0.hasPrefix("> ") }.map { String($0.dropFirst(2)) }
        let received = try #require(server.requests.first).headers.map { "\($0.name): \($0.value)" }
        #expect(shown.first == "POST /echo HTTP/1.1" && Array(shown.dropFirst()) == received)
        for name in ["Host: ", "User-Agent: lat/", "Accept-Encoding: ", "Content-Length: 9", "X-Own: o"] {
            #expect(shown.contains { $0.hasPrefix(name) }, "\(name)")
        }
    }

    @Test func everyHopAndAttemptIsShown() async throws {
        let server = try MockServer()
        server.enqueue(.redirect(to: "/end"), .status(503), .text("x"))
        let result = try await LatProcess.run([server.url("/start"), "-v", "--retry", "1"])
        let lines = result.err.split(separator: "\n").filter { $0.hasPrefix("> GET") }
        #expect(
            lines.first == "> GET /start HTTP/1.1" && lines.dropFirst().first == "> GET /end HTTP/1.1"
                && lines.count >= 3)
    }

    @Test func requestIsShownBeforeAServerAnswers() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("x").stalling(.beforeHead) }
        let process = try LatProcess([server.url("/slow"), "-v"], columns: 100)
        await process.waitForOutput("GET /slow HTTP/1.1")
        process.send(signal: 2)
        #expect(await process.result.exitCode == 130)
    }

    @Test(.needsNginx) func certificateOfTheServerIsShown() async throws {
        let (base, authority) = (try #require(Servers.nginxTLS), try #require(Servers.authority))
        let result = try await LatProcess.run([base + "/", "-v", "--ca", authority])
        let line = try #require(result.err.split(separator: "\n").first { $0.hasPrefix("* TLSv1.") })
        #expect(line.contains("issued by ") && line.hasSuffix("left") && result.err.contains("> GET / HTTP/2"))
        let open = try await LatProcess.run([base + "/", "-v", "-k"])
        #expect(open.err.contains("not trusted"))
    }

    @Test func headOfAHEADIsShown() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("hello") }
        let result = try await LatProcess.run(["HEAD", server.url("/")])
        #expect(result.exitCode == 0 && result.text.hasPrefix("HTTP/1.1 200 OK\nContent-Type: text/plain"))
        #expect(result.text.contains("Content-Length: 5"))
        let json = try await LatProcess.run(["HEAD", server.url("/"), "--format", "json"])
        #expect(try JSONValue(parsing: json.out)["status"].int == 200)
    }
}
