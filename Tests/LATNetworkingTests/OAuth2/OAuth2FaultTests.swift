import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// What no honest authorization server does, and values.
@Suite(.timeLimit(.minutes(1))) struct OAuth2FaultTests {
    private let server: MockServer

    init() throws {
        server = try MockServer()
        server.route("GET", "/api") { request in
            request.headers["Authorization"] == "Bearer bad" ? .status(401) : .json("{}")
        }
    }

    private func settings(_ change: (inout OAuth2.Settings) -> Void = { _ in }) -> OAuth2.Settings {
        var settings = OAuth2.Settings(tokenURL: server.url("/token"), clientID: "c", secret: .value("top-secret"))
        change(&settings)
        return settings
    }

    private func tokens(_ texts: [String]) -> Box<Int> {
        let count = Box(0)
        server.route("POST", "/token") { _ in
            count.change { $0 += 1 }
            let text = texts[min(count.value, texts.count) - 1]
            return text.hasPrefix("{") ? .json(text) : MockReply(status: 503, body: .bytes(Data(text.utf8)))
        }
        return count
    }

    private func call(_ manager: CentralRequestManager) async throws -> Int {
        try await manager.startRequest("GET", server.url("/api")).status
    }

    /// What entity and call say themselves is sent, and no token is got for it.
    @Test(arguments: [true, false]) func ownAuthorizationTakesThePlaceOfTheToken(_ isOfRow: Bool) async throws {
        let count = tokens([#"{"access_token":"service","token_type":"bearer"}"#])
        server.fallback { .json("\"\($0.headers["Authorization"] ?? "none")\"") }
        let rule = #"oauth2: { tokenURL: "\#(server.url("/token"))", clientID: "c", secretVariable: "PATH" }"#
        let oauth = try OAuth2.make(settings())
        let manager = try CentralRequestManager.make(.make(server.url(), domain: isOfRow ? rule : "")) {
            if !isOfRow { $0.authenticator = oauth }
            $0.headers = ["Authorization": "of the manager"]
        }
        let call = Get<String>()
        #expect(try await call.header("Authorization", "Bearer user").startRequest(on: manager) == "Bearer user")
        #expect(try await OwnToken().startRequest(on: manager) == "Bearer entity")
        #expect(try await call.header("Authorization", nil).startRequest(on: manager) == "none")
        let basic = call.authentication(.basic(user: "ada", password: "pw"))
        #expect(try await basic.startRequest(on: manager) == "Basic YWRhOnB3")
        #expect(count.value == 0)
        #expect(try await call.startRequest(on: manager) == "Bearer service" && count.value == 1)
    }

    private struct OwnToken: RequestEntity {
        typealias Model = String
        static let route = Route("GET", domain: "d", path: "x")
        var options: RequestOptions { RequestOptions(headers: ["Authorization": "Bearer entity"]) }
    }

    @Test func failedRenewalLeavesAValidTokenInUse() async throws {
        let clock = WallClock()
        let count = tokens([#"{"access_token":"a","token_type":"bearer","expires_in":"100"}"#, "down", "down"])
        let manager = try CentralRequestManager.make(OAuth2.make(settings(), clock: clock))
        #expect(try await call(manager) == 200)
        clock.advance(by: 80)
        #expect(try await call(manager) == 200)
        #expect(count.value == 2)
        clock.advance(by: 30)
        let error = await failure(of: { try await call(manager) })
        #expect(
            error?.kind == .authentication && error?.message.contains("with 503") == true, "\(error?.message ?? "")")
    }

    @Test(arguments: [
        (#"{"access_token":"a","token_type":"DPoP"}"#, "type \"DPoP\"; only Bearer"),
        (#"{"token_type":"Bearer"}"#, "without one"),
        (#"{"error":"invalid_scope","error_description":"no \u0007"}"#, "check scopes"), ("oops", "with 503"),
        (#"{"error":"strange"}"#, "look at the documentation"),
    ])
    func unusableAnswerIsOneSentence(_ text: String, _ words: String) async throws {
        let count = tokens([text])
        let manager = try CentralRequestManager.make(OAuth2.make(settings()))
        let error = await failure(of: { try await call(manager) })
        #expect(error?.kind == .authentication && error?.message.contains(words) == true, "\(error?.message ?? "")")
        #expect(count.value == 1 && "\(error.map { "\($0)" } ?? "")".contains("top-secret") == false)
        #expect(error?.message.contains("\u{7}") == false)
    }

    @Test func redirectedTokenRequestIsNotFollowed() async throws {
        let other = try MockServer()
        other.fallback { _ in .json(#"{"access_token":"a"}"#) }
        server.route("POST", "/token") { _ in .redirect(to: other.url("/token"), status: 307) }
        let manager = try CentralRequestManager.make(OAuth2.make(settings()))
        let error = await failure(of: { try await call(manager) })
        #expect(error?.kind == .authentication && other.acceptedConnections == 0)
    }

    /// A file keeps times less exactly. That is no renewal by another process.
    @Test func roundedTimeIsNoNewToken() async throws {
        let (clock, store) = (WallClock(), TestStore())
        let count = tokens([#"{"access_token":"b","expires_in":100}"#])
        let oauth = try OAuth2.make(settings(), store: store, clock: clock)
        store.stored.change {
            $0 = OAuth2.Token(access: "bad", issued: clock.now, expires: clock.now.addingTimeInterval(1_000))
        }
        let manager = try CentralRequestManager.make(oauth)
        #expect(await oauth.needsRefresh == false)
        store.stored.change { $0?.issued = clock.now.addingTimeInterval(1e-6) }
        #expect(try await call(manager) == 200)
        #expect(count.value == 1 && oauth.token?.access == "b")
    }

    /// Another process has renewed the token, and that one has ended, too: its refresh token is the one to use.
    @Test func newerRefreshTokenOfTheStoreIsUsed() async throws {
        let (clock, store) = (WallClock(), TestStore())
        _ = tokens([#"{"access_token":"c","refresh_token":"r3","expires_in":100}"#])
        let oauth = try OAuth2.make(
            settings {
                $0.grant = .deviceCode; $0.deviceURL = server.url("/device")
            }, store: store, clock: clock)
        store.stored.change {
            $0 = OAuth2.Token(access: "a", refresh: "r1", issued: clock.now, expires: clock.now.addingTimeInterval(10))
        }
        let manager = try CentralRequestManager.make(oauth)
        #expect(try await call(manager) == 200)
        store.stored.change {
            $0 = OAuth2.Token(access: "b", refresh: "r2", issued: clock.now, expires: clock.now.addingTimeInterval(20))
        }
        clock.advance(by: 60)
        #expect(try await call(manager) == 200)
        #expect(server.requests.first { $0.path == "/token" }?.text.contains("refresh_token=r2") == true)
        // Another process signs out.
        store.stored.change { $0 = nil }
        clock.advance(by: 95)
        #expect(await failure(of: { try await call(manager) })?.kind == .authentication)
    }

    @Test func replacedTokenThatIsNotStoredIsTold() async throws {
        let (clock, store, warnings) = (WallClock(), TestStore(), Box<[String]>([]))
        _ = tokens([
            #"{"access_token":"b","refresh_token":"r2","expires_in":100}"#, #"{"access_token":"c","expires_in":100}"#,
        ])
        store.stored.change {
            $0 = OAuth2.Token(access: "a", refresh: "r1", issued: clock.now, expires: clock.now.addingTimeInterval(10))
        }
        store.isFull.change { $0 = true }
        let oauth = try OAuth2.make(
            settings {
                $0.grant = .deviceCode; $0.deviceURL = server.url("/device")
            }, store: store, clock: clock,
            warnings: warnings)
        let manager = try CentralRequestManager.make(oauth)
        clock.advance(by: 9)
        #expect(try await call(manager) == 200)
        #expect(oauth.token?.refresh == "r2" && store.stored.value?.refresh == "r1")
        let warning = try #require(warnings.value.first)
        #expect(warnings.value.count == 1 && warning.contains("not stored: the disk is full"))
        #expect(warning.contains("you must sign in again") && !warning.contains("r2"))
        // The next renewal stores again.
        store.isFull.change { $0 = false }
        clock.advance(by: 95)
        #expect(try await call(manager) == 200)
        #expect(store.stored.value?.access == "c" && store.stored.value?.refresh == "r2")
    }

    private func revocable(_ oauth: OAuth2) -> OAuth2 {
        var metadata = OAuth2Metadata(oauth.settings)
        metadata.revocation = server.url("/revoke")
        oauth.state.withLock { $0.metadata = metadata }
        return oauth
    }

    /// Another process has renewed the token.
    @Test func signOutRevokesTheTokenOfTheStore() async throws {
        let store = TestStore()
        server.route("POST", "/revoke") { _ in .status(200) }
        store.stored.change { $0 = OAuth2.Token(access: "a", refresh: "r1") }
        let oauth = try revocable(OAuth2.make(settings(), store: store))
        #expect(await oauth.needsRefresh == false)
        store.stored.change { $0 = OAuth2.Token(access: "b", refresh: "r2") }
        let manager = try CentralRequestManager.make()
        #expect(try await oauth.signOut(on: manager))
        #expect(server.requests.map(\.text).map { $0.contains("token=r2") } == [true])
        #expect(store.stored.value == nil && oauth.token == nil)
    }

    /// The user has signed in with another process, or out, while a token waited to be stored.
    @Test(arguments: [true, false], ["apply", "renew", "signOut"])
    func unsavedTokenDoesNotReplaceALaterOne(isSignedIn: Bool, next: String) async throws {
        let (clock, store) = (WallClock(), TestStore())
        let count = tokens([#"{"access_token":"b","refresh_token":"r2","expires_in":100}"#])
        server.route("POST", "/revoke") { _ in .status(200) }
        store.stored.change {
            $0 = OAuth2.Token(access: "a", refresh: "r1", issued: clock.now, expires: clock.now.addingTimeInterval(10))
        }
        let device = settings { ($0.grant, $0.deviceURL) = (.deviceCode, server.url("/device")) }
        let oauth = try revocable(OAuth2.make(device, store: store, clock: clock, warnings: Box([])))
        let manager = try CentralRequestManager.make(oauth)
        clock.advance(by: 9)
        store.isFull.change { $0 = true }
        #expect(try await call(manager) == 200)
        store.isFull.change { $0 = false }
        let later =
            isSignedIn
            ? OAuth2.Token(access: "of another", refresh: "r9", expires: clock.now.addingTimeInterval(10_000)) : nil
        store.stored.change { $0 = later }
        switch next {
        case "apply":
            clock.advance(by: 11)
            #expect((try? await call(manager)) == (isSignedIn ? 200 : nil))
        case "renew":
            clock.advance(by: 95)
            #expect((try? await call(manager)) == (isSignedIn ? 200 : nil))
        default:
            try await oauth.signOut(on: manager)
            #expect(server.requests.last?.text.contains(isSignedIn ? "token=r9" : "token=r2") == true)
        }
        let left = next == "signOut" ? nil : later
        #expect(store.stored.value == left && oauth.token == left && count.value == 1)
    }

    @Test func unreadableStoreIsTheError() async throws {
        struct Broken: OAuth2.TokenStore {
            struct Locked: Error {}
            func token() async throws -> OAuth2.Token? { throw Locked() }
            func store(_ token: OAuth2.Token?) async throws {}
        }
        let count = tokens([#"{"access_token":"a"}"#])
        let manager = try CentralRequestManager.make(OAuth2.make(settings(), store: Broken()))
        let error = await failure(of: { try await call(manager) })
        #expect(error?.kind == .authentication && count.value == 0)
    }

    // MARK: Metadata

    @Test func metadataOfOpenIDConnectIsUsedToo() async throws {
        _ = tokens([#"{"access_token":"a"}"#])
        let issuer = server.url("/tenant")
        server.route("GET", "/tenant/.well-known/openid-configuration") { [server] _ in
            .json(#"{"issuer":"\#(issuer)","token_endpoint":"\#(server.url("/token"))"}"#)
        }
        let settings = OAuth2.Settings(issuer: issuer, clientID: "c", secret: .value("s"))
        let manager = try CentralRequestManager.make(OAuth2.make(settings))
        for _ in 0..<2 { #expect(try await call(manager) == 200) }
        #expect(
            server.requests.prefix(2).map(\.target) == [
                "/.well-known/oauth-authorization-server/tenant", "/tenant/.well-known/openid-configuration",
            ])
    }

    @Test(arguments: [
        (#"{"issuer":"https://other.example","token_endpoint":"https://other.example/t"}"#, "names the issuer"),
        (#"{"issuer":"ISSUER","token_endpoint":"http://api.example/t"}"#, "not https"),
        (#"{"issuer":"ISSUER"}"#, "has no tokenURL"), ("nothing", "has no metadata"),
    ])
    func unusableMetadataIsOneSentence(_ text: String, _ words: String) async throws {
        let issuer = server.url()
        let document = text.replacing("ISSUER", with: issuer)
        server.route("GET", "/.well-known/oauth-authorization-server") { _ in .json(document) }
        let settings = OAuth2.Settings(issuer: issuer, clientID: "c", secret: .value("s"))
        let manager = try CentralRequestManager.make(OAuth2.make(settings))
        let error = await failure(of: { try await call(manager) })
        #expect(error?.kind == .authentication && error?.message.contains(words) == true, "\(error?.message ?? "")")
    }

    // MARK: The answer of the browser

    @Test(
        arguments: [
            ("code=x&state=s", nil, "x"), ("code=x&state=s&iss=https%3A%2F%2Fa.example", nil, "x"),
            ("code=x&state=t", "state", nil), ("code=x", "state", nil),
            ("code=x&state=s&iss=https%3A%2F%2Fb.example", "(iss)", nil),
            ("state=s", "has no code", nil), ("error=access_denied&state=s", "allow it", nil),
        ] as [(String, String?, String?)])
    func answerOfTheBrowserIsChecked(_ query: String, _ words: String?, _ code: String?) {
        var settings = OAuth2.Settings(issuer: "https://a.example", clientID: "c")
        settings.tokenURL = "https://a.example/t"
        let metadata = OAuth2Metadata(settings)
        do throws(NetworkError) {
            #expect(try OAuth2.code(in: query, state: "s", metadata, settings) == code)
        } catch {
            #expect(code == nil && error.message.contains(words ?? "-"), "\(error.message)")
        }
    }

    @Test func missingIssuerIsRefusedWhereItIsPromised() {
        let settings = OAuth2.Settings(issuer: "https://a.example", clientID: "c")
        var metadata = OAuth2Metadata(settings)
        metadata.namesIssuer = true
        #expect(throws: NetworkError.self) { try OAuth2.code(in: "code=x&state=s", state: "s", metadata, settings) }
    }

    @Test(
        arguments: [
            ("GET /callback?code=1 HTTP/1.1\r\n", "code=1"), ("GET /favicon.ico HTTP/1.1\r\n", nil),
            ("GET /callback HTTP/1.1", nil),
            ("POST /callback?code=1 HTTP/1.1\r\n", nil), ("", nil), ("GET /callback?", nil),
        ] as [(String, String?)])
    func onlyTheAnswerCounts(_ head: String, _ query: String?) {
        #expect(LoopbackRedirect.query(inHead: Array(head.utf8)) == query)
    }

    // MARK: The file

    @Test func fileIsForItsOwnerOnly() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "deep/er/token.json")
        let store = OAuth2.FileStore(path)
        #expect(try await store.token() == nil)
        let token = OAuth2.Token(
            access: "a", refresh: "r", issued: Date(timeIntervalSince1970: 1), expires: Date(timeIntervalSince1970: 2.5)
        )
        try await store.store(token)
        #expect(try await store.token() == token && Self.mode(path) == 0o600)
        #expect(Self.mode(directory.path(of: "deep/er")) == 0o700)
        #expect(chmod(path, 0o644) == 0)
        #expect(try await store.token() == token && Self.mode(path) == 0o600)
        #expect(chmod(path, 0o666) == 0)
        let writable = await failure(of: { try await store.token() })
        #expect(writable?.kind == .storage && writable?.message.contains("may be written by others") == true)
        try await store.store(nil)
        #expect(try await store.token() == nil)
        try await store.store(nil)
        try Data("no JSON".utf8).write(to: URL(filePath: path))
        #expect(chmod(path, 0o600) == 0)
        let damaged = await failure(of: { try await store.token() })
        #expect(damaged?.message.contains("remove it, and sign in again") == true)
        #expect(unlink(path) == 0 && symlink("/etc/passwd", path) == 0)
        let link = await failure(of: { try await store.token() })
        #expect(link?.message.contains("symbolic link") == true)
        let unwritable = await failure(of: { try await OAuth2.FileStore("/dev/null/x/t").store(token) })
        #expect(unwritable?.kind == .storage)
    }

    private static func mode(_ path: String) -> mode_t {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_mode & 0o777 : 0
    }

    @Test func secretsAreNotShown() {
        let token = OAuth2.Token(access: "hidden-a", refresh: "hidden-r")
        let settings = settings()
        var dumped = ""
        dump(token, to: &dumped)
        dump(settings, to: &dumped)
        dumped += "\(token)\(String(reflecting: token))\(settings)\(String(reflecting: settings))"
        #expect(!dumped.contains("hidden") && !dumped.contains("top-secret"))
        for name in ["device_code", "user_code", "code_verifier", "client_secret", "client_assertion"] {
            #expect(Secrets.standard.contains(parameter: name) && Secrets.standard.contains(member: name))
        }
    }

    // MARK: Decisions

    // A quarter of the lifetime is the longest leeway.
    struct Mistake: Sendable {
        let words: String
        let change: @Sendable (inout OAuth2.Settings) -> Void

        init(_ words: String, _ change: @escaping @Sendable (inout OAuth2.Settings) -> Void) {
            self.words = words
            self.change = change
        }
    }

    static let mistakes = [
        Mistake("no identifier") { $0.clientID = "" }, Mistake("no server is named") { $0.tokenURL = nil },
        Mistake("not an https URL") { $0.tokenURL = "http://api.example/t" },
        Mistake("not an https URL") { $0.tokenURL = "http://127.example/t" },
        Mistake("not an https URL") { $0.tokenURL = "https://u@a.example/t" },
        Mistake("needs the secret") {
            $0.secret = nil
            $0.grant = .clientCredentials
        },
        Mistake("needs a secret") {
            $0.secret = nil
            $0.clientAuthentication = .post
        },
        Mistake("leave one") {
            $0.clientAuthentication = DomainTable.OAuth2Rule.ClientAuthentication(rawValue: "none")
        },
        Mistake("needs deviceURL") { $0.grant = .deviceCode },
        Mistake("needs authorizationURL") { $0.grant = .authorizationCode },
        Mistake("leeway") { $0.leeway = .seconds(-1) },
    ]

    @Test(arguments: mistakes.indices) func unusableSettingsAreRefused(index: Int) {
        let mistake = Self.mistakes[index]
        var settings = settings()
        mistake.change(&settings)
        let error = #expect(throws: NetworkError.self) { try OAuth2(settings) }
        #expect(
            error?.kind == .invalidRequest && error?.message.contains(mistake.words) == true, "\(error?.message ?? "")")
    }
}
