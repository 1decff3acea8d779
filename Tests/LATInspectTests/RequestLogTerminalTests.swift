import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// A log on a terminal, and a server that writes to it.
@Suite struct RequestLogTerminalTests {
    @Test func bodyHasNoControlCharactersInALog() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("one\n\ttwo\u{1B}]0;title\u{7}\u{9B}2J") }
        let entries = Log<String>()
        let manager = try CentralRequestManager.make { $0.accessories = [RequestLog(.full) { entries.append($0) }] }
        _ = try await manager.startRequest("POST", server.url("/x"), body: .text("sent\u{1B}[2J"))
        let text = entries.elements.joined()
        #expect(text.contains("\none\n\ttwo\\u{1B}]0;title") && text.contains("\nsent\\u{1B}[2J"), "\(text)")
        #expect(!text.unicodeScalars.contains { $0.controlsTerminal && $0 != "\n" && $0 != "\t" })
    }
}
