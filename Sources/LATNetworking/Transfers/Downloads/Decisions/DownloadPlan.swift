import HTTPCore
import ResponseCache

/// The course of one download: what is there, who fetches what, and what comes next. A pure state machine: it
/// neither sends nor writes.
///
/// Workers are numbers. Each takes a piece, asks for it, claims the place of every chunk before it is written, and says
/// when it was. A worker without anything left takes half of what the slowest has before it.
struct DownloadPlan: Sendable {
    /// A piece smaller than this is not divided.
    static let smallestPiece: Int64 = 512 << 10
    /// How often a download may start over before it is given up.
    static let mostRestarts = 3

    /// The connections wanted.
    private(set) var segments: Int
    /// Whether parts may be asked for: not with a method other than GET, and no more after a server's parts were wrong.
    private(set) var usesRanges: Bool
    /// The version that is being fetched.
    private(set) var validator: ContentValidator?
    /// The size of the whole, once it is known.
    private(set) var total: Int64?
    /// The bytes that are written.
    private(set) var done: ByteRanges
    /// How often what was there turned out to be worth nothing.
    private(set) var restarts = 0
    private var pieces: [Int: Piece] = [:]
    /// Whether a 206 has come, so that several connections make sense.
    private var hasSeenPart = false
    private var hasDenied = false

    private struct Piece {
        let start: Int64
        /// Where the next chunk goes.
        var position: Int64
        /// Where it ends; comes nearer when another worker takes some. `nil` until somebody knows.
        var end: Int64?
        /// Where the server's answer ends, whatever became of the piece.
        var answerEnd: Int64?
        /// How far the answer has come.
        var answerPosition: Int64

        /// For as long as the end is not known the piece is all there is.
        var range: Range<Int64> { start..<max(start, end ?? .max) }
        var remaining: Int64 { (end ?? .max) - position }
    }

    init(segments: Int, usesRanges: Bool) {
        self.segments = usesRanges ? max(1, segments) : 1
        self.usesRanges = usesRanges
        done = ByteRanges()
    }

    /// Goes on where a journal ends.
    mutating func resume(from journal: DownloadJournal) {
        guard usesRanges, let validator = journal.validator else { return }
        self.validator = validator
        total = journal.total
        done = journal.done
    }

    /// Whether every byte is written.
    var isComplete: Bool { total.map { done.count == $0 } ?? false }

    /// Whether what is written can be gone on with later, by a request for the rest.
    var isResumable: Bool { usesRanges && !hasDenied && validator != nil }

    /// How many workers have something to do.
    var workerCount: Int {
        guard segments > 1, isResumable, hasSeenPart, let total else { return 1 }
        return Int(max(1, min(Int64(segments), (total - done.count) / Self.smallestPiece)))
    }

    // MARK: Asking

    /// Takes a piece for a worker; `false` when nothing is left for it.
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
        let share = max(Self.smallestPiece, (free + idle - 1) / idle)
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
            start: range.lowerBound, position: range.lowerBound, end: end, answerEnd: nil,
            answerPosition: range.lowerBound)
    }

    /// What a worker asks for to fetch the rest of its piece.
    func ask(_ worker: Int) -> ContentAsk {
        guard usesRanges, !hasDenied, let piece = pieces[worker] else { return .whole }
        guard let validator, done.count > 0 || hasSeenPart else { return segments > 1 ? .probe : .whole }
        let end = piece.end.flatMap { end in end == total ? nil : end }
        return .part(from: piece.position, end: end, validator)
    }

    // MARK: Answers

    /// What an answer means for a worker's question.
    func judge(status: Int, headers: HTTPHeaders, to ask: ContentAsk) -> AnswerRule.Verdict {
        let isContiguous = done.ranges.count <= 1 && done.count == done.firstMissing
        return AnswerRule.judge(
            status: status, headers: headers, to: ask,
            .init(validator: validator, total: total, contiguous: isContiguous ? done.count : nil))
    }

    /// Takes in the head of an answer that brings content.
    mutating func begin(_ worker: Int, _ answer: ContentAnswer) {
        if answer.voidsRest {
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
        current.answerEnd = answer.end
        if answer.isPart, let old = pieces[worker] {
            // Others may have taken from the end of the piece while the answer was on its way.
            current.end = [old.end, answer.end].compactMap { $0 }.min()
        }
        pieces[worker] = current
        // Alone until now, it leaves the others their share.
        if answer.isPart, pieces.count == 1, workerCount > 1, let end = current.end {
            let share = max(Self.smallestPiece, (end - current.position) / Int64(workerCount))
            pieces[worker]?.end = min(end, current.position + share)
        }
    }

    /// The server said that what is here is all.
    mutating func complete(total: Int64) { self.total = total }

    /// All that was there is worth nothing; the next question is for the whole, and of one connection: several servers
    /// that do not agree on their tags would make it start over for ever.
    mutating func startOver(_ reason: AnswerRule.Reason) {
        restarts += 1
        if reason != .changed { usesRanges = false }
        segments = 1
        done = ByteRanges()
        pieces = [:]
        total = nil
        validator = nil
        hasSeenPart = false
    }

    /// One of several workers got the whole in place of its part: one connection goes on alone.
    mutating func goOnAlone() {
        segments = 1
        pieces = [:]
    }

    /// Whether the download has started over so often that it makes no sense to go on.
    var hasRestartedTooOften: Bool { restarts > Self.mostRestarts }

    // MARK: Content

    /// Where a chunk goes.
    struct Claim: Hashable {
        /// The place of its first byte.
        let offset: Int64
        /// How much of it is wanted; the rest belongs to somebody else.
        let count: Int
        /// Whether nothing more of this answer is wanted.
        let isLast: Bool
    }

    /// Gives the place of the next chunk of a worker's answer; `nil` when the answer is longer than the server said.
    mutating func claim(_ worker: Int, _ count: Int) -> Claim? {
        guard var piece = pieces[worker] else { return Claim(offset: 0, count: 0, isLast: true) }
        if let answerEnd = piece.answerEnd, piece.answerPosition + Int64(count) > answerEnd { return nil }
        piece.answerPosition += Int64(count)
        let wanted = min(Int64(count), max(0, piece.remaining))
        let offset = piece.position
        piece.position += wanted
        pieces[worker] = piece
        // An answer that is read to its announced end leaves its connection usable.
        let isLast = piece.remaining <= 0 && piece.answerPosition != piece.answerEnd
        return Claim(offset: offset, count: Int(wanted), isLast: isLast)
    }

    /// A chunk is in the file.
    mutating func write(_ range: Range<Int64>) { done.insert(range) }

    /// How a body ended.
    enum End: Hashable {
        /// As announced, or as far as it was wanted.
        case whole
        /// So many bytes before what was announced.
        case short(missing: Int64)
    }

    /// A worker's body has come to its end.
    mutating func end(_ worker: Int) -> End {
        guard let piece = pieces[worker] else { return .whole }
        defer { pieces[worker] = nil }
        guard let end = piece.end else {
            total = piece.position
            return .whole
        }
        if piece.position >= end { return .whole }
        return .short(missing: end - piece.position)
    }

    /// A worker stops; what it has not fetched is free for others.
    mutating func release(_ worker: Int) { pieces[worker] = nil }

    /// All workers have stopped.
    mutating func releaseAll() { pieces = [:] }

    /// Whether somebody else than a worker is at work.
    func hasOthers(than worker: Int) -> Bool { pieces.keys.contains { $0 != worker } }
}
