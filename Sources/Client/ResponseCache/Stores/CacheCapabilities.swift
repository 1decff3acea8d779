package import HTTPCore
import Platform
import Synchronization

/// A store that can list its entries. The SDK's stores in memory and on disk can; a remote one need not.
public protocol CacheInspecting: CacheStore {
    /// The selected entries, in any order and without bodies, for reports and tools.
    func entries(_ selection: CacheSelection) async throws -> [CacheEntry]

    /// How much is stored.
    func usage() async throws -> CacheUsage
}

/// A store that reports the changes of others: other processes, other machines, or other objects in this process on the
/// same storage.
public protocol CacheInvalidating: CacheStore {
    /// Begins a feed of what others change from now on.
    func invalidations() -> CacheInvalidations
}

/// A store that limits its look-ups itself, so that they run in the caller's task, not in one that a timer watches.
package protocol CacheLookUpLimiting: CacheStore {
    /// How long ``CacheStore/entries(for:)`` waits at most; `nil` when that is not known.
    var lookUpLimit: Duration? { get }
}

/// A store that several processes share and that lets one of them fetch what all of them miss.
///
/// A manager requests a lease before it fetches a response that may be stored. While another process holds the lease, the
/// manager waits for that response, at most as long as for a look-up unless the store sets another limit, and then fetches it
/// itself. Leases only save requests; correctness does not depend on them.
public protocol CacheLeasing: CacheStore {
    /// Requests a lease, without waiting. A store that is still empty may give the same lease to several callers.
    ///
    /// - Parameters:
    ///   - name: The name of the lease: a primary key, followed by more if responses differ by sender.
    ///   - duration: How long the lease lasts at most, if the store cannot detect that its holder is gone.
    /// - Returns: `nil` while another caller holds the lease.
    func lease(_ name: String, for duration: Duration) async throws -> CacheLease?
}

/// The right to fetch a missing response. It lasts until ``end()`` or until this object is released.
public final class CacheLease: Sendable {
    /// A number that rises with each lease of the same name.
    ///
    /// After the duration of ``CacheLeasing/lease(_:for:)``, a store may give the lease to another caller. A commit under the
    /// older lease (``CacheEntry/lease``) is then ``CacheCommit/superseded``.
    public let number: UInt64
    /// The name under which the store knows the lease at a commit.
    package let name: String
    private let release: HeldClosure<@Sendable (_ isPassed: Bool) -> Void>

    /// Creates a lease.
    ///
    /// - Parameters:
    ///   - number: Greater than those of all earlier leases of the same name.
    ///   - release: Gives the lease back. It is called once and must not wait.
    public convenience init(number: UInt64, release: @escaping @Sendable () -> Void) {
        self.init(number: number, name: "") { _ in release() }
    }

    /// Creates a lease for a store that can remember that responses of this name cannot be stored, so that nobody waits for
    /// them. The argument of `release` is whether the response cannot be stored.
    package init(number: UInt64, name: String, release: @escaping @Sendable (_ isPassed: Bool) -> Void) {
        self.number = number
        self.name = name
        self.release = HeldClosure(release)
    }

    deinit { end() }

    /// Gives the lease back, after the response was stored or when it will not be stored.
    public func end() { end(isPassed: false) }

    /// Gives the lease back after a response that cannot be stored. If the store can tell the other callers, they do not wait
    /// for responses of this name for a while ("hit for miss").
    package func pass() { end(isPassed: true) }

    private func end(isPassed: Bool) { release.take()?(isPassed) }
}

/// The `NetworkError.underlying` error of a change that a store could not make because its server cannot be reached or refuses
/// changes. The store reports that itself, once, so that a manager does not repeat it.
package struct CacheServerUnavailable: Error, Hashable {
    package init() {}
}

/// The error of an operation that needs a capability that the store lacks.
///
/// It is the `NetworkError.underlying` error of a `NetworkError` of kind `NetworkError.Kind.cache`.
public struct CacheCapabilityMissing: Error, Hashable {
    /// The type of the store.
    public let store: String
    /// The protocol that it does not conform to.
    public let capability: String

    /// Creates an error for a store without a capability.
    public init(store: String, capability: String) {
        self.store = store
        self.capability = capability
    }

    package var error: NetworkError {
        NetworkError(
            .cache,
            message: "\(store) cannot do this: it does not conform to \(capability); conform, or use a store that does",
            underlying: self)
    }
}

extension CacheStore {
    /// The store as a ``CacheInspecting``. Throws `NetworkError` with a ``CacheCapabilityMissing`` if it does not conform.
    package func inspected() throws(NetworkError) -> any CacheInspecting {
        guard let inspecting else {
            throw CacheCapabilityMissing(store: "\(type(of: self))", capability: "CacheInspecting").error
        }
        return inspecting
    }
}

/// A feed of what others change in a store: each element selects entries that were changed or removed.
///
/// ```swift
/// let feeds = CacheInvalidations.Group()          // a property of the store
/// let feed = feeds.begin()                        // what its invalidations() returns
/// feeds.send(.primaryKey("c0ffee"))               // when another process changed this entry
/// feeds.send(.all)                                // when the connection is back, and the missed changes are unknown
/// ```
///
/// One task reads a feed. An element counts as handled when the reader asks for the next one; until then, ``isQuiet`` is
/// `false`. When more than 1,000 elements wait, ``CacheSelection/all`` replaces them.
public final class CacheInvalidations: AsyncSequence, Sendable {
    private struct State {
        var waiting: [CacheSelection] = []
        var isFinished = false
        var reader: CheckedContinuation<CacheSelection?, Never>?
    }

    private static let limit = 1_000

    private let state = Mutex(State())
    private let isIdle = Atomic(true)
    private let check: (@Sendable () -> Bool)?

    fileprivate init(check: (@Sendable () -> Bool)?) { self.check = check }

    /// Whether all known changes are handled. It takes no lock, unless the `look` closure of the feed does.
    public var isQuiet: Bool {
        if let check, !check() { return false }
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

    /// Ends the feed. Its reader gets `nil`.
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

    /// Creates an iterator over the feed.
    public func makeAsyncIterator() -> Iterator { Iterator(feed: self) }

    /// The iterator of a feed.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let feed: CacheInvalidations

        /// The next change; `nil` when the feed was finished or the task was cancelled.
        public mutating func next() async -> CacheSelection? { await feed.next() }
    }

    /// The feeds of a store, held weakly.
    public final class Group: Sendable {
        private let feeds = Mutex(WeakList<CacheInvalidations>())

        /// Creates a group without feeds.
        public init() {}

        /// Begins a feed.
        ///
        /// - Parameter look: Checks for changes and sends them to the feed, or returns `false` when it cannot tell. A
        ///   ``TieredStore`` calls it at each look-up, so it must be cheap while nothing changes. Default: `nil`, for a store
        ///   that is notified of changes.
        public func begin(look: (@Sendable () -> Bool)? = nil) -> CacheInvalidations {
            let feed = CacheInvalidations(check: look)
            feeds.withLock { $0.add(feed) }
            return feed
        }

        /// Sends a change by others to all feeds.
        public func send(_ selection: CacheSelection) {
            for feed in feeds.withLock(\.objects) { feed.send(selection) }
        }
    }
}
