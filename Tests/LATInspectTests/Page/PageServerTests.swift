import FoundationEssentials
import Glibc
import LATTesting
import Platform
import TestSupport
import Testing

@testable import LATInspect

@Suite(.timeLimit(.minutes(2))) struct PageServerTests {
    // MARK: Access

    @Test(
        arguments: [
            (["Host": "evil.test"], 403), (["Host": "127.0.0.1:1"], 403), (["Origin": "http://evil.test"], 403),
            (["Origin": "null"], 403), (["Sec-Fetch-Site": "cross-site"], 403), (["Authorization": "Bearer x"], 401),
            (["Cookie": "lat-inspector=x"], 401), ([:], 401),
        ] as [([String: String], Int)])
    func requestFromElsewhereIsRefused(_ headers: [String: String], _ status: Int) async throws {
        let inspected = try InspectedManager()
        let central = try CentralRequestManager(configuration: CentralRequestManager.Configuration())
        for path in ["/hello", "/stream", "/calls/1", "/calls/1/body?side=response&entry=0", "/calls/1/copy?as=curl"] {
            var request = HTTPRequest("GET", inspected.url(path))
            // A key does not help a page of another origin.
            if status != 401 { request.headers["Authorization"] = "Bearer \(inspected.token)" }
            for (name, value) in headers { request.headers[name] = value }
            #expect(try await central.send(request).status == status, "\(path)")
        }
    }

    @Test func keyGivesACookieForASecretPathOnly() async throws {
        let inspected = try InspectedManager()
        let central = try CentralRequestManager(configuration: CentralRequestManager.Configuration())
        let wrong = try await central.send(HTTPRequest("POST", inspected.url("/session"), body: .text("x")))
        #expect(wrong.status == 401)
        let session = try await central.send(
            HTTPRequest("POST", inspected.url("/session"), body: .text(inspected.token)))
        #expect(session.status == 200)
        let cookie = try #require(session.headers["Set-Cookie"])
        let port = try #require(inspected.address.split(separator: ":").last?.prefix { $0 != "/" })
        #expect(cookie.hasPrefix("lat-inspector-\(port)="))
        #expect(cookie.hasSuffix("; HttpOnly; SameSite=Strict"))
        #expect(!cookie.contains(inspected.token))
        let home = try #require(session.text)
        #expect(home.count > 30 && cookie.contains("; Path=\(home);"))
        for (path, status) in [(home, 200), ("/", 401), ("\(home.dropLast())x/", 401)] {
            let hello = try await central.send(
                HTTPRequest(
                    "GET", inspected.url("\(path)hello"), headers: ["Cookie": String(cookie.prefix { $0 != ";" })]))
            #expect(hello.status == status, "\(path)")
        }
        let page = try await central.send(HTTPRequest("GET", inspected.url(home)))
        #expect(page.headers["Content-Security-Policy"]?.hasPrefix("default-src 'none'; script-src 'self';") == true)
    }

    @Test func everyFileOfThePageIsServed() async throws {
        let inspected = try InspectedManager()
        let central = try CentralRequestManager(configuration: CentralRequestManager.Configuration())
        let tests = URL(filePath: #filePath).deletingLastPathComponent()
        let folder = tests.appending(path: "../../../Sources/AddOns/LATInspect/Page/Files")
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { !$0.hasPrefix(".") }
        #expect(Set(names) == Set(pageFiles.keys))
        for name in names {
            let response = try await central.send(HTTPRequest("GET", inspected.url("/\(name)")))
            #expect(response.status == 200)
            #expect(response.data == (try Data(contentsOf: folder.appending(path: name))), "\(name)")
        }
    }

    @Test func filesOfThePageAddUpToLessThan96KB() {
        #expect(pageFiles.values.reduce(0) { $0 + $1.count } < 96_000)
    }

    @Test func bodiesAreSearched() async throws {
        let inspected = try InspectedManager()
        inspected.server.fallback { request in .json(#"{"path":"\#(request.path)","name":"Ädä","code":"secretCANARY"}"#)
        }
        for path in ["/one", "/two"] {
            _ = try await inspected.manager.startRequest(
                "POST", inspected.server.url(path), body: .json(["sent": "Sent\(path)", "password": "CANARY-1"]))
        }
        let ids = try await inspected.stream(calls: 2).compactMap { $0["id"].int }
        func found(_ text: String) async throws -> [JSONValue] {
            try await inspected.ask("GET", "/search?text=\(text)").json().array ?? []
        }
        #expect(try await found("/TWO") == [.int(Int64(ids[1]))])
        #expect(try await found("sent/one") == [.int(Int64(ids[0]))])
        #expect(try await found("%C3%A4d%C3%A4").count == 2)
        #expect(try await found("nowhere").isEmpty)
        // What is not kept is not found.
        #expect(try await found("CANARY-1").isEmpty)
    }

    @Test func requestIsSentAgainWithEdits() async throws {
        let inspected = try InspectedManager()
        inspected.server.echo()
        _ = try await inspected.manager.startRequest(
            "GET", inspected.server.url("/anything"), headers: ["Authorization": "Bearer CANARY"])
        func resend(_ body: String) async throws -> HTTPResponse {
            try await inspected.ask("POST", "/resend", body: body)
        }
        let url = inspected.server.url("/anything?again=1")
        let refused = try await resend(
            #"{"method":"GET","url":"\#(url)","headers":[["Authorization","***"]],"body":""}"#)
        #expect(
            refused.status == 400
                && refused.text?.hasPrefix("*** in the field Authorization stands for a secret") == true)
        #expect(try await resend("{}").status == 400 && inspected.server.requests.count == 1)
        let sent = try await resend(
            #"{"method":"PUT","url":"\#(url)","headers":[["X-New","n"],["Host","evil"],["Content-Length","1"]],"body":"two"}"#
        )
        #expect(sent.status == 200)
        let calls = try await inspected.stream(calls: 2)
        #expect(calls.map { $0["method"].string } == ["GET", "PUT"])
        let request = try #require(inspected.server.requests.last)
        #expect(
            request.text == "two" && request.headers["X-New"] == "n"
                && request.headers["Host"]?.contains("evil") == false)
        let bytes = Data([0, 255]).base64EncodedString()
        _ = try await resend(#"{"method":"PUT","url":"\#(url)","headers":[],"body":"","base64":"\#(bytes)"}"#)
        _ = try await inspected.stream(calls: 3)
        #expect(inspected.server.requests.last?.body == Data([0, 255]))
    }

    @Test func requestIsSentAgainByItsManager() async throws {
        let inspected = try InspectedManager { configuration in
            configuration.headerProvider = { _ in ["Authorization": "Bearer CANARY"] }
        }
        inspected.server.echo()
        let url = inspected.server.url("/anything")
        _ = try await inspected.manager.startRequest("GET", url)
        let call = try #require(try await inspected.stream(calls: 1).first?["id"].int)
        let edited = #"{"call":\#(call),"entry":0,"method":"PUT","url":"\#(url)?b","headers":[],"body":"two"}"#
        #expect(try await inspected.ask("POST", "/resend", body: edited).status == 200)
        #expect(try await inspected.stream(calls: 2).count == 2)
        try await eventually { inspected.server.requests.count == 2 }
        let request = try #require(inspected.server.requests.last)
        #expect(request.text == "two" && request.headers["Authorization"] == "Bearer CANARY")
    }

    @Test func partOfABodyIsNotSentAgain() async throws {
        let inspected = try InspectedManager()
        inspected.server.echo()
        let folder = try TemporaryDirectory()
        let file = try folder.write(Data("content of a file".utf8), to: "f")
        let url = inspected.server.url("/anything")
        let bodies: [HTTPBody] = [.text(String(repeating: "a", count: 400_000)), .file(file)]
        for body in bodies { _ = try await inspected.manager.startRequest("POST", url, body: body) }
        let calls = try await inspected.stream(calls: 2).compactMap { $0["id"].int }
        func resend(_ call: Int, _ body: String) async throws -> HTTPResponse {
            let edited: JSONValue = [
                "call": .int(Int64(call)), "entry": 0, "method": "POST", "url": .string(url), "headers": [],
                "body": .string(body),
            ]
            return try await inspected.ask("POST", "/resend", body: edited.description)
        }
        let cut = try await resend(calls[0], String(repeating: "a", count: 262_144) + "b")
        #expect(cut.status == 400 && cut.text?.hasPrefix("Only the beginning of this body is kept.") == true)
        let lost = try await resend(calls[1], "")
        #expect(lost.status == 400 && lost.text?.hasPrefix("This body is not kept: the file") == true)
        #expect(inspected.server.requests.count == 2)
        #expect(try await resend(calls[0], "another").status == 200)
        #expect(try await resend(calls[1], "another").status == 200)
        try await eventually { inspected.server.requests.count == 4 }
        #expect(inspected.server.requests.suffix(2).allSatisfy { $0.text == "another" })
    }

    @Test func usedPortErrorIsOneSentence() throws {
        let server = try MockServer()
        do {
            try Inspector().start(port: server.port)
            Issue.record("the port is used twice")
        } catch let error as NetworkError {
            #expect(error.message.hasPrefix("port \(server.port) of 127.0.0.1 is in use by another program; give"))
        }
        #expect(throws: NetworkError.self) { try Inspector().start(port: 70_000) }
    }

    @Test(arguments: ["", "GET /hello HTTP/1.1\r\n", "POST /copy HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"])
    func unfinishedRequestsKeepNobodyOut(_ beginning: String) async throws {
        let inspected = try InspectedManager()
        var sockets: [Int32] = []
        defer { for socket in sockets { close(socket) } }
        // Connections are accepted in this order, so those at the end are the newest when the page is asked.
        for _ in 0..<3 * LoopbackServer.maxConnections { sockets.append(try connection(to: inspected, beginning)) }
        for _ in 0..<5 { #expect(try await inspected.ask("GET", "/hello").status == 200) }
        // The first ones have been closed, and the last one is still open.
        var byte: UInt8 = 0
        #expect(recv(sockets[0], &byte, 1, 0) <= 0)
        #expect(recv(try #require(sockets.last), &byte, 1, Int32(MSG_DONTWAIT)) == -1 && errno == EAGAIN)
    }

    @Test(arguments: ["", "127.0.0.1", "evil.test"]) func secondHostIsRefused(_ second: String) async throws {
        let inspected = try InspectedManager()
        let port = try #require(URL(string: inspected.address)?.port)
        let socket = try connection(
            to: inspected, "GET / HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nhost: \(second)\r\n\r\n")
        defer { close(socket) }
        var answer = [UInt8](repeating: 0, count: 4_096)
        let count = recv(socket, &answer, answer.count, 0)
        #expect(String(decoding: answer.prefix(max(0, count)), as: UTF8.self).hasPrefix("HTTP/1.1 400 "))
    }

    /// A connection that has sent these bytes.
    private func connection(to inspected: InspectedManager, _ text: String) throws -> Int32 {
        let port = try #require(URL(string: inspected.address)?.port)
        let address = try #require(SocketAddress(host: [127, 0, 0, 1], port: UInt16(port)))
        let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        try #require(socket >= 0 && address.call(connect, socket))
        _ = Array(text.utf8).withUnsafeBytes { Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        return socket
    }

    @Test func oldestWaitingConnectionMakesRoom() {
        var room = ConnectionRoom(limit: 3)
        var places: [ConnectionRoom.Place?] = []
        for connection in 1...3 as ClosedRange<Int32> { places.append(room.take(connection)) }
        room.hasRequest(1)
        places += [room.take(4), room.take(5)]
        #expect(places == [.init(), .init(), .init(), .init(closed: 2), .init(closed: 3)])
        room.hasRequest(4)
        // One that has to end is no longer answered.
        room.hasRequest(2)
        room.hasRequest(5)
        let refused = room.take(6)
        #expect(refused == nil && Set(room.all) == [1, 2, 3, 4, 5])
        room.remove(1)
        let taken = room.take(6)
        #expect(taken == .init())
        for connection in [2, 3, 4, 5, 6] as [Int32] { room.remove(connection) }
        #expect(room.all.isEmpty)
    }

    @Test func stoppedPageLetsGoOfItsPort() async throws {
        let inspector = Inspector()
        let reserved = try ReservedPort()
        let address = try inspector.start(port: reserved.port)
        #expect(try inspector.start() == address)
        inspector.stop()
        var again: String?
        try await eventually("the released port") {
            again = try? inspector.start(port: reserved.port)
            return again != nil
        }
        #expect(again != address)
    }

    // MARK: The stream

    @Test func streamSendsCallsAsTheyEnd() async throws {
        let inspected = try InspectedManager {
            $0.retryPolicy = RetryPolicy(retries: 1, statuses: [503], firstWait: .zero)
        }
        inspected.server.enqueue(.status(503), .redirect(to: "/end"), .json(#"{"a":1}"#), .status(404), .noReply)
        let url = inspected.server.url("/start?q=1")
        _ = try await inspected.manager.startRequest("GET", url, tag: "t")
        _ = try? await inspected.manager.startRequest("POST", url, body: .text("abc"))
        _ = try? await inspected.manager.startRequest("POST", url)
        let calls = try await inspected.stream(calls: 3)
        #expect(calls.map { $0["state"].string } == ["done", "done", "failed"])
        #expect(calls.map { $0["status"].int } == [200, 404, nil])
        #expect(calls.map { $0["errorKind"].string } == [nil, "httpStatus", "connectionLost"])
        #expect(calls[0]["url"].string == url)
        #expect(calls[0]["tag"].string == "t")
        #expect(calls[0]["responseSize"].int == 7)
        #expect(calls[1]["requestSize"].int == 3)
        let spans = try #require(calls[0]["spans"].array)
        #expect(Set(spans.compactMap { $0["attempt"].int }) == [1, 2])
        #expect(spans.contains { $0["hop"].int == 1 })
        #expect(spans.contains { $0["kind"].string == "retry" })
        #expect(spans.contains { $0["kind"].string == "connect" })
        let whole = try #require(calls[0]["duration"].double)
        #expect(spans.allSatisfy { ($0["start"].double ?? -1) >= 0 })
        #expect(spans.allSatisfy { ($0["start"].double ?? 0) + ($0["duration"].double ?? 0) <= whole + 0.01 })

        let id = "\(calls[0]["id"].int ?? 0)"
        let details = try await inspected.ask("GET", "/calls/\(id)").decode(JSONValue.self)
        #expect(details["entries"].array?.map { $0["response"]["status"].int } == [503, 302, 200])
        #expect(details["entries"][0]["request"]["queryString"][0]["name"].string == "q")
        let body = try await inspected.ask("GET", "/calls/\(id)/body?side=response&entry=2")
        #expect(body.body.data == Data(#"{"a":1}"#.utf8))
        #expect(body.headers["X-Body-Type"] == "application/json")
        #expect(try await inspected.ask("GET", "/calls/999999999").status == 404)
    }

    @Test func slowPageLosesNoState() async throws {
        let inspected = try InspectedManager(limits: Inspector.Limits(calls: 100))
        inspected.server.fallback { _ in .text("x") }
        let central = try CentralRequestManager(configuration: CentralRequestManager.Configuration())
        // A page that does not read.
        let slow = try await central.stream(
            "GET", inspected.url("/stream"), headers: ["Authorization": "Bearer \(inspected.token)"])
        for _ in 0..<1_000 { _ = try await inspected.manager.startRequest("GET", inspected.server.url()) }
        #expect(inspected.inspector.calls.ids.count == 100)
        var numbers: Set<Int> = []
        for try await line in slow.body.lines where line.hasPrefix("data: [") {
            for call in try JSONValue(parsing: Data(line.dropFirst(6).utf8)).array ?? []
            where call["state"].string == "done" {
                numbers.insert(call["number"].int ?? 0)
            }
            if numbers.isSuperset(of: Set<Int>(901...1_000)) { break }
        }
        #expect(numbers.isSuperset(of: Set<Int>(901...1_000)))
    }

    @Test func memoryIsBoundedByBytes() async throws {
        let inspected = try InspectedManager(limits: Inspector.Limits(bytes: 4 << 20))
        inspected.server.fallback { _ in
            .data(Data(repeating: 0x61, count: 40 << 10), contentType: "text/plain")
        }
        for _ in 0..<300 { _ = try await inspected.manager.startRequest("GET", inspected.server.url()) }
        #expect(inspected.inspector.calls.byteCount <= 4 << 20)
        #expect((50...120).contains(inspected.inspector.calls.ids.count))
        // Of a large body only the beginning stays.
        let size = 20 << 20
        inspected.server.enqueue(.data(Data(repeating: 0x62, count: size), contentType: "text/plain"))
        _ = try await inspected.manager.startRequest("GET", inspected.server.url())
        let id = try #require(inspected.inspector.calls.ids.last)
        let response = try await inspected.ask("GET", "/calls/\(id)/body?side=response&entry=0")
        #expect(response.headers["X-Body-Size"] == "\(size)")
        #expect(response.body.data?.count == 256 << 10)
        #expect(response.headers["X-Note"]?.hasPrefix("Only%20the%20beginning") == true)
        try await eventually("the bytes within the limit") { inspected.inspector.calls.byteCount <= 4 << 20 }
    }

    @Test func bodiesOfFailuresAndFormsCount() async throws {
        let inspected = try InspectedManager(limits: Inspector.Limits(bytes: 4 << 20)) { $0.maxConnectionsPerHost = 2 }
        let body = Data(repeating: 0x61, count: 40 << 10)
        inspected.server.fallback { request in
            request.method == "POST" ? .status(204) : .data(body, status: 404)
        }
        let (calls, manager) = (inspected.inspector.calls, inspected.manager)
        for _ in 0..<200 { _ = try? await manager.startRequest("GET", inspected.server.url()) }
        #expect((50...120).contains(calls.ids.count))
        let files = [UploadFile(name: "f", fileName: "f.bin", data: body)]
        for _ in 0..<200 { _ = try await manager.startRequest("POST", inspected.server.url(), files: files) }
        #expect((50...120).contains(calls.ids.count) && calls.byteCount <= 4 << 20)
    }

    @Test(arguments: ["_encoding", "encoding"])
    func binaryBodyOfAFileIsCopiedAsBytes(name: String) async throws {
        let recorder = HARRecorder()
        let manager = try CentralRequestManager.make {
            $0.accessories = [recorder]
            $0.transport = Echo()
        }
        let body = HTTPBody.data(Data([0, 255, 1]), contentType: "image/png")
        _ = try await manager.startRequest("POST", "http://a.test/", body: body)
        let entry = try JSONValue(parsing: recorder.data())["log"]["entries"][0]["request"]
        let sent = try #require(entry).description
        #expect(sent.contains("\"_encoding\""))
        let copy = try await InspectedManager().ask(
            "POST", "/copy?as=curl", body: sent.replacing("\"_encoding\"", with: "\"\(name)\""))
        #expect(copy.text?.hasPrefix("echo AP8B | base64 -d | curl ") == true)
    }

    // MARK: Secrets

    @Test func secretsAreInNoneOfItsAnswers() async throws {
        let canary = "canary-4f1d9c"
        let inspected = try InspectedManager { $0.headers = ["Authorization": "Bearer \(canary)"] }
        inspected.server.fallback { _ in
            var reply = MockReply.json(#"{"access_token": "\#(canary)", "name": "Ada"}"#)
            reply.headers["Set-Cookie"] = "session=\(canary)"
            reply.headers["Location"] = "/next?token=\(canary)"
            return reply
        }
        let url = inspected.server.url("/login?access_token=\(canary)&page=1")
        _ = try await inspected.manager.startRequest(
            "POST", url, body: .json(["password": canary, "user": "ada"]), headers: ["X-Api-Key": canary])
        _ = try await inspected.manager.startRequest("POST", url, body: .form(["password": canary]))
        _ = try? await inspected.manager.startRequest(
            "GET", "http://127.0.0.1:1/?token=\(canary)", headers: ["Cookie": "a=\(canary)"])
        let text = try await PageReader(address: inspected.address).everything(calls: 3)
        #expect(text.contains("Ada"))
        #expect(!text.contains(canary))
    }
}
