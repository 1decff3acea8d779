import Testing

@testable import LATTesting

/// The parser alone: bytes in, events out.
@Suite struct RequestParserTests {
    private struct Parsed: Equatable {
        var method = ""
        var target = ""
        var fields: [String] = []
        var body = ""
        var trailers: [String] = []
    }

    /// Feeds a text in pieces of a size.
    private func parse(_ text: String, pieces: Int = .max) throws -> [Parsed] {
        var parser = RequestParser()
        var requests: [Parsed] = []
        var current = Parsed()
        var rest = Array(text.utf8)[...]
        var pending: ArraySlice<UInt8> = []
        while !rest.isEmpty {
            pending += rest.prefix(pieces)
            rest = rest.dropFirst(pieces)
            while let event = try parser.next(&pending) {
                switch event {
                case .head(let head):
                    current = Parsed(method: head.method, target: head.target)
                    current.fields = head.headers.map { "\($0.name)=\($0.value)" }
                case .body(let piece):
                    #expect(!piece.isEmpty)
                    current.body += String(decoding: piece, as: UTF8.self)
                case .end(let trailers):
                    current.trailers = trailers.map { "\($0.name)=\($0.value)" }
                    requests.append(current)
                }
            }
        }
        #expect(!parser.isInsideRequest)
        return requests
    }

    private func head(_ text: String) throws -> RequestHead {
        var parser = RequestParser()
        var input = Array(text.utf8)[...]
        guard case .head(let head)? = try parser.next(&input) else { throw RawClient.Failure(text: "no head") }
        return head
    }

    private func failure(_ text: String) -> Int? {
        do {
            _ = try parse(text)
            return nil
        } catch {
            return (error as? RequestParser.Failure)?.status
        }
    }

    private static let pipelined =
        "\r\nPOST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
        + "PUT /chunks HTTP/1.1\nHost:x\nTransfer-Encoding: Chunked\n\n"
        + "3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-Sum: 9\r\n\r\n"
        + "GET / HTTP/1.1\r\nHost: x\r\nX: a\r\nX:\tb \r\n\r\n"

    @Test(arguments: [Int.max, 1, 2, 3, 7, 64])
    func pipelinedRequestsAreReadInAnyPieces(size: Int) throws {
        let requests = try parse(Self.pipelined, pieces: size)
        #expect(
            requests == [
                Parsed(method: "POST", target: "/a?b=c", fields: ["Host=x", "Content-Length=5"], body: "hello"),
                Parsed(
                    method: "PUT", target: "/chunks", fields: ["Host=x", "Transfer-Encoding=Chunked"],
                    body: "abc0123456789", trailers: ["X-Sum=9"]),
                Parsed(method: "GET", target: "/", fields: ["Host=x", "X=a", "X=b"]),
            ])
    }

    @Test func nextRequestIsLeftInTheInput() throws {
        var parser = RequestParser()
        var input = Array("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /2".utf8)[...]
        _ = try parser.next(&input)
        #expect(try parser.next(&input) == .end(trailers: [:]))
        #expect(String(decoding: input, as: UTF8.self) == "GET /2")
        #expect(!parser.isInsideRequest)
        #expect(try parser.next(&input) == nil)
        #expect(parser.isInsideRequest)
    }

    @Test func keepAliveFollowsVersionAndConnection() throws {
        #expect(try head("GET / HTTP/1.1\r\nHost: x\r\n\r\n").keepsConnection)
        #expect(try !head("GET / HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n").keepsConnection)
        #expect(try !head("GET / HTTP/1.0\r\n\r\n").keepsConnection)
        #expect(try head("GET / HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n").keepsConnection)
    }

    @Test func expectContinueIsRead() throws {
        #expect(try head("PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\n\r\n").expectsContinue)
        #expect(try !head("PUT / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").expectsContinue)
    }

    private static let refused: [(text: String, status: Int)] = [
        ("GET /\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("G@T / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET / HTTQ/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n folded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400),
        ("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400),
    ]

    @Test(arguments: refused.indices)
    func invalidRequestsAreRefused(index: Int) {
        let (text, status) = Self.refused[index]
        #expect(failure(text) == status, "\(text.debugDescription)")
    }

    @Test func endlessHeaderIsRefused() {
        let line = "X: " + String(repeating: "a", count: 65_536) + "\r\n"
        let text = "GET / HTTP/1.1\r\nHost: x\r\n" + String(repeating: line, count: 130)
        #expect(failure(text) == 431)
    }

    @Test func oneMebibyteHeaderIsRead() throws {
        let value = String(repeating: "a", count: 1 << 20)
        #expect(try head("GET / HTTP/1.1\r\nHost: x\r\nX-Big: \(value)\r\n\r\n").headers["x-big"] == value)
    }
}
