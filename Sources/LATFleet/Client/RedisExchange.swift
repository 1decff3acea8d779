internal import Platform

/// Commands that are sent together, and their replies.
final class RedisExchange: @unchecked Sendable {
    // Sendable: `bytes`, `replies` and `sentAt` belong to the engine's thread from the submission on, which a lock orders.

    enum Purpose {
        case request
        /// Waits for a connection, whatever the breaker says.
        case patient
        /// Decides whether the breaker closes.
        case probe
        /// Sends a silent server a `PING`.
        case heartbeat
    }

    /// The command, for errors.
    let name: String
    let purpose: Purpose
    let budget: Duration
    let deadline: MonotonicTime
    let waiter = Waiter<[RedisValue]>()
    private(set) var bytes: [UInt8]
    private let count: Int
    private var replies: [RedisValue] = []
    private(set) var sentAt = MonotonicTime(nanoseconds: 0)

    init(
        _ name: String, _ bytes: [UInt8], count: Int, _ purpose: Purpose, budget: Duration, from now: MonotonicTime
    ) {
        self.name = name
        self.bytes = bytes
        self.count = count
        self.purpose = purpose
        self.budget = budget
        deadline = now + budget
    }

    /// Whether nobody waits any more.
    var isOver: Bool { waiter.result != nil }

    /// The bytes to send. Called once.
    func send(_ now: MonotonicTime) -> [UInt8] {
        sentAt = now
        defer { bytes = [] }
        return bytes
    }

    /// Takes a reply, and returns whether it was the last one.
    func take(_ value: RedisValue) -> Bool {
        replies.append(value)
        return replies.count == count
    }

    /// Hands the replies over. Returns `false` when nobody waits any more.
    func finish() -> Bool { waiter.end(.success(replies)) }

    /// Returns `false` when nobody waits any more.
    @discardableResult
    func fail(_ error: FleetError) -> Bool { waiter.end(.failure(error)) }
}

/// A queue of exchanges.
struct ExchangeQueue {
    private var exchanges: [RedisExchange?] = []
    private var front = 0

    var first: RedisExchange? { front < exchanges.count ? exchanges[front] : nil }

    var all: [RedisExchange] { exchanges[front...].compactMap { $0 } }

    var isEmpty: Bool { front == exchanges.count }

    mutating func append(_ exchange: RedisExchange) { exchanges.append(exchange) }

    mutating func removeFirst() {
        exchanges[front] = nil
        front += 1
        guard front > 64, front * 2 > exchanges.count else { return }
        exchanges.removeFirst(front)
        front = 0
    }

    mutating func removeAll() -> [RedisExchange] {
        defer {
            exchanges = []
            front = 0
        }
        return all
    }
}
