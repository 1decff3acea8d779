import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct OutcomeTests {
    @Test(arguments: [300, 301, 305, 400, 401, 403, 404, 405, 409, 410, 418, 422, 429, 500, 502, 503, 504, 599, 999])
    func errorStatusIsThrownWithItsResponse(_ status: Int) async throws {
        let server = try MockServer()
        let reply = MockReply(
            status: status, reason: "Told So", headers: ["Content-Type": "text/plain", "X-Why": "because"],
            body: .bytes(Data("the body".utf8)))
        server.fallback { _ in reply }
        let manager = try CentralRequestManager.make()
        let url = server.url("/x")
        let error = await failure { try await manager.startRequest("GET", url) }
        #expect(error?.kind == .httpStatus)
        #expect(error?.response?.status == status)
        #expect(error?.response?.reason == "Told So")
        #expect(error?.response?.headers["X-Why"] == "because")
        #expect(error?.response?.data == Data("the body".utf8))
        #expect(error?.response?.text == "the body")
        #expect(error?.request?.url == url)
        #expect(error?.timings?.total != nil)
        #expect(error?.message.contains("\(status)") == true)

        let recorder = CallRecorder()
        manager.startRequest("GET", url, into: recorder)
        await recorder.end()
        #expect(recorder.error?.kind == .httpStatus)
        #expect(recorder.error?.response?.text == "the body")

        let raw = try await manager.send(HTTPRequest("GET", url))
        #expect(raw.status == status)
        #expect(raw.text == "the body")
    }

    @Test(arguments: [200, 201, 202, 203, 206, 226, 299])
    func every2xxIsASuccess(_ status: Int) async throws {
        let server = try MockServer()
        server.fallback { _ in .text("yes", status: status) }
        let response = try await CentralRequestManager.make().startRequest("GET", server.url())
        #expect(response.status == status)
        #expect(response.isSuccess)
        #expect(response.text == "yes")
    }

    /// RFC 9110 §15.3.7: a part answers a `Range`. Without one its body would pass for the whole.
    @Test(arguments: [
        (206, "bytes 0-4/100", false), (206, "bytes 95-99/*", false), (200, "bytes 0-4/100", false),
        (206, "bytes 0-4/*", false), (206, "bytes=0-4/100", false), (206, "Bytes 0-4", false),
        (206, "bytes 0-4/5", true), (200, "bytes 0-4/5", true), (206, "items 0-4/100", true), (206, "", true),
    ])
    func partIsNoSuccessUnlessItWasAskedFor(_ status: Int, _ range: String, _ isWhole: Bool) async throws {
        let server = try MockServer()
        server.fallback { _ in
            MockReply.text("hello", status: status).header("Content-Range", range.isEmpty ? "0-4/100" : range)
        }
        let manager = try CentralRequestManager.make()
        let url = server.url()
        for call: @Sendable () async throws -> Void in [
            { _ = try await manager.startRequest("GET", url) },
            { _ = try await manager.stream(HTTPRequest("POST", url)) },
            { _ = try await EntityCall(Route("GET", url: url), as: String.self).startRequest(on: manager) },
        ] {
            guard !isWhole else {
                try await call()
                continue
            }
            let error = await failure(of: call)
            #expect(error?.kind == .protocolViolation)
            #expect(
                error?.message.contains("with a part (Content-Range: \(range)) though the whole was requested") == true)
        }
        #expect(try await manager.send(HTTPRequest("GET", url)).text == "hello")
        let asked = range.contains("95") ? "bytes=95-99" : "bytes=0-4"
        var asking = HTTPRequest("GET", url, headers: ["Range": asked])
        #expect(try await manager.startRequest(asking).text == "hello")
        // A status that is named says nothing of the part that the response has.
        asking = HTTPRequest("GET", url)
        asking.acceptedStatuses = [status]
        if isWhole {
            #expect(try await manager.startRequest(asking).text == "hello")
        } else {
            #expect(await failure { try await manager.startRequest(asking) }?.kind == .protocolViolation)
        }
    }

    @Test func unaskedPartsInOneBodyAreNoSuccess() async throws {
        let server = try MockServer()
        server.fallback { _ in
            MockReply.text("hello", status: 206).header("Content-Type", "Multipart/ByteRanges; boundary=b")
        }
        let manager = try CentralRequestManager.make()
        let error = await failure { try await manager.startRequest("GET", server.url()) }
        #expect(error?.kind == .protocolViolation)
        #expect(error?.message.contains("(multipart/byteranges) though the whole was requested") == true)
    }

    /// RFC 9110 §14.4: `Content-Range` says which bytes the body has.
    @Test(arguments: [
        ("bytes=0-199", "bytes 0-4/208", "hello", true), ("bytes=0-199", "bytes 0-199/208", "hello", false),
        ("bytes=0-4", "bytes 100-104/208", "hello", false), ("bytes=-5", "bytes 203-207/208", "hello", true),
        ("bytes=-5", "bytes 0-4/208", "hello", false), ("bytes=-5", "bytes 203-207/*", "hello", true),
        ("bytes=100-", "bytes 100-104/*", "hello", true), ("bytes=100-", "bytes 99-103/*", "hello", false),
        ("bytes=0-1,5-6", "bytes 5-9/208", "hello", true), ("items=0-4", "items 0-9/20", "hello", true),
    ])
    func partIsWhatItsContentRangeSays(_ asked: String, _ range: String, _ text: String, _ isRight: Bool) async throws {
        let server = try MockServer()
        server.route("GET", "/length") { _ in MockReply.text(text, status: 206).header("Content-Range", range) }
        server.route("GET", "/chunks") { _ in
            var reply = MockReply.chunked([Data(text.utf8)]).header("Content-Range", range)
            reply.status = 206
            return reply
        }
        let manager = try CentralRequestManager.make()
        for path in ["/length", "/chunks"] {
            let request = HTTPRequest("GET", server.url(path), headers: ["Range": asked])
            for call: @Sendable () async throws -> Void in [
                { _ = try await manager.startRequest(request) },
                { for try await _ in try await manager.stream(request).body {} },
            ] {
                if isRight { try await call() } else { #expect(await failure(of: call)?.kind == .protocolViolation) }
            }
        }
    }

    @Test func emptyBodiesAreSuccesses() async throws {
        let server = try MockServer()
        server.route("GET", "/204") { _ in .status(204) }
        server.route("GET", "/304") { _ in MockReply(status: 304, headers: ["ETag": "\"x\""]) }
        server.route("GET", "/empty") { _ in .json("") }
        server.route("GET", "/chunked") { _ in .chunked([]) }
        server.route("HEAD", "/head") { _ in .text("not sent") }
        let manager = try CentralRequestManager.make()
        for (method, path, status) in [
            ("GET", "/204", 204), ("GET", "/304", 304), ("GET", "/empty", 200), ("GET", "/chunked", 200),
            ("HEAD", "/head", 200),
        ] {
            let response = try await manager.startRequest(method, server.url(path))
            #expect(response.status == status)
            #expect(response.data.isEmpty)
            #expect(response.text == "")
        }
        #expect(try await manager.startRequest("HEAD", server.url("/head")).headers["Content-Length"] == "8")
        #expect(server.acceptedConnections == 1)
    }

    @Test func whitespaceBodyIsASuccess() async throws {
        let server = try MockServer()
        server.fallback { _ in .json(" ") }
        let response = try await CentralRequestManager.make().startRequest("GET", server.url())
        #expect(response.text == " ")
    }

    private struct Order: Decodable {
        struct Item: Decodable { let price: Double }
        let items: [Item]
    }

    @Test func decodingErrorNamesThePath() async throws {
        let server = try MockServer()
        server.fallback { _ in .json(#"{"items": [{"price": 1}, {"price": "two"}]}"#) }
        let response = try await CentralRequestManager.make().startRequest("GET", server.url())
        let error = #expect(throws: NetworkError.self) { try response.decode(Order.self) }
        #expect(error?.kind == .decoding(path: "items[1].price"))
        #expect(error?.response?.data == response.data)
        #expect(error?.underlying is DecodingError)
    }

    @Test(arguments: [
        (Data("<html>".utf8), "text/html"), (Data(#"{"a": "#.utf8), "application/json"), (Data(), "application/json"),
        (Data([0xFF, 0xFE, 0x00]), "application/octet-stream"),
    ])
    func nonJSONBodyIsADecodingError(_ body: Data, _ type: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .data(body, contentType: type) }
        let response = try await CentralRequestManager.make().startRequest("GET", server.url())
        let error = #expect(throws: NetworkError.self) { try response.json() }
        #expect(error?.kind == .decoding(path: ""))
        #expect(error?.response?.status == 200)
        #expect(throws: NetworkError.self) { try response.decode(Order.self) }
    }

    @Test func jsonIsDecodedWhateverTheContentType() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("[1, true, null]") }
        let response = try await CentralRequestManager.make().startRequest("GET", server.url())
        #expect(try response.json()[0].int == 1)
        #expect(try response.json()[2].isNull)
        #expect(try response.decode([JSONValue].self).count == 3)
    }

    @Test func errorDescriptionsContainNoSecrets() async throws {
        let server = try MockServer()
        server.route("GET", "/status") { _ in .status(401) }
        server.route("GET", "/loop") { _ in .redirect(to: "/loop?token=hunter2") }
        server.route("GET", "/away") { _ in .redirect(to: "ftp://user:hunter2@h/?token=hunter2") }
        server.route("GET", "/broken") { _ in .raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf") }
        server.route("GET", "/slow") { _ in .text("").stalling(.start) }
        let manager = try CentralRequestManager.make {
            $0.headers = ["Authorization": "Bearer hunter2"]
            $0.resolve = ["unknown.test:80": "127.0.0.1"]
        }
        let closed = try ClosedPort()
        let authority = "http://user:hunter2@127.0.0.1:\(server.port)"
        var errors: [NetworkError?] = []
        for url in [
            "\(authority)/status?token=hunter2#hunter2", "\(authority)/loop?token=hunter2", "\(authority)/away",
            "\(authority)/broken?token=hunter2", "\(authority)/slow?token=hunter2",
            "http://user:hunter2@127.0.0.1:\(closed.port)/?token=hunter2",
            "http://user:hunter2@h:99999/?token=hunter2", "http://user:hunter2@[::1/?token=hunter2",
            "ftp://user:hunter2@h/?token=hunter2", "/relative?token=hunter2",
        ] {
            errors.append(
                await failure {
                    try await manager.startRequest(
                        "GET", url, parameters: ["password": "hunter2"], timeout: .milliseconds(200))
                })
        }
        #expect(errors.compactMap { $0 }.count == 10)
        for error in errors.compactMap({ $0 }) {
            #expect(!"\(error)".contains("hunter2"), "\(error)")
            #expect(!String(reflecting: error).contains("hunter2"), "\(error)")
            #expect(!error.message.contains("hunter2"), "\(error)")
            #expect(error.message.count > 20, "\(error)")
        }
    }

    @Test(arguments: ["pa/hunter2", "pa#hunter2", "pa?hunter2", "hunter2 b"])
    func passwordInAMalformedURLIsNotShown(_ password: String) async throws {
        let manager = try CentralRequestManager.make()
        let error = await failure {
            try await manager.startRequest("GET", "http://user:\(password)@127.0.0.1:1/x", timeout: .milliseconds(200))
        }
        #expect(error.map { "\($0)" }?.contains("hunter2") == false, "\(error.map { "\($0)" } ?? "")")
    }

    @Test func networkFailuresHaveTheirOwnKinds() async throws {
        let server = try MockServer()
        server.route("GET", "/head") { _ in .text("x").stalling(.beforeHead) }
        server.route("GET", "/body") { _ in .text("hello").stalling(.afterBodyBytes(2)) }
        server.route("GET", "/reset") { _ in .text("hello").resetting(afterBytes: 30) }
        server.route("GET", "/short") { _ in .text("hello").announcingLength(10) }
        server.route("GET", "/garbage") { _ in .raw("what is this\r\n\r\n") }
        server.route("GET", "/big") { _ in .pattern(byteCount: 100_000) }
        // The resolver itself refuses a label of more than 63 bytes, without a DNS query.
        let longName = "http://" + String(repeating: "a", count: 64) + ".invalid/"
        let closed = try ClosedPort()
        let full = try FullBacklogListener()
        let manager = try CentralRequestManager.make {
            $0.connectTimeout = .seconds(2)
            $0.idleTimeout = .seconds(2)
            $0.maxBodySize = 50_000
        }
        let patient = try CentralRequestManager.make { $0.maxBodySize = 50_000 }
        let expected: [(String, Duration?, NetworkError.Kind, Int?)] = [
            (closed.url(), nil, .connect, 7), (full.url(), nil, .timeout(.connect), 28),
            (server.url("/head"), .milliseconds(300), .timeout(.total), 28),
            // The reset is told to whoever uses the connection next: 55 (send) or 56 (receive).
            (server.url("/body"), nil, .timeout(.idle), nil), (server.url("/reset"), nil, .connectionLost, nil),
            (server.url("/short"), nil, .connectionLost, 18), (server.url("/garbage"), nil, .protocolViolation, nil),
            (server.url("/big"), nil, .bodyTooLarge, nil), (longName, nil, .dns, 6),
        ]
        for (url, timeout, kind, code) in expected {
            let needsLimits = kind == .timeout(.connect) || kind == .timeout(.idle)
            let error = await failure {
                try await (needsLimits ? manager : patient).startRequest("GET", url, timeout: timeout)
            }
            #expect(error?.kind == kind, "\(url): \(error.map { "\($0)" } ?? "")")
            if let code { #expect(error?.curlCode == code, "\(url)") }
            #expect(error?.request?.method == .get)
            #expect(error?.attempts == 1)
        }
    }

    @Test func truncatedBodyIsKeptInTheError() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("hello").announcingLength(10) }
        let manager = try CentralRequestManager.make()
        let error = await failure { try await manager.startRequest("GET", server.url()) }
        #expect(error?.kind == .connectionLost)
        #expect(error?.response?.status == 200)
        #expect(error?.response?.text == "hello")
    }

    @Test func cacheOnlyMissFailsUnsent() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make { $0.cacheStorage = .memory }
        let error = await failure { try await manager.startRequest("GET", server.url(), cache: .cacheOnly) }
        #expect(error?.kind == .cache)
        #expect(server.acceptedConnections == 0)
        server.fallback { _ in .text("network") }
        for policy in [
            CachePolicy.networkOnly, .writeOnly, .cacheElseNetwork(.forever), .cacheThenNetwork, .networkElseCache,
            .http,
        ] {
            try await manager.cache.removeAll()
            #expect(try await manager.startRequest("GET", server.url(), cache: policy).source == .network)
        }
    }

    @Test func textIsDecodedInTheDeclaredCharset() async throws {
        let server = try MockServer()
        let bodies: [(String, [UInt8], String?)] = [
            ("text/plain; charset=GBK", [0xC4, 0xE3, 0xBA, 0xC3], "你好"),
            ("text/plain; charset=gb18030", [0xC4, 0xE3, 0x81, 0x30, 0x8B, 0x37], "你ÿ"),
            ("text/plain; charset=ISO-8859-1", [0x63, 0x61, 0x66, 0xE9], "café"),
            ("text/plain; charset=\"utf-8\"", [0xEF, 0xBB, 0xBF, 0x68, 0x69], "hi"),
            ("text/plain", [0x68, 0xC3, 0xA9], "hé"), ("text/plain; charset=x-unheard-of", [0x68], nil),
        ]
        let manager = try CentralRequestManager.make()
        for (type, bytes, text) in bodies {
            server.enqueue(.data(Data(bytes), contentType: type))
            #expect(try await manager.startRequest("GET", server.url()).text == text, "\(type)")
        }
    }
}
