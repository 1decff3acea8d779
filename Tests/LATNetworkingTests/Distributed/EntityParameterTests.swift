import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

private struct Address: Encodable, Sendable {
    var street: String
    var floor: Int?
}

private struct Everything: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "x")
    enum Color: String, Encodable { case red }
    var text = "a"
    var whole = 1
    var negative = -5
    var large: UInt64 = .max
    var fraction = 1.5
    var flag = true
    var one = 1
    var absent: String?
    var color = Color.red
    var address = Address(street: "Main", floor: nil)
    var tags = ["x", "y"]
    var none: [Int] = []
    var counts = ["k": 1]
    var addresses = ["home": [Address(street: "Side", floor: 2)]]
    var null = JSONValue.null
    var day = Date(timeIntervalSince1970: 0)
}

private struct EverythingInQuery: RequestEntity, Encodable {
    static let route = Route("GET", domain: "d", path: "x?own=1")
    var text = "a b&c"
    var flag = false
    var absent: String?
    var null = JSONValue.null
    var address = Address(street: "Main", floor: 3)
    var tags = ["x", "y"]
}

private class Base: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "items/{id}")
    var id = 1
    var base = "b"
}

private final class Derived: Base {
    var own = "o"

    private enum Key: CodingKey { case own }

    override func encode(to encoder: any Encoder) throws {
        try super.encode(to: encoder)
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(own, forKey: .own)
    }
}

private struct Explicit: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "x")
    var property = "of the type"
    var parameters: Parameters? { ["explicit": 1, "absent": nil, "null": JSONValue.null] }
}

private struct ExplicitWithPath: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "items/{id}")
    var id = 5
    var parameters: Parameters? { ["explicit": 1] }
}

private struct Choosy: RequestEntity, Encodable {
    static let route = Route(server: "s")
    var a = 1
    var encoding: ParameterEncoding?
    var options: RequestOptions { RequestOptions(parameterEncoding: encoding) }
    private enum CodingKeys: CodingKey { case a }
}

private struct Avatar: RequestEntity, Encodable {
    static let route = Route("PUT", domain: "d", path: "users/{id}/avatar")
    var id = 3
    var caption = "me \"quoted\""
    var nested = ["k": [1, 2]]
    var files: [UploadFile] { [UploadFile(name: "img", fileName: "a.png", data: Data([1, 2, 3]))] }
}

private struct Scalar: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "x")
    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(5)
    }
}

private struct NotANumber: RequestEntity, Encodable {
    static let route = Route("POST", domain: "d", path: "x")
    var price = Double.nan
}

private struct Thrower: RequestEntity, Encodable {
    struct Refusal: Error {}
    static let route = Route("POST", domain: "d", path: "x")
    func encode(to encoder: any Encoder) throws { throw Refusal() }
}

private enum Cases: RequestEntity, Encodable {
    case list(page: Int)
    static let route = Route("POST", domain: "d", path: "x")
}

/// The parameter encoding set at each level, and the one that is sent.
private struct Encodings {
    var manager = ParameterEncoding.json
    var domain: ParameterEncoding?
    var row: ParameterEncoding?
    var entity: ParameterEncoding?
    var sent: ParameterEncoding

    static func text(_ encoding: ParameterEncoding?) -> String {
        encoding.map { "parameterEncoding: \"\($0.rawValue)\"" } ?? ""
    }
}

@Suite(.timeLimit(.minutes(1))) struct EntityParameterTests {
    private func sent(
        _ call: EntityCall<JSONValue>, _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) async throws -> RecordedRequest {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url("/")), change)
        _ = try await call.reply(on: manager)
        return try #require(server.requests.first)
    }

    @Test func propertiesKeepTheirTypesInJSON() async throws {
        let request = try await sent(Everything().call)
        #expect(request.headers["Content-Type"] == "application/json")
        let json = try #require(request.json)
        #expect(json["text"].string == "a")
        #expect(json["whole"].int == 1)
        #expect(json["negative"].int == -5)
        #expect(request.text.contains(#""large":18446744073709551615"#))
        #expect(json["fraction"].double == 1.5)
        #expect(json["flag"].bool == true)
        #expect(json["one"].bool == nil)
        #expect(json["absent"] == nil)
        #expect(json["color"].string == "red")
        #expect(json["address"] == ["street": "Main"])
        #expect(json["tags"] == ["x", "y"])
        #expect(json["none"] == [])
        #expect(json["counts"] == ["k": 1])
        #expect(json["addresses"] == ["home": [["street": "Side", "floor": 2]]])
        #expect(json["null"].isNull)
        #expect(json["day"].string == "1970-01-01T00:00:00Z")
        #expect(json.object?.count == 15)
    }

    @Test func getSendsPropertiesInTheQuery() async throws {
        let request = try await sent(EverythingInQuery().call)
        #expect(request.body.isEmpty)
        #expect(request.headers["Content-Type"] == nil)
        #expect(
            request.target
                == "/x?own=1&address%5Bfloor%5D=3&address%5Bstreet%5D=Main&flag=false&null&tags%5B%5D=x&tags%5B%5D=y"
                + "&text=a%20b%26c")
    }

    @Test func superclassPropertiesAreSent() async throws {
        let entity = Derived()
        entity.base = "changed"
        let request = try await sent(entity.call)
        #expect(request.path == "/items/1")
        #expect(request.json == ["base": "changed", "own": "o"])
    }

    @Test func explicitParametersWinOverProperties() async throws {
        #expect(try await sent(Explicit().call).json == ["explicit": 1, "null": nil])
    }

    /// `{id}` in the path is filled from the property, even beside explicit parameters.
    @Test func propertyFillsThePathParameter() async throws {
        let request = try await sent(ExplicitWithPath().call)
        #expect(request.path == "/items/5")
        #expect(request.json == ["explicit": 1])
    }

    @Test func callsParametersWinOverTheEntitys() async throws {
        let request = try await sent(
            Everything().parameters(["whole": 2, "more": [1, 2], "text": nil]))
        #expect(request.json?["whole"].int == 2)
        #expect(request.json?["more"] == [1, 2])
        #expect(request.json?["text"] == nil)
        #expect(request.json?["flag"].bool == true)
    }

    @Test func methodDecidesBetweenQueryAndBody() async throws {
        let server = try MockServer.answering()
        for (method, isQuery) in [
            ("GET", true), ("HEAD", true), ("DELETE", true), ("POST", false), ("PUT", false), ("PATCH", false),
            ("OPTIONS", false),
        ] {
            let manager = try CentralRequestManager.make(
                .make(server.url(), servers: #"s: { domain: "d", path: "x", method: "\#(method)" }"#))
            _ = try await Row(["a": 1]).startRequest(on: manager)
            let request = try #require(server.requests.last)
            #expect(request.method == method)
            #expect(request.query == (isQuery ? "a=1" : nil), "\(method)")
            #expect(request.text == (isQuery ? "" : #"{"a":1}"#), "\(method)")
        }
    }

    @Test func noParametersMeanNoBody() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(
            .make(server.url(), servers: #"s: { domain: "d", path: "x", method: "POST" }"#))
        _ = try await Row().startRequest(on: manager)
        #expect(server.requests[0].body.isEmpty)
        #expect(server.requests[0].headers["Content-Type"] == nil)
        #expect(server.requests[0].headers["Content-Length"] == "0")
    }

    /// `note` is left out, and `id` is in the path.
    private struct Patch: RequestEntity, Encodable {
        static let route = Route("PATCH", domain: "d", path: "x/{id}")
        var id = 1
        var note: String?
        var due: [Int]?
    }

    /// All of its properties are in the path.
    private struct Activate: RequestEntity, Encodable {
        static let route = Route("POST", domain: "d", path: "x/{id}")
        var id = 1
    }

    /// Sends a null for each property.
    private struct Clear: RequestEntity, Encodable {
        static let route = Route("PUT", domain: "d", path: "x")
        var note: String?
        var limits: [String: Int?] = ["a": nil]
        enum CodingKeys: CodingKey { case note, limits }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(note, forKey: .note)
            try container.encode(limits, forKey: .limits)
        }
    }

    @Test func onlyNilMembersSendAnEmptyObject() async throws {
        for call in [
            Patch().call, Row(["gone": nil]).call, Row([:]).call, Row().parameters(["gone": nil]),
            EntityCall(Row.route, parameters: ["gone": nil]),
        ] {
            let request = try await sentByRow(call)
            #expect(request.text == "{}")
            #expect(request.headers["Content-Type"] == "application/json")
        }
        for call in [Activate().call, Row().call] { #expect(try await sentByRow(call).text == "") }
    }

    @Test func explicitNullsOfAnEntityAreSent() async throws {
        #expect(try await sentByRow(Clear().call).text == #"{"limits":{"a":null},"note":null}"#)
        let form = try await sentByRow(Clear().call.parameterEncoding(.form))
        #expect(form.text == "limits%5Ba%5D&note")
    }

    private func sentByRow(_ call: EntityCall<JSONValue>) async throws -> RecordedRequest {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(
            .make(server.url(), servers: #"s: { domain: "d", path: "x", method: "POST" }"#))
        _ = try await call.startRequest(on: manager)
        return try #require(server.requests.first)
    }

    @Test func mostSpecificEncodingWins() async throws {
        let server = try MockServer.answering()
        let cases: [Encodings] = [
            Encodings(manager: .json, sent: .json), Encodings(manager: .form, sent: .form),
            Encodings(domain: .form, sent: .form), Encodings(domain: .form, row: .json, sent: .json),
            Encodings(manager: .form, domain: .json, row: .json, entity: .form, sent: .form),
            Encodings(row: .form, entity: .json, sent: .json),
        ]
        for encodings in cases {
            let row = #"s: { domain: "d", path: "x", method: "POST", \#(Encodings.text(encodings.row)) }"#
            let table = try DomainTable.make(server.url(), domain: Encodings.text(encodings.domain), servers: row)
            let manager = try CentralRequestManager.make(table) { $0.parameterEncoding = encodings.manager }
            let bodies: [ParameterEncoding: String] = [.form: "a=1", .json: #"{"a":1}"#]
            _ = try await Choosy(encoding: encodings.entity).startRequest(on: manager)
            #expect(server.requests.last?.text == bodies[encodings.sent], "\(encodings)")
            for (encoding, body) in bodies {
                _ = try await Choosy(encoding: encodings.entity).parameterEncoding(encoding).startRequest(on: manager)
                #expect(server.requests.last?.text == body, "\(encodings)")
            }
        }
        let form = server.requests.first { $0.text == "a=1" }
        #expect(form?.headers["Content-Type"] == "application/x-www-form-urlencoded")
    }

    @Test func entityParametersWinOverTheRows() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(
            .make(
                server.url(), domain: #"parameters: { channel: "linux", a: 1, n: [1, { k: null }] }"#,
                servers: #"s: { domain: "d", path: "x", method: "POST", parameters: { a: 2, c: 3 } }"#))
        _ = try await Row(["c": 4]).startRequest(on: manager)
        #expect(server.requests.last?.json == ["channel": "linux", "a": 2, "c": 4, "n": [1, ["k": nil]]])
    }

    @Test func filesMakeAMultipartBody() async throws {
        let request = try await sent(Avatar().call)
        #expect(request.path == "/users/3/avatar")
        #expect(request.headers["Content-Type"]?.hasPrefix("multipart/form-data; boundary=") == true)
        let text = request.text
        #expect(text.contains("name=\"caption\"\r\n\r\nme \"quoted\"\r\n"))
        #expect(text.contains("name=\"nested[k][]\"\r\n\r\n1\r\n"))
        #expect(text.contains("name=\"img\"; filename=\"a.png\"\r\nContent-Type: image/png"))
        #expect(!text.contains("name=\"id\""))
    }

    @Test func unencodableParametersAreNotSent() async throws {
        let server = try MockServer.answering()
        let manager = try CentralRequestManager.make(.make(server.url()))
        let scalar = await failure { try await Scalar().startRequest(on: manager) }
        #expect(scalar?.kind == .invalidRequest)
        #expect(scalar?.message.contains("Scalar") == true)
        let number = await failure { try await NotANumber().startRequest(on: manager) }
        #expect(number?.kind == .invalidRequest)
        #expect(number?.message.contains("price") == true, "\(number?.message ?? "")")
        let thrown = await failure { try await Thrower().startRequest(on: manager) }
        #expect(thrown?.kind == .invalidRequest)
        #expect(thrown?.underlying is Thrower.Refusal)
        let call = await failure {
            try await Get<JSONValue>().parameters(["odd": Double.infinity]).startRequest(on: manager)
        }
        #expect(call?.kind == .invalidRequest)
        #expect(call?.message.contains("odd") == true)
        #expect(server.acceptedConnections == 0)
    }

    @Test func encodableEnumIsSentAsItsCase() async throws {
        #expect(try await sent(Cases.list(page: 2).call).json == ["list": ["page": 2]])
    }

    @Test func entityParametersWinOverCommonOnes() async throws {
        let request = try await sent(Everything().call) {
            $0.parameterProvider = { _ in ["whole": 9, "nonce": "n1"] }
        }
        #expect(request.json?["whole"].int == 1)
        #expect(request.json?["nonce"].string == "n1")
    }
}
