import Cryptography
import Foundation
import HTTPCore
import LATNetworking
import LATTesting
import Synchronization
import TestSupport
import Testing

@testable import LATFleet

/// Tables from a Redis: pushes, partitions, restarts, and what others write there.
@Suite(.needsRedis, .timeLimit(.minutes(3)))
struct FleetTableTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func text(_ port: Int) -> String { "{ domains: { a: { baseURL: \"http://127.0.0.1:\(port)\" } } }\n" }

    private func bytes(_ port: Int) -> [UInt8] { Array(text(port).utf8) }

    private func port(_ table: DomainTable?) throws -> Int {
        let url = try #require(table).resolve(domain: "a", path: "").baseURLs[0]
        return try #require(url.split(separator: ":").last.flatMap { Int($0) })
    }

    private func source(
        _ fleet: Fleet, _ copy: String = "copy.json5", every: Duration = .seconds(3600), publicKey: String? = nil
    ) -> DomainTable.Source {
        .redis(fleet, every: every, publicKey: publicKey, copy: .file(directory.path(of: copy)))
    }

    /// A manager that follows a table, and the errors that its observer gets.
    private final class Follower: Sendable {
        let manager: CentralRequestManager
        let rejected = Box<[NetworkError]>([])

        init(_ table: DomainTable) throws {
            var configuration = CentralRequestManager.Configuration()
            configuration.domains = table
            configuration.domainsObserver = { [rejected] event in
                if case .rejected(let error) = event { rejected.change { $0.append(error) } }
            }
            manager = try CentralRequestManager(configuration: configuration)
        }

        func awaitRevision(_ revision: String) async throws {
            try await eventually("revision \(revision)") { self.manager.domains?.revision == revision }
        }
    }

    private func push(
        _ fleet: Fleet, _ port: Int, as revision: Int64, by author: String = "ada@test", signature: [UInt8]? = nil
    ) async throws {
        let result = try await FleetTable(fleet, "domains").push(
            bytes(port), expecting: revision - 1, as: revision, author: author, signature: signature)
        guard case .pushed = result else { throw Overdue(description: "\(result)") }
    }

    // MARK: Pushes

    @Test func pushReachesAllManagers() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            try await push(fleet, 1, as: 1)
            var fleets: [Fleet] = []
            var followers: [Follower] = []
            for index in 0..<4 {
                let own = try Fleet(server.configuration())
                fleets.append(own)
                followers.append(
                    try Follower(try await DomainTable(from: source(own, "copy\(index)"), environment: nil)))
            }
            #expect(try followers.map { try port($0.manager.domains) } == [1, 1, 1, 1])
            // All are subscribed once they have received a first push.
            try await push(fleet, 2, as: 2)
            for follower in followers { try await follower.awaitRevision("2") }
            let start = ContinuousClock.now
            try await push(fleet, 3, as: 3)
            for follower in followers { try await follower.awaitRevision("3") }
            print("a push reached 4 managers after \(ContinuousClock.now - start)")
            for follower in followers {
                #expect(try port(follower.manager.domains) == 3 && follower.rejected.value.isEmpty)
            }
            let table = try #require(followers[0].manager.domains)
            #expect(table.source == "\(fleet.configuration) lat:table:domains")
            #expect(table.explain("a").contains("lat:table:domains, revision 3, pushed by ada@test at 20"))
            #expect(table.explain("a").contains("lat:table:domains@3:1"))
            for fleet in fleets { await fleet.shutdown() }
        }
    }

    @Test func ofTwoPushersOneWins() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            try await push(fleet, 1, as: 1)
            let results = try await withThrowingTaskGroup(of: Bool.self) { group in
                for index in 0..<8 {
                    group.addTask { [bytes = bytes(10 + index)] in
                        let result = try await FleetTable(fleet, "domains").push(
                            bytes, expecting: 1, as: 2, author: "pusher\(index)")
                        guard case .moved(let revision, let note) = result else { return true }
                        #expect(revision == 2 && note.hasPrefix("pushed by pusher"))
                        return false
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results.count { $0 } == 1)
        }
    }

    @Test func invalidTableOfAnotherIsRejected() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            try await push(fleet, 1, as: 1)
            let follower = try Follower(try await DomainTable(from: source(fleet), environment: nil))
            try await push(fleet, 2, as: 2)
            try await follower.awaitRevision("2")
            try server.cli("HSET", "lat:table:domains", "table", "{ domains: { a: { basURL: 1 } } }", "revision", "3")
            try server.cli("PUBLISH", "lat@0:table:domains", "3")
            try await eventually("a rejection") { !follower.rejected.value.isEmpty }
            let message = follower.rejected.value[0].message
            #expect(message.contains("lat:table:domains@3:1:") && message.contains("did you mean \"baseURL\"?"))
            #expect(try port(follower.manager.domains) == 2 && follower.manager.domains?.revision == "2")
            // The next valid one is used.
            try await push(fleet, 4, as: 4)
            try await follower.awaitRevision("4")
            #expect(follower.rejected.value.count == 1)
        }
    }

    @Test func revisionAfterTheHighestIsRefused() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            _ = try await FleetTable(fleet, "domains").push(bytes(1), expecting: 0, as: .max, author: "ada")
            let follower = try Follower(
                try await DomainTable(from: source(fleet, every: .milliseconds(100)), environment: nil))
            #expect(follower.manager.domains?.revision == "\(Int64.max)")
            try server.cli("FLUSHALL")
            try await push(fleet, 2, as: 1)
            try await eventually("an older table") {
                follower.rejected.value.last?.message.contains("push it under another --key") == true
            }
        }
    }

    @Test func olderRevisionIsNotUsed() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            _ = try await FleetTable(fleet, "domains").push(bytes(7), expecting: 0, as: 7, author: "ada")
            let follower = try Follower(
                try await DomainTable(from: source(fleet, every: .milliseconds(100)), environment: nil))
            try server.cli("FLUSHALL")
            try await eventually("a lost table") { !follower.rejected.value.isEmpty }
            #expect(follower.rejected.value[0].kind == .unknownName)
            try await push(fleet, 1, as: 1)
            try await eventually("an older table") { follower.rejected.value.count > 1 }
            let message = try #require(follower.rejected.value.last?.message)
            #expect(message.contains("revision 1, but revision 7 is in use") && message.contains("--revision 8"))
            #expect(try port(follower.manager.domains) == 7)
            _ = try await FleetTable(fleet, "domains").push(bytes(8), expecting: 1, as: 8, author: "ada")
            try await follower.awaitRevision("8")
        }
    }

    @Test func restartDoesNotGoBackToAnOlderRevision() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            let table = FleetTable(fleet, "domains")
            _ = try await table.push(bytes(7), expecting: 0, as: 7, author: "ada")
            #expect(try await DomainTable(from: source(fleet), environment: nil).revision == "7")
            let confirmed = try await DomainTable(from: source(fleet), environment: nil)
            #expect(try port(confirmed) == 7)
            #expect(confirmed.revision == "7" && !confirmed.isCopy)
            try server.cli("FLUSHALL")
            try await push(fleet, 1, as: 1)
            let old = try await DomainTable(from: source(fleet), environment: nil)
            #expect(try port(old) == 7)
            #expect(old.revision == "7" && old.isCopy)
            // A process without a copy cannot know that the revision is older.
            #expect(try await DomainTable(from: source(fleet, "other"), environment: nil).revision == "1")
        }
    }

    @Test func signatureCoversTheRevision() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            let key = try Ed25519.PrivateKey(seed: [UInt8](repeating: 7, count: 32))
            func signature(_ port: Int, _ revision: Int64) throws -> [UInt8] {
                try key.signature(of: Data(FleetTable.signedHead(name: "domains", revision: revision) + bytes(port)))
            }
            let old = try signature(1, 1)
            try await push(fleet, 1, as: 1, signature: old)
            let source = source(fleet, every: .milliseconds(100), publicKey: try key.publicKey().text)
            let follower = try Follower(try await DomainTable(from: source, environment: nil))
            try await push(fleet, 2, as: 2, signature: try signature(2, 2))
            try await follower.awaitRevision("2")
            // An old table with its good signature, as a new revision.
            try await push(fleet, 1, as: 3, signature: old)
            try await eventually("a rejection") { !follower.rejected.value.isEmpty }
            #expect(follower.rejected.value[0].kind == .integrity)
            #expect(try port(follower.manager.domains) == 2)
            try await push(fleet, 4, as: 4, signature: try signature(4, 4))
            try await follower.awaitRevision("4")
        }
    }

    // MARK: Without a Redis

    @Test func startWithoutRedisUsesTheCopy() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            try await push(fleet, 1, as: 1)
            _ = try await DomainTable(from: source(fleet), environment: nil)
        }
        server.kill()
        try await withFleet(server.configuration { $0.maxReconnectPause = .milliseconds(100) }, isConnected: false) {
            fleet in
            let table = try await DomainTable(from: source(fleet), environment: nil)
            #expect(try port(table) == 1)
            #expect(table.isCopy && table.revision == "1")
            let follower = try Follower(table)
            try await server.startAgain()
            try await fleet.connect(within: .seconds(20))
            _ = try await FleetTable(fleet, "domains").push(bytes(5), expecting: 0, as: 5, author: "ada")
            try await follower.awaitRevision("5")
            #expect(follower.manager.domains?.isCopy == false)
        }
    }

    @Test func firstStartWithoutATableNamesTheNextStep() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            do throws(NetworkError) {
                _ = try await DomainTable(from: source(fleet, "none"), environment: nil)
                Issue.record("there is a table")
            } catch {
                #expect(error.kind == .unknownName)
                #expect(error.message.contains("push one with lat domains push FILE --fleet URL"))
                #expect(error.message.contains("there is no copy of an earlier start in \(directory.path)/none"))
            }
        }
    }

    @Test func pushDuringAPartitionArrivesAfterIt() async throws {
        let server = try await RedisServer(.port)
        let quick = server.configuration {
            $0.maxReconnectPause = .milliseconds(100)
            $0.breakerPause = .milliseconds(50)
        }
        try await withFleet(quick) { fleet in
            try await push(fleet, 1, as: 1)
            let follower = try Follower(try await DomainTable(from: source(fleet), environment: nil))
            try await push(fleet, 2, as: 2)
            try await follower.awaitRevision("2")
            // All connections are cut. Meanwhile a version is stored without a message.
            let commands = """
                CONFIG SET maxclients 1
                CLIENT KILL TYPE pubsub
                CLIENT KILL TYPE normal SKIPME yes
                HSET lat:table:domains table "{ domains: { a: { baseURL: 'http://127.0.0.1:3' } } }" revision 3
                CONFIG SET maxclients 100
                """
            try server.directory.write(Data(commands.utf8), to: "commands")
            let client = "redis-cli --no-auth-warning -a '\(RedisServer.password)' -p \(server.port) < commands"
            try ChildProcess.run("sh", ["-c", client], in: server.directory.path)
            try await follower.awaitRevision("3")
            #expect(try port(follower.manager.domains) == 3)
        }
    }

    // MARK: Others

    @Test(arguments: [
        (["HSET", "lat:table:domains", "format", "2", "revision", "9", "table", "{}"], "update this program"),
        (["HSET", "lat:table:domains", "table", "{}"], "has no revision"),
        (["HSET", "lat:table:domains", "revision", "9"], "has revision 9 but no text"),
        (["SET", "lat:table:domains", "{}"], "WRONGTYPE"),
    ])
    func foreignValueInTheKeyIsReported(_ words: [String], _ expected: String) async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            let command = RedisCommand(words[0], words.dropFirst().map { .text($0) })
            _ = try await fleet.redis.call(command, .time(.seconds(20)))
            do throws(NetworkError) {
                _ = try await DomainTable(from: source(fleet, "none"), environment: nil)
                Issue.record("there is a table")
            } catch {
                #expect(error.message.contains(expected))
            }
        }
    }

    @Test func requestsSeeOneVersionEach() async throws {
        let origin = try MockServer()
        origin.fallback { request in .text("\(request.path) \(request.headers["X-Version"] ?? "")") }
        let server = try await RedisServer()
        let address = origin.url("/").dropLast()
        @Sendable func versioned(_ version: Int64) -> [UInt8] {
            Array(
                """
                { domains: { a: { baseURL: "\(address)/v\(version)", headers: { "X-Version": "\(version)" } } },
                  servers: { s: { domain: "a", path: "x", method: "GET" } } }
                """.utf8)
        }
        try await withFleet(server.configuration()) { fleet in
            let pushed = FleetTable(fleet, "domains")
            _ = try await pushed.push(versioned(1), expecting: 0, as: 1, author: "ada")
            let follower = try Follower(try await DomainTable(from: source(fleet), environment: nil))
            let versions = try await withThrowingTaskGroup(of: Set<String>.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        var seen: Set<String> = []
                        // Until the last version is seen.
                        while !seen.contains("20") {
                            let text = try await follower.manager.startRequest(server: "s", as: String.self).model
                            let parts = text.split(separator: " ")
                            #expect(parts.count == 2 && parts[0] == "/v\(parts[1])/x")
                            seen.insert(String(parts.last ?? ""))
                        }
                        return seen
                    }
                }
                try await origin.waitForRequests(1)
                for version in Int64(2)...20 {
                    _ = try await pushed.push(versioned(version), expecting: version - 1, as: version, author: "ada")
                    try await follower.awaitRevision("\(version)")
                }
                return try await group.reduce(into: Set<String>()) { $0.formUnion($1) }
            }
            #expect(versions.count > 1 && follower.rejected.value.isEmpty)
        }
    }

    @Test func userWithFewRightsFollowsATable() async throws {
        let server = try await RedisServer()
        try server.cli(
            "ACL", "SETUSER", "app", "on", ">pw", "resetchannels", "&lat@0:table:*", "%R~lat:table:*", "~lat:seen:*",
            "-@all", "+hello", "+ping", "+hget", "+hmget", "+subscribe", "+unsubscribe", "+eval", "+evalsha", "+hset",
            "+hgetall", "+hdel", "+expire", "+time")
        let warnings = Box(0)
        let limited = server.configuration {
            ($0.user, $0.password) = ("app", "pw")
            $0.warningHandler = { _ in warnings.change { $0 += 1 } }
        }
        try await withFleet(server.configuration()) { fleet in
            try await push(fleet, 1, as: 1)
            try await withFleet(limited) { limited in
                let follower = try Follower(try await DomainTable(from: source(limited), environment: nil))
                try await push(fleet, 2, as: 2)
                try await follower.awaitRevision("2")
                try await eventually("a report") {
                    try await FleetTable.list(on: fleet).first?.followers.first?.revision == 2
                }
                let error = try await fleetError {
                    try await FleetTable(limited, "domains").push(
                        [], expecting: 2, as: 3, author: "app", signature: nil)
                }
                #expect(error.kind == .permission)
            }
        }
        // At most the refused push causes a warning.
        #expect(warnings.value <= 1)
    }

    @Test func statusListsTablesAndKeys() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            try await push(fleet, 1, as: 1)
            let follower = try Follower(try await DomainTable(from: source(fleet), environment: nil))
            try await eventually("a report") { try server.cli("HLEN", "lat:seen:domains") == "1" }
            try server.cli("HSET", "lat:table:domains", "table", "{ domains: 5 }", "revision", "2")
            try server.cli("PUBLISH", "lat@0:table:domains", "2")
            try await eventually("a refusal") {
                try await FleetTable.list(on: fleet).first?.followers.first?.refusal != nil
            }
            #expect(follower.rejected.value.count == 1)
            try server.cli("MSET", "lat:c1:0:e:a", "1", "lat:c1:0:l:b", "2", "other", "3", "lat:9x", "4")
            // A process that was last seen long ago.
            try server.cli("HSET", "lat:seen:domains", "old", "1|1000|30|")
            let entries = try await FleetTable.list(on: fleet)
            #expect(entries.map(\.name) == ["domains"] && entries[0].version.author == "ada@test")
            #expect(entries[0].byteCount == "{ domains: 5 }".utf8.count && entries[0].version.revision == 2)
            #expect(entries[0].followers.map(\.revision) == [1])
            #expect(entries[0].followers[0].refusal?.contains("lat:table:domains@2:1:12") == true)
            let contents = try await FleetContents.read(from: fleet)
            #expect(contents.keyCount == 7 && !contents.isPartial && !contents.refusesWrites)
            #expect(
                contents.kinds.map { "\($0.name) \($0.count)" } == [
                    "cache 1", "lease 1", "other 1", "seen 1", "table 1",
                ])
        }
    }

    @Test func followerThatNeverAsksIsListed() async throws {
        let server = try await RedisServer()
        try await withFleet(server.configuration()) { fleet in
            try await push(fleet, 1, as: 1)
            let table = try await DomainTable(from: source(fleet, every: .seconds(Int64.max)), environment: nil)
            let follower = try Follower(table)
            try await eventually("a report") {
                try await FleetTable.list(on: fleet).first?.followers.map(\.revision) == [1]
            }
            try await push(fleet, 2, as: 2)
            try await follower.awaitRevision("2")
        }
    }
}
