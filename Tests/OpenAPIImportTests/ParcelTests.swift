import DomainTables
import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import Testing

@testable import OpenAPIImport

/// What the calls of Documents/parcels.yaml send, whose Swift is in the folder Parcel and compiled with the tests.
@Suite struct ParcelTests {
    private func result() throws -> OpenAPIImporter.Result {
        try OpenAPIImporter.of(testFile("Documents/parcels.yaml"), name: "parcels.yaml").run(choosing: .all)
    }

    @Test func committedSwiftIsWhatTheImportMakes() throws {
        let files = try result().files
        #expect(files.map(\.name) == ["ParcelDesk.swift"])
        for file in files { #expect(try testFile("Parcel/\(file.name)") == file.text, "\(file.name)") }
    }

    /// The request of a call, with the rows of the import.
    private func sent(
        _ start: (CentralRequestManager) async throws -> Void
    ) async throws -> RecordedRequest {
        let server = try MockServer { _ in MockReply.status(204) }
        let editor = try TableEditor(nil, file: "t", base: nil, new: result().table)
        var table = try DomainTable(json5: editor.text, environment: nil)
        try table.setBaseURL(server.url("/v1"), forDomain: "parcel")
        var configuration = CentralRequestManager.Configuration()
        configuration.domains = table
        try await start(CentralRequestManager(configuration: configuration))
        return try #require(server.requests.first)
    }

    // MARK: Queries

    @Test func queryStaysAQueryWithoutTheBody() async throws {
        let none = try await sent { _ = try await ParcelNotice(dryRun: true).startRequest(on: $0) }
        #expect(none.target == "/v1/notices?dryRun=true" && none.body.isEmpty)
        let all = try await sent { _ = try await ParcelNotice(dryRun: true, content: ["a"]).startRequest(on: $0) }
        #expect(all.target == "/v1/notices?dryRun=true" && all.body == Data(#"["a"]"#.utf8))
        let bytes = try await sent { _ = try await ParcelScan(dryRun: true).startRequest(on: $0) }
        #expect(bytes.target == "/v1/notices?dryRun=true" && bytes.body.isEmpty)
    }
}
