import FoundationEssentials
import HTTPCore
import ResponseCache
import TestSupport
import Testing

@testable import LATFleet

/// What a stranger, or a clock that was set back, leaves in Redis for tokens and the cache.
@Suite(.timeLimit(.minutes(2))) struct FleetBelievedTests {
    private static let key = Data(repeating: 7, count: 32)

    // MARK: Tokens

    /// A generation from which no later one can be counted is none.
    @Test(.needsRedis, arguments: ["9007199254740992", "99999999999999999999", "-1", "nan", "inf", "", "1e300"])
    func impossibleGenerationIsReplaced(_ generation: String) async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            try redis.cli("HSET", "lat:token:x", "generation", generation, "token", "junk")
            let token = SharedToken(fleet, name: "x", key: Self.key)
            #expect(await token.stored(after: 0) == nil)
            guard case .lead = await token.begin(after: 0, lease: .seconds(60), as: "me") else {
                Issue.record("no lease")
                return
            }
            let stored = try #require(try await token.store("own", after: 0, as: "me"))
            #expect((1...(1 << 53)).contains(stored))
            let found = await token.stored(after: 0)
            #expect(found.flatMap { token.open($0, as: String.self) } == "own")
        }
    }

    /// Nobody waits longer for another process than the lease that the process itself would have.
    @Test(.needsRedis, arguments: [[], ["PX", "99999999999"]]) func leaseOfAStrangerEndsInTime(life: [String])
        async throws
    {
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            try redis.cli(["SET", "lat:token:x:lease", "stranger"] + life)
            let token = SharedToken(fleet, name: "x", key: Self.key)
            guard case .wait(let time) = await token.begin(after: 0, lease: .seconds(60), as: "me") else {
                Issue.record("the lease is not seen")
                return
            }
            #expect(time <= .seconds(60))
            #expect((1...60_000).contains(Int(try redis.cli("PTTL", "lat:token:x:lease")) ?? 0))
        }
    }

    // MARK: The cache

    private static func entry() -> CacheEntry {
        CacheEntry(
            key: CacheKey(primary: "k"), method: "GET", url: "http://h/k", status: 200,
            headers: ["Cache-Control": "max-age=600"], requestTime: Date(), responseTime: Date())
    }

    private static func store(_ entry: CacheEntry, in tier: FleetStore) async throws -> Bool {
        if case .stored(let stored, _) = try await tier.writer(for: entry).commit() { return stored.version != nil }
        return false
    }

    @Test(.needsRedis) func endlessKeyGetsTheLifeOfItsEntry() async throws {
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            let tier = try fleet.cacheTier(FleetCacheOptions())
            #expect(try await tier.entries(for: "k").isEmpty)
            #expect(try await Self.store(Self.entry(), in: tier))
            let key = tier.coding.entryKey("k")
            for change in [["PERSIST", key], ["PEXPIRE", key, "99999999999999"]] {
                try redis.cli(change)
                try await eventually("a newer entry") { try await Self.store(Self.entry(), in: tier) }
                let life = Int64(try redis.cli("PTTL", key)) ?? 0
                #expect((1...tier.generationLife).contains(life), "\(change): \(life)")
            }
        }
    }

    @Test func timeThatIsNoNumberIsNone() {
        for number in [Double.nan, .infinity, -.infinity] {
            let bytes = withUnsafeBytes(of: number.bitPattern.bigEndian) { Array($0) }
            #expect(FleetCacheCoding.date(bytes) == nil)
        }
        #expect(FleetCacheCoding.date([]) == nil && FleetCacheCoding.date([UInt8](repeating: 0, count: 9)) == nil)
        let now = Date()
        #expect(FleetCacheCoding.date(FleetCacheCoding.bytes(of: now)) == now)
    }

    /// A last use in the far future keeps no response alive: it counts as a clock that was set back.
    @Test(.needsRedis, arguments: [1e300, 1e18, -1e300, -1e18]) func impossibleLastUseKeepsNothingAlive(time: Double)
        async throws
    {
        let redis = try await RedisServer()
        try await withFleet(redis.patient()) { fleet in
            let tier = try fleet.cacheTier(FleetCacheOptions())
            #expect(try await tier.entries(for: "k").isEmpty)
            #expect(try await Self.store(Self.entry(), in: tier))
            let bytes = FleetCacheCoding.bytes(of: Date(timeIntervalSinceReferenceDate: time))
            _ = try await fleet.redis.call(
                RedisCommand("HSET", [.text(tier.coding.entryKey("k")), "t", .bytes(bytes)]), .write)
            let found = try #require(try await tier.entries(for: "k").first)
            let miss = TimeToLiveRule.miss(found, .sliding(.seconds(60)), at: Date().addingTimeInterval(61))
            if time > 0 { #expect(miss != nil) } else { #expect(found.lastUse < found.responseTime) }
        }
    }

    /// A message that cannot be read may be about everything.
    @Test func malformedMessageSelectsEverything() throws {
        let (sender, own) = ([UInt8](repeating: 1, count: 8), [UInt8](repeating: 2, count: 8))
        let coding = try FleetCacheCoding(try Fleet(FleetConfiguration()), key: nil)
        let changed = [UInt8(ascii: "S")] + sender
        // Without a selection, of an unknown kind, with text that is not UTF-8, and with a time that is no number.
        let messages: [[UInt8]] = [
            [], [0], [0xFF] + sender, changed, changed + [0xFE], changed + [1, 0xFF], changed + [8] + Array("x".utf8),
            changed + [8] + Array("\(Double.nan.bitPattern)".utf8),
        ]
        for bytes in messages {
            guard case .changed(.all)? = coding.message(Data(bytes), unlessFrom: own) else {
                Issue.record("\(bytes) selects too little")
                continue
            }
        }
        let whole = try coding.message(.changed(.primaryKey("k")), from: sender)
        guard case .changed(.primaryKey("k"))? = coding.message(whole, unlessFrom: own) else {
            Issue.record("a whole message is not read")
            return
        }
        #expect(coding.message(whole, unlessFrom: sender) == nil)
    }
}

@Suite(.enabled(if: RedisReader.isAvailable, "needs --traits Fleet")) struct RedisReplyMemoryTests {
    /// A reply of the allowed size takes a small multiple of it, whatever its parts are.
    @Test(.measuresMemory, arguments: ["bytes", "numbers", "texts", "arrays"])
    func largeReplyTakesLittleMoreMemory(kind: String) async {
        await #expect(processExitsWith: .success) { [kind = kind as String] in
            let limit = 64 << 20
            let (count, element) =
                switch kind {
                case "numbers": (RedisReader.elementLimit, ":1\r\n")
                case "texts": (RedisReader.elementLimit, "$3\r\nabc\r\n")
                case "arrays": (RedisReader.elementLimit / 2, "*1\r\n:1\r\n")
                default:
                    (
                        16,
                        "$\(4 << 20)\r\n" + String(repeating: "x", count: (4 << 20) - 100)
                            + String(repeating: "y", count: 100) + "\r\n"
                    )
                }
            let reader = try #require(RedisReader(sizeLimit: limit + (1 << 20)))
            let before = ProcessFacts.residentBytes
            var most = 0
            var values: [RedisValue] = []
            func feed(_ text: String) throws {
                var text = text
                values += try text.withUTF8 { try reader.read(UnsafeRawBufferPointer($0)) }
                most = max(most, ProcessFacts.residentBytes - before)
            }
            try feed("*\(count)\r\n")
            let size = max(1, (64 << 10) / element.utf8.count)
            for start in stride(from: 0, to: count, by: size) {
                try feed(String(repeating: element, count: min(size, count - start)))
            }
            #expect(values.count == 1 && values[0].array?.count == count)
            #expect(most < 4 * limit, "\(kind): \(most >> 20) MiB")
        }
    }
}
