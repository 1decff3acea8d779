import FoundationEssentials
import LATNetworking
import LATTesting
import Testing

@testable import LATRealtime

/// Failures that a server reports as an event, after its status 200.
@Suite struct EventFailureTests {
    /// All properties are optional, so it decodes from any object.
    private struct Chunk: Decodable, Sendable {
        var text: String?
    }

    private struct Own: Decodable, Sendable {
        struct Problem: Decodable, Sendable { var code: String }
        var error: Problem?
    }

    private func outcome<Model: Decodable & Sendable>(
        _ model: Model.Type, type: String? = nil, row: String = "", _ steps: MockReply.EventStep...
    ) async throws -> (models: [Model], error: NetworkError?) {
        let server = try MockServer()
        server.fallback { _ in .events(steps) }
        let manager = try CentralRequestManager.make(
            server.baseURL, servers: "feed: { domain: \"d\", path: \"feed\", method: \"GET\" \(row) }")
        var models: [Model] = []
        do {
            for try await model in manager.events(server: "feed").decoded(as: model, type: type) {
                models.append(model)
            }
            return (models, nil)
        } catch {
            return (models, error as? NetworkError)
        }
    }

    @Test(arguments: [
        (#"{"error": {"code": "overloaded", "message": "try later"}}"#, nil, "overloaded", "try later"),
        (#"{"error": {"type": "rate", "message": "slow down"}, "id": 1}"#, nil, "rate", "slow down"),
        (#"{"error": "no credit"}"#, nil, "", "no credit"), (#"{"code": 7, "message": "gone"}"#, "error", "7", "gone"),
    ])
    func failureIsThrownWithItsEvent(data: String, type: String?, code: String, message: String) async throws {
        let (models, error) = try await outcome(Chunk.self, .event(#"{"text": "a"}"#), .event(data, type: type))
        #expect(models.map(\.text) == ["a"] && error?.kind == .business(code: code))
        #expect(error?.businessFailure?.message == message && error?.response?.text == data)
        #expect(error?.message.hasPrefix("the server reported a failure in the stream") == true)
    }

    @Test func modelThatReadsItGetsIt() async throws {
        let failure = MockReply.EventStep.event(#"{"error": {"code": "x"}}"#)
        #expect(try await outcome(Own.self, failure).models.map(\.error?.code) == ["x"])
        #expect(try await outcome(JSONValue.self, failure).models.count == 1)
        #expect(try await outcome([String: JSONValue].self, failure).models.count == 1)
        // No failure at all, only a word or a null.
        let harmless = try await outcome(
            Chunk.self, .event(#"{"error": null, "text": "a"}"#), .event(#"{"text": "\"error\""}"#))
        #expect(harmless.models.count == 2 && harmless.error == nil)
    }

    @Test func otherTypesOfEventsDoNotHideIt() async throws {
        let (models, error) = try await outcome(
            Chunk.self, type: "delta", .event(#"{"text": "a"}"#, type: "delta"), .event("{}", type: "ping"),
            .event("overloaded", type: "error"), .event(#"{"text": "b"}"#, type: "delta"))
        #expect(models.map(\.text) == ["a"] && error?.kind == .business(code: ""))
        #expect(error?.message.contains("overloaded") == true && error?.response?.text == "overloaded")
    }

    @Test func errorsShowNoSecretsOfAnEvent() async throws {
        let data = #"{"text": 7, "access_token": "abc123secret"}"#
        let (_, error) = try await outcome(Chunk.self, .event(data))
        #expect(error?.kind == .decoding(path: "text") && error?.message.contains("the data is") == true)
        #expect(error?.message.contains("abc123secret") == false)
        let server = try MockServer()
        server.fallback { _ in .events(.event(data)) }
        let stream = try CentralRequestManager.make().events(server.url(), options: EventOptions(endsAt: "[DONE]"))
        let unmarked = await stream.outcome().error
        #expect(unmarked?.kind == .connectionLost && unmarked?.message.contains("the last one was") == true)
        #expect(unmarked?.message.contains("abc123secret") == false)
    }

    @Test func errorsOfTheRowSayWhereItIs() async throws {
        let row = #", errors: { code: "fault.id", message: "fault.text", names: { f1: "tooMuch" } }"#
        let (_, error) = try await outcome(
            Chunk.self, row: row, .event(#"{"fault": {"id": "f1", "text": "too much token=abc123secret"}}"#))
        #expect(error?.kind == .business(code: "f1") && error?.businessFailure?.name == "tooMuch")
        #expect(error?.message.contains("abc123secret") == false)
    }
}
