import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(1))) struct ParameterTests {
    private let mixed: Parameters = [
        "text": "a b&c=d/é", "flag": true, "off": false, "one": 1, "big": Int64.max, "huge": UInt64.max,
        "price": 12.5, "none": nil, "null": JSONValue.null, "list": [3, 1, 2], "empty": [Int](),
        "deep": ["b": ["y", "x"], "a": ["k": nil]] as JSONValue,
    ]

    private let mixedQuery =
        "big=9223372036854775807&deep%5Ba%5D%5Bk%5D&deep%5Bb%5D%5B%5D=y&deep%5Bb%5D%5B%5D=x&flag=true"
        + "&huge=18446744073709551615&list%5B%5D=3&list%5B%5D=1&list%5B%5D=2&null&off=false&one=1&price=12.5"
        + "&text=a%20b%26c%3Dd%2F%C3%A9"

    private func sent(
        _ method: String, _ path: String, parameters: Parameters?, body: HTTPBody? = nil,
        _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) async throws -> RecordedRequest {
        let server = try MockServer()
        server.fallback { _ in .status(204) }
        let manager = try CentralRequestManager.make(change)
        _ = try await manager.startRequest(method, server.url(path), parameters: parameters, body: body)
        return try #require(server.requests.first)
    }

    @Test(arguments: ["GET", "HEAD", "DELETE"])
    func getHeadAndDeleteSendAQuery(_ method: String) async throws {
        let request = try await sent(method, "/x", parameters: mixed)
        #expect(request.target == "/x?" + mixedQuery)
        #expect(request.body.isEmpty)
        #expect(request.headers["Content-Type"] == nil)
        #expect(request.headers["Content-Length"] == nil)
    }

    @Test(arguments: ["POST", "PUT", "PATCH", "PROPFIND", "OPTIONS"])
    func otherMethodsSendATypedJSONBody(_ method: String) async throws {
        let request = try await sent(method, "/x", parameters: mixed)
        #expect(request.target == "/x")
        #expect(request.headers["Content-Type"] == "application/json")
        let json = try JSONValue(parsing: request.body)
        #expect(
            json.object?.keys.sorted() == [
                "big", "deep", "empty", "flag", "huge", "list", "null", "off", "one", "price", "text",
            ])
        #expect(json["flag"].bool == true)
        #expect(json["off"].bool == false)
        #expect(json["one"].bool == nil)
        #expect(json["one"].int == 1)
        #expect(json["big"].int64 == Int64.max)
        #expect(request.text.contains("18446744073709551615"))
        #expect(json["price"].double == 12.5)
        #expect(json["null"].isNull)
        #expect(json["list"].array == [3, 1, 2])
        #expect(json["empty"].array == [])
        #expect(json["deep"]["b"].array == ["y", "x"])
        #expect(json["deep"]["a"]["k"].isNull)
        #expect(json["text"].string == "a b&c=d/é")
    }

    @Test(arguments: ["POST", "PUT", "PATCH"])
    func callOrManagerMaySendAForm(_ method: String) async throws {
        let byCall = try await sent(method, "/x", parameters: mixed, body: .form)
        let byManager = try await sent(method, "/x", parameters: mixed) { $0.parameterEncoding = .form }
        for request in [byCall, byManager] {
            #expect(request.target == "/x")
            #expect(request.headers["Content-Type"] == "application/x-www-form-urlencoded")
            #expect(request.text == mixedQuery)
        }
    }

    @Test func callsEncodingWinsOverTheManagers() async throws {
        let json = try await sent("POST", "/x", parameters: ["a": 1], body: .json) { $0.parameterEncoding = .form }
        #expect(json.text == #"{"a":1}"#)
        let form = try await sent("POST", "/x", parameters: ["a": 1], body: .form)
        #expect(form.text == "a=1")
    }

    @Test func getMaySendAFormBody() async throws {
        let request = try await sent("GET", "/x", parameters: ["a": 1], body: .form)
        #expect(request.target == "/x")
        #expect(request.text == "a=1")
    }

    @Test func parametersBesideABodyJoinTheQuery() async throws {
        let request = try await sent("POST", "/x?k=v", parameters: ["a": 1], body: .data(Data("raw".utf8)))
        #expect(request.target == "/x?k=v&a=1")
        #expect(request.text == "raw")
    }

    @Test(arguments: [
        ("/x?k=v", "/x?k=v&a=1"), ("/x?", "/x?a=1"), ("/x?k=v&", "/x?k=v&a=1"), ("/x#part", "/x?a=1"),
        ("/x?k=v#part?no", "/x?k=v&a=1"), ("/x%20y?k=%20%26", "/x%20y?k=%20%26&a=1"),
        ("/x y?k=a b", "/x%20y?k=a%20b&a=1"), ("/é?ü=ß", "/%C3%A9?%C3%BC=%C3%9F&a=1"), ("/100%", "/100%25?a=1"),
        ("/a+b?c=d+e", "/a+b?c=d+e&a=1"),
    ])
    func parametersExtendAnExistingQuery(_ path: String, _ target: String) async throws {
        #expect(try await sent("GET", path, parameters: ["a": 1]).target == target)
    }

    @Test func noParametersLeaveTheURLUnchanged() async throws {
        #expect(try await sent("GET", "/x?k=v", parameters: nil).target == "/x?k=v")
        #expect(try await sent("GET", "/x?k=v", parameters: [:]).target == "/x?k=v")
        #expect(try await sent("GET", "/x", parameters: ["gone": nil, "empty": [Int]()]).target == "/x")
    }

    @Test func emptyParametersSendAnEmptyObject() async throws {
        let none = try await sent("POST", "/x", parameters: nil)
        #expect(none.body.isEmpty)
        #expect(none.headers["Content-Length"] == "0")
        #expect(none.headers["Content-Type"] == nil)
        let empty = try await sent("POST", "/x", parameters: [:])
        #expect(empty.text == "{}")
        #expect(empty.headers["Content-Type"] == "application/json")
        let form = try await sent("POST", "/x", parameters: [:], body: .form)
        #expect(form.text.isEmpty)
        #expect(form.headers["Content-Type"] == "application/x-www-form-urlencoded")
    }

    @Test func unencodableParameterIsRefusedByName() async throws {
        let server = try MockServer()
        let manager = try CentralRequestManager.make()
        for body in [nil, HTTPBody.json, .form] {
            let error = await failure {
                try await manager.startRequest(
                    "POST", server.url("/"), parameters: ["list": [1.5, Double.nan]], body: body)
            }
            #expect(error?.kind == .invalidRequest)
            #expect(error?.message.contains("list") == true)
            #expect(error?.underlying is EncodingError)
        }
        #expect(server.acceptedConnections == 0)
    }

    private struct Filter: Encodable, Sendable {
        var year: Int
        var tag: String?
        var kind: Kind

        enum Kind: String, Encodable { case book }
    }

    @Test func encodableParameterIsNestedInTheQuery() async throws {
        let request = try await sent("GET", "/x", parameters: ["filter": Filter(year: 2025, tag: nil, kind: .book)])
        #expect(request.target == "/x?filter%5Bkind%5D=book&filter%5Byear%5D=2025")
    }

    @Test(.needsHTTPBin)
    func httpbinDecodesTheParameters() async throws {
        let base = try #require(Servers.httpbin)
        let manager = try CentralRequestManager.make { $0.baseURL = base }
        let get = try await manager.startRequest("GET", "/get", parameters: ["q": "a b+c", "tags": ["x", "y"]])
        #expect(try get.json()["args"]["q"].string == "a b+c")
        #expect(try get.json()["args"]["tags[]"].array == ["x", "y"])
        let form = try await manager.startRequest("POST", "/post", parameters: ["q": "ü=1", "n": 2], body: .form)
        #expect(try form.json()["form"]["q"].string == "ü=1")
        #expect(try form.json()["form"]["n"].string == "2")
        let json = try await manager.startRequest("PATCH", "/patch", parameters: ["n": 2, "b": true])
        #expect(try json.json()["json"]["n"].int == 2)
        #expect(try json.json()["json"]["b"].bool == true)
    }
}
