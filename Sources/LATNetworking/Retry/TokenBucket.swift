/// Lets so many through per second, and a burst of them at once. A pure value: the time is given to it.
struct TokenBucket: Sendable {
    let perSecond: Double
    let capacity: Double
    private var tokens: Double
    private var filledAt: Duration

    /// Starts full.
    init(perSecond: Double, capacity: Double, at now: Duration) {
        self.perSecond = max(0, perSecond)
        self.capacity = max(1, capacity)
        tokens = self.capacity
        filledAt = now
    }

    /// Whether one may pass now; takes its token then.
    mutating func take(at now: Duration) -> Bool {
        fill(until: now)
        guard tokens >= 1 else { return false }
        tokens -= 1
        return true
    }

    /// Puts back what was taken and not used.
    mutating func giveBack() { tokens = min(capacity, tokens + 1) }

    /// How long until one may pass; zero when one may, `nil` when none ever will.
    mutating func wait(at now: Duration) -> Duration? {
        fill(until: now)
        guard tokens < 1 else { return .zero }
        guard perSecond > 0 else { return nil }
        // Rounded up, so that at the end of the wait there is one.
        return .nanoseconds(Int64(((1 - tokens) / perSecond * 1e9).rounded(.up)) + 1)
    }

    /// Whether nothing was taken that has not come back.
    mutating func isFull(at now: Duration) -> Bool {
        fill(until: now)
        return tokens >= capacity
    }

    /// Puts in a share of a token.
    mutating func deposit(_ share: Double, at now: Duration) {
        fill(until: now)
        tokens = min(capacity, tokens + share)
    }

    /// A clock that was turned back gives nothing and takes nothing.
    private mutating func fill(until now: Duration) {
        guard now > filledAt else { return }
        tokens = min(capacity, tokens + (now - filledAt).fractionalSeconds * perSecond)
        filledAt = now
    }
}

extension Duration {
    var fractionalSeconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }
}
