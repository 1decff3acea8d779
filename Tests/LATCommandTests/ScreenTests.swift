import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import lat

/// Long and short responses on a terminal of 24 rows.
@Suite(.timeLimit(.minutes(1))) struct ScreenTests {
    private let server: MockServer

    init() throws { server = try MockServer() }

    private func lat(_ arguments: String..., environment: [String: String] = [:], columns: UInt16 = 80) async throws
        -> String
    {
        try await LatProcess.run([server.url("/")] + arguments, environment: environment, columns: columns).text
    }

    private static let long = (1...60).map { "line \($0)\n" }.joined()
    private static let marking = ["PAGER": "sed s/^/P:/"]

    @Test func longTextIsPaged() async throws {
        server.enqueue(.text(Self.long), .text(Self.long), .text("short\n"))
        let paged = try await lat(environment: Self.marking)
        #expect(paged.hasPrefix("P:line 1\r\n") && paged.hasSuffix("P:line 60\r\n"))
        #expect(try await lat("--no-pager", environment: Self.marking).hasPrefix("line 1\r\n"))
        #expect(try await lat(environment: Self.marking) == "short\r\n")
    }

    @Test func headAndJSONArePagedTogether() async throws {
        let document = "[\(Array(repeating: "1", count: 60).joined(separator: ","))]"
        server.enqueue(.json(document))
        let paged = try await lat("-i", environment: Self.marking.merging(["NO_COLOR": "1"]) { $1 })
        #expect(paged.hasPrefix("P:HTTP/1.1 200 OK\r\n") && paged.hasSuffix("P:  1\r\nP:]\r\n"), "\(paged)")
    }

    @Test(arguments: ["", "cat", "/no/such/pager", "nosuchpager -R"]) func missingPagerIsNoError(pager: String)
        async throws
    {
        server.enqueue(.text(Self.long))
        #expect(try await lat(environment: ["PAGER": pager]) == Self.long.replacing("\n", with: "\r\n"))
    }

    @Test func readerMayLeaveEarly() async throws {
        server.enqueue(.text(String(repeating: Self.long, count: 4_000)))
        let left = try await LatProcess.run([server.url("/")], environment: ["PAGER": "head -n 2"], columns: 80)
        #expect(left.exitCode == 0 && left.text == "line 1\r\nline 2\r\n", "\(left.text.prefix(200))")
    }

    @Test func slowTextIsShownAsItComes() async throws {
        server.enqueue(
            .text("data: 1\n\n" + Self.long).header("Content-Type", "text/event-stream").stalling(.afterBodyBytes(9)))
        let process = try LatProcess([server.url("/")], environment: Self.marking, columns: 80)
        await process.waitForOutput("data: 1")
        process.send(signal: 2)
        #expect(await process.result.exitCode == 130)
    }

    @Test func rowsAreThoseOfTheTerminal() {
        func isLonger(_ text: String, _ limit: Int, columns: Int = 10) -> Bool {
            var rows = RowCount(columns: columns, limit: limit)
            return rows.add(Data(text.utf8))
        }
        #expect(isLonger("a\nb\nc\n", 2) && !isLonger("a\nb\n", 2))
        #expect(isLonger(String(repeating: "x", count: 31), 2) && !isLonger(String(repeating: "ü", count: 30), 2))
        #expect(isLonger(String(repeating: "漢😀", count: 8), 2) && !isLonger(String(repeating: "漢😀", count: 7), 2))
        #expect(!isLonger(String(repeating: "\u{1B}[1;34mx\u{1B}[0m", count: 30), 2))
    }
}
