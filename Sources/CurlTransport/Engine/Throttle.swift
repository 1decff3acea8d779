import CLibcurl
import HTTPCore
import Platform

/// The bytes that all transfers of an engine may move together in one direction: a bucket that fills with the rate and may
/// be overdrawn by one piece, which the next ones then wait for. A value: it is told the time.
struct ByteBudget {
    /// In bytes per second.
    let rate: Int64
    private var tokens: Double
    private var filledAt: MonotonicTime

    /// What a pause may save up, in seconds' worth of bytes.
    private static let burst = 0.1

    init(rate: Int64, _ now: MonotonicTime) {
        self.rate = rate
        tokens = Double(rate) * Self.burst
        filledAt = now
    }

    /// Whether another piece may be moved now.
    mutating func allows(_ now: MonotonicTime) -> Bool {
        fill(now)
        return tokens > 0
    }

    /// A piece was moved.
    mutating func spend(_ bytes: Int) { tokens -= Double(bytes) }

    /// When another piece may be moved.
    mutating func next(_ now: MonotonicTime) -> MonotonicTime {
        fill(now)
        guard tokens <= 0 else { return now }
        // Rounded up, and never more than a day: the clock counts in 64 bits.
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

/// Keeps the transfers of an engine within its limits and their own, and knows who waits. Of the engine's thread.
///
/// libcurl's `CURLOPT_MAX_RECV_SPEED_LARGE` is for one transfer, and lets a hundred buffers pass at once in 7.88.
struct Throttle {
    private var receiving: ByteBudget?
    private var sending: ByteBudget?
    /// Those that wait for the bytes of all, in order.
    private var receivers: [Transfer] = []
    private var senders: [Transfer] = []
    /// Those that wait for their own.
    private var slow: [Transfer] = []
    /// When somebody may go on.
    private(set) var due = MonotonicTime.distantFuture

    init(_ configuration: EngineConfiguration, _ now: MonotonicTime) {
        receiving = configuration.maxReceiveRate.map { ByteBudget(rate: $0, now) }
        sending = configuration.maxSendRate.map { ByteBudget(rate: $0, now) }
    }

    /// Whether a transfer may take the bytes that came. When not it waits, and is let go on in its turn.
    mutating func allows(receiving bytes: Int, _ transfer: Transfer, _ now: MonotonicTime) -> Bool {
        if transfer.receiveBudget?.allows(now) == false { return hold(transfer, transfer.receiveBudget?.next(now)) }
        guard Self.allows(bytes, transfer, now, &receiving, &receivers, &due) else { return false }
        transfer.receiveBudget?.spend(bytes)
        return true
    }

    /// Whether a transfer may send. When not it waits, and is let go on in its turn.
    mutating func allowsSending(_ transfer: Transfer, _ now: MonotonicTime) -> Bool {
        if transfer.sendBudget?.allows(now) == false { return hold(transfer, transfer.sendBudget?.next(now)) }
        return Self.allows(0, transfer, now, &sending, &senders, &due)
    }

    /// How much a transfer may send at once: what a tenth of a second allows.
    func piece(_ transfer: Transfer) -> Int {
        Int(clamping: max(1, min(transfer.sendBudget?.rate ?? .max, sending?.rate ?? .max) / 10))
    }

    mutating func sent(_ bytes: Int, _ transfer: Transfer) {
        sending?.spend(bytes)
        transfer.sendBudget?.spend(bytes)
    }

    private mutating func hold(_ transfer: Transfer, _ time: MonotonicTime?) -> Bool {
        if !transfer.isThrottled {
            transfer.isThrottled = true
            slow.append(transfer)
        }
        due = min(due, time ?? .distantFuture)
        return false
    }

    private static func allows(
        _ bytes: Int, _ transfer: Transfer, _ now: MonotonicTime, _ budget: inout ByteBudget?,
        _ waiting: inout [Transfer], _ due: inout MonotonicTime
    ) -> Bool {
        guard budget != nil else { return true }
        if budget?.allows(now) == true {
            budget?.spend(bytes)
            return true
        }
        if !transfer.isThrottled {
            transfer.isThrottled = true
            waiting.append(transfer)
        }
        due = min(due, budget?.next(now) ?? .distantFuture)
        return false
    }

    /// The next of those that wait, when there are bytes for it.
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
    /// A transfer begins that has rates of its own.
    func limit(_ transfer: Transfer) {
        transfer.receiveBudget = transfer.plan.maxReceiveRate.map { ByteBudget(rate: $0, now) }
        transfer.sendBudget = transfer.plan.maxSendRate.map { ByteBudget(rate: $0, now) }
        if throttle == nil { throttle = Throttle(configuration, now) }
    }

    /// Lets those go on that waited for the engine's rate, one after the other, as far as the bytes reach.
    func resumeThrottled() {
        while let transfer = throttle?.next(now) {
            transfer.isThrottled = false
            transfer.machine.goesOn(now)
            // What libcurl kept is handed over in here.
            apply(transfer.machine.pause, to: transfer)
        }
    }
}
