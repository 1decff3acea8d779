import FoundationEssentials
import HTTPCore
import ResponseCache

/// The rule on leases: one at a time, and nothing under one that somebody else has got since.
extension StoreCheck {
    func checkLeases() async throws {
        let store = try await store()
        guard let leasing = store.leasing else { return }
        // One that holds nothing may share nothing yet.
        try await store.put(Self.entry("first"))
        let first = try require(
            await leasing.lease("k", for: .seconds(60)), "a lease that nobody has is not given")
        expect(try await leasing.lease("k", for: .seconds(60)) == nil, "a lease is given to two at once")
        expect(try await leasing.lease("k2", for: .seconds(60)) != nil, "one lease keeps others from theirs")
        first.end()
        first.end()
        var second: CacheLease? = try await given("k", by: leasing)
        expect((second?.number ?? 0) > first.number, "a later lease has no greater number")
        second = nil
        _ = try await given("k", by: leasing)

        // Where leases run out, the answer of one that did is not taken.
        let old = try await given("short", by: leasing, for: .milliseconds(1))
        var late: CacheLease?
        for _ in 0..<10 where late == nil {
            try await Task.sleep(for: .milliseconds(10))
            late = try await leasing.lease("short", for: .seconds(60))
        }
        guard let late else { return }
        var entry = Self.entry("short")
        entry.lease = late
        expect(try await store.put(entry).stored != nil, "an answer under a lease is not taken")
        entry.lease = old
        expect(
            try await store.put(entry, Data("old".utf8)).stored == nil,
            "an answer is taken under a lease that somebody else has got since")
        expect(try await store.data("short") == Data("hello".utf8), "an older lease has replaced a newer one's answer")
    }

    /// A lease that is free, or will be in a moment: a store may be told of its end later.
    private func given(
        _ name: String, by store: any CacheLeasing, for duration: Duration = .seconds(60)
    ) async throws -> CacheLease {
        for _ in 0..<500 {
            if let lease = try await store.lease(name, for: duration) { return lease }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw Missing("a lease whose holder has ended it is not given to others")
    }
}
