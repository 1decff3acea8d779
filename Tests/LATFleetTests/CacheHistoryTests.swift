import Testing

/// The checker finds the faults that are planted, and only those.
struct CacheHistoryTests {
    private func history(_ reads: [CacheHistory.Read]) -> CacheHistory {
        CacheHistory(firstChange: 1_000, interval: 100, life: 50, reads: reads)
    }

    private func read(
        _ version: Int, _ start: Int64, _ end: Int64? = nil, reader: Int = 0, key: Int = 0
    ) -> CacheHistory.Read {
        CacheHistory.Read(reader: reader, key: key, version: version, start: start, end: end ?? start + 1)
    }

    @Test func soundHistoryHasNoFaults() {
        // A version at the end of its life, overlapping reads in any order, and separate readers and keys.
        let reads = [
            read(1, 1_000), read(1, 1_150), read(2, 1_151), read(3, 1_205, 1_240), read(2, 1_230), read(3, 1_241),
            read(2, 1_245, reader: 1), read(2, 1_245, key: 1),
        ]
        #expect(history(reads).faults.isEmpty)
        #expect(history(reads.reversed()).faults.isEmpty)
    }

    @Test func olderAfterNewerIsFound() {
        let (newer, older) = (read(2, 1_100), read(1, 1_110))
        #expect(history([older, newer]).faults == [.older(older, after: newer)])
        // Every earlier read counts, not only the one before.
        let between = read(2, 1_104)
        let first = read(3, 1_200)
        let last = read(2, 1_210)
        #expect(history([newer, between, first, last]).faults == [.older(last, after: first)])
    }

    @Test func overlappingReadsMayBeInAnyOrder() {
        #expect(history([read(2, 1_100, 1_140), read(1, 1_140)]).faults.isEmpty)
        #expect(history([read(2, 1_100, 1_139), read(1, 1_140)]).faults.count == 1)
    }

    @Test func staleBeyondItsLifeIsFound() {
        let late = read(1, 1_151)
        #expect(history([late]).faults == [.stale(late, by: 1)])
        #expect(history([read(1, 1_150)]).faults.isEmpty)
    }

    @Test func versionOfTheFutureIsFound() {
        let early = read(2, 1_050, 1_099)
        #expect(history([early]).faults == [.fromTheFuture(early)])
        let none = read(0, 1_000)
        #expect(history([none]).faults.contains(.fromTheFuture(none)))
        #expect(history([read(2, 1_050, 1_100)]).faults.isEmpty)
    }
}
