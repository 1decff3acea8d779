import FoundationEssentials
import LATInspect
import LATRealtime
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import HTTPCore

/// Conversations of WebSockets in which secrets are in the messages only. The seeds are fixed.
@Suite(.timeLimit(.minutes(2))) struct CassetteConversationTests {
    /// What a client sends, and what the server answers to each message.
    private struct Conversation: Sendable {
        struct Round: Sendable {
            var sent: WebSocket.Message
            var answers: [WebSocket.Message]
        }

        var rounds: [Round]
        var closing: String

        init(_ secret: String, seed: UInt64) {
            var random = SeededGenerator(seed: seed)
            let json = JSONValue.string(secret).description
            let escaped = secret.percentEncodedComponent
            rounds = (0..<Int.random(in: 1...6, using: &random)).map { number in
                // The first message makes the secret known.
                let sent: [WebSocket.Message] = [
                    .text(#"{"n": \#(number), "auth": {"token": \#(json)}}"#), .text("n=\(number)&token=\(escaped)"),
                    .data(Data([0xFF]) + Data("n=\(number)&token=\(escaped)".utf8)),
                    .text("\(number) \(secret)"), .data(Data("\(number)".utf8)),
                ]
                let answers: [WebSocket.Message] = [
                    .text("you are \(secret)"), .text(#"{"user": \#(json), "n": [1, null]}"#),
                    .text("/x?token=\(escaped)"),
                    .data(Data([0xFF, 0]) + Data(secret.utf8)), .data(Data(#"{"user": \#(json)}"#.utf8)), .text(""),
                    .text("2000000001"),
                ]
                return Round(
                    sent: (number == 0 ? sent.prefix(3) : sent[...]).randomElement(using: &random) ?? sent[0],
                    answers: (0..<Int.random(in: 0...3, using: &random)).map { _ in
                        answers.randomElement(using: &random) ?? answers[0]
                    })
            }
            closing = Bool.random(using: &random) ? "bye \(secret)" : ""
        }

        /// The server's side: answers the messages in their order.
        var reply: MockReply {
            let rest = Mutex(rounds[...])
            let closing = closing
            return .webSocket([]) { _ in
                let (round, isLast) = rest.withLock { ($0.popFirst(), $0.isEmpty) }
                let answers: [MockReply.SocketStep] = (round?.answers ?? []).map {
                    switch $0 {
                    case .text(let text): .text(text)
                    case .data(let data): .data(data)
                    }
                }
                return answers + (isLast ? [.close(4001, closing)] : [])
            }
        }

        private func shown(_ message: WebSocket.Message) -> String {
            switch message {
            case .text(let text): text
            case .data(let data): data.base64EncodedString()
            }
        }

        /// The client's side. Returns all that it sees.
        func run(_ cassette: Cassette, _ url: String) async throws -> [String] {
            let manager = try CentralRequestManager.make { $0.transport = cassette }
            let socket = try await manager.webSocket(url)
            var messages = socket.messages.makeAsyncIterator()
            var seen: [String] = []
            for (number, round) in rounds.enumerated() {
                do {
                    switch round.sent {
                    case .text(let text): try await socket.send(text)
                    case .data(let data): try await socket.send(data)
                    }
                } catch  where number == rounds.count - 1 {
                    // The server may close before the sender hears that the last message has left.
                }
                for _ in round.answers { seen.append(try await messages.next().map(shown) ?? "an end") }
            }
            while let message = try await messages.next() { seen.append(shown(message)) }
            return seen + ["\(socket.closing?.code.rawValue ?? 0) \(socket.closing?.reason ?? "")"]
        }
    }

    private let directory: TemporaryDirectory
    private let server: MockServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try MockServer()
    }

    private func cassette(_ mode: Cassette.Mode) throws -> Cassette {
        try Cassette("live", in: directory.path, mode: mode)
    }

    @Test(arguments: 0..<60) func replayOfMessagesEqualsTheRecording(seed: UInt64) async throws {
        let canary = Canary.all[Int(seed % 2)]
        let conversation = Conversation(canary.text, seed: seed)
        server.enqueue(conversation.reply)
        let recording = try cassette(.all)
        let first = try await conversation.run(recording, server.url("/live"))
        #expect(first.last == "4001 \(conversation.closing)", "seed \(seed)")
        try recording.eject()
        let file = directory.read("live.yaml") ?? Data()
        #expect(!file.isEmpty && !Canary.isFound(in: file), "seed \(seed): \(String(decoding: file, as: UTF8.self))")
        let replayed = try await conversation.run(cassette(.none), server.url("/live"))
        #expect(replayed == first, "seed \(seed): \(String(decoding: file, as: UTF8.self))")
        #expect(server.requestCount == 1)
    }

    /// The program repeats a stand-in that it got, together with a secret of its own.
    @Test func standInsOfTheRecordingStayThemselves() async throws {
        func run(_ mode: Cassette.Mode, _ secrets: [String]) async throws -> [String] {
            let count = Mutex(0)
            server.enqueue(
                .webSocket([]) { message in
                    let isFirst = count.withLock { count in
                        count += 1
                        return count == 1
                    }
                    return [.text(isFirst ? #"{"token": "of-the-server-4711"}"# : "both: \(message.text)")]
                })
            let cassette = try cassette(mode)
            let manager = try CentralRequestManager.make { $0.transport = cassette }
            let socket = try await manager.webSocket(server.url("/live"))
            var messages = socket.messages.makeAsyncIterator()
            try await socket.send("token=\(secrets[0])")
            guard case .text(let given)? = try await messages.next() else { return [] }
            let own = try JSONValue(parsing: given)["token"].string ?? ""
            try await socket.send("token=\(secrets[1])&echo=\(own)")
            guard case .text(let answer)? = try await messages.next() else { return [] }
            _ = try await socket.close()
            try cassette.eject()
            return [own, answer]
        }
        let first = try await run(.once, ["first-0001", "second-0001"])
        #expect(first == ["of-the-server-4711", "both: token=second-0001&echo=of-the-server-4711"])
        let second = try await run(.none, ["first-0002", "second-0002"])
        #expect(second == ["***2", "both: token=second-0002&echo=***2"])
    }

    /// A server may repeat what an earlier request had.
    @Test func secretOfAnEarlierRequestIsPutBack() async throws {
        func run(_ mode: Cassette.Mode, _ secret: String) async throws -> [String] {
            server.enqueue(.text("ok"), .text("you are \(secret)"))
            let cassette = try cassette(mode)
            let manager = try CentralRequestManager.make { $0.transport = cassette }
            _ = try await manager.startRequest("POST", server.url("/in"), parameters: ["password": secret])
            let text = try await manager.send(HTTPRequest("GET", server.url("/me"))).text ?? ""
            try cassette.eject()
            return [text]
        }
        #expect(try await run(.once, "secret-0001") == ["you are secret-0001"])
        #expect(try await run(.none, "secret-0002") == ["you are secret-0002"])
    }

    /// JSON of one event in several lines, as servers print it with indentation.
    @Test func eventOfSeveralLinesIsReplayed() async throws {
        let event =
            "data: {\"token\":\ndata:   \"CANARY4711\",\nid: 5\ndata: \"password\"\ndata: : [\ndata: \"CANARY4711-b\"]}\n\n"
        server.enqueue(.data(Data(event.utf8), contentType: "text/event-stream"))
        func run(_ mode: Cassette.Mode) async throws -> [String] {
            let cassette = try cassette(mode)
            let manager = try CentralRequestManager.make { $0.transport = cassette }
            var seen: [String] = []
            for try await event in manager.events("GET", server.url("/events")) {
                seen.append(event.data)
            }
            try cassette.eject()
            return seen
        }
        let first = try await run(.once)
        #expect(try JSONValue(parsing: first.first ?? "")["token"].string == "CANARY4711")
        let text = String(decoding: directory.read("live.yaml") ?? Data(), as: UTF8.self)
        #expect(!text.contains("CANARY"), "\(text)")
        let again = try JSONValue(parsing: try await run(.none).first ?? "")
        #expect(again == .object(["token": .string("***1"), "password": .array([.string("***2")])]), "\(again)")
    }
}
