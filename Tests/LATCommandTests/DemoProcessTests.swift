import FoundationEssentials
import LATTesting
import Testing

/// `lat demo` as a process.
@Suite(.timeLimit(.minutes(1))) struct DemoProcessTests {
    @Test func everyStepSucceeds() async throws {
        let result = try await LatProcess.run(["demo"])
        #expect(result.exitCode == 0 && result.err == "")
        #expect(result.text.contains("\n8 of 8 steps succeeded, in "))
        #expect(!result.text.contains("\u{1B}") && !result.text.contains("✗"))
        for word in ["dns", "connect", "first byte", "total", "reused"] { #expect(result.text.contains(word)) }
        #expect(result.text.split(separator: "\n").allSatisfy { $0.count <= 80 })
    }

    @Test func demoEditsACopyOfTheProjectTable() async throws {
        let folder = try TemporaryDirectory()
        let table = """
            // Mine.
            {
              domains: {
                demo: { baseURL: "http://127.0.0.1:8080", headers: { "X-App": "demo" } },
                other: { baseURL: "https://app.example.org" },
              },
              servers: { "demo.get": { domain: "demo", path: "get", method: "GET" } },
            }
            """
        let path = try folder.writeTable(table)
        let result = try await LatProcess.run(["demo"], environment: ["LAT_ENVIRONMENT": "none"], in: folder.path)
        #expect(result.exitCode == 0 && result.text.contains("/get before, /v2/get after, "))
        #expect(String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self) == table)
        #expect(folder.contents == ["Config", "Config/domains.json5"])
    }

    @Test(arguments: [nil, "{ broken", "{ domains: {} }"])
    func demoRunsWithoutAUsableTable(_ table: String?) async throws {
        let folder = try TemporaryDirectory()
        if let table { _ = try folder.writeTable(table) }
        let result = try await LatProcess.run(["demo"], in: folder.path)
        #expect(result.exitCode == 0 && result.text.contains("/get before, /v2/get after, "))
    }

    @Test func terminalShowsProgressOfBothTransfers() async throws {
        let result = try await LatProcess.run(["demo"], columns: 80)
        #expect(result.exitCode == 0)
        #expect(result.text.contains("uploading") && result.text.contains("downloading"))
    }
}
