import DomainTables
import FoundationEssentials
import HTTPCore
import LATNetworking
import LATTesting
import Testing

@testable import OpenAPIImport

/// The calls of Documents/library.yaml, whose Swift is in the folder Library and compiled with the tests.
@Suite struct LibraryTests {
    private func result() throws -> OpenAPIImporter.Result {
        try OpenAPIImporter.of(testFile("Documents/library.yaml"), name: "library.yaml").run(choosing: .all)
    }

    @Test func committedSwiftIsWhatTheImportMakes() throws {
        let files = try result().files
        #expect(files.map(\.name) == ["LibraryBooks.swift", "LibraryLoans.swift"])
        for file in files { #expect(try testFile("Library/\(file.name)") == file.text, "\(file.name)") }
    }

    private func manager(_ server: MockServer) throws -> CentralRequestManager {
        let importer = try OpenAPIImporter.of(testFile("Documents/library.yaml"), name: "library.yaml")
        let editor = try TableEditor(nil, file: "t", base: nil, new: importer.run(choosing: .all).table)
        var table = try DomainTable(json5: editor.text, environment: nil)
        try table.setBaseURL(server.url("/v1"), forDomain: "library")
        var configuration = CentralRequestManager.Configuration()
        configuration.domains = table
        configuration.authenticators = ["Card": Card()]
        return try CentralRequestManager(configuration: configuration)
    }

    private struct Card: Authenticator {
        func apply(to request: inout HTTPRequest) { request.headers["X-Card"] = "7" }
        func refresh(using manager: CentralRequestManager) async throws {}
    }

    @Test func queryHasTheStylesOfTheDocument() async throws {
        let server = try MockServer { _ in .json(#"{"books": []}"#) }
        let id = Verbatim(UUID())
        let call = ListBooks(genres: [.novel, .default], years: [1, 2], xRequestID: id)
        #expect(try await call.startRequest(on: manager(server)).books.isEmpty)
        let request = try #require(server.requests.first)
        #expect(request.target == "/v1/books?genres=novel&genres=default&years=1,2")
        #expect(request.headers["X-Request-ID"] == id.rawValue)
        #expect(request.headers["X-Card"] == nil)
    }

    @Test func bodyAndQueryAreDivided() async throws {
        let server = try MockServer { _ in
            .json(#"{"id": "0f3b9c52-1a6e-4d5b-9b1c-2a7a6c6f0d11", "title": "Sea", "cover": null}"#)
        }
        let call = AddBook(title: "Sea", dryRun: true, idempotencyKey: "k1", price: Decimal(string: "12.50"))
        let book = try await call.startRequest(on: manager(server))
        #expect(book.cover == nil && book.title == "Sea")
        let request = try #require(server.requests.first)
        #expect(request.target == "/v1/books?dry_run=true")
        // A member that must be there is null.
        #expect(try JSONValue(parsing: request.body) == ["title": "Sea", "cover": nil, "price": 12.5])
        #expect(request.headers["Idempotency-Key"] == "k1" && request.headers["X-Card"] == "7")
    }

    @Test func bodyThatIsNoObjectIsSentWhole() async throws {
        let server = try MockServer { _ in .json(#"[{"type": "eaten"}]"#) }
        let events = try await Lend(content: [Loan(book: "Sea"), Loan(book: "Sky", days: 3)])
            .startRequest(on: manager(server))
        #expect(events == [.unknown(["type": "eaten"])])
        let body = try JSONValue(parsing: #require(server.requests.first).body)
        #expect(body == [["book": "Sea"], ["book": "Sky", "days": 3]])
    }

    @Test func bytesHaveTheTypeOfTheDocument() async throws {
        let server = try MockServer { _ in MockReply.status(204) }
        let id = Verbatim(UUID())
        _ = try await SetCover(id: id, content: .data(Data([1, 2]))).startRequest(on: manager(server))
        let request = try #require(server.requests.first)
        #expect(request.target == "/v1/books/\(id.rawValue)/cover")
        #expect(request.body == Data([1, 2]) && request.headers["Content-Type"] == "image/png")
    }

    @Test func formWithFileHasBoth() async throws {
        let server = try MockServer { _ in MockReply.status(204) }
        let image = UploadFile(name: "any", fileName: "a.png", data: Data("PNG".utf8))
        _ = try await UploadCover(id: "AB", image: image, caption: "Sea").startRequest(on: manager(server))
        let body = String(decoding: try #require(server.requests.first).body, as: UTF8.self)
        #expect(body.contains("name=\"caption\"") && body.contains("PNG"))
        #expect(body.contains("name=\"image\"; filename=\"a.png\""))
    }

    @Test func failureDecodesOnDemand() async throws {
        let server = try MockServer { _ in .json(#"{"message": "no"}"#, status: 404) }
        let error = await #expect(throws: NetworkError.self) { try await ListBooks().startRequest(on: manager(server)) }
        #expect(error?.model(of: LibraryError.self)?.message == "no")
        #expect(error?.model(of: Shelf.self) == nil)
    }

    // MARK: Models

    private func roundTrip<Model: Codable>(_ type: Model.Type, _ json: JSONValue) throws -> JSONValue {
        try JSONValueEncoder().encode(json.decode(type))
    }

    @Test func examplesKeepEveryValue() throws {
        let root = try YAMLReader.node(Array(testFile("Documents/library.yaml").utf8), file: "")
        let paths = try #require(root["paths"])
        let page = paths["/books"]?["get"]?["responses"]?["200"]?["content"]?["application/json"]?["examples"]?["one"]
        let books = try #require(page?["value"]).json
        #expect(try roundTrip(ListBooksReply.self, books) == books)
        let events = paths["/loans"]?["post"]?["responses"]?["200"]?["content"]?["application/json"]?["example"]
        #expect(try roundTrip([Event].self, #require(events).json) == events?.json)
        let shelf = paths["/shelves"]?["get"]?["responses"]?["200"]?["content"]?["application/json"]?["example"]
        #expect(try roundTrip(Shelf.self, #require(shelf).json) == shelf?.json)
        let model = try #require(shelf).json.decode(Shelf.self)
        #expect(model.parent?.name == "house" && model.size == .square(ShelfSizeSquare(width: 3)))
        #expect(model.additional == ["colour": .text("red"), "weight": .number(4.5)] && model.label == .number(7))
    }

    @Test func modelsOfARoomKeepEveryValue() throws {
        let root = try YAMLReader.node(Array(testFile("Documents/library.yaml").utf8), file: "")
        let reply = root["paths"]?["/rooms"]?["get"]?["responses"]?["200"]?["content"]?["application/json"]
        let json = try #require(reply?["example"]).json
        let room = try json.decode(Room.self)
        #expect(try roundTrip(Room.self, json) == json)
        #expect(room.visits == .max && room.floor == .value110 && room.open == .true)
        #expect(
            room.keepers == [
                .person(RoomKeeperPerson(name: "Ada", phone: "7")),
                .branch(RoomKeeperBranch(name: "Bern", city: "Bern")), .unknown(["name": "Eve"]),
            ])
        #expect(room.inner.value?.inner == .null && room.inner.value?.place == RoomPlace(row: 1, shelf: "A"))
        #expect(room.rooms?.first?.inner == .leftOut && room.rooms?.first?.floor == RoomFloor(rawValue: "2"))
    }

    @Test func unknownValuesAreKept() throws {
        let book: JSONValue = [
            "id": "0f3b9c52-1a6e-4d5b-9b1c-2a7a6c6f0d11", "title": "Sea", "genre": "opera", "cover": "c",
            "added_at": "yesterday",
        ]
        let model = try book.decode(Book.self)
        #expect(model.genre == Genre(rawValue: "opera") && model.addedAt?.date == nil)
        #expect(try roundTrip(Book.self, book) == book)
    }
}
