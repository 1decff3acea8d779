import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

/// `lat login` and `lat logout` as processes, with the server of `scripts/lib/oauth.py`.
@Suite(.needsPython, .timeLimit(.minutes(2))) struct LoginProcessTests {
    private let server: PythonScript
    private let folder: TemporaryDirectory
    private var base: String { "http://127.0.0.1:\(server.port)" }

    init() async throws {
        server = try await PythonScript("oauth.py", ["--interval", "1"])
        folder = try TemporaryDirectory()
        let base = "http://127.0.0.1:\(server.port)"
        _ = try folder.writeTable(
            """
            {
              domains: {
                shop: { baseURL: "\(base)", oauth2: { issuer: "\(base)", clientID: "cli", scopes: ["read"] } },
                service: {
                  baseURL: "\(base)",
                  oauth2: { issuer: "\(base)", clientID: "service", secretVariable: "SHOP_SECRET", scopes: ["read"] },
                },
                keyring: {
                  baseURL: "\(base)",
                  oauth2: { issuer: "\(base)", clientID: "cli", scopes: ["read"], store: "secretService" },
                },
                plain: { baseURL: "\(base)" },
              },
              servers: {
                mine: { domain: "shop", path: "resource", method: "GET" },
                own: { domain: "service", path: "resource", method: "GET" },
                kept: { domain: "keyring", path: "resource", method: "GET" },
              },
            }
            """)
    }

    private var environment: [String: String] { ["XDG_STATE_HOME": folder.path(of: "state")] }

    private func run(_ arguments: String..., secret: String? = nil) async throws -> LatProcess.Result {
        var environment = environment
        environment["SHOP_SECRET"] = secret
        return try await LatProcess.run(arguments, environment: environment, in: folder.path)
    }

    private func open(_ url: String) async throws {
        _ = try await CentralRequestManager().startRequest("GET", url)
    }

    @Test func deviceCodeSignsInUntilLogout() async throws {
        let before = try await run("start", "mine")
        #expect(before.exitCode == 3 && before.err.contains("sign in: lat login DOMAIN"))
        let login = try LatProcess(["login", "shop"], environment: environment, columns: 400, in: folder.path)
        let words = await login.lines(2).joined(separator: " ").split(whereSeparator: \.isWhitespace)
        let page = try #require(words.first { $0.contains("?user_code=") })
        let code = try #require(page.split(separator: "=").last)
        try await open("\(base)/device/approve?user_code=\(code)&allow=1")
        let result = await login.result
        #expect(result.exitCode == 0 && result.text.contains("signed in to shop until "))
        let call = try await run("start", "mine")
        #expect(call.exitCode == 0 && call.text.contains("ada"))
        let logout = try await run("logout", "shop")
        #expect(logout.exitCode == 0 && logout.text == "signed out of shop\n")
        #expect(try await run("start", "mine").exitCode == 3)
        #expect(try await run("logout", "shop").text == "there is no token of shop\n")
    }

    @Test func browserSignsIn() async throws {
        let login = try LatProcess(
            ["login", "shop", "--browser"], environment: environment, columns: 400, in: folder.path)
        let words = await login.lines(3).joined(separator: " ").split(whereSeparator: \.isWhitespace)
        let page = try #require(words.first { $0.contains("/authorize?") })
        try await open(String(page))
        #expect(await login.result.exitCode == 0)
        #expect(try await run("start", "mine").text.contains("ada"))
    }

    @Test(arguments: ["--device", "--browser"]) func timeForTheUserEnds(_ way: String) async throws {
        let result = try await run("login", "shop", way, "--timeout", "100ms")
        #expect(result.exitCode == 3 && result.err.contains("nobody has signed in"), "\(result.err)")
    }

    @Test func clientCredentialsNeedNoLogin() async throws {
        #expect(try await run("start", "own", secret: "s3cret/+ %").text.contains("ada"))
        let wrong = try await run("start", "own", secret: "wrong-secret")
        #expect(wrong.exitCode == 3 && wrong.err.contains("invalid_client") && !wrong.err.contains("wrong-secret"))
        let missing = try await run("start", "own")
        #expect(missing.exitCode == 3 && missing.err.contains("the environment variable SHOP_SECRET"))
        let login = try await run("login", "service")
        #expect(login.exitCode == 2 && login.err.contains("nobody has to sign in"))
        let device = try await run("login", "service", "--device", secret: "s3cret/+ %")
        #expect(device.exitCode == 2 && device.err.contains("nobody has to sign in"), "\(device.err)")
    }

    @Test(.needsKeyring) func keyringKeepsTheToken() async throws {
        let keys = try TemporaryDirectory()
        let keyring = try await Keyring(in: keys.path)
        let environment = environment.merging(keyring.environment) { $1 }
        let run = { [folder] (arguments: [String]) in
            try await LatProcess.run(arguments, environment: environment, in: folder.path)
        }
        let login = try LatProcess(["login", "keyring"], environment: environment, columns: 400, in: folder.path)
        let words = await login.lines(2).joined(separator: " ").split(whereSeparator: \.isWhitespace)
        let page = try #require(words.first { $0.contains("?user_code=") })
        let code = try #require(page.split(separator: "=").last)
        try await open("\(base)/device/approve?user_code=\(code)&allow=1")
        #expect(await login.result.exitCode == 0)
        #expect(try await run(["start", "kept"]).text.contains("ada"))
        let tokens = folder.path(of: "state/latnetworking/tokens")
        #expect(try FileManager.default.contentsOfDirectory(atPath: tokens).allSatisfy { $0.hasSuffix(".lock") })
        #expect(try await run(["logout", "keyring"]).text == "signed out of keyring\n")
        #expect(try await run(["start", "kept"]).exitCode == 3)
        keyring.end()
        let without = try await run(["start", "kept"])
        #expect(without.exitCode == 3 && without.err.contains("the Secret Service failed"), "\(without.err)")
    }

    @Test func headerReplacesTheToken() async throws {
        let call = try await run("start", "mine", "-H", "Authorization: Bearer other")
        #expect(call.exitCode == 1 && call.err.contains("401"))
    }

    @Test func unusableDomainIsOneSentence() async throws {
        for (arguments, words) in [
            (["login"], "DOMAIN is missing"), (["login", "shopp"], "did you mean \"shop\"?"),
            (["login", "plain"], "add oauth2:"),
            (["login", "shop", "--browser", "--device"], "--device"), (["logout", "plain"], "add oauth2:"),
            (["login", "shop", "x"], "one argument too many"),
        ] {
            let result = try await LatProcess.run(arguments, environment: environment, in: folder.path)
            #expect(result.exitCode == 2 && result.err.contains(words), "\(result.err)")
        }
    }
}
