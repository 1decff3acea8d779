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
        let mark = "the page of this program: "
        let line = try #require(await command.lines(1).first { $0.contains(mark) })
        let start = try #require(line.firstRange(of: mark)).upperBound
        let address = String(line[start...].prefix { !$0.isWhitespace })
        let reader = PageReader(address: address)
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

    @Test func programThatOpensNoPageIsNamed() async throws {
        let result = try await LatProcess.run(["inspect", "--", "/bin/true"])
        #expect(result.exitCode == 0)
        #expect(result.err.contains("/bin/true opened no page; its code has to allow it"))
    }
}
