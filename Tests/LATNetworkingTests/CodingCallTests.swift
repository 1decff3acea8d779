import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// The coding of the manager, of rows, entities and requests, in both directions.
@Suite struct CodingCallTests {
    private struct Event: Codable, Sendable, Hashable {
        var startDate: Date
    }

    private struct SaveEvent: RequestEntity, Encodable {
        typealias Model = Event
        static let route = Route("POST", server: "event.save")
        var startDate: Date
    }

    private let event = Event(startDate: Date(timeIntervalSince1970: 1_740_821_400))

    /// A server that sends JSON bodies back.
    private func echo() throws -> MockServer {
        let server = try MockServer()
        server.fallback { request in .data(request.body, contentType: "application/json") }
        return server
    }

    private func manager(
        _ server: MockServer, row: String = "", domain: String = "", _ coding: Coding = Coding()
    ) throws -> CentralRequestManager {
        var configuration = CentralRequestManager.Configuration()
        configuration.baseURL = server.url()
        configuration.coding = coding
        configuration.domains = try DomainTable(
            json5: """
                { domains: { main: { baseURL: "\(server.url())" \(domain) } },
                  servers: { "event.save": { domain: "main", path: "events", method: "POST" \(row) } } }
                """, name: "table")
        return try CentralRequestManager(configuration: configuration)
    }

    private func bodies(_ server: MockServer) -> [String] {
        server.requests.map { String(decoding: $0.body, as: UTF8.self) }
    }

    @Test func standardIsISO8601BothWays() async throws {
        let server = try echo()
        let manager = try manager(server)
        let response = try await manager.startRequest("POST", "/json", body: .json(event))
        #expect(try response.decode(Event.self) == event)
        let parameters = try await manager.startRequest("POST", "/p", parameters: ["startDate": event.startDate])
        #expect(try parameters.decode(Event.self) == event)
        #expect(try await SaveEvent(startDate: event.startDate).startRequest(on: manager) == event)
        #expect(bodies(server) == Array(repeating: #"{"startDate":"2025-03-01T09:30:00Z"}"#, count: 3))
    }

    @Test func codingHoldsBesideAParameterProvider() async throws {
        let server = try echo()
        var configuration = CentralRequestManager.Configuration()
        configuration.baseURL = server.url()
        configuration.coding = Coding(keys: .snakeCase)
        configuration.parameterProvider = { _ in ["nonce": 1] }
        let manager = try CentralRequestManager(configuration: configuration)
        _ = try await manager.startRequest("POST", "/json", body: .json(event))
        _ = try await manager.startRequest(HTTPRequest("POST", "/json", body: .json(event)))
        #expect(bodies(server).allSatisfy { $0.contains("start_date") }, "\(bodies(server))")
    }

    @Test func keysOfParametersStayAsTheyAre() async throws {
        let server = try echo()
        let manager = try manager(server, row: ", parameters: { rowName: 3 }", Coding(keys: .snakeCase))
        let parameters: Parameters = ["userName": 1, "event": event]
        _ = try await manager.startRequest("POST", "/p", parameters: parameters)
        _ = try await manager.startRequest(server: "event.save", parameters: parameters)
        _ = try await SaveEvent(startDate: event.startDate).parameters(["userName": 1]).startRequest(on: manager)
        let date = #""2025-03-01T09:30:00Z""#
        #expect(
            bodies(server) == [
                #"{"event":{"start_date":\#(date)},"userName":1}"#,
                #"{"event":{"start_date":\#(date)},"rowName":3,"userName":1}"#,
                #"{"rowName":3,"start_date":\#(date),"userName":1}"#,
            ])
    }

    @Test func managersCodingAppliesToEveryCall() async throws {
        let server = try echo()
        let manager = try manager(server, Coding(dates: .unixMilliseconds, keys: .snakeCase))
        let response = try await manager.startRequest("POST", "/json", body: .json(event))
        #expect(try response.decode(Event.self) == event)
        #expect(try await SaveEvent(startDate: event.startDate).startRequest(on: manager) == event)
        let named = try await manager.startRequest(
            server: "event.save", parameters: ["start_date": event.startDate], as: Event.self)
        #expect(named.model == event)
        #expect(bodies(server) == Array(repeating: #"{"start_date":1740821400000}"#, count: 3))
    }

    @Test func narrowestCodingWins() async throws {
        let server = try echo()
        let manager = try manager(
            server, row: #", dates: "unixSeconds""#, domain: #", dates: "iso8601", keys: "snakeCase""#,
            Coding(dates: .unixMilliseconds))
        let entity = SaveEvent(startDate: event.startDate)
        #expect(try await entity.startRequest(on: manager) == event)
        #expect(
            try await entity.coding(Coding(dates: .pattern("yyyy/MM/dd HH:mm"))).startRequest(on: manager) == event)
        var request = HTTPRequest("POST", server.url("/x"), body: .json(event))
        request.coding = Coding(dates: .secondsSince2001)
        #expect(try await manager.send(request).decode(Event.self) == event)
        #expect(
            bodies(server) == [
                #"{"start_date":1740821400}"#, #"{"startDate":"2025/03/01 09:30"}"#, #"{"startDate":762514200}"#,
            ])
    }

    @Test func changedRowCodesTheNextRequest() async throws {
        let server = try echo()
        let manager = try manager(server, row: #", dates: "unixSeconds""#)
        let entity = SaveEvent(startDate: event.startDate)
        #expect(try await entity.startRequest(on: manager) == event)
        try manager.updateDomains { table throws(NetworkError) in
            var row = try table.server("event.save")
            row.settings.dates = .unixMilliseconds
            try table.setServer("event.save", row)
        }
        #expect(try await entity.startRequest(on: manager) == event)
        #expect(bodies(server) == [#"{"startDate":1740821400}"#, #"{"startDate":1740821400000}"#])
    }

    @Test func ownEncoderIsUsedAsItIs() async throws {
        let server = try echo()
        let manager = try manager(server, Coding(dates: .unixSeconds))
        _ = try await manager.startRequest("POST", "/json", body: .json(event, encoder: JSONEncoder()))
        #expect(bodies(server) == [#"{"startDate":762514200}"#])
    }

    @Test func dateErrorNamesPathAndForm() async throws {
        let server = try MockServer()
        server.fallback { _ in .json(#"{"startDate": "soon"}"#) }
        let manager = try manager(server)
        let error = await #expect(throws: NetworkError.self) {
            try await SaveEvent(startDate: event.startDate).startRequest(on: manager)
        }
        #expect(error?.kind == .decoding(path: "startDate"))
        #expect(error?.message.contains(#""soon" is not a date in the form ISO 8601"#) == true)
    }
}

/// Models that are not objects, and the envelopes of errors.
@Suite struct ModelFormTests {
    private struct Fetch<Model: Decodable & Sendable>: RequestEntity {
        static var route: Route { Route("GET", domain: "main", path: "x") }
    }

    private func manager(
        _ server: MockServer, domain: String = "", judge: SuccessJudge? = nil
    ) throws -> CentralRequestManager {
        var configuration = CentralRequestManager.Configuration()
        configuration.successJudge = judge
        configuration.baseURL = server.url()
        configuration.domains = try DomainTable(
            json5: #"{ domains: { main: { baseURL: "\#(server.url())" \#(domain) } } }"#, name: "table")
        return try CentralRequestManager(configuration: configuration)
    }

    private func serving(_ body: String, status: Int = 200) throws -> MockServer {
        let server = try MockServer()
        server.fallback { _ in .data(Data(body.utf8), contentType: "text/html", status: status) }
        return server
    }

    @Test func dataIsTheBody() async throws {
        let server = try serving(#"{"a": 1}"#)
        let manager = try manager(server)
        #expect(try await Fetch<Data>().startRequest(on: manager) == Data(#"{"a": 1}"#.utf8))
        #expect(try await Fetch<Data?>().startRequest(on: manager) == Data(#"{"a": 1}"#.utf8))
    }

    @Test(arguments: [(#""text""#, "text"), ("plain", "plain"), (#"{"a":1}"#, #"{"a":1}"#), ("12", "12")])
    func stringIsTheText(body: String, expected: String) async throws {
        let server = try serving(body)
        let manager = try manager(server)
        #expect(try await Fetch<String>().startRequest(on: manager) == expected)
        #expect(try await Fetch<String?>().startRequest(on: manager) == expected)
    }

    /// What a response decodes to.
    private func model<Model: Decodable & Sendable>(
        _ type: Model.Type, from body: String, status: Int = 200
    ) async throws -> Model {
        let server = try serving(body, status: status)
        return try await Fetch<Model>().startRequest(on: manager(server))
    }

    @Test func scalarsAndArraysAreDecoded() async throws {
        #expect(try await model(Int.self, from: "42") == 42)
        #expect(try await model(Bool.self, from: "true"))
        #expect(try await model([Double].self, from: "[1, 2.5]") == [1, 2.5])
        #expect(try await model(JSONValue.self, from: "[null]") == [.null])
        #expect(try await model(Int?.self, from: "", status: 204) == nil)
        #expect(try await model(Data.self, from: "", status: 204).isEmpty)
        _ = try await model(Empty.self, from: "anything")
    }

    private let envelope =
        #", envelope: { code: "code", message: "text", success: [0], messages: { "7": "Sold out" } }"#

    @Test(arguments: [400, 404, 409, 500, 503])
    func envelopeOfAnErrorIsBusiness(status: Int) async throws {
        let server = try serving(#"{"code": 7, "text": "no"}"#, status: status)
        let manager = try manager(server, domain: envelope)
        let error = await #expect(throws: NetworkError.self) { try await Fetch<JSONValue>().startRequest(on: manager) }
        #expect(error?.kind == .business(code: "7") && error?.response?.status == status)
        #expect(error?.businessFailure?.message == "Sold out")
    }

    @Test(arguments: [#"{"code": 0}"#, #"{"other": 7}"#, "<html>", ""])
    func errorWithoutFailureCodeIsHTTPStatus(body: String) async throws {
        let server = try serving(body, status: 400)
        let manager = try manager(server, domain: envelope)
        let error = await #expect(throws: NetworkError.self) { try await Fetch<JSONValue>().startRequest(on: manager) }
        #expect(error?.kind == .httpStatus)
    }

    @Test func judgeDecidesCentralCallsToo() async throws {
        let server = try serving(#"{"ok": false}"#)
        let manager = try manager(server, judge: { _, document in document["ok"].bool ?? true })
        let error = await #expect(throws: NetworkError.self) { try await manager.startRequest("GET", "/x") }
        #expect(error?.kind == .business(code: ""))
        #expect(error?.message == "the success judge rejected the response", "\(String(describing: error))")
        let closure = await withCheckedContinuation { continuation in
            manager.startRequest(
                "GET", "/x", success: { _, _ in continuation.resume(returning: nil) },
                failure: { continuation.resume(returning: $1) })
        }
        #expect(closure?.kind == .business(code: ""))
        let upload = manager.upload(server.url("/x"), body: .data(Data("x".utf8)))
        #expect(await failure { _ = try await upload.value }?.kind == .business(code: ""))
        #expect(try await manager.send(HTTPRequest("GET", server.url("/x"))).status == 200)
    }

    @Test func judgedFailureOfACentralCallIsNotStored() async throws {
        let server = try serving(#"{"ok": false}"#)
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever)) {
            $0.successJudge = { _, document in document["ok"].bool ?? true }
        }
        for _ in 0..<2 {
            let error = await failure { _ = try await manager.startRequest("GET", server.url("/x")) }
            #expect(error?.kind == .business(code: ""))
            try await manager.cache.flush()
        }
        #expect(server.requestCount == 2 && manager.cache.statistics.stored == 0)
    }
}
