internal import FoundationEssentials
internal import Platform
package import ResponseCache

// Keeps the process from using an older response after a newer one.
extension FleetStore {
    // MARK: Time

    /// Asks for Redis' clock unless it is known.
    ///
    /// Without it, a process whose first look-up failed could not say when its fetch began, and its response might replace a
    /// newer one.
    func learnClock() async throws {
        guard clock.withLock({ $0.now == nil }) else { return }
        let start = MonotonicTime.now
        let reply = try await fleet.redis.call(RedisCommand("TIME"), .write)
        guard readClock(reply, since: start) != nil else {
            throw FleetError(.protocolViolation, "\(fleet.configuration) did not answer TIME with a time")
        }
    }

    /// Takes Redis' time, in microseconds, from the reply to `TIME`; `nil` when it is another reply.
    func readClock(_ reply: RedisValue, since start: MonotonicTime) -> Int64? {
        guard let time = reply.array, time.count == 2, let seconds = time[0].integer,
            let microseconds = time[1].integer, (0..<1 << 42).contains(seconds), (0..<1_000_000).contains(microseconds)
        else { return nil }
        let now = seconds * 1_000_000 + microseconds
        clock.withLock { $0.read(now, since: start) }
        return now
    }

    /// The bounds of the time in which an entry was fetched, in microseconds of Redis' clock; `nil` when they are not known.
    func fetch(of entry: CacheEntry) -> ClosedRange<Int64>? {
        let before = clock.withLock(\.now)
        let now = Date()
        let (begin, end) = (now.timeIntervalSince(entry.requestTime), now.timeIntervalSince(entry.responseTime))
        guard let before, let after = clock.withLock(\.now) else { return nil }
        // A lease gives the start of the fetch even if the clock of the process was set since.
        let leased = Int64(clamping: entry.lease?.number ?? 0)
        guard end >= 0, begin >= end, begin < 600 else {
            return leased > 0 ? min(leased, after.upperBound)...after.upperBound : nil
        }
        let last = after.upperBound - Int64(end * 1_000_000)
        return min(last, max(leased, before.lowerBound - Int64(begin * 1_000_000)))...last
    }

    // MARK: What the process has seen

    /// Whether the process may use entries in Redis, by their variants.
    func acceptable(_ primaryKey: String) -> (_ field: String, _ head: FleetEntryHead) -> Bool {
        let (floors, lowest) = floors.withLock { ($0.floors(under: primaryKey), $0.lowest) }
        if floors.isEmpty, lowest == nil { return { _, _ in true } }
        func time(_ floor: FleetFloors.Time) -> Int64 {
            clock.withLock { $0.bounds(at: floor.monotonic)?.upperBound } ?? .max
        }
        var times: [String: Int64] = [:]
        for (variant, floor) in floors { times[coding.variantField(variant)] = time(floor) }
        let lowestTime = lowest.map(time) ?? .min
        return { $1.begin >= times[$0] ?? lowestTime }
    }

    package func accepts(_ entry: CacheEntry) -> Bool { mayUse(entry, isInRedis: false) }

    /// Whether the process may use a response that it fetched itself. If not, it may not use what it has seen before either.
    func mayUse(_ entry: CacheEntry, isInRedis: Bool) -> Bool {
        let begin = fetch(of: entry)?.lowerBound
        let end = Self.time(entry.responseTime)
        return floors.withLock { floors in
            guard floors.admits(entry, begin) else {
                floors.raise(entry.key, to: end)
                return false
            }
            if isInRedis { floors.lower(entry.key) }
            floors.took(entry)
            return true
        }
    }

    /// Keeps the process from using what Redis has, unless it was fetched after this response.
    func raiseFloor(_ entry: CacheEntry) {
        let end = Self.time(entry.responseTime)
        floors.withLock { $0.raise(entry.key, to: end) }
    }

    /// A date by both clocks of the process. The monotonic time is at most ten minutes ago.
    private static func time(_ date: Date) -> FleetFloors.Time {
        let age = max(0, min(-date.timeIntervalSinceNow, 600))
        return FleetFloors.Time(
            date: date, monotonic: MonotonicTime(nanoseconds: MonotonicTime.now.nanoseconds - Int64(age * 1e9)))
    }

    // MARK: Responses that Redis does not have

    private static let outdatedLimit = 10_000

    /// Removes the entry in Redis that this process could not replace. Until that succeeds, it is not looked up.
    ///
    /// - Parameter isLost: Whether Redis failed to store the newer one, so that another process may still store an older one.
    func drop(_ key: CacheKey, isLost: Bool) async {
        let isNew = outdated.withLock { outdated in
            let known = outdated[key.primary]?[key.variant]
            // An older one may be stored until a removal with this flag has succeeded.
            outdated[key.primary, default: [:]][key.variant] = isLost || known == true
            return known == nil
        }
        // When there are too many to remember, everything in Redis is removed.
        if isNew, outdated.withLock({ $0.count > Self.outdatedLimit }), (try? await remove(.all)) != nil {
            outdated.withLock { $0 = [:] }
        }
        if isNew { _ = await dropOutdated(key.primary) }
    }

    /// Drops the entries under a primary key that this process could not replace. Returns whether none of them is left.
    func dropOutdated(_ primaryKey: String, _ budget: RedisBudget = .lookUp) async -> Bool {
        let variants = outdated.withLock { $0.isEmpty ? [:] : $0[primaryKey] ?? [:] }
        for (variant, isLost) in variants {
            guard let message = try? coding.message(.changed(.primaryKey(primaryKey)), from: hub.sender) else {
                return false
            }
            let arguments: [RedisArgument] = [
                .text(coding.channel), .data(message), .text(coding.variantField(variant)), isLost ? "1" : "0",
            ]
            guard await ask(FleetCacheScripts.drop, [coding.entryKey(primaryKey)], arguments, budget) != nil else {
                return false
            }
            outdated.withLock { outdated in
                if outdated[primaryKey]?[variant] == isLost { outdated[primaryKey]?[variant] = nil }
                if outdated[primaryKey]?.isEmpty == true { outdated[primaryKey] = nil }
            }
        }
        return true
    }
}

/// Redis' clock as far as it is known from its replies to `TIME`. A pure value.
///
/// Redis reads its clock after this process has asked and before it receives the reply, so each reply gives two bounds. Earlier
/// bounds are kept, widened by a thousandth of the time since, because clocks are adjusted.
struct RemoteClock {
    /// The bounds of Redis' time minus the monotonic time, in microseconds.
    private var offset: ClosedRange<Int64>?
    /// When a reply was last read.
    private var readAt = MonotonicTime(nanoseconds: 0)

    /// Takes a reply: Redis' time in microseconds.
    ///
    /// - Parameter now: When it was received. Default: now.
    mutating func read(_ time: Int64, since start: MonotonicTime, now: MonotonicTime = .now) {
        let seen = time - now.nanoseconds / 1_000...time - start.nanoseconds / 1_000
        let drift = (now.nanoseconds - readAt.nanoseconds) / 1_000_000
        // The remainder of the division is left for the next call.
        readAt = MonotonicTime(nanoseconds: readAt.nanoseconds + drift * 1_000_000)
        let known = offset.map { $0.lowerBound - drift...$0.upperBound + drift } ?? seen
        // If they do not overlap, the clock was set, and only the new reply counts.
        offset = known.overlaps(seen) ? known.clamped(to: seen) : seen
    }

    /// The bounds of Redis' present time, in microseconds; `nil` before the first reply.
    var now: ClosedRange<Int64>? { bounds(at: .now) }

    func bounds(at time: MonotonicTime) -> ClosedRange<Int64>? {
        let microseconds = time.nanoseconds / 1_000
        return offset.map { $0.lowerBound + microseconds...$0.upperBound + microseconds }
    }
}
