import FoundationEssentials
import Glibc
import LATTesting
import TestSupport
import Testing

@testable import LATClient

/// One token for several managers, and the Secret Service as its store.
@Suite(.timeLimit(.minutes(1))) struct OAuth2SharingTests {
    /// Answers requests for tokens when the test says so.
    private final class TokenServer: Transport {
        let hasAsked = Event()
        let mayAnswer = Event()
        let renewals = Box(0)

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            var response = HTTPResponse(status: 200, url: request.url)
            guard request.url.hasSuffix("/token") else { return response }
            renewals.change { $0 += 1 }
            hasAsked.happen()
            await mayAnswer.wait()
            response.body = ResponseBody(
                Data(#"{"access_token":"b","refresh_token":"r2","expires_in":3600}"#.utf8))
            return response
        }

        func manager(_ oauth: OAuth2) throws -> CentralRequestManager {
            try .make {
                $0.authenticator = oauth
                $0.transport = self
            }
        }
    }

    private static let settings = OAuth2.Settings(
        tokenURL: "https://login.example/token", clientID: "c", secret: .value("top-secret"))

    /// A gateway answers in place of the server, and then the server asks for more time.
    @Test func deviceCodeOutlivesAnOutage() async throws {
        let server = try MockServer()
        server.route("POST", "/device") { _ in
            .json(#"{"device_code":"d","user_code":"u","verification_uri":"http://h/","interval":1}"#)
        }
        let answers = Box<[MockReply]>([
            .text("gateway", status: 503), .json(#"{"error":"authorization_pending"}"#, status: 400),
            .json(#"{"access_token":"a"}"#),
        ])
        server.route("POST", "/token") { _ in
            defer { answers.change { _ = $0.removeFirst() } }
            return answers.value[0]
        }
        let pauses = Box<[Duration]>([])
        let settings = OAuth2.Settings(
            tokenURL: server.url("/token"), deviceURL: server.url("/device"), clientID: "c", grant: .deviceCode)
        let oauth = try OAuth2.make(settings) { time in pauses.change { $0.append(time) } }
        try await oauth.signInWithDeviceCode(on: .make()) { _ in }
        #expect(oauth.token?.access == "a" && pauses.value == [.seconds(1), .seconds(2), .seconds(2)])
    }

    @Test func tokensOfManyRowsAreKept() throws {
        let rows = RowAuthentication { rule throws(NetworkError) in
            AuthenticationStage(TokenSource(try OAuth2(rule)))
        }
        let rules = (0..<200).map {
            OAuth2.Settings(tokenURL: "https://login.example/\($0)", clientID: "c", secret: .value("s"))
        }
        let first = try rules.map { try rows.stage(for: $0) }
        let again = try rules.map { try rows.stage(for: $0) }
        #expect(zip(first, again).allSatisfy { $0 === $1 })
    }

    /// A store whose reading never ends.
    private struct SilentStore: OAuth2.TokenStore {
        let mayEnd: Event

        func token() async throws -> OAuth2.Token? {
            await mayEnd.wait()  // ignores cancellation
            return nil
        }

        func store(_ token: OAuth2.Token?) {}
    }

    @Test func storeThatDoesNotAnswerHoldsNoCall() async throws {
        let mayEnd = Event()
        defer { mayEnd.happen() }
        let oauth = try OAuth2.make(Self.settings, store: SilentStore(mayEnd: mayEnd))
        let manager = try TokenServer().manager(oauth)
        var request = HTTPRequest("GET", "https://api.example/")
        request.deadline = .milliseconds(50)
        #expect(await failure { try await manager.send(request) }?.kind == .timeout(.deadline))
        let task = manager.startRequest("GET", "https://api.example/", success: { _, _ in }, failure: { _, _ in })
        task.cancel()
        #expect(await failure { try await task.value }?.kind == .cancelled)
    }

    @Test func lockOfAStoppedProcessIsNotWaitedForEndlessly() async throws {
        let directory = try TemporaryDirectory()
        var store = OAuth2.FileStore(directory.path(of: "token"))
        store.lockTimeout = .milliseconds(50)
        let other = open(store.path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        #expect(flock(other, LOCK_EX) == 0)
        let oauth = try OAuth2.make(Self.settings, store: store)
        let error = await failure { try await oauth.signOut(on: .make()) }
        #expect(error?.kind == .storage && error?.message.contains("locked by another process") == true)
        close(other)
        #expect(try await oauth.signOut(on: .make()) == false)
    }

    @Test(arguments: [false, true]) func managersShareARenewal(hasStore: Bool) async throws {
        let server = TokenServer()
        let oauth = try OAuth2.make(Self.settings, store: hasStore ? TestStore() : nil)
        let managers = try (0..<3).map { _ in try server.manager(oauth) }
        async let all: Void = withThrowingTaskGroup(of: Void.self) { group in
            for manager in managers {
                group.addTask { _ = try await manager.startRequest("GET", "https://api.example/a") }
            }
            try await group.waitForAll()
        }
        await server.hasAsked.wait()
        for _ in 0..<1_000 { await Task.yield() }
        server.mayAnswer.happen()
        try await all
        #expect(server.renewals.value == 1 && oauth.token?.access == "b")
    }

    @Test(arguments: [false, true]) func signOutWinsOverARenewal(hasStore: Bool) async throws {
        let (server, store) = (TokenServer(), TestStore())
        let oauth = try OAuth2.make(Self.settings, store: hasStore ? store : nil)
        let manager = try server.manager(oauth)
        let renewal = Task { try await oauth.refresh(using: manager) }
        await server.hasAsked.wait()
        let signOut = Task { try await oauth.signOut(on: manager) }
        for _ in 0..<1_000 { await Task.yield() }
        server.mayAnswer.happen()
        try await renewal.value
        _ = try await signOut.value
        #expect(oauth.token == nil && store.stored.value == nil)
    }

    @Test func cancelledTaskGivesUpItsTurn() async throws {
        let server = TokenServer()
        let oauth = try OAuth2.make(Self.settings)
        let manager = try server.manager(oauth)
        let first = Task { try await oauth.refresh(using: manager) }
        await server.hasAsked.wait()
        let second = Task { try await oauth.refresh(using: manager) }
        for _ in 0..<1_000 { await Task.yield() }
        second.cancel()
        await #expect(throws: CancellationError.self) { try await second.value }
        server.mayAnswer.happen()
        try await first.value
        try await oauth.signOut(on: manager)
    }

    // MARK: The Secret Service

    /// Runs in a process of its own, because the address of the bus is a variable.
    @Test(.needsKeyring) func keyringKeepsATokenAndSurvivesItsBus() async throws {
        let directory = try TemporaryDirectory()
        await #expect(processExitsWith: .success) { [folder = directory.path as String] in
            setenv("XDG_STATE_HOME", folder, 1)
            setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=\(folder)/bus", 1)
            let settings = OAuth2.Settings(tokenURL: "https://login.example/token", clientID: "c")
            let store = try OAuth2.SecretStore(for: settings)
            let token = OAuth2.Token(
                access: "a é", refresh: "r", issued: Date(timeIntervalSince1970: 1),
                expires: Date(timeIntervalSince1970: 2.5))
            let keyring = try await Keyring(in: folder)
            #expect(try await store.token() == nil)
            try await store.store(nil)
            try await store.store(token)
            #expect(try await store.token() == token)
            #expect(try await OAuth2.SecretStore(for: settings).token() == token)
            var other = settings
            other.clientID = "d"
            #expect(try await OAuth2.SecretStore(for: other).token() == nil)
            keyring.end()
            let error = await failure(of: { try await store.token() })
            #expect(error?.kind == .storage && error?.message.contains("keep the token in a file") == true)
            let next = try await Keyring(in: folder)
            #expect(try await store.token() == token)
            try await store.store(nil)
            #expect(try await store.token() == nil)
            next.end()
        }
    }

    /// Neither a bus that is missing nor one that never answers holds a call.
    @Test(.needsKeyring) func busWithoutAnAnswerIsAnError() async throws {
        let directory = try TemporaryDirectory()
        await #expect(processExitsWith: .success) { [folder = directory.path as String] in
            setenv("XDG_STATE_HOME", folder, 1)
            let silent = try RawServer { connection in connection.drain() }
            for (address, words) in [
                ("unix:path=\(folder)/none", "failed: "),
                ("tcp:host=127.0.0.1,port=\(silent.port)", "has not answered"),
            ] {
                setenv("DBUS_SESSION_BUS_ADDRESS", address, 1)
                let settings = OAuth2.Settings(tokenURL: "https://login.example/token", clientID: "c")
                let store = try OAuth2.SecretStore(for: settings, within: .milliseconds(300))
                let error = await failure(of: { try await store.token() })
                #expect(error?.kind == .storage && error?.message.contains(words) == true, "\(error?.message ?? "")")
            }
        }
    }
}
