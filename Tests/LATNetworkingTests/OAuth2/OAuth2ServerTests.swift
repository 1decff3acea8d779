import FoundationEssentials
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// Tokens from a server that is made with Authlib (`scripts/lib/oauth.py`).
@Suite(.needsPython, .timeLimit(.minutes(2))) struct OAuth2ServerTests {
    private let server: PythonScript
    private var base: String { "http://127.0.0.1:\(server.port)" }

    init() async throws { server = try await PythonScript("oauth.py", ["--interval", "3"]) }

    private func settings(_ change: (inout OAuth2.Settings) -> Void = { _ in }) -> OAuth2.Settings {
        var settings = OAuth2.Settings(issuer: base, clientID: "cli", scopes: ["read"])
        change(&settings)
        return settings
    }

    private var service: OAuth2.Settings {
        OAuth2.Settings(issuer: base, clientID: "service", secret: .value("s3cret/+ %"), scopes: ["read"])
    }

    private var grants: [Substring] {
        ["client_credentials", "refresh_token", "authorization_code", "urn:"].flatMap { server.lines($0) }
    }

    private func resource(_ manager: CentralRequestManager) async throws -> String? {
        try await manager.startRequest("GET", base + "/resource").json()["user"].string
    }

    /// Signs in with a device code that is entered at the given pause, and returns the pauses.
    @discardableResult
    private func signIn(
        _ oauth: OAuth2, _ pauses: Box<[Duration]> = Box([]), allow: Bool = true
    ) async throws -> OAuth2.Prompt? {
        let plain = try CentralRequestManager.make()
        let prompt = Box<OAuth2.Prompt?>(nil)
        try await oauth.signInWithDeviceCode(on: plain) { shown in
            prompt.change { $0 = shown }
            _ = try await plain.send(
                HTTPRequest("GET", base + "/device/approve?user_code=\(shown.userCode)&allow=\(allow ? 1 : 0)"))
        }
        return prompt.value
    }

    // MARK: Client credentials

    @Test func manyCallsGetOneToken() async throws {
        let manager = try CentralRequestManager.make(OAuth2(service))
        let users = try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<20 { group.addTask { try await resource(manager) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(users == Array(repeating: "ada", count: 20))
        #expect(grants == ["client_credentials"])
    }

    @Test(arguments: [OAuth2.Settings.ClientAuthentication.basic, .post])
    func secretIsSentAsTheServerWants(_ method: OAuth2.Settings.ClientAuthentication) async throws {
        var settings = service
        settings.clientAuthentication = method
        #expect(try await resource(CentralRequestManager.make(OAuth2(settings))) == "ada")
    }

    @Test func tokenIsRenewedBeforeItEnds() async throws {
        let clock = WallClock()
        let oauth = try OAuth2.make(service, clock: clock)
        let manager = try CentralRequestManager.make(oauth)
        _ = try await resource(manager)
        let first = oauth.token
        clock.advance(by: 3_569)
        _ = try await resource(manager)
        #expect(oauth.token == first && grants.count == 1)
        clock.advance(by: 2)
        _ = try await resource(manager)
        #expect(oauth.token != first && grants.count == 2)
    }

    @Test func rejectedTokenIsRenewed() async throws {
        let manager = try CentralRequestManager.make(OAuth2(service))
        _ = try await resource(manager)
        _ = try await CentralRequestManager.make().startRequest("POST", base + "/end")
        #expect(try await resource(manager) == "ada")
        #expect(grants.count == 2)
    }

    @Test func wrongSecretIsATypedError() async throws {
        var settings = service
        settings.secret = .value("guess-me")
        let manager = try CentralRequestManager.make(OAuth2(settings))
        let error = await failure(of: { try await resource(manager) })
        #expect(error?.kind == .authentication)
        #expect((error?.underlying as? OAuth2.Failure)?.reason == .invalidClient)
        #expect(error?.message.contains("check clientID, the secret and clientAuthentication") == true)
        let all = "\(error.map { "\($0)" } ?? "")\(String(reflecting: error))"
        #expect(!all.contains("guess-me"))
    }

    // MARK: Users

    @Test func deviceCodeSignsIn() async throws {
        let pauses = Box<[Duration]>([])
        let oauth = try OAuth2.make(settings()) { time in pauses.change { $0.append(time) } }
        let prompt = try await signIn(oauth)
        #expect(prompt?.url == base + "/device" && prompt?.completeURL?.contains(prompt?.userCode ?? "-") == true)
        #expect(pauses.value == [.seconds(3)])
        #expect(try await resource(CentralRequestManager.make(oauth)) == "ada")
        #expect(oauth.token?.refresh != nil && oauth.token?.scopes == ["read"])
    }

    @Test func deviceAsksMoreSlowlyWhenTold() async throws {
        let pauses = Box<[Duration]>([])
        let code = Box("")
        let plain = try CentralRequestManager.make()
        let base = base
        let oauth = try OAuth2.make(settings()) { time in
            pauses.change { $0.append(time) }
            guard pauses.value.count == 4 else { return }
            _ = try await plain.send(HTTPRequest("GET", base + "/device/approve?user_code=\(code.value)&allow=1"))
        }
        try await oauth.signInWithDeviceCode(on: plain) { prompt in code.change { $0 = prompt.userCode } }
        // The second question is answered with slow_down, the others with authorization_pending.
        #expect(pauses.value == [.seconds(3), .seconds(3), .seconds(8), .seconds(8)])
    }

    @Test(arguments: [(Duration.seconds(2), true), (.seconds(900_000), false)])
    func deviceIsWaitedForWithinALimit(_ limit: Duration, isLimited: Bool) async throws {
        let clock = WallClock()
        let pauses = Box<[Duration]>([])
        let oauth = try OAuth2.make(settings(), clock: clock) { time in
            pauses.change { $0.append(time) }
            clock.advance(by: isLimited ? time / .seconds(1) : 90_000)
        }
        let plain = try CentralRequestManager.make()
        let error = await failure(of: { try await oauth.signInWithDeviceCode(on: plain, within: limit) { _ in } })
        #expect(error?.kind == .authentication)
        // The code expires before a longer limit.
        #expect((error?.underlying as? OAuth2.Failure)?.reason == (isLimited ? nil : .expiredToken))
        #expect(pauses.value == [isLimited ? .seconds(2) : .seconds(3)])
    }

    @Test func refusedDeviceCodeIsATypedError() async throws {
        let oauth = try OAuth2.make(settings())
        let error = await failure(of: { try await signIn(oauth, allow: false) })
        #expect(error?.kind == .authentication && (error?.underlying as? OAuth2.Failure)?.reason == .accessDenied)
    }

    @Test func browserSignsIn() async throws {
        let browser = try CentralRequestManager.make()
        let oauth = try OAuth2.make(settings())
        let page = Box("")
        try await oauth.signInWithBrowser(on: browser) { url in
            let response = try await browser.startRequest("GET", url)
            page.change { $0 = response.text ?? "" }
        }
        #expect(page.value.hasPrefix("You have signed in"))
        #expect(try await resource(CentralRequestManager.make(oauth)) == "ada")
    }

    @Test func refusedBrowserIsATypedError() async throws {
        let browser = try CentralRequestManager.make()
        let oauth = try OAuth2.make(settings { $0.parameters = ["prompt": "refuse"] })
        let error = await failure(of: {
            try await oauth.signInWithBrowser(on: browser) { url in _ = try await browser.startRequest("GET", url) }
        })
        #expect((error?.underlying as? OAuth2.Failure)?.reason == .accessDenied)
    }

    @Test func refreshTokenIsReplacedEachTime() async throws {
        let (clock, store) = (WallClock(), TestStore())
        let oauth = try OAuth2.make(settings(), store: store, clock: clock)
        try await signIn(oauth)
        let manager = try CentralRequestManager.make(oauth)
        var seen = [try #require(oauth.token?.refresh)]
        for _ in 0..<3 {
            clock.advance(by: 3_590)
            #expect(try await resource(manager) == "ada")
            #expect(store.stored.value == oauth.token)
            seen.append(try #require(oauth.token?.refresh))
        }
        #expect(Set(seen).count == 4 && server.lines("refresh_token").count == 3)
    }

    /// A refresh token that is used twice revokes all tokens of this server, as a stolen one would.
    @Test func processesThatShareAFileRenewOnce() async throws {
        let directory = try TemporaryDirectory()
        let store = OAuth2.FileStore(directory.path(of: "a/b/token.json"))
        let clock = WallClock()
        try await signIn(OAuth2.make(settings(), store: store, clock: clock))
        let managers = try (0..<4).map { _ in
            try CentralRequestManager.make(OAuth2.make(settings(), store: store, clock: clock))
        }
        for manager in managers { _ = try await resource(manager) }
        clock.advance(by: 3_590)
        let users = try await withThrowingTaskGroup(of: String?.self) { group in
            for manager in managers { for _ in 0..<3 { group.addTask { try await resource(manager) } } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(users.count == 12 && !users.contains(nil) && server.lines("refresh_token").count == 1)
    }

    @Test func revokedRefreshTokenIsNotAskedForAgain() async throws {
        let clock = WallClock()
        let store = TestStore()
        let oauth = try OAuth2.make(settings(), store: store, clock: clock)
        try await signIn(oauth)
        let other = try OAuth2.make(settings(), store: store, clock: clock)
        let plain = try CentralRequestManager.make()
        // Another program signs out, and this one does not see it.
        let token = store.stored.value
        #expect(try await other.signOut(on: plain))
        store.stored.change { $0 = token }
        clock.advance(by: 4_000)
        let manager = try CentralRequestManager.make(oauth)
        let error = await failure(of: { try await resource(manager) })
        #expect((error?.underlying as? OAuth2.Failure)?.reason == .invalidGrant)
        #expect(error?.message.contains("sign in again") == true && store.stored.value == nil)
        let later = await failure(of: { try await resource(manager) })
        #expect(later?.kind == .authentication && server.lines("refresh_token").count == 1)
    }

    // MARK: Rows

    @Test func rowGetsItsTokenByItself() async throws {
        let directory = try TemporaryDirectory()
        try Data("s3cret/+ %\nmore\n".utf8).write(to: URL(filePath: directory.path(of: "secret")))
        let table = try DomainTable(
            json5: """
                { domains: { d: { baseURL: "\(base)", oauth2: { issuer: "\(base)", clientID: "service",
                    secretFile: "\(directory.path(of: "secret"))", scopes: ["read"] } } },
                  servers: { r: { domain: "d", path: "resource", method: "GET" },
                    off: { domain: "d", path: "resource", method: "GET", authenticator: null } } }
                """)
        let manager = try CentralRequestManager.make { $0.domains = table }
        for _ in 0..<3 { #expect(try await manager.startRequest(server: "r").model["user"].string == "ada") }
        #expect(grants == ["client_credentials"])
        let error = await failure(of: { try await manager.startRequest(server: "off") })
        #expect(error?.response?.status == 401 && grants.count == 1)
    }
}
