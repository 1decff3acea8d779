import HTTPCore
import LATClient
import ResponseCache

/// Plans one download: which bytes have been received, which worker fetches which, and what comes next. A pure state
/// machine that neither sends nor writes.
///
/// Workers are numbers. Each takes a piece, requests it, claims the place of every chunk before writing it, and reports
/// when it is written. A worker without work takes half of the largest remaining piece. A response that extends beyond its
/// piece is read on, as long as nobody receives what follows: the server may refuse any other connection.
struct DownloadPlan: Sendable {
    /// What a session that gets anywhere changes.
    struct Standing: Equatable {
        var received: Int64
        var total: Int64?
        var restarts: Int
    }

    /// The smallest piece that a worker takes, unless a gap is smaller.
    static let smallestPiece: Int64 = 512 << 10
    static let maxRestarts = 3

    private(set) var segments: Int
    /// Whether parts may be requested: only with GET, and not after the server has sent a wrong part or refused a range.
    private(set) var usesRanges: Bool
    /// The validator of the version that is being fetched.
    private(set) var validator: ContentValidator?
    /// The content coding of that version; `nil` for none.
    private(set) var coding: String?
    /// The size of the whole content; `nil` while unknown.
    private(set) var total: Int64?
    private(set) var done = ByteRanges()
    /// The number of times that the download had to start over.
    private(set) var restarts = 0
    var standing: Standing { Standing(received: done.count, total: total, restarts: restarts) }
    private var pieces: [Int: Piece] = [:]
    /// Whether the last response with content was a 206, which makes several connections useful.
    private var hasSeenPart = false
    private var hasDenied = false
    /// The workers that have not left.
    private var active: Set<Int> = []
    /// Whether several workers were active at the same time.
    private(set) var hasHadSeveral = false
    /// How often in a row the last worker was refused.
    private var refusals = 0

    private struct Piece {
        let start: Int64
        var position: Int64
        /// The offset after the piece; reduced when another worker takes a part of it. `nil` while unknown.
        var end: Int64?
        /// The offset at which the server's response ends, which may be after the end of the piece.
        var responseEnd: Int64?
        /// The offset up to which the response has been received.
        var answerPosition: Int64
        /// Whether the worker has the response.
        var isOpen = false

        /// While the end is unknown, the piece extends over everything.
        var range: Range<Int64> { start..<max(start, end ?? .max) }
        var remaining: Int64 { (end ?? .max) - position }
    }

    init(segments: Int, usesRanges: Bool) {
        self.segments = usesRanges ? max(1, segments) : 1
        self.usesRanges = usesRanges
    }

    mutating func resume(from journal: DownloadJournal) {
        guard usesRanges, let validator = journal.validator else { return }
        self.validator = validator
        coding = journal.coding
        total = journal.total
        done = journal.done
    }

    var isComplete: Bool { total.map { done.count == $0 } ?? false }

    /// Whether the written bytes can be completed later by requesting the rest.
    var isResumable: Bool { usesRanges && !hasDenied && validator != nil }

    var workerCount: Int {
        guard segments > 1, isResumable, hasSeenPart, let total else { return 1 }
        return Int(max(1, min(Int64(segments), (total - done.count) / Self.smallestPiece)))
    }

    /// Discards what was received from an offset on.
    mutating func drop(from end: Int64) { done = ByteRanges(done.ranges.map { $0.clamped(to: 0..<end) }) }

    // MARK: Requests

    /// Takes a piece for a worker. Returns `false` when nothing is left for it, so that it leaves.
    mutating func take(_ worker: Int) -> Bool {
        pieces[worker] = nil
        guard takePiece(worker) else {
            active.remove(worker)
            return false
        }
        active.insert(worker)
        if active.count > 1 { hasHadSeveral = true }
        return true
    }

    private mutating func takePiece(_ worker: Int) -> Bool {
        guard let total else {
            guard pieces.isEmpty else { return false }
            pieces[worker] = piece(from: done.firstMissing, end: nil)
            return true
        }
        let taken = done.union(pieces.values.map(\.range))
        let gaps = taken.gaps(upTo: total)
        guard let gap = gaps.first else { return takeHalf(worker) }
        let idle = Int64(max(1, workerCount - pieces.count))
        let free = gaps.reduce(0) { $0 + Int64($1.count) }
        let share = max(Self.smallestPiece, (free - 1) / idle + 1)
        let end = min(gap.upperBound, gap.lowerBound + share)
        pieces[worker] = piece(from: gap.lowerBound, end: end)
        return true
    }

    private mutating func takeHalf(_ worker: Int) -> Bool {
        guard workerCount > 1,
            let victim = pieces.max(by: { $0.value.remaining < $1.value.remaining }), let end = victim.value.end,
            victim.value.remaining >= 2 * Self.smallestPiece
        else { return false }
        let middle = victim.value.position + victim.value.remaining / 2
        pieces[victim.key]?.end = middle
        pieces[worker] = piece(from: middle, end: end)
        return true
    }

    private func piece(from start: Int64, end: Int64?) -> Piece {
        Piece(start: start, position: start, end: end, answerPosition: start)
    }

    /// The next request of a worker for the rest of its piece, or for the next piece if another worker has read on into its own
    /// meanwhile. Returns `nil` when nothing is left for it, so that it leaves.
    mutating func ask(_ worker: Int) -> ContentRequest? {
        guard pieces[worker] != nil || take(worker), let piece = pieces[worker] else { return nil }
        guard usesRanges, !hasDenied else { return .whole }
        guard let validator, done.count > 0 || hasSeenPart else { return segments > 1 ? .probe : .whole }
        let end = piece.end.flatMap { end in end == total ? nil : end }
        return .part(from: piece.position, end: end, validator)
    }

    // MARK: Responses

    /// Judges a response. What an accepted part says about its version is known from then on, so that the next part is
    /// compared with it.
    mutating func judge(status: Int, headers: HTTPHeaders, to ask: ContentRequest) -> ResponseRule.Verdict {
        var ask = ask
        if case .part(let start, let end, _) = ask, let validator { ask = .part(from: start, end: end, validator) }
        let isContiguous = done.ranges.count <= 1 && done.count == done.firstMissing
        let verdict = ResponseRule.judge(
            status: status, headers: headers, to: ask,
            .init(
                validator: validator, coding: coding, total: total, contiguous: isContiguous ? done.count : nil,
                end: done.upperBound))
        if case .content(let answer) = verdict, answer.isPart, !answer.invalidatesReceived {
            validator = answer.validator
            total = answer.total ?? total
        }
        return verdict
    }

    mutating func begin(_ worker: Int, _ answer: ContentResponse) {
        if answer.invalidatesReceived {
            if validator != nil, done.count > 0 { restarts += 1 }
            done = ByteRanges()
            validator = usesRanges ? answer.validator : nil
            coding = answer.coding
            total = nil
        }
        refusals = 0
        hasSeenPart = answer.isPart
        hasDenied = answer.deniesRanges
        total = answer.total ?? total
        // Another worker may have read on into the piece. Then nobody needs this response.
        if answer.isPart, pieces[worker] == nil { return }
        var current = piece(from: answer.start, end: answer.end ?? total)
        current.responseEnd = answer.end
        current.isOpen = true
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

    /// Discards what was received. The whole content is requested next, on one connection. Several connections may
    /// reach servers that send different ETags, and the download would then start over again and again.
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

    var hasRestartedTooOften: Bool { restarts > Self.maxRestarts }

    // MARK: Content

    struct Claim: Hashable {
        let offset: Int64
        /// The number of bytes of the chunk to write. The others belong to another worker.
        let count: Int
        /// Whether the rest of the response is not needed.
        let isLast: Bool
    }

    /// Returns the place of a worker's next chunk; `nil` if the response is longer than the server said.
    mutating func claim(_ worker: Int, _ count: Int) -> Claim? {
        guard var piece = pieces[worker] else { return Claim(offset: 0, count: 0, isLast: true) }
        if let responseEnd = piece.responseEnd, piece.answerPosition + Int64(count) > responseEnd { return nil }
        piece.answerPosition += Int64(count)
        while piece.remaining <= Int64(count), readOn(worker, &piece) {}
        let wanted = min(Int64(count), max(0, piece.remaining))
        let offset = piece.position
        piece.position += wanted
        pieces[worker] = piece
        // The connection of a response that is read to its announced end can be reused.
        let isLast = piece.remaining <= 0 && piece.answerPosition != piece.responseEnd
        return Claim(offset: offset, count: Int(wanted), isLast: isLast)
    }

    /// Extends a piece whose response goes on, up to the next bytes that were received or that another worker receives.
    /// A piece that another worker has requested without a response yet is taken over, one at a time.
    private mutating func readOn(_ worker: Int, _ piece: inout Piece) -> Bool {
        guard let end = piece.end, var next = piece.responseEnd, end < next else { return false }
        var requested: Int?
        for (other, its) in pieces where other != worker && its.range.upperBound > end {
            if its.start > end {
                next = min(next, its.start)
            } else if its.isOpen {
                return false
            } else {
                next = min(next, its.range.upperBound)
                requested = other
            }
        }
        for range in done.ranges where range.upperBound > end {
            if range.lowerBound <= end { return false }
            next = min(next, range.lowerBound)
        }
        if let requested { pieces[requested] = nil }
        piece.end = next
        return true
    }

    mutating func write(_ range: Range<Int64>) { done.insert(range) }

    /// Records the end of a worker's body.
    ///
    /// - Returns: The number of bytes that were announced or needed and are missing.
    mutating func end(_ worker: Int) -> Int64 {
        guard let piece = pieces[worker] else { return 0 }
        defer { pieces[worker] = nil }
        // A body without an announced length must reach at least the end of the bytes received earlier.
        let missing = max(0, (piece.end ?? done.upperBound) - piece.position)
        if piece.end == nil, missing == 0 { total = piece.position }
        return missing
    }

    /// Stops a worker. Others may take what it has not fetched.
    mutating func release(_ worker: Int) { pieces[worker] = nil }

    mutating func releaseAll() {
        pieces = [:]
        active = []
    }

    /// Whether another worker has not left.
    func hasOthers(than worker: Int) -> Bool { active.contains { $0 != worker } }

    // MARK: Failures

    enum Failure: Hashable {
        /// The body broke off.
        case broken
        /// No connection, or no response through it.
        case unanswered
        /// The server, or a proxy before it, has no content now, perhaps because of a limit of connections.
        case refused
        /// Another status without content.
        case rejected
        /// Any other failure, which no other connection can make good.
        case final
    }

    enum AfterFailure: Hashable {
        /// Others do the work of this worker.
        case leave
        /// Request the rest again, as a retry of the request.
        case retry
        /// Request the rest again after this time: the server may still count the download's other connections.
        case wait(Duration)
        case fail
    }

    /// How often the last of several workers is refused in a row before the download fails.
    static let patience = 5

    /// Stops a worker after a failure, and decides what it does next. A refusal is final only if no other worker is left.
    mutating func fail(_ worker: Int, _ failure: Failure, canRetry: Bool) -> AfterFailure {
        pieces[worker] = nil
        if [.broken, .unanswered].contains(failure), canRetry, !isComplete { return .retry }
        if isComplete || failure != .final && hasOthers(than: worker) {
            active.remove(worker)
            return .leave
        }
        guard [.unanswered, .refused].contains(failure), hasHadSeveral, refusals < Self.patience else { return .fail }
        refusals += 1
        return .wait(.milliseconds(50 << refusals))
    }
}
