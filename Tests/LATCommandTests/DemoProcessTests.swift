import Testing

/// `lat demo` as a process.
@Suite(.timeLimit(.minutes(1))) struct DemoProcessTests {
    @Test func everyStepGoesAsItShould() async throws {
        let result = try await LatProcess.run(["demo"])
        #expect(result.exitCode == 0 && result.err == "")
        #expect(result.text.contains("\n7 of 7 steps went as they should, in "))
        #expect(!result.text.contains("\u{1B}") && !result.text.contains("✗"))
        for word in ["dns", "connect", "first byte", "total", "reused"] { #expect(result.text.contains(word)) }
        #expect(result.text.split(separator: "\n").allSatisfy { $0.count <= 80 })
    }

    @Test func aTerminalSeesBothTransfersMove() async throws {
        let result = try await LatProcess.run(["demo"], columns: 80)
        #expect(result.exitCode == 0)
        #expect(result.text.contains("uploading") && result.text.contains("downloading"))
    }
}
