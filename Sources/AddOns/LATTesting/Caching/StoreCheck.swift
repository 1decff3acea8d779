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
