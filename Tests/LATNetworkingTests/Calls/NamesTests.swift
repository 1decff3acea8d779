import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// Logs, events, progress and errors refer to the address that actually responded or failed.
@Suite(.timeLimit(.minutes(1))) struct NamesTests {
    private let lines = Log<String>()

    private func mirrored(
        _ first: String, _ mirror: String, _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        try .make(.make(first, domain: #"mirrors: ["\#(mirror)"]"#)) { [lines] in
            $0.accessories = [RequestLog(.summary) { lines.append($0) }]
            change(&$0)
        }
    }

    private func logged() throws -> CentralRequestManager {
        try .make { [lines] in $0.accessories = [RequestLog(.summary) { lines.append($0) }] }
    }

    // MARK: The log

    @Test func summaryNamesTheRespondingMirror() async throws {
        let closed = try ClosedPort()
        let mirror = try MockServer.answering()
        let manager = try mirrored(closed.url(), mirror.url("/m"))
        _ = try await Get<JSONValue>().startRequest(on: manager)
        #expect(lines.elements.first?.hasPrefix("GET \(mirror.url("/m/x")) -> 200 ") == true, "\(lines.elements)")
        _ = try await Get<JSONValue>().startRequest(on: manager)
        #expect(lines.elements.last?.hasPrefix("GET \(mirror.url("/m/x")) -> 200 ") == true, "\(lines.elements)")
        #expect(lines.count == 2)
    }

    @Test func summaryNamesTheFailingMirror() async throws {
        let closed = try ClosedPort()
        let mirror = try MockServer()
        mirror.fallback { _ in .status(500) }
        let manager = try mirrored(closed.url(), mirror.url())
        let error = await failure { try await Get<JSONValue>().startRequest(on: manager) }
        #expect(error?.url == mirror.url("/x"))
        #expect(error?.request?.url == closed.url("/x"))
        #expect(lines.elements.first?.contains(mirror.url("/x")) == true, "\(lines.elements)")
    }

    @Test func summaryNamesTheRedirectTarget() async throws {
        let (first, second) = (try MockServer(), try MockServer.answering())
        first.fallback { _ in .redirect(to: second.url("/there")) }
        let manager = try logged()
        let response = try await manager.startRequest("GET", first.url("/here"))
        #expect(response.url == second.url("/there"))
        #expect(lines.elements.first?.hasPrefix("GET \(second.url("/there")) -> 200 ") == true, "\(lines.elements)")
    }

    @Test func summaryNamesTheFailedHop() async throws {
        let closed = try ClosedPort()
        let first = try MockServer()
        first.fallback { _ in .redirect(to: closed.url("/there"), status: 307) }
        let manager = try logged()
        let error = await failure { try await manager.startRequest("POST", first.url("/here")) }
        #expect(error?.kind == .connect)
        #expect(lines.elements.first?.contains(closed.url("/there")) == true, "\(lines.elements)")
    }

    @Test func summaryOfAPlainCallNamesItsAddress() async throws {
        let server = try MockServer.answering()
        server.route("GET", "/b") { _ in MockReply.text("never").stalling(.start) }
        let manager = try logged()
        _ = try await manager.startRequest("GET", server.url("/a?q=1&token=t"))
        #expect(lines.elements.first?.hasPrefix("GET \(server.url("/a?q=1&token=***")) -> 200 ") == true)
        manager.startRequest("GET", server.url("/b"), into: CallRecorder()).cancel()
        try await eventually { lines.count >= 2 }
        #expect(lines.elements.last?.hasPrefix("GET \(server.url("/b")) -> cancelled ") == true)
    }

    @Test func secretRowHeadersAreNotLogged() async throws {
        let server = try MockServer.answering()
        let row = #"headers: { "X-Sec": "hush" }, secretHeaders: ["X-Sec"]"#
        for format in [RequestLog.Format.full, .curl] {
            let manager = try CentralRequestManager.make(.make(server.url(), domain: row)) { [lines] in
                $0.accessories = [RequestLog(format) { lines.append($0) }]
            }
            _ = try await Get<JSONValue>().startRequest(on: manager)
        }
        #expect(server.requests.allSatisfy { $0.headers["X-Sec"] == "hush" })
        #expect(lines.elements.contains { $0.contains("X-Sec") } && !lines.elements.contains { $0.contains("hush") })
    }

    // MARK: Events

    @Test func eventsNameEachAddress() async throws {
        let closed = try ClosedPort()
        let mirror = try MockServer()
        mirror.route("GET", "/x") { _ in .redirect(to: "/y") }
        mirror.route("GET", "/y") { _ in .json("{}") }
        let manager = try mirrored(closed.url(), mirror.url())
        var events = manager.events.makeAsyncIterator()
        _ = try await Get<JSONValue>().startRequest(on: manager)
        var story: [String] = []
        loop: while let event = await events.next() {
            #expect(event.call.request.url == closed.url("/x"))
            switch event.kind {
            case .sending(let attempt, let request): story.append("\(attempt) to \(request.url)")
            case .failed(let attempt, let error): story.append("\(attempt) failed at \(error.url ?? "")")
            case .answered(let attempt, let response): story.append("\(attempt) by \(response.url)")
            case .finished(.success(let response)):
                story.append("end by \(response.url)")
                break loop
            default: break
            }
        }
        #expect(
            story == [
                "1 to \(closed.url("/x"))", "1 failed at \(closed.url("/x"))", "2 to \(mirror.url("/x"))",
                "2 by \(mirror.url("/x"))", "2 to \(mirror.url("/y"))", "2 by \(mirror.url("/y"))",
                "end by \(mirror.url("/y"))",
            ])
    }

    // MARK: Progress

    @Test func progressCountsTheMirrorsBytes() async throws {
        let closed = try ClosedPort()
        let mirror = try MockServer()
        mirror.fallback { _ in .json("[" + String(repeating: "1,", count: 200_000) + "1]") }
        let manager = try mirrored(closed.url(), mirror.url())
        let progress = Log<TransferProgress>()
        _ = try await Get<JSONValue>().progress { progress.append($0) }.startRequest(on: manager)
        #expect(progress.elements.last?.completed == 400_003 && progress.elements.last?.total == 400_003)
        for (before, after) in zip(progress.elements, progress.elements.dropFirst()) {
            #expect(before.completed <= after.completed)
        }
    }

    @Test func progressCountsTheLastHopsBytes() async throws {
        let (first, second) = (try MockServer(), try MockServer())
        first.fallback { _ in MockReply.pattern(byteCount: 9_000).changed(status: 302, location: second.url("/b")) }
        second.fallback { _ in .pattern(byteCount: 300_000) }
        let manager = try CentralRequestManager.make()
        let progress = Log<TransferProgress>()
        _ = try await manager.startRequest("GET", first.url("/a"), progress: { progress.append($0) })
        let last = try #require(progress.elements.last)
        #expect(last.completed == 300_000 && last.total == 300_000)
        for (before, after) in zip(progress.elements, progress.elements.dropFirst()) {
            #expect(before.completed <= after.completed)
        }
    }

    // MARK: Errors

    @Test func errorNamesTheFailedHop() async throws {
        let closed = try ClosedPort()
        let (first, second) = (try MockServer(), try MockServer())
        first.fallback { _ in .redirect(to: second.url("/b")) }
        second.fallback { _ in .redirect(to: closed.url("/c")) }
        let manager = try CentralRequestManager.make()
        let error = await failure { try await manager.startRequest("GET", first.url("/a")) }
        #expect(error?.kind == .connect && error?.url == closed.url("/c"))
        #expect(error?.request?.url == first.url("/a"))
        #expect(error?.description.contains(closed.url("/c")) == true)
    }

    @Test(arguments: [404, 500]) func statusErrorNamesTheLastHop(_ status: Int) async throws {
        let (first, second) = (try MockServer(), try MockServer())
        first.fallback { _ in .redirect(to: second.url("/b")) }
        second.fallback { _ in .status(status) }
        let manager = try CentralRequestManager.make()
        let error = await failure { try await manager.startRequest("GET", first.url("/a")) }
        #expect(error?.kind == .httpStatus && error?.response?.url == second.url("/b"))
        #expect(error?.url == second.url("/b"))
        #expect(error?.request?.url == first.url("/a"))
    }

    @Test func decodingErrorNamesTheLastHop() async throws {
        let (first, second) = (try MockServer(), try MockServer.answering(#""no number""#))
        first.fallback { _ in .redirect(to: second.url("/b")) }
        let manager = try CentralRequestManager.make(.make(first.url()))
        let error = await failure { try await Get<Int>().startRequest(on: manager) }
        guard case .decoding = error?.kind else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(error?.url == second.url("/b"))
    }

    @Test func errorNamesTheFirstAddressWhenAllFail() async throws {
        let (one, two) = (try ClosedPort(), try ClosedPort())
        let manager = try mirrored(one.url(), two.url())
        let error = await failure { try await Get<JSONValue>().startRequest(on: manager) }
        #expect(error?.kind == .connect && error?.url == one.url("/x") && error?.attempts == 2)
        #expect(lines.elements.first?.contains(one.url("/x")) == true)
    }

    /// A call that is not made has no URL.
    @Test func unknownNameHasNoEmptyPlace() async throws {
        let manager = try CentralRequestManager.make(.make("http://127.0.0.1:1/"))
        let route = Route(server: "nope")
        var errors = [
            await failure { try await manager.startRequest(server: "nope") },
            await failure { try await manager.startRequest(route, as: [Int].self) },
            await failure { try await manager.stream(route) },
            await failure { try await Nowhere().startRequest(on: manager) },
        ]
        let (closures, stop) = AsyncStream.makeStream(of: NetworkError.self)
        manager.startRequest(route, as: [Int].self, success: { _, _ in stop.finish() }, failure: { stop.yield($1) })
        Nowhere().startRequest(on: manager) { _, _, error in error.map { _ = stop.yield($0) } ?? stop.finish() }
        var iterator = closures.makeAsyncIterator()
        for _ in 0..<2 { errors.append(await iterator.next()) }
        for error in errors {
            #expect(error?.kind == .unknownName && error?.message.contains("\"nope\"") == true)
            #expect(error.map { "\($0)".contains("[") } == false)
        }
        let bare = try CentralRequestManager.make()
        let row = await failure { try await bare.startRequest(server: "nope") }
        #expect(
            row?.message == "the route names the row \"nope\", but the manager has no table; set configuration.domains")
        let domain = await failure { try await bare.startRequest(Route("GET", domain: "shop", path: "x")) }
        #expect(domain?.message.hasPrefix("the route names the domain \"shop\", but") == true)
    }
}

private struct Nowhere: RequestEntity {
    static var route: Route { Route(server: "nope") }
}
