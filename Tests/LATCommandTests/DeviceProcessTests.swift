import HTTPCore
import TestSupport
import Testing

@Suite struct DeviceProcessTests {
    @Test func textOutputShowsTheMachine() async throws {
        let result = try await LatProcess.run(["device"])
        #expect(result.exitCode == 0 && result.err.isEmpty)
        #expect(result.text.contains("architecture  ") && result.text.contains("lo: loopback, up"))
    }

    @Test func jsonOutputShowsTheMachine() async throws {
        let result = try await LatProcess.run(["device", "--format", "json"])
        #expect(result.exitCode == 0)
        let json = try JSONValue(parsing: result.out)
        #expect(json["application"]["name"].string == "lat")
        #expect((json["memory"]["total"].int ?? 0) > 0 && json["interfaces"].array?.isEmpty == false)
    }

    @Test func unknownArgumentsAreRefused() async throws {
        let result = try await LatProcess.run(["device", "x"])
        #expect(result.exitCode == 2 && result.err.contains("one argument too many"))
    }
}
