import FoundationEssentials
import TestSupport
import Testing

@testable import LATTesting

@Suite struct MockServerFaultTests {
    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 5\r\n\r\n"

    @Test func delayIsNeverShorterThanRequested() throws {
        let server = try MockServer()
        server.enqueue(.text("late").delayed(by: .milliseconds(60)))
        let client = try RawClient(server)
        let start = ContinuousClock.now
        #expect(try client.getResponse("/").text == "late")
        #expect(ContinuousClock.now - start >= .milliseconds(60))
    }

    @Test func throttledBodyArrivesSlowly() throws {
        let server = try MockServer()
        server.enqueue(.pattern(byteCount: 20_000).throttled(bytesPerSecond: 100_000))
        let client = try RawClient(server)
        let start = ContinuousClock.now
        let response = try client.getResponse("/")
        #expect(ContinuousClock.now - start >= .milliseconds(140))
        #expect(MockPattern.firstMismatch(in: response.body, at: 0) == nil)
        #expect(response.body.count == 20_000)
    }

    @Test(.measuresMemory) func largePatternTakesNoMemory() throws {
        let server = try MockServer()
        let size: Int64 = 1 << 30
        server.enqueue(.pattern(byteCount: size), .text("after"))
        let client = try RawClient(server)
        try client.get("/")
        #expect(try client.read(through: "\r\n\r\n").contains("Content-Length: \(size)\r\n"))
        let before = ProcessFacts.residentBytes
        #expect(try client.checkPattern(byteCount: size) == nil)
        #expect(ProcessFacts.residentBytes - before < 100 << 20)
        #expect(try client.getResponse("/").text == "after")
    }

    @Test func chunksAndTrailersArrive() throws {
        let server = try MockServer()
        server.enqueue(
            .chunked([Data("ab".utf8), Data("c".utf8)]).withTrailers(["X-End": "1"]),
            .pattern(byteCount: 300_000).inChunks(of: 1_000), .text("after"))
        let client = try RawClient(server)
        try client.get("/")
        #expect(try client.read(through: "X-End: 1\r\n\r\n").hasSuffix("2\r\nab\r\n1\r\nc\r\n0\r\nX-End: 1\r\n\r\n"))
        #expect(try client.getResponse("/").body == MockPattern.bytes(in: 0..<300_000))
        #expect(try client.getResponse("/").text == "after")
    }

    @Test func replyEndsWithTheConnection() throws {
        let server = try MockServer()
        server.enqueue(.text("hello").endingWithConnection())
        let response = try RawClient(server).getResponse("/")
        #expect(response["Content-Length"] == nil)
        #expect(response.text == "hello")
    }

    @Test(arguments: [
        (MockReply.Point.beforeHead, ""), (.afterHead, head), (.afterBodyBytes(3), head + "hel"),
    ])
    func stallLastsUntilTheServerStops(point: MockReply.Point, sent: String) async throws {
        let server = try MockServer()
        server.enqueue(.text("hello").stalling(point))
        let client = try RawClient(server)
        try client.get("/")
        try await server.waitForRequests(1)
        if !sent.isEmpty { #expect(String(decoding: try client.read(sent.utf8.count), as: UTF8.self) == sent) }
        #expect(server.openConnections == 1)
        server.stop()
        #expect(client.readToEnd() == ("", .closed))
        #expect(server.openDescriptors == 0)
    }

    @Test func clientCloseDuringStallIsNoticed() async throws {
        let server = try MockServer()
        server.enqueue(.text("hello").stalling(.afterHead), .text("x").delayed(by: .seconds(3_600)))
        for _ in 0..<2 {
            let client = try RawClient(server)
            try client.get("/")
            try await server.waitForRequests(server.closedConnections + 1)
            _ = consume client
            try await server.waitUntilDisconnected()
        }
        try await server.waitUntilIdle()
        #expect(server.closedConnections == 2)
    }

    @Test(arguments: [0, 1, 12, 60, 76, 78, 500] as [Int64])
    func replyIsCutAfterByteCount(count: Int64) throws {
        let server = try MockServer()
        server.enqueue(.text("hello").closing(afterBytes: count), .text("hello").resetting(afterBytes: count))
        let whole = Self.head + "hello"
        let expected = String(decoding: whole.utf8.prefix(Int(count)), as: UTF8.self)
        for ending in [RawClient.Ending.closed, .reset] {
            let client = try RawClient(server)
            try client.get("/")
            #expect(client.readToEnd() == (expected, ending))
        }
    }

    @Test func resetComesAfterThePrecedingBytes() throws {
        let server = try MockServer()
        server.enqueue(.pattern(byteCount: 1 << 30).resetting(afterBytes: 3_000_000))
        let client = try RawClient(server)
        try client.get("/")
        let (bytes, ending) = client.readBytesToEnd()
        #expect(ending == .reset)
        #expect(bytes.count == 3_000_000)
    }

    @Test func wrongLengthIsSent() throws {
        let server = try MockServer()
        server.enqueue(.text("hello").announcingLength(10), .text("hello").announcingLength(2), .text("next"))
        let short = try RawClient(server)
        try short.get("/")
        let (text, ending) = short.readToEnd()
        #expect(text.contains("Content-Length: 10\r\n") && text.hasSuffix("hello"))
        #expect(ending == .closed)
        let long = try RawClient(server)
        #expect(try long.getResponse("/").text == "he")
        #expect(String(decoding: try long.read(3), as: UTF8.self) == "llo")
        #expect(try long.getResponse("/").text == "next")
    }

    @Test func rawHeadIsSent() throws {
        let server = try MockServer()
        server.enqueue(
            .text("hello").withRawHead("HTTP/1.1 2x0 What\r\nBroken\r\n\r\n"), .raw("\0\u{1}\r\n"), .noReply)
        for expected in ["HTTP/1.1 2x0 What\r\nBroken\r\n\r\nhello", "\0\u{1}\r\n", ""] {
            let client = try RawClient(server)
            try client.get("/")
            #expect(client.readToEnd() == (expected, .closed))
        }
    }

    @Test func noReplyClosesAfterTheWholeRequest() throws {
        let server = try MockServer()
        server.enqueue(.noReply)
        let client = try RawClient(server)
        try client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
        try client.send([UInt8](repeating: 1, count: 1_000_000))
        #expect(client.readToEnd() == ("", .closed))
        #expect(server.requests[0].bodyByteCount == 1_000_000)
    }

    @Test func oneMebibyteHeaderIsSent() throws {
        let server = try MockServer()
        let value = String(repeating: "v", count: 1 << 20)
        server.enqueue(.text("big").header("X-Big", value))
        #expect(try RawClient(server).getResponse("/")["X-Big"] == value)
    }

    @Test func connectionCloseIsAnnouncedOrSilent() async throws {
        let server = try MockServer()
        server.enqueue(.text("said").closingConnection(), .text("silent").droppingConnection())
        let first = try RawClient(server)
        #expect(try first.getResponse("/")["Connection"] == "close")
        #expect(first.readToEnd().ending == .closed)
        let second = try RawClient(server)
        #expect(try second.getResponse("/")["Connection"] == nil)
        try await server.waitForClosedConnections(2)
        #expect(second.readToEnd().ending == .closed)
    }

    @Test func idleConnectionsAreClosed() async throws {
        let server = try MockServer()
        server.enqueue(.text("done"), .text("hello").stalling(.afterHead))
        let idle = try RawClient(server)
        let busy = try RawClient(server)
        _ = try idle.getResponse("/")
        try busy.get("/")
        try await server.waitForRequests(2)
        server.closeIdleConnections()
        try await server.waitForClosedConnections(1)
        #expect(idle.readToEnd().ending == .closed)
        #expect(server.openConnections == 1)
    }

    @Test func interimResponsesComeFirst() throws {
        let server = try MockServer()
        server.enqueue(.text("hello").withInterim(100).withInterim(103, headers: ["Link": "</a>"]))
        let client = try RawClient(server)
        #expect(try client.getResponse("/").head == "HTTP/1.1 100 Continue\r\n\r\n")
        #expect(try client.response().head == "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        #expect(try client.response().text == "hello")
    }

    @Test func expectationFollowsThePolicy() async throws {
        let server = try MockServer()
        server.fallback { .text($0.text) }
        let upload = "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        let client = try RawClient(server)
        try client.send(upload)
        #expect(try client.response().status == 100)
        try client.send("ab")
        #expect(try client.response().text == "ab")

        server.expectPolicy = .ignore
        try client.send(upload + "cd")
        #expect(try client.response().text == "cd")

        server.expectPolicy = .refuse
        try client.send(upload)
        let refusal = try client.response()
        #expect(refusal.status == 417)
        #expect(refusal["Connection"] == "close")
        #expect(client.readToEnd().ending == .closed)
        #expect(server.requests.map(\.isComplete) == [true, true, false])
    }

    @Test func replyIsSentBeforeTheBodyIsRead() async throws {
        let server = try MockServer()
        server.enqueue(.status(413).beforeRequestBody().closingConnection(), .text("early").beforeRequestBody())
        let refused = try RawClient(server)
        try refused.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\nfirst bytes")
        #expect(try refused.response().status == 413)
        let patient = try RawClient(server)
        try patient.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n")
        #expect(try patient.response().text == "early")
        server.enqueue(.text("next"))
        try patient.send("abc")
        #expect(try patient.getResponse("/").text == "next")
        #expect(server.requestCount == 3)
    }

    @Test func uploadIsReadAtTheReadRate() throws {
        let server = try MockServer()
        server.bodyReadRate = 500_000
        server.enqueue(.text("ok"))
        let client = try RawClient(server)
        let start = ContinuousClock.now
        try client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
        try client.send([UInt8](repeating: 7, count: 100_000))
        #expect(try client.response().status == 200)
        #expect(ContinuousClock.now - start >= .milliseconds(100))
    }

    @Test func readingPausesUntilTheRateChanges() async throws {
        let server = try MockServer()
        server.bodyReadRate = 0
        server.enqueue(.text("ok"))
        let client = try RawClient(server)
        let size = 50_000_000
        try client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: \(size)\r\n\r\n")
        try await server.waitForConnections(1)
        var sent = 0
        let piece = [UInt8](repeating: 7, count: 1_000_000)
        while sent < size {
            let count = client.sendWithoutWaiting(piece)
            if count == 0 { break }
            sent += count
        }
        // Only the buffers of both sockets took bytes: far fewer than the whole body.
        #expect(sent < 20_000_000)
        #expect(server.receivedBodyBytes <= 4_096)
        server.bodyReadRate = nil
        while sent < size {
            try client.send(Array(piece.prefix(size - sent)))
            sent += min(piece.count, size - sent)
        }
        #expect(try client.response().status == 200)
        #expect(server.requests[0].bodyByteCount == Int64(size))
    }

    @Test func abandonedUploadIsRecorded() async throws {
        let server = try MockServer()
        let client = try RawClient(server)
        try client.send("PUT /up HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf")
        try await server.waitForBodyBytes(4)
        _ = consume client
        try await server.waitUntilDisconnected()
        #expect(server.requests.isEmpty)
        #expect(server.abandonedRequests.map(\.text) == ["half"])
        #expect(server.abandonedRequests[0].isComplete == false)
    }
}
