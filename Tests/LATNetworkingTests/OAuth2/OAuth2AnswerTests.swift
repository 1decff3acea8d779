import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// What authorization servers really send.
@Suite(.timeLimit(.minutes(1))) struct OAuth2AnswerTests {
    private let server: MockServer

    init() throws { server = try MockServer { _ in .json("{}") } }

    private func manager(_ oauth: OAuth2) throws -> CentralRequestManager {
        try CentralRequestManager.make {
            $0.baseURL = server.url()
            $0.authenticator = oauth
        }
    }

    private var settings: OAuth2.Settings {
        var settings = OAuth2.Settings(tokenURL: server.url("/token"), clientID: "c")
        (settings.grant, settings.deviceURL) = (.deviceCode, server.url("/device"))
        return settings
    }

    private func oauth(_ clock: WallClock) async throws -> OAuth2 {
        let oauth = try OAuth2.make(settings, clock: clock)
        try await oauth.adopt(
            OAuth2.Token(access: "a", refresh: "r1", issued: clock.now, expires: clock.now.addingTimeInterval(-1)))
        return oauth
    }

    /// Keycloak and others name themselves (RFC 9207), also to clients that do not know their metadata.
    @Test func issuerIsNotComparedWithoutOneInTheSettings() throws {
        let metadata = OAuth2Metadata(settings)
        #expect(
            try OAuth2.code(in: "code=x&state=s&iss=https%3A%2F%2Fa.example", state: "s", metadata, settings) == "x")
    }

    @Test func emptyRefreshTokenIsNone() async throws {
        let clock = WallClock()
        server.route("POST", "/token") { _ in .json(#"{"access_token":"b","refresh_token":"","expires_in":100}"#) }
        let oauth = try await oauth(clock)
        _ = try await manager(oauth).startRequest("GET", "/api")
        #expect(oauth.token?.access == "b" && oauth.token?.refresh == "r1")
    }

    @Test(arguments: ["bad_refresh_token", "invalid_refresh_token", "invalid_grant"])
    func uselessRefreshTokenIsNotUsedAgain(_ code: String) async throws {
        let clock = WallClock()
        server.route("POST", "/token") { _ in .json(#"{"error":"\#(code)"}"#) }
        let oauth = try await oauth(clock)
        let error = await failure { try await manager(oauth).startRequest("GET", "/api") }
        #expect(error?.kind == .authentication && error?.message.contains("sign in again") == true)
        #expect(oauth.token?.refresh == nil)
    }

    /// Signing in again would not help.
    @Test func storeThatIsRefusedNamesItsOwnStep() async throws {
        let directory = try TemporaryDirectory()
        let path = try directory.write(Data("{}".utf8), to: "token.json")
        try #require(chmod(path, 0o666) == 0)
        let oauth = try OAuth2.make(settings, store: OAuth2.FileStore(path))
        let error = await failure { try await manager(oauth).startRequest("GET", "/api") }
        #expect(error?.kind == .authentication && error?.message.contains(path) == true)
        #expect(error?.message.contains("sign in") == false)
    }

    /// Azure AD v1 writes the numbers as texts.
    @Test func timesMayBeTexts() async throws {
        server.route("POST", "/device") { _ in
            .json(
                #"{"device_code":"d","user_code":"u","verification_uri":"http://h/","interval":"9","expires_in":"1200"}"#
            )
        }
        server.route("POST", "/token") { _ in .json(#"{"access_token":"b","expires_in":"100"}"#) }
        let (clock, pauses, end) = (WallClock(), Box<[Duration]>([]), Box<Double?>(nil))
        let oauth = try OAuth2.make(settings, clock: clock) { pause in pauses.change { $0.append(pause) } }
        try await oauth.signInWithDeviceCode(on: manager(oauth)) { prompt in
            end.change { $0 = prompt.expires.timeIntervalSince(clock.now) }
        }
        #expect(end.value == 1_200 && pauses.value == [.seconds(9)])
        #expect(oauth.token?.expires?.timeIntervalSince(clock.now) == 100)
    }

    /// The user is not to sign in again because a server is down.
    @Test(arguments: [true, false]) func outageIsNoReasonToSignIn(isBusy: Bool) async throws {
        server.route("POST", "/token") { _ in isBusy ? .status(503) : .noReply }
        let error = await failure { try await manager(oauth(WallClock())).startRequest("GET", "/api") }
        #expect(error?.kind == .authentication && error?.message.hasSuffix("try again later") == true)
        #expect(error?.message.contains("settings") == false)
    }
}
