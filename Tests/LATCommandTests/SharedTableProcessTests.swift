import FoundationEssentials
import LATFleet
import LATNetworking
import LATTesting
import TestSupport
import Testing

extension Trait where Self == ConditionTrait {
    /// Skips tests without a Redis.
    static var needsRedis: Self {
        .enabled(
            if: Fleet.isAvailable && ChildProcess.path(of: "redis-server") != nil,
            "needs --traits Fleet and redis-server; scripts/setup --tests installs it")
    }
}

extension RedisServer {
    static let escapedPassword = "s3cret%2Fpass%20word"

    /// The URL of a server on a Unix socket, with its password.
    var url: String { "unix://:\(Self.escapedPassword)@\(socketPath)" }
}

/// `lat domains push|pull|diff` and `lat fleet status` as processes, with a real Redis.
@Suite(.needsRedis, .timeLimit(.minutes(2))) struct SharedTableProcessTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    private func table(_ timeout: String = "5s", _ more: String = "") -> String {
        """
        {
          domains: { shop: { baseURL: "https://shop.example.org/api", timeout: "\(timeout)", headers: { "X-Api-Key": "hidden-\(timeout)" } } },
          servers: { ping: { domain: "shop", path: "ping" }\(more) },
        }
        """
    }

    /// Runs `lat`, whose output must never show the password.
    private func lat(
        _ arguments: String..., server: RedisServer? = nil, columns: UInt16? = nil
    ) async throws -> LatProcess.Result {
        let environment = server.map { ["LAT_FLEET_URL": $0.url] } ?? [:]
        let result = try await LatProcess.run(arguments, environment: environment, columns: columns, in: folder.path)
        for text in [result.text, result.err] {
            #expect(!text.contains(RedisServer.password) && !text.contains(RedisServer.escapedPassword))
        }
        return result
    }

    // MARK: push

    @Test func pushShowsWhatItChangesAndRaisesTheRevision() async throws {
        let server = try await RedisServer()
        let name = "unix://\(server.socketPath) lat:table:domains"
        _ = try folder.writeTable(table())
        let first = try await lat("domains", "push", "--fleet", server.url)
        #expect(first.exitCode == 0 && first.err == "")
        #expect(first.text.contains("domains\n  + shop\n    + baseURL            \"https://shop.example.org/api\"\n"))
        #expect(first.text.hasSuffix("2 rows added\n\(name) has revision 1 now\n"))
        #expect(!first.text.contains("hidden"))
        let same = try await lat("domains", "push", server: server)
        #expect(same.text == "\(name) has this table as revision 1 already\n" && same.exitCode == 0)
        _ = try folder.writeTable(table("60s", ", pay: { domain: \"shop\", path: \"pay\" }"))
        let second = try await lat("domains", "push", server: server)
        #expect(
            second.text == """
                domains
                  ~ shop
                    ~ timeout            "5s" → "60s"
                    ~ headers.X-Api-Key  *** → ***
                servers
                  + pay
                    + domain  "shop"
                    + path    "pay"
                1 row changed, 1 added
                \(name) has revision 2 now

                """)
        #expect(try server.cli("HGET", "lat:table:domains", "revision") == "2")
        // The same rows in another notation: the text is pushed nevertheless.
        _ = try folder.writeTable(
            table("1m", ", pay: { domain: \"shop\", path: \"pay\" }").replacing("hidden-1m", with: "hidden-60s"))
        #expect(try await lat("domains", "push", server: server).text == "\(name) has revision 3 now\n")
    }

    @Test func invalidTableIsNotPushed() async throws {
        let server = try await RedisServer()
        _ = try folder.writeTable("{ domains: { a: { basURL: 1 } } }")
        let result = try await lat("domains", "push", server: server)
        #expect(result.exitCode == 2 && result.err.contains("did you mean \"baseURL\"?"))
        #expect(result.err.contains("\n                  ^~~~~~\n"))
        _ = try folder.writeTable("{ domains: { a: { baseURL: 'https://h', tls: { caFile: '/etc/ca.pem' } } } }")
        let file = try await lat("domains", "push", server: server)
        #expect(file.exitCode == 2 && file.err.contains("write a path below the program's folder of files"))
        #expect(try server.cli("DBSIZE") == "0")
    }

    @Test func movedRevisionIsRefusedWithWhoAndWhen() async throws {
        let server = try await RedisServer()
        _ = try folder.writeTable(table())
        #expect(try await lat("domains", "push", server: server).exitCode == 0)
        _ = try folder.writeTable(table("6s"))
        let result = try await lat("domains", "push", "--expect", "0", server: server)
        #expect(result.exitCode == 1)
        #expect(result.err.contains("revision 0 of unix://") && result.err.contains("but it is 1, pushed by "))
        #expect(result.err.hasSuffix(" UTC; compare it with lat domains diff, then push again\n"))
        #expect(try await lat("domains", "push", "--expect", "1", server: server).exitCode == 0)
        let low = try await lat("domains", "push", "--revision", "2", server: server)
        #expect(low.exitCode == 2 && low.err.contains("--revision 2 is not above revision 2"))
        #expect(try await lat("domains", "push", "--revision", "50", server: server).text.contains("revision 50 now"))
        try server.cli("HSET", "lat:table:domains", "revision", "\(Int64.max)")
        let highest = try await lat("domains", "push", server: server)
        #expect(highest.exitCode == 2 && highest.err.contains("the highest revision there is"), "\(highest.err)")
    }

    @Test func dryRunWritesNothing() async throws {
        let server = try await RedisServer()
        _ = try folder.writeTable(table())
        let result = try await lat("domains", "push", "--dry-run", server: server)
        #expect(result.exitCode == 0 && result.text.hasSuffix("would get revision 1; --dry-run writes nothing\n"))
        #expect(try server.cli("DBSIZE") == "0")
    }

    // MARK: pull and signatures

    @Test func pullPrintsTheTableAsItWas() async throws {
        let server = try await RedisServer()
        let path = try folder.writeTable(table())
        let empty = try await lat("domains", "pull", server: server)
        #expect(empty.exitCode == 3 && empty.err.contains("push one with lat domains push FILE --fleet URL"))
        _ = try await lat("domains", "push", path, "--key", "eu", server: server)
        let result = try await lat("domains", "pull", "--key", "eu", server: server)
        #expect(result.exitCode == 0 && result.text == table())
        #expect(result.err.contains("lat:table:eu, revision 1, pushed by "))
        let written = try await lat("domains", "pull", "--key", "eu", "-o", "copy.json5", server: server)
        #expect(written.exitCode == 0 && written.out.isEmpty && folder.read("copy.json5") == Data(table().utf8))
        let json = try JSONValue(
            parsing: try await lat("domains", "pull", "--key", "eu", "--format", "json", server: server).out)
        #expect(json["revision"] == "1" && json["table"].string == table())
    }

    @Test(.needs("openssl")) func signedTableFitsItsKeyOnly() async throws {
        let server = try await RedisServer()
        _ = try folder.writeTable(table())
        for name in ["own", "other"] {
            try ChildProcess.run(
                "openssl", ["genpkey", "-algorithm", "ed25519", "-out", "\(name).key"], in: folder.path)
            try ChildProcess.run(
                "openssl", ["pkey", "-in", "\(name).key", "-pubout", "-out", "\(name).pub"], in: folder.path)
        }
        let unsigned = try await lat("domains", "push", server: server)
        #expect(unsigned.exitCode == 0)
        let missing = try await lat("domains", "pull", "--public-key", "own.pub", server: server)
        #expect(missing.exitCode == 3 && missing.out.isEmpty && missing.err.contains("is not signed"))
        let signed = try await lat("domains", "push", "--sign", "own.key", server: server)
        #expect(signed.text.hasSuffix("has revision 2 now, signed\n"))
        #expect(try await lat("domains", "push", "--sign", "own.key", server: server).text.contains("already"))
        #expect(try await lat("domains", "pull", "--public-key", "own.pub", server: server).text == table())
        let wrong = try await lat("domains", "pull", "--public-key", "other.pub", server: server)
        #expect(wrong.exitCode == 3 && wrong.err.contains("does not fit the public key"))
        let bad = try await lat("domains", "push", "--sign", "own.pub", server: server)
        #expect(bad.exitCode == 2 && bad.err.contains("holds no private key in PEM"))
    }

    // MARK: diff, list, explain

    @Test func diffComparesTheRedisWithAFile() async throws {
        let server = try await RedisServer()
        _ = try folder.writeTable(table())
        _ = try await lat("domains", "push", server: server)
        let same = try await lat("domains", "diff", server: server)
        #expect(same.exitCode == 0 && same.text == "the tables are the same\n")
        _ = try folder.write(Data(("// a comment\n" + table()).utf8), to: "b.json5")
        let layout = try await lat("domains", "diff", "b.json5", "--fleet", server.url)
        #expect(layout.exitCode == 0 && layout.text == "the rows are the same; comments or layout differ\n")
        _ = try folder.write(Data(table("7s").utf8), to: "b.json5")
        let other = try await lat("domains", "diff", "b.json5", server: server)
        #expect(other.exitCode == 1 && other.text.contains("    ~ timeout            \"5s\" → \"7s\"\n"))
        #expect(other.text.hasPrefix("--- unix://\(server.socketPath) lat:table:domains, revision 1, pushed by "))
        let terminal = try await lat("domains", "diff", "b.json5", server: server, columns: 200)
        #expect(terminal.text.contains("\u{1B}[35m~ timeout"))
        _ = try folder.write(Data("{".utf8), to: "b.json5")
        let broken = try await lat("domains", "diff", "b.json5", server: server)
        #expect(broken.exitCode == 2 && broken.err.contains("b.json5:1:"))
        let nowhere = try await lat("domains", "diff", "--fleet", "redis://127.0.0.1:1")
        #expect(nowhere.exitCode == 2)
    }

    @Test func tableOfTheRedisIsListedAndExplained() async throws {
        let server = try await RedisServer()
        _ = try folder.writeTable(table())
        _ = try await lat("domains", "push", server: server)
        let list = try await lat("domains", "list", "--fleet", server.url)
        #expect(list.text.hasPrefix("lat:table:domains@1\n") && list.text.contains("https://shop.example.org/api"))
        let explained = try await lat("domains", "explain", "ping", "--fleet", server.url)
        #expect(explained.text.contains("lat:table:domains, revision 1, pushed by "))
        #expect(explained.text.contains("  lat:table:domains@1:2\n"))
        // LAT_FLEET_URL alone does not replace the file.
        #expect(try await lat("domains", "list", server: server).text.hasPrefix("Config/domains.json5\n"))
    }

    // MARK: status

    @Test func statusShowsTheRedisAndItsTables() async throws {
        let server = try await RedisServer()
        _ = try folder.writeTable(table())
        _ = try await lat("domains", "push", server: server)
        let status = try await lat("fleet", "status", server: server)
        #expect(status.exitCode == 0 && status.err == "")
        #expect(status.text.hasPrefix("unix://\(server.socketPath)  ready\n"))
        #expect(status.text.contains("table domains  revision 1, pushed by ") && status.text.contains("table 1"))
        let json = try JSONValue(parsing: try await lat("fleet", "status", "--format", "json", server: server).out)
        #expect(json["isUsable"] == true && json["tables"][0]["revision"].int == 1 && json["keys"].int == 2)
        try server.cli("CONFIG", "SET", "maxmemory", "1")
        let full = try await lat("fleet", "status", server: server)
        #expect(full.exitCode == 1 && full.text.contains("full, takes no writes"))
    }

    @Test func statusOfAUserWithFewRightsSaysWhatIsNotShown() async throws {
        let server = try await RedisServer()
        try server.cli("ACL", "SETUSER", "app", "on", ">pw", "~lat:*", "-@all", "+hello", "+ping", "+hmget")
        let status = try await lat("fleet", "status", "--fleet", "unix://app:pw@\(server.socketPath)")
        #expect(status.exitCode == 0 && status.text.contains("  ready\n"), "\(status.text)")
        #expect(
            status.err.contains("not shown: ") && status.err.contains("'smembers'") && status.err.contains("'info'"))
    }

    @Test func diffAndPushShowProduction() async throws {
        let server = try await RedisServer()
        _ = try folder.writeTable(table().replacing("{\n  domains", with: "{\n  production: true,\n  domains"))
        _ = try await lat("domains", "push", server: server)
        _ = try folder.writeTable(table())
        let shown = "table\n    - production  true\n1 row removed\n"
        let diff = try await lat("domains", "diff", server: server)
        #expect(diff.exitCode == 1 && diff.text.hasSuffix(shown), "\(diff.text)")
        let push = try await lat("domains", "push", server: server)
        #expect(push.exitCode == 0 && push.text.hasPrefix(shown), "\(push.text)")
    }

    @Test func pushReplacesATableWithoutText() async throws {
        let server = try await RedisServer()
        _ = try folder.writeTable(table())
        _ = try await lat("domains", "push", "--revision", "7", server: server)
        try server.cli("HDEL", "lat:table:domains", "table")
        let wrong = try await lat("domains", "push", "--expect", "6", server: server)
        #expect(wrong.exitCode == 1 && wrong.err.contains("was expected, but it is 7;"), "\(wrong.err)")
        let repaired = try await lat("domains", "push", server: server)
        #expect(repaired.exitCode == 0 && repaired.text.hasSuffix("has revision 8 now\n"), "\(repaired.err)")
        #expect(repaired.err.contains("has revision 7 but no text"))
    }

    @Test func pushDoesNotReplaceATableOfANewerFormat() async throws {
        let server = try await RedisServer()
        _ = try folder.writeTable(table())
        _ = try await lat("domains", "push", server: server)
        try server.cli("HSET", "lat:table:domains", "format", "9")
        let result = try await lat("domains", "push", server: server)
        #expect(result.exitCode == 2 && result.err.contains("(format 9); update this program"), "\(result.err)")
        #expect(!result.err.contains("push again") && result.text == "")
    }

    /// A Redis that cannot save its data refuses all writes, and PING.
    @Test func redisThatCannotSaveIsShown() async throws {
        let server = try await RedisServer()
        _ = try folder.writeTable(table())
        _ = try await lat("domains", "push", server: server)
        // The file that it would write is a folder.
        try FileManager.default.createDirectory(
            atPath: server.directory.path(of: "dump.rdb/x"), withIntermediateDirectories: true)
        try server.cli("CONFIG", "SET", "save", "3600 1000000")
        try server.cli("BGSAVE")
        try await eventually("a failure to save") {
            try server.cli("INFO", "persistence").contains("rdb_last_bgsave_status:err")
        }
        let status = try await lat("fleet", "status", "--fleet", server.url)
        #expect(status.exitCode == 1 && status.text.contains("takes no writes"), "\(status.text)\(status.err)")
        #expect(status.text.contains("make room on its disk") && status.text.contains("revision 1"))
        let pulled = try await lat("domains", "pull", server: server)
        #expect(pulled.exitCode == 0 && pulled.text == table())
        let pushed = try await lat("domains", "push", "--revision", "9", server: server)
        #expect(pushed.exitCode == 3 && pushed.err.contains("make room on its disk"), "\(pushed.err)")
    }

    @Test func unusableRedisIsReportedWithoutPassword() async throws {
        let server = try await RedisServer()
        let wrong = try await lat("fleet", "status", "--fleet", "unix://:not-it@\(server.socketPath)")
        #expect(
            wrong.exitCode == 3 && wrong.err.contains("refused the user or the password")
                && !wrong.err.contains("not-it"))
        let nowhere = try await lat("fleet", "status", "--fleet", "redis://:not-it@127.0.0.1:1", "--format", "json")
        #expect(nowhere.exitCode == 3 && !nowhere.text.contains("not-it"))
        #expect(try JSONValue(parsing: nowhere.out)["isUsable"] == false)
    }
}

/// The same commands without a Redis: URLs, and wrong command lines.
@Suite(.timeLimit(.minutes(1))) struct SharedTableCommandTests {
    @Test func tableOfAURLIsPulledAndCompared() async throws {
        let folder = try TemporaryDirectory()
        let server = try MockServer()
        let text = "{ domains: { a: { baseURL: \"http://127.0.0.1:8080\" } } }"
        server.fallback { request in request.path == "/t" ? .text(text).header("ETag", "\"4\"") : .status(404) }
        let pulled = try await LatProcess.run(["domains", "pull", server.url("/t?secret=1")])
        #expect(pulled.text == text && pulled.exitCode == 0 && !pulled.err.contains("secret"))
        #expect(pulled.err.contains("revision \"4\""))
        _ = try folder.writeTable(text.replacing("8080", with: "9090"))
        let compared = try await LatProcess.run(
            ["domains", "diff", server.url("/t"), "Config/domains.json5"], in: folder.path)
        #expect(compared.exitCode == 1)
        #expect(compared.text.contains("~ baseURL  \"http://127.0.0.1:8080\" → \"http://127.0.0.1:9090\""))
        // A named table takes precedence over the Redis of the environment.
        let named = try await LatProcess.run(
            ["domains", "diff", server.url("/t"), "--table", "Config/domains.json5"],
            environment: ["LAT_FLEET_URL": "redis://127.0.0.1:1"], in: folder.path)
        #expect(named.exitCode == 1 && named.text == compared.text, "\(named.err)")
        let missing = try await LatProcess.run(["domains", "pull", server.url("/no")])
        #expect(missing.exitCode == 3 && missing.err.contains("answered 404"))
    }

    /// They are not from elsewhere, so that they may name files and variables.
    @Test func filesAreComparedByTheRulesForFiles() async throws {
        let folder = try TemporaryDirectory()
        let text = """
            { domains: { a: { baseURL: "unix:///run/a.sock:/", tls: { caFile: "/etc/ca.pem" }, timeout: "1s",
              oauth2: { issuer: "https://h", clientID: "c", secretVariable: "V" } } } }
            """
        _ = try folder.write(Data(text.utf8), to: "a")
        _ = try folder.write(Data(text.replacing("1s", with: "2s").utf8), to: "b")
        let result = try await LatProcess.run(["domains", "diff", "a", "b"], in: folder.path)
        #expect(result.exitCode == 1 && result.err == "" && result.text.contains("~ timeout  \"1s\" → \"2s\""))
    }

    @Test(.needs("openssl")) func signatureOfOpenSSLFits() async throws {
        let folder = try TemporaryDirectory()
        let text = "{ domains: { a: { baseURL: \"http://127.0.0.1:8080\" } } }"
        _ = try folder.write(Data(text.utf8), to: "t")
        for words in [
            "genpkey -algorithm ed25519 -out t.key", "pkey -in t.key -pubout -out t.pub",
            "pkeyutl -sign -rawin -inkey t.key -in t -out t.sig",
        ] {
            try ChildProcess.run("openssl", words.split(separator: " ").map(String.init), in: folder.path)
        }
        let signature = try #require(folder.read("t.sig"))
        let server = try MockServer()
        server.fallback { request in request.path == "/t.sig" ? .data(signature) : .text(text) }
        let good = try await LatProcess.run(
            ["domains", "pull", server.url("/t?a=1"), "--public-key", "t.pub"], in: folder.path)
        #expect(good.exitCode == 0 && good.text == text)
        server.fallback { request in request.path == "/t.sig" ? .data(signature) : .text(text + " ") }
        let changed = try await LatProcess.run(
            ["domains", "pull", server.url("/t"), "--public-key", "t.pub"], in: folder.path)
        #expect(changed.exitCode == 3 && changed.out.isEmpty && changed.err.contains("does not fit the public key"))
    }

    @Test(arguments: [
        (["domains", "push"], "no Redis is named; write --fleet redis://HOST:PORT, or set LAT_FLEET_URL"),
        (["fleet"], "the action is missing; write lat fleet status"),
        (["fleet", "stats"], "lat fleet knows no \"stats\""),
        (["fleet", "status", "--fleet", "redis+sentinel://:pw@h"], "a Sentinel is not supported"),
        (["domains", "pull", "table.json5"], "is no URL; write -o table.json5"),
        (["domains", "diff", "a", "b", "--fleet", "redis://h"], "but three are named"),
        (["domains", "diff", "a", "b", "--table", "c"], "but three are named"),
        (["domains", "pull", "http://h/t", "--fleet", "redis://h"], "leave one of them out"),
        (
            ["domains", "push", "--fleet", "redis://h", "--key", String(repeating: "k", count: 101)],
            "at most 100 bytes"
        ),
        (["domains", "list", "--dry-run"], "--dry-run is for lat domains push"),
        (["domains", "push", "--fleet", "redis://h", "--key", "a b"], "must be printable ASCII without blanks"),
        (["domains", "list", "--table", "a", "--fleet", "redis://h"], "--table and --fleet name two tables"),
        (["domains", "push", "--fleet", "redis://h", "--expect", "x"], "is not a number from 0"),
        (["domains", "pull", "http://h/t", "--public-key", "abc"], "nor the name of a file"),
    ])
    func wrongCommandLineIsRefused(_ arguments: [String], _ message: String) async throws {
        let result = try await LatProcess.run(arguments)
        #expect(result.exitCode == 2 && result.err.contains(message) && !result.err.contains("pw@"))
    }
}
