public import FoundationEssentials
public import HTTPCore
import Platform

/// The app's own values, stored under names beside the cached responses.
///
/// ```swift
/// try await manager.values.set(profile, for: "profile")
/// try await manager.values.set(data, for: "token", expiresAfter: .seconds(3_600))
/// let stored = try await manager.values.get(Profile.self, for: "profile")        // nil when there is none
/// ```
///
/// Values are `Codable` and stored as JSON, or `Data` and stored unchanged. They are in the same store as the responses,
/// share its limits and are evicted like them when they are least recently used. Data that must not be lost belongs in a
/// database. Removing responses (`manager.cache.removeAll()` and others) removes no values, and ``removeAll()`` removes no
/// responses. The cache's partition and version do not apply to values.
///
/// **Expired** values count as absent. A value expires exactly at its expiry. Setting the clock back does not make it valid
/// again once it was found expired. A value with an expiry also counts as expired while the time at which it was stored
/// lies in the future, and is valid once that time has come.
///
/// A value that does not fit the requested type is an error (`NetworkError.Kind.decoding`) and stays stored, since
/// another version of the program may read it. A damaged value counts as absent.
///
/// All methods may be called from any task. When a name is set concurrently, the value that is stored last stays. All
/// throw `NetworkError.Kind.cache` when the store fails, and `NetworkError.Kind.cancelled` when the task is cancelled.
public struct ValueStore: Sendable {
    private let store: @Sendable () throws -> any CacheStore
    private let now: @Sendable () -> Date

    /// The values in a store. Each method calls `store` for it.
    package init(now: @escaping @Sendable () -> Date, in store: @escaping @Sendable () throws -> any CacheStore) {
        self.store = store
        self.now = now
    }

    // MARK: Setting

    /// Stores a value and replaces any earlier one. Once this returns, the value outlives the process if the store
    /// does.
    ///
    /// - Parameters:
    ///   - value: The value. `Data` is stored unchanged, any other type as JSON.
    ///   - key: Its name, any text that is not empty.
    ///   - duration: How long the value is valid. Default: `nil`, forever.
    /// - Throws: Kind `invalidRequest` for an empty name, or for a value that cannot be encoded, with the `EncodingError`
    ///   as `NetworkError.underlying`; kind `cache` when the store fails or has no room.
    public func set(
        _ value: some Encodable & Sendable, for key: String, expiresAfter duration: Duration? = nil
    ) async throws(NetworkError) {
        try await write(value, key, expiry: duration.map { now().addingTimeInterval($0.inSeconds) })
    }

    /// Stores a value that expires at a time; see ``set(_:for:expiresAfter:)``.
    public func set(
        _ value: some Encodable & Sendable, for key: String, expiresAt time: Date
    ) async throws(NetworkError) {
        // An entry's times are finite.
        try await write(value, key, expiry: time.timeIntervalSinceReferenceDate == .infinity ? nil : time)
    }

    private func write(
        _ value: some Encodable & Sendable, _ key: String, expiry: Date?
    ) async throws(NetworkError) {
        let isData = value is Data
        let bytes: Data
        do {
            bytes = try value as? Data ?? JSONEncoder().encode(value)
        } catch {
            throw NetworkError(
                .invalidRequest, message: "the value for \"\(key)\" cannot be encoded: \(error)", underlying: error)
        }
        let time = now()
        var entry = CacheEntry(
            key: try Self.cacheKey(of: key), method: StoredValue.method, url: StoredValue.scheme + key, status: 200,
            headers: ["Content-Type": isData ? "application/octet-stream" : "application/json"], requestTime: time,
            responseTime: time)
        if let expiry { entry.headers[StoredValue.expiryField] = "\(expiry.timeIntervalSinceReferenceDate)" }
        entry.retainUntil = expiry
        try await attempt { [entry] in try await $0.put(entry, bytes, replacing: .anything) }
    }

    // MARK: Getting

    /// The value under a name; `nil` when there is none or it has expired.
    ///
    /// For the type `Data` it is the stored bytes, even if the value was set as another type.
    ///
    /// - Throws: Kind `decoding`, with the path of the mismatch, for a value that does not fit the type; kind `cache` when
    ///   the store fails.
    public func get<Value: Decodable & Sendable>(
        _ type: Value.Type = Value.self, for key: String
    ) async throws(NetworkError) -> Value? {
        guard let body = try await body(key) else { return nil }
        if let data = body as? Value { return data }
        do {
            return try JSONDecoder().decode(type, from: body)
        } catch {
            let place = DecodingPath(error)
            throw NetworkError(
                .decoding(path: place.path),
                message: "the value for \"\(key)\" is not \(type)\(place.path.isEmpty ? "" : " at \(place.path)"): "
                    + "\(place.reason); remove it or get it as the type it was set as", underlying: error)
        }
    }

    /// Whether a name has a value that has not expired.
    public func contains(_ key: String) async throws(NetworkError) -> Bool { try await entry(key) != nil }

    /// When the value under a name expires; `nil` when it does not expire or there is none.
    public func expiry(of key: String) async throws(NetworkError) -> Date? {
        try await entry(key).flatMap(StoredValue.expiry)
    }

    /// The names of all values that have not expired, sorted.
    public func keys() async throws(NetworkError) -> [String] {
        try await all().filter { StoredValue.isAlive($0, at: now()) }
            .map { String($0.url.dropFirst(StoredValue.scheme.count)) }.sorted()
    }

    /// How much all values take, including expired ones that are still stored.
    public func usage() async throws(NetworkError) -> CacheUsage {
        try await all().reduce(into: CacheUsage()) { usage, entry in
            usage.entryCount += 1
            usage.byteCount += entry.byteCount
        }
    }

    private func body(_ key: String) async throws(NetworkError) -> Data? {
        // A missing body means that the value was replaced since the look-up, which is then repeated.
        for _ in 0..<100 {
            guard let entry = try await entry(key) else { return nil }
            let body: Data? = try await attempt { store in
                var body = entry.attachedBody.map { ResponseBody($0) }
                if body == nil { body = try await store.body(of: entry) }
                guard let body else { return nil }
                try await store.touch(entry.key, at: now())
                return try await body.collect(upTo: .max)
            }
            if let body { return body }
        }
        return nil
    }

    /// The entry under a name; `nil` when it has expired, which this also marks in the store.
    private func entry(_ key: String) async throws(NetworkError) -> CacheEntry? {
        let cacheKey = try Self.cacheKey(of: key)
        let time = now()
        return try await attempt { store in
            guard let entry = try await store.entries(for: cacheKey.primary).first else { return nil }
            if StoredValue.isAlive(entry, at: time) { return entry }
            // A value whose time lies in the future stays, since it may come from a machine whose clock is ahead.
            if !entry.isExpired, let expiry = StoredValue.expiry(of: entry), expiry <= time {
                var expired = entry
                expired.isExpired = true
                try await store.update(expired)
            }
            return nil
        }
    }

    private func all() async throws(NetworkError) -> [CacheEntry] {
        try await attempt { try await $0.inspected().entries(.values) }
    }

    // MARK: Removing

    /// Removes the value under a name, if there is one.
    public func remove(_ key: String) async throws(NetworkError) {
        let cacheKey = try Self.cacheKey(of: key)
        _ = try await attempt { try await $0.remove(.key(cacheKey)) }
    }

    /// Removes all values, but no responses, and returns how much was removed.
    @discardableResult
    public func removeAll() async throws(NetworkError) -> CacheUsage {
        try await attempt { try await $0.remove(.values) }
    }

    // MARK: The store

    private static func cacheKey(of key: String) throws(NetworkError) -> CacheKey {
        guard !key.isEmpty else {
            throw NetworkError(.invalidRequest, message: "the name of a value must have at least one character")
        }
        var digest = KeyDigest()
        digest.add("value", key)
        guard let primary = digest.text else {
            throw NetworkError(
                .cache, message: "values need SHA-256, which libcrypto lacks; install a libcrypto that has it")
        }
        return CacheKey(primary: primary)
    }

    private func attempt<Result: Sendable>(
        _ work: (any CacheStore) async throws -> Result
    ) async throws(NetworkError) -> Result {
        do {
            return try await work(try store())
        } catch let error as NetworkError {
            throw error
        } catch let error as CancellationError {
            throw NetworkError(.cancelled, message: "the task was cancelled", underlying: error)
        } catch {
            throw NetworkError(.cache, message: "the store of values failed: \(error)", underlying: error)
        }
    }
}

/// The form of values as entries of a store.
enum StoredValue {
    /// The scheme of their URLs; the URLs of responses begin with `http`.
    static let scheme = "value:"
    static let method = "VALUE"
    static let expiryField = ":expires"

    static func expiry(of entry: CacheEntry) -> Date? {
        entry.headers[expiryField].flatMap(Double.init).map { Date(timeIntervalSinceReferenceDate: $0) }
    }

    static func isAlive(_ entry: CacheEntry, at now: Date) -> Bool {
        guard let expiry = expiry(of: entry) else { return true }
        return !entry.isExpired && entry.responseTime <= now && now < expiry
    }
}

extension CacheSelection {
    package static let values = CacheSelection.urlPrefix(StoredValue.scheme)
    package static let responses = CacheSelection.urlPrefix("http")

    /// The selection restricted to responses; ``storedBefore(_:)`` stays unchanged.
    package var withoutValues: CacheSelection {
        switch self {
        case .all: .responses
        case .url(let text) where text.hasPrefix(StoredValue.scheme): .primaryKey("")
        case .urlPrefix(let text) where "http".hasPrefix(text): .responses
        case .urlPrefix(let text) where text.hasPrefix(StoredValue.scheme) || StoredValue.scheme.hasPrefix(text):
            .primaryKey("")
        default: self
        }
    }
}

extension CacheStore {
    /// Removes the selected responses, but none of the app's values.
    package func removeResponses(_ selection: CacheSelection) async throws -> CacheUsage {
        guard case .storedBefore = selection, let entries = try await inspecting?.entries(selection),
            entries.contains(where: \.isValue)
        else { return try await remove(selection.withoutValues) }
        var removed = CacheUsage()
        for entry in entries where !entry.isValue { removed += try await remove(.key(entry.key)) }
        return removed
    }
}

extension CacheEntry {
    /// Whether the entry is a value of a ``ValueStore`` rather than a response.
    package var isValue: Bool { url.hasPrefix(StoredValue.scheme) }
}
