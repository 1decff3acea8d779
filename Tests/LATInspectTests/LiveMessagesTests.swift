import FoundationEssentials
import LATRealtime
import LATTesting
import TestSupport
import Testing

@testable import LATInspect

/// Events and messages of a WebSocket, as the inspector keeps them.
@Suite(.timeLimit(.minutes(2))) struct LiveMessagesTests {
    private func texts(_ type: String, _ pieces: [Data]) throws -> [String] {
        var splitter = try #require(MessageSplitter(type))
        return pieces.flatMap { splitter.messages(in: $0) }.map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test(arguments: [
        (
            "text/event-stream", "event: a\ndata: 1\n\n\ndata: 2\ndata: 3\n\ndata: open",
            ["event: a\ndata: 1", "data: 2\ndata: 3"]
        ),
        ("text/event-stream", "data: 1\r\n\r\n: note\r\n\r\n", ["data: 1", ": note"]),
        ("text/event-stream", "data: 1\r\rdata: 2\r\r", ["data: 1", "data: 2"]),
        ("application/x-ndjson", "{\"a\":1}\r\n\n{\"a\":2}\n{", ["{\"a\":1}", "{\"a\":2}"]),
        ("application/json-seq", "\u{1E}{\"a\":1}\n\u{1E}[2]\n", ["{\"a\":1}", "[2]"]),
    ]) func cutsDoNotMatter(_ type: String, _ text: String, _ expected: [String]) throws {
        let bytes = Data(text.utf8)
        #expect(try texts(type, [bytes]) == expected)
        #expect(try texts(type, bytes.map { Data([$0]) }) == expected)
        var generator = SeededGenerator(seed: 46)
        for _ in 0..<500 {
            let cut = Int.random(in: 0...bytes.count, using: &generator)
            #expect(try texts(type, [bytes[..<cut], bytes[cut...]]) == expected)
        }
    }

    @Test func lastLineNeedsNoLineFeed() async throws {
        let inspected = try InspectedManager()
        let url = inspected.server.url
        inspected.server.route("GET", "/lines") { _ in
            .data(Data("{\"a\":1}\n{\"a\":2}".utf8), contentType: "application/x-ndjson")
        }
        inspected.server.route("GET", "/events") { _ in
            .data(Data("data: 1\n\ndata: 2\n".utf8), contentType: "text/event-stream")
        }
        for path in ["/lines", "/events"] {
            for try await _ in try await inspected.manager.stream("GET", url(path)).body {}
        }
        let calls = try await inspected.stream(calls: 2)
        // An event without its empty line is none (WHATWG HTML §9.2.6).
        #expect(calls.map { $0["messageCount"].int } == [2, 1])
    }

    @Test func otherTypesHaveNoMessages() {
        #expect(MessageSplitter("application/json") == nil && MessageSplitter("") == nil)
    }

    @Test func newestMessagesAreKept() {
        var live = LiveMessages()
        for number in 0..<2_000 { live.add(.text, Data("\(number)".utf8), isSent: false, at: .zero) }
        #expect(live.count == 2_000 && live.kept.count == LiveMessages.countLimit)
        #expect(live.kept.last?.bytes == Data("1999".utf8))
        for _ in 0..<100 { live.add(.binary, Data(count: 1 << 20), isSent: true, at: .zero) }
        #expect(live.byteCount <= LiveMessages.byteLimit && live.kept.last?.size == 1 << 20)
        #expect(live.kept.allSatisfy { $0.bytes.count <= LiveMessages.messageLimit })
    }

    @Test func eventsAreShownWhileTheyCome() async throws {
        let inspected = try InspectedManager()
        let stream = "data: {\"n\":1,\"password\":\"CANARY\"}\n\nevent: tick\ndata: 2\n\n"
        inspected.server.route("GET", "/events") { _ in
            .data(Data((stream + "data: never").utf8), contentType: "text/event-stream").stalling(
                .afterBodyBytes(Int64(stream.utf8.count)))
        }
        let (manager, url) = (inspected.manager, inspected.server.url("/events"))
        let reading = Task { for try await _ in manager.events(url) {} }
        defer { reading.cancel() }
        let reader = PageReader(address: inspected.address)
        let call = try await reader.call { $0["messageCount"].int == 2 }
        #expect(call["duration"].double == nil && call["state"].string == "receiving")
        let messages = try await inspected.ask("GET", "/calls/\(call["id"].int ?? 0)").json()["messages"].array ?? []
        #expect(messages.map { $0["kind"].string } == ["event", "event"])
        #expect(messages.map { $0["text"].string } == [#"data: {"n":1,"password":"***"}"#, "event: tick\ndata: 2"])
        #expect(messages.allSatisfy { $0["time"].double.map { $0 >= 0 } ?? false })
    }

    @Test func messagesOfASocketAreShownBothWays() async throws {
        let inspected = try InspectedManager()
        inspected.server.route("GET", "/live") { _ in
            .webSocket([.text("hello")]) { message in
                message.kind == .text ? [.text("re: \(message.text)")] : [.data(message.data)]
            }
        }
        let socket = try await inspected.manager.webSocket(inspected.server.url("/live"))
        try await socket.send(#"{"token":"CANARY","n":1}"#)
        var count = 0
        for try await _ in socket.messages {
            count += 1
            if count == 2 { try await socket.send(Data([0, 255])) }
            if count == 3 { break }
        }
        _ = try await socket.close(code: 4001, reason: "done")
        let call = try #require(try await inspected.stream(calls: 1).first)
        let messages = try await inspected.ask("GET", "/calls/\(call["id"].int ?? 0)").json()["messages"].array ?? []
        let sent = messages.filter { $0["isSent"].bool == true }.map {
            "\($0["kind"].string ?? "") \($0["text"].string ?? "")"
        }
        #expect(sent == [#"text {"token":"***","n":1}"#, "binary AP8=", "close 4001 done"])
        let received = messages.filter { $0["isSent"].bool == false }.compactMap { $0["text"].string }
        #expect(
            received.starts(with: ["hello", #"re: {"token":"***","n":1}"#, "AP8="]) && call["messageCount"].int == 7)
        // Chrome shows them from a file, too.
        let har = try await inspected.ask("POST", "/har", body: "[\(call["id"].int ?? 0)]").json()
        let frames = har["log"]["entries"][0]["_webSocketMessages"].array ?? []
        #expect(
            frames.map { $0["type"].string } == ["send", "receive", "receive", "send", "receive"] || frames.count == 5)
        #expect(har["log"]["entries"][0]["_call"]["messages"].array?.count == 7)
    }

    @Test func recordersGetMessagesToo() async throws {
        let server = try MockServer()
        server.route("GET", "/live") { _ in .webSocket(.text("hello")) }
        let records = Records()
        let manager = try CentralRequestManager.make { $0.accessories = [records.recorder(), Inspector()] }
        let socket = try await manager.webSocket(server.url("/live"))
        for try await _ in socket.messages { break }
        _ = try await socket.close()
        try await eventually("the record of the socket") { !records.all.isEmpty }
        let record = try #require(records.all.first)
        #expect(record.messages.contains { $0.kind == .text && $0.text == "hello" && !$0.isSent })
    }
}

extension PageReader {
    /// The first state of a call that fulfils a condition.
    func call(_ condition: (JSONValue) -> Bool) async throws -> JSONValue {
        let central = try CentralRequestManager(configuration: CentralRequestManager.Configuration())
        let response = try await central.stream("GET", url("/stream"), headers: ["Authorization": "Bearer \(token)"])
        for try await line in response.body.lines where line.hasPrefix("data: [") {
            if let call = try JSONValue(parsing: String(line.dropFirst(6))).array?.first(where: condition) {
                return call
            }
        }
        throw PageBrowser.Failure(description: "the stream has ended")
    }
}
