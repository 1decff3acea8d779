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

    // MARK: Cookies

    @Test func cookiesAreOneField() async throws {
        let some = try await sent { _ = try await ParcelLabel(session: "s", csrfToken: 7).startRequest(on: $0) }
        #expect(some.headers["Cookie"] == "session=s; csrf-token=7")
        let all = try await sent {
            _ = try await ParcelLabel(session: "s", csrfToken: 7, cookies: true, theme: "dark").startRequest(on: $0)
        }
        #expect(all.headers["Cookie"] == "session=s; csrf-token=7; theme=dark" && all.headers["cookies"] == "true")
        let odd = try await sent { _ = try await ParcelLabel(session: "a;admin=1", csrfToken: 7).startRequest(on: $0) }
        #expect(odd.headers["Cookie"] == "session=a%3Badmin=1; csrf-token=7")
    }

    @Test func noCookieMakesNoField() async throws {
        let none = try await sent { _ = try await ParcelHint().startRequest(on: $0) }
        #expect(none.headers["Cookie"] == nil)
        let one = try await sent { _ = try await ParcelHint(theme: "dark").startRequest(on: $0) }
        #expect(one.headers["Cookie"] == "theme=dark")
    }

    // MARK: Queries

    @Test func objectsHaveTheStylesOfTheDocument() async throws {
        let size = ParcelSize(width: 3, unit: "cm")
        let request = try await sent {
            let call = ParcelTrack(
                filter: ParcelTrackFilter(ids: [1, 2], town: "Ulm"), plain: size, spread: size, joined: size)
            _ = try await call.startRequest(on: $0)
        }
        #expect(
            request.target.removingPercentEncoding
                == "/v1/track?filter[ids][]=1&filter[ids][]=2&filter[town]=Ulm&joined=unit,cm,width,3"
                + "&plain[unit]=cm&plain[width]=3&unit=cm&width=3")
    }

    @Test func queryStaysAQueryWithoutTheBody() async throws {
        let none = try await sent { _ = try await ParcelNotice(dryRun: true).startRequest(on: $0) }
        #expect(none.target == "/v1/notices?dryRun=true" && none.body.isEmpty)
        let all = try await sent { _ = try await ParcelNotice(dryRun: true, content: ["a"]).startRequest(on: $0) }
        #expect(all.target == "/v1/notices?dryRun=true" && all.body == Data(#"["a"]"#.utf8))
        let bytes = try await sent { _ = try await ParcelScan(dryRun: true).startRequest(on: $0) }
        #expect(bytes.target == "/v1/notices?dryRun=true" && bytes.body.isEmpty)
    }

    // MARK: Forms

    @Test func formHasTheEncodingOfTheDocument() async throws {
        let request = try await sent {
            let call = ParcelOrder(
                expand: ["a", "b"],
                items: [ParcelItem(sku: "p", count: 1, tags: ["x", "y"]), ParcelItem(sku: "q")], codes: [1, 2],
                words: ["a", "b"], note: ParcelSize(width: 3), size: ParcelSize(width: 4))
            _ = try await call.startRequest(on: $0)
        }
        #expect(
            String(decoding: request.body, as: UTF8.self).removingPercentEncoding
                == "codes=1,2&expand[]=a&expand[]=b&items[0][count]=1&items[0][sku]=p&items[0][tags][]=x"
                + #"&items[0][tags][]=y&items[1][sku]=q&note={"width":3}&size[width]=4&words=a&words=b"#)
    }

    @Test func formOfADeletionIsItsBody() async throws {
        let request = try await sent {
            _ = try await ParcelRecall(dryRun: true, reason: "lost", ids: [1, 2]).startRequest(on: $0)
        }
        #expect(request.method == "DELETE" && request.target == "/v1/notices?dryRun=true")
        #expect(request.body == Data("ids=1&ids=2&reason=lost".utf8))
        #expect(request.headers["Content-Type"] == "application/x-www-form-urlencoded")
    }

    /// Names, types and contents of the parts.
    private func parts(_ request: RecordedRequest) throws -> [String] {
        let boundary = try #require(request.headers["Content-Type"]?.split(separator: "boundary=").last)
        let parts = String(decoding: request.body, as: UTF8.self).replacing("\r\n", with: "\n")
            .split(separator: "--\(boundary)").dropLast()
        return parts.map { part in
            part.split(separator: "\n").joined(separator: "|").replacing("Content-Disposition: form-data; ", with: "")
                .replacing("Content-Type: ", with: "")
        }
    }

    @Test func partsHaveTheNamesAndTypesOfTheDocument() async throws {
        let file = UploadFile(name: "any", fileName: "a.png", data: Data("PNG".utf8))
        let request = try await sent {
            let call = ParcelShip(
                photo: file, lid: file, more: [file, file], ids: [1, 2], words: ["a", "b"],
                attributes: ParcelSize(width: 3), stops: [ParcelSize(width: 4), ParcelSize(width: 5)])
            _ = try await call.startRequest(on: $0)
        }
        #expect(
            try parts(request) == [
                #"name="attributes"|application/json|{"width":3}"#, #"name="ids"|1"#, #"name="ids"|2"#,
                #"name="stops"|application/json|{"width":4}"#, #"name="stops"|application/json|{"width":5}"#,
                #"name="words[]"|a"#, #"name="words[]"|b"#, #"name="photo"; filename="a.png"|image/png|PNG"#,
                #"name="lid"; filename="a.png"|image/png|PNG"#, #"name="more"; filename="a.png"|image/png|PNG"#,
                #"name="more"; filename="a.png"|image/png|PNG"#,
            ])
        let least = try await sent { _ = try await ParcelShip(photo: file).startRequest(on: $0) }
        #expect(try parts(least) == [#"name="photo"; filename="a.png"|image/png|PNG"#])
    }

    // MARK: Addresses

    @Test func callHasTheServerOfItsOwn() throws {
        let result = try result()
        let paths = Dictionary(
            result.table.rows.map { ($0.name, $0.row["path"]?.string ?? "") }, uniquingKeysWith: { first, _ in first })
        #expect(paths["parcel.parcelTrial"] == "https://sandbox.parcel.example.org/v1/trial")
        #expect(paths["parcel.parcelReal"] == "/trial")
        #expect(paths["parcel.parcelNext"] == "https://parcel.example.org/v2/trial")
        #expect(
            result.warnings.map(\.message) == [
                "the document does not say how the object plain is written: it is plain[member]=value; for member=value, "
                    + "set query.styles of its row to repeated",
                "the server /v2 of this call has no host; its row has https://parcel.example.org/v2, in every environment",
            ])
    }

    @Test(arguments: [("/v1", "/x"), ("/v2", "/x")])
    func hostOfARelativeServerIsNotInvented(_ own: String, _ path: String) throws {
        let result = try OpenAPIImporter.of(
            #"""
            {"openapi": "3.0.3", "info": {"title": "Zoo"}, "servers": [{"url": "/v1"}], "paths": {"/x": {"get": {
            "operationId": "x", "servers": [{"url": "\#(own)"}], "responses": {}}}}}
            """#
        ).run(choosing: .all)
        #expect(result.table.rows.first?.row["path"]?.string == path)
        #expect(result.warnings.contains { $0.message.contains("of this call has no host") } == (own == "/v2"))
    }
}
