import FoundationEssentials
import LATTesting
import Testing

@testable import LATRealtime

/// The reader of frames and the one of `websockets` find the same in random sequences of frames, good and bad.
@Suite(
    .enabled(if: WebSocketPeer.isThere, "needs websockets in .venv; scripts/setup --tests has it"),
    .timeLimit(.minutes(2)))
struct FrameReferenceTests {
    private struct Sequence: Decodable {
        var wire: String
        var events: [[String]]
        var end: End?

        struct End: Decodable, Equatable {
            var code: UInt16
            /// `server` closes, or `client` fails.
            var side: String

            init(_ code: UInt16, _ side: String) { (self.code, self.side) = (code, side) }

            init(from decoder: any Decoder) throws {
                var values = try decoder.unkeyedContainer()
                self.init(try values.decode(UInt16.self), try values.decode(String.self))
            }
        }
    }

    @Test func framesAreReadAsWebsocketsReadsThem() throws {
        let seed = UInt32.random(in: 0...UInt32.max)
        let lines = try WebSocketPeer.frames(count: 600, seed: seed).split(separator: "\n")
        #expect(lines.count == 600)
        var ends: Set<String> = []
        for (number, line) in lines.enumerated() {
            let expected = try JSONDecoder().decode(Sequence.self, from: Data(line.utf8))
            let wire = try #require(Self.bytes(expected.wire))
            for size in [wire.count, 7, 1_000] {
                let (events, end) = Self.read(wire, inPiecesOf: max(1, size))
                #expect(
                    events == expected.events && end == expected.end,
                    """
                    seed \(seed), sequence \(number) in pieces of \(size) ends with \(String(describing: end)), not \
                    \(String(describing: expected.end)): \(expected.wire.prefix(200))
                    """)
            }
            ends.insert(expected.end?.side ?? "open")
        }
        #expect(ends == ["server", "client", "open"])
    }

    private static func read(_ wire: [UInt8], inPiecesOf size: Int) -> ([[String]], Sequence.End?) {
        var reader = MessageReader(limit: 1 << 20)
        var events: [[String]] = []
        var rest = wire[...]
        do throws(WebSocketViolation) {
            while !rest.isEmpty {
                reader.append(rest.prefix(size))
                rest = rest.dropFirst(size)
                while let event = try reader.next() {
                    switch event {
                    case .message(.text(let text)): events.append(["text", hex(text.utf8)])
                    case .message(.data(let data)): events.append(["data", hex(data)])
                    case .ping(let payload): events.append(["ping", hex(payload)])
                    case .pong(let payload): events.append(["pong", hex(payload)])
                    case .close(let code, _): return (events, .init(code ?? 1005, "server"))
                    }
                }
            }
        } catch {
            return (events, .init(error.code, "client"))
        }
        return (events, nil)
    }

    private static func hex(_ bytes: some Collection<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    private static func bytes(_ hex: String) -> [UInt8]? {
        let digits = hex.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
        guard digits.count == hex.utf8.count, digits.count.isMultiple(of: 2) else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}
