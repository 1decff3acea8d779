import FoundationEssentials
import LATRealtime
import LATTesting
import TestSupport
import Testing

/// `scripts/lib/websocket_peer.py`: a server of `websockets` or `aiohttp` that echoes messages.
final class WebSocketPeer: Sendable {
    private let script: PythonScript

    var port: Int { script.port }

    static let isThere: Bool = {
        guard let python = PythonScript.python else { return false }
        return (try? ChildProcess.run("env", [python, "-c", "import websockets, aiohttp"], in: "/")) != nil
    }()

    /// - Parameters:
    ///   - library: `websockets` or `aiohttp`.
    ///   - settings: JSON; the script describes it.
    ///   - certificate: a file with certificate and key, for TLS.
    init(_ library: String, _ settings: String = "{}", certificate: String? = nil) async throws {
        script = try await PythonScript(
            "websocket_peer.py", [library, settings] + (certificate.map { [$0] } ?? []))
    }

    /// Random sequences of frames, and what `websockets` reads in them: `scripts/lib/websocket_frames.py`.
    static func frames(count: Int, seed: UInt32) throws -> String {
        try PythonScript.run("websocket_frames.py", ["\(count)", "\(seed)"])
    }

    func url(_ scheme: String = "ws", _ path: String = "/") -> String { "\(scheme)://127.0.0.1:\(port)\(path)" }

    /// Kills the server, which then sends no close frame.
    func kill() { script.process.killAndWait() }
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
