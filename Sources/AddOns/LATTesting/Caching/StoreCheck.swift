import FoundationEssentials
import HTTPCore
import ResponseCache
import Synchronization

/// A check of one rule of ``CacheStoreConformance``, on stores made for it.
final class StoreCheck: Sendable {
    static let start = Date(timeIntervalSinceReferenceDate: 800_000_000)
    /// A `retainUntil` in whole seconds. It is a day from now, because a store may drop entries after that time.
    static let laterEnd = Date(
        timeIntervalSinceReferenceDate: (Date().timeIntervalSinceReferenceDate + 86_400).rounded())

    let lookUpBudget: Duration
    private let rule: CacheStoreConformance.Rule
    private let make: @Sendable (Int64) async throws -> any CacheStore
    private let found = Mutex<[String]>([])

    init(
        _ rule: CacheStoreConformance.Rule, lookUpBudget: Duration,
        _ make: @escaping @Sendable (Int64) async throws -> any CacheStore
    ) {
        self.rule = rule
        self.lookUpBudget = lookUpBudget
        self.make = make
    }

    /// The faults found, at most five, since one mistake often shows many times.
    var messages: [String] { found.withLock { Array($0.prefix(5)) } }

    func run() async throws {
        switch rule {
        case .wholeEntries: try await checkWholeEntries()
        case .commit: try await checkCommit()
        case .variants: try await checkVariants()
        case .versions: try await checkVersions()
        case .replacement: try await checkReplacement()
        case .update: try await checkUpdate()
        case .touch: try await checkTouch()
        case .removal: try await checkRemoval()
        case .oddTexts: try await checkOddTexts()
        case .concurrency: try await checkConcurrency()
        case .room: try await checkRoom()
        case .refusal: try await checkRefusal()
        case .pins: try await checkPins()
        case .inspection: try await checkInspection()
        case .leases: try await checkLeases()
        case .speed: try await checkSpeed()
        }
    }

    // MARK: Helpers

    func store(_ byteLimit: Int64 = 64 << 20) async throws -> any CacheStore { try await make(byteLimit) }

    func expect(_ isRight: Bool, _ message: @autoclosure () -> String) {
        if !isRight {
            let message = message()
            found.withLock { $0.append(message) }
        }
    }

    /// Returns a value that the rest needs. Throws the message when it is missing.
    func require<Value>(_ value: Value?, _ message: @autoclosure () -> String) throws -> Value {
        guard let value else { throw Missing(message()) }
        return value
    }

    struct Missing: Error, CustomStringConvertible {
        let description: String

        init(_ description: String) { self.description = description }
    }

    static func entry(_ primary: String, variant: String = "", url: String? = nil, at time: Date = start) -> CacheEntry
    {
        CacheEntry(
            key: CacheKey(primary: primary, variant: variant), method: "GET", url: url ?? "http://h/\(primary)",
            status: 200, reason: "OK", headers: ["Content-Type": "text/plain"], requestTime: time - 1,
            responseTime: time)
    }

    static func body(_ byteCount: Int, seed: UInt8 = 0) -> Data {
        Data((0..<byteCount).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) &+ seed })
    }
}

extension CacheStore {
    /// Stores an entry with its body, in pieces.
    @discardableResult
    func put(
        _ entry: CacheEntry, _ body: Data = Data("hello".utf8), replacing: CacheReplacement = .anything,
        pieces: Int = 50_000
    ) async throws -> CacheCommit {
        let writer = try await writer(for: entry, replacing: replacing)
        var rest = body[...]
        while !rest.isEmpty {
            try await writer.append(Data(rest.prefix(pieces)))
            rest = rest.dropFirst(pieces)
        }
        return try await writer.commit()
    }

    func first(_ primary: String) async throws -> CacheEntry? { try await entries(for: primary).first }

    /// Returns the whole body of an entry; `nil` when it is missing.
    func data(of entry: CacheEntry) async throws -> Data? {
        if let body = entry.attachedBody { return body }
        return try await body(of: entry)?.collect(upTo: .max)
    }

    func data(_ primary: String) async throws -> Data? {
        guard let entry = try await first(primary) else { return nil }
        return try await data(of: entry)
    }
}

extension CacheCommit {
    var stored: CacheEntry? { if case .stored(let entry, _) = self { entry } else { nil } }
}

/// The rule on leases: one holder at a time, and no commit under a lease that has passed to another holder.
extension StoreCheck {
    func checkLeases() async throws {
        let store = try await store()
        guard let leasing = store.leasing else { return }
        // An empty store may give the same lease to several callers.
        try await store.put(Self.entry("first"))
        let first = try require(
            await leasing.lease("k", for: .seconds(60)), "a free lease is refused")
        expect(try await leasing.lease("k", for: .seconds(60)) == nil, "a lease has two holders at once")
        expect(try await leasing.lease("k2", for: .seconds(60)) != nil, "a lease blocks leases of other names")
        first.end()
        first.end()
        var second: CacheLease? = try await given("k", by: leasing)
        expect((second?.number ?? 0) > first.number, "a later lease does not have a greater number")
        second = nil
        _ = try await given("k", by: leasing)

        // If leases expire, a response under one that has passed to another holder is not stored.
        let old = try await given("short", by: leasing, for: .milliseconds(1))
        var late: CacheLease?
        for _ in 0..<10 where late == nil {
            try await Task.sleep(for: .milliseconds(10))
            late = try await leasing.lease("short", for: .seconds(60))
        }
        guard let late else { return }
        var entry = Self.entry("short")
        entry.lease = late
        expect(try await store.put(entry).stored != nil, "a response from the holder of a lease is not stored")
        entry.lease = old
        expect(
            try await store.put(entry, Data("old".utf8)).stored == nil,
            "a response is stored under a lease that has passed to another holder")
        expect(try await store.data("short") == Data("hello".utf8), "an older lease has replaced a newer response")
    }

    /// Takes a lease that nobody holds any more. Tries for five seconds, because a store may notice late that the holder
    /// has ended it.
    private func given(
        _ name: String, by store: any CacheLeasing, for duration: Duration = .seconds(60)
    ) async throws -> CacheLease {
        for _ in 0..<500 {
            if let lease = try await store.lease(name, for: duration) { return lease }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw Missing("a lease that its holder ended is refused to others")
    }
}
