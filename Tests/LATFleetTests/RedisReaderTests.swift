import FoundationEssentials
import Testing

@testable import LATFleet

@Suite(.enabled(if: RedisReader.isAvailable, "needs --traits Fleet"))
struct RedisReaderTests {
    private func read(_ parts: [UInt8]..., limit: Int = 1 << 20) throws -> [RedisValue] {
        let reader = try #require(RedisReader(sizeLimit: limit))
        return try parts.flatMap { try $0.withUnsafeBytes { try reader.read($0) } }
    }

    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    @Test func readsEveryKindOfReply() throws {
        let all = "+OK\r\n:-7\r\n$3\r\na\0b\r\n$-1\r\n*-1\r\n*2\r\n:1\r\n*1\r\n$0\r\n\r\n-OOM full\r\n"
        let expected: [RedisValue] = [
            .status("OK"), .integer(-7), .data(Data([97, 0, 98])), .none, .none,
            .array([.integer(1), .array([.data(Data())])]),
            .failure(code: "OOM", text: "OOM full"),
        ]
        #expect(try read(bytes(all)) == expected)
    }

    @Test func repliesMayComeInAnyPieces() throws {
        let all = bytes("*2\r\n$5\r\nhello\r\n:42\r\n+OK\r\n")
        let expected: [RedisValue] = [.array([.data(Data("hello".utf8)), .integer(42)]), .status("OK")]
        for cut in 1..<all.count {
            #expect(try read(Array(all[..<cut]), Array(all[cut...])) == expected)
        }
        let reader = try #require(RedisReader(sizeLimit: 1 << 20))
        var values: [RedisValue] = []
        for byte in all { values += try withUnsafeBytes(of: byte) { try reader.read($0) } }
        #expect(values == expected)
    }

    @Test(arguments: [
        "HTTP/1.1 400 Bad Request\r\n", "*1\r\nx", "$abc\r\n", ":12a\r\n\r\n", "*2147483647\r\n", "*99999999\r\n",
    ])
    func garbageIsAProtocolError(_ text: String) throws {
        let error = #expect(throws: FleetError.self) { try read(bytes(text)) }
        #expect(error?.kind == .protocolViolation)
    }

    @Test func replyBeyondTheLimitIsRefused() throws {
        let chunk = [UInt8](repeating: 65, count: 1 << 20)
        #expect(throws: FleetError.self) { try read(bytes("$104857600\r\n"), chunk, chunk, limit: 1 << 20) }
        let whole = bytes("$1000\r\n") + [UInt8](repeating: 65, count: 1000) + bytes("\r\n")
        #expect(try read(whole, limit: 1000).first?.data?.count == 1000)
    }

    @Test func arrayBeyondTheLimitIsRefused() throws {
        let element = bytes("$1000\r\n") + [UInt8](repeating: 65, count: 1000) + bytes("\r\n")
        let reader = try #require(RedisReader(sizeLimit: 10_000))
        func read(_ part: [UInt8]) throws -> Int { try part.withUnsafeBytes { try reader.read($0).count } }
        // Small replies one after the other have no limit.
        for _ in 0..<100 { #expect(try read(element) == 1) }
        #expect(try read(bytes("*100\r\n")) == 0)
        for _ in 0..<9 { #expect(try read(element) == 0) }
        #expect(throws: FleetError.self) { try read(element) }
    }

    @Test func commandsAreArraysOfByteStrings() {
        let command = RedisCommand("SET", ["k\u{e4}", .data(Data([0, 13, 10])), "PX", .integer(250), .bytes([])])
        #expect(
            command.bytes
                == bytes("*6\r\n$3\r\nSET\r\n$3\r\nk\u{e4}\r\n$3\r\n\0\r\n\r\n$2\r\nPX\r\n$3\r\n250\r\n$0\r\n\r\n"))
    }
}
