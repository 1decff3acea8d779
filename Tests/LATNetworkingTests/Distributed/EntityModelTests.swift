import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

private struct Item: Codable, Equatable, Sendable {
    var name: String
    var price: Double
}

private struct Cart: Decodable, Equatable, Sendable { var items: [Item] }

private struct Head<Model: Decodable & Sendable>: RequestEntity {
    static var route: Route { Route("HEAD", domain: "d", path: "x") }
}

@Suite(.timeLimit(.minutes(1))) struct EntityModelTests {
    private static let envelope = #"envelope: { code: "status", message: "m", data: "body.data", success: [1] }"#

    private func answer<Model: Decodable & Sendable>(
        _ type: Model.Type, _ reply: MockReply, domain: String = ""
    ) async throws -> Model {
        let server = try MockServer()
        server.fallback { _ in reply }
        let manager = try CentralRequestManager.make(.make(server.url(), domain: domain))
        return try await Get<Model>().startRequest(on: manager)
    }

    private func wrapped(_ data: String) -> MockReply { .json(#"{"status": 1, "body": {"data": \#(data)}}"#) }

    @Test func structsArraysAndScalarsAreDecoded() async throws {
        let item = Item(name: "tea", price: 2.5)
        #expect(try await answer(Item.self, .json(#"{"name": "tea", "price": 2.5}"#)) == item)
        #expect(try await answer([Item].self, .json(#"[{"name": "tea", "price": 2.5}]"#)) == [item])
        #expect(try await answer([String: Item].self, .json(#"{"a": {"name": "tea", "price": 2.5}}"#)) == ["a": item])
        #expect(try await answer(Int.self, .json("5")) == 5)
        #expect(try await answer(Double.self, .json("5")) == 5)
        #expect(try await answer(Bool.self, .json("true")) == true)
        #expect(try await answer(String.self, .json(#""text""#)) == "text")
        #expect(try await answer(JSONValue.self, .json(#"{"a": [1, null]}"#)) == ["a": [1, nil]])
        #expect(try await answer([Int?].self, .json("[1, null]")) == [1, nil])
    }

    @Test func modelsInEnvelopesAreDecoded() async throws {
        let item = Item(name: "tea", price: 2.5)
        let json = #"{"name": "tea", "price": 2.5}"#
        #expect(try await answer(Item.self, wrapped(json), domain: Self.envelope) == item)
        #expect(try await answer([Item].self, wrapped("[\(json)]"), domain: Self.envelope) == [item])
        #expect(try await answer(Int.self, wrapped("5"), domain: Self.envelope) == 5)
        #expect(try await answer(String.self, wrapped(#""text""#), domain: Self.envelope) == "text")
        #expect(try await answer(Bool.self, wrapped("true"), domain: Self.envelope) == true)
        #expect(try await answer(JSONValue.self, wrapped(json), domain: Self.envelope)["price"].double == 2.5)
        #expect(try await answer(Data.self, wrapped(#""AQID""#), domain: Self.envelope) == Data([1, 2, 3]))
        #expect(try await answer(Empty.self, wrapped(json), domain: Self.envelope) == Empty())
    }

    @Test func plainTextIsAStringModel() async throws {
        #expect(try await answer(String.self, .text("plain words")) == "plain words")
    }

    @Test(arguments: [
        MockReply.status(204), .json(""), .json(" \n"), .chunked([]), MockReply(status: 304), .status(200),
        .status(201),
    ])
    func responseWithoutContentIsASuccess(_ reply: MockReply) async throws {
        for domain in ["", Self.envelope] {
            #expect(try await answer(Item?.self, reply, domain: domain) == nil)
            #expect(try await answer([Item]?.self, reply, domain: domain) == nil)
            #expect(try await answer(Empty.self, reply, domain: domain) == Empty())
            #expect(try await answer(JSONValue.self, reply, domain: domain) == .null)
            #expect(try await answer(Data?.self, reply, domain: domain) == nil)
        }
    }

    @Test func absentOptionalModelIsNil() async throws {
        #expect(try await answer(JSONValue?.self, .status(204)) == nil)
        #expect(try await answer(Empty?.self, .status(204)) == nil)
    }

    @Test func headResponseHasNoModel() async throws {
        let server = try MockServer.answering(#"{"name": "tea", "price": 1}"#)
        let manager = try CentralRequestManager.make(.make(server.url()))
        let reply = try await Head<Item?>().reply(on: manager)
        #expect(reply.model == nil)
        #expect(reply.response.headers["Content-Type"] == "application/json")
        #expect(try await Head<Empty>().startRequest(on: manager) == Empty())
    }

    @Test func missingModelErrorNamesTheNextStep() async throws {
        let error = await failure { try await answer(Item.self, .status(204)) }
        #expect(error?.kind == .decoding(path: ""))
        let message = error?.message ?? ""
        #expect(message.contains("optional") || message.contains("Empty"), "\(message)")
        let inEnvelope = await failure { try await answer(Item.self, .json(#"{"status": 1}"#), domain: Self.envelope) }
        #expect(inEnvelope?.kind == .decoding(path: "body.data"))
        #expect(inEnvelope?.message.contains("optional") == true)
    }

    @Test func emptyModelAcceptsAnyContent() async throws {
        #expect(try await answer(Empty.self, .json("[1]")) == Empty())
        #expect(try await answer(Empty.self, .json("5")) == Empty())
        #expect(try await answer(Empty.self, .text("OK")) == Empty())
        #expect(try await answer(Empty.self, .data(Data([0xFF, 0]), contentType: "image/png")) == Empty())
    }

    @Test func optionalModelsAreDecoded() async throws {
        #expect(try await answer(Item?.self, .json(#"{"name": "tea", "price": 2.5}"#)) == Item(name: "tea", price: 2.5))
        #expect(try await answer(Item?.self, .json("null")) == nil)
        #expect(try await answer(Item?.self, wrapped("null"), domain: Self.envelope) == nil)
        #expect(try await answer(Item?.self, .json(#"{"status": 1}"#), domain: Self.envelope) == nil)
    }

    @Test func typeMismatchNamesThePath() async throws {
        let reply = MockReply.json(#"{"items": [{"name": "a", "price": 1}, {"name": "b", "price": "two"}]}"#)
        let error = await failure { try await answer(Cart.self, reply) }
        #expect(error?.kind == .decoding(path: "items[1].price"))
        #expect(error?.message.contains("items[1].price") == true)
        #expect(error?.response?.status == 200)
        #expect(error?.response?.data.isEmpty == false)
        #expect(error?.underlying is DecodingError)
        #expect(error?.request?.method == .get, "the error does not say which request it was")
        #expect(await failure { try await answer(Cart.self, .json("{}")) }?.kind == .decoding(path: "items"))
        let element = await failure { try await answer([Item].self, .json(#"[{"name": 1}]"#)) }
        #expect(element?.kind == .decoding(path: "[0].name"))
        #expect(await failure { try await answer(Int.self, .json(#""5""#)) }?.kind == .decoding(path: ""))
        #expect(await failure { try await answer(Item.self, .text("<html>")) }?.kind == .decoding(path: ""))
        #expect(await failure { try await answer(JSONValue.self, .text("<html>")) }?.kind == .decoding(path: ""))
    }

    @Test func typeMismatchInEnvelopeNamesTheWholePath() async throws {
        let list = wrapped(#"[{"name": "a", "price": 1}, {"name": "b", "price": "two"}]"#)
        let error = await failure { try await answer([Item].self, list, domain: Self.envelope) }
        #expect(error?.kind == .decoding(path: "body.data[1].price"))
        #expect(error?.response?.status == 200)
        #expect(error?.request?.method == .get, "the error does not say which request it was")
        let cart = wrapped(#"{"items": [{"name": "a"}]}"#)
        #expect(
            await failure { try await answer(Cart.self, cart, domain: Self.envelope) }?.kind
                == .decoding(path: "body.data.items[0].price"))
        #expect(
            await failure { try await answer(Int.self, wrapped(#""5""#), domain: Self.envelope) }?.kind
                == .decoding(path: "body.data"))
        #expect(
            await failure { try await answer(Item.self, wrapped("null"), domain: Self.envelope) }?.kind
                == .decoding(path: "body.data"))
    }
}
