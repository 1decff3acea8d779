import FoundationEssentials
import LATNetworking
import LATTesting
import TestSupport
import Testing

@testable import LATFleet

/// The lease of a renewal, and the token in Redis.
@Suite(.needsRedis, .timeLimit(.minutes(2)))
struct SharedTokenTests {
    /// An authenticator whose renewals wait at a gate, and which notes a token that comes meanwhile.
    private actor HeldSession: SharedTokenAuthenticator {
        let isRenewing = Event()
        let gate = Event()
        nonisolated let refreshTimeout: Duration
        private var renewals = 0
        private(set) var adoptedMeanwhile: [String] = []

        init(refreshTimeout: Duration = .seconds(60)) { self.refreshTimeout = refreshTimeout }

        func apply(to request: inout HTTPRequest) {}

        func refresh() async throws {
            renewals += 1
            isRenewing.happen()
            await gate.wait()
            renewals -= 1
        }

        func exportToken() -> String? { "mine" }

        func adopt(_ token: String) { if renewals > 0 { adoptedMeanwhile.append(token) } }
    }

    @Test func noTokenIsAdoptedDuringARenewal() async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            let session = HeldSession()
            let authenticator = FleetAuthenticator(session, SharedToken(fleet, name: "t", key: FleetTokenTests.key))
            try await eventually("a subscription") {
                try redis.cli("PUBSUB", "NUMSUB", fleet.channel("token:t")).hasSuffix("1")
            }
            let first = Task { try await authenticator.refresh() }
            await session.isRenewing.wait()
            // Another manager with the same authenticator gives up its renewal.
            let second = Task { try await authenticator.refresh() }
            second.cancel()
            _ = try? await second.value
            // The lease of the first renewal is lost, and another process renews.
            try redis.cli("DEL", "lat:token:t:lease")
            let other = SharedToken(fleet, name: "t", key: FleetTokenTests.key)
            guard case .lead = await other.begin(after: 0, lease: .seconds(60), as: "other") else {
                Issue.record("no lease")
                return
            }
            let generation = try await other.store("theirs", after: 0, as: "other")
            #expect(generation != nil)
            // The message arrives while these commands are answered.
            for _ in 0..<100 { _ = try await fleet.redis.get("k") }
            session.gate.happen()
            try await within { try await first.value }
            #expect(await session.adoptedMeanwhile == [])
        }
    }

    /// Two managers have the same authenticator: while one renews, the other asks for the lease, too.
    @Test func secondRenewalDoesNotTakeTheLeaseOfTheFirst() async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            let session = HeldSession()
            let authenticator = FleetAuthenticator(session, SharedToken(fleet, name: "t", key: FleetTokenTests.key))
            let first = Task { try await authenticator.refresh() }
            await session.isRenewing.wait()
            let count = fleet.counters.counter("redis.commands").value
            let second = Task { try await authenticator.refresh() }
            try await eventually("a question") { fleet.counters.counter("redis.commands").value > count }
            // Its answer came before this one.
            _ = try await fleet.redis.get("k")
            session.gate.happen()
            try await within { try await first.value }
            try await within { try await second.value }
            #expect(try redis.cli("EXISTS", "lat:token:t") == "1")
            #expect(try redis.cli("EXISTS", "lat:token:t:lease") == "0")
        }
    }

    /// A Redis that was restarted with old data, or with none.
    @Test(arguments: [false, true]) func lostTokenIsStoredAgain(isEmpty: Bool) async throws {
        let redis = try await RedisServer()
        let tokens = try FleetTokenTests.TokenServer()
        try await withManagers(2, redis) { configuration, fleet in
            configuration.authenticator = try fleet.authenticator(
                "t", sharing: FleetTokenTests.Session(tokens), key: FleetTokenTests.key)
        } _: { fleet in
            try await fleet.callAll(tokens.url, times: 3)
            let newest = try redis.cli("HGETALL", "lat:token:t")
            if isEmpty {
                try redis.cli("FLUSHALL")
            } else {
                try redis.cli("HSET", "lat:token:t", "generation", "5", "token", "old")
            }
            try redis.cli("CLIENT", "KILL", "TYPE", "pubsub")
            try await eventually("the newest generation") {
                try redis.cli("HGET", "lat:token:t", "generation") == newest.split(separator: "\n").dropFirst().first
                    ?? ""
            }
        }
        try await withManagers(1, redis) { configuration, fleet in
            configuration.authenticator = try fleet.authenticator(
                "t", sharing: FleetTokenTests.Session(tokens), key: FleetTokenTests.key)
        } _: { fleet in
            try await fleet.callAll(tokens.url, times: 3)
        }
        #expect(tokens.renewals == 1)
    }

    @Test func restoredTokenReplacesNoNewerOne() async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            let token = SharedToken(fleet, name: "t", key: FleetTokenTests.key)
            try await token.restore("older", as: 5)
            try await token.restore("newer", as: 7)
            try await token.restore("older", as: 5)
            let stored = await token.stored(after: 0)
            #expect(stored?.generation == 7)
            #expect(stored.flatMap { token.open($0, as: String.self) } == "newer")
        }
    }

    @Test func refreshTimeoutMayBeEndless() async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            let session = HeldSession(refreshTimeout: .seconds(Int64.max))
            session.gate.happen()
            let authenticator = FleetAuthenticator(session, SharedToken(fleet, name: "t", key: FleetTokenTests.key))
            try await authenticator.refresh()
            #expect(try redis.cli("EXISTS", "lat:token:t") == "1")
            var configuration = CentralRequestManager.Configuration()
            configuration.authenticator = authenticator
            let server = try MockServer()
            server.enqueue(.status(401))
            server.fallback { _ in .text("ok") }
            let manager = try CentralRequestManager(configuration: configuration)
            #expect(try await manager.startRequest("GET", server.url("/")).status == 200)
            await manager.shutdown()
        }
    }

    @Test func tokenMayBeNamedLikeALease() async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            let tokens = ["x", "x:lease", "x:lease:lease"].map {
                SharedToken(fleet, name: $0, key: FleetTokenTests.key)
            }
            for token in tokens {
                guard case .lead = await token.begin(after: 0, lease: .seconds(60), as: "me") else {
                    Issue.record("no lease of \(token.name)")
                    continue
                }
            }
            for token in tokens {
                let generation = try await token.store(token.name, after: 0, as: "me")
                #expect(generation != nil)
                let stored = await token.stored(after: 0)
                #expect(stored.flatMap { token.open($0, as: String.self) } == token.name)
            }
            let keys = try redis.cli("KEYS", "lat:token*").split(separator: "\n").sorted()
            #expect(keys == ["lat:token:x", "lat:tokens:x:lease:lease:value", "lat:tokens:x:lease:value"])
            #expect(try await FleetContents.read(from: fleet).kinds == [.init(name: "token", count: 3)])
        }
    }
}

extension SharedToken {
    /// The token in Redis, if it is newer than a generation.
    func stored(after generation: Int64) async -> Stored? {
        if case .newer(let stored)? = await compare(with: generation) { stored } else { nil }
    }
}
