import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

@Suite(.timeLimit(.minutes(2))) struct ValueStreamTests {
    private struct Tick: Codable, Sendable, Equatable {
        var userName: String
        var at: Date?
    }

    private struct FetchTicks: RequestEntity, Encodable {
        static let route = Route("GET", server: "ticks")
        var after: Int
    }

    private func manager(_ server: MockServer, row: String = "") throws -> CentralRequestManager {
        try .make {
            $0.baseURL = server.url()
            $0.domains = try? DomainTable(
                json5: """
                    { domains: { d: { baseURL: "\(server.url())", keys: "snakeCase", dates: "unixSeconds" } },
                      servers: { ticks: { domain: "d", path: "ticks", method: "GET" \(row) } } }
                    """, environment: nil)
        }
    }

    private let ticks = [
        Tick(userName: "Ada", at: Date(timeIntervalSince1970: 60)), Tick(userName: "Bob", at: nil),
    ]
    private let lines = "{\"user_name\":\"Ada\",\"at\":60}\n\n{\"user_name\":\"Bob\"}\n"

    @Test func entityAndTableReadTheSameValues() async throws {
        let server = try MockServer()
        server.fallback { [lines] _ in .chunked(lines.utf8.map { Data([$0]) }, contentType: "application/x-ndjson") }
        let manager = try manager(server)
        #expect(try await all(FetchTicks(after: 7).values(of: Tick.self, on: manager)) == ticks)
        #expect(try await all(manager.values(server: "ticks", of: Tick.self, parameters: ["after": 7])) == ticks)
        let request = HTTPRequest("GET", "/ticks?after=7", headers: ["Accept": "a/b"])
        let names = try await all(manager.values(request, of: JSONValue.self)).map { $0["user_name"].string }
        #expect(names == ["Ada", "Bob"])
        #expect(try await all(manager.values("GET", "/ticks", of: JSONValue.self, parameters: ["after": 7])).count == 2)
        #expect(server.requests.map(\.target) == Array(repeating: "/ticks?after=7", count: 4))
        #expect(server.requests[0].headers["Accept"]?.hasPrefix("application/x-ndjson") == true)
        #expect(server.requests[2].headers["Accept"] == "a/b")
    }

    /// A server of others: its lines are chunks of their own.
    @Test(.needsHTTPBin) func httpbinStreamsLines() async throws {
        let base = try #require(Servers.httpbin)
        let lines = try await all(CentralRequestManager.make().values("GET", "\(base)/stream/20", of: JSONValue.self))
        #expect(lines.map { $0["id"].int } == Array(0..<20))
        let values = HTTPBody.values((0..<3).map { ["n": $0] })
        let echo = try await CentralRequestManager.make().startRequest("POST", "\(base)/anything", body: values)
        #expect(try echo.json()["data"].string == "{\"n\":0}\n{\"n\":1}\n{\"n\":2}\n")
    }

    @Test func sequenceIsKnownByItsType() async throws {
        let server = try MockServer()
        let text = "\u{1E}{\"user_name\":\n\"Ada\",\"at\":60}\n\u{1E}{\"user_name\":\"Bob\"}\n"
        for type in ["application/json-seq", "application/vnd.x+json-seq", "text/plain"] {
            server.enqueue(.data(Data(text.utf8), contentType: type))
            #expect(try await all(FetchTicks(after: 1).values(of: Tick.self, on: manager(server))) == ticks)
        }
    }

    @Test func valueArrivesBeforeTheNextOne() async throws {
        let server = try MockServer()
        for text in ["{\"user_name\":\"Ada\"}\n", "\u{1E}{\"user_name\":\"Ada\"}\n"] {
            server.enqueue(
                MockReply.chunked([Data(text.utf8), Data("{".utf8)]).stalling(.afterBodyBytes(Int64(text.utf8.count))))
            for try await tick in try FetchTicks(after: 1).values(of: Tick.self, on: manager(server)) {
                #expect(tick.userName == "Ada")
                break
            }
        }
        // Leaving the loop has closed the connections.
        try await server.waitForClosedConnections(2)
    }

    @Test func badLineNamesItsNumberAndText() async throws {
        let server = try MockServer()
        let text = lines + "{\"user_name\":\"C\",\"token\":\"s3cr3tvalue\",\"at\":\"soon\"}\nno json\n" + lines
        server.fallback { _ in .data(Data(text.utf8), contentType: "application/x-ndjson") }
        let manager = try manager(server)
        let error = await failure { try await all(FetchTicks(after: 1).values(of: Tick.self, on: manager)) }
        #expect(error?.kind == .decoding(path: "at") && error?.message.hasPrefix("line 4 is not Tick at at: ") == true)
        #expect(error?.message.contains("\"C") == true && error?.message.contains("s3cr3tvalue") == false)
        #expect(error?.response?.text?.hasPrefix("{\"user_name\":\"C\"") == true && error?.request?.url != nil)
        let values = FetchTicks(after: 1).values(of: Tick.self, options: .init(skipsBadLines: true), on: manager)
        #expect(try await all(values) == ticks + ticks && values.skippedCount == 2)
    }

    @Test func cutBodyAndStatusAreErrors() async throws {
        let server = try MockServer()
        let manager = try manager(server)
        let options = HTTPResponse.ValueOptions(skipsBadLines: true)
        func error(_ reply: MockReply) async -> NetworkError? {
            server.enqueue(reply)
            return await failure {
                try await all(FetchTicks(after: 1).values(of: JSONValue.self, options: options, on: manager))
            }
        }
        let cut = await error(.text(lines + "{\"user_name\":\"C"))
        #expect(cut?.kind == .connectionLost && cut?.message.contains("the middle of line 4") == true)
        #expect(await error(.text("1\n2"))?.message.contains("lacks the line feed that ends a number") == true)
        #expect(await error(.text("no", status: 503))?.kind == .httpStatus)
        server.enqueue(.text("\"aaaaaaaaaa\"\n"))
        let small = manager.values("GET", "/x", of: String.self, options: .init(limit: 8))
        #expect(await failure { try await all(small) }?.kind == .bodyTooLarge)
        server.enqueue(.status(204), .text(""), .text("\n\n"))
        for _ in 0..<3 { #expect(try await all(manager.values("GET", "/x", of: Tick.self)).isEmpty) }
    }

    @Test func collectedResponseIsReadInPieces() async throws {
        let numbers = (0..<100_000).map { "{\"n\":\($0)}" }.joined(separator: "\n")
        let response = HTTPResponse(status: 200, body: ResponseBody(Data(numbers.utf8)), url: "")
        let values = try await all(response.values(of: [String: Int].self))
        #expect(values.count == 100_000 && values.enumerated().allSatisfy { $1["n"] == $0 })
        #expect(try await all(response.values(of: JSONValue.self)).count == 100_000)
    }

    /// Values that follow the last one may be missing.
    @Test(arguments: [true, false]) func bodyThatMayBeCutEndsWithAnError(isProven: Bool) async throws {
        var response = HTTPResponse(status: 200, body: ResponseBody(Data("1\n2\n".utf8)), url: "")
        let end = BodyEnd()
        if isProven { end.prove() }
        response.bodyEnd = end
        let values = response.values(of: Int.self)
        guard !isProven else {
            #expect(try await all(values) == [1, 2])
            return
        }
        let seen = Log<Int>()
        let error = await failure { for try await value in values { seen.append(value) } }
        #expect(seen.elements == [1, 2])
        #expect(error?.kind == .connectionLost && error?.message.contains("close_notify") == true)
    }

    @Test func slowLoopMakesTheServerWait() async throws {
        let server = try MockServer()
        let line = "{\"user_name\":\"\(String(repeating: "x", count: 100))\"}\n"
        let chunk = Data(String(repeating: line, count: 500).utf8)
        server.fallback { _ in .chunked(Array(repeating: chunk, count: 1_000)) }
        var count = 0
        for try await _ in try FetchTicks(after: 1).values(of: Tick.self, on: manager(server)) {
            count += 1
            guard count % 20_000 == 0 else { continue }
            // Of the 58 MB no more has left the server than was read and the buffers of the sockets hold.
            #expect(server.sentBytes < Int64(count * line.utf8.count) + 16 << 20)
        }
        #expect(count == 500_000)
    }

    // MARK: Request bodies

    @Test func valuesAreSentWithTheCodingOfTheRow() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("") }
        let manager = try manager(server)
        let stream = AsyncStream { [ticks] continuation in
            ticks.forEach { continuation.yield($0) }
            continuation.finish()
        }
        var request = HTTPRequest("POST", "/bulk")
        request.coding = Coding(dates: .unixSeconds, keys: .snakeCase)
        for body in [HTTPBody.values(ticks), .values { [ticks] in ticks.async }, .values(stream)] {
            request.body = body
            _ = try await manager.startRequest(request)
        }
        request.body = .values(ticks, as: .jsonSequence)
        _ = try await manager.startRequest(request)
        let bodies = server.requests.map { String(decoding: $0.body, as: UTF8.self) }
        let line = "{\"at\":60,\"user_name\":\"Ada\"}\n"
        #expect(bodies.prefix(3).allSatisfy { $0 == line + "{\"user_name\":\"Bob\"}\n" })
        #expect(bodies[3] == "\u{1E}" + line + "\u{1E}{\"user_name\":\"Bob\"}\n")
        #expect(server.requests[0].headers["Content-Type"] == "application/x-ndjson")
        #expect(server.requests[3].headers["Content-Type"] == "application/json-seq")
        // An array can be sent again, a sequence that was read cannot.
        #expect(HTTPBody.values(ticks).isReplayable && !HTTPBody.values(stream).isReplayable)
    }

    @Test func slowServerMakesTheSequenceWait() async throws {
        let server = try MockServer()
        server.bodyLimit = 64 << 20
        server.recordsRequests = false
        server.bodyReadRate = 32 << 20
        server.fallback { _ in .text("") }
        let (made, received) = (Box(0), Box(Int64(0)))
        let text = String(repeating: "x", count: 64 << 10)
        let values = AsyncStream<String> {
            made.change { $0 += 1 }
            if made.value == 300 { received.change { $0 = server.receivedBodyBytes } }
            return made.value <= 300 ? text : nil
        }
        _ = try await manager(server).startRequest("POST", "/bulk", body: .values(values))
        // 18.75 MiB were made, and the buffers of the sockets hold a few of them.
        #expect(received.value > 4 << 20)
        #expect(server.receivedBodyBytes > 300 * 64 << 10)
    }

    @Test func valueThatDoesNotEncodeIsNamed() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("") }
        let manager = try manager(server)
        let values = HTTPBody.values([["n": 1.0], ["n": Double.nan]])
        let error = await failure { try await manager.startRequest("POST", "/bulk", body: values) }
        #expect(
            error?.kind == .requestBody && error?.message.hasPrefix("value 2 of the body does not encode: n: ") == true)
    }

    private func all<Model>(_ values: HTTPResponse.Values<Model>) async throws -> [Model] {
        var all: [Model] = []
        for try await value in values { all.append(value) }
        return all
    }
}

extension Array where Element: Sendable {
    fileprivate var async: AsyncStream<Element> {
        AsyncStream { continuation in
            forEach { continuation.yield($0) }
            continuation.finish()
        }
    }
}
