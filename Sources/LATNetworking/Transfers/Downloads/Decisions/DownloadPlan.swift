import HTTPCore
import ResponseCache

/// Plans one download: which bytes have been received, which worker fetches which, and what comes next. A pure state
/// machine that neither sends nor writes.
///
/// Workers are numbers. Each takes a piece, requests it, claims the place of every chunk before writing it, and reports
/// when it is written. A worker without work takes half of the largest remaining piece.
struct DownloadPlan: Sendable {
    /// A smaller piece is not divided.
    static let smallestPiece: Int64 = 512 << 10
    /// The maximum number of restarts before the download fails.
    static let maxRestarts = 3

    /// The number of connections wanted.
    private(set) var segments: Int
    /// Whether parts may be requested: only with GET, and not after the server has sent a wrong part.
    private(set) var usesRanges: Bool
    /// The validator of the version that is being fetched.
    private(set) var validator: ContentValidator?
    /// The size of the whole content; `nil` while unknown.
    private(set) var total: Int64?
    /// The ranges that have been written.
    private(set) var done: ByteRanges
    /// The number of times that received bytes had to be discarded.
    private(set) var restarts = 0
    private var pieces: [Int: Piece] = [:]
    /// Whether a 206 has been received, which makes several connections useful.
    private var hasSeenPart = false
    private var hasDenied = false

    private struct Piece {
        let start: Int64
        /// The offset of the next chunk.
        var position: Int64
        /// The offset after the piece; reduced when another worker takes a part of it. `nil` while unknown.
        var end: Int64?
        /// The offset at which the server's response ends, which may be after the end of the piece.
        var responseEnd: Int64?
        /// The offset up to which the response has been received.
        var answerPosition: Int64

        /// While the end is unknown, the piece extends over everything.
        var range: Range<Int64> { start..<max(start, end ?? .max) }
        var remaining: Int64 { (end ?? .max) - position }
    }

    init(segments: Int, usesRanges: Bool) {
        self.segments = usesRanges ? max(1, segments) : 1
        self.usesRanges = usesRanges
        done = ByteRanges()
    }

    /// Continues from a journal.
    mutating func resume(from journal: DownloadJournal) {
        guard usesRanges, let validator = journal.validator else { return }
        self.validator = validator
        total = journal.total
        done = journal.done
    }

    /// Whether every byte has been written.
    var isComplete: Bool { total.map { done.count == $0 } ?? false }

    /// Whether the written bytes can be completed later by requesting the rest.
    var isResumable: Bool { usesRanges && !hasDenied && validator != nil }

    /// The number of workers that have work.
    var workerCount: Int {
        guard segments > 1, isResumable, hasSeenPart, let total else { return 1 }
        return Int(max(1, min(Int64(segments), (total - done.count) / Self.smallestPiece)))
    }

    // MARK: Requests

    /// Takes a piece for a worker. Returns `false` when nothing is left for it.
    mutating func take(_ worker: Int) -> Bool {
        pieces[worker] = nil
        guard let total else {
            guard pieces.isEmpty else { return false }
            pieces[worker] = piece(done.firstMissing..<Int64.max, end: nil)
            return true
        }
        let taken = done.union(pieces.values.map(\.range))
        let gaps = taken.gaps(upTo: total)
        guard let gap = gaps.first else { return takeHalf(worker) }
        let idle = Int64(max(1, workerCount - pieces.count))
        let free = gaps.reduce(0) { $0 + Int64($1.count) }
        let share = max(Self.smallestPiece, (free - 1) / idle + 1)
        let end = min(gap.upperBound, gap.lowerBound + share)
        pieces[worker] = piece(gap.lowerBound..<end, end: end)
        return true
    }

    private mutating func takeHalf(_ worker: Int) -> Bool {
        guard workerCount > 1,
            let victim = pieces.max(by: { $0.value.remaining < $1.value.remaining }), let end = victim.value.end,
            victim.value.remaining >= 2 * Self.smallestPiece
        else { return false }
        let middle = victim.value.position + victim.value.remaining / 2
        pieces[victim.key]?.end = middle
        pieces[worker] = piece(middle..<end, end: end)
        return true
    }

    private func piece(_ range: Range<Int64>, end: Int64?) -> Piece {
        Piece(
            start: range.lowerBound, position: range.lowerBound, end: end, responseEnd: nil,
            answerPosition: range.lowerBound)
    }

    /// The next request of a worker for the rest of its piece.
    func ask(_ worker: Int) -> ContentRequest {
        guard usesRanges, !hasDenied, let piece = pieces[worker] else { return .whole }
        guard let validator, done.count > 0 || hasSeenPart else { return segments > 1 ? .probe : .whole }
        let end = piece.end.flatMap { end in end == total ? nil : end }
        return .part(from: piece.position, end: end, validator)
    }

    // MARK: Responses

    /// Decides what the response to a worker's request means.
    func judge(status: Int, headers: HTTPHeaders, to ask: ContentRequest) -> ResponseRule.Verdict {
        let isContiguous = done.ranges.count <= 1 && done.count == done.firstMissing
        return ResponseRule.judge(
            status: status, headers: headers, to: ask,
            .init(validator: validator, total: total, contiguous: isContiguous ? done.count : nil))
    }

    /// Records the head of a response that carries content.
    mutating func begin(_ worker: Int, _ answer: ContentResponse) {
        if answer.invalidatesReceived {
            if validator != nil, done.count > 0 { restarts += 1 }
            done = ByteRanges()
            validator = usesRanges ? answer.validator : nil
            hasSeenPart = false
            total = nil
        }
        hasSeenPart = answer.isPart
        hasDenied = answer.deniesRanges
        total = answer.total ?? total
        var current = piece(answer.start..<Int64.max, end: answer.end ?? total)
        current.responseEnd = answer.end
        if answer.isPart, let old = pieces[worker] {
            // Other workers may have taken the end of the piece while the request was in flight.
            current.end = [old.end, answer.end].compactMap { $0 }.min()
        }
        pieces[worker] = current
        // The only worker so far keeps its share, and leaves the rest to the others.
        if answer.isPart, pieces.count == 1, workerCount > 1, let end = current.end {
            let share = max(Self.smallestPiece, (end - current.position) / Int64(workerCount))
            pieces[worker]?.end = min(end, current.position + share)
        }
    }

    /// Records the total size, after the server said that nothing is missing.
    mutating func complete(total: Int64) { self.total = total }

    /// Discards what was received. The whole content is requested next, on one connection: with several, servers behind
    /// one name that disagree about the ETag would make the download start over forever.
    mutating func startOver(_ reason: ResponseRule.Reason) {
        restarts += 1
        if reason != .changed { usesRanges = false }
        segments = 1
        done = ByteRanges()
        pieces = [:]
        total = nil
        validator = nil
        hasSeenPart = false
    }

    /// Continues with one connection, after one of several workers got the whole content instead of its part.
    mutating func useOneConnection() {
        segments = 1
        pieces = [:]
    }

    /// Whether the download has started over too often to continue.
    var hasRestartedTooOften: Bool { restarts > Self.maxRestarts }

    // MARK: Content

    /// The place of a chunk.
    struct Claim: Hashable {
        /// The offset of its first byte.
        let offset: Int64
        /// The number of its bytes to write. The others belong to another worker.
        let count: Int
        /// Whether the rest of the response is not needed.
        let isLast: Bool
    }

    /// Returns the place of a worker's next chunk; `nil` if the response is longer than the server said.
    mutating func claim(_ worker: Int, _ count: Int) -> Claim? {
        guard var piece = pieces[worker] else { return Claim(offset: 0, count: 0, isLast: true) }
        if let responseEnd = piece.responseEnd, piece.answerPosition + Int64(count) > responseEnd { return nil }
        piece.answerPosition += Int64(count)
        let wanted = min(Int64(count), max(0, piece.remaining))
        let offset = piece.position
        piece.position += wanted
        pieces[worker] = piece
        // The connection of a response that is read to its announced end can be reused.
        let isLast = piece.remaining <= 0 && piece.answerPosition != piece.responseEnd
        return Claim(offset: offset, count: Int(wanted), isLast: isLast)
    }

    /// Records that a chunk was written.
    mutating func write(_ range: Range<Int64>) { done.insert(range) }

    /// How a body ended.
    enum End: Hashable {
        /// As announced, or as far as it was needed.
        case whole
        /// Before the announced end, by this number of bytes.
        case short(missing: Int64)
    }

    /// Records the end of a worker's body.
    mutating func end(_ worker: Int) -> End {
        guard let piece = pieces[worker] else { return .whole }
        defer { pieces[worker] = nil }
        guard let end = piece.end else {
            // A body without an announced length may end before bytes that an earlier one had.
            guard piece.position >= done.upperBound else { return .short(missing: done.upperBound - piece.position) }
            total = piece.position
            return .whole
        }
        if piece.position >= end { return .whole }
        return .short(missing: end - piece.position)
    }

    /// Stops a worker. Others may take what it has not fetched.
    mutating func release(_ worker: Int) { pieces[worker] = nil }

    /// Stops all workers.
    mutating func releaseAll() { pieces = [:] }

    /// Whether a worker other than this one is active.
    func hasOthers(than worker: Int) -> Bool { pieces.keys.contains { $0 != worker } }
}
