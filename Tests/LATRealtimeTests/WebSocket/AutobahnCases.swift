import FoundationEssentials
import TestSupport
import Testing

@testable import LATRealtime

/// A case of the public list of Autobahn's test suite: what the server sends, and what the client must do.
struct AutobahnCase: Sendable, CustomTestStringConvertible {
    enum Event: Sendable, Equatable {
        /// A message, which the client echoes.
        case message(WebSocket.Message)
        /// A ping, which the client answers with a pong of this payload.
        case ping([UInt8])
    }

    enum End: Sendable, Equatable {
        /// The connection stays open; the server then closes it.
        case open
        /// The server has closed with this code, and the client answers with the same.
        case closed(UInt16?)
        /// The client closes with this code.
        case fails(UInt16)
    }

    let id: String
    let wire: [UInt8]
    let events: [Event]
    let end: End

    init(_ id: String, _ wire: [[UInt8]], _ events: [Event] = [], _ end: End = .open) {
        self.id = id
        // Unoptimized, `joined()` copies byte by byte, which takes half a minute for the large cases.
        self.wire = wire.reduce(into: []) { $0 += $1 }
        self.events = events
        self.end = end
    }

    var testDescription: String { id }

    static func frame(_ opcode: UInt8, _ payload: [UInt8] = [], isFinal: Bool = true, reserved: UInt8 = 0) -> [UInt8] {
        var bytes = [(isFinal ? 0x80 : 0) | reserved << 4 | opcode]
        switch payload.count {
        case ..<126: bytes.append(UInt8(payload.count))
        case ..<65_536: bytes += [126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: bytes += [127] + (0..<8).reversed().map { UInt8(truncatingIfNeeded: payload.count >> ($0 * 8)) }
        }
        return bytes + payload
    }

    static func text(_ text: String, isFinal: Bool = true) -> [UInt8] { frame(1, Array(text.utf8), isFinal: isFinal) }
    static func more(_ text: String, isFinal: Bool) -> [UInt8] { frame(0, Array(text.utf8), isFinal: isFinal) }
    static func close(_ code: UInt16?, _ reason: [UInt8] = []) -> [UInt8] {
        frame(8, (code.map { [UInt8($0 >> 8), UInt8($0 & 0xFF)] } ?? []) + reason)
    }
    static func got(_ text: String) -> Event { .message(.text(text)) }
    static func got(_ data: [UInt8]) -> Event { .message(.data(Data(data))) }

    static let hello = "Hello, world!"
    static let rare = "κόσμε"

    /// 1 to 5, 7 and 10.
    static let frames: [AutobahnCase] =
        framing + pings + reserved + opcodes + fragments + closings + [
            AutobahnCase(
                "10.1.1", [text(String(repeating: "*", count: 65_536))], [got(String(repeating: "*", count: 65_536))])
        ]

    private static let framing: [AutobahnCase] = [0, 125, 126, 127, 128, 65_535, 65_536, 65_536].enumerated().flatMap {
        index, size in
        let payload = [UInt8](repeating: 0xFE, count: size)
        let star = String(repeating: "*", count: size)
        return [
            AutobahnCase("1.1.\(index + 1)", [text(star)], [got(star)]),
            AutobahnCase("1.2.\(index + 1)", [frame(2, payload)], [got(payload)]),
        ]
    }

    private static let pings: [AutobahnCase] = {
        let odd: [UInt8] = [0x00, 0xFF, 0xFE, 0xFD, 0xFC, 0xFB, 0x00, 0xFF]
        let long = [UInt8](repeating: 0xFE, count: 125)
        let many = (0..<10).map { Array("payload-\($0)".utf8) }
        return [
            AutobahnCase("2.1", [frame(9)], [.ping([])]),
            AutobahnCase("2.2", [frame(9, Array(hello.utf8))], [.ping(Array(hello.utf8))]),
            AutobahnCase("2.3", [frame(9, odd)], [.ping(odd)]),
            AutobahnCase("2.4", [frame(9, long)], [.ping(long)]),
            AutobahnCase("2.5", [frame(9, long + [0xFE])], [], .fails(1002)),
            AutobahnCase("2.6", [frame(9, long)], [.ping(long)]),
            AutobahnCase("2.7", [frame(10)]),
            AutobahnCase("2.8", [frame(10, Array("unsolicited".utf8))]),
            AutobahnCase("2.9", [frame(10, [1]), frame(9, Array("ping".utf8))], [.ping(Array("ping".utf8))]),
            AutobahnCase("2.10", many.map { frame(9, $0) }, many.map { .ping($0) }),
            AutobahnCase("2.11", many.map { frame(9, $0) }, many.map { .ping($0) }),
        ]
    }()

    private static let reserved: [AutobahnCase] = {
        let content = Array(hello.utf8)
        let first = text(hello)
        let then: [UInt8] = frame(9)
        return [
            AutobahnCase("3.1", [frame(1, content, reserved: 1)], [], .fails(1002)),
            AutobahnCase("3.2", [first, frame(1, content, reserved: 2), then], [got(hello)], .fails(1002)),
            AutobahnCase("3.3", [first, frame(1, content, reserved: 3), then], [got(hello)], .fails(1002)),
            AutobahnCase("3.4", [first, frame(1, content, reserved: 4), then], [got(hello)], .fails(1002)),
            AutobahnCase("3.5", [frame(2, content, reserved: 5)], [], .fails(1002)),
            AutobahnCase("3.6", [frame(9, content, reserved: 6)], [], .fails(1002)),
            AutobahnCase("3.7", [frame(8, [], reserved: 7)], [], .fails(1002)),
        ]
    }()

    private static let opcodes: [AutobahnCase] = (1...2).flatMap { section in
        (1...5).map { number in
            let opcode = UInt8(number + (section == 1 ? 2 : 10))
            let payload = number == 1 ? [] : Array("reserved".utf8)
            let isAlone = number < 3
            return AutobahnCase(
                "4.\(section).\(number)", (isAlone ? [] : [text(hello)]) + [frame(opcode, payload), frame(9)],
                isAlone ? [] : [got(hello)], .fails(1002))
        }
    }

    private static let fragments: [AutobahnCase] = {
        let (a, b) = ("fragment1", "fragment2")
        let ping = Array("ping".utf8)
        let pair = [text(a, isFinal: false), more(b, isFinal: true)]
        let around = [text(a, isFinal: false), frame(9, ping), more(b, isFinal: true)]
        let stray = [more("stray", isFinal: true), text(hello)]
        let open = [more("stray", isFinal: false), text(hello)]
        let five = [
            text("fragment1", isFinal: false), more("fragment2", isFinal: false), frame(9, ping),
            more("fragment3", isFinal: false), more("fragment4", isFinal: false), frame(9, ping),
            more("fragment5", isFinal: true),
        ]
        let whole = got((1...5).map { "fragment\($0)" }.joined())
        return [
            AutobahnCase("5.1", [frame(9, ping, isFinal: false), frame(0, ping)], [], .fails(1002)),
            AutobahnCase("5.2", [frame(10, ping, isFinal: false), frame(0, ping)], [], .fails(1002)),
        ] + ["5.3", "5.4", "5.5"].map { AutobahnCase($0, pair, [got(a + b)]) }
            + ["5.6", "5.7", "5.8"].map { AutobahnCase($0, around, [.ping(ping), got(a + b)]) }
            + ["5.9", "5.10", "5.11"].map { AutobahnCase($0, stray, [], .fails(1002)) }
            + ["5.12", "5.13", "5.14"].map { AutobahnCase($0, open, [], .fails(1002)) }
            + [
                AutobahnCase("5.15", pair + open, [got(a + b)], .fails(1002)),
                AutobahnCase("5.16", [more(a, isFinal: false), text(b)], [], .fails(1002)),
                AutobahnCase("5.17", [more(a, isFinal: true), text(b)], [], .fails(1002)),
                AutobahnCase("5.18", [text(a, isFinal: false), text(b)], [], .fails(1002)),
                AutobahnCase("5.19", five, [.ping(ping), .ping(ping), whole]),
                AutobahnCase("5.20", five, [.ping(ping), .ping(ping), whole]),
            ]
    }()

    private static let closings: [AutobahnCase] = {
        let bye = close(1000)
        let bad: [UInt8] = [0xCE, 0xBA, 0xE1, 0xBD, 0xB9, 0xCF, 0x83, 0xED, 0xA0, 0x80, 0x65]
        let longest = [UInt8](repeating: UInt8(ascii: "*"), count: 123)
        return [
            AutobahnCase("7.1.1", [text(hello), bye], [got(hello)], .closed(1000)),
            AutobahnCase("7.1.2", [bye, bye], [], .closed(1000)),
            AutobahnCase("7.1.3", [bye, frame(9)], [], .closed(1000)),
            AutobahnCase("7.1.4", [bye, text(hello)], [], .closed(1000)),
            AutobahnCase("7.1.5", [text(hello, isFinal: false), bye, more("late", isFinal: true)], [], .closed(1000)),
            AutobahnCase("7.1.6", [text(hello), bye, frame(9)], [got(hello)], .closed(1000)),
            AutobahnCase("7.3.1", [frame(8)], [], .closed(nil)),
            AutobahnCase("7.3.2", [frame(8, [3])], [], .fails(1002)),
            AutobahnCase("7.3.3", [bye], [], .closed(1000)),
            AutobahnCase("7.3.4", [close(1000, Array("done".utf8))], [], .closed(1000)),
            AutobahnCase("7.3.5", [close(1000, longest)], [], .closed(1000)),
            AutobahnCase("7.3.6", [close(1000, longest + [UInt8(ascii: "*")])], [], .fails(1002)),
            AutobahnCase("7.5.1", [close(1000, bad)], [], .fails(1007)),
        ]
            + [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999].enumerated().map {
                AutobahnCase("7.7.\($0 + 1)", [close($1)], [], .closed($1))
            }
            + [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999].enumerated().map {
                AutobahnCase("7.9.\($0 + 1)", [close($1)], [], .fails(1002))
            }
            + [5000, 65_535].enumerated().map { AutobahnCase("7.13.\($0 + 1)", [close($1)], [], .fails(1002)) }
    }()

    /// 9: large messages, in one frame, in many, and many small ones.
    static let limits: [AutobahnCase] = {
        let sizes = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20, 16 << 20]
        let pieces = [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20]
        var cases: [AutobahnCase] = []
        for (section, opcode) in [(1, UInt8(1)), (2, 2)] {
            func event(_ payload: [UInt8]) -> Event {
                opcode == 1 ? got(String(decoding: payload, as: UTF8.self)) : got(payload)
            }
            for (index, size) in sizes.enumerated() {
                let payload = [UInt8](repeating: UInt8(ascii: "*"), count: size)
                cases.append(AutobahnCase("9.\(section).\(index + 1)", [frame(opcode, payload)], [event(payload)]))
            }
            let whole = [UInt8](repeating: UInt8(ascii: "*"), count: 4 << 20)
            for (index, piece) in pieces.enumerated() {
                let count = whole.count / piece
                let wire = (0..<count).map {
                    frame($0 == 0 ? opcode : 0, Array(whole[..<piece]), isFinal: $0 == count - 1)
                }
                cases.append(AutobahnCase("9.\(section + 2).\(index + 1)", wire, [event(whole)]))
            }
            let megabyte = Array(whole[..<(1 << 20)])
            for index in 1...6 {
                cases.append(AutobahnCase("9.\(section + 4).\(index)", [frame(opcode, megabyte)], [event(megabyte)]))
            }
            for (index, size) in [0, 16, 64, 256, 1_024, 4_096].enumerated() {
                let payload = Array(whole[..<size])
                cases.append(
                    AutobahnCase(
                        "9.\(section + 6).\(index + 1)", Array(repeating: frame(opcode, payload), count: 1_000),
                        Array(repeating: event(payload), count: 1_000)))
            }
        }
        return cases
    }()
}
