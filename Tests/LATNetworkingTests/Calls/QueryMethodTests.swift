import Dispatch
import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// QUERY (RFC 10008): a safe request whose question is in its body.
@Suite(.timeLimit(.minutes(1))) struct QueryMethodTests {
    private static let fresh: HTTPHeaders = ["Cache-Control": "max-age=3600"]

    private func ask(
        _ manager: CentralRequestManager, _ url: String, _ question: String, _ type: String = "application/json"
    ) async throws -> HTTPResponse {
        try await manager.startRequest("QUERY", url, body: .data(Data(question.utf8), contentType: type))
    }

    @Test func parametersAreTheBody() async throws {
        let server = try MockServer()
        server.fallback { _ in .text("ok") }
        _ = try await CentralRequestManager.make().startRequest("query", server.url("/x"), parameters: ["q": "tea"])
        let request = try #require(server.requests.first)
        #expect(request.method == "QUERY" && request.query == nil && request.text == #"{"q":"tea"}"#)
    }

    @Test(arguments: [CachePolicy.http, .cacheElseNetwork(.forever)])
    func equalQuestionIsAnsweredFromCache(_ policy: CachePolicy) async throws {
        let server = try MockServer.counting(Self.fresh)
        let manager = try CentralRequestManager.caching(policy)
        #expect(try await ask(manager, server.url(), #"{"a":1,"b":2}"#).text == "1")
        let again = try await ask(manager, server.url(), #"{ "b": 2.0, "a": 1 }"#)
        #expect(again.text == "1" && again.source == .memoryCache)
        #expect(try await ask(manager, server.url(), #"{"a":1,"b":3}"#).text == "2")
        #expect(try await ask(manager, server.url(), #"{"a":1,"b":2}"#, "application/x+json").text == "3")
        #expect(try await manager.startRequest("GET", server.url()).text == "4")
        #expect(server.requestCount == 4)
    }

    @Test func encodedValueIsPartOfTheKey() async throws {
        let server = try MockServer.counting(Self.fresh)
        let manager = try CentralRequestManager.caching(.http)
        for (id, count) in [(1, "1"), (1, "1"), (2, "2")] {
            let response = try await manager.startRequest("QUERY", server.url(), body: .json(["id": id]))
            #expect(response.text == count)
        }
    }

    @Test func successfulQueryInvalidatesNothing() async throws {
        let server = try MockServer.counting(Self.fresh)
        let manager = try CentralRequestManager.caching(.http)
        #expect(try await manager.startRequest("GET", server.url()).text == "1")
        #expect(try await ask(manager, server.url(), "{}").text == "2")
        let stored = try await manager.startRequest("GET", server.url())
        #expect(stored.text == "1" && stored.source == .memoryCache)
        // An unsafe request invalidates the responses to both.
        _ = try await manager.startRequest("POST", server.url(), body: .text("x"))
        #expect(try await manager.startRequest("GET", server.url()).text == "4")
        #expect(try await ask(manager, server.url(), "{}").text == "5")
    }

    @Test func equalQuestionsShareOneTransfer() async throws {
        let mayAnswer = DispatchSemaphore(value: 0)
        let server = try MockServer { _ in
            mayAnswer.wait()
            return .text("one")
        }
        let manager = try CentralRequestManager.make { $0.duplicates = .coalesce }
        var events = manager.events.makeAsyncIterator()
        async let first = ask(manager, server.url(), #"{"a":1,"b":2}"#)
        async let second = ask(manager, server.url(), #"{"b":2,"a":1}"#)
        while let event = await events.next() {
            if case .waiting(.sharedRequest) = event.kind { break }
        }
        mayAnswer.signal()
        #expect(try await [first.text, second.text] == ["one", "one"])
        #expect(server.requestCount == 1)
    }

    @Test func otherQuestionIsNotShared() async throws {
        let server = try MockServer()
        server.fallback { .text($0.text) }
        let manager = try CentralRequestManager.make { $0.duplicates = .coalesce }
        async let first = ask(manager, server.url(), #"{"a":1}"#)
        async let second = ask(manager, server.url(), #"{"a":2}"#)
        #expect(try await [first.text, second.text] == [#"{"a":1}"#, #"{"a":2}"#])
    }
}
