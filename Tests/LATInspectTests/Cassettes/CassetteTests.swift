import CassetteTesting
import FoundationEssentials
import Glibc
import LATNetworking
import LATTesting
import Platform
import TestSupport
import Testing

@testable import LATInspect

/// Calls that are recorded and replayed.
@Suite(.timeLimit(.minutes(2)))
struct CassetteTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private var path: String { directory.path(of: "calls.yaml") }

    private func manager(
        _ mode: Cassette.Mode, _ matching: Cassette.Matching = Cassette.Matching(),
        change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) throws -> (CentralRequestManager, Cassette) {
        let cassette = try Cassette(path, mode: mode, matching: matching)
        var configuration = CentralRequestManager.Configuration()
        configuration.transport = cassette
        change(&configuration)
        return (try CentralRequestManager(configuration: configuration), cassette)
    }

    private func text() -> String { directory.read("calls.yaml").map { String(decoding: $0, as: UTF8.self) } ?? "" }

    private func refusal(_ body: () async throws -> Void) async -> String {
        let error = await #expect(throws: NetworkError.self) { try await body() }
        #expect(error?.kind == .simulation)
        return error?.message ?? ""
    }

    /// Answers each request with a long text.
    private struct LongTexts: Transport {
        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            var response = HTTPResponse(status: 200, url: request.url)
            response.body = ResponseBody(Data(repeating: UInt8(ascii: "x"), count: 20_000))
            return response
        }
    }

    @Test func processExitWaitsForAReleasedCassette() async throws {
        await #expect(processExitsWith: .success) { [path = path as String] in
            let cassette = Box<Cassette?>(try Cassette(path, mode: .once, transport: LongTexts()))
            for number in 0..<300 {
                _ = try await cassette.value?.send(HTTPRequest("GET", "http://127.0.0.1/\(number)"))
            }
            weak let released = cassette.value
            #expect(BackgroundThread.start("test-release") { cassette.change { $0 = nil } })
            while released != nil { sched_yield() }
            exit(0)
        }
        #expect(text().hasSuffix("...\n") && text().components(separatedBy: "\nrequest:").count == 301)
    }

    @Test func recordedCallsAreReplayedWithoutAServer() async throws {
        let server = try MockServer()
        server.route("GET", "/users") { _ in .json(#"{"users": ["Ada"]}"#).header("X-Repeated", "a") }
        server.route("POST", "/users") { _ in .json(#"{"id": 7}"#, status: 201) }
        let url = server.url("/users")
        do {
            let (central, cassette) = try manager(.once)
            #expect(try await central.startRequest("GET", url).json()["users"][0].string == "Ada")
            #expect(try await central.startRequest("POST", url, body: .json(["name": "Ada"])).status == 201)
            try cassette.eject()
        }
        let asked = server.requests.count
        #expect(asked == 2)
        let (central, cassette) = try manager(.once)
        let users = try await central.startRequest("GET", url)
        #expect(try users.json()["users"][0].string == "Ada" && users.headers["X-Repeated"] == "a")
        #expect(cassette.unused == ["POST \(url)"])
        // The order of members does not count, and neither does white space.
        let again = try await central.startRequest(
            "POST", url, body: .data(Data(#"{ "name" : "Ada" }"#.utf8), contentType: "application/json"))
        #expect(again.status == 201 && again.reason == "Created")
        #expect(server.requests.count == asked && cassette.unused.isEmpty)
        #expect(text().contains("body: |-\n    {\"users\": [\"Ada\"]}") && text().hasSuffix("...\n"))
    }

    @Test func unknownRequestNamesTheNearest() async throws {
        let server = try MockServer()
        server.route("GET", "/users") { _ in .text("one") }
        let url = server.url("/users")
        do {
            let (central, _) = try manager(.once)
            _ = try await central.startRequest("GET", "\(url)?page=1&size=5")
        }
        let (central, cassette) = try manager(.none)
        let page = await refusal { _ = try await central.startRequest("GET", "\(url)?size=5&page=2") }
        #expect(page.contains("line 6") && page.contains(#"(query page: asked "2", recorded "1")"#), "\(page)")
        let path = await refusal { _ = try await central.startRequest("GET", server.url("/user")) }
        #expect(path.contains(#"path: asked "/user", recorded "/users""#), "\(path)")
        _ = try await central.startRequest("GET", "\(url)?size=5&page=1")
        let third = await refusal { _ = try await central.startRequest("GET", "\(url)?size=5&page=1") }
        #expect(third.contains("was recorded once (line 6), and is requested again"), "\(third)")
        #expect(cassette.unused.isEmpty && server.requests.count == 1)
    }

    @Test func newModeAddsAndAllModeReplaces() async throws {
        let server = try MockServer()
        server.route("GET", "/{name}") { request in .text(request.target + " \(server.requests.count)") }
        func run(_ mode: Cassette.Mode, _ names: [String]) async throws -> [String] {
            let (central, _) = try manager(mode)
            var texts: [String] = []
            for name in names { texts.append(try await central.startRequest("GET", server.url("/\(name)")).text ?? "") }
            return texts
        }
        let first = try await run(.once, ["a", "a"])
        #expect(first[0] != first[1], "each is recorded")
        #expect(try await run(.new, ["a", "b", "a"]) == [first[0], "/b 3", first[1]])
        #expect(try await run(.none, ["b", "a", "a"]) == ["/b 3"] + first)
        #expect(server.requests.count == 3)
        #expect(try await run(.all, ["c"]) == ["/c 4"])
        #expect(text().contains("/c") && !text().contains("/a"))
    }

    @Test func secretsAreNeverWritten() async throws {
        let canary = "CANARY-7319"
        let server = try MockServer()
        server.route("POST", "/login") { _ in
            .json(#"{"access_token": "\#(canary)", "deep": [{"refreshToken": "\#(canary)"}]}"#)
                .header("Set-Cookie", "session=\(canary)")
                .header("Location", "https://u:\(canary)@example.org/?token=\(canary)").header("X-Api-Key", canary)
        }
        server.route("POST", "/form") { _ in .text("fine") }
        server.route("GET", "/lines") { _ in
            var reply = MockReply(status: 200, headers: ["Content-Type": "application/x-ndjson"])
            reply.body = .bytes(Data(String(repeating: "{\"token\":\"\(canary)\"}\n", count: 2).utf8))
            return reply
        }
        server.route("GET", "/events") { _ in .events(.event("{\"token\":\"\(canary)\"}")) }
        server.route("POST", "/parts") { _ in .text("fine") }
        func run(_ mode: Cassette.Mode, _ secret: String) async throws {
            let (central, _) = try manager(mode)
            _ = try await central.startRequest(
                "POST", server.url("/login?api_key=\(secret)"), body: .json(["password": secret, "name": "Ada"]),
                headers: ["Authorization": "Bearer \(secret)", "Cookie": "a=\(secret)", "X-Api-Key": secret])
            _ = try await central.startRequest(
                "POST", server.url("/form"), body: .form(["password": secret, "user[token]": secret]))
            for path in ["/lines", "/events"] { _ = try await central.startRequest("GET", server.url(path)) }
            _ = try await central.startRequest(
                "POST", server.url("/parts"), body: .multipart([UploadFile(name: "password", value: secret)]))
            guard mode == .once else { return }
            // A body that the app has made itself, with a part that is not text.
            let part = "--b\r\nContent-Disposition: form-data; name="
            var parts = Data("\(part)\"photo\"\r\n\r\n".utf8)
            parts += [0xFF, 0xD8, 0xFF]
            parts += Data("\r\n\(part)\"password\"\r\n\r\nhidden-part-4711\r\n--b--\r\n".utf8)
            _ = try await central.startRequest(
                "POST", server.url("/parts?own"),
                body: .data(parts, contentType: "multipart/form-data; boundary=b"))
            _ = try await central.startRequest(
                "POST", server.url("/parts?nested"),
                body: .json(["payload": #"{"token":{"value":"hidden-member-4711"},"password":471147,"name":"Ada"}"#]))
        }
        try await run(.once, canary)
        #expect(!text().contains("CANARY") && !text().contains("hidden-"))
        #expect(!text().contains("471147") && text().contains("***"))
        // A request with another secret matches the recorded one.
        try await run(.none, "other")
    }

    @Test func secretsOfRowsAndOfTheManagerAreNotWritten() async throws {
        struct Fetch: RequestEntity {
            typealias Model = String

            static let route = Route("GET", domain: "d", path: "row")
        }
        let server = try MockServer()
        server.fallback { _ in .text("fine") }
        let (central, cassette) = try manager(.once) {
            $0.secrets.insert(header: "X-Manager-Key")
            $0.headers = ["X-Manager-Key": "hidden-manager-4711", "X-Row-Key": "hidden-row-4711"]
            $0.domains = try? DomainTable(
                json5: #"{ domains: { d: { baseURL: "\#(server.url())", secretHeaders: ["X-Row-Key"] } } }"#)
        }
        #expect(try await Fetch().startRequest(on: central) == "fine")
        try cassette.eject()
        #expect(
            text().contains("X-Row-Key") && text().contains("X-Manager-Key") && !text().contains("hidden-"), "\(text())"
        )
    }

    @Test func secretPartsOfTheManagerAreNotWritten() async throws {
        let server = try MockServer()
        server.fallback { _ in .json(#"{"pin_code": 84711900, "note": "fine"}"#) }
        let (central, cassette) = try manager(.once) { $0.secrets.insert(parameter: "pin_code") }
        let json = HTTPBody.data(Data(#"{"pin_code": "q#4x", "a": 1}"#.utf8), contentType: "application/json")
        _ = try await central.startRequest("POST", server.url("/json"), body: json)
        _ = try await central.startRequest(
            "POST", server.url("/parts"), body: .multipart([UploadFile(name: "pin_code", value: "part-q#4x")]))
        try cassette.eject()
        #expect(text().contains("pin_code") && text().contains("fine"))
        #expect(!text().contains("84711900") && !text().contains("q#4x"), "\(text())")
    }

    /// A replay gives what was received, except for secrets of the server, which keep their type.
    @Test func answersAreReplayedAsReceived() async throws {
        let bodies = [
            #"{"code":0,"message":"ok","data":{"name":"Ada"}}"#, #"{"code":10001, "key":"greeting"}"#,
            #"{ "token":"shipped-today", "status":"shipped-today", "z":1.50, "a":[1e2, null] }"#,
            #"{"token":true,"password":{"required":true,"hint":null},"secret":""}"#, #"{"nonce":"n1","b":"\u4e16"}"#,
            "a=1\r\nb=2", "",
        ]
        let server = try MockServer()
        server.route("GET", "/{n}") { request in
            .json(bodies[Int(request.path.dropFirst()) ?? 0]).header("X-Kept", "https://h/#part")
        }
        var matching = Cassette.Matching()
        matching.varyingParameters = ["nonce"]
        func run(_ mode: Cassette.Mode) async throws -> [HTTPResponse] {
            let (central, _) = try manager(mode, matching)
            var answers: [HTTPResponse] = []
            for n in bodies.indices { answers.append(try await central.startRequest("GET", server.url("/\(n)"))) }
            return answers
        }
        let first = try await run(.once)
        let second = try await run(.none)
        for (n, (one, two)) in zip(first, second).enumerated() {
            let token = #""token":"shipped-today""#
            let expected = n == 2 ? bodies[2].replacing(token, with: #""token":"***1""#) : bodies[n]
            #expect(one.text == bodies[n] && two.text == expected)
            #expect(one.status == two.status && one.headers == two.headers)
        }
    }

    @Test func standInIsTheSameInLaterRequests() async throws {
        let server = try MockServer()
        server.route("POST", "/login") { _ in
            .json(#"{"access_token":"CANARY-7319","session_id":471147,"pin":[1]}"#)
                .header("Set-Cookie", "sid=CANARY-cookie; Path=/; HttpOnly")
        }
        server.route("GET", "/sessions/{id}/{token}") { .json(#"{"you":"\#($0.headers["Authorization"] ?? "")"}"#) }
        server.route("GET", "/echo") { .text("you sent \($0.headers["X-Api-Key"] ?? "")") }
        func run(_ mode: Cassette.Mode) async throws -> [String] {
            let (central, _) = try manager(mode)
            let login = try await central.startRequest("POST", server.url("/login"))
            let json = try login.json()
            let (id, token) = (json["session_id"].int ?? 0, json["access_token"].string ?? "")
            let answer = try await central.startRequest(
                "GET", server.url("/sessions/\(id)/\(token)"), headers: ["Authorization": "Bearer \(token)"])
            #expect(try answer.json()["you"].string == "Bearer \(token)")
            let echo = try await central.startRequest(
                "GET", server.url("/echo"), headers: ["X-Api-Key": "CANARY-mine"])
            #expect(echo.text == "you sent CANARY-mine")
            #expect(login.headers["Set-Cookie"]?.hasSuffix("; Path=/; HttpOnly") == true)
            return ["\(id)", token]
        }
        #expect(try await run(.once) == ["471147", "CANARY-7319"])
        #expect(!text().contains("CANARY") && !text().contains("471147"), "\(text())")
        let again = try await run(.none)
        #expect(again[0].hasPrefix("20000000") && again[1].hasPrefix("***"), "\(again)")
    }

    @Test func recordingRemovesOnlyItsOwnBodies() async throws {
        let server = try MockServer()
        server.fallback { _ in .data(Data(repeating: 0xFF, count: 5_000)) }
        func record() async throws {
            let (central, cassette) = try self.manager(.all)
            _ = try await central.startRequest("GET", server.url())
            try cassette.eject()
        }
        let files = FileManager.default
        let bodies = directory.path(of: "calls.bodies")
        try files.createDirectory(atPath: "\(bodies)/own", withIntermediateDirectories: true)
        let old = "\(bodies)/\(String(repeating: "a", count: 64)).bin"
        for path in ["\(bodies)/own/x", "\(bodies)/notes.txt", old] {
            try Data("x".utf8).write(to: URL(filePath: path))
        }
        try await record()
        #expect(files.fileExists(atPath: "\(bodies)/own/x") && files.fileExists(atPath: "\(bodies)/notes.txt"))
        #expect(!files.fileExists(atPath: old))
        let elsewhere = directory.path(of: "elsewhere")
        try files.moveItem(atPath: bodies, toPath: elsewhere)
        try files.createSymbolicLink(atPath: bodies, withDestinationPath: elsewhere)
        let error = await #expect(throws: NetworkError.self) { try await record() }
        #expect(error?.kind == .storage && error?.message.contains("is a symbolic link") == true)
        #expect(files.fileExists(atPath: "\(elsewhere)/notes.txt"))
        try files.removeItem(atPath: bodies)
    }

    /// The values are too short to be found by value.
    @Test func secretsInStringsOfJSONAreNotWritten() throws {
        let redaction = CassetteRedaction(.standard, Cassette.Matching())
        let link = "[x](https://h/?a=1#s) mail@h"
        let json =
            #"{"text": "{\"password\": \"1234\", \"name\": \"Ada\"}", "form": ["a=1&token=q#7"], "link": "\#(link)", "n": 1.5}"#
        let request = redaction.request(
            "POST", "http://a/", ["Content-Type": "application/json"], .bytes(Data(json.utf8)), .standard)
        let shown = String(decoding: request.body.data, as: UTF8.self)
        #expect(!shown.contains("1234") && !shown.contains("q#7"), "\(shown)")
        #expect(shown.contains(link), "\(shown)")
        #expect(shown.contains("Ada") && shown.contains("a=1&token=***") && shown.contains("1.5"), "\(shown)")
    }

    @Test func binaryBodiesAreComparedByteByByte() async throws {
        let server = try MockServer()
        server.fallback { .data($0.body) }
        let (recording, cassette) = try manager(.once)
        let url = server.url("/")
        _ = try await recording.startRequest("POST", url, body: .data(Data([0xFF, 1, 2])))
        try cassette.eject()
        let (replaying, _) = try manager(.none)
        let message = await refusal {
            _ = try await replaying.startRequest("POST", url, body: .data(Data([0xFF, 1, 9])))
        }
        #expect(message.contains("body from byte 2 on: asked \"9\", recorded \"2\""), "\(message)")
        #expect(
            try await replaying.startRequest("POST", url, body: .data(Data([0xFF, 1, 2]))).data == Data([0xFF, 1, 2]))
    }

    @Test func secretPartsOfLargeOrShortValuesAreNotWritten() {
        let redaction = CassetteRedaction(.standard, Cassette.Matching())
        let part = "--b\r\nContent-Disposition: form-data; name="
        var parts = Data("\(part)\"photo\"; filename=\"p\"\r\n\r\n".utf8)
        parts += Data(repeating: 0xFF, count: 2 << 20)
        parts += Data(
            "\r\n\(part)\"password\"\r\n\r\nlong-hidden-4711\r\n\(part)\"token\"\r\n\r\nq#7\r\n--b--\r\n".utf8)
        let request = redaction.request(
            "POST", "http://a/", ["Content-Type": "multipart/form-data; boundary=b"], .bytes(parts), .standard)
        let shown = request.body.data
        #expect(shown.firstRange(of: Data("hidden".utf8)) == nil && shown.firstRange(of: Data("q#7".utf8)) == nil)
        #expect(
            shown.starts(with: parts.prefix(1 << 20))
                && shown.suffix(16).elementsEqual(Data("\r\n\r\n***\r\n--b--\r\n".utf8.suffix(16))))
    }

    @Test func thousandsOfSecretValuesAreFoundInOnePass() {
        var redactor = Redactor(.standard)
        let members = (0..<20_000).map { #""token":"aaaaaa\#($0)""# }.joined(separator: ",")
        let shown = redactor.text("{\(members)}")
        #expect(!shown.contains("aaaaaa"))
        // Remembered values are found in other texts, even where they overlap.
        #expect(redactor.scrubbed("x aaaaaa17aaaaaa19999 y aaaaaa y aaaaaa1") == "x ****** y aaaaaa y ***")
        #expect(redactor.scrubbed("aaaaaa123456") == "***6")
        _ = redactor.form("token=abcdefgh&secret=efghijkl")
        #expect(redactor.scrubbed("<abcdefghijkl>") == "<***>")
        #expect(redactor.scrubbed(Data("é abcdefgh".utf8)) == Data("é ***".utf8))
    }

    @Test func varyingValuesMatch() async throws {
        let server = try MockServer()
        server.route("POST", "/sign") { _ in .text("fine") }
        var matching = Cassette.Matching()
        matching.varyingParameters = ["nonce"]
        func run(_ mode: Cassette.Mode, _ nonce: String) async throws {
            let (central, _) = try manager(mode, matching)
            _ = try await central.startRequest(
                "POST", server.url("/sign?nonce=\(nonce)&x=1"), body: .json(["nonce": nonce, "y": "2"]))
        }
        try await run(.once, "11")
        #expect(text().contains("nonce={{nonce}}") && text().contains(#""nonce":"{{nonce}}""#), "\(text())")
        try await run(.none, "12")
        #expect(server.requests.count == 1)
        // A placeholder that is written by hand into the file.
        let edited = text().replacing("x=1", with: "x={{any}}")
        try Data(edited.utf8).write(to: URL(filePath: path))
        let (central, _) = try manager(.none, matching)
        _ = try await central.startRequest(
            "POST", server.url("/sign?nonce=13&x=999"), body: .json(["nonce": "13", "y": "2"]))
    }

    @Test func streamsKeepTheirPiecesAndFailures() async throws {
        let server = try MockServer()
        server.route("GET", "/stream") { _ in
            var reply = MockReply(status: 200)
            reply.body = .chunks([Data("one".utf8), Data("two!".utf8)])
            return reply
        }
        server.route("GET", "/cut") { _ in .text(String(repeating: "x", count: 5_000)).closing(afterBytes: 1_000) }
        let closed = try ClosedPort()
        func run(_ mode: Cassette.Mode) async throws -> [String] {
            let (central, _) = try manager(mode)
            var found: [String] = []
            let stream = try await central.stream("GET", server.url("/stream"))
            var bytes = Data()
            for try await chunk in stream.body { bytes += chunk }
            found.append(String(decoding: bytes, as: UTF8.self))
            for url in [server.url("/cut"), "http://127.0.0.1:\(closed.port)/"] {
                let error = await #expect(throws: NetworkError.self) { try await central.startRequest("GET", url) }
                found.append("\(error?.kind.description ?? "") \(error?.response?.data.count ?? -1)")
            }
            let cut = try await central.stream("GET", server.url("/cut"))
            let error = await #expect(throws: NetworkError.self) { for try await _ in cut.body {} }
            found.append(error?.kind.description ?? "")
            return found
        }
        let first = try await run(.once)
        #expect(first[0] == "onetwo!" && first[2].hasPrefix("connect "))
        #expect(try await run(.none) == first)
        #expect(text().contains("kind: connectionLost") && text().contains("pieces: ["), "\(text())")
    }

    /// Throws an error of its own.
    private struct Refusing: Transport {
        struct Refusal: Error {}
        func send(_ request: HTTPRequest) async throws -> HTTPResponse { throw Refusal() }
    }

    @Test func errorOfATransportIsReplayedAsOne() async throws {
        func failure(_ cassette: Cassette) async throws -> NetworkError? {
            var configuration = CentralRequestManager.Configuration()
            configuration.transport = cassette
            let central = try CentralRequestManager(configuration: configuration)
            return await #expect(throws: NetworkError.self) { try await central.startRequest("GET", "http://a.test/") }
        }
        let first = try Cassette(path, transport: Refusing())
        let recorded = try await failure(first)
        #expect(recorded?.kind == .provider && recorded?.message.contains("Refusal()") == true)
        try first.eject()
        let replayed = try await failure(Cassette(path, mode: .none))
        #expect(replayed?.kind == .provider && replayed?.message == recorded?.message)
    }

    @Test func redirectsRetriesAndUploadsAreEntries() async throws {
        let server = try MockServer()
        server.route("GET", "/old") { _ in MockReply(status: 302).header("Location", "/new") }
        server.route("GET", "/new") { _ in .text("here") }
        server.route("PUT", "/busy") { _ in
            server.requests.filter { $0.target == "/busy" }.count == 1 ? MockReply(status: 503) : .text("done")
        }
        server.route("POST", "/parts") { request in .text("\(request.body.count > 0)") }
        func run(_ mode: Cassette.Mode) async throws -> [String] {
            let (central, _) = try manager(mode) {
                $0.retryPolicy = RetryPolicy(retries: 2, statuses: [503], firstWait: .milliseconds(1))
            }
            let stream: HTTPBody = .stream(
                AsyncStream<Data> { continuation in
                    for text in ["a", "b"] { continuation.yield(Data(text.utf8)) }
                    continuation.finish()
                })
            return [
                try await central.startRequest("GET", server.url("/old")).text ?? "",
                try await central.startRequest("PUT", server.url("/busy"), body: .text("x")).text ?? "",
                try await central.startRequest(
                    "POST", server.url("/parts"),
                    body: .multipart([
                        UploadFile(name: "a", value: "1"),
                        UploadFile(name: "f", fileName: "f.bin", data: Data([0, 255])),
                    ])
                ).text ?? "",
                try await central.startRequest("POST", server.url("/parts"), body: stream).text ?? "",
            ]
        }
        let first = try await run(.once)
        #expect(first == ["here", "done", "true", "true"])
        let count = server.requests.count
        #expect(try await run(.none) == first)
        #expect(server.requests.count == count && text().components(separatedBy: "\nrequest:").count - 1 == count)
    }

    @Test func equalRequestsSideBySideGetEachEntryOnce() async throws {
        let server = try MockServer()
        server.route("GET", "/n") { _ in .text("\(server.requests.count)") }
        func run(_ mode: Cassette.Mode) async throws -> [String] {
            let (central, _) = try manager(mode)
            return try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<50 {
                    group.addTask { try await central.startRequest("GET", server.url("/n")).text ?? "" }
                }
                return try await group.reduce(into: []) { $0.append($1) }.sorted()
            }
        }
        let first = try await run(.once)
        #expect(try await run(.none) == first)
        #expect(server.requests.count == 50)
    }

    @Test func orderCountsWhenAskedFor() async throws {
        let server = try MockServer()
        server.route("GET", "/{name}") { _ in .text("x") }
        do {
            let (central, _) = try manager(.once)
            for name in ["a", "b"] { _ = try await central.startRequest("GET", server.url("/\(name)")) }
        }
        var matching = Cassette.Matching()
        matching.order = true
        let (central, _) = try manager(.none, matching)
        let message = await refusal { _ = try await central.startRequest("GET", server.url("/b")) }
        #expect(message.contains("is not the next request, which is in line 6"), "\(message)")
        for name in ["a", "b"] { _ = try await central.startRequest("GET", server.url("/\(name)")) }
    }

    @Test func largeBodiesLieBesideTheFile() async throws {
        let server = try MockServer()
        server.route("GET", "/large") { _ in
            var reply = MockReply(status: 200)
            reply.body = .pattern(byteCount: 3 << 20)
            return reply
        }
        func run(_ mode: Cassette.Mode) async throws -> Data {
            let (central, _) = try manager(mode)
            return try await central.startRequest("GET", server.url("/large")).data
        }
        let first = try await run(.once)
        #expect(first.count == 3 << 20 && text().utf8.count < 2_000)
        #expect(try await run(.none) == first)
        let bodies = try FileManager.default.contentsOfDirectory(atPath: directory.path(of: "calls.bodies"))
        #expect(bodies.count == 1)
        try FileManager.default.removeItem(atPath: directory.path(of: "calls.bodies"))
        let error = #expect(throws: NetworkError.self) { try Cassette(path, mode: .none) }
        #expect(error?.message.contains("calls.yaml:") == true && error?.message.contains("is missing") == true)
    }

    @Test func damagedFileIsRecordedAgain() async throws {
        try Data("version: 1\n---\nrequest:".utf8).write(to: URL(filePath: path))
        let error = #expect(throws: NetworkError.self) { try Cassette(path) }
        #expect(error?.kind == .storage && error?.message.contains("calls.yaml:3: ") == true, "\(error as Any)")
        let server = try MockServer()
        server.route("GET", "/a") { _ in .text("x") }
        for mode in [Cassette.Mode.all, .none] {
            let (central, _) = try manager(mode)
            #expect(try await central.startRequest("GET", server.url("/a")).text == "x")
        }
        #expect(server.requests.count == 1)
    }

    @Test func unwritableFileIsReported() async throws {
        let server = try MockServer()
        server.route("GET", "/a") { _ in .text("x") }
        try Data().write(to: URL(filePath: directory.path(of: "folder")))
        let cassette = try Cassette(directory.path(of: "folder/calls.yaml"))
        var configuration = CentralRequestManager.Configuration()
        configuration.transport = cassette
        let central = try CentralRequestManager(configuration: configuration)
        _ = try await central.startRequest("GET", server.url("/a"))
        let error = #expect(throws: NetworkError.self) { try cassette.eject() }
        #expect(error?.kind == .storage && error?.message.hasSuffix("cannot be written: Not a directory") == true)
    }

    @Test func withoutACassetteNothingIsSent() async throws {
        var configuration = CentralRequestManager.Configuration()
        configuration.transport = Cassette.current
        let central = try CentralRequestManager(configuration: configuration)
        let message = await refusal { _ = try await central.startRequest("GET", "http://127.0.0.1:1/") }
        #expect(message.contains(".cassette(\"name\")"))
    }
}

/// The trait, with the cassette that lies beside this file.
@Suite(.cassette("trait", mode: .none))
struct CassetteTraitTests {
    @Test(arguments: [1, 2]) func recordedResponseIsReplayed(_ number: Int) async throws {
        var configuration = CentralRequestManager.Configuration()
        configuration.transport = Cassette.current
        let central = try CentralRequestManager(configuration: configuration)
        let user = try await central.startRequest("GET", "https://api.example.org/users/\(number)").json()
        #expect(user["name"].string == (number == 1 ? "Ada" : "Grace"))
    }
}
