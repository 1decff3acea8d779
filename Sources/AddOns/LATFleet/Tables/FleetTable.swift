package import FoundationEssentials

/// A domain table on the Redis of a fleet.
///
/// It is a hash with the fields `format`, `revision`, `table`, `author`, `time` and `signature`. A change is one script, which
/// compares the revision, writes, and publishes the new revision. Revisions only grow.
package struct FleetTable: Sendable {
    package struct Version: Sendable {
        package var revision: Int64
        package var bytes: [UInt8]
        /// Who pushed it, such as `ada@build7`.
        package var author: String
        /// When it was pushed, by the clock of the Redis.
        package var time: Date
        package var signature: [UInt8]?

        /// Who pushed it, and when.
        package var note: String { "pushed by \(author) at \(FleetTable.text(of: time))" }
    }

    package enum Found: Sendable {
        case nothing
        /// The version that the caller knows already.
        case unchanged
        case version(Version)
        /// Not a usable table; the text says why.
        ///
        /// - Parameter revision: the revision that a push replaces; 0 without one, `nil` for a newer format, which this version
        ///   does not replace.
        case unusable(String, revision: Int64?)
    }

    package enum PushResult: Sendable {
        case pushed(Date)
        /// Another push came first; this is the version in the Redis now.
        case moved(revision: Int64, note: String)
    }

    /// The format of the hash that this version writes, and the newest it reads.
    static let format: Int64 = 1
    /// How long a call may take. Tables are read and written in the background.
    static let budget = Duration.seconds(5)

    let redis: RedisClient
    /// The name, `domains` for most.
    package let name: String
    package let key: String
    let channel: String
    private let index: String
    /// The key of the hash in which processes report which revision they use.
    let followers: String

    package init(_ fleet: Fleet, _ name: String) {
        redis = fleet.redis
        self.name = name
        key = fleet.key("table", name)
        channel = fleet.channel("table:\(name)")
        index = fleet.key("tables")
        followers = fleet.key("seen", name)
    }

    /// Why a name cannot be used; `nil` for one that can.
    package static func problem(ofName name: String) -> String? {
        guard name.utf8.count <= 100 else { return "a table's key has at most 100 bytes; shorten it" }
        guard !FleetConfiguration.isName(name) else { return nil }
        return "a table's key must be printable ASCII without blanks, braces, brackets, *, ? and \\, such as domains"
    }

    // MARK: Reading

    private static let fields: [RedisArgument] = ["format", "revision", "table", "author", "time", "signature"]

    /// Reads the table, unless it has the revision that the caller knows. Needs no more than the right to read the key.
    package func read(unless known: Int64? = nil, within limit: Duration = budget) async throws(FleetError) -> Found {
        if let known {
            let head = try await redis.call(RedisCommand("HGET", [.text(key), "revision"]), .time(limit))
            if head.integer == known { return .unchanged }
        }
        let reply = try await redis.call(RedisCommand("HMGET", [.text(key)] + Self.fields), .time(limit))
        let parts = reply.array ?? []
        return parts.allSatisfy(\.isNone) ? .nothing : found(parts)
    }

    private func found(_ parts: [RedisValue]) -> Found {
        let format = parts.first?.integer ?? 1
        guard format <= Self.format else {
            return .unusable("was written by a newer version (format \(format)); update this program", revision: nil)
        }
        guard parts.count == 6, let revision = parts[1].integer, revision > 0 else {
            return .unusable("has no revision; push a table with lat domains push", revision: 0)
        }
        guard let bytes = parts[2].data else {
            return .unusable(
                "has revision \(revision) but no text; push a table with lat domains push", revision: revision)
        }
        let signature = parts[5].data.flatMap { $0.isEmpty ? nil : Array($0) }
        return .version(
            Version(
                revision: revision, bytes: Array(bytes), author: Self.shown(parts[3].text),
                time: Date(timeIntervalSince1970: Double(parts[4].integer ?? 0)), signature: signature))
    }

    // MARK: Writing

    /// Replaces the table, if it still has the revision that the caller knows.
    ///
    /// - Parameters:
    ///   - expected: the revision it must have; 0 for no table.
    ///   - revision: the new revision, above the expected one.
    package func push(
        _ bytes: [UInt8], expecting expected: Int64, as revision: Int64, author: String, signature: [UInt8]? = nil
    ) async throws(FleetError) -> PushResult {
        let reply = try await redis.run(
            Self.pushing, keys: [key, index],
            [
                .integer(expected), .integer(revision), .bytes(bytes), .text(author), .bytes(signature ?? []),
                .integer(Self.format), .text(name), .text(channel),
            ], .time(Self.budget))
        let parts = reply.array ?? []
        let time = Date(timeIntervalSince1970: Double(parts.last?.integer ?? 0))
        guard parts.first?.text == "moved", parts.count == 4 else { return .pushed(time) }
        let note = "pushed by \(Self.shown(parts[2].text)) at \(Self.text(of: time))"
        return .moved(revision: parts[1].integer ?? 0, note: note)
    }

    private static let pushing = RedisScript(
        "pushing a table",
        """
        local current = redis.call('HMGET', KEYS[1], 'revision', 'author', 'time')
        -- What is not a revision counts as none, as for a reader.
        local known = string.match(current[1] or '', '^%+?0*([1-9]%d*)$') or '0'
        if #known > 19 or #known == 19 and known > '9223372036854775807' then known = '0' end
        if known ~= ARGV[1] then return {'moved', known, current[2] or '', current[3] or '0'} end
        local time = redis.call('TIME')[1]
        redis.call('HSET', KEYS[1], 'format', ARGV[6], 'revision', ARGV[2], 'table', ARGV[3], 'author', ARGV[4],
            'signature', ARGV[5], 'time', time)
        redis.call('SADD', KEYS[2], ARGV[7])
        redis.pcall('PUBLISH', ARGV[8], ARGV[2])
        return {'pushed', time}
        """)

    // MARK: Texts

    /// What a signature covers besides the bytes of the table: its name and its revision, so that an old table cannot be
    /// replayed as a new one.
    package static func signedHead(name: String, revision: Int64) -> [UInt8] {
        Array("lat-table \(name) \(revision)\n".utf8)
    }

    static func shown(_ author: String?) -> String {
        let text = (author ?? "").unicodeScalars.filter { $0.value >= 0x20 && $0.value != 0x7F }.prefix(80)
        return text.isEmpty ? "somebody" : String(String.UnicodeScalarView(text))
    }

    /// A time such as `2026-11-23 02:41:00 UTC`.
    package static func text(of time: Date) -> String {
        let text = time.formatted(.iso8601)
        return text.replacing("T", with: " ").replacing("Z", with: " UTC")
    }
}
