internal import FoundationEssentials

/// What the Redis of a fleet holds, for display.
package struct FleetContents: Sendable {
    package struct Kind: Hashable, Sendable {
        package var name: String
        package var count: Int
    }

    package var usedMemory: Int64 = 0
    /// The limit of memory; 0 for none.
    package var maxMemory: Int64 = 0
    package var policy = "noeviction"
    package var clientCount = 0
    package var evictedCount = 0
    /// All keys of the database.
    package var keyCount = 0
    /// The fleet's keys by kind, the most first.
    package var kinds: [Kind] = []
    /// Whether only a part of the keys was counted.
    package var isPartial = false

    /// Why the server refuses all writes although it has memory; `nil` where it does not.
    package var refusal: String?

    /// Whether the server takes no writes: for the ``refusal``, or because its memory is full and nothing makes room.
    package var refusesWrites: Bool {
        refusal != nil || maxMemory > 0 && policy == "noeviction" && usedMemory >= maxMemory
    }

    private static let keysInStep: Int64 = 1_000
    private static let steps = 20

    /// Asks for a few facts, and counts at most 20,000 keys in small steps, which hardly delay other clients.
    package static func read(from fleet: Fleet) async throws(FleetError) -> FleetContents {
        var contents = FleetContents()
        let redis = fleet.redis
        let replies = try await redis.pipeline(
            [RedisCommand("INFO"), RedisCommand("DBSIZE"), RedisCommand("PING")], .time(FleetTable.budget))
        contents.read(info: try replies[0].checked("INFO").text ?? "")
        contents.keyCount = Int(try replies[1].checked("DBSIZE").integer ?? 0)
        do throws(FleetError) {
            _ = try replies[2].checked("PING")
        } catch {
            contents.refusal = error.message
        }
        var counts: [String: Int] = [:]
        var cursor = "0"
        for step in 0..<steps {
            let reply = try await redis.call(
                RedisCommand(
                    "SCAN",
                    [.text(cursor), "MATCH", .text("\(fleet.configuration.prefix)*"), "COUNT", .integer(keysInStep)]),
                .time(FleetTable.budget))
            guard let parts = reply.array, parts.count == 2, let next = parts[0].text else { break }
            for key in (parts[1].array ?? []).compactMap(\.text) {
                if let kind = kind(of: key, prefix: fleet.configuration.prefix) { counts[kind, default: 0] += 1 }
            }
            cursor = next
            if cursor == "0" { break }
            contents.isPartial = step == steps - 1
        }
        contents.kinds = counts.map { Kind(name: $0.key, count: $0.value) }
            .sorted { ($1.count, $0.name) < ($0.count, $1.name) }
        return contents
    }

    /// The kind of a key; `nil` for a key of another program, and for the list of tables.
    static func kind(of key: String, prefix: String) -> String? {
        // The prefix may contain colons.
        guard key.hasPrefix("\(prefix):") else { return nil }
        let rest = key.dropFirst(prefix.count + 1)
        let parts = rest.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        guard parts[0] != "tables" else { return nil }
        // The key of a token whose name ends in `:lease` begins with `tokens`.
        guard parts[0] != "tokens" else { return "token" }
        if parts[0] == "token", parts.count > 2, parts.last == "lease" { return "lease" }
        // The cache's keys begin with `c` and the number of their format.
        if parts[0].first == "c", parts[0].dropFirst().allSatisfy(\.isNumber), parts.count > 2 {
            return ["e": "cache", "l": "lease", "r": "rules"][parts[2]] ?? "generation"
        }
        return parts[0].allSatisfy { $0.isLetter } && parts[0].count <= 20 ? parts[0] : "other"
    }

    mutating func read(info: String) {
        for line in info.split(whereSeparator: \.isNewline) {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { continue }
            let value = String(parts[1])
            switch parts[0] {
            case "used_memory": usedMemory = Int64(value) ?? 0
            case "maxmemory": maxMemory = Int64(value) ?? 0
            case "maxmemory_policy": policy = value
            case "connected_clients": clientCount = Int(value) ?? 0
            case "evicted_keys": evictedCount = Int(value) ?? 0
            default: break
            }
        }
    }
}
