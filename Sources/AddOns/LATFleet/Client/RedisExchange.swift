internal import CurlTransport
internal import Platform

/// Commands that are sent together, and their replies.
final class RedisExchange: @unchecked Sendable {
    // Sendable: the caller owns it until the submission, then the engine's thread. The lock of the client's inbox, or of the
    // `DirectSender`, orders the two. While a caller sends the bytes, it holds the lock of the `ByteOutlet`.

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
    @exclusivity(unchecked) private var bytes: [UInt8]
    private let count: Int
    @exclusivity(unchecked) private var replies: [RedisValue] = []
    @exclusivity(unchecked) private(set) var sentAt = MonotonicTime(nanoseconds: 0)

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

    /// Whether nobody waits for the replies any more.
    var isOver: Bool { waiter.result != nil }

    /// The bytes that are left to send.
    func send(_ now: MonotonicTime) -> [UInt8] {
        sentAt = now
        defer { bytes = [] }
        return bytes
    }

    /// Sends the bytes from the caller's thread. The engine's thread sends those that the kernel does not take; it looks for
    /// them only after ``ByteOutlet/waitForSending()``.
    ///
    /// - Returns: As ``ByteOutlet/send(_:_:)``.
    func send(on outlet: ByteOutlet, _ begin: () -> Bool) -> Bool? {
        sentAt = .now
        return outlet.send(&bytes, begin)
    }

    /// For the engine's thread.
    var hasUnsentBytes: Bool { !bytes.isEmpty }

    /// Takes a reply, and returns whether it was the last one.
    func take(_ value: RedisValue) -> Bool {
        replies.append(value)
        return replies.count == count
    }

    /// Delivers the replies to the caller.
    func finish() { waiter.end(.success(replies)) }

    /// Returns `false` when nobody waits any more.
    @discardableResult
    func fail(_ error: FleetError) -> Bool { waiter.end(.failure(error)) }
}

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
        if isEmpty {
            exchanges.removeAll(keepingCapacity: front <= 64)
            front = 0
        }
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
