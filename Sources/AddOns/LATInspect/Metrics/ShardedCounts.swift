internal import Glibc
internal import Synchronization

/// Counters that many threads increment without a lock: each counter has a copy for each of four groups of threads, and reading
/// adds the copies up.
final class ShardedCounts: @unchecked Sendable {
    // Sendable: the cells are atomic, and the pointer is constant until `deinit`.

    private static let shardCount = 4
    private static let cacheLine = 64
    /// The copies, which begin at a cache line.
    let cells: UnsafeMutablePointer<Atomic<UInt64>>
    /// The distance between the copies: whole cache lines, so that no two groups share one.
    private let stride: Int
    private let count: Int

    init(_ count: Int) {
        self.count = count
        stride = (count + 7) / 8 * 8
        let size = stride * Self.shardCount * MemoryLayout<Atomic<UInt64>>.stride
        cells = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: Self.cacheLine)
            .bindMemory(to: Atomic<UInt64>.self, capacity: stride * Self.shardCount)
        for index in 0..<(stride * Self.shardCount) { (cells + index).initialize(to: Atomic(0)) }
    }

    deinit {
        cells.deinitialize(count: stride * Self.shardCount)
        UnsafeMutableRawPointer(cells).deallocate()
    }

    /// The copy of this thread.
    @inline(__always) static var shard: Int {
        // This address differs between threads, so its hash spreads threads over the copies.
        Int(truncatingIfNeeded: (UInt64(pthread_self()) &* 0x9E37_79B9_7F4A_7C15) >> 62)
    }

    @inline(__always) func add(_ index: Int, _ amount: UInt64 = 1, shard: Int = ShardedCounts.shard) {
        cells[shard &* stride &+ index].wrappingAdd(amount, ordering: .relaxed)
    }

    subscript(index: Int) -> UInt64 {
        (0..<Self.shardCount).reduce(0) { $0 &+ cells[$1 * stride + index].load(ordering: .relaxed) }
    }
}

/// The buckets of a histogram, as indices in ``ShardedCounts``: one for each bound, one for larger values, and the sum.
struct HistogramLayout: Sendable {
    /// The upper bounds, in the unit in which values are noted.
    let bounds: [UInt64]
    /// How many noted units are one unit of the output.
    let scale: Double
    /// The index of the first bucket.
    let start: Int

    var size: Int { bounds.count + 2 }

    /// Request durations by OpenTelemetry's advice, noted in nanoseconds.
    static func durations(at start: Int) -> HistogramLayout {
        HistogramLayout(
            bounds: [5, 10, 25, 50, 75, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000].map { $0 * 1_000_000 },
            scale: 1e9, start: start)
    }

    /// Lifetimes of connections by the same advice, noted in nanoseconds.
    static func lifetimes(at start: Int) -> HistogramLayout {
        let milliseconds: [UInt64] = [
            10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000,
        ]
        return HistogramLayout(bounds: milliseconds.map { $0 * 1_000_000 }, scale: 1e9, start: start)
    }

    /// Sizes in bytes: powers of four from 256 bytes to 256 MiB.
    static func sizes(at start: Int) -> HistogramLayout {
        HistogramLayout(bounds: (4...14).map { 1 << UInt64($0 * 2) }, scale: 1, start: start)
    }

    @inline(__always) func note(_ value: UInt64, in counts: ShardedCounts, shard: Int) {
        var bucket = 0
        while bucket < bounds.count, value > bounds[bucket] { bucket &+= 1 }
        counts.add(start &+ bucket, shard: shard)
        counts.add(start &+ bounds.count &+ 1, value, shard: shard)
    }

    /// How many values were noted.
    func count(_ counts: ShardedCounts) -> UInt64 { (start...(start + bounds.count)).reduce(0) { $0 + counts[$1] } }

    func histogram(_ counts: ShardedCounts) -> MetricSample.Histogram {
        var total: UInt64 = 0
        var buckets: [(Double, UInt64)] = []
        for (index, bound) in bounds.enumerated() {
            total += counts[start + index]
            buckets.append((Double(bound) / scale, total))
        }
        total += counts[start + bounds.count]
        return MetricSample.Histogram(
            buckets: buckets, count: total, sum: Double(counts[start + bounds.count + 1]) / scale)
    }
}
