import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// Two users at the same time, under every policy and every form of call.
@Suite(.timeLimit(.minutes(3))) struct CacheUserTests {
    enum Form: String, CaseIterable, Sendable {
        case async, closure, send, entity, replies, stream, coalesced

        /// Returns the users whose responses arrived.
        func ask(_ manager: CentralRequestManager, _ url: String, as user: String) async throws -> [String] {
            let headers: HTTPHeaders = ["Authorization": user]
            switch self {
            case .async, .coalesced:
                return [try await manager.startRequest("GET", url, headers: headers).text ?? ""]
            case .send:
                return [try await manager.send(HTTPRequest("GET", url, headers: headers)).text ?? ""]
            case .closure:
                let texts = Log<String>()
                try await withCheckedThrowingContinuation { continuation in
                    _ = manager.startRequest(
                        "GET", url, headers: headers,
                        success: { task, response in
                            texts.append(response.text ?? "")
                            if task.isFinished { continuation.resume() }
                        }, failure: { _, error in continuation.resume(throwing: error) })
                }
                return texts.elements
            case .entity:
                return [try await Ask().header("Authorization", user).startRequest(on: manager)]
            case .replies:
                var users: [String] = []
                for try await reply in Ask().header("Authorization", user).replies(on: manager) {
                    users.append(reply.model)
                }
                return users
            case .stream:
                let body = try await manager.stream("GET", url, headers: headers).body
                return [String(decoding: try await body.collect(upTo: 1 << 20), as: UTF8.self)]
            }
        }
    }

    private struct Ask: RequestEntity {
        typealias Model = String
        static let route = Route("GET", url: "/me")
    }

    private struct Row: Sendable, CustomTestStringConvertible {
        let policy: CachePolicy
        let form: Form
        let control: String
        var testDescription: String { "\(policy) \(form) \(control)" }
    }

    private static let policies: [CachePolicy] = [
        .networkOnly, .writeOnly, .cacheElseNetwork(.forever), .cacheThenNetwork, .networkElseCache, .http,
    ]

    /// Fresh responses, and stale ones that are refreshed in the background.
    private static let rows = policies.flatMap { policy in
        Form.allCases.flatMap { form in
            ["max-age=3600", "max-age=1, stale-while-revalidate=3600"].map { control in
                Row(policy: policy, form: form, control: control)
            }
        }
    }

    @Test(arguments: rows) private func noUserSeesAnothersResponse(_ row: Row) async throws {
        let server = try MockServer()
        server.fallback { request in
            .json("\"\(request.headers["Authorization"] ?? "nobody")\"").header("Cache-Control", row.control)
        }
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(row.policy, clock) {
            $0.baseURL = server.url("")
            if row.form == .coalesced { $0.duplicates = .coalesce }
        }
        let url = server.url("/me")
        for _ in 0..<3 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for user in ["ada", "bob", "ada"] {
                    group.addTask {
                        let answers = try await row.form.ask(manager, url, as: user)
                        #expect(!answers.isEmpty && answers.allSatisfy { $0.filter { $0 != "\"" } == user })
                    }
                }
                try await group.waitForAll()
            }
            clock.advance(by: 2)
        }
        // A stored response, also one from a refresh, is found by its own user only.
        for user in ["ada", "bob", "eve"] {
            let kept = try? await manager.startRequest(
                "GET", url, cache: .cacheOnly, headers: ["Authorization": user])
            #expect(kept?.text == (user == "eve" || row.policy == .networkOnly ? nil : "\"\(user)\""))
        }
        await manager.shutdown()
    }

    /// A redirect for one user may lead to an address whose response says `public`, such as a signed one of a CDN.
    @Test(arguments: [CachePolicy.cacheElseNetwork(.forever), .networkElseCache, .cacheOnly])
    func publicTargetOfARedirectIsNotForAll(policy: CachePolicy) async throws {
        let server = try MockServer()
        server.route("GET", "/file") { $0.headers["Authorization"] == "ada" ? .redirect(to: "/signed") : .status(401) }
        server.route("GET", "/signed") { _ in .text("secret").header("Cache-Control", "public, max-age=3600") }
        let manager = try CentralRequestManager.caching(.cacheElseNetwork(.forever))
        func get(_ user: String?, _ policy: CachePolicy) async throws -> String? {
            let headers: HTTPHeaders = user.map { ["Authorization": $0] } ?? [:]
            return try await manager.startRequest("GET", server.url("/file"), cache: policy, headers: headers).text
        }
        #expect(try await get("ada", .writeOnly) == "secret")
        for user in [nil, "bob"] { #expect(await failure { try await get(user, policy) } != nil) }
        #expect(try await get("ada", .cacheOnly) == "secret")
    }

    /// A 304, or the response to a HEAD, may set a cookie for the user who asked. Others find the same entry.
    @Test(arguments: ["GET", "HEAD"]) func cookieOfAConfirmationIsForItsUser(method: String) async throws {
        let server = try MockServer()
        let control = "max-age=3600"
        server.enqueue(.text("x").header("Cache-Control", "max-age=1").header("ETag", "\"a\""))
        let reply = (method == "GET" ? MockReply.status(304) : .text("x")).header("ETag", "\"a\"")
        server.enqueue(reply.header("Cache-Control", control).header("Set-Cookie", "session=ada"))
        let clock = TestClock()
        let manager = try CentralRequestManager.caching(.http, clock)
        _ = try await manager.startRequest("GET", server.url("/a"))
        clock.advance(by: 10)
        let own = try await manager.startRequest(method, server.url("/a"), headers: ["Authorization": "ada"])
        #expect(own.headers[values: "Set-Cookie"] == ["session=ada"])
        #expect(own.source == (method == "GET" ? .revalidated : .network))
        let other = try await manager.startRequest("GET", server.url("/a"), headers: ["Authorization": "bob"])
        #expect(other.source == .memoryCache && other.headers["Set-Cookie"] == nil)
        #expect(other.headers["Cache-Control"] == control)
    }
}
