/// Which bytes of a content are there: ranges in order, apart from each other.
struct ByteRanges: Hashable, Sendable {
    private(set) var ranges: [Range<Int64>] = []

    /// No byte.
    init() {}

    /// The union of some ranges.
    init(_ ranges: some Sequence<Range<Int64>>) {
        for range in ranges { insert(range) }
    }

    /// How many bytes are there.
    var count: Int64 { ranges.reduce(0) { $0 + Int64($1.count) } }

    /// The end of the last range, 0 when there is none.
    var upperBound: Int64 { ranges.last?.upperBound ?? 0 }

    /// The first byte that is not there.
    var firstMissing: Int64 {
        guard let first = ranges.first, first.lowerBound == 0 else { return 0 }
        return first.upperBound
    }

    /// Adds the bytes of a range; some of them may be there already.
    mutating func insert(_ range: Range<Int64>) {
        guard !range.isEmpty else { return }
        // The usual case: what comes goes on where the last piece ended.
        if let last = ranges.indices.last, ranges[last].upperBound == range.lowerBound {
            ranges[last] = ranges[last].lowerBound..<range.upperBound
            return
        }
        let first = ranges.firstIndex { $0.upperBound >= range.lowerBound } ?? ranges.endIndex
        let end = ranges[first...].firstIndex { $0.lowerBound > range.upperBound } ?? ranges.endIndex
        var joined = range
        if first < end {
            joined =
                min(ranges[first].lowerBound, range.lowerBound)..<max(ranges[end - 1].upperBound, range.upperBound)
        }
        ranges.replaceSubrange(first..<end, with: CollectionOfOne(joined))
    }

    /// Whether every byte of a range is there.
    func contains(_ range: Range<Int64>) -> Bool {
        range.isEmpty || ranges.contains { $0.lowerBound <= range.lowerBound && range.upperBound <= $0.upperBound }
    }

    /// The ranges that are not there, of a content of so many bytes.
    func gaps(upTo total: Int64) -> [Range<Int64>] {
        var gaps: [Range<Int64>] = []
        var position: Int64 = 0
        for range in ranges where range.lowerBound < total {
            if range.lowerBound > position { gaps.append(position..<range.lowerBound) }
            position = max(position, range.upperBound)
        }
        if position < total { gaps.append(position..<total) }
        return gaps
    }

    /// The bytes of both.
    func union(_ others: some Sequence<Range<Int64>>) -> ByteRanges {
        var union = self
        for range in others { union.insert(range) }
        return union
    }
}
