/// The versions that readers of a cache saw, and a check that finds those that they must not have seen.
///
/// The origin counts the versions of all keys together: version `n` is current from `firstChange + (n - 1) · interval` on. All
/// times are of one clock, in milliseconds.
struct CacheHistory: Sendable {
    struct Read: Hashable, Sendable {
        /// The number of the process, or of another reader that reads one version after the other.
        var reader: Int
        var key: Int
        var version: Int
        var start: Int64
        var end: Int64
        /// Where the response came from, for the reader of a fault.
        var source = ""
    }

    enum Fault: Hashable, Sendable {
        /// A reader saw a version, and later an older one.
        case older(Read, after: Read)
        /// A version was used for longer than its life after the origin had replaced it.
        case stale(Read, by: Int64)
        /// A version that the origin had not made yet.
        case fromTheFuture(Read)
    }

    /// When version 1 began.
    var firstChange: Int64
    /// How long a version is current.
    var interval: Int64
    /// How long an answer may be used after it was fetched, with what a slow machine adds.
    var life: Int64
    var reads: [Read] = []

    /// When the origin began to answer with a version.
    func begin(of version: Int) -> Int64 { firstChange + Int64(version - 1) * interval }

    /// What was read of the same key in the seconds around a fault.
    func reads(around fault: Fault) -> [Read] {
        let one =
            switch fault {
            case .older(let read, _), .stale(let read, _), .fromTheFuture(let read): read
            }
        return reads.filter { $0.key == one.key && abs($0.start - one.start) < 1_500 }.sorted { $0.start < $1.start }
    }

    /// All that must not have been seen.
    var faults: [Fault] {
        var faults: [Fault] = []
        var byReader: [[Int]: [Read]] = [:]
        for read in reads {
            if read.version < 1 || begin(of: read.version) > read.end { faults.append(.fromTheFuture(read)) }
            let excess = read.start - begin(of: read.version + 1) - life
            if excess > 0 { faults.append(.stale(read, by: excess)) }
            byReader[[read.reader, read.key], default: []].append(read)
        }
        for reads in byReader.values {
            // Of two reads that overlap, either may be the first.
            let byStart = reads.sorted { $0.start < $1.start }
            let byEnd = reads.sorted { $0.end < $1.end }
            var next = 0
            var newest: Read?
            for read in byStart {
                while next < byEnd.count, byEnd[next].end < read.start {
                    if byEnd[next].version > newest?.version ?? .min { newest = byEnd[next] }
                    next += 1
                }
                if let newest, read.version < newest.version { faults.append(.older(read, after: newest)) }
            }
        }
        return faults
    }
}
