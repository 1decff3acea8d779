import InMemoryLogging
import LATLogging
import LATNetworking
import LATTesting
import Logging
import Testing

@Suite(.timeLimit(.minutes(1))) struct LoggingTests {
    private func logger(_ handler: InMemoryLogHandler, _ level: Logger.Level = .trace) -> Logger {
        var handler = handler
        handler.logLevel = level
        return Logger(label: "service") { [handler] _ in handler }
    }

    private let handler = InMemoryLogHandler()

    @Test func taskLoggerIsUsedWithItsMetadata() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("a") }
        let other = InMemoryLogHandler()
        let manager = try CentralRequestManager.make { $0.accessories = [CallLogger(logger(other))] }
        _ = try await manager.startRequest("GET", server.url("/outside"))
        #expect(handler.entries.isEmpty && !other.entries.isEmpty)
        other.clear()
        var own = logger(handler, .debug)
        own[metadataKey: "request.id"] = "7"
        try await withLogger(own) { _ in _ = try await manager.startRequest("GET", server.url("/a?token=s3cret&b=1")) }
        #expect(other.entries.isEmpty)
        let entry = try #require(handler.entries.first)
        #expect(handler.entries.count == 1 && entry.level == .debug)
        #expect(entry.metadata["request.id"] == "7" && entry.metadata["http.request.method"] == "GET")
        #expect(entry.metadata["http.response.status_code"] == "200")
        #expect(entry.metadata["server.address"] == "127.0.0.1" && entry.metadata["server.port"] == "\(server.port)")
        #expect(entry.metadata["network.protocol.version"] == "1.1" && entry.metadata["lat.source"] == "network")
        #expect("\(handler.entries)".contains("b=1") && !"\(handler.entries)".contains("s3cret"))
    }

    private struct Genre: KnownValues {
        var rawValue: String
        static let knownValues = [Self(rawValue: "novel")]
    }

    private struct Book: Decodable, Sendable {
        var genre: Genre
    }

    private struct FetchBook: RequestEntity {
        typealias Model = Book
        static let route = Route("GET", domain: "d", path: "/book")
    }

    @Test func valueThatIsNotKnownIsContentAndNotLogged() async throws {
        let server = try MockServer()
        server.fallback { _ in .json(#"{"genre": "s3cret"}"#) }
        let manager = try CentralRequestManager.make {
            $0.domains = try? DomainTable(
                json5: #"{ domains: { d: { baseURL: "\#(server.baseURL)" } }, servers: {} }"#, environment: nil)
            $0.accessories = [CallLogger(logger(handler))]
        }
        #expect(try await FetchBook().startRequest(on: manager).genre.rawValue == "s3cret")
        #expect(handler.entries.contains { $0.metadata["lat.type"] == "Genre" })
        #expect(!"\(handler.entries)".contains("s3cret"))
    }

    @Test func closureCallKeepsTheLoggerOfItsStart() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("a") }
        let manager = try CentralRequestManager.make { $0.accessories = [CallLogger()] }
        await withCheckedContinuation { continuation in
            withLogger(logger(handler, .debug)) { _ in
                _ = manager.startRequest(
                    "GET", server.url("/a"), success: { _, _ in continuation.resume() },
                    failure: { _, _ in continuation.resume() })
            }
        }
        #expect(handler.entries.map(\.level) == [.debug])
    }

    @Test func repetitionsAreInfoAndNothingIsMoreSevere() async throws {
        let server = try MockServer()
        server.enqueue(.status(503), .status(503), .text("a"))
        let manager = try CentralRequestManager.make { $0.accessories = [CallLogger(logger(handler))] }
        _ = try await manager.startRequest("GET", server.url("/a"))
        #expect(handler.entries.allSatisfy { $0.level <= .info })
        #expect(handler.entries.filter { $0.level == .info }.count == 2)
        let ends = handler.entries.filter { $0.level == .trace }
        #expect(ends.map { $0.metadata["http.response.status_code"] } == ["503", "503", "200"])
        #expect(ends.map { $0.metadata["http.request.resend_count"] } == [nil, "1", "2"])
        #expect(ends.first?.metadata["error.type"] == "503")
        #expect(handler.entries.last?.metadata["http.request.resend_count"] == "2")
    }

    @Test func failureIsLoggedWithItsKind() async throws {
        let server = try MockServer()
        server.fallback { _ in .noReply }
        let manager = try CentralRequestManager.make {
            $0.accessories = [CallLogger(logger(handler, .debug))]
            $0.retryPolicy.retries = 0
        }
        _ = try? await manager.startRequest("POST", server.url("/a"))
        #expect(handler.entries.map { $0.metadata["error.type"] } == ["connectionLost"])
    }

    @Test(arguments: [Logger.Level.notice, .critical]) func loggerAboveInfoGetsNoEvents(_ level: Logger.Level)
        async throws
    {
        let server = try MockServer()
        server.fallback { _ in .text("a") }
        let observer = CallLogger(logger(handler, level))
        #expect(!observer.observes(HTTPRequest("GET", "http://h/")))
        let manager = try CentralRequestManager.make { $0.accessories = [observer] }
        _ = try await manager.startRequest("GET", server.url("/a"))
        #expect(handler.entries.isEmpty)
    }
}
