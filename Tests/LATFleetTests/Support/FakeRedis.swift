import LATFleet
import TestSupport

/// A server that speaks the protocol of Redis, and whose replies a test decides.
final class FakeRedis: Sendable {
    /// A connection that the server has accepted.
    struct Connection: Sendable {
        /// The first one has number 1.
        let number: Int
        let descriptor: CInt

        func write(_ text: String) { RawConnection(descriptor: descriptor).write(Array(text.utf8)) }
    }

    private let server: RawServer
    private let count: Box<Int>

    /// - Parameter reply: Returns the reply to a command, in the form that is sent; empty for none, `nil` to close the
    ///   connection. Runs on the connection's thread.
    init(_ reply: @escaping @Sendable (_ words: [String], _ connection: Connection) -> String?) throws {
        let count = Box(0)
        self.count = count
        server = try RawServer { raw in
            var number = 0
            count.change {
                $0 += 1
                number = $0
            }
            let connection = Connection(number: number, descriptor: raw.descriptor)
            var bytes: [UInt8] = []
            while case let more = raw.read(), !more.isEmpty {
                bytes += more
                while let words = Self.takeCommand(&bytes) {
                    guard let text = reply(words, connection) else { return }
                    connection.write(text)
                }
            }
        }
    }

    /// How many connections it has accepted.
    var connectionCount: Int { count.value }

    /// What a Redis without any data replies.
    static func usual(_ words: [String]) -> String {
        switch words[0] {
        case "HELLO": "*4\r\n$7\r\nversion\r\n$3\r\n7.0\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n"
        case "PING": "+PONG\r\n"
        case "SUBSCRIBE": words.dropFirst().map { "*3\r\n\(bulk("subscribe"))\(bulk($0)):1\r\n" }.joined()
        default: "$-1\r\n"
        }
    }

    static func message(_ channel: String, _ text: String) -> String {
        "*3\r\n\(bulk("message"))\(bulk(channel))\(bulk(text))"
    }

    private static func bulk(_ text: String) -> String { "$\(text.utf8.count)\r\n\(text)\r\n" }

    /// Settings for this server, with which a busy machine makes no answer late.
    var configuration: FleetConfiguration {
        var configuration = FleetConfiguration()
        configuration.address = .host("127.0.0.1", port: server.port)
        configuration.lookUpBudget = .seconds(20)
        configuration.writeBudget = .seconds(20)
        configuration.heartbeat = .seconds(60)
        configuration.connectTimeout = .seconds(20)
        configuration.warningHandler = { _ in }
        return configuration
    }

    /// Takes a whole command, an array of byte strings, from the front of the bytes.
    private static func takeCommand(_ bytes: inout [UInt8]) -> [String]? {
        var rest = bytes[...]
        func number() -> Int? {
            guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
            defer { rest = rest[(end + 1)...] }
            return Int(String(decoding: rest[..<end].dropFirst().dropLast(), as: UTF8.self))
        }
        guard let count = number() else { return nil }
        var words: [String] = []
        for _ in 0..<count {
            guard let length = number(), rest.count >= length + 2 else { return nil }
            words.append(String(decoding: rest.prefix(length), as: UTF8.self))
            rest = rest.dropFirst(length + 2)
        }
        bytes = Array(rest)
        return words
    }
}
