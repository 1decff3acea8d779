import FoundationEssentials
import Testing

@testable import LATTesting

/// A WebSocket's script, without a socket.
@Suite struct SocketPlayerTests {
    /// The frames that the server sends while it receives these frames of the client, as text, and what it does at last.
    private func run(
        _ reply: MockReply, _ frames: [ArraySlice<UInt8>]
    ) throws -> (sent: [String], last: SocketPlayer.Action) {
        var player = SocketPlayer(try #require(reply.socket))
        var bytes: [UInt8] = []
        var last = SocketPlayer.Action.receive
        for frame in [[]] + frames {
            _ = player.receive(frame, connection: 0, at: .now)
            last = player.next(at: .now)
            while case .send(let part) = last {
                bytes += part
                player.didSend(part.count)
                last = player.next(at: .now)
            }
        }
        var sent: [String] = []
        while bytes.count >= 2 {
            let payload = bytes[2...].prefix(Int(bytes[1]))
            sent.append(bytes[0] == 0x88 ? "<close>" : String(decoding: payload, as: UTF8.self))
            bytes.removeFirst(2 + payload.count)
        }
        return (sent, last)
    }

    /// A frame of a client, whose mask of zeros changes nothing.
    private func text(_ text: String) -> ArraySlice<UInt8> {
        [0x81, 0x80 | UInt8(text.utf8.count), 0, 0, 0, 0] + text.utf8
    }
    private let close: ArraySlice<UInt8> = [0x88, 0x80, 0, 0, 0, 0]

    @Test func requestThatIsNoHandshakeIsRefused() throws {
        let server = try MockServer { _ in .webSocket(.text("hello")) }
        let client = try RawClient(server)
        let handshake = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        for headers in ["", handshake, key, "Upgrade: websocket\r\nConnection: x-upgrade\r\n" + key] {
            #expect(try client.getResponse("/", headers: headers + "Sec-WebSocket-Version: 13\r\n").status == 400)
        }
        let other = try client.getResponse("/", headers: handshake + key + "Sec-WebSocket-Version: 8\r\n")
        #expect(other.status == 426 && other["Sec-WebSocket-Version"] == "13")
        #expect(try client.getResponse("/", headers: handshake + key + "Sec-WebSocket-Version: 13\r\n").status == 101)
    }

    @Test func scriptWithoutAnswersClosesAtItsEnd() throws {
        let result = try run(.webSocket(.text("a"), .receive(), .echo(1)), [text("1"), text("2"), close])
        #expect(result == (["a", "2", "<close>"], .close))
    }

    @Test func stepsTakeMessagesBeforeAnswers() throws {
        let reply = MockReply.webSocket([.receive(2), .text("go"), .echo(1)]) { [.text("answer to \($0.text)")] }
        let frames = ["1", "2", "3", "4", "5"].map { text($0) }
        #expect(try run(reply, frames) == (["go", "3", "answer to 4", "answer to 5"], .receive))
        #expect(try run(reply, Array(frames.prefix(1))) == ([], .receive))
        // All frames at once.
        #expect(try run(reply, [frames.reduce([], +)]) == (["go", "3", "answer to 4", "answer to 5"], .receive))
    }

    @Test func answerMayWaitForAMessage() throws {
        let reply = MockReply.webSocket { [.text("\($0.text)?"), .receive(), .text("thanks")] }
        #expect(try run(reply, [text("1"), text("2"), text("3")]) == (["1?", "thanks", "3?"], .receive))
    }

    @Test func clientsCloseEndsStepsThatWait() throws {
        let reply = MockReply.webSocket([.echo(), .text("never")]) { _ in [] }
        #expect(try run(reply, [text("1"), text("2") + close]) == (["1", "2", "<close>"], .close))
    }
}
