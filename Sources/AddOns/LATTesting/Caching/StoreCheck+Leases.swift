import FoundationEssentials
import HTTPCore
import ResponseCache

/// The rule on leases: one holder at a time, and no commit under a lease that has passed to another holder.
extension StoreCheck {
    func checkLeases() async throws {
        let store = try await store()
        guard let leasing = store.leasing else { return }
        // An empty store may give the same lease to several callers.
        try await store.put(Self.entry("first"))
        let first = try require(
            await leasing.lease("k", for: .seconds(60)), "a free lease is refused")
        expect(try await leasing.lease("k", for: .seconds(60)) == nil, "a lease has two holders at once")
        expect(try await leasing.lease("k2", for: .seconds(60)) != nil, "a lease blocks leases of other names")
        first.end()
        first.end()
        var second: CacheLease? = try await given("k", by: leasing)
        expect((second?.number ?? 0) > first.number, "a later lease does not have a greater number")
        second = nil
        _ = try await given("k", by: leasing)

        // If leases expire, a response under one that has passed to another holder is not stored.
        let old = try await given("short", by: leasing, for: .milliseconds(1))
        var late: CacheLease?
        for _ in 0..<10 where late == nil {
            try await Task.sleep(for: .milliseconds(10))
            late = try await leasing.lease("short", for: .seconds(60))
        }
        guard let late else { return }
        var entry = Self.entry("short")
        entry.lease = late
        expect(try await store.put(entry).stored != nil, "a response from the holder of a lease is not stored")
        entry.lease = old
        expect(
            try await store.put(entry, Data("old".utf8)).stored == nil,
            "a response is stored under a lease that has passed to another holder")
        expect(try await store.data("short") == Data("hello".utf8), "an older lease has replaced a newer response")
    }

    /// Takes a lease that nobody holds any more. Tries for five seconds, because a store may notice late that the holder
    /// has ended it.
    private func given(
        _ name: String, by store: any CacheLeasing, for duration: Duration = .seconds(60)
    ) async throws -> CacheLease {
        for _ in 0..<500 {
            if let lease = try await store.lease(name, for: duration) { return lease }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw Missing("a lease that its holder ended is refused to others")
    }
}
