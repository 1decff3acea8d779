import FoundationEssentials
import LATRealtime
import LATTesting
import TestSupport
import Testing

/// Autobahn's sections 12 and 13: `websockets` sends 18 sizes of messages with each set of contents and parameters, the
/// client echoes them, and the server compares. `LAT_AUTOBAHN_MESSAGES` is the number of messages of a case, 1,000 in
/// Autobahn; fewer without it.
@Suite(
    .enabled(if: WebSocketPeer.isThere, "needs websockets and aiohttp in .venv; scripts/setup --tests has both"),
    .timeLimit(.minutes(60)))
struct AutobahnCompressionTests {
    private static let messages = ProcessInfo.processInfo.environment["LAT_AUTOBAHN_MESSAGES"].flatMap { Int($0) }

    /// A set of 18 cases.
    struct CaseSet: Sendable, CustomTestStringConvertible {
        let id: String
        /// The name of a set of contents in `scripts/lib/websocket_cases.py`.
        let content: String
        /// What the server asks of the client, in JSON.
        let parameters: String
        /// What both have agreed on then, besides `permessage-deflate`.
        let agreed: String

        init(_ id: String, _ content: String = "json", _ parameters: String = "{}", agreed: String = "") {
            (self.id, self.content, self.parameters, self.agreed) = (id, content, parameters, agreed)
        }

        var testDescription: String { id }
    }

    static let sets = [
        CaseSet("12.1"), CaseSet("12.2", "picture"), CaseSet("12.3", "prose"), CaseSet("12.4", "html"),
        CaseSet("12.5", "document"),
        CaseSet("13.1"),
        CaseSet("13.2", "json", #"{"client_no_context_takeover": true}"#, agreed: "; client_no_context_takeover"),
        CaseSet("13.3", "json", #"{"client_max_window_bits": 9}"#, agreed: "; client_max_window_bits=9"),
        CaseSet("13.4", "json", #"{"client_max_window_bits": 15}"#, agreed: "; client_max_window_bits=15"),
        CaseSet(
            "13.5", "json", #"{"client_no_context_takeover": true, "client_max_window_bits": 9}"#,
            agreed: "; client_no_context_takeover; client_max_window_bits=9"),
        CaseSet(
            "13.6", "json", #"{"client_no_context_takeover": true, "client_max_window_bits": 15}"#,
            agreed: "; client_no_context_takeover; client_max_window_bits=15"),
        CaseSet(
            "13.7", "json",
            #"""
            {"client_no_context_takeover": true, "client_max_window_bits": 9}, {"client_no_context_takeover": true}, {}
            """#,
            agreed: "; client_no_context_takeover; client_max_window_bits=9"),
    ]

    /// The size of each message, and that of its fragments; 0 for none.
    private static let sizes = [
        (16, 0), (64, 0), (256, 0), (1_024, 0), (4_096, 0), (8_192, 0), (16_384, 0), (32_768, 0), (65_536, 0),
        (131_072, 0),
        (8_192, 256), (16_384, 256), (32_768, 256), (65_536, 256), (131_072, 256), (131_072, 1_024), (131_072, 4_096),
        (131_072, 32_768),
    ]

    @Test(arguments: sets) func clientEchoes(_ set: CaseSet) async throws {
        let manager = try CentralRequestManager.make()
        let peer = try await WebSocketPeer("websockets", "{\"deflate\": [\(set.parameters)]}")
        for (number, (size, fragment)) in Self.sizes.enumerated() {
            let name: Comment = "\(set.id).\(number + 1)"
            let count = Self.messages ?? max(3, min(20, 65_536 / size))
            let socket = try await manager.webSocket(
                peer.url("ws", "/case/\(set.content)/\(size)/\(fragment)/\(count)"))
            do {
                for try await message in socket.messages {
                    switch message {
                    case .text(let text): try await socket.send(text)
                    case .data(let data): try await socket.send(data)
                    }
                }
            } catch {
                Issue.record(error, name)
            }
            let reason = "\(count) equal, permessage-deflate\(set.agreed)"
            #expect(socket.closing == .init(code: 1000, reason: reason, isByServer: true, isClean: true), name)
        }
    }
}
