import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import lat

@Suite struct WebSocketProcessTests {
    @Test func messagesAreLinesWithTime() async throws {
        let server = try MockServer()
        server.enqueue(
            .webSocket(.text("plain\nlines"), .text(#"{"b": [1,2]}"#), .data(Data([0, 1, 255])), .close(1000)))
        let result = try await LatProcess.run(["ws", "ws://127.0.0.1:\(server.port)/chat", "X-Own:1", "q==2"])
        #expect(result.exitCode == 0)
        let lines = result.text.split(separator: "\n").map(String.init)
        #expect(lines.count == 3)
        #expect(lines[0].hasSuffix("  plain\\nlines"))
        #expect(lines[1].hasSuffix(#"  { "b": [ 1, 2 ] }"#))
        #expect(lines[2].hasSuffix("  00 01 ff"))
        let request = try #require(server.requests.first)
        #expect(request.target == "/chat?q=2" && request.headers["X-Own"] == "1")
    }

    @Test func jsonIsOneObjectForEachMessage() async throws {
        let server = try MockServer()
        server.enqueue(.webSocket(.text("text"), .text(#"{"n": 1}"#), .data(Data([1, 2]))))
        let result = try await LatProcess.run(["ws", server.url(), "--format", "json"])
        let messages = try result.text.split(separator: "\n").map { try JSONValue(parsing: String($0)) }
        #expect(messages.count == 3)
        #expect(messages[0]["text"].string == "text" && messages[1]["json"]["n"].int == 1)
        #expect(messages[2]["data"].string == "AQI=")
    }

    @Test func textsOfOptionsAndInputAreSent() async throws {
        let server = try MockServer()
        server.fallback { _ in .webSocket { [.text("re: " + $0.text)] } }
        let sent = try await LatProcess.run(["ws", server.url(), "--send", "a", "-s", "b", "--count", "2"])
        #expect(sent.exitCode == 0)
        #expect(sent.text.split(separator: "\n").map { $0.dropFirst(14) } == ["re: a", "re: b"])
        let piped = try await LatProcess.run(["ws", server.url(), "-"], input: "one\ntwo\n")
        #expect(piped.exitCode == 0)
        #expect(piped.text.split(separator: "\n").map { $0.dropFirst(14) } == ["re: one", "re: two"])
        try await server.waitUntilDisconnected()
        #expect(server.socketMessages.filter { $0.kind == .close(code: 1000) }.count == 2)
    }

    @Test(arguments: [(1000, 0), (1001, 0), (1011, 1), (4001, 1)])
    func closeCodeOfAFailureIsTold(code: UInt16, exitCode: Int32) async throws {
        let server = try MockServer()
        server.enqueue(.webSocket(.text("a"), .close(Int(code), "why")))
        let result = try await LatProcess.run(["ws", server.url()])
        #expect(result.exitCode == exitCode)
        #expect(result.err == (exitCode == 0 ? "" : "the server closed the socket with \(code) (why)\n"))
    }

    /// The server closes while or after the input ends.
    @Test(arguments: ["one\n", "one\ntwo\nthree\n"]) func closeCodeAfterTheInputIsTold(_ input: String) async throws {
        let server = try MockServer()
        server.enqueue(.webSocket { _ in [.close(1009, "too big")] })
        let result = try await LatProcess.run(["ws", server.url(), "-"], input: input)
        #expect(
            result.exitCode == 1 && result.err == "the server closed the socket with 1009 (too big)\n", "\(result.err)")
    }

    @Test func serverThatClosesDuringTheInputIsToldOf() async throws {
        let server = try MockServer()
        server.enqueue(.webSocket(.receive(1), .close(1000)))
        let result = try await Shell.run(
            "/bin/sh",
            "(echo one; until test -e go; do sleep 0.05; done) | { lat ws \(server.url()) -; echo $?; touch go; }",
            in: try TemporaryDirectory())
        #expect(result.text == "0\n" && result.err == "the server closed the socket with 1000\n", "\(result.err)")
    }

    @Test func inputThatMayBeUnreadIsAFailure() async throws {
        let server = try MockServer()
        server.enqueue(.webSocket { _ in [.cut] })
        let result = try await LatProcess.run(["ws", server.url(), "-"], input: "one\n")
        #expect(result.exitCode == 3 && result.err.contains("close frame"), "\(result.err)")
    }

    @Test func linesThatTheServerDidNotWaitForAreToldOf() async throws {
        let server = try MockServer()
        server.enqueue(.webSocket(.receive(1), .text("a"), .close(1000)))
        let folder = try TemporaryDirectory()
        let result = try await Shell.run(
            "/bin/sh", "yes 'a line of thirty-two characters' | head -c 20000000 | lat ws \(server.url()) -", in: folder
        )
        #expect(result.text.hasSuffix("  a\n"), "\(result.text)")
        #expect(result.exitCode == 3 && result.err.contains("of standard input was not sent"), "\(result.err)")
    }

    @Test func linesOnALostConnectionAreToldOf() async throws {
        let server = try MockServer()
        server.enqueue(.webSocket(.receive(1), .cut), .webSocket { [.text($0.text)] })
        let folder = try TemporaryDirectory()
        let script =
            "(echo one; until test -e go; do sleep 0.05; done; echo two) | lat ws \(server.url()) - --reconnect"
        async let run = Shell.run("/bin/sh", script, in: folder)
        try await eventually("the second connection") { server.requestCount == 2 }
        _ = try folder.write(Data(), to: "go")
        let result = try await run
        #expect(result.exitCode == 0 && result.text.hasSuffix("  two\n"), "\(result.err)")
        #expect(result.err == "lat: warning: the connection was lost; lines that were sent may not have arrived\n")
    }

    @Test func timeLimitsTheOpeningToo() async throws {
        let server = try MockServer()
        server.enqueue(.webSocket().stalling(.start))
        #expect(try await LatProcess.run(["ws", server.url(), "--for", "1s"]).exitCode == 0)
        let closed = try ClosedPort()
        #expect(try await LatProcess.run(["ws", closed.url(), "--reconnect", "--for", "1s"]).exitCode == 0)
    }

    @Test func lineThatIsNotUTF8IsNotSent() async throws {
        let server = try MockServer()
        server.enqueue(.webSocket { [.text($0.text)] })
        let folder = try TemporaryDirectory()
        let result = try await Shell.run(
            "/bin/sh", "printf 'good \\357\\277\\275\\r\\na\\377b\\nlast' | lat ws \(server.url()) -", in: folder)
        #expect(result.exitCode == 2 && result.err.contains("line 2 of standard input is not UTF-8"), "\(result.err)")
        #expect(server.socketMessages.filter { $0.kind == .text }.map(\.text) == ["good \u{FFFD}"])
    }

    @Test func verboseShowsTheHeadOfTheResponse() async throws {
        let server = try MockServer()
        server.enqueue(
            .webSocket(.close()), .events(.event("x")),
            .data(Data("1\n".utf8), contentType: "application/x-ndjson"))
        for (command, head) in [
            ("ws", "< HTTP/1.1 101 "), ("events", "< HTTP/1.1 200 OK\n"), ("lines", "< HTTP/1.1 200 OK\n"),
        ] {
            let result = try await LatProcess.run([command, server.url("/x"), "-v"])
            #expect(result.exitCode == 0 && result.err.contains("\n\(head)"), "\(result.err)")
            #expect(result.err.contains("first byte ") && result.err.contains("reused "), "\(result.err)")
        }
    }

    @Test func plainAnswerIsNoWebSocket() async throws {
        let server = try MockServer()
        server.enqueue(MockReply(body: .bytes(Data("hello".utf8))))
        let result = try await LatProcess.run(["ws", server.url()])
        #expect(result.exitCode == 1)
        #expect(result.err.contains("a WebSocket begins with 101, so this is no address of a WebSocket"))
    }

    @Test func countTimeAndInterruptEndTheCommand() async throws {
        let server = try MockServer()
        server.fallback { _ in .webSocket(.text("a"), .text("b"), .text("c"), .receive(.max)) }
        let counted = try await LatProcess.run(["ws", server.url(), "-n", "2"])
        #expect(counted.exitCode == 0 && counted.text.split(separator: "\n").count == 2)
        let timed = try await LatProcess.run(["ws", server.url(), "--for", "2s"])
        #expect(timed.exitCode == 0 && timed.text.split(separator: "\n").count == 3)
        let process = try LatProcess(["ws", server.url()])
        await process.waitForOutput("c\n")
        process.send(signal: SIGINT)
        #expect(await process.result.exitCode == 130)
    }

    @Test func failuresHaveTheirExitCodes() async throws {
        let server = try MockServer()
        server.enqueue(.status(403), .text("page"), .webSocket().header("Sec-WebSocket-Accept", "no"), .webSocket(.cut))
        #expect(try await LatProcess.run(["ws", server.url()]).exitCode == 1)
        #expect(try await LatProcess.run(["ws", server.url()]).exitCode == 1)
        let wrong = try await LatProcess.run(["ws", server.url()])
        #expect(wrong.exitCode == 3 && wrong.err.contains("Sec-WebSocket-Accept"))
        #expect(try await LatProcess.run(["ws", server.url()]).exitCode == 3)
        let post = try await LatProcess.run(["ws", "POST", server.url()])
        #expect(post.exitCode == 2 && post.err.contains("--send"))
    }

    @Test func lostSocketIsOpenedAgainWhenAsked() async throws {
        let server = try MockServer()
        server.enqueue(.webSocket(.text("a"), .cut), .webSocket(.text("b"), .close(1000)))
        let result = try await LatProcess.run(["ws", server.url(), "--reconnect"])
        #expect(result.exitCode == 0)
        #expect(result.text.split(separator: "\n").map { $0.dropFirst(14) } == ["a", "b"])
    }

    @Test func terminalHasAPrompt() async throws {
        let server = try MockServer()
        server.enqueue(.webSocket { [.text("re: " + $0.text)] })
        let process = try LatProcess(["ws", server.url()], columns: 80, isTyped: true)
        await process.waitForOutput("connected")
        process.type("hello\n")
        await process.waitForOutput("re: hello")
        process.type("/ping\n")
        await process.waitForOutput("pong after")
        process.type("/close 4005 done\n")
        let result = await process.result
        #expect(result.exitCode == 0)
        #expect(server.socketMessages.map(\.kind) == [.text, .ping, .close(code: 4005)])
        #expect(server.socketMessages.last?.text == "done")
    }

    @Test func terminalGoesOnBetweenTwoConnections() async throws {
        let server = try MockServer()
        server.enqueue(.webSocket(.text("a"), .cut), .webSocket().stalling(.start))
        let process = try LatProcess(["ws", server.url(), "--reconnect"], columns: 80, isTyped: true)
        try await eventually("the second connection") { server.requestCount == 2 }
        process.type("/ping\n")
        await process.waitForOutput("has no connection")
        process.type("/close\n")
        #expect(await process.result.exitCode == 0)
    }

    @Test func terminalIsRestoredWhenTheProcessIsEnded() async throws {
        let folder = try TemporaryDirectory()
        let server = try MockServer()
        server.enqueue(.webSocket { _ in [] })
        // The shell outlives lat, and notes how it left the terminal.
        let process = try LatProcess(
            ["ws", server.url()], columns: 80, isTyped: true, in: folder.path,
            launcher: ["/bin/sh", "-c", "trap : INT; \"$@\"; stty -a > settings", "sh"])
        await process.waitForOutput("connected")
        // Ctrl-S stops the output: lat waits for the terminal, and cannot end by itself.
        process.type("\u{13}x\n")
        try await server.waitForSocketMessages(1)
        process.send(signal: SIGINT, toGroup: true)
        _ = await process.result
        let settings = String(decoding: folder.read("settings") ?? Data(), as: UTF8.self)
        #expect(settings.contains(" echo ") && settings.contains(" icanon "), "\(settings)")
    }

    @Test func terminalTellsWhoClosed() async throws {
        let server = try MockServer()
        server.enqueue(.webSocket(.receive(1), .close(4000, "enough")))
        let process = try LatProcess(["ws", server.url()], columns: 80, isTyped: true)
        await process.waitForOutput("connected")
        process.type("hello\n")
        let result = await process.result
        #expect(result.exitCode == 1)
        #expect(result.text.contains("the server closed the socket with 4000 (enough)"))
    }

    @Test func longLinesAreCutAtTheLastColumn() {
        let plain = Style.plain
        let sent = MessageLine(message: .text("a"), date: Date(timeIntervalSince1970: 0), isSent: true)
        #expect(sent.line(plain).hasSuffix("> a"))
        #expect(LiveText.content("abcdef", plain, room: 6) == "abcdef")
        #expect(LiveText.content("abcdefg", plain, room: 6) == "abcde…")
        // Wide characters take two columns.
        #expect(LiveText.content("日本語", plain, room: 6) == "日本語")
        #expect(LiveText.content("日本語a", plain, room: 6) == "日本…")
        #expect(LiveText.content("e\u{301}😀😀😀", plain, room: 6) == "e\u{301}😀😀…")
        #expect("日本語abc".suffix(columns: 6) == "語abc" && "ab".suffix(columns: 6) == "ab")
        // The colours of JSON take no columns, and end where the text is cut.
        let cut = LiveText.content(
            #"{"name": "value"}"#, Style(isColoured: true, isUnicode: true), room: 10)
        #expect(cut.hasSuffix("\u{1B}[0m…"))
        #expect(cut.replacing(#/\u{1B}\[[0-9;]*m/#, with: "") == #"{ "name":…"#)
    }

    @Test func inputIsNotReadFarAheadOfItsUse() async {
        let read = Mutex(0)
        let lines = LineInput.lines {
            read.withLock { count in
                count += 1
                return count <= 1_000 ? Array("\(count)".utf8) : nil
            }
        }
        var (used, ahead) = (0, 0)
        for await line in lines {
            used += 1
            #expect(line.number == used && line.bytes == Array("\(used)".utf8))
            ahead = max(ahead, read.withLock(\.self) - used)
        }
        #expect(used == 1_000 && ahead <= LineInput.ahead)
    }

    @Test func typedBytesBecomeLines() {
        var editor = LineEditor()
        func type(_ text: String) -> [LineEditor.Event] { text.utf8.compactMap { editor.type($0) } }
        #expect(type("hällo\n") == [.line("hällo")])
        #expect(type("abé\u{7F}\u{7F}c\u{1B}[A\u{1B}OBd\n") == [.line("acd")])
        #expect(type("wrong\u{15}right\r") == [.line("right")])
        #expect(type("x\u{04}").isEmpty)
        #expect(editor.line == "x")
        #expect(type("\u{7F}\u{04}") == [.end])
    }
}
