import FoundationEssentials
import LATRealtime
import LATTesting
import TestSupport
import Testing

/// `scripts/lib/websocket_peer.py`: a server of `websockets` or `aiohttp` that echoes messages.
final class WebSocketPeer: Sendable {
    let port: Int
    private let process: ChildProcess

    private static let root: URL = {
        var root = URL(filePath: #filePath)
        for _ in 0..<4 { root.deleteLastPathComponent() }
        return root
    }()
    private static let python = root.appending(path: ".venv/bin/python").path
    static let isThere: Bool = {
        let modules = "import websockets, aiohttp"
        return (try? ChildProcess.run("env", [python, "-c", modules], in: "/")) != nil
    }()

    /// - Parameters:
    ///   - library: `websockets` or `aiohttp`.
    ///   - settings: JSON; the script describes it.
    ///   - certificate: a file with certificate and key, for TLS.
    init(_ library: String, _ settings: String = "{}", certificate: String? = nil) async throws {
        let script = Self.root.appending(path: "scripts/lib/websocket_peer.py").path
        process = try ChildProcess(
            "env",
            ["PYTHONDONTWRITEBYTECODE=1", Self.python, script, library, settings] + (certificate.map { [$0] } ?? []))
        port = try await process.awaitOutput("a port") { output in
            output.split(whereSeparator: \.isNewline).first { $0.hasPrefix("port ") }
                .flatMap { Int($0.dropFirst(5)) }
        }
    }

    /// Random sequences of frames, and what `websockets` reads in them: `scripts/lib/websocket_frames.py`.
    static func frames(count: Int, seed: UInt32) throws -> String {
        let script = root.appending(path: "scripts/lib/websocket_frames.py").path
        return try ChildProcess.run("env", [python, script, "\(count)", "\(seed)"], in: "/")
    }

    func url(_ scheme: String = "ws", _ path: String = "/") -> String { "\(scheme)://127.0.0.1:\(port)\(path)" }

    /// Ends the server without a word to its clients.
    func kill() { process.killAndWait() }
}

extension WebSocket {
    /// Sends messages of many sizes, and expects each back.
    func exchange(sizes: [Int] = [0, 1, 125, 126, 1_023, 1_024, 4_096, 65_535, 65_536, 300_000]) async throws {
        var incoming = messages.makeAsyncIterator()
        for size in sizes {
            let text = String((0..<size).map { Character(Unicode.Scalar(UInt8(0x61 + ($0 * $0 / 7) % 26))) })
            try await send(text)
            let data = Data((0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 3) })
            try await send(data)
            #expect(try await incoming.next() == .text(text), "\(size)")
            #expect(try await incoming.next() == .data(data), "\(size)")
        }
    }
}
