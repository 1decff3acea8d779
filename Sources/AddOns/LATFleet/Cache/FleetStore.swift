package import FoundationEssentials
package import HTTPCore
internal import Platform
package import ResponseCache
internal import Synchronization

/// The tier of the response cache in the Redis of a fleet.
///
/// It never returns a response that was removed, and no older response after a newer one: see ``FleetFloors``. When Redis
/// fails, look-ups end within the budget and find nothing, a response stays in the tier above (``CacheEntry/version`` is then
/// `nil`), and only updates and removals throw. Removals are then tried again.
package final class FleetStore: CacheCoordinating, CacheInvalidating, CacheLookUpLimiting {
    let fleet: Fleet
    let options: FleetCacheOptions
    let coding: FleetCacheCoding
    let hub: FleetCacheHub
    let counts: FleetCacheCounts
    private let subscription: FleetSubscription
    /// The commands of a look-up that are the same for every key.
    let rulesCommands: [RedisCommand]
    let clock = Mutex(RemoteClock())
    /// The entries in Redis that this process could not replace, by primary key and variant, and whether Redis lost what was to
    /// replace them.
    let outdated = Mutex<[String: [String: Bool]]>([:])
    /// What this process may no longer take from Redis.
    let floors = Mutex(FleetFloors())
    /// The primary keys for which this process is storing responses, with their number.
    private let commits = Mutex<[String: Int]>([:])
    /// The number of the connection on which the server was asked whether it was restarted.
    private let checkedConnection = Atomic(-1)
    /// Until this time nothing is looked up, because Redis was just late; in nanoseconds.
    private let pausedUntil = Atomic<Int64>(0)

    init(_ fleet: Fleet, _ options: FleetCacheOptions, _ coding: FleetCacheCoding) {
        self.fleet = fleet
        self.options = options
        self.coding = coding
        let hub = FleetCacheHub(coding, fleet.counters)
        self.hub = hub
        counts = FleetCacheCounts(fleet.counters)
        rulesCommands = [RedisCommand("HMGET", [.text(coding.rulesKey), "e", "n", "g"]), RedisCommand("TIME")]
        subscription = fleet.redis.subscribe(coding.channel) { hub.receive($0) }
    }

    // MARK: Asking

    /// The longest pause after a late reply. Because of the pause, a request with several look-ups waits for only one of
    /// them.
    private static let longestPause = Duration.milliseconds(100)

    /// Runs a script for a request; `nil` when Redis fails.
    func ask(
        _ script: RedisScript, _ keys: [String], _ arguments: [RedisArgument], _ budget: RedisBudget = .lookUp
    ) async -> RedisValue? {
        await asked(budget) { () throws(FleetError) in
            try await fleet.redis.run(script, keys: keys, arguments, budget)
        }
    }

    /// Runs a command for a request; `nil` when Redis fails.
    ///
    /// - Parameter budget: The time that is left. When it is almost over, Redis is not asked, because it would seem to fail.
    func asked<Value>(
        _ budget: RedisBudget = .lookUp, _ body: () async throws(FleetError) -> Value
    ) async -> Value? {
        let now = MonotonicTime.now
        guard pausedUntil.load(ordering: .relaxed) <= now.nanoseconds else { return nil }
        if case .until(let end) = budget, end < now + fleet.configuration.lookUpBudget / 10 { return nil }
        do throws(FleetError) {
            return try await body()
        } catch {
            if error.kind == .timeout {
                let pause = min(fleet.configuration.lookUpBudget * 5, Self.longestPause)
                pausedUntil.store((MonotonicTime.now + pause.roundedUpMilliseconds).nanoseconds, ordering: .relaxed)
            }
            if error.kind != .cancelled { counts.failed.add() }
            return nil
        }
    }

    /// The number of the connection, after a check whether its server was restarted. After a restart everything is removed.
    /// `nil` when Redis fails.
    private func connectionAfterCheck(_ budget: RedisBudget) async -> Int? {
        let connection = fleet.redis.connectionCount
        if checkedConnection.load(ordering: .relaxed) == connection { return connection }
        let arguments: [RedisArgument] = [.text("\(UInt64.random(in: 1 ... .max))"), .integer(generationLife)]
        guard await ask(FleetCacheScripts.check, [coding.rulesKey], arguments, budget) != nil else { return nil }
        checkedConnection.store(connection, ordering: .relaxed)
        return connection
    }

    // MARK: Reading

    package var lookUpLimit: Duration? { fleet.configuration.lookUpBudget }

    package func entries(for primaryKey: String) async throws -> [CacheEntry] {
        let budget = RedisBudget.until(.now + fleet.configuration.lookUpBudget)
        // While this process stores a response, Redis may still have an older one.
        guard !isStoring(primaryKey), let connection = await connectionAfterCheck(budget),
            await dropOutdated(primaryKey, budget), let looked = await lookUp(primaryKey, budget),
            !isStoring(primaryKey),
            // A command may have waited for the next connection, whose server may have lost the newest changes.
            connection == fleet.redis.connectionCount
        else {
            counts.misses.add()
            return []
        }
        let mayUse = acceptable(primaryKey)
        let variants = looked.variants.compactMap { mayUse($0.field, $0.head) ? entry($0, primaryKey) : nil }
        let found = await withoutRemoved(variants, count: looked.ruleCount, budget)
        if found.isEmpty {
            counts.misses.add()
        } else {
            counts.hits.add()
            floors.withLock { floors in
                for item in found { floors.found(item.entry.key, version: item.head.version.number) }
            }
        }
        return found.sorted { $0.head.version.number > $1.head.version.number }.map(\.entry)
    }

    /// The entry of a variant; `nil` when it is damaged, or encrypted with another key.
    private func entry(_ variant: Variant, _ primaryKey: String) -> (entry: CacheEntry, head: FleetEntryHead)? {
        let (field, head) = (variant.field, variant.head)
        guard let record = variant.record?.data,
            var entry = coding.entry(of: record, primaryKey: primaryKey, variantField: field, id: head.id),
            entry.isCredible(for: primaryKey), coding.variantField(entry.key.variant) == field
        else { return nil }
        if let body = variant.body?.data {
            guard let body = coding.open(body, number: 0, isLast: true, id: head.id),
                Int64(body.count) == head.byteCount
            else { return nil }
            entry.attachedBody = body
        } else if head.chunkCount == 0 {
            return nil
        }
        if let time = variant.lastUse?.data.flatMap({ FleetCacheCoding.date($0) }) { entry.lastUse = time }
        entry.bodyByteCount = head.byteCount
        entry.version = head.version
        entry.tier = .remote
        entry.note = head
        return (entry, head)
    }

    /// The entries that no removal by prefix or by time selects.
    private func withoutRemoved(
        _ found: [(entry: CacheEntry, head: FleetEntryHead)], count: Int, _ budget: RedisBudget
    ) async -> [(entry: CacheEntry, head: FleetEntryHead)] {
        var left: [(entry: CacheEntry, head: FleetEntryHead)] = []
        for item in found {
            func isRemoved() -> Bool? {
                hub.isRemoved(item.entry, epoch: item.head.epoch, after: item.head.ruleCount, upTo: count)
            }
            var answer = isRemoved()
            if answer == nil {
                let fields = await asked(budget) { () throws(FleetError) in
                    try await fleet.redis.call(RedisCommand("HGETALL", [.text(coding.rulesKey)]), budget)
                }
                if let fields = fields?.array { hub.take(fields) }
                answer = isRemoved()
            }
            // An entry counts as removed when the removals cannot be read.
            if answer == false { left.append(item) }
        }
        return left
    }

    /// How many chunks are read together.
    private static let readAhead = 4

    package func body(of entry: CacheEntry) async throws -> ResponseBody? {
        if let body = entry.attachedBody { return ResponseBody(body) }
        guard let head = entry.note as? FleetEntryHead, head.chunkCount > 0, head.byteCount <= options.bodyLimit else {
            return nil
        }
        let key = coding.entryKey(entry.key.primary)
        var body = Data(capacity: Int(head.byteCount))
        for first in stride(from: 0, to: head.chunkCount, by: Self.readAhead) {
            let numbers = first..<min(first + Self.readAhead, head.chunkCount)
            let reply = await asked { () throws(FleetError) in
                try await fleet.redis.call(
                    RedisCommand("MGET", numbers.map { .text("\(key):\(head.id):\($0)") }), .lookUp)
            }
            guard let chunks = reply?.array, chunks.count == numbers.count else { return nil }
            for (number, chunk) in zip(numbers, chunks) {
                guard let sealed = chunk.data,
                    let chunk = coding.open(sealed, number: number, isLast: number == head.chunkCount - 1, id: head.id),
                    Int64(body.count + chunk.count) <= head.byteCount
                else {
                    counts.lost.add()
                    return nil
                }
                body.append(chunk)
            }
        }
        return Int64(body.count) == head.byteCount ? ResponseBody(body) : nil
    }

    // MARK: Writing

    private func isStoring(_ primaryKey: String) -> Bool { commits.withLock { $0[primaryKey] != nil } }

    /// Runs the commit of a response. Until its outcome is known, look-ups find nothing under its key.
    func storing<Value: Sendable>(_ primaryKey: String, _ body: () async throws -> Value) async rethrows -> Value {
        commits.withLock { $0[primaryKey, default: 0] += 1 }
        defer {
            commits.withLock { commits in
                let rest = (commits[primaryKey] ?? 1) - 1
                commits[primaryKey] = rest > 0 ? rest : nil
            }
        }
        return try await body()
    }

    package func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        FleetWriter(self, entry, replacing)
    }

    package func update(_ entry: CacheEntry) async throws -> Bool {
        var id = (entry.note as? FleetEntryHead)?.id
        if id == nil {
            let stored = try await entries(for: entry.key.primary).first { $0.key == entry.key }
            id = (stored?.note as? FleetEntryHead)?.id
        }
        guard let id else { return false }
        // A 304 may have made it the response of one user.
        guard FleetWriter.isForMany(entry) else {
            _ = try await remove(.key(entry.key))
            return false
        }
        var entry = entry
        if entry.partition == nil { StorageRule.removePersonalFields(&entry.headers, .shared) }
        let version = entry.version.map { FleetEntryHead.text($0) } ?? ""
        let keys = [coding.entryKey(entry.key.primary), coding.rulesKey] + coding.generationKeys(of: entry)
        let arguments: [RedisArgument] = [
            .text(coding.variantField(entry.key.variant)), .text(version), .text("\(UInt64.random(in: 1 ... .max))"),
            .integer(max(1, life(of: entry))), .bytes(try coding.record(of: entry, id: id)), .text(coding.channel),
            .data(try coding.message(.changed(.primaryKey(entry.key.primary)), from: hub.sender)),
            .integer(generationLife), .text(coding.generationPrefix),
        ]
        return try await write { () throws(FleetError) in
            try await fleet.redis.run(FleetCacheScripts.update, keys: keys, arguments, .write)
        }.integer == 1
    }

    package func touch(_ key: CacheKey, at time: Date) async throws {
        _ = try? await fleet.redis.run(
            FleetCacheScripts.touch, keys: [coding.entryKey(key.primary)],
            [.text(coding.variantField(key.variant)), .bytes(FleetCacheCoding.bytes(of: time))], .write)
    }

    package func remove(_ selection: CacheSelection) async throws -> CacheUsage {
        let message = RedisArgument.data(try coding.message(.changed(selection), from: hub.sender))
        let channel = RedisArgument.text(coding.channel)
        var (script, keys, arguments) = (FleetCacheScripts.remove, [coding.rulesKey], [channel, message])
        switch selection {
        case .all: break
        case .primaryKey(let primary): keys = [coding.entryKey(primary)]
        case .key(let one):
            keys = [coding.entryKey(one.primary)]
            arguments.append(.text(coding.variantField(one.variant)))
        case .urlPrefix, .storedBefore:
            script = FleetCacheScripts.removeByRule
            arguments.insert(.data(try coding.rule(selection)), at: 0)
        case .tag, .url, .server, .domain, .partition:
            if let key = coding.generationKey(selection) { keys.insert(key, at: 0) }
        }
        counts.removals.add()
        _ = try await write { [script, keys, arguments] () throws(FleetError) in
            try await fleet.redis.run(script, keys: keys, arguments, .write)
        }
        return CacheUsage()
    }

    /// Makes a change that must not be lost.
    private func write(_ body: () async throws(FleetError) -> RedisValue) async throws -> RedisValue {
        do throws(FleetError) {
            return try await body()
        } catch {
            counts.failed.add()
            throw NetworkError(
                .cache, message: "the fleet's cache could not be changed: \(error)",
                underlying: CacheServerUnavailable())
        }
    }

    /// How long Redis keeps an entry, in milliseconds; 0 or less for one that is no longer of use.
    func life(of entry: CacheEntry) -> Int64 {
        let longest = maxLifetime
        guard let end = entry.retainUntil else { return longest }
        let seconds = end.timeIntervalSinceNow
        return seconds * 1_000 >= Double(longest) ? longest : Int64(max(-1, seconds * 1_000))
    }

    /// `maxLifetime` in milliseconds, at most 34 years: Redis refuses a life that ends beyond the last time it can hold.
    private var maxLifetime: Int64 { options.maxLifetime.roundedUpMilliseconds(atMost: 1 << 40) }

    /// Generations outlive the entries that depend on them.
    var generationLife: Int64 { maxLifetime + 3_600_000 }

    package func invalidations() -> CacheInvalidations { hub.feeds.begin() }
}
