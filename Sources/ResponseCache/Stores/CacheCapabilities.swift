package import HTTPCore
import Synchronization

/// A store that lists what it holds: memory and disk can, a store on another machine need not.
public protocol CacheInspecting: CacheStore {
    /// The entries that are selected, without an order and without bodies; for reports and tools.
    func entries(_ selection: CacheSelection) async throws -> [CacheEntry]

    /// How much is stored.
    func usage() async throws -> CacheUsage
}

/// A store that others change too, and that tells what they changed: other processes, other machines, or other objects
/// in this process on the same storage.
public protocol CacheInvalidating: CacheStore {
    /// What others change from now on. Each call begins a feed of its own.
    func invalidations() -> CacheInvalidations
}

/// A store that several processes share, and that lets one of them fetch what all of them miss.
///
/// A manager asks for the lease of a key before it fetches an answer that may be stored. While somebody else has it, the
/// manager waits for that answer, as long as it would wait for a look-up, and then fetches it itself. A lease gives the
/// right to fetch, and nothing depends on it but the number of requests.
public protocol CacheLeasing: CacheStore {
    /// Asks for the lease of a key. It answers at once. A store that holds nothing yet may give one to several.
    ///
    /// - Parameters:
    ///   - name: what is to be fetched: a primary key, with more behind it where answers differ by their sender.
    ///   - duration: how long it lasts at most, where the store cannot tell that its holder is lost.
    /// - Returns: `nil` while somebody else has it.
    func lease(_ name: String, for duration: Duration) async throws -> CacheLease?
}

/// The right to fetch what is missing. It lasts until ``end()``, or until nobody holds this any more.
public final class CacheLease: Sendable {
    /// Rises from one lease of a name to the next, whoever has it.
    ///
    /// A store that gives a lease to somebody else after the duration of ``CacheLeasing/lease(_:for:)`` takes no answer any
    /// more that was fetched under the older one (``CacheEntry/lease``): the commit is ``CacheCommit/superseded``.
    public let number: UInt64
    private let release: Mutex<(@Sendable () -> Void)?>

    /// A lease.
    ///
    /// - Parameter release: gives it back. Called once; it must not wait.
    public init(number: UInt64, release: @escaping @Sendable () -> Void) {
        self.number = number
        self.release = Mutex(release)
    }

    deinit { end() }

    /// Gives it back: the answer is stored, or will not be.
    public func end() {
        release.withLock { release in
            defer { release = nil }
            return release
        }?()
    }
}

/// Why an operation is not to be had: the store lacks a capability.
///
/// It is the ``NetworkError/underlying`` of a ``NetworkError`` of kind ``NetworkError/Kind/cache``.
public struct CacheCapabilityMissing: Error, Hashable {
    /// The type of the store.
    public let store: String
    /// The protocol that it does not conform to.
    public let capability: String

    /// A store without a capability.
    public init(store: String, capability: String) {
        self.store = store
        self.capability = capability
    }

    /// The error that is thrown.
    package var error: NetworkError {
        NetworkError(
            .cache,
            message: "\(store) cannot do this: it does not conform to \(capability); make it, or use a store that does",
            underlying: self)
    }
}

extension CacheStore {
    /// The store as one that lists what it holds.
    ///
    /// - Throws: ``NetworkError`` with a ``CacheCapabilityMissing`` when it cannot.
    package func inspected() throws(NetworkError) -> any CacheInspecting {
        guard let inspecting else {
            throw CacheCapabilityMissing(store: "\(type(of: self))", capability: "CacheInspecting").error
        }
        return inspecting
    }
}

/// What others changed in a store, as it becomes known: each element selects entries that are no more what they were.
///
/// ```swift
/// final class RedisStore: CacheStore, CacheInvalidating {
///     private let feeds = CacheInvalidations.Group()
///     func invalidations() -> CacheInvalidations { feeds.begin() }
///     private func received(_ message: Message) { feeds.send(.primaryKey(message.key)) }
///     private func connectionIsBack() { feeds.send(.all) }              // what was missed is not known
/// }
/// ```
///
/// One task reads a feed. An element counts as dealt with when the next one is asked for; until then, ``isQuiet`` is
/// `false`. What waits is bounded: where more than 1,000 elements do, ``CacheSelection/all`` takes their place.
public final class CacheInvalidations: AsyncSequence, Sendable {
    private struct State {
        var waiting: [CacheSelection] = []
        var isFinished = false
        var reader: CheckedContinuation<CacheSelection?, Never>?
    }

    private static let limit = 1_000

    private let state = Mutex(State())
    private let isIdle = Atomic(true)
    private let look: (@Sendable () -> Bool)?

    fileprivate init(look: (@Sendable () -> Bool)?) { self.look = look }

    /// Whether all that is known to have been changed was dealt with. It takes no lock.
    public var isQuiet: Bool {
        if let look, !look() { return false }
        return isIdle.load(ordering: .acquiring)
    }

    fileprivate func send(_ selection: CacheSelection) {
        let reader = state.withLock { state -> CheckedContinuation<CacheSelection?, Never>? in
            guard !state.isFinished else { return nil }
            isIdle.store(false, ordering: .releasing)
            if let reader = state.reader {
                state.reader = nil
                return reader
            }
            if state.waiting.count < Self.limit { state.waiting.append(selection) } else { state.waiting = [.all] }
            return nil
        }
        reader?.resume(returning: selection)
    }

    /// Ends the feed: who reads it gets `nil`.
    public func finish() {
        let reader = state.withLock { state in
            state.isFinished = true
            state.waiting = []
            defer { state.reader = nil }
            return state.reader
        }
        reader?.resume(returning: nil)
    }

    private func next() async -> CacheSelection? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let ready: CacheSelection?? = state.withLock { state in
                    if state.isFinished { return .some(nil) }
                    if !state.waiting.isEmpty { return .some(state.waiting.removeFirst()) }
                    isIdle.store(true, ordering: .releasing)
                    state.reader = continuation
                    return nil
                }
                if let ready { continuation.resume(returning: ready) }
            }
        } onCancel: {
            finish()
        }
    }

    /// Reads the feed.
    public func makeAsyncIterator() -> Iterator { Iterator(feed: self) }

    /// Reads a feed.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let feed: CacheInvalidations

        /// The next change; `nil` when the feed was finished, or the task cancelled.
        public mutating func next() async -> CacheSelection? { await feed.next() }
    }

    /// The feeds that a store has begun, as long as somebody holds them.
    public final class Group: Sendable {
        private struct Weak {
            weak var feed: CacheInvalidations?
        }

        private let feeds = Mutex<[Weak]>([])

        /// None yet.
        public init() {}

        /// Begins a feed.
        ///
        /// - Parameter look: finds out what was changed, and sends it; or says `false` when it cannot know. A tier calls it
        ///   before each answer: it must cost next to nothing as long as nothing was changed. Default: `nil`, for a store
        ///   that is told.
        public func begin(look: (@Sendable () -> Bool)? = nil) -> CacheInvalidations {
            let feed = CacheInvalidations(look: look)
            feeds.withLock { feeds in
                feeds.removeAll { $0.feed == nil }
                feeds.append(Weak(feed: feed))
            }
            return feed
        }

        /// Tells all of them that somebody else has changed something.
        public func send(_ selection: CacheSelection) {
            let feeds = feeds.withLock { feeds in feeds.compactMap { $0.feed } }
            for feed in feeds { feed.send(selection) }
        }
    }
}
