import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

private struct Echoed: Decodable, Sendable {
    var args: [String: String]?
    var form: [String: String]?
    var json: JSONValue?
    var files: [String: String]?
    var headers: [String: String]
    var url: String
}

private struct Search: RequestEntity, Encodable {
    typealias Model = Echoed
    static let route = Route("GET", server: "get")
    var q = "a b&c=ü"
    var page = 2
    var absent: String?
}

private struct Order: RequestEntity, Encodable {
    typealias Model = Echoed
    static let route = Route("POST", server: "post")
    var name = "tea"
    var count = 2
    var gift = false
    var lines = [["sku": 1]]
}

private struct Upload: RequestEntity, Encodable {
    typealias Model = Echoed
    static let route = Route("PUT", server: "put")
    var title = "Holiday"
    var files: [UploadFile] { [UploadFile(name: "doc", fileName: "a.txt", data: Data("the text".utf8))] }
}

private struct Status: RequestEntity, Encodable {
    typealias Model = Empty
    static let route = Route("GET", server: "status")
    var code: Int
}

private struct Slow: RequestEntity {
    static let route = Route("GET", server: "slow")
}

private struct Bearer: RequestEntity {
    static let route = Route("GET", server: "bearer")
}

private struct Compressed: RequestEntity {
    static let route = Route("GET", server: "gzip")
}

@Suite(.timeLimit(.minutes(1)), .needsHTTPBin)
struct HTTPBinEntityTests {
    private func manager() throws -> CentralRequestManager {
        try .make(
            .make(
                Servers.httpbin ?? "", domain: #"headers: { "X-App": "demo" }"#,
                servers: """
                    get: { domain: "d", path: "get" }, post: { domain: "d", path: "post" },
                    put: { domain: "d", path: "put" }, status: { domain: "d", path: "status/{code}" },
                    slow: { domain: "d", path: "delay/5", timeout: "300ms" }, bearer: { domain: "d", path: "bearer" },
                    gzip: { domain: "d", path: "gzip" },
                    """))
    }

    @Test func propertiesArriveInTheQuery() async throws {
        let echoed = try await Search().startRequest(on: manager())
        #expect(echoed.args == ["q": "a b&c=ü", "page": "2"])
        #expect(echoed.headers["X-App"] == "demo")
    }

    @Test func propertiesArriveAsJSONOrForm() async throws {
        let manager = try manager()
        let json = try await Order().startRequest(on: manager)
        #expect(json.json == ["name": "tea", "count": 2, "gift": false, "lines": [["sku": 1]]])
        let form = try await Order().parameterEncoding(.form).startRequest(on: manager)
        #expect(form.form == ["name": "tea", "count": "2", "gift": "false", "lines[][sku]": "1"])
    }

    @Test func filesArriveAsAForm() async throws {
        let echoed = try await Upload().startRequest(on: manager())
        #expect(echoed.form == ["title": "Holiday"])
        #expect(echoed.files == ["doc": "the text"])
    }

    @Test(arguments: [200, 204, 400, 404, 500]) func errorStatusIsThrown(_ code: Int) async throws {
        let manager = try manager()
        if code < 300 {
            #expect(try await Status(code: code).reply(on: manager).response.status == code)
        } else {
            let error = await failure { try await Status(code: code).startRequest(on: manager) }
            #expect(error?.kind == .httpStatus)
            #expect(error?.response?.status == code)
        }
    }

    @Test func rowsTimeoutEndsASlowResponse() async throws {
        #expect(await failure { try await Slow().startRequest(on: manager()) }?.kind == .timeout(.total))
    }

    @Test func bearerTokenArrives() async throws {
        let manager = try manager()
        let answer = try await Bearer().authentication(.bearer(token: "t1")).startRequest(on: manager)
        #expect(answer["token"].string == "t1")
        let other = try await Bearer().header("Authorization", "Bearer t2").startRequest(on: manager)
        #expect(other["token"].string == "t2")
        #expect(await failure { try await Bearer().startRequest(on: manager) }?.response?.status == 401)
    }

    @Test func compressedResponseIsDecoded() async throws {
        #expect(try await Compressed().startRequest(on: manager())["gzipped"].bool == true)
    }
}
