import LATNetworking
import LATTesting
import Platform
import TestSupport
import Testing

@testable import LATFleet

/// A Redis that is late, loads its data, or holds what nobody expects.
@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct FleetFaultTests {
    private static let loading = "-LOADING Redis is loading the dataset in memory\r\n"

    /// A Redis that loads its data until it was asked a few times.
    private static func loads(_ names: String..., times: Int = 3) throws -> FakeRedis {
        let left = Box(times)
        return try FakeRedis { words, _ in
            guard names.contains(words[0]), left.value > 0 else { return FakeRedis.usual(words) }
            left.change { $0 -= 1 }
            return loading
        }
    }

    /// A process asks again when the answer to its question was lost.
    @Test func leaseWithoutAnAnswerIsItsOwn() async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.configuration()) { fleet in
            var turns: [String?] = []
            for owner in ["a", "a", "b"] {
                let reply = try await fleet.redis.run(
                    SharedToken.beginScript, keys: [fleet.key("token", "t"), fleet.key("token", "t", "lease")],
                    [.integer(0), .text(owner), .integer(60_000)], .write)
                turns.append(reply.array?.first?.text)
            }
            #expect(turns == ["lead", "lead", "wait"])
        }
    }

    @Test func processDoesNotRenewAloneWhileRedisIsLate() async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.configuration()) { fleet in
            let key = FleetTokenTests.key
            let (first, second) = (SharedToken(fleet, name: "t", key: key), SharedToken(fleet, name: "t", key: key))
            // On a busy machine Redis may be late here already.
            try await eventually("a lease") {
                if case .lead = await first.begin(after: 0, lease: .seconds(60), as: "first") { true } else { false }
            }
            try redis.cli("CLIENT", "PAUSE", "200", "ALL")
            let turn = await second.begin(after: 0, lease: .seconds(60), as: "second")
            if case .wait = turn {} else { Issue.record("\(turn)") }
        }
    }

    /// The write that the old primary refuses leads to the new one.
    @Test func processDoesNotRenewAloneDuringAFailover() async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            try redis.cli("REPLICAOF", "127.0.0.1", "1")
            let token = SharedToken(fleet, name: "t", key: FleetTokenTests.key)
            let turn = Task { await token.begin(after: 0, lease: .seconds(60), as: "me") }
            try await eventually("another connection") { fleet.status.connectionCount == 2 }
            try redis.cli("REPLICAOF", "NO", "ONE")
            let given = await turn.value
            if case .lead = given {} else { Issue.record("\(given)") }
        }
    }

    /// Redis also refuses PING while it cannot save its data.
    @Test func redisThatCannotSaveIsReadAndReportedOnce() async throws {
        let redis = try FakeRedis { words, _ in
            let isRefused = words[0] == "PING" || words[0] == "SET"
            return isRefused ? "-MISCONF Redis is configured to save RDB snapshots, but\r\n" : FakeRedis.usual(words)
        }
        let warnings = Box<[String]>([])
        var configuration = redis.configuration
        configuration.warningHandler = { error in warnings.change { $0.append(error.message) } }
        try await withFleet(configuration, isConnected: false) { fleet in
            try await fleet.connect(within: .seconds(20))
            let source = DomainTable.Source.redis(fleet, copy: .none)
            let error = try await #require(throws: NetworkError.self) { try await DomainTable(from: source) }
            #expect(error.kind == .unknownName, "\(error)")
            let refused = try await fleetError { try await fleet.redis.set("k", "v") }
            #expect(refused.kind == .refused(code: "MISCONF"))
            try await eventually("a warning") { !warnings.value.isEmpty }
            #expect(warnings.value.count == 1 && warnings.value[0].contains("make room on its disk"))
        }
    }

    /// Redis 6 wraps the errors of commands in scripts.
    @Test(arguments: [
        (
            "@user_script:4: @user_script: 4: -READONLY You can't write against a read only replica. ",
            FleetError.Kind.readOnly
        ),
        ("@user_script:4: @user_script: 4: -OOM command not allowed when used memory > 'maxmemory'. ", .full),
        ("@user_script:4: @user_script: 4: -MISCONF Redis is configured to save RDB", .refused(code: "MISCONF")),
        ("@user_script:4: @user_script: 4: The user executing the script can't run this command", .permission),
        ("@user_script:4: user_script:4: attempt to compare nil with number ", .refused(code: "ERR")),
    ])
    func errorInAScriptOfRedis6HasItsKind(_ text: String, _ kind: FleetError.Kind) {
        let whole = "ERR Error running script (call to f_9bd406a6): \(text)"
        #expect(FleetError(code: "ERR", text: whole, command: "a script").kind == kind)
    }

    @Test func connectWaitsForARedisThatLoads() async throws {
        let redis = try Self.loads("PING")
        try await withFleet(redis.configuration, isConnected: false) { fleet in
            try await fleet.connect(within: .seconds(20))
            #expect(fleet.status.breaker == .closed && redis.connectionCount == 1)
        }
    }

    @Test func tableIsReadWhenRedisHasLoaded() async throws {
        let redis = try Self.loads("PING", "HMGET", times: 4)
        try await withFleet(redis.configuration, isConnected: false) { fleet in
            try await eventually("a connection") { fleet.status.state == .ready && redis.connectionCount == 1 }
            let source = DomainTable.Source.redis(fleet, copy: .none)
            let error = try await #require(throws: NetworkError.self) { try await DomainTable(from: source) }
            // The Redis was asked until it had answered that there is no table.
            #expect(error.kind == .unknownName, "\(error)")
        }
    }

    @Test func openCircuitsAreReadWhenRedisHasLoaded() async throws {
        let left = Box(2)
        let redis = try FakeRedis { words, _ in
            guard words[0] == "EVALSHA" else { return FakeRedis.usual(words) }
            left.change { $0 -= 1 }
            return left.value >= 0 ? Self.loading : "*2\r\n$3\r\none\r\n:60000000\r\n"
        }
        try await withFleet(redis.configuration) { fleet in
            let reports = Box<[CircuitReport]>([])
            let circuits = FleetCircuits(fleet, name: "default", identity: "me")
            circuits.observe { _, report in reports.change { $0.append(report) } }
            try await eventually("the open circuit") { reports.value == [.opened(.seconds(60))] }
            withExtendedLifetime(circuits) {}
        }
    }

    @Test func tableOfTooManyBytesIsRefused() async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            let text = "{ domains: { d: { baseURL: 'http://h' } } }"
            let bytes = Array(text.utf8) + Array(repeating: UInt8(ascii: " "), count: 8 << 20)
            _ = try await FleetTable(fleet, "domains").push(bytes, expecting: 0, as: 1, author: "ada")
            let source = DomainTable.Source.redis(fleet, copy: .none)
            let error = try await #require(throws: NetworkError.self) { try await DomainTable(from: source) }
            #expect(error.kind == .invalidRequest && error.message.contains("larger than 8 MiB"), "\(error)")
        }
    }

    /// What is not a revision counts as none, and is replaced.
    @Test(arguments: [("007", 7), (" 7", 0), ("-7", 0), ("+7", 7), ("junk", 0), ("9999999999999999999", 0)])
    func oddRevisionIsReplaced(_ revision: String, _ known: Int64) async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            let table = FleetTable(fleet, "domains")
            _ = try await table.push(Array("{}".utf8), expecting: 0, as: 1, author: "ada")
            try redis.cli("HSET", "lat:table:domains", "revision", revision)
            switch try await table.read() {
            case .version(let version): #expect(version.revision == known)
            case .unusable(_, let revision): #expect(revision == known)
            case let other: Issue.record("\(other)")
            }
            let listed = try await FleetTable.list(on: fleet)
            #expect(listed.count == 1 && (listed[0].problem == nil) == (known > 0), "\(listed)")
            let result = try await table.push(Array("{}".utf8), expecting: known, as: known + 1, author: "ada")
            if case .pushed = result {} else { Issue.record("\(result)") }
            // A key of another type is listed with the reason.
            try redis.cli("SET", "lat:table:other", "1")
            try redis.cli("SADD", "lat:tables", "other", "gone")
            let problems = try await FleetTable.list(on: fleet).map { $0.problem?.contains("WRONGTYPE") ?? false }
            #expect(problems == [false, true])
        }
    }
}
