import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

/// `lat lines` as a process.
@Suite(.timeLimit(.minutes(1))) struct LinesProcessTests {
    private let server: MockServer

    init() throws { server = try MockServer() }

    private func enqueue(_ text: String, _ type: String = "application/x-ndjson") {
        server.enqueue(.data(Data(text.utf8), contentType: type))
    }

    @Test func valuesAreLinesAsTheyWereSent() async throws {
        enqueue("{\"b\": 1.50, \"a\": \"x, y\"}\n\n12345678901234567890\r\n[1,\t2]")
        let result = try await LatProcess.run(["lines", server.url()])
        #expect(result.exitCode == 0 && result.err == "", "\(result.err)")
        #expect(result.text == "{\"b\":1.50,\"a\":\"x, y\"}\n12345678901234567890\n[1,2]\n")
        #expect(server.requests[0].headers["Accept"]?.hasPrefix("application/x-ndjson") == true)
        enqueue("\u{1E}{\"a\":\n1}\n\u{1E}2\n", "application/json-seq")
        #expect(try await LatProcess.run(["lines", server.url()]).text == "{\"a\":1}\n2\n")
    }

    @Test func conditionsAndPartsChoose() async throws {
        let body = (1...4).map {
            "{\"n\":\($0),\"level\":\"\($0 % 2 == 0 ? "error" : "info")\",\"m\":\"line \($0)\"}\n"
        }
        for _ in 0..<3 { enqueue(body.joined()) }
        let errors = try await LatProcess.run(
            ["lines", server.url(), "--where", "$.level == error", "--where", "$.n > 2", "--show", "$.m"])
        #expect(errors.exitCode == 0 && errors.text == "line 4\n", "\(errors.err)")
        let first = try await LatProcess.run(["lines", server.url(), "-n", "1", "--where", "$.n > 1", "--show", "$.n"])
        #expect(first.exitCode == 0 && first.text == "2\n")
        let terminal = try LatProcess(["lines", server.url(), "-n", "1"], columns: 24)
        let shown = await terminal.result.text
        #expect(shown.contains("\u{1B}[") && shown.contains("…"), "\(shown)")
    }

    @Test func linesArriveAtOnce() async throws {
        server.fallback { _ in .chunked([Data("1\n2\n".utf8), Data("3".utf8)]).stalling(.afterBodyBytes(5)) }
        let process = try LatProcess(["lines", server.url()])
        await process.waitForOutput("2\n")
        process.send(signal: SIGINT)
        #expect(await process.result.exitCode == 130)
        #expect(try await LatProcess.run(["lines", server.url(), "--for", "1s"]).exitCode == 0)
    }

    @Test func badLineIsAnErrorOrCounted() async throws {
        for _ in 0..<2 { enqueue("1\nno JSON\n2\n") }
        let bad = try await LatProcess.run(["lines", server.url()])
        #expect(bad.exitCode == 1 && bad.text == "1\n" && bad.err.contains("line 2 is not JSON"), "\(bad.err)")
        let skipped = try await LatProcess.run(["lines", server.url(), "--skip-bad"])
        #expect(
            skipped.exitCode == 0 && skipped.text == "1\n2\n"
                && skipped.err == "lat: left out 1 line that is not JSON\n")
        enqueue("1\n{\"a\":")
        let cut = try await LatProcess.run(["lines", server.url()])
        #expect(cut.exitCode == 3 && cut.text == "1\n" && cut.err.contains("ends in the middle"), "\(cut.err)")
        server.enqueue(.json("{}", status: 404))
        #expect(try await LatProcess.run(["lines", server.url()]).exitCode == 1)
    }

    @Test func inputIsSentAsItComes() async throws {
        server.fallback { request in .data(request.body, contentType: request.headers["Content-Type"] ?? "") }
        let input = "{\"b\": 1.50, \"a\": 2}\n\n[true]"
        let lines = try await LatProcess.run(["lines", server.url(), "@-"], input: input)
        #expect(lines.exitCode == 0 && lines.text == "{\"b\":1.50,\"a\":2}\n[true]\n", "\(lines.err)")
        let request = try #require(server.requests.first)
        #expect(request.method == "POST" && request.headers["Content-Type"] == "application/x-ndjson")
        #expect(request.text == "{\"b\": 1.50, \"a\": 2}\n[true]\n" && request.headers["Content-Length"] == nil)
        let sequence = try await LatProcess.run(["lines", "PUT", server.url(), "@-", "--sequence"], input: "1\n2\n")
        #expect(sequence.exitCode == 0 && sequence.text == "1\n2\n")
        #expect(server.requests[1].text == "\u{1E}1\n\u{1E}2\n" && server.requests[1].method == "PUT")
        let bad = try await LatProcess.run(["lines", server.url(), "@-"], input: "1\n{\n")
        #expect(bad.exitCode == 2 && bad.err.contains("line 2 of standard input is not JSON"), "\(bad.err)")
    }

    @Test func badLinesOfTheInputAreLeftOutAndCounted() async throws {
        server.fallback { request in .data(request.body, contentType: request.headers["Content-Type"] ?? "") }
        let folder = try TemporaryDirectory()
        let result = try await Shell.run(
            "/bin/sh",
            "printf '1\\nxx\\n\\n\"a\\377\"\\n\"\\357\\277\\275\"\\n' | lat lines \(server.url()) @- --skip-bad",
            in: folder)
        #expect(result.exitCode == 0 && result.text == "1\n\"\u{FFFD}\"\n", "\(result.err)")
        #expect(result.err == "lat: left out 2 lines of standard input that are not JSON\n")
        #expect(server.requests.first?.text == "1\n\"\u{FFFD}\"\n")
        let bad = try await Shell.run(
            "/bin/sh", "printf '1\\n\"a\\377\"\\n' | lat lines \(server.url()) @-", in: folder)
        #expect(bad.exitCode == 2 && bad.err.contains("line 2 of standard input is not UTF-8"), "\(bad.err)")
    }

    @Test(arguments: [
        (["--where", "status == 200"], "begin with $"), (["--where", "$.a ="], "is no comparison"),
        (["--show", "$.a b"], "after the end"), (["--sequence"], "add @-"), (["--count", "0"], "--count"),
    ]) func mistakeIsOneSentence(_ options: [String], _ words: String) async throws {
        let result = try await LatProcess.run(["lines", server.url()] + options)
        #expect(result.exitCode == 2 && result.err.contains(words) && server.requests.isEmpty, "\(result.err)")
    }
}
