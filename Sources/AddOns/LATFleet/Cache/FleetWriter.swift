internal import Cryptography
internal import FoundationEssentials
internal import HTTPCore
internal import ResponseCache
internal import Synchronization

/// Writes an entry to Redis: first the chunks, which no look-up finds, then everything else in one step.
final class FleetWriter: CacheWriter {
    private struct State {
        /// The bytes that are not written yet.
        var rest = Data()
        var byteCount: Int64 = 0
        var chunkCount = 0
        /// Whether the entry stays in the tier above.
        var isLocal = false
        /// Whether it does so because Redis failed.
        var isLost = false
        var isOver = false
    }

    private let store: FleetStore
    private let entry: CacheEntry
    private let replacing: CacheReplacement
    /// The second half of the version.
    private let second = UInt64.random(in: 1 ... .max)
    /// The random name of the body.
    private let id: String
    private let key: String
    private let state: Mutex<State>

    /// How long Redis keeps a chunk before the commit, in milliseconds.
    private static let uncommittedLife: Int64 = 600_000

    init(_ store: FleetStore, _ entry: CacheEntry, _ replacing: CacheReplacement) {
        self.store = store
        self.entry = entry
        self.replacing = replacing
        id = Hexadecimal.random(byteCount: 12)
        key = store.coding.entryKey(entry.key.primary)
        var state = State()
        state.isLocal = !Self.isForMany(entry) || store.life(of: entry) <= 0
        self.state = Mutex(state)
    }

    // Removes the chunks of an entry that was neither committed nor discarded.
    deinit { end() }

    /// Whether the processes of a fleet may share an entry (RFC 9111 §3). A partition belongs to the same user in all of them.
    static func isForMany(_ entry: CacheEntry) -> Bool {
        guard !entry.varyFields.contains(RequestIdentity.field) else { return false }
        guard entry.partition == nil else { return true }
        let control = CacheControl(entry.headers, .shared)
        return !StorageRule.isPersonal(entry.headers, control) && (!control.noStore || control.mustUnderstand)
    }

    func append(_ data: Data) async throws {
        let chunks = state.withLock { state -> [(Int, Data)] in
            guard !state.isLocal, !state.isOver else { return [] }
            state.byteCount += Int64(data.count)
            guard state.byteCount <= store.options.bodyLimit else {
                state.isLocal = true
                state.rest = Data()
                return []
            }
            var chunks: [(Int, Data)] = []
            var data = data[...]
            // At least one byte stays, because the last chunk is known only at the commit.
            while state.rest.count + data.count > FleetCacheCoding.chunkByteCount {
                let part = data.prefix(FleetCacheCoding.chunkByteCount - state.rest.count)
                data = data.dropFirst(part.count)
                chunks.append((state.chunkCount, state.rest + part))
                state.rest = Data()
                state.chunkCount += 1
            }
            state.rest.append(data)
            return chunks
        }
        for (number, chunk) in chunks { await write(chunk, number, isLast: false) }
    }

    private func write(_ chunk: Data, _ number: Int, isLast: Bool) async {
        guard state.withLock({ !$0.isLocal }) else { return }
        do {
            let sealed = try store.coding.seal(chunk, number: number, isLast: isLast, id: id)
            _ = try await store.fleet.redis.call(
                RedisCommand(
                    "SET", [.text("\(key):\(id):\(number)"), .data(sealed), "PX", .integer(Self.uncommittedLife)]),
                .write)
        } catch {
            store.counts.failed.add()
            state.withLock { ($0.isLocal, $0.isLost) = (true, true) }
        }
    }

    func commit() async throws -> CacheCommit {
        let (rest, count, isOver) = state.withLock { state in
            defer { state.isOver = true }
            return (state.rest, state.chunkCount, state.isOver)
        }
        guard !isOver else {
            throw NetworkError(.cache, message: "the writer was committed or discarded before; make another one")
        }
        return try await store.storing(entry.key.primary) { try await commit(rest, count) }
    }

    private func commit(_ rest: Data, _ count: Int) async throws -> CacheCommit {
        let isInline = count == 0 && rest.count <= FleetCacheCoding.inlineLimit
        let chunkCount = isInline ? 0 : count + 1
        if !isInline { await write(rest, count, isLast: true) }
        guard state.withLock({ !$0.isLocal }) else { return await keepLocallyAndDrop(removing: chunkCount) }
        let reply: RedisValue
        do {
            try await store.learnClock()
            reply = try await send(isInline ? rest : nil, chunkCount)
        } catch {
            store.counts.failed.add()
            state.withLock { $0.isLost = true }
            return await keepLocallyAndDrop(removing: chunkCount)
        }
        switch reply.array?.first?.integer {
        case 1:
            guard let number = reply.array?.dropFirst().first?.integer, let variants = reply.array?.last?.integer,
                number >= 0
            else { break }
            store.counts.writes.add()
            if hasFetchTime, !store.mayUse(entry, isInRedis: true) { return .superseded }
            var stored = entry
            stored.version = StoredVersion(UInt64(number), second)
            stored.bodyByteCount = state.withLock(\.byteCount)
            stored.tier = .remote
            return .stored(stored, variantCount: Int(variants))
        case 0:
            // `.nothing` stands for a response that the app stores itself, which no process has used yet.
            if hasFetchTime, replacing != .nothing { store.raiseFloor(entry) }
            store.counts.superseded.add()
            return .superseded
        default: break
        }
        return keepLocally(removing: chunkCount)
    }

    /// Whether the entry was just fetched, so that its times can be compared with those of others.
    private var hasFetchTime: Bool { store.fetch(of: entry) != nil }

    private func send(_ inline: Data?, _ chunkCount: Int) async throws -> RedisValue {
        let coding = store.coding
        var entry = entry
        entry.lease = nil
        if entry.partition == nil { StorageRule.removePersonalFields(&entry.headers, .shared) }
        let lease = self.entry.lease
        let fetch = store.fetch(of: self.entry) ?? 0...0
        let body = try inline.map { try coding.seal($0, number: 0, isLast: true, id: id) }
        let allowed =
            switch replacing {
            case .anything: "*"
            case .nothing: "-"
            case .version(let version): FleetEntryHead.text(version)
            }
        let keys =
            [key, coding.rulesKey, lease.map { $0.name.isEmpty ? key : $0.name } ?? key]
            + coding.generationKeys(of: entry)
        let arguments: [RedisArgument] = [
            .text(coding.variantField(entry.key.variant)), .text("\(second)"),
            .integer(Int64(clamping: lease?.number ?? 0)),
            .integer(entry.originTime.map { Int64($0.timeIntervalSince1970 * 1_000) } ?? 0),
            .integer(store.life(of: entry)), .text(id), .integer(Int64(chunkCount)),
            .integer(state.withLock(\.byteCount)), .bytes(try coding.record(of: entry, id: id)),
            body == nil ? "0" : "1", .data(body ?? Data()), .text(allowed), .text(coding.channel),
            .data(try coding.message(.changed(.primaryKey(entry.key.primary)), from: store.hub.sender)),
            .integer(store.generationLife), .text(coding.generationPrefix), .integer(fetch.lowerBound),
            .integer(fetch.upperBound),
        ]
        return try await store.fleet.redis.run(FleetCacheScripts.commit, keys: keys, arguments, .write)
    }

    /// The outcome for an entry that only the tier above keeps. Drops the one in Redis.
    private func keepLocallyAndDrop(removing chunkCount: Int) async -> CacheCommit {
        await store.drop(entry.key, isLost: state.withLock(\.isLost))
        return keepLocally(removing: chunkCount)
    }

    /// The outcome for an entry that only the tier above keeps. The one in Redis is not changed.
    private func keepLocally(removing chunkCount: Int) -> CacheCommit {
        store.counts.skipped.add()
        remove(chunkCount)
        guard store.mayUse(entry, isInRedis: false) else { return .superseded }
        store.raiseFloor(entry)
        var entry = entry
        entry.version = nil
        return .stored(entry, variantCount: nil)
    }

    private func remove(_ count: Int) {
        guard count > 0 else { return }
        let keys = (0..<count).map { RedisArgument.text("\(key):\(id):\($0)") }
        Task { [store] in _ = try? await store.fleet.redis.call(RedisCommand("UNLINK", keys), .write) }
    }

    func discard() async { end() }

    private func end() {
        let count = state.withLock { state in
            defer {
                state.isOver = true
                state.rest = Data()
            }
            return state.isOver ? 0 : state.chunkCount
        }
        remove(count)
    }
}
