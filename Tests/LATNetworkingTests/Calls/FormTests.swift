import LATKit
import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Every form of a call, centralized and distributed, with the same settings and the same expectations.
@Suite(.timeLimit(.minutes(2))) struct FormTests {
    /// A way to make a call.
    enum Form: String, CaseIterable, Sendable {
        case address, url, request, route, server
        case addressClosure, urlClosure, requestClosure, routeClosure
        case addressStream, urlStream, requestStream, routeStream
        case addressUpload, urlUpload, requestUpload, routeUpload
        case addressDownload, urlDownload, requestDownload, routeDownload
        case entity, entityReply, entityReplies, entityClosure, entityStream, entityUpload, entityDownload
        case call, callStream, model

        var isDownload: Bool { rawValue.hasSuffix("Download") }
        var isStream: Bool { rawValue.hasSuffix("Stream") }
        var isUpload: Bool { rawValue.hasSuffix("Upload") }
        /// Whether the call goes through the table.
        var hasRow: Bool {
            switch self {
            case .route, .server, .routeClosure, .routeStream, .routeUpload, .routeDownload, .call, .callStream, .model:
                true
            default: rawValue.hasPrefix("entity")
            }
        }
        /// Whether the whole response is judged.
        var isJudged: Bool { !isDownload && !isStream }
        /// Whether the form can hold every setting of a request.
        var hasEverySetting: Bool {
            rawValue.hasPrefix("request") || rawValue.hasPrefix("entity") || rawValue.hasPrefix("call")
        }
    }

    /// The settings that every form has or takes from its request, entity or call.
    struct Settings: Sendable {
        var tag = "group"
        var accessory: Recorder?
        var accepted: Set<Int>?
    }

    /// Counts what an accessory of one call sees.
    final class Recorder: RequestAccessory {
        let log = Log<String>()

        func willStart(_ call: ObservedCall) { log.append("start \(call.request.userInfo["screen"]?.string ?? "-")") }
        func didFinish(_ call: ObservedCall, _ result: Result<HTTPResponse, NetworkError>) { log.append("end") }
    }

    private struct Resolver: FailureResolver {
        let log: Log<String>

        func resolve(_ error: NetworkError, of request: HTTPRequest) async throws -> Resolution {
            log.append("\(error.kind)")
            return .replay
        }
    }

    private struct Fetch: RequestEntity, Encodable {
        static let route = Route("POST", server: "item")
        var id = 7
        var files: [UploadFile] { fileList }
        var fileList: [UploadFile] = []
        private enum CodingKeys: CodingKey { case id }
    }

    private final class FetchModel: RequestModel<JSONValue> {
        var tag = ""
        override var parameters: Parameters? { ["id": 7] }
        override var options: RequestOptions {
            var options = RequestOptions(headers: ["X-Call": "call"])
            options.tag = tag
            return options
        }
    }

    private let server: MockServer
    private let directory: TemporaryDirectory
    private let outcomes = Log<String>()
    private let resolved = Log<String>()
    private static let files = [UploadFile(name: "f", fileName: "f.txt", data: Data("file".utf8))]

    init() throws {
        server = try MockServer()
        directory = try TemporaryDirectory()
    }

    private func manager(
        resolves: Bool = false, judge: SuccessJudge? = nil
    ) throws -> CentralRequestManager {
        try CentralRequestManager.make { configuration in
            configuration.baseURL = server.url()
            configuration.headers = ["X-Manager": "manager"]
            configuration.headerProvider = { _ in ["X-Provider": "provider"] }
            configuration.successJudge = judge
            configuration.outcomeObservers = [
                { [outcomes] outcome, _ in
                    switch outcome {
                    case .success: outcomes.append("success")
                    case .failure: outcomes.append("failure")
                    case .networkError(let error): outcomes.append("\(error.kind)")
                    }
                }
            ]
            if resolves { configuration.resolver = Resolver(log: resolved) }
            configuration.domains = try? DomainTable(
                json5: """
                    { domains: { main: { baseURL: "\(server.url())", headers: { "X-Row": "row" } } },
                      servers: { item: { domain: "main", path: "items/{id}", method: "POST" } } }
                    """, name: "table")
        }
    }

    /// Makes a call to `/items/7` and returns the status of its response.
    private func run(_ form: Form, _ manager: CentralRequestManager, _ settings: Settings = Settings()) async throws
        -> Int
    {
        let headers: HTTPHeaders = ["X-Call": "call"]
        let address = server.url("/items/7")
        let url = try #require(URL(string: address))
        let target = directory.path(of: "file-\(form.rawValue)")
        let route = Route(server: "item")
        let parameters: Parameters = ["id": 7]
        let tag = settings.tag
        var request = HTTPRequest("POST", "/items/7", headers: headers)
        request.tag = tag
        request.userInfo = ["screen": "feed"]
        request.acceptedStatuses = settings.accepted
        if let accessory = settings.accessory { request.accessories = [accessory] }
        if form.isUpload { request.body = .multipart(Self.files) }
        var options = RequestOptions(headers: headers)
        options.tag = tag
        func set<Model>(_ call: EntityCall<Model>) -> EntityCall<Model> {
            var call = call.header("X-Call", "call").tag(tag).userInfo(["screen": "feed"])
            if let accepted = settings.accepted { call = call.acceptedStatuses(accepted) }
            if let accessory = settings.accessory { call = call.accessory(accessory) }
            return call
        }
        let entity = set(Fetch(fileList: form.isUpload ? Self.files : []).call)
        let call = set(EntityCall(route, parameters: parameters))
        switch form {
        case .address: return try await manager.startRequest("POST", address, headers: headers, tag: tag).status
        case .url: return try await manager.startRequest("POST", url, headers: headers, tag: tag).status
        case .request: return try await manager.startRequest(request).status
        case .route:
            return try await manager.startRequest(route, parameters: parameters, headers: headers, tag: tag).response
                .status
        case .server:
            return try await manager.startRequest(server: "item", parameters: parameters, headers: headers, tag: tag)
                .response.status
        case .addressClosure:
            return try await ending {
                manager.startRequest("POST", address, headers: headers, tag: tag, success: $0, failure: $1)
            }
        case .urlClosure:
            return try await ending {
                manager.startRequest("POST", url, headers: headers, tag: tag, success: $0, failure: $1)
            }
        case .requestClosure: return try await ending { manager.startRequest(request, success: $0, failure: $1) }
        case .routeClosure:
            return try await ending { success, failure in
                manager.startRequest(
                    route, parameters: parameters, headers: headers, tag: tag, as: JSONValue.self,
                    success: { task, reply in success(task, reply.response) }, failure: failure)
            }
        case .addressStream:
            return try await drained(manager.stream("POST", address, headers: headers, tag: tag))
        case .urlStream: return try await drained(manager.stream("POST", url, headers: headers, tag: tag))
        case .requestStream: return try await drained(manager.stream(request))
        case .routeStream:
            return try await drained(manager.stream(route, parameters: parameters, headers: headers, tag: tag))
        case .addressUpload: return try await manager.upload(address, files: Self.files, headers: headers).value.status
        case .urlUpload: return try await manager.upload(url, files: Self.files, headers: headers).value.status
        case .requestUpload: return try await manager.upload(request).value.status
        case .routeUpload:
            return try await manager.upload(route, files: Self.files, parameters: parameters, headers: headers).value
                .response.status
        case .addressDownload:
            return try await manager.download(address, to: target, headers: headers).value.response.status
        case .urlDownload: return try await manager.download(url, to: target, headers: headers).value.response.status
        case .requestDownload: return try await manager.download(request, to: target).value.response.status
        case .routeDownload:
            return try await manager.download(route, parameters: parameters, to: target, headers: headers).value
                .response
                .status
        case .entity:
            _ = try await entity.startRequest(on: manager)
            return 200
        case .entityReply: return try await entity.reply(on: manager).response.status
        case .entityReplies:
            var status = 0
            for try await reply in entity.replies(on: manager) { status = reply.response.status }
            return status
        case .entityClosure:
            return try await withCheckedThrowingContinuation { continuation in
                entity.startRequest(on: manager) { _, _, error in
                    if let error { continuation.resume(throwing: error) } else { continuation.resume(returning: 200) }
                }
            }
        case .entityStream: return try await drained(entity.stream(on: manager))
        case .entityUpload: return try await entity.upload(on: manager).value.response.status
        case .entityDownload: return try await entity.download(to: target, on: manager).value.response.status
        case .call: return try await call.reply(on: manager).response.status
        case .callStream: return try await drained(call.stream(on: manager))
        case .model:
            let model = FetchModel(route)
            model.tag = tag
            return try await withCheckedThrowingContinuation { continuation in
                model.start(on: manager) { _, outcome in
                    switch outcome {
                    case .success: continuation.resume(returning: 200)
                    case .failure(_, let error), .networkError(let error): continuation.resume(throwing: error)
                    }
                }
            }
        }
    }

    private func ending(
        _ start: (
            _ success: @escaping @Sendable (RequestTask, HTTPResponse) -> Void,
            _ failure: @escaping @Sendable (RequestTask, NetworkError) -> Void
        ) -> RequestTask
    ) async throws -> Int {
        let task = start({ _, _ in }, { _, _ in })
        return try await task.value.status
    }

    private func drained(_ response: HTTPResponse) async throws -> Int {
        for try await _ in response.body {}
        return response.status
    }

    @Test(arguments: Form.allCases)
    func headersComeFromEveryLevel(_ form: Form) async throws {
        server.fallback { _ in .json(#"{"id": 7}"#) }
        let manager = try manager()
        #expect(try await run(form, manager) == 200)
        let request = try #require(server.requests.last)
        #expect(
            request.target == "/items/7"
                && request.method == (form == .addressDownload || form == .urlDownload ? "GET" : "POST"))
        #expect(request.headers["X-Manager"] == "manager" && request.headers["X-Provider"] == "provider")
        #expect(request.headers["X-Row"] == (form.hasRow ? "row" : nil))
        #expect(request.headers["X-Call"] == "call")
        #expect(outcomes.elements == ["success"])
    }

    @Test(arguments: Form.allCases)
    func statusDecidesTheOutcome(_ form: Form) async throws {
        server.fallback { _ in .text("no", status: 418) }
        let manager = try manager()
        let error = await failure { try await run(form, manager) }
        #expect(
            error?.kind == .httpStatus && error?.response?.status == 418 && error?.response?.data == Data("no".utf8))
        #expect(outcomes.elements == ["httpStatus"])
    }

    @Test(arguments: Form.allCases.filter(\.hasEverySetting).filter { !$0.isDownload })
    func acceptedStatusIsASuccess(_ form: Form) async throws {
        server.fallback { _ in .json(#"{"id": 7}"#, status: 418) }
        let manager = try manager()
        let status = try await run(form, manager, Settings(accepted: [418]))
        #expect(status == 418 || form == .entity || form == .entityClosure)
        server.fallback { _ in .json("{}", status: 200) }
        #expect(await failure { try await run(form, manager, Settings(accepted: [418])) }?.kind == .httpStatus)
    }

    @Test(arguments: Form.allCases)
    func judgeDecidesTheOutcome(_ form: Form) async throws {
        server.fallback { _ in .json(#"{"id": 7}"#) }
        let manager = try manager(judge: { _, document in document["id"].int != 7 })
        if form.isJudged {
            #expect(await failure { try await run(form, manager) }?.kind == .business(code: ""))
            #expect(outcomes.elements == ["failure"])
        } else {
            #expect(try await run(form, manager) == 200)
        }
    }

    @Test(arguments: Form.allCases.filter { !$0.isDownload })
    func resolverRepeatsTheCall(_ form: Form) async throws {
        server.enqueue(.text("later", status: 418))
        server.fallback { _ in .json(#"{"id": 7}"#) }
        let manager = try manager(resolves: true)
        #expect(try await run(form, manager) == 200)
        #expect(resolved.elements == ["httpStatus"] && outcomes.elements == ["success"] && server.requests.count == 2)
    }

    @Test(arguments: Form.allCases.filter(\.hasEverySetting))
    func accessoryOfOneCallIsNotified(_ form: Form) async throws {
        server.fallback { _ in .json(#"{"id": 7}"#) }
        let manager = try manager()
        let recorder = Recorder()
        #expect(try await run(form, manager, Settings(accessory: recorder)) == 200)
        try await eventually { recorder.log.elements == ["start feed", "end"] }
        _ = try await run(.address, manager)
        #expect(recorder.log.count == 2)
    }

    @Test func rejectedResponseIsNotFoundAgain() async throws {
        server.fallback { _ in .text("fresh") }
        let manager = try CentralRequestManager.make { $0.cacheStorage = .memory }
        var request = HTTPRequest("GET", server.url("/x"))
        request.cachePolicy = .cacheElseNetwork(.fixed(.seconds(3_600)))
        request.acceptedStatuses = [201]
        #expect(await failure { try await manager.startRequest(request) }?.kind == .httpStatus)
        try await manager.cache.flush()
        server.fallback { _ in .text("made", status: 201) }
        #expect(try await manager.startRequest(request).status == 201)
    }

    @Test func observerOfAStreamLeavesItsBody() async throws {
        server.fallback { _ in .text("all of it") }
        let manager = try CentralRequestManager.make {
            $0.outcomeObservers = [
                { outcome, _ in
                    guard case .success(let response) = outcome else { return }
                    _ = try? await response.body.collect(upTo: 100)
                }
            ]
        }
        let response = try await manager.stream("GET", server.url("/x"))
        #expect(try await response.body.collect(upTo: 100) == Data("all of it".utf8))
    }
}
