import HTTPCore
import Platform

/// A token bucket: a rate per second with bursts. A pure value: its methods receive the time.
struct TokenBucket: Sendable {
    /// In seconds. At a very low rate, the whole wait in nanoseconds would not fit in an `Int64`.
    private static let longestWait = 86_400.0

    let perSecond: Double
    let capacity: Double
    private var tokens: Double
    private var filledAt: Duration

    /// Creates a bucket that is full, or that has no more tokens than the one it replaces.
    init(perSecond: Double, capacity: Double, after old: TokenBucket? = nil, at now: Duration) {
        self.perSecond = max(0, perSecond)
        self.capacity = max(1, capacity)
        tokens = min(self.capacity, old?.available(at: now) ?? .infinity)
        filledAt = now
    }

    /// Takes a token if there is one. Returns whether there was.
    mutating func take(at now: Duration) -> Bool {
        fill(until: now)
        guard tokens >= 1 else { return false }
        tokens -= 1
        return true
    }

    /// Adds tokens, or a fraction of one.
    mutating func deposit(_ count: Double, at now: Duration) {
        fill(until: now)
        tokens = min(capacity, tokens + count)
    }

    /// The time until a token is available, at most a day: zero if there is one now, `nil` if there will never be one.
    func wait(at now: Duration) -> Duration? {
        let tokens = available(at: now)
        guard tokens < 1 else { return .zero }
        guard perSecond > 0 else { return nil }
        // Rounded up, so that a token is available when the wait ends.
        return .nanoseconds(Int64((min((1 - tokens) / perSecond, Self.longestWait) * 1e9).rounded(.up)) + 1)
    }

    func isFull(at now: Duration) -> Bool { available(at: now) >= capacity }

    /// The tokens at a time. A clock that was set back changes nothing.
    private func available(at now: Duration) -> Double {
        guard now > filledAt else { return tokens }
        return min(capacity, tokens + (now - filledAt).inSeconds * perSecond)
    }

    private mutating func fill(until now: Duration) {
        tokens = available(at: now)
        filledAt = max(filledAt, now)
    }
}

extension RequestLimits.RateLimit {
    /// - Parameter old: The bucket of an earlier limit, whose used tokens stay used.
    func bucket(after old: TokenBucket? = nil, at now: Duration) -> TokenBucket {
        TokenBucket(perSecond: perSecond, capacity: Double(max(1, burst)), after: old, at: now)
    }
}
