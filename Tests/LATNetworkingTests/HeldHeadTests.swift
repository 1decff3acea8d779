import Testing

@testable import CurlTransport

/// After a pause, libcurl delivers in one piece all the header lines that it held back.
@Suite struct HeldHeadTests {
    private func append(_ text: String, to head: inout ResponseHead) -> Bool {
        Array(text.utf8).withUnsafeBufferPointer { head.append($0) }
    }

    @Test func headInOnePieceIsSplitIntoLines() {
        var head = ResponseHead()
        #expect(append("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\n\r\n", to: &head))
        #expect(head.status == 200)
        #expect(head.reason == "OK")
        #expect(head.isComplete)
        #expect(head.contentLength == 5)
        #expect(head.headers["X-A"] == "1")
    }

    @Test func remainingLinesMayComeInOnePiece() {
        var head = ResponseHead()
        #expect(append("HTTP/1.1 200 OK\r\n", to: &head))
        #expect(append("X-A: 1\r\nContent-Length: 5\r\n\r\n", to: &head))
        #expect(head.isComplete)
        #expect(head.contentLength == 5)
        #expect(head.headers["X-A"] == "1")
    }
}
