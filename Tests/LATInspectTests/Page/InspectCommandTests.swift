import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// `lat inspect -- COMMAND`, with programs that allow it and one that does not.
@Suite(.timeLimit(.minutes(2))) struct InspectCommandTests {
    @Test func callsOfAPermittingProgramAreShown() async throws {
        let server = try MockServer()
        server.route("GET", "/slow") { _ in .text("never whole").stalling(.afterBodyBytes(3)) }
        // `lat` allows inspection in its code. The address goes to standard error, which is the terminal here.
        let command = try LatProcess(["inspect", "--", LatProcess.path, "get", server.url("/slow")], columns: 200)
        await command.waitForOutput("#")
        let reader = PageReader(address: try await Self.address(of: command))
        let central = try CentralRequestManager(configuration: CentralRequestManager.Configuration())
        let stream = try await central.stream(
            "GET", reader.url("/stream"), headers: ["Authorization": "Bearer \(reader.token)"])
        var isSeen = false
        for try await line in stream.body.lines where line.contains("/slow") {
            isSeen = true
            break
        }
        #expect(isSeen)
        command.send(signal: 15)
        #expect(await command.result.exitCode != 0)
    }

    @Test func ignoredSignalsStayIgnored() async throws {
        let words = [LatProcess.path, "inspect", "--", "/bin/sh", "-c", "kill -HUP $$; echo alive"]
        for (option, isAlive) in [("--ignore-signal=HUP", true), ("--default-signal=HUP", false)] {
            let result = try await LatProcess([option] + words, program: "/usr/bin/env").result
            #expect(result.text.contains("alive") == isAlive)
            #expect(result.exitCode == (isAlive ? 0 : 129))
        }
    }

    @Test func missingLineIsNamed() async throws {
        let result = try await LatProcess.run(["inspect", "--", "/bin/true"])
        #expect(result.exitCode == 0)
        #expect(result.err.contains("/bin/true has opened no inspector"))
        #expect(
            result.err.contains(
                "if let inspector = Inspector.requested { configuration.accessories.append(inspector) }"))
    }

    /// Two programs, one after the other, and what is left of them in a file.
    @Test func sessionOutlivesItsPrograms() async throws {
        let server = try MockServer()
        server.fallback { _ in .json(#"{"name":"Ada","password":"CANARY"}"#) }
        let folder = try TemporaryDirectory()
        let lat = LatProcess.path
        let script = "'\(lat)' \(server.url("/one")) X-Own:o; '\(lat)' POST \(server.url("/two")) a=1; exit 7"
        let result = try await LatProcess.run(
            ["inspect", "--save", "calls.har", "--", "/bin/sh", "-c", script], in: folder.path)
        #expect(
            result.exitCode == 7 && result.err.contains("lat: saved 2 calls; lat inspect calls.har shows them again"))
        let file = try JSONValue(parsing: try #require(folder.read("calls.har")))
        let entries = try #require(file["log"]["entries"].array)
        #expect(entries.map { $0["request"]["method"].string } == ["GET", "POST"])
        let programs = entries.compactMap { $0["_call"]["program"].string }
        #expect(programs.count == 2 && Set(programs).count == 2 && programs.allSatisfy { $0.hasPrefix("lat · ") })
        #expect(entries[0]["response"]["content"]["text"].string?.contains("Ada") == true)
        #expect(!String(decoding: folder.read("calls.har") ?? Data(), as: UTF8.self).contains("CANARY"))
        let fields = (entries[1]["request"]["headers"].array ?? []).compactMap { $0["name"].string?.lowercased() }
        #expect(Set(fields).isSuperset(of: ["host", "user-agent", "accept-encoding", "content-length"]))
    }

    @Test func pageStaysWhenTheProgramHasEnded() async throws {
        let server = try MockServer()
        server.fallback { _ in .json(#"{"name":"Ada"}"#) }
        let command = try LatProcess(["inspect", "--keep", "--", LatProcess.path, server.url("/one")], columns: 200)
        await command.waitForOutput("The page stays until Ctrl-C")
        let reader = PageReader(address: try await Self.address(of: command))
        let call = try #require(try await reader.stream(calls: 1).first)
        let id = try #require(call["id"].int)
        #expect(call["program"].string?.hasPrefix("lat · ") == true && call["status"].int == 200)
        let body = try await reader.ask("GET", "/calls/\(id)/body?side=response&entry=0")
        #expect(body.text == #"{"name":"Ada"}"#)
        // Requests are sent again by lat itself.
        let edited = #"{"method":"GET","url":"\#(server.url("/again"))","headers":[["X-New","n"]],"body":""}"#
        #expect(try await reader.ask("POST", "/resend", body: edited).status == 200)
        let again = try await reader.stream(calls: 2)
        #expect(again.count == 2 && again[1]["program"].string == "lat · resent")
        command.send(signal: 2)
        #expect(await command.result.exitCode == 130)
    }

    @Test func callsOfAKilledProgramEnd() async throws {
        let server = try MockServer()
        server.route("GET", "/slow") { _ in .text("never whole").stalling(.afterBodyBytes(3)) }
        let script = "'\(LatProcess.path)' \(server.url("/slow")) & while read line; do kill -9 $!; break; done; wait"
        // The program is killed as soon as the server has its request.
        let command = try LatProcess(
            ["inspect", "--keep", "--", "/bin/sh", "-c", script], columns: 200, isTyped: true)
        await command.waitForOutput("nev")
        command.type("go\r")
        await command.waitForOutput("The page stays")
        let reader = PageReader(address: try await Self.address(of: command))
        let call = try #require(try await reader.stream(calls: 1).first)
        #expect(call["errorKind"].string == "ended" && call["state"].string == "failed")
        command.send(signal: 2)
        _ = await command.result
    }

    private static func address(of command: LatProcess) async throws -> String {
        let mark = "the page of this program: "
        let line = try #require(await command.lines(1).first { $0.contains(mark) })
        let start = try #require(line.firstRange(of: mark)).upperBound
        return String(line[start...].prefix { !$0.isWhitespace })
    }
}
