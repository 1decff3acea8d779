import FoundationEssentials
import LATInspect
import LATRealtime
import LATTesting
import Testing

/// Live connections that are recorded and replayed.
@Suite(.timeLimit(.minutes(2)))
struct CassetteSocketTests {
    private let directory: TemporaryDirectory
    private let server: MockServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try MockServer()
    }

    private func manager(_ mode: Cassette.Mode) throws -> (CentralRequestManager, Cassette) {
        let cassette = try Cassette("live", in: directory.path, mode: mode)
        return (try CentralRequestManager.make { $0.transport = cassette }, cassette)
    }

    private func text() -> String { String(decoding: directory.read("live.yaml") ?? Data(), as: UTF8.self) }

    /// Sends a subscription, reads two messages, answers the second, and closes.
    private func talk(
        _ mode: Cassette.Mode, _ subscription: String = #"{"subscribe": "prices", "token": "CANARY-one"}"#
    ) async throws -> ([WebSocket.Message], WebSocket.Closing?) {
        let (manager, cassette) = try manager(mode)
        let socket = try await manager.webSocket(server.url("/live"))
        try await socket.send(subscription)
        var messages: [WebSocket.Message] = []
        for try await message in socket.messages {
            messages.append(message)
            if messages.count == 2 { try await socket.send(Data([0, 255])) }
            if messages.count == 3 { break }
        }
        _ = try await socket.ping()
        let closing = try await socket.close(code: 4001, reason: "done")
        try cassette.eject()
        return (messages, closing)
    }

    @Test func webSocketIsReplayedWithoutAServer() async throws {
        server.route("GET", "/live") { _ in
            .webSocket([.text("hello\nyou")]) { message in
                message.kind == .text ? [.text(#"{"price": 7, "token": "CANARY-two"}"#)] : [.data(message.data)]
            }
        }
        let first = try await talk(.once)
        #expect(first.0.count == 3 && first.0[0] == .text("hello\nyou") && first.0[2] == .data(Data([0, 255])))
        #expect(!text().contains("CANARY") && !text().contains("Sec-WebSocket-Key"))
        #expect(
            text().contains(#"- receivedBytes: "AP8=""#) && text().contains(#"- sentClose: "4001 done""#), "\(text())")
        let count = server.requestCount
        // A message with another token matches the recorded one, and JSON is compared by its values.
        let second = try await talk(.none, #"{"token":"CANARY-three","subscribe":"prices"}"#)
        #expect(second.0 == [first.0[0], .text(#"{"price": 7, "token": "***2"}"#), first.0[2]])
        #expect(second.1 == first.1 && server.requestCount == count)
    }

    @Test func bytesAndCloseReasonsHoldNoSecrets() async throws {
        server.enqueue(
            .webSocket(
                .text(#"{"token": "CANARY-one"}"#), .data(Data([0, 255]) + Data("CANARY-one".utf8)),
                .data(Data(#"{"token": "CANARY-two"}"#.utf8)), .close(4001, "no CANARY-one here")))
        func run(_ mode: Cassette.Mode) async throws -> ([WebSocket.Message], String?) {
            let (manager, cassette) = try manager(mode)
            let socket = try await manager.webSocket(server.url("/live"))
            var messages: [WebSocket.Message] = []
            for try await message in socket.messages { messages.append(message) }
            try cassette.eject()
            return (messages, socket.closing?.reason)
        }
        #expect(try await run(.once).1 == "no CANARY-one here")
        #expect(!text().contains("CANARY"))
        let (messages, reason) = try await run(.none)
        #expect(
            messages == [
                .text(#"{"token": "***1"}"#), .data(Data([0, 255]) + Data("***1".utf8)),
                .data(Data(#"{"token": "***2"}"#.utf8)),
            ])
        #expect(reason == "no ***1 here")
    }

    /// The secrets of the replayed request are in the place of those of the recorded one.
    @Test func secretsOfTheRequestArePutBack() async throws {
        func run(_ mode: Cassette.Mode, _ secret: String) async throws -> [String] {
            let json = JSONValue.string("you are \(secret)").description
            server.enqueue(
                .webSocket(
                    .text(#"{"user": \#(json)}"#), .data(Data([255]) + Data(secret.utf8)), .close(4001, "no \(secret)"))
            )
            let (manager, cassette) = try manager(mode)
            let socket = try await manager.webSocket(server.url("/live"), headers: ["X-Api-Key": secret])
            var seen: [String] = []
            for try await message in socket.messages {
                switch message {
                case .text(let text): seen.append(text)
                case .data(let data): seen.append(data.base64EncodedString())
                }
            }
            try cassette.eject()
            return seen + [socket.closing?.reason ?? ""]
        }
        let first = try await run(.once, "CANARY-one")
        #expect(first[0].contains("you are CANARY-one") && !text().contains("CANARY"))
        #expect(try await run(.none, "CANARY-one") == first)
        let other = #"CANARY "two""#
        let second = try await run(.none, other)
        #expect(try JSONValue(parsing: second[0])["user"].string == "you are \(other)" && second[2] == "no \(other)")
    }

    @Test func messageThatDiffersIsNamed() async throws {
        server.route("GET", "/live") { _ in .webSocket([.text("hello")]) { _ in [.text("yes"), .text("and")] } }
        _ = try await talk(.once, #"{"subscribe": "prices"}"#)
        let (manager, _) = try manager(.none)
        let socket = try await manager.webSocket(server.url("/live"))
        let error = await #expect(throws: NetworkError.self) { try await socket.send(#"{"subscribe": "news"}"#) }
        #expect(error?.kind == .simulation)
        let message = error?.message ?? ""
        #expect(message.contains("message 1 to ") && message.contains("is not as recorded in line "), "\(message)")
        #expect(message.contains(#"(body at subscribe: asked ""news"", recorded ""prices"")"#), "\(message)")
        // The connection has ended with the same error.
        let end = await #expect(throws: NetworkError.self) { for try await _ in socket.messages {} }
        #expect(end?.kind == .simulation)
    }

    @Test func endOfTheServerIsReplayed() async throws {
        server.enqueue(.webSocket(.text("a"), .cut), .webSocket(.text("b"), .close(1001, "away")))
        func run(_ mode: Cassette.Mode) async throws -> [String] {
            let (manager, cassette) = try manager(mode)
            var ends: [String] = []
            for path in ["/cut", "/closed"] {
                let socket = try await manager.webSocket(server.url(path))
                do {
                    for try await message in socket.messages { ends.append("\(message)") }
                } catch let error as NetworkError {
                    ends.append(error.kind.description)
                }
                ends.append("\(socket.closing?.code.rawValue ?? 0) \(socket.closing?.reason ?? "")")
            }
            try cassette.eject()
            return ends
        }
        let first = try await run(.once)
        #expect(first.contains("connectionLost") && first.last == "1001 away")
        #expect(try await run(.none) == first)
        #expect(server.requestCount == 2)
    }

    @Test func eventsAreReplayed() async throws {
        server.enqueue(.events(.event("one", id: "1"), .event(#"{"token": "CANARY"}"#, type: "note")))
        func run(_ mode: Cassette.Mode) async throws -> [String] {
            let (manager, cassette) = try manager(mode)
            var events: [String] = []
            for try await event in manager.events("GET", server.url("/events")) {
                events.append("\(event.type) \(event.data)")
            }
            try cassette.eject()
            return events
        }
        let first = try await run(.once)
        #expect(first == ["message one", #"note {"token": "CANARY"}"#])
        #expect(try await run(.none) == ["message one", #"note {"token": "***1"}"#])
        #expect(server.requestCount == 1 && !text().contains("CANARY"))
    }
}
