/// When an activity indicator shows and hides: counted, and without flicker. A pure state machine.
struct ActivityState: Sendable {
    enum Action: Hashable, Sendable {
        case show(tip: String?)
        case hide
    }

    struct Step: Hashable, Sendable {
        var action: Action?
        /// When to call ``tick(at:)``.
        var wakeAfter: Duration?
    }

    /// How long work goes on before it shows.
    let delay: Duration
    /// How long it shows at least.
    let minimum: Duration
    /// The tips of the work that goes on, the latest last.
    private var tips: [(id: UInt64, tip: String?)] = []
    private var shownSince: Duration?
    private var shownTip: String?
    private var busySince: Duration?

    init(delay: Duration, minimum: Duration) {
        self.delay = delay
        self.minimum = minimum
    }

    /// How many works go on.
    var count: Int { tips.count }

    /// Whether it shows.
    var isShown: Bool { shownSince != nil }

    /// A work begins.
    mutating func begin(_ id: UInt64, tip: String?, at now: Duration) -> Step {
        if tips.isEmpty, shownSince == nil { busySince = now }
        tips.append((id, tip))
        return tick(at: now)
    }

    /// A work is over; one that never began, or twice, changes nothing.
    mutating func end(_ id: UInt64, at now: Duration) -> Step {
        guard let index = tips.firstIndex(where: { $0.id == id }) else { return Step() }
        tips.remove(at: index)
        if tips.isEmpty { busySince = nil }
        return tick(at: now)
    }

    /// Some time went by.
    mutating func tick(at now: Duration) -> Step {
        if let shownSince {
            if tips.isEmpty {
                guard now >= shownSince + minimum else { return Step(wakeAfter: shownSince + minimum - now) }
                self.shownSince = nil
                return Step(action: .hide)
            }
            guard tip != shownTip else { return Step() }
            shownTip = tip
            return Step(action: .show(tip: shownTip))
        }
        guard !tips.isEmpty, let busySince else { return Step() }
        guard now >= busySince + delay else { return Step(wakeAfter: busySince + delay - now) }
        shownSince = now
        shownTip = tip
        return Step(action: .show(tip: shownTip))
    }

    /// The latest one that says something.
    private var tip: String? { tips.last { $0.tip != nil }?.tip }
}
