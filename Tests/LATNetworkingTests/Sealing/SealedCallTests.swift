import FoundationEssentials
import LATNetworking
import LATTesting
import Synchronization
import TestSupport
import Testing

/// Sealed calls against a server that opens requests and seals replies.
@Suite(.timeLimit(.minutes(2))) struct SealedCallTests {
    static let key = Data((0..<32).map { UInt8($0) })

    let server: MockServer
    let opened = Log<SealingPeer.Request>()
    let directory: TemporaryDirectory

    init() throws {
        server = try MockServer()
        directory = try TemporaryDirectory()
    }

    /// Replies to sealed requests with sealed replies, and with 400 to those that it cannot open.
    private func serve(
        _ peer: SealingPeer,
        _ answer: @escaping @Sendable (SealingPeer.Request) -> (status: Int, json: String) = { _ in
            (200, #"{"secret":"reply"}"#)
        }, change: @escaping @Sendable (MockReply) -> MockReply = { $0 }
    ) {
        server.fallback { [opened] request in
            do {
                let message = try peer.open(
                    method: request.method, target: request.target, headers: request.headers, body: request.body)
                opened.append(message)
                let (status, json) = answer(message)
                let reply = try peer.seal(
                    Data(json.utf8), contentType: "application/json", status: status, to: message)
                return change(
                    MockReply(
                        status: status, headers: reply.headers, body: reply.body.isEmpty ? .none : .bytes(reply.body)))
            } catch {
                return .text("\(error)", status: 400)
            }
        }
    }

    private func sealer(_ keys: [String: Data] = ["k1": key], _ current: String = "k1") throws -> AESGCMSealer {
        try AESGCMSealer(keys: keys, current: current)
    }

    private func peer(_ keys: [String: Data] = ["k1": key], _ current: String = "k1") throws -> SealingPeer {
        SealingPeer(try sealer(keys, current))
    }

    private func manager(
        _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        let sealer = try sealer()
        return try CentralRequestManager.make {
            $0.sealer = sealer
            change(&$0)
        }
    }

    // MARK: Sealing and opening

    @Test func contentIsSealedAndRepliesAreOpened() async throws {
        serve(try peer())
        let manager = try manager()
        let response = try await manager.startRequest(
            "POST", server.url("/v1/orders"), parameters: ["card": "4111 1111"], headers: ["X-A": "1"])
        #expect(try response.json()["secret"].string == "reply")
        #expect(response.headers["Content-Type"] == "application/json")
        let wire = try #require(server.requests.first)
        #expect(wire.headers[values: "Content-Type"] == ["application/vnd.lat.sealed"] && wire.headers["X-A"] == "1")
        #expect(wire.body.starts(with: "LATS".utf8) && wire.body.firstRange(of: Data("4111".utf8)) == nil)
        let message = try #require(opened.elements.first)
        #expect(message.body == Data(#"{"card":"4111 1111"}"#.utf8) && message.contentType == "application/json")
        #expect(message.keyID == "k1" && message.method == "POST")
    }

    @Test func requestWithoutContentIsSealedInAHeader() async throws {
        serve(try peer()) { ($0.method == "DELETE" ? 204 : 200, $0.method == "GET" ? "[1]" : "") }
        let manager = try manager()
        let get = try await manager.startRequest("GET", server.url("/a b/ü"), parameters: ["q": "x y"])
        #expect(try get.json()[0].int == 1)
        let head = try await manager.startRequest("HEAD", server.url("/x"))
        #expect(head.status == 200 && head.data.isEmpty && head.headers["Sealed-Message"] == nil)
        #expect(try await manager.startRequest("DELETE", server.url("/x")).status == 204)
        #expect(server.requests.allSatisfy { $0.body.isEmpty && $0.headers["Sealed-Message"] != nil })
        #expect(opened.elements.map(\.target) == ["/a%20b/%C3%BC?q=x%20y", "/x", "/x"])
        #expect(opened.elements.allSatisfy { $0.body == nil })
    }

    @Test func filesAndEncodedValuesAreSealed() async throws {
        serve(try peer())
        let manager = try manager()
        let path = try directory.write(Data("from disk".utf8), to: "a.txt")
        _ = try await manager.startRequest("PUT", server.url(), body: .file(path))
        _ = try await manager.startRequest("PUT", server.url(), body: .json(["a": 1]))
        _ = try await manager.startRequest("PUT", server.url(), body: .data(Data(), contentType: "x/y"))
        #expect(
            opened.elements.map { String(decoding: $0.body ?? Data(), as: UTF8.self) } == [
                "from disk", #"{"a":1}"#, "",
            ])
        #expect(opened.elements.map(\.contentType) == ["text/plain", "application/json", "x/y"])
    }

    @Test func unsealableBodyIsNotSent() async throws {
        let manager = try manager()
        let chunks = AsyncStream<Data> { $0.finish() }
        for body in [.stream(chunks), .multipart([UploadFile(name: "a", value: "b")])] as [HTTPBody] {
            let error = await failure(of: { try await manager.startRequest("POST", server.url(), body: body) })
            #expect(error?.kind == .invalidRequest && error?.message.contains("unsealed") == true)
        }
        let missing = HTTPBody.file(directory.path(of: "missing"))
        let error = await failure(of: { try await manager.startRequest("POST", server.url(), body: missing) })
        #expect(error?.kind == .requestBody)
        #expect(server.acceptedConnections == 0)
    }

    @Test func streamIsOpenedBeforeItIsDelivered() async throws {
        serve(try peer(), { _ in (200, "line 1\nline 2") })
        let manager = try manager()
        var lines: [String] = []
        for try await line in try await manager.stream("GET", server.url()).body.lines { lines.append(line) }
        #expect(lines == ["line 1", "line 2"])
        var request = HTTPRequest("GET", server.url())
        request.streamsBody = true
        request.maxBodySize = 20
        let small = request
        #expect(await failure(of: { try await manager.send(small) })?.kind == .bodyTooLarge)
    }

    @Test func downloadHasTheOpenedContent() async throws {
        serve(try peer(), { _ in (200, "all of the file") })
        let path = directory.path(of: "file")
        let file = try await manager().download(server.url(), to: path).value
        #expect(file.byteCount == 15 && FileManager.default.contents(atPath: path) == Data("all of the file".utf8))
    }

    /// A sealed reply is one message: it is asked for as a whole, and nothing of it is kept.
    @Test func downloadIsNotAskedForInParts() async throws {
        serve(try peer(), { _ in (200, "all of the file") })
        let path = directory.path(of: "file")
        let file = try await manager().download(server.url(), to: path, segments: 4).value
        #expect(file.byteCount == 15 && file.resumedByteCount == 0)
        #expect(server.requests.map { $0.headers["Range"] } == [nil])
        server.fallback { _ in MockReply.text("late").stalling(.start) }
        let stopped = try manager().download(server.url(), to: directory.path(of: "other"))
        try await eventually { server.requestCount == 2 }
        stopped.cancel(keepingProgress: true)
        let error = await failure(of: { try await stopped.value })
        #expect(error?.kind == .cancelled)
        #expect(FileManager.default.fileExists(atPath: directory.path(of: "other.part")) == false)
    }

    // MARK: Refused replies

    private func expectIntegrity(
        _ word: String, _ manager: CentralRequestManager, sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let error = await failure(
            of: { try await manager.startRequest("POST", server.url(), parameters: ["a": 1]) },
            sourceLocation: sourceLocation)
        #expect(error?.kind == .integrity, "\(String(describing: error))", sourceLocation: sourceLocation)
        #expect(error?.message.contains(word) == true, "\(error?.message ?? "")", sourceLocation: sourceLocation)
        #expect(error?.response?.data.isEmpty == true, "the refused reply is exposed", sourceLocation: sourceLocation)
        #expect(error.map { "\($0)".contains("secret") } == false, sourceLocation: sourceLocation)
    }

    @Test func changedReplyIsRefused() async throws {
        let manager = try manager()
        let faults: [(word: String, change: @Sendable (inout Data) -> Void)] = [
            ("changed", { $0[$0.count - 1] ^= 1 }), ("changed", { $0[$0.count / 2] ^= 0x80 }),
            ("changed", { $0 = $0.dropLast() }), ("truncated", { $0 = $0.prefix(30) }),
            ("not sealed", { $0 = Data() }), ("not sealed", { $0 = Data(#"{"secret":"plain"}"#.utf8) }),
        ]
        for (word, change) in faults {
            serve(
                try peer(),
                change: { reply in
                    guard case .bytes(var bytes) = reply.body else { return reply }
                    bytes = Data(bytes)
                    change(&bytes)
                    return MockReply(status: reply.status, headers: reply.headers, body: .bytes(Data(bytes)))
                })
            await expectIntegrity(word, manager)
        }
    }

    @Test func replyWithAnotherKeyOrStatusIsRefused() async throws {
        let manager = try manager()
        let stranger = try peer(["k9": Data(repeating: 9, count: 32)], "k9")
        let forger = try peer(["k1": Data(repeating: 9, count: 32)])
        let real = try peer()
        for (word, other) in [("\"k9\"", stranger), ("changed", forger)] {
            server.fallback { request in
                let message = try? real.open(
                    method: request.method, target: request.target, headers: request.headers, body: request.body)
                guard let message,
                    let reply = try? other.seal(Data(#"{"secret":1}"#.utf8), status: 200, to: message)
                else { return .status(400) }
                return MockReply(headers: reply.headers, body: .bytes(reply.body))
            }
            await expectIntegrity(word, manager)
        }
        serve(real, { _ in (500, #"{"secret":1}"#) }, change: { $0.with(status: 200) })
        await expectIntegrity("changed", manager)
    }

    @Test func replyToAnotherRequestIsRefused() async throws {
        let manager = try manager()
        let kept = Mutex<MockReply?>(nil)
        serve(
            try peer(),
            change: { reply in
                kept.withLock { kept in
                    if kept == nil { kept = reply }
                    return kept ?? reply
                }
            })
        #expect(try await manager.startRequest("POST", server.url(), parameters: ["a": 1]).status == 200)
        await expectIntegrity("another request", manager)
    }

    @Test func replayedRequestIsNotOpened() async throws {
        serve(try peer())
        _ = try await manager().startRequest("POST", server.url("/x?y=1"), parameters: ["a": 1])
        let wire = try #require(server.requests.first)
        let clean = try CentralRequestManager.make()
        var replay = HTTPRequest("POST", server.url(wire.target))
        replay.body = .data(wire.body, contentType: "application/vnd.lat.sealed")
        let replayed = try await clean.send(replay)
        #expect(replayed.status == 400 && replayed.text?.contains("before") == true)
        // The message is bound to its target, so it cannot be opened at another.
        serve(try peer())
        replay.url = server.url("/other")
        let elsewhere = try await clean.send(replay)
        #expect(elsewhere.status == 400 && elsewhere.text?.contains("changed") == true)
    }

    @Test func unsealedReplyIsAcceptedOnlyAsAFailure() async throws {
        let manager = try manager()
        for reply in [.json(#"{"secret":1}"#), .status(204), .status(304)] as [MockReply] {
            server.fallback { _ in reply }
            await expectIntegrity("not sealed", manager)
        }
        server.fallback { _ in .text("busy", status: 503) }
        let error = await failure(of: { try await manager.startRequest("GET", server.url()) })
        #expect(error?.kind == .httpStatus && error?.response?.text == "busy")
        serve(try peer(), { _ in (422, #"{"why":"x"}"#) })
        let refusal = await failure(of: { try await manager.startRequest("GET", server.url()) })
        #expect(refusal?.kind == .httpStatus)
        #expect(try refusal?.response?.json()["why"].string == "x")
    }

    @Test func sealedRequestFollowsNoRedirect() async throws {
        server.fallback { _ in .redirect(to: "/elsewhere", status: 307) }
        let manager = try manager()
        let error = await failure(of: { try await manager.startRequest("POST", server.url(), parameters: ["a": 1]) })
        #expect(error?.kind == .httpStatus && error?.response?.status == 307 && server.requestCount == 1)
    }

    // MARK: Selecting requests

    @Test func callMayOptOutOfSealing() async throws {
        serve(try peer())
        server.route("GET", "/clean") { _ in .text("plain") }
        let manager = try manager()
        var clean = HTTPRequest("GET", server.url("/clean"))
        clean.sealing = .unsealed
        #expect(try await manager.send(clean).text == "plain")
        #expect(server.requests[0].headers["Sealed-Message"] == nil)
        #expect(try await manager.startRequest("GET", server.url("/sealed")).status == 200)
    }

    @Test func plainAndSealingManagersCoexist() async throws {
        serve(try peer())
        server.route("GET", "/clean") { _ in .text("plain") }
        let sealed = try manager()
        let clean = try CentralRequestManager.make()
        async let first = clean.startRequest("GET", server.url("/clean"))
        async let second = sealed.startRequest("POST", server.url("/sealed"), parameters: ["a": 1])
        #expect(try await first.text == "plain")
        #expect(try await second.json()["secret"].string == "reply")
    }

    @Test func rowsAndCallsChooseASealer() async throws {
        struct Save: RequestEntity, Encodable {
            static let route = Route("POST", server: "s.save")
            var a = 1
        }
        struct Ping: RequestEntity {
            static let route = Route("GET", server: "s.ping")
        }
        let shop = try AEADSealer(keys: ["s1": Self.key], current: "s1", algorithm: .chaCha20Poly1305)
        serve(SealingPeer(try AEADSealer(keys: ["s1": Self.key], current: "s1", algorithm: .chaCha20Poly1305)))
        server.route("GET", "/ping") { _ in .json("{}") }
        let table = try DomainTable(
            json5: """
                { domains: { s: { baseURL: "\(server.url(""))", sealing: "shop" } },
                  servers: { "s.save": { domain: "s", path: "save" },
                             "s.ping": { domain: "s", path: "ping", sealing: null } } }
                """, environment: nil)
        #expect(table.explain("s.ping").description.contains("sealing"))
        let manager = try CentralRequestManager.make {
            $0.domains = table
            $0.sealers = ["shop": shop]
        }
        #expect(try await Save().startRequest(on: manager)["secret"].string == "reply")
        #expect(opened.elements.first?.keyID == "s1")
        _ = try await Ping().startRequest(on: manager)
        #expect(server.requests.last?.headers["Sealed-Message"] == nil)
        _ = try await Ping().sealing(.unsealed).startRequest(on: manager)
        let wrong = await failure(of: { try await Save().sealing(.sealed(by: "shoop")).startRequest(on: manager) })
        #expect(wrong?.kind == .invalidRequest && wrong?.message.contains("\"shop\"") == true)
        let refused = await failure(of: { try await Save().sealing(.unsealed).startRequest(on: manager) })
        #expect(refused?.response?.status == 400)
    }

    @Test func eachAttemptIsSealedAnew() async throws {
        let real = try peer()
        let attempts = Mutex(0)
        server.fallback { [opened] request in
            guard
                let message = try? real.open(
                    method: request.method, target: request.target, headers: request.headers, body: request.body),
                let reply = try? real.seal(Data("{}".utf8), status: 200, to: message)
            else { return .status(400) }
            opened.append(message)
            return attempts.withLock { attempts in
                attempts += 1
                return attempts == 1 ? .noReply : MockReply(headers: reply.headers, body: .bytes(reply.body))
            }
        }
        let manager = try manager { $0.retries = 2 }
        #expect(try await manager.startRequest("PUT", server.url(), parameters: ["a": 1]).status == 200)
        #expect(opened.count == 2)
    }

    @Test func customSealerSeesTheBytes() async throws {
        struct Backwards: Sealer {
            func seal(_ body: Data?, of request: HTTPRequest) async throws -> SealedRequest {
                SealedRequest(
                    method: request.method, body: body.map { Data($0.reversed()) },
                    headers: ["X-Order": "backwards"])
            }

            func open(_ body: Data, of response: HTTPResponse, to sealed: SealedRequest) async throws -> OpenedReply? {
                struct Odd: Error {}
                guard response.headers["X-Order"] != nil else { throw Odd() }
                return OpenedReply(body: Data(body.reversed()))
            }
        }
        server.enqueue(.text("olleh").header("X-Order", "backwards"), .text("olleh"))
        let manager = try CentralRequestManager.make { $0.sealer = Backwards() }
        #expect(try await manager.startRequest("POST", server.url(), body: .text("abc")).text == "hello")
        #expect(server.requests[0].text == "cba" && server.requests[0].headers["X-Order"] == "backwards")
        #expect(await failure(of: { try await manager.startRequest("GET", server.url()) })?.kind == .integrity)
    }

    // MARK: Keys agreed on at run time

    /// As in FSOCNetworking: the server no longer knows the key, the app exchanges keys, and the request is sent again.
    @Test func keyExchangeInTheResolverRepairsTheCall() async throws {
        struct KeyExchange: FailureResolver {
            let sealer: AESGCMSealer
            let url: String
            let manager: CentralRequestManager

            func resolve(_ error: NetworkError, of request: HTTPRequest) async throws -> Resolution {
                guard error.response?.status == 419 else { return .deliver }
                var exchange = HTTPRequest("POST", url)
                exchange.sealing = .unsealed
                let reply = try await manager.send(exchange).json()
                guard let id = reply["id"].string, let key = reply["key"].string.flatMap({ Data(base64Encoded: $0) })
                else { return .deliver }
                try sealer.update(keys: [id: key], current: id)
                return .replay
            }
        }
        let new = Data(repeating: 42, count: 32)
        let real = try peer(["new": new], "new")
        let sealer = try sealer(["old": Self.key], "old")
        server.route("POST", "/keys") { _ in .json(#"{"id":"new","key":"\#(new.base64EncodedString())"}"#) }
        server.fallback { request in
            guard
                let message = try? real.open(
                    method: request.method, target: request.target, headers: request.headers, body: request.body),
                let reply = try? real.seal(Data(#"{"ok":true}"#.utf8), status: 200, to: message)
            else { return .status(419) }
            return MockReply(headers: reply.headers, body: .bytes(reply.body))
        }
        let exchanger = try CentralRequestManager.make { $0.sealer = sealer }
        let manager = try CentralRequestManager.make {
            $0.sealer = sealer
            $0.resolver = KeyExchange(sealer: sealer, url: server.url("/keys"), manager: exchanger)
        }
        let response = try await manager.startRequest("POST", server.url("/pay"), parameters: ["amount": 1])
        #expect(try response.json()["ok"].bool == true)
        #expect(server.requests.map(\.path) == ["/pay", "/keys", "/pay"])
        _ = try await manager.startRequest("POST", server.url("/pay"), parameters: ["amount": 2])
        #expect(server.requestCount == 4)
    }
}

extension MockReply {
    fileprivate func with(status: Int) -> MockReply {
        var copy = self
        copy.status = status
        return copy
    }
}
