/// Walks a ``ReplyPlan``: says what to do next, and is told what was sent and what time it is. No I/O.
struct ReplyWriter {
    enum Action: Equatable {
        /// Send from the start of this; call ``ReplyWriter/didSend(_:at:)`` with what was taken.
        case send(ReplyPlan.Content)
        /// Ask again at this time.
        case wait(until: Nanoseconds)
        /// Send nothing more and leave the connection open.
        case stall
        /// All is sent.
        case finish(ReplyPlan.Ending)
    }

    private let plan: ReplyPlan
    private var index = 0
    /// How much of the current step is sent.
    private var offset: Int64 = 0
    private var waitEnd: Nanoseconds?
    private var nextBodyByte = Nanoseconds.min

    init(_ plan: ReplyPlan) { self.plan = plan }

    /// The most that is offered at once.
    static let largestPiece: Int64 = 262_144

    mutating func next(at now: Nanoseconds) -> Action {
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
                let end = waitEnd ?? now.adding(duration)
                waitEnd = end
                if now < end { return .wait(until: end) }
                advance()
            case .stall:
                return .stall
            }
        }
        // The last piece of a throttled body takes its time too.
        if nextBodyByte > now { return .wait(until: nextBodyByte) }
        return .finish(plan.ending)
    }

    mutating func didSend(_ count: Int, at now: Nanoseconds) {
        guard index < plan.steps.count, case .send(_, let role) = plan.steps[index] else { return }
        offset += Int64(count)
        if role == .body, let rate = plan.bytesPerSecond {
            nextBodyByte = max(now, nextBodyByte) + Int64(Double(count) / Double(rate) * 1e9)
        }
    }

    private mutating func advance() {
        index += 1
        offset = 0
        waitEnd = nil
    }
}
