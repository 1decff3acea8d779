public import FoundationEssentials
public import HTTPCore
import Platform
public import ResponseCache
import Synchronization

/// A store of the response cache with one fault, to test how an app handles it.
///
/// ```swift
/// configuration.cacheStore = FaultyCacheStore(MemoryStore(), .slow(.seconds(5)))
/// ```
///
/// It is never `CacheInspecting`, even if the wrapped store is.
public final class FaultyCacheStore: CacheStore {
    /// The kinds of fault.
    public enum Fault: Hashable, Sendable {
        /// Each operation takes this much longer.
        case slow(Duration)
        /// Each operation throws.
        case throwing(NetworkError.Kind)
        /// One operation does or returns something wrong.
        case defective(Defect)
    }

    /// The kinds of wrong behaviour.
    public enum Defect: CaseIterable, Sendable {
        /// A writer replaces any entry, not only the version that it may replace.
        case replacement
        /// Bodies lack their last byte.
        case body
        /// A key without entries returns the entries of other keys.
        case key
        /// Tags select other entries.
        case tags
        /// A prefix removes nothing.
        case prefix
        /// Touches are ignored.
        case touch
        /// All versions are the same.
        case version
    }

    private let store: any CacheStore
    private let fault: Fault

    /// Wraps a store and adds a fault to it.
    public init(_ store: any CacheStore, _ fault: Fault) {
        self.store = store
        self.fault = fault
    }

    private func has(_ defect: Defect) -> Bool { fault == .defective(defect) }

    private func act() async throws {
        switch fault {
        case .slow(let duration): try await CallClock.continuous.sleep(duration)
        case .throwing(let kind): throw NetworkError(kind, message: "the faulty store is set to throw")
        case .defective: break
        }
    }

    /// The entries under a primary key.
    public func entries(for primaryKey: String) async throws -> [CacheEntry] {
        try await act()
        var entries = try await store.entries(for: primaryKey)
        if has(.key), entries.isEmpty { entries = try await store.inspecting?.entries(.all) ?? [] }
        for index in entries.indices {
            if has(.body) { entries[index].attachedBody = entries[index].attachedBody.map { Data($0.dropLast()) } }
            if has(.version) { entries[index].version = StoredVersion(1) }
        }
        return entries
    }

    /// The body of an entry.
    public func body(of entry: CacheEntry) async throws -> ResponseBody? {
        try await act()
        let body = try await store.body(of: entry)
        guard has(.body), let body else { return body }
        return body.data.map { ResponseBody(Data($0.dropLast())) } ?? ResponseBody(TornBody(body))
    }

    /// Begins to store a response.
    public func writer(for entry: CacheEntry, replacing: CacheReplacement) async throws -> any CacheWriter {
        try await act()
        let writer = try await store.writer(for: entry, replacing: has(.replacement) ? .anything : replacing)
        return has(.version) ? SameVersionWriter(writer) : writer
    }

    /// Replaces everything of an entry but its body.
    public func update(_ entry: CacheEntry) async throws -> Bool {
        try await act()
        return try await store.update(entry)
    }

    /// Records that an entry was used.
    public func touch(_ key: CacheKey, at time: Date) async throws {
        try await act()
        if !has(.touch) { try await store.touch(key, at: time) }
    }

    /// Removes the selected entries.
    public func remove(_ selection: CacheSelection) async throws -> CacheUsage {
        try await act()
        if has(.prefix), case .urlPrefix = selection { return CacheUsage() }
        if has(.tags), case .tag(let tag) = selection { return try await store.remove(.server(tag)) }
        return try await store.remove(selection)
    }

    /// Returns when everything stored so far would survive a loss of power.
    public func flush() async throws {
        try await act()
        try await store.flush()
    }

    /// Evicts down to the limits.
    public func collectGarbage() async throws -> CacheUsage {
        try await act()
        return try await store.collectGarbage()
    }

    /// `nil`: this store cannot be inspected.
    public var inspecting: (any CacheInspecting)? { nil }
}

/// A body without its last byte.
private final class TornBody: ResponseBody.Source {
    private let body: ResponseBody
    /// The last chunk so far, held back until the next one arrives.
    private let held = Mutex(Data?.none)

    init(_ body: ResponseBody) { self.body = body }

    func next() async throws -> Data? {
        var iterator = body.makeAsyncIterator()
        while let chunk = try await iterator.next() {
            let last = held.withLock { held in
                defer { held = chunk }
                return held
            }
            if let last { return last }
        }
        let last = held.withLock { $0.take() }?.dropLast() ?? Data()
        return last.isEmpty ? nil : Data(last)
    }
}

private final class SameVersionWriter: CacheWriter {
    private let writer: any CacheWriter

    init(_ writer: any CacheWriter) { self.writer = writer }

    func append(_ data: Data) async throws { try await writer.append(data) }

    func commit() async throws -> CacheCommit {
        guard case .stored(var entry, let count) = try await writer.commit() else { return .superseded }
        entry.version = StoredVersion(1)
        return .stored(entry, variantCount: count)
    }

    func discard() async { await writer.discard() }
}
