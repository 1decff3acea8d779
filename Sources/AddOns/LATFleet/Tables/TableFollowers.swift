internal import FoundationEssentials
internal import Glibc

/// A process that follows a table, as it has reported to the Redis.
package struct TableFollowing: Sendable {
    /// The host, the process ID, and a few letters that distinguish its managers.
    package var name: String
    package var revision: Int64
    /// Why the newest version is not used; `nil` when it is.
    package var refusal: String?
}

extension FleetTable {
    /// The longest time between two checks that a report can state, in seconds.
    private static let longestPause: Int64 = 1 << 40

    /// Reports which revision a process uses. A report expires after three times `pause`.
    ///
    /// - Parameters:
    ///   - pause: the time between two checks of the process.
    ///   - isFirst: whether expired reports of other processes are removed.
    func report(
        _ following: TableFollowing, every pause: Duration, isFirst: Bool
    ) async throws(FleetError) {
        _ = try await redis.run(
            Self.reporting, keys: [followers],
            [
                .text(following.name), .integer(following.revision),
                .integer(min(max(1, pause.components.seconds), Self.longestPause)),
                .text(following.refusal ?? ""), .integer(isFirst ? 1 : 0),
            ], .time(.seconds(2)))
    }

    private static let reporting = RedisScript(
        "reporting a revision",
        """
        local time = tonumber(redis.call('TIME')[1])
        if ARGV[5] == '1' then
            local all = redis.call('HGETALL', KEYS[1])
            for i = 1, #all, 2 do
                local seen, pause = string.match(all[i + 1], '^%d+|(%d+)|(%d+)|')
                if not seen or seen + 3 * pause < time then redis.call('HDEL', KEYS[1], all[i]) end
            end
        end
        redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. '|' .. time .. '|' .. ARGV[3] .. '|' .. ARGV[4])
        redis.call('EXPIRE', KEYS[1], 86400)
        return 1
        """)

    /// Reads what ``report(_:every:isFirst:)`` wrote, without expired reports.
    static func following(_ fields: [RedisValue], at time: Int64) -> [TableFollowing] {
        // Redis' clock has no other times, and none of these overflows below.
        let time = min(max(0, time), 1 << 42)
        return stride(from: 0, to: fields.count - 1, by: 2).compactMap { index in
            guard let name = fields[index].text, let text = fields[index + 1].text else { return nil }
            let parts = text.split(separator: "|", maxSplits: 3, omittingEmptySubsequences: false)
            guard parts.count == 4, let revision = Int64(parts[0]), let seen = Int64(parts[1]),
                let pause = Int64(parts[2]), (0...longestPause).contains(pause), seen >= time - 3 * pause
            else { return nil }
            let refusal = parts[3].isEmpty ? nil : String(parts[3])
            return TableFollowing(name: name, revision: revision, refusal: refusal)
        }.sorted { $0.name < $1.name }
    }

    /// A name for one follower of this process.
    static func newFollowerName() -> String {
        let process = ProcessInfo.processInfo
        let suffix = String(UInt16.random(in: 4096 ... .max), radix: 16)
        return "\(process.hostName):\(process.processIdentifier):\(suffix)"
    }
}

extension FleetTable {
    /// A table in the list of all.
    package struct Entry: Sendable {
        package var name: String
        /// Why the table cannot be used; `nil` when it can.
        package var problem: String?
        /// The newest version, without its bytes; of revision 0 when there is a problem.
        package var version: Version
        package var byteCount: Int
        /// The processes that follow it.
        package var followers: [TableFollowing]
    }

    package static func list(on fleet: Fleet) async throws(FleetError) -> [Entry] {
        let reply = try await fleet.redis.pipeline(
            [RedisCommand("SMEMBERS", [.text(fleet.key("tables"))]), RedisCommand("TIME")], .time(Self.budget))
        let time = reply[1].array?.first?.integer ?? 0
        let names = try reply[0].checked("SMEMBERS").array ?? []
        let tables = names.compactMap(\.text).sorted().map { FleetTable(fleet, $0) }
        let commands = tables.flatMap { table in
            [
                RedisCommand("HMGET", [.text(table.key), "revision", "author", "time", "signature"]),
                RedisCommand("HSTRLEN", [.text(table.key), "table"]),
                RedisCommand("HGETALL", [.text(table.followers)]),
            ]
        }
        let replies = try await fleet.redis.pipeline(commands, .time(Self.budget))
        return tables.enumerated().compactMap { index, table in
            var problem: String?
            var parts: [RedisValue] = []
            do throws(FleetError) {
                parts = try replies[3 * index].checked("HMGET").array ?? []
                // A table that was deleted is still in the list.
                if parts.allSatisfy(\.isNone) { return nil }
                if (parts[0].integer ?? 0) < 1 { problem = "it has no revision; push a table with lat domains push" }
            } catch {
                problem = error.message
            }
            if problem != nil { parts = [.none, .none, .none, .none] }
            let version = Version(
                revision: parts[0].integer ?? 0, bytes: [], author: shown(parts[1].text),
                time: Date(timeIntervalSince1970: Double(parts[2].integer ?? 0)),
                signature: parts[3].data.flatMap { $0.isEmpty ? nil : Array($0) })
            return Entry(
                name: table.name, problem: problem, version: version,
                byteCount: Int(replies[3 * index + 1].integer ?? 0),
                followers: following(replies[3 * index + 2].array ?? [], at: time))
        }
    }
}
