import FoundationEssentials
import HTTPCore
import TestSupport
import Testing

@testable import LATInspect

/// The text of cassettes: what is written is read as the same.
struct CassetteTextTests {
    private func entry(_ body: RecordedBody, value: String = "x") -> CassetteEntry {
        CassetteEntry(
            request: .init(
                method: "POST", url: "https://example.org/a?b=c", headers: [.init(name: "X-Value", value: value)],
                body: body),
            response: .init(status: 200, reason: "OK", version: .http2, body: body, pieces: [1, 2]),
            failure: .init(kind: .timeout(.idle), message: value))
    }

    private func roundTrip(_ entries: [CassetteEntry]) throws -> [CassetteEntry] {
        let output = CassetteWriter.write(entries, recorded: "2026-11-23T00:00:00Z")
        var read = try CassetteReader { output.bodies[$0] }.entries(output.text)
        for index in read.indices { read[index].line = 0 }
        return read
    }

    private static let texts = [
        "", "x", "true", "null", "12", "1.5", "a: b", "a #b", "- a", " a", "a ", "a\nb", "a\nb\n", "a\n\n", "\na",
        "a\r\nb", "\t", "{}",
        "[1]", "\"", "\\", "'", "---", "...", "a\n---\n...\nb", "a\n   \nb", "a\n\n  b\n", "é€𝄞", "\u{7F}", "\u{85}",
        "\u{2028}",
        "\u{0}", "%", "@", "`", "key:", "? x", "| x", "> x", "&a", "*a", "!t", "#", "x: |", "\u{FEFF}x", "***", "~",
        "0x1F", "1e3", "No", "\u{301}", "\u{301}a", "a\n\u{301}b", "a: \u{301}", "a \u{301}\n", "\u{200D}",
        "-\u{301} a",
        "a:\u{301} b", "\"\u{301}", "a\n \u{301}\n",
    ]

    @Test(arguments: texts) func textRoundTrips(_ text: String) throws {
        let entries = [entry(RecordedBody(Data(text.utf8)), value: text), entry(.none, value: text)]
        #expect(try roundTrip(entries) == entries)
    }

    @Test func randomTextsRoundTrip() throws {
        var generator = SeededGenerator(seed: 7)
        let pieces = Self.texts + ["\n", "  ", "\n  ", ": ", "-", "a", "{{x}}"]
        for _ in 0..<2_000 {
            let text = (0..<Int.random(in: 0...6, using: &generator))
                .map { _ in pieces.randomElement(using: &generator) ?? "" }.joined()
            let one = entry(RecordedBody(Data(text.utf8)), value: text)
            #expect(try roundTrip([one, one]) == [one, one], "\(text.debugDescription)")
        }
    }

    @Test func fileWithCRLFIsReadAsWithLF() throws {
        let entries = [entry(RecordedBody(Data("a\n\n  b\n".utf8))), entry(.none)]
        let text = CassetteWriter.write(entries, recorded: "").text
        let windows = text.split(separator: "\n", omittingEmptySubsequences: false).joined(separator: "\r\n")
        #expect(try CassetteReader { _ in nil }.entries(windows) == CassetteReader { _ in nil }.entries(text))
    }

    @Test func binaryAndLargeBodiesRoundTrip() throws {
        let binary = Data((0..<200).map { UInt8($0) })
        let entries = [
            entry(.bytes(binary)), entry(.bytes(Data(repeating: 0xFF, count: 5_000))),
            entry(.bytes(Data(repeating: 0x61, count: 100_000))), entry(.omitted(byteCount: 1 << 40)),
        ]
        let output = CassetteWriter.write(entries, recorded: "")
        #expect(output.bodies.count == 2 && output.text.utf8.count < 6_000)
        #expect(try roundTrip(entries) == entries)
    }

    @Test func allKindsOfErrorsRoundTrip() throws {
        let kinds: [NetworkError.Kind] = [
            .invalidRequest, .dns, .connect, .tls(.expired), .timeout(.total), .cancelled, .business(code: "7"),
            .decoding(path: "a[1]"), .bodyTooLarge, .connectionLost, .protocolViolation, .addressBlocked(.loopback),
            .other,
        ]
        for kind in kinds { #expect(NetworkError.Kind(name: kind.description) == kind) }
        #expect(NetworkError.Kind(name: "timeout(never)") == nil && NetworkError.Kind(name: "nonsense") == nil)
    }

    /// Every place at which a file may be cut.
    @Test func cutFileIsRefused() throws {
        let text = CassetteWriter.write([entry(RecordedBody(Data("a\nb\n".utf8))), entry(.none)], recorded: "x").text
        for count in 0..<(text.utf8.count - 4) {
            let cut = String(decoding: text.utf8.prefix(count), as: UTF8.self)
            #expect(throws: YAMLProblem.self, "\(count)") { try CassetteReader { _ in nil }.entries(cut) }
        }
    }

    @Test(arguments: [
        ("version: 2\n...\n", "1: the cassette has version 2, and this package reads up to 1; update it"),
        ("...\n", "1: the line \"version: 1\" is missing"),
        ("version: 1\n---\nrequest:\n  method: GET\n...\n", "4: request has no \"url\""),
        (
            "version: 1\n---\nrequest:\n  method: GET\n  url: x\n...\n",
            "3: the entry has neither a response nor a failure"
        ),
        (
            "version: 1\n---\nrequest:\n  method: GET\n  url: x\nresponse:\n  status: fine\n...\n",
            "7: \"status\" is \"fine\"; expected a whole number from 0"
        ),
        (
            "version: 1\n---\nrequset:\n  a: b\n...\n",
            "4: unknown name \"requset\" in an entry; known are request, response, messages, failure"
        ),
        ("version: 1\n---\nrequest:\n  url: \"x\n...\n", "4: the closing quote is missing: \"x"),
        ("version: 1\n---\nrequest: x\n...\n", "3: request is a text; expected names with values"),
    ])
    func mistakeIsNamedWithItsLine(_ text: String, _ message: String) {
        let problem = #expect(throws: YAMLProblem.self) { try CassetteReader { _ in nil }.entries(text) }
        #expect(problem.map { "\($0.line): \($0.message)" } == message)
    }
}
