import FoundationEssentials
import LATInspect
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct CallRecordTests {
    @Test func negativeSizeOfBodiesKeepsNone() {
        var bodies = BodyCapture(maxSize: -1)
        #expect(bodies.maxSize == 0)
        bodies.maxSize = 5
        #expect(bodies.maxSize == 5)
        bodies.maxSize = .min
        #expect(bodies.maxSize == 0)
    }

    @Test func recordHasAttemptsHopsAndSources() async throws {
        let server = try MockServer()
        server.enqueue(.status(503), .redirect(to: "/end"), .json(#"{"a":1}"#))
        let records = Records()
        let manager = try CentralRequestManager.make {
            $0.accessories = [records.recorder()]
            $0.headers = ["X-App": "demo"]
            $0.immediateHeaderProvider = { _ in ["X-Provided": "p"] }
            $0.retries = 1
            $0.retryPolicy.firstWait = .zero
            $0.retryPolicy.statuses = [503]
        }
        _ = try await manager.startRequest("GET", server.url("/start"), headers: ["X-Own": "o"], tag: "t")
        let record = try #require(records.all.first)
        #expect(records.all.count == 1)
        #expect(record.attempts.map { $0.hops.map { $0.response?.status } } == [[503], [302, 200]])
        #expect(
            record.exchanges.map(\.request.url) == [server.url("/start"), server.url("/start"), server.url("/end")])
        #expect(record.waits.map(\.reason) == ["retry"])
        #expect(record.tag == "t")
        let sources = Dictionary(
            uniqueKeysWithValues: record.exchanges[0].request.headers.map { ($0.name, $0.source ?? "") })
        #expect(
            sources.filter { $0.value != "sdk" } == ["X-App": "manager", "X-Provided": "provider", "X-Own": "call"])
        #expect(sources["Host"] == "sdk" && sources["User-Agent"] == "sdk")
        #expect(record.response?.body?.content == .text(#"{"a":1}"#))
        for exchange in record.exchanges {
            let stages = try #require(exchange.stages)
            #expect(stages.total == exchange.duration)
            #expect(exchange.response?.connection?.remoteAddress == "127.0.0.1")
            #expect(exchange.response?.connection?.remotePort == server.port)
        }
        #expect(record.exchanges[2].response?.connection?.isReused == true)
        #expect(record.exchanges[2].stages?.connect == nil)
        #expect(record.exchanges[0].stages?.connect != nil)
    }

    @Test(arguments: [
        "multipart/form-data; boundary=b", "multipart/form-data; xboundary=abc; boundary=b",
        "multipart/form-data; name=\"; boundary=abc\"; Boundary = \"b\"",
        "multipart/form-data;boundary=b charset=utf-8",
        "multipart/form-data; name=\"a; boundary=b",
    ]) func multipartBytesAreRecordedAsParts(type: String) async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let records = Records()
        let manager = try CentralRequestManager.make { $0.accessories = [records.recorder()] }
        let text = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--b--\r\n"
        _ = try await manager.startRequest(
            "POST", server.url(), body: .data(Data(text.utf8), contentType: type))
        guard case .parts(let parts)? = records.all.first?.request.body?.content else {
            Issue.record("no parts for \(type)")
            return
        }
        #expect(parts.map(\.name) == ["a"] && parts.map(\.text) == ["one"])
    }

    @Test func partThatIsNotTextHasNone() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let records = Records()
        let manager = try CentralRequestManager.make { $0.accessories = [records.recorder()] }
        let head = "--b\r\nContent-Disposition: form-data; name="
        let type = "Content-Type: application/octet-stream"
        var body = Data("\(head)\"f\"; filename=\"a.bin\"\r\n\(type)\r\n\r\n".utf8) + Data([0xC3, 0x28, 0xFF])
        body += Data("\r\n\(head)\"a\"\r\n\r\nü\r\n--b--\r\n".utf8)
        _ = try await manager.startRequest(
            "POST", server.url(), body: .data(body, contentType: "multipart/form-data; boundary=b"))
        guard case .parts(let parts)? = records.all.first?.request.body?.content else {
            Issue.record("no parts")
            return
        }
        #expect(parts.map(\.name) == ["f", "a"] && parts.map(\.text) == [nil, "ü"], "\(parts)")
    }

    private struct Own: RequestEntity {
        static let route = Route("GET", url: "/own")
        var options: RequestOptions { RequestOptions(headers: ["X-Entity": "e", "X-Replaced": "e"]) }
    }

    @Test func headersOfEntityAndCallAreToldApart() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let records = Records()
        let manager = try CentralRequestManager.make {
            $0.baseURL = server.baseURL
            $0.accessories = [records.recorder()]
        }
        let call = Own().header("X-Replaced", "c").header("X-Call", "c")
        _ = try await call.startRequest(on: manager)
        let record = try #require(records.all.first)
        let sources = Dictionary(
            uniqueKeysWithValues: record.exchanges[0].request.headers.map { ($0.name, $0.source ?? "") })
        #expect(
            sources.filter { $0.value != "sdk" } == ["X-Entity": "entity", "X-Replaced": "call", "X-Call": "call"])
    }

    @Test func streamIsCapturedWithItsBound() async throws {
        let server = try MockServer()
        server.enqueue(.data(Data(repeating: 0x61, count: 100_000), contentType: "text/plain"))
        let records = Records()
        let manager = try CentralRequestManager.make {
            $0.accessories = [records.recorder(BodyCapture(maxSize: 1_000))]
        }
        let response = try await manager.stream("GET", server.url())
        var size = 0
        for try await chunk in response.body { size += chunk.count }
        let body = try #require(records.all.first?.response?.body)
        #expect(size == 100_000)
        #expect(body.size == 100_000)
        #expect(body.isTruncated)
        #expect(body.content == .text(String(repeating: "a", count: 1_000)))
    }

    @Test func headerOfARowHasItsLine() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let records = Records()
        let inspector = Inspector()
        let address = try inspector.start()
        let manager = try CentralRequestManager.make {
            $0.accessories = [records.recorder(), inspector]
            $0.domains = try? DomainTable(
                json5: """
                    {
                      domains: { shop: { baseURL: "\(server.baseURL)",
                        headers: { "X-Domain": "d" } } },
                      servers: { user: { domain: "shop", method: "GET", path: "/u",
                        headers: { "X-Row": "r", "X-Own": "r" } } },
                    }
                    """, environment: nil)
        }
        _ = try await manager.startRequest(server: "user", headers: ["X-Own": "o"])
        let fields = try #require(records.all.first?.exchanges.first?.request.headers)
        let own = fields.filter { $0.source != "sdk" }
        let origins = Dictionary(uniqueKeysWithValues: own.map { ($0.name, $0.origin?.split(separator: ":").last) })
        #expect(origins == ["X-Domain": "3", "X-Row": "5", "X-Own": nil as Substring?])
        let reader = PageReader(address: address)
        let call = try #require(try await reader.stream(calls: 1).first)
        let details = try await reader.ask("GET", "/calls/\(call["id"].int ?? 0)").decode(JSONValue.self)
        let source = details["headerSources"].array?.first { $0["name"].string == "X-Row" }?["source"].string
        #expect(
            source?.hasPrefix("Table row shop/user, ") == true && source?.hasSuffix(":5") == true, "\(source ?? "")")
    }

    @Test func cacheDecisionHasItsSection() async throws {
        let server = try MockServer()
        server.fallback { _ in
            var reply = MockReply.json("{}")
            reply.headers["Cache-Control"] = "max-age=60"
            reply.headers["ETag"] = "\"1\""
            return reply
        }
        let records = Records()
        let manager = try CentralRequestManager.make {
            $0.accessories = [records.recorder()]
            $0.cachePolicy = .http
        }
        for headers in [[:], [:], ["Cache-Control": "no-cache"], ["Cache-Control": "no-store"]] as [HTTPHeaders] {
            _ = try await manager.startRequest("GET", server.url("/a"), headers: headers)
        }
        #expect(
            records.all.map { $0.cache.last?.section } == [
                "RFC 9111 §4", "RFC 9111 §4.2", "RFC 9111 §5.2.1.4", "RFC 9111 §5.2.1.5",
            ])
    }

    @Test func streamedRequestHasItsSizeOnTheWire() async throws {
        let server = try MockServer()
        server.fallback { _ in .json("{}") }
        let records = Records()
        let manager = try CentralRequestManager.make { $0.accessories = [records.recorder()] }
        let pieces: HTTPBody = .stream(
            AsyncStream<Data> { continuation in
                for _ in 0..<3 { continuation.yield(Data(repeating: 0x61, count: 100)) }
                continuation.finish()
            })
        _ = try await manager.startRequest("POST", server.url(), body: pieces)
        let body = try #require(records.all.first?.exchanges.first?.request.body)
        #expect(body.size == nil && (body.wireSize ?? 0) >= 300)
    }

    @Test func failureHasItsConnection() async throws {
        let server = try MockServer()
        server.enqueue(.noReply)
        let records = Records()
        let manager = try CentralRequestManager.make { $0.accessories = [records.recorder()] }
        let error = await #expect(throws: NetworkError.self) {
            try await manager.startRequest("GET", server.url())
        }
        #expect(error?.connection?.remotePort == server.port)
        let connection = records.all.first?.exchanges.first?.failure?.connection
        #expect(connection?.remoteAddress == "127.0.0.1" && connection?.isReused == false)
        // Without an observer, the facts of the connection are not collected.
        server.enqueue(.noReply)
        let plain = await #expect(throws: NetworkError.self) {
            try await CentralRequestManager.make { _ in }.startRequest("GET", server.url())
        }
        #expect(plain?.connection == nil)
    }

    @Test func refusedConnectionWaitedForNoAnswer() async throws {
        let reserved = try ReservedPort()
        let records = Records()
        let manager = try CentralRequestManager.make { $0.accessories = [records.recorder()] }
        _ = try? await manager.startRequest("GET", "http://localhost:\(reserved.port)/")
        let exchange = try #require(records.all.first?.exchanges.first)
        #expect(exchange.failure != nil)
        #expect(exchange.stages?.connect != nil && exchange.stages?.wait == .zero)
        #expect(exchange.stages?.total == exchange.duration)
    }

    @Test func failureIsRecorded() async throws {
        let server = try MockServer()
        server.enqueue(.noReply)
        let records = Records()
        let manager = try CentralRequestManager.make { $0.accessories = [records.recorder()] }
        _ = try? await manager.startRequest("GET", server.url())
        let record = try #require(records.all.first)
        guard case .failure(let failure) = record.outcome else {
            Issue.record("the call has not failed")
            return
        }
        #expect(failure.group == "connectionLost")
        #expect(record.exchanges.first?.failure?.kind == "connectionLost")
        #expect(record.exchanges.first?.stages?.total == record.exchanges.first?.duration)
    }
}
