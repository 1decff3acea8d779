internal import FoundationEssentials
internal import Platform
internal import ResponseCache

/// The responses that a process must no longer use, because it has seen one that may be newer. A pure value.
///
/// The floor of a key is a time: a response may be used only if its fetch began then or later. Of two overlapping
/// fetches either may have the newer response. So a process that has seen both uses neither: the floor of their key
/// rises to the end of the later fetch.
struct FleetFloors {
    /// The end of a fetch, by both clocks of the process.
    struct Time: Hashable {
        var date: Date
        /// The same time as the date, or a later one.
        var monotonic: MonotonicTime
    }

    /// What was last seen of a key.
    private struct Seen {
        var hash = 0
        /// The newest version that was found in Redis.
        var version: UInt64 = 0
        /// The times of the process' own response.
        var requestTime = Date.distantPast, responseTime = Date.distantPast
    }

    /// By primary key and variant.
    private var floors: [String: [String: Time]] = [:]
    /// The floor of all keys.
    private(set) var lowest: Time?
    /// By a part of the hash of the key. An element matters only while its key is being fetched.
    private var seen = [Seen](repeating: Seen(), count: 4_096)

    /// The largest number of primary keys with floors of their own.
    private static let limit = 10_000

    /// The floors of the variants under a primary key. The others have the ``lowest``.
    func floors(under primaryKey: String) -> [String: Time] { floors.isEmpty ? [:] : floors[primaryKey] ?? [:] }

    /// The floor of a key; `nil` when any response may be used.
    func floor(of key: CacheKey) -> Time? { floors(under: key.primary)[key.variant] ?? lowest }

    mutating func raise(_ key: CacheKey, to time: Time) {
        if let floor = floor(of: key), floor.date >= time.date { return }
        // When there are too many floors to remember, the highest of them becomes the floor of all keys.
        if floors.count >= Self.limit, floors[key.primary] == nil {
            lowest = floors.values.flatMap(\.values).reduce(time) {
                Time(date: max($0.date, $1.date), monotonic: max($0.monotonic, $1.monotonic))
            }
            floors = [:]
        } else {
            floors[key.primary, default: [:]][key.variant] = time
        }
    }

    /// Notes that Redis has a response that was fetched after the floor.
    mutating func lower(_ key: CacheKey) {
        guard var variants = floors.isEmpty ? nil : floors[key.primary] else { return }
        variants[key.variant] = nil
        floors[key.primary] = variants.isEmpty ? nil : variants
    }

    mutating func found(_ key: CacheKey, version: UInt64) {
        changeSeen(key) { $0.version = max(version, $0.version) }
    }

    /// Notes a response that the process fetched itself.
    mutating func took(_ entry: CacheEntry) {
        changeSeen(entry.key) { ($0.requestTime, $0.responseTime) = (entry.requestTime, entry.responseTime) }
    }

    private mutating func changeSeen(_ key: CacheKey, _ change: (inout Seen) -> Void) {
        let hash = key.hashValue
        let place = Self.place(of: hash)
        if seen[place].hash != hash { seen[place] = Seen(hash: hash) }
        change(&seen[place])
    }

    /// Whether a response that the process fetched itself is newer than all that it has seen.
    ///
    /// - Parameter begin: When its fetch began, in microseconds of Redis' clock.
    func admits(_ entry: CacheEntry, _ begin: Int64?) -> Bool {
        if let floor = floor(of: entry.key), entry.requestTime < floor.date { return false }
        let hash = entry.key.hashValue
        let last = seen[Self.place(of: hash)]
        guard last.hash == hash else { return true }
        if entry.requestTime < last.responseTime, entry.requestTime != last.requestTime { return false }
        return begin.map { last.version < UInt64(clamping: $0) } ?? true
    }

    private static func place(of hash: Int) -> Int { Int(UInt(bitPattern: hash) % 4_096) }
}
