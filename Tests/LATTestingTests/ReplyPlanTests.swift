import FoundationEssentials
import Platform
import Testing

@testable import LATTesting

/// The bytes of a reply, without a socket.
@Suite struct ReplyPlanTests {
    /// Runs a reply to its end on a simulated clock. Waits and stalls show up in the text.
    private func run(
        _ reply: MockReply, isHead: Bool = false, minorVersion: Int = 1, keepsConnection: Bool = true
    ) -> (text: String, ending: ReplyPlan.Ending?) {
        let context = ReplyPlan.Context(isHead: isHead, minorVersion: minorVersion, keepsConnection: keepsConnection)
        var writer = ReplyWriter(ReplyPlan(reply, answering: context))
        var now = MonotonicTime(nanoseconds: 0)
        var bytes: [UInt8] = []
        while true {
            switch writer.next(at: now) {
            case .send(let content):
                // Takes half of what is offered, as a full socket does.
                let count = max(1, content.count / 2)
                switch content.prefix(count) {
                case .bytes(let piece): bytes += piece
                case .data(let piece): bytes += piece
                case .pattern(let range): bytes += MockPattern.bytes(in: range)
                }
                writer.didSend(Int(count), at: now)
            case .wait(let time):
                bytes += "<\(now.milliseconds(until: time))ms>".utf8
                #expect(time > now)
                now = time
            case .stall:
                return (String(decoding: bytes, as: UTF8.self) + "<stall>", nil)
            case .finish(let ending):
                return (String(decoding: bytes, as: UTF8.self), ending)
            }
        }
    }

    private static let hello = MockReply(body: .bytes(Data("hello".utf8)))
    private static let helloHead = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"

    @Test func bytesHaveAContentLength() {
        #expect(run(Self.hello) == (Self.helloHead + "hello", .keep))
        #expect(run(.status(503)) == ("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", .keep))
        #expect(run(.status(299, reason: "Fine")).text.hasPrefix("HTTP/1.1 299 Fine\r\n"))
    }

    @Test func bodilessRepliesSendNoBody() {
        #expect(run(Self.hello, isHead: true) == (Self.helloHead, .keep))
        #expect(run(MockReply(status: 204, body: .bytes(Data("x".utf8)))) == ("HTTP/1.1 204 No Content\r\n\r\n", .keep))
        #expect(run(.status(304)) == ("HTTP/1.1 304 Not Modified\r\n\r\n", .keep))
        var chunked = MockReply.chunked([Data("x".utf8)])
        chunked.status = 304
        #expect(!run(chunked).text.contains("Transfer-Encoding"))
        #expect(run(.chunked([Data("x".utf8)]), isHead: true).text.hasSuffix("Transfer-Encoding: chunked\r\n\r\n"))
    }

    @Test func connectionFieldFollowsRequestAndReply() {
        #expect(run(Self.hello, keepsConnection: false).ending == .close)
        #expect(run(Self.hello, keepsConnection: false).text.contains("\r\nConnection: close\r\n"))
        #expect(run(Self.hello, minorVersion: 0).text.contains("\r\nConnection: keep-alive\r\n"))
        #expect(run(Self.hello.closingConnection()).text.contains("\r\nConnection: close\r\n"))
        #expect(run(Self.hello.droppingConnection()) == (Self.helloHead + "hello", .close))
        #expect(run(Self.hello.header("Connection", "close")).ending == .close)
    }

    @Test func chunksAreFramed() {
        let reply = MockReply(body: .chunks([Data("abc".utf8), Data(), Data("0123456789".utf8)]))
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        #expect(run(reply) == (head + "3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n", .keep))
        #expect(run(Self.hello.inChunks(of: 2)) == (head + "2\r\nhe\r\n2\r\nll\r\n1\r\no\r\n0\r\n\r\n", .keep))
        #expect(run(reply.withTrailers(["X-Sum": "1"])).text.hasSuffix("\r\n0\r\nX-Sum: 1\r\n\r\n"))
        #expect(run(reply, minorVersion: 0) == ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc0123456789", .close))
    }

    @Test func ownHeadersReplaceAddedOnes() {
        #expect(
            run(Self.hello.header("Content-Length", "3"))
                == ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhello", .keep))
        var unframed = Self.hello
        unframed.headers["Content-Length"] = nil
        #expect(run(unframed) == ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", .close))
        #expect(run(Self.hello.endingWithConnection()) == run(unframed))
    }

    @Test func chunksWithoutTheirFieldAreNotFramed() {
        var reply = Self.hello.inChunks(of: 2)
        reply.headers["Transfer-Encoding"] = nil
        #expect(run(reply) == ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", .close))
    }

    @Test func wrongLengthIsAnnounced() {
        #expect(run(Self.hello.announcingLength(9)) == ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", .close))
        #expect(run(Self.hello.announcingLength(2)) == ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello", .keep))
        #expect(run(Self.hello.announcingLength(9), isHead: true).ending == .keep)
    }

    @Test func rawBytesAreSentUnchanged() {
        #expect(run(.raw("any\0thing\r\n")) == ("any\0thing\r\n", .close))
        #expect(run(.noReply) == ("", .close))
        #expect(run(Self.hello.withRawHead("HTTP/1.1 2x0\r\n\r\n")) == ("HTTP/1.1 2x0\r\n\r\nhello", .close))
    }

    @Test(arguments: [Int64(0), 1, 9, 37, 38, 39, 43, 44, 1_000])
    func replyIsCutAfterHeadAndBodyBytes(count: Int64) {
        // A prefix of the bytes: a prefix of the text would count CR LF as one character.
        let expected = String(decoding: (Self.helloHead + "hello").utf8.prefix(Int(count)), as: UTF8.self)
        #expect(run(Self.hello.closing(afterBytes: count)) == (expected, .close))
        #expect(run(Self.hello.resetting(afterBytes: count)) == (expected, .reset))
        let interim = "HTTP/1.1 103 Early Hints\r\n\r\n"
        #expect(run(Self.hello.withInterim(103).closing(afterBytes: count)).text == interim + expected)
    }

    @Test func pausesHappenAtTheirPoints() {
        let delay = Duration.milliseconds(10)
        #expect(run(Self.hello.delayed(by: delay)).text == "<10ms>" + Self.helloHead + "hello")
        #expect(run(Self.hello.delayed(by: delay, at: .afterHead)).text == Self.helloHead + "<10ms>hello")
        #expect(run(Self.hello.delayed(by: delay, at: .afterBodyBytes(2))).text == Self.helloHead + "he<10ms>llo")
        #expect(run(Self.hello.delayed(by: delay, at: .afterBodyBytes(9))).text == Self.helloHead + "hello<10ms>")
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        let hinted = Self.hello.withInterim(103, headers: ["Link": "</a>"])
        #expect(run(hinted.delayed(by: delay)).text == "<10ms>" + interim + Self.helloHead + "hello")
        #expect(run(hinted.delayed(by: delay, at: .beforeHead)).text == interim + "<10ms>" + Self.helloHead + "hello")
        let once = Self.hello.delayed(by: delay, at: .afterBodyBytes(4))
        let twice = once.delayed(by: .milliseconds(5), at: .afterBodyBytes(1))
        #expect(run(twice).text == Self.helloHead + "h<5ms>ell<10ms>o")
    }

    @Test func stallsSendNothingMore() {
        #expect(run(Self.hello.stalling(.start)).text == "<stall>")
        #expect(run(Self.hello.stalling(.beforeHead)).text == "<stall>")
        #expect(run(Self.hello.stalling(.afterHead)).text == Self.helloHead + "<stall>")
        #expect(run(Self.hello.stalling(.afterBodyBytes(3))).text == Self.helloHead + "hel<stall>")
        #expect(run(Self.hello.inChunks().stalling(.afterBodyBytes(5))).text.hasSuffix("5\r\nhello<stall>"))
        #expect(run(Self.hello.stalling(.afterBodyBytes(3)).closing(afterBytes: 40)).text == Self.helloHead + "he")
    }

    @Test func throttledBodyIsSentInPieces() {
        let text = run(.pattern(byteCount: 100).throttled(bytesPerSecond: 1_000)).text
        let waits = text.components("<", "ms>").compactMap { Int($0) }
        #expect((95...100).contains(waits.reduce(0, +)))
        #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n"))
    }

    @Test func http10GetsNoInterimResponses() {
        #expect(run(Self.hello.withInterim(103), minorVersion: 0).text.hasPrefix("HTTP/1.1 200 OK"))
    }
}

extension String {
    /// The texts between two marks.
    fileprivate func components(_ start: String, _ end: String) -> [String] {
        split(separator: start).dropFirst().compactMap { $0.split(separator: end).first.map(String.init) }
    }
}
