import FoundationEssentials
import HTTPCore
import LATTesting
import TestSupport
import Testing

@testable import CurlTransport

/// Responses that break off or violate the protocol must fail, without a hang or a crash.
@Suite struct FaultyResponseTests {
    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 5\r\n\r\n"

    private func kind(_ reply: MockReply, _ method: String = "GET") async throws -> NetworkError.Kind? {
        let server = try MockServer()
        server.enqueue(reply)
        let kind = Box<NetworkError.Kind?>(nil)
        try await withTransport { transport async throws in
            let error = try await transport.failure(of: HTTPRequest(method, server.url()))
            kind.change { $0 = error.kind }
        }
        return kind.value
    }

    /// curl and browsers follow such a redirect, too. Whoever reads its body gets the error.
    @Test(arguments: [
        ("Content-Length: 100", "cut", NetworkError.Kind.connectionLost),
        ("Transfer-Encoding: chunked", "5\r\ncut", .connectionLost),
        ("Content-Length: 5\r\nContent-Encoding: gzip", "plain", .protocolViolation),
        ("Content-Length: 5\r\nContent-Digest: sha-256=:\(String(repeating: "A", count: 43))=:", "other", .integrity),
    ]) func brokenBodyOfRedirectIsNotNeeded(fields: String, body: String, kind: NetworkError.Kind) async throws {
        let server = try RawServer { connection in
            _ = connection.read()
            connection.write(Array("HTTP/1.1 302 Found\r\nLocation: /next\r\n\(fields)\r\n\r\n\(body)".utf8))
        }
        try await withTransport(testConfiguration { $0.redirects = .follow(limit: 5) }) { transport async throws in
            for streams in [false, true] {
                let request = HTTPRequest("GET", server.url()).with { $0.streamsBody = streams }
                let response = try await transport.answer(to: request)
                #expect(response.status == 302 && response.headers["Location"] == "/next")
                let error = await #expect(throws: NetworkError.self) { _ = try await response.body.collect(upTo: 1000) }
                #expect(error?.kind == kind)
            }
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()).with { $0.redirects = .none })
            #expect(error.kind == kind)
        }
    }

    @Test(arguments: [true, false])
    func brokenConnectionIsReportedAsLost(resets: Bool) async throws {
        let server = try MockServer()
        try await withTransport { transport async throws in
            var wrong: [String] = []
            for count in 0..<Int64(Self.head.utf8.count + 5) {
                let reply = MockReply.text("hello")
                server.enqueue(resets ? reply.resetting(afterBytes: count) : reply.closing(afterBytes: count))
                let error = try await transport.failure(of: HTTPRequest("GET", server.url("/\(count)")))
                // A response that ends within its status line looks like another protocol.
                let isCutInStatusLine = !resets && (1..<17).contains(count)
                let isRight = error.kind == .connectionLost || isCutInStatusLine && error.kind == .protocolViolation
                if !isRight { wrong.append("\(count): \(error.kind) \(error.curlCode ?? -1)") }
            }
            #expect(wrong == [])
            server.enqueue(.text("hello"))
            #expect(try await transport.get(server.url("/whole")).text == "hello")
        }
    }

    @Test(arguments: [
        "HTTP/1.1 2x0 What\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n",
        "hello world\r\n",
        "\u{0}\u{1}\u{2}\u{3}\r\n\r\n", "ICY 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nX: a\u{0}b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    ])
    func malformedResponseFails(wire: String) async throws {
        let kind = try await kind(.raw(wire))
        #expect(kind == (wire.contains("HTTP/1.1 10") ? .connectionLost : .protocolViolation))
    }

    @Test func incompleteChunksAreReportedAsLost() async throws {
        let wire = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"
        #expect(try await kind(.raw(wire)) == .connectionLost)
        #expect(try await kind(.raw(wire + "lo\r\n")) == .connectionLost)
        #expect(try await kind(.raw(wire + "lo\r\n0\r\n")) == .connectionLost)
    }

    @Test func oversizedHeadFails() async throws {
        let line = "HTTP/1.1 200 OK\r\nX: " + String(repeating: "a", count: 1 << 20) + "\r\nContent-Length: 0\r\n\r\n"
        #expect(try await kind(.raw(line)) == .protocolViolation)
        let lines =
            "HTTP/1.1 200 OK\r\n"
            + String(repeating: "X-Filler: " + String(repeating: "a", count: 988) + "\r\n", count: 1100)
            + "Content-Length: 0\r\n\r\n"
        #expect(try await kind(.raw(lines)) == .protocolViolation)
    }

    @Test func errorNamesTheLimitOfALine() async throws {
        let server = try MockServer()
        let line = "X: " + String(repeating: "a", count: 100 << 10)
        server.enqueue(.raw("HTTP/1.1 200 OK\r\n\(line)\r\nContent-Length: 0\r\n\r\n"))
        try await withTransport { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
            #expect(error.kind == .protocolViolation)
            #expect(error.message.contains("header line of more than 100 KiB"), "\(error)")
            #expect(error.message.contains("shorter fields") && !error.message.contains("memory"), "\(error)")
        }
    }

    @Test(arguments: ["http/1.1", "Http/1.1", "HTTP/1.1"], [200, 404, 503])
    func statusLineInAnyCaseIsRead(version: String, status: Int) async throws {
        let server = try MockServer()
        server.enqueue(.raw("\(version) \(status) Reason\r\nContent-Length: 5\r\n\r\nhello"), .text("next"))
        try await withTransport { transport async throws in
            let response = try await transport.get(server.url())
            #expect(response.status == status && response.reason == "Reason" && response.text == "hello")
            #expect(try await transport.get(server.url()).text == "next")
        }
    }

    /// libcurl would wait for a body, or take the final response for one.
    @Test(arguments: [
        "http/1.1 204 No Content\r\n\r\n", "http/1.1 304 Not Modified\r\n\r\n",
        "http/1.1 103 Early\r\n\r\nhttp/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "http/1.1 100 Continue\r\n\r\n",
        "http/1.1 x\r\n\r\n", "http/1.1\r\n\r\n",
    ])
    func misspelledStatusWithoutBodyFails(wire: String) async throws {
        #expect(try await kind(.raw(wire)) == .protocolViolation)
    }

    @Test(arguments: ["", "Upgrade: websocket\r\nConnection: Upgrade\r\n", "Content-Length: 2\r\n"])
    func unaskedUpgradeFails(fields: String) async throws {
        let server = try MockServer()
        server.enqueue(.raw("HTTP/1.1 101 Switching Protocols\r\n\(fields)\r\nhi"), .text("next"))
        try await withTransport { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url()))
            #expect(error.kind == .protocolViolation && error.message.contains("101"), "\(error)")
            #expect(try await transport.get(server.url()).text == "next")
        }
    }

    @Test func truncatedBodyFailsAndSurplusIsCutOff() async throws {
        #expect(try await kind(.text("hello").announcingLength(9)) == .connectionLost)
        let server = try MockServer()
        server.enqueue(.text("hello").announcingLength(3), .text("next"))
        try await withTransport { transport async throws in
            #expect(try await transport.get(server.url("/1")).text == "hel")
            #expect(try await transport.get(server.url("/2")).text == "next")
        }
    }

    /// RFC 9112 §6.3: such a response is discarded and its connection closed.
    @Test(arguments: [
        "5\r\nContent-Length: 4", "4\r\nContent-Length: 5", "5, 4", "5,", ",5", "+5", "-5", "0x5", "5a", "5 5", "5;5",
        "5.0", "",
        "9223372036854775808", "99999999999999999999999", "5\r\nTransfer-Encoding: chunked\r\nContent-Length: 6",
        "+5\r\nTransfer-Encoding: chunked",
    ])
    func invalidLengthFailsAndClosesConnection(length: String) async throws {
        let connections = Box(0)
        let server = try RawServer { connection in
            connections.change { $0 += 1 }
            let isFirst = connections.value == 1
            while !connection.read().isEmpty {
                let head = "HTTP/1.1 200 OK\r\nContent-Length: \(isFirst ? length : "4")\r\n\r\n"
                connection.write(Array((head + (isFirst ? "hello" : "next")).utf8))
            }
        }
        try await withTransport { transport async throws in
            let error = try await transport.failure(of: HTTPRequest("GET", server.url("/1")))
            #expect(error.kind == .protocolViolation)
            #expect(error.response?.text ?? "" == "")
            #expect(try await transport.get(server.url("/2")).text == "next")
            #expect(connections.value == 2)
        }
    }

    /// libcurl does not read such a field, so the length that the response shows would not be that of its body (RFC 9112 §5.1).
    @Test(arguments: ["Content-Length : 3", "content-length\t : 5", "Transfer-Encoding : chunked"])
    func spaceBeforeTheColonOfAFramingFieldFails(field: String) async throws {
        #expect(try await kind(.raw("HTTP/1.1 200 OK\r\n\(field)\r\n\r\nhello")) == .protocolViolation)
    }

    @Test func spaceBeforeTheColonOfAnotherFieldIsSkipped() async throws {
        let server = try MockServer()
        // A gzip stream of "hello".
        let coded = Data(base64Encoded: "H4sIAAAAAAACA8tIzcnJBwCGphA2BQAAAA==") ?? Data()
        let head = "HTTP/1.1 200 OK\r\nX-A : b\r\nContent-Encoding : gzip\r\nContent-Length: \(coded.count)\r\n\r\n"
        server.enqueue(.raw(Data(head.utf8) + coded))
        try await withTransport { transport async throws in
            let response = try await transport.get(server.url())
            #expect(response.text == "hello" && response.headers["X-A"] == "b")
        }
    }

    @Test(arguments: ["5", "5, 5", "5\r\nContent-Length: 5", " 005\t", "5 ,\t5"])
    func equalContentLengthsCountAsOne(length: String) async throws {
        let server = try MockServer()
        let wire = "HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\nhello"
        server.enqueue(.raw(wire), .text("next"))
        try await withTransport { transport async throws in
            #expect(try await transport.get(server.url("/1")).text == "hello")
        }
    }

    @Test func invalidLengthAfterHEADFailsInLibcurl8() async throws {
        let server = try MockServer()
        server.enqueue(.raw("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n"))
        try await withTransport { transport async throws in
            let request = HTTPRequest("HEAD", server.url())
            if GlobalCurl.runtimeVersion < 0x08_00_00 {
                #expect(try await transport.answer(to: request).status == 200)
            } else {
                #expect(try await transport.failure(of: request).kind == .protocolViolation)
            }
        }
    }

    @Test func interimResponsesAreSkipped() async throws {
        let server = try MockServer()
        server.enqueue(
            .text("hello").withInterim(100).withInterim(103, headers: ["Link": "</a>"]).header("X", "1"))
        try await withTransport { transport async throws in
            let response = try await transport.get(server.url())
            #expect(response.status == 200)
            #expect(response.text == "hello")
            #expect(response.headers["Link"] == nil)
            #expect(response.headers["X"] == "1")
        }
    }
}
