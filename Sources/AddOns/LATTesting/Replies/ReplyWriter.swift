import Platform

/// Performs a ``ReplyPlan`` without I/O: it returns what to do next, and the caller reports what was sent and the time.
struct ReplyWriter {
    enum Action: Equatable {
        /// Send from the start of these bytes, then tell ``ReplyWriter/didSend(_:at:)`` how many the socket took.
        case send(ReplyPlan.Content)
        /// Call again at this time.
        case wait(until: MonotonicTime)
        /// Send nothing more and leave the connection open.
        case stall
        /// The reply is complete.
        case finish(ReplyPlan.Ending)
    }

    private let plan: ReplyPlan
    private var index = 0
    /// How much of the current step has been sent.
    private var offset: Int64 = 0
    private var waitEnd: MonotonicTime?
    private var nextBodyByte = MonotonicTime(nanoseconds: .min)

    init(_ plan: ReplyPlan) { self.plan = plan }

    /// The most bytes that one step offers.
    static let largestPiece: Int64 = 262_144

    mutating func next(at now: MonotonicTime) -> Action {
        while index < plan.steps.count {
            switch plan.steps[index] {
            case .send(let content, let role):
                if offset >= content.count {
                    advance()
                    continue
                }
                var limit = Self.largestPiece
                if role == .body, let rate = plan.bytesPerSecond {
                    if nextBodyByte > now { return .wait(until: nextBodyByte) }
                    limit = min(limit, Int64(max(1, rate / 20)))
                }
                return .send(content.dropFirst(offset).prefix(limit))
            case .wait(let duration):
                let end = waitEnd ?? now + duration
                waitEnd = end
                if now < end { return .wait(until: end) }
                advance()
            case .stall:
                return .stall
            }
        }
        // A throttled body waits after its last piece too.
        if nextBodyByte > now { return .wait(until: nextBodyByte) }
        return .finish(plan.ending)
    }

    mutating func didSend(_ count: Int, at now: MonotonicTime) {
        guard index < plan.steps.count, case .send(_, let role) = plan.steps[index] else { return }
        offset += Int64(count)
        if role == .body, let rate = plan.bytesPerSecond {
            let time = Duration.nanoseconds(Int64(Double(count) / Double(rate) * 1e9))
            nextBodyByte = max(now, nextBodyByte) + time
        }
    }

    private mutating func advance() {
        index += 1
        offset = 0
        waitEnd = nil
    }
}
