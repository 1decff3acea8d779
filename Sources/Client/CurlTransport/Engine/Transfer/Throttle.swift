import CLibcurl
internal import HTTPCore
import Platform

/// A token bucket that limits the bytes in one direction, of one transfer or of a whole engine. A piece may overdraw it;
/// the next one then waits. A pure value: the caller passes the time.
struct ByteBudget {
    /// In bytes per second.
    let rate: Int64
    private var tokens: Double
    private var filledAt: MonotonicTime

    /// The capacity of the bucket, in seconds at the full rate.
    private static let burst = 0.1

    init(rate: Int64, _ now: MonotonicTime) {
        self.rate = rate
        tokens = Double(rate) * Self.burst
        filledAt = now
    }

    /// Whether another piece may move now.
    mutating func allows(_ now: MonotonicTime) -> Bool {
        fill(now)
        return tokens > 0
    }

    mutating func spend(_ bytes: Int) { tokens -= Double(bytes) }

    /// When another piece may move.
    mutating func next(_ now: MonotonicTime) -> MonotonicTime {
        fill(now)
        guard tokens <= 0 else { return now }
        // At most a day, since a longer time could overflow the clock's 64 bits.
        return now + Int64(min((1 - tokens) / Double(rate) * 1000, 86_400_000).rounded(.up))
    }

    private mutating func fill(_ now: MonotonicTime) {
        guard now > filledAt else { return }
        tokens = min(
            tokens + Double(now.nanoseconds - filledAt.nanoseconds) / 1e9 * Double(rate),
            max(1, Double(rate) * Self.burst))
        filledAt = now
    }
}

/// Keeps an engine and its transfers within their rates, and holds the transfers that wait. Belongs to the engine's thread.
///
/// libcurl's `CURLOPT_MAX_RECV_SPEED_LARGE` limits one transfer only, and 7.88 lets a hundred buffers pass at once.
struct Throttle {
    private var receiving: ByteBudget?
    private var sending: ByteBudget?
    /// The transfers that wait for the engine's rate, in order.
    private var receivers: [Transfer] = []
    private var senders: [Transfer] = []
    /// The transfers that wait for their own rate.
    private var slow: [Transfer] = []
    /// When the first waiting transfer may continue.
    private(set) var due = MonotonicTime.distantFuture

    init(_ configuration: EngineConfiguration, _ now: MonotonicTime) {
        receiving = configuration.maxReceiveRate.map { ByteBudget(rate: $0, now) }
        sending = configuration.maxSendRate.map { ByteBudget(rate: $0, now) }
    }

    /// Whether a transfer may take the bytes that arrived. If not, it waits and is resumed in turn.
    mutating func allowsReceiving(_ transfer: Transfer, _ now: MonotonicTime) -> Bool {
        if transfer.receiveBudget?.allows(now) == false {
            return hold(transfer, transfer.receiveBudget?.next(now), \.slow)
        }
        guard receiving?.allows(now) == false else { return true }
        return hold(transfer, receiving?.next(now), \.receivers)
    }

    mutating func received(_ bytes: Int, _ transfer: Transfer) {
        receiving?.spend(bytes)
        transfer.receiveBudget?.spend(bytes)
    }

    /// Whether a transfer may send. If not, it waits and is resumed in turn.
    mutating func allowsSending(_ transfer: Transfer, _ now: MonotonicTime) -> Bool {
        if transfer.sendBudget?.allows(now) == false { return hold(transfer, transfer.sendBudget?.next(now), \.slow) }
        guard sending?.allows(now) == false else { return true }
        return hold(transfer, sending?.next(now), \.senders)
    }

    /// How many bytes a transfer may send at once: as many as its rate and the engine's allow in a tenth of a second.
    func piece(_ transfer: Transfer) -> Int {
        Int(clamping: max(1, min(transfer.sendBudget?.rate ?? .max, sending?.rate ?? .max) / 10))
    }

    mutating func sent(_ bytes: Int, _ transfer: Transfer) {
        sending?.spend(bytes)
        transfer.sendBudget?.spend(bytes)
    }

    /// Makes a transfer wait at least until a time. Returns `false`.
    private mutating func hold(
        _ transfer: Transfer, _ time: MonotonicTime?, _ waiting: WritableKeyPath<Throttle, [Transfer]>
    ) -> Bool {
        if !transfer.isThrottled {
            transfer.isThrottled = true
            self[keyPath: waiting].append(transfer)
        }
        due = min(due, time ?? .distantFuture)
        return false
    }

    /// Removes and returns the next waiting transfer that may continue.
    mutating func next(_ now: MonotonicTime) -> Transfer? {
        due = .distantFuture
        return nextSlow(now) ?? Self.next(now, &receiving, &receivers, &due) ?? Self.next(now, &sending, &senders, &due)
    }

    private mutating func nextSlow(_ now: MonotonicTime) -> Transfer? {
        slow.removeAll { $0.machine.phase == .over }
        for (index, transfer) in slow.enumerated() {
            let time = max(transfer.receiveBudget?.next(now) ?? now, transfer.sendBudget?.next(now) ?? now)
            if time <= now { return slow.remove(at: index) }
            due = min(due, time)
        }
        return nil
    }

    private static func next(
        _ now: MonotonicTime, _ budget: inout ByteBudget?, _ waiting: inout [Transfer], _ due: inout MonotonicTime
    ) -> Transfer? {
        while let first = waiting.first, first.machine.phase == .over { waiting.removeFirst() }
        guard !waiting.isEmpty, budget != nil else { return nil }
        guard budget?.allows(now) == true else {
            due = min(due, budget?.next(now) ?? .distantFuture)
            return nil
        }
        return waiting.removeFirst()
    }
}

extension Engine {
    /// Sets up the budgets of a transfer that starts.
    func limit(_ transfer: Transfer) {
        transfer.receiveBudget = transfer.plan.maxReceiveRate.map { ByteBudget(rate: $0, now) }
        transfer.sendBudget = transfer.plan.maxSendRate.map { ByteBudget(rate: $0, now) }
        if throttle == nil { throttle = Throttle(configuration, now) }
    }

    /// Resumes the transfers that wait for a rate, one after the other, as far as their budgets allow.
    func resumeThrottled() {
        while let transfer = throttle?.next(now) {
            transfer.isThrottled = false
            transfer.machine.throttleEnded(now)
            // This call delivers the bytes that libcurl kept.
            apply(transfer.machine.pause, to: transfer)
        }
    }
}
