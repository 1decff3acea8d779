import FoundationEssentials
import Testing

@testable import LATRealtime

/// Streams that no honest server sends: in one long piece, and in very many. The sizes are so large that work which grows with
/// their square would take many minutes.
@Suite(.timeLimit(.minutes(5))) struct LargeStreamTests {
    private static let (long, many) = (1 << 20, 200_000)

    private func repeated(_ text: String, _ count: Int) -> [UInt8] { Array(String(repeating: text, count: count).utf8) }

    // MARK: Events

    private func events(
        _ stream: [UInt8], inPiecesOf size: Int, limit: Int = 4 << 20
    ) throws(EventStreamParser.TooLarge) -> [ServerSentEvent] {
        var parser = EventStreamParser(eventLimit: limit)
        var events: [ServerSentEvent] = []
        var rest = stream[...]
        while !rest.isEmpty {
            parser.append(rest.prefix(size))
            rest = rest.dropFirst(size)
            while let event = try parser.next() { events.append(event) }
        }
        return events
    }

    @Test(arguments: [1, 7, 1 << 30]) func largeEventsAreRead(size: Int) throws {
        let line = try events(Array("data: ".utf8) + repeated("x", Self.long) + Array("\n\n".utf8), inPiecesOf: size)
        #expect(line.count == 1 && line.first?.data.utf8.count == Self.long)
        let lines = try events(repeated("data: x\n", Self.many) + Array("\n".utf8), inPiecesOf: size)
        #expect(lines.count == 1 && lines.first?.data.utf8.count == 2 * Self.many - 1)
        let short = try events(repeated("id: 7\ndata: x\r\n\r\n", Self.many / 2), inPiecesOf: size)
        #expect(short.count == Self.many / 2 && short.last?.id == "7")
    }

    @Test(arguments: [1, 7, 1 << 30]) func nothingButFieldsIsNoEvent(size: Int) throws {
        for part in ["\n", "\r\n", ":\n", "id\n", "event: x\n", "retry: 9\n", "x: y\n\n", "\u{FEFF}"] {
            #expect(try events(repeated(part, Self.many / 2), inPiecesOf: size).isEmpty)
        }
        #expect(try events(Array(":".utf8) + repeated("x", Self.long), inPiecesOf: size, limit: 1_000).isEmpty)
    }

    @Test(arguments: [1, 1 << 30], ["data: ", "id: ", "event: ", ""]) func endlessLineIsAnError(size: Int, name: String)
    {
        #expect(throws: EventStreamParser.TooLarge(limit: 1 << 16)) {
            try events(Array(name.utf8) + repeated("x", Self.long), inPiecesOf: size, limit: 1 << 16)
        }
    }

    // MARK: Frames

    private func messages(_ frames: [UInt8], inPiecesOf size: Int, limit: Int = 4 << 20) throws(WebSocketViolation)
        -> Int
    {
        var reader = MessageReader(limit: limit, compression: nil)
        var count = 0
        var rest = frames[...]
        while !rest.isEmpty {
            reader.append(rest.prefix(size))
            rest = rest.dropFirst(size)
            while try reader.next() != nil { count += 1 }
        }
        return count
    }

    private func frame(_ opcode: UInt8, isFinal: Bool = true, _ payload: [UInt8]) -> [UInt8] {
        let count = payload.count
        let head = [opcode | (isFinal ? 0x80 : 0)]
        if count < 126 { return head + [UInt8(count)] + payload }
        return head + [127] + (0..<8).map { UInt8(truncatingIfNeeded: count >> (56 - 8 * $0)) } + payload
    }

    @Test(arguments: [1, 7, 1 << 30]) func largeMessagesAreRead(size: Int) throws {
        #expect(try messages(frame(0x1, repeated("x", Self.long)), inPiecesOf: size) == 1)
        #expect(try messages(frame(0x2, repeated("x", Self.long)), inPiecesOf: size) == 1)
        // A frame for each byte, with nothing in half of them, and pings between them.
        let ping = frame(0x9, [1])
        let inner = Array(
            repeatElement(
                frame(0x0, isFinal: false, [0x61]) + frame(0x0, isFinal: false, []) + ping, count: Self.many / 4
            ).joined())
        let whole = frame(0x2, isFinal: false, repeated("x", Self.long)) + inner + frame(0x0, [0x61])
        #expect(try messages(whole, inPiecesOf: size) == Self.many / 4 + 1)
        let short = Array(repeatElement(frame(0x1, [0x61]), count: Self.many).joined())
        #expect(try messages(short, inPiecesOf: size) == Self.many)
    }

    @Test func fragmentsBeyondTheLimitAreAViolation() {
        let frames =
            frame(0x2, isFinal: false, [1])
            + Array(repeatElement(frame(0x0, isFinal: false, [1]), count: 2_000).joined())
        #expect(throws: WebSocketViolation.self) { try messages(frames, inPiecesOf: 64, limit: 1_000) }
        let head: [UInt8] = [0x82, 127, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]
        #expect(throws: WebSocketViolation.self) { try messages(head + [1, 2, 3], inPiecesOf: 1, limit: 1_000) }
    }
}
