internal import FoundationEssentials
internal import Platform
internal import ResponseCache
internal import Synchronization

/// What a process learns from the others: changed entries, ended leases, and removals by prefix or time.
final class FleetCacheHub: Sendable {
    /// The removals that no generation covers, in one epoch.
    private struct Rules {
        var epoch = ""
        var rules: [Int: CacheSelection] = [:]
        /// All removals up to this number are known.
        var known = 0
    }

    let feeds = CacheInvalidations.Group()
    /// The name of this object in its messages.
    let sender = (0..<8).map { _ in UInt8.random(in: 0...255) }
    private let coding: FleetCacheCoding
    private let received: FleetCounter
    private let waiters = Mutex<[String: [ObjectIdentifier: Waiter<Bool>]]>([:])
    private let rules = Mutex(Rules())
    let limits = TimeLimits()

    init(_ coding: FleetCacheCoding, _ counters: FleetCounters) {
        self.coding = coding
        received = counters.counter("cache.invalidations.received")
    }

    /// Takes a message, on the engine's thread.
    func receive(_ message: RedisMessage) {
        switch message {
        case .interrupted: break
        case .subscribed:
            // Messages that were published before may have been missed.
            feeds.send(.all)
            for key in waiters.withLock({ Array($0.keys) }) { endWaits(for: key) }
        case .message(let value):
            guard let bytes = value.data, let message = coding.message(bytes, unlessFrom: sender) else { return }
            switch message {
            case .changed(let selection):
                received.add()
                feeds.send(selection)
            case .free(let key): endWaits(for: key)
            }
        }
    }

    // MARK: Leases

    /// Begins to wait for the end of a lease. The caller does so before it asks for the lease, so that it cannot miss the end.
    ///
    /// - Returns: A waiter that ends with `true`.
    func beginWait(for key: String) -> Waiter<Bool> {
        let waiter = Waiter<Bool>()
        waiters.withLock { $0[key, default: [:]][ObjectIdentifier(waiter)] = waiter }
        return waiter
    }

    func endWait(for key: String, _ waiter: Waiter<Bool>) {
        waiters.withLock { waiters in
            waiters[key]?[ObjectIdentifier(waiter)] = nil
            if waiters[key]?.isEmpty == true { waiters[key] = nil }
        }
    }

    func endWaits(for key: String) {
        let ended = waiters.withLock { $0[key].map { Array($0.values) } ?? [] }
        for waiter in ended { waiter.end(.success(true)) }
    }

    // MARK: Removals

    /// Whether a removal with a number above `first`, up to `last`, selects an entry; `nil` when the removals must be fetched
    /// first.
    func isRemoved(_ entry: CacheEntry, epoch: String, after first: Int, upTo last: Int) -> Bool? {
        guard last > first else { return false }
        return rules.withLock { rules in
            guard rules.epoch == epoch, rules.known >= last else { return nil }
            return rules.rules.contains { $0.key > first && $0.key <= last && $0.value.selects(entry) }
        }
    }

    /// Takes the fields of the key with the removals.
    func take(_ fields: [RedisValue]) {
        var new = Rules()
        for index in stride(from: 0, to: fields.count - 1, by: 2) {
            guard let name = fields[index].text else { continue }
            switch name {
            case "e": new.epoch = fields[index + 1].text ?? ""
            case "n": new.known = fields[index + 1].integer.map { Int($0) } ?? 0
            default:
                // A removal that cannot be read may select everything.
                guard let number = Int(name) else { continue }
                new.rules[number] = fields[index + 1].data.flatMap { coding.selection(Array($0)) } ?? .all
            }
        }
        rules.withLock { [new] rules in
            if rules.epoch != new.epoch || rules.known < new.known { rules = new }
        }
    }
}
