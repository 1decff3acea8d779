import FoundationEssentials
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATClient

/// The origins that get the secrets of a manager's header providers and authenticator.
@Suite(.timeLimit(.minutes(1))) struct CredentialScopeTests {
    /// The setting from which a manager knows its own origins.
    enum Own: String, CaseIterable, Sendable {
        case table, mirror, baseURL, named
    }

    private let own: MockServer
    private let foreign: MockServer
    private let session = CountingSession(field: "X-Auth-Token")

    init() throws {
        own = try MockServer.answering()
        foreign = try MockServer.answering()
    }

    private func manager(
        _ kind: Own?, _ change: (inout CentralRequestManager.Configuration) -> Void = { _ in }
    ) throws -> CentralRequestManager {
        try CentralRequestManager.make {
            switch kind {
            case .table: $0.domains = try? .make(own.url("/api"))
            case .mirror:
                $0.domains = try? .make("http://127.0.0.1:9", domain: #"mirrors: ["\#(own.url("/api"))"]"#)
            case .baseURL: $0.baseURL = own.url("/api")
            case .named: $0.credentialOrigins = [own.url()]
            case nil: break
            }
            $0.headerProvider = { _ in ["Authorization": "provided", "Cookie": "c=1", "X-Plain": "p"] }
            $0.immediateHeaderProvider = { _ in ["X-Api-Key": "k", "X-Immediate": "i"] }
            $0.authenticator = session
            change(&$0)
        }
    }

    private func secrets(_ request: RecordedRequest?) -> [String] {
        ["Authorization", "Cookie", "X-Api-Key", "X-Auth-Token"].filter { request?.headers.contains($0) ?? true }
    }

    private let all = ["Authorization", "Cookie", "X-Api-Key", "X-Auth-Token"]

    @Test(arguments: Own.allCases) func foreignOriginGetsNoSecret(_ kind: Own) async throws {
        let manager = try manager(kind)
        _ = try await manager.startRequest("GET", own.url("/x"))
        _ = try await manager.startRequest("GET", foreign.url("/x"))
        #expect(secrets(own.requests.first) == all)
        #expect(secrets(foreign.requests.first) == [])
        // Fields that are not secret are sent to every origin.
        for request in [own.requests.first, foreign.requests.first] {
            #expect(request?.headers["X-Plain"] == "p" && request?.headers["X-Immediate"] == "i")
        }
    }

    @Test func withoutOwnOriginsSecretsGoEverywhere() async throws {
        let manager = try manager(nil)
        _ = try await manager.startRequest("GET", own.url("/x"))
        _ = try await manager.startRequest("GET", foreign.url("/x"))
        #expect(secrets(own.requests.first) == all)
        #expect(secrets(foreign.requests.first) == all)
    }

    @Test(arguments: [Own.table, .mirror, .baseURL, .named, nil])
    func redirectToForeignOriginCarriesNoSecret(_ kind: Own?) async throws {
        own.route("GET", "/x") { [foreign] _ in .redirect(to: foreign.url("/y")) }
        let manager = try manager(kind)
        _ = try await manager.startRequest("GET", own.url("/x"))
        #expect(secrets(own.requests.first) == all)
        #expect(secrets(foreign.requests.first) == [])
        #expect(foreign.requests.first?.headers["X-Plain"] == "p")
    }

    @Test(arguments: Own.allCases) func redirectFromForeignOriginGetsNoSecret(_ kind: Own) async throws {
        foreign.route("GET", "/x") { [own] _ in .redirect(to: own.url("/y")) }
        let manager = try manager(kind)
        _ = try await manager.startRequest("GET", foreign.url("/x"))
        #expect(secrets(foreign.requests.first) == [])
        #expect(secrets(own.requests.first) == [])
    }

    /// An authenticator may set any field; none of them leaves its origin.
    @Test(arguments: Own.allCases) func anyAuthenticatorFieldStaysWithItsOrigin(_ kind: Own) async throws {
        own.route("GET", "/x") { [foreign] _ in .redirect(to: foreign.url("/y")) }
        let session = CountingSession(field: "X-Session")
        let manager = try manager(kind) { $0.authenticator = session }
        _ = try await manager.startRequest("GET", foreign.url("/direct"))
        #expect(foreign.requests.last?.headers["X-Session"] == nil)
        _ = try await manager.startRequest("GET", own.url("/x"))
        #expect(own.requests.last?.headers["X-Session"] == "token-0")
        #expect(foreign.requests.last?.path == "/y")
        #expect(foreign.requests.last?.headers["X-Session"] == nil)
    }

    @Test func callsOwnSecretIsSentToAnyOrigin() async throws {
        let manager = try manager(.baseURL)
        _ = try await manager.startRequest("GET", foreign.url("/x"), headers: ["Authorization": "mine"])
        #expect(foreign.requests.first?.headers["Authorization"] == "mine")
        #expect(secrets(foreign.requests.first) == ["Authorization"])
    }

    @Test func interceptorsDoNotWidenTheScope() async throws {
        struct Passing: Interceptor {
            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse { try await next(request) }
        }
        /// Sends every request to another URL instead.
        struct Diverting: Interceptor {
            let url: String

            func intercept(
                _ request: HTTPRequest, next: @Sendable (HTTPRequest) async throws -> HTTPResponse
            ) async throws -> HTTPResponse {
                var request = request
                request.url = url
                return try await next(request)
            }
        }
        let passing = try manager(.baseURL) { $0.interceptors = [Passing()] }
        _ = try await passing.startRequest("GET", foreign.url("/x"))
        _ = try await passing.startRequest("GET", "x")
        let diverting = try manager(.baseURL) { [foreign] in $0.interceptors = [Diverting(url: foreign.url("/x"))] }
        _ = try await diverting.startRequest("GET", "x")
        #expect(foreign.requestCount == 2)
        #expect(foreign.requests.allSatisfy { secrets($0) == [] })
        #expect(secrets(own.requests.last) == all)
    }

    @Test func scopeFollowsTheBaseURL() async throws {
        let manager = try manager(.baseURL)
        _ = try await manager.startRequest("GET", foreign.url("/1"))
        manager.baseURL = foreign.url()
        _ = try await manager.startRequest("GET", foreign.url("/2"))
        _ = try await manager.startRequest("GET", own.url("/3"))
        #expect(foreign.requests.map { secrets($0) } == [[], all])
        #expect(secrets(own.requests.first) == [])
    }

    @Test func scopeFollowsTheTable() async throws {
        let manager = try manager(.table)
        _ = try await manager.startRequest("GET", foreign.url("/1"))
        let url = foreign.url()
        try manager.updateDomains { table throws(NetworkError) in
            try table.setDomain("e", DomainTable.DomainRow(baseURL: url))
        }
        _ = try await manager.startRequest("GET", foreign.url("/2"))
        #expect(foreign.requests.map { secrets($0) } == [[], all])
    }

    @Test func foreign401IsDeliveredWithoutRenewal() async throws {
        foreign.fallback { _ in .status(401) }
        let manager = try manager(.baseURL)
        let error = await failure { try await manager.startRequest("POST", foreign.url("/x")) }
        #expect(error?.kind == .httpStatus && error?.response?.status == 401)
        #expect(foreign.requestCount == 1 && session.renewals == 0)
    }

    @Test(arguments: ["http://127.0.0.1@", "http://127.0.0.1:80\\@", "http://127.0.0.1.x@"])
    func userInfoIsNotTakenForTheOrigin(_ prefix: String) async throws {
        let manager = try manager(.baseURL)
        let url = prefix + "127.0.0.1:\(foreign.port)/x"
        _ = try? await manager.startRequest("GET", url)
        // libcurl may refuse a backslash.
        #expect(foreign.requestCount == 1 || prefix.contains("\\"))
        #expect(foreign.requests.allSatisfy { secrets($0).filter { $0 != "Authorization" } == [] })
        #expect(foreign.requests.allSatisfy { $0.headers["Authorization"] != "provided" })
    }
}
