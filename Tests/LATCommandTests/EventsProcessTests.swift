import FoundationEssentials
import Glibc
import LATNetworking
import LATRealtime
import LATTesting
import TestSupport
import Testing

@testable import lat

@Suite struct EventsProcessTests {
    @Test func eventsAreLinesWithTimeTypeIDAndData() async throws {
        let server = try MockServer()
        server.enqueue(
            .events(
                .event("plain\nlines"), .comment(), .event(#"{"b": [1,2], "a": "x"}"#, type: "tick", id: "7")))
        let result = try await LatProcess.run(["events", server.url()])
        #expect(result.exitCode == 0)
        let lines = result.text.split(separator: "\n").map(String.init)
        #expect(lines.count == 2)
        #expect(lines[0].hasSuffix("  message   plain\\nlines"))
        #expect(lines[1].hasSuffix(#"  tick      #7  { "b": [ 1, 2 ], "a": "x" }"#))
        #expect(lines[0].prefix(12).filter { $0 == ":" }.count == 2)
        #expect(server.requests[0].headers["Accept"] == "text/event-stream")
    }

    @Test func jsonIsOneObjectForEachEvent() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("text"), .event(#"{"n": 1}"#, type: "tick", id: "7")))
        let result = try await LatProcess.run(["events", server.url(), "--format", "json"])
        let events = try result.text.split(separator: "\n").map { try JSONValue(parsing: String($0)) }
        #expect(events.count == 2)
        #expect(events[0]["data"].string == "text" && events[0]["id"] == .null && events[0]["json"] == nil)
        #expect(events[1]["type"].string == "tick" && events[1]["id"].string == "7")
        #expect(events[1]["json"]["n"].int == 1)
        #expect(events[1]["time"].string?.hasSuffix("Z") == true)
    }

    @Test func streamWithoutItsEndMarkerFails() async throws {
        let server = try MockServer()
        server.enqueue(.events(.event("a")), .events(.event("a"), .event("[DONE]")))
        let cut = try await LatProcess.run(["events", server.url(), "--ends-at", "[DONE]"])
        #expect(cut.exitCode == 3 && cut.text.hasSuffix("  a\n"))
        #expect(cut.err.contains("[DONE]") && cut.err.contains("change --ends-at"), "\(cut.err)")
        #expect(try await LatProcess.run(["events", server.url(), "--ends-at", "[DONE]"]).exitCode == 0)
    }

    @Test func countAndTimeEndTheCommand() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("a"), .event("b"), .event("c"), .stall) }
        let counted = try await LatProcess.run(["events", server.url(), "-n", "2"])
        #expect(counted.exitCode == 0)
        #expect(counted.text.split(separator: "\n").count == 2)
        let timed = try await LatProcess.run(["events", server.url(), "--for", "2s"])
        #expect(timed.exitCode == 0)
        #expect(timed.text.split(separator: "\n").count == 3)
        let process = try LatProcess(["events", server.url()])
        await process.waitForOutput("c\n")
        process.send(signal: SIGINT)
        #expect(await process.result.exitCode == 130)
    }

    @Test func filesAreUploadedWithTheFields() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("a")) }
        let directory = try TemporaryDirectory()
        _ = try directory.write(Data("picture".utf8), to: "a.png")
        let result = try await LatProcess.run(
            ["events", server.url(), "img@a.png", "prompt=Hello"], in: directory.path)
        #expect(result.exitCode == 0 && result.text.hasSuffix("message   a\n"), "\(result.err)")
        let request = try #require(server.requests.first)
        #expect(request.method == "POST" && request.headers["Content-Type"]?.hasPrefix("multipart/form-data") == true)
        let body = String(decoding: request.body, as: UTF8.self)
        #expect(body.contains("picture") && body.contains("name=\"prompt\"") && body.contains("Hello"))
    }

    @Test func bodyMakesItAPost() async throws {
        let server = try MockServer()
        server.fallback { _ in .events(.event("a", type: "x"), .event("b"), .event("[DONE]"), .stall) }
        let result = try await LatProcess.run([
            "events", server.url(), "--data", "hello", "--ends-at", "[DONE]", "--type", "message", "--last-event-id",
            "3",
            "-H", "X-Own: 1",
        ])
        #expect(result.exitCode == 0)
        #expect(result.text.split(separator: "\n").count == 1)
        let request = try #require(server.requests.first)
        #expect(request.method == "POST" && request.text == "hello")
        #expect(request.headers["Last-Event-ID"] == "3" && request.headers["X-Own"] == "1")
    }

    @Test func lostStreamIsOpenedAgainWhenAsked() async throws {
        let server = try MockServer()
        server.enqueue(
            .events(.retry(milliseconds: 1), .event("a", id: "1"), .cut), .status(503), .events(.event("b")),
            .status(204))
        let result = try await LatProcess.run(["events", server.url(), "--reconnect"])
        #expect(result.exitCode == 0)
        #expect(result.text.split(separator: "\n").count == 2)
        server.enqueue(.events(.event("a"), .cut))
        let once = try await LatProcess.run(["events", server.url()])
        #expect(once.exitCode == 3)
        #expect(once.err.contains("lat: transfer closed"))
    }

    @Test func exitCodesTellWhatWentWrong() async throws {
        let server = try MockServer()
        server.enqueue(.status(404), .text("no stream"))
        #expect(try await LatProcess.run(["events", server.url()]).exitCode == 1)
        let text = try await LatProcess.run(["events", server.url()])
        #expect(text.exitCode == 3)
        #expect(text.err.contains("not with text/event-stream"))
        server.enqueue(.events(.event(String(repeating: "x", count: 2 << 20))))
        let large = try await LatProcess.run(["events", server.url()])
        #expect(large.exitCode == 3 && large.err.contains("larger than") && !large.err.contains("eventLimit"))
        #expect(try await LatProcess.run(["events", try ClosedPort().url()]).exitCode == 3)
        for (arguments, part) in [
            (["events"], "URL is missing"), (["events", server.url(), "--count", "0"], "--count"),
            (["events", server.url(), "--for", "soon"], "--for"),
            (["events", server.url(), "--last-event-id", "a\nb"], "--last-event-id has a control character"),
        ] {
            let result = try await LatProcess.run(arguments)
            #expect(result.exitCode == 2, "\(arguments)")
            #expect(result.err.contains(part), "\(result.err)")
        }
    }

    @Test func longLineIsCutToTheTerminal() {
        let event = ServerSentEvent(type: "tick", data: #"{"text": "\#(String(repeating: "x", count: 200))"}"#, id: "1")
        let line = EventLine(event: event, date: Date()).line(.plain, columns: 79)
        #expect(line.count == 79)
        #expect(line.hasSuffix("…"))
        #expect(EventLine(event: event, date: Date()).line(.plain).count > 200)
        let colour = Style(isColoured: true, isUnicode: true)
        let short = ServerSentEvent(data: #"{"a": 1}"#)
        #expect(EventLine(event: short, date: Date()).line(colour, columns: 79).contains("\u{1B}[35m1"))
    }
}
