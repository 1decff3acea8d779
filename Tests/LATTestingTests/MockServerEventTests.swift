import Testing

@testable import LATTesting

@Suite struct MockServerEventTests {
    @Test func scriptIsSentStepByStep() throws {
        let server = try MockServer()
        server.enqueue(
            .events(
                .event("one\ntwo\r\nthree\rfour", type: "note", id: "7"), .comment(" alive"), .retry(milliseconds: 5),
                .text("data: x"),
                .repeated([.event("y")], count: 2)))
        let response = try RawClient(server).getResponse("/")
        #expect(response.text.contains("event: note\nid: 7\ndata: one\ndata: two\ndata: three\ndata: four\n\n"))
        #expect(response.text.contains(": alive\n\n"))
        #expect(response.text.contains("retry: 5\n\n"))
        #expect(response.text.contains("data: xdata: y\n\ndata: y\n\n"))
    }

    @Test func stallKeepsTheConnectionAndCutEndsIt() throws {
        let server = try MockServer()
        server.enqueue(.events(.event("a"), .cut, .event("b")))
        let client = try RawClient(server)
        try client.get("/")
        let text = try client.read(through: "data: a\n\n")
        #expect(text.contains("Content-Type: text/event-stream\r\n"))
        #expect(text.contains("Content-Length: \(Int64(1) << 40)\r\n"))
        #expect(client.readToEnd().text.isEmpty)
        #expect(server.sentBytes == Int64(text.utf8.count))
    }
}
