import Testing

@testable import LATInspect

@Suite struct ShardedCountsTests {
    @Test(arguments: 1...40) func copiesBeginAtCacheLines(count: Int) {
        let counts = (0..<20).map { _ in ShardedCounts(count) }
        for one in counts { #expect(UInt(bitPattern: one.cells) % 64 == 0) }
    }

    @Test func copiesAreAddedUp() {
        let counts = ShardedCounts(3)
        for shard in 0..<4 { counts.add(2, 5, shard: shard) }
        #expect(counts[2] == 20 && counts[0] == 0)
    }
}
