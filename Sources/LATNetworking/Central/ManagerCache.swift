import FoundationEssentials
import HTTPCore
public import ResponseCache

extension CentralRequestManager {
    /// What the manager keeps of responses: to look at, to pin, to clear.
    ///
    /// ```swift
    /// try await manager.cache.usage()                              // entries and bytes
    /// try await manager.cache.pin("https://api.example.org/cities")
    /// try await manager.cache.remove(.domain("daxiang"))
    /// try await manager.cache.removeAll(olderThan: .seconds(7 * 86_400))
    /// manager.cache.partition = user.id                            // what follows is that user's
    /// ```
    public var cache: Cache { Cache(storage: storage) { [weak self] in self } }

    /// Values of the app's own under names, beside the responses, in memory and on disk.
    ///
    /// ```swift
    /// try await manager.values.set(profile, for: "profile", expiresAfter: .seconds(3_600))
    /// let profile = try await manager.values.get(Profile.self, for: "profile")
    /// ```
    public var values: ValueStore { ValueStore(now: storage.now) { [storage] in try storage.storeOfValues() } }

    /// Values that never touch a disk and end with the manager, in a memory of their own: at most 16 MiB. Their names are
    /// others than those of ``values``.
    public var memoryValues: ValueStore { ValueStore(now: storage.now) { [storage] in storage.memoryValues } }

    /// The responses that a manager keeps.
    ///
    /// Every method that touches the store throws a ``NetworkError`` of kind ``NetworkError/Kind/cache`` when the store
    /// fails. A URL may be a path, which is joined to the manager's base URL.
    public struct Cache: Sendable {
        let storage: CacheStorage
        let manager: @Sendable () -> CentralRequestManager?

        /// The user whose responses are stored and found from the next call on; `nil` for everybody's.
        public var partition: String? {
            get { storage.partition }
            nonmutating set { storage.partition = newValue }
        }

        /// What the cache has done since the manager was made: hits, misses, what was stored, skipped and evicted.
        public var statistics: CacheStatistics { storage.statistics }

        /// How much is stored, values of ``CentralRequestManager/values`` included: they share the limits.
        public func usage() async throws -> CacheUsage { try await storage.store().inspected().usage() }

        /// The entries that are selected, without an order.
        public func entries(_ selection: CacheSelection = .all) async throws -> [CacheEntry] {
            try await storage.store().inspected().entries(canonical(selection)).filter { !$0.isValue }
        }

        /// The entries whose URLs begin so.
        public func entries(withPrefix prefix: String) async throws -> [CacheEntry] {
            try await storage.store().inspected().entries(canonical(.urlPrefix(prefix)))
        }

        /// Keeps the entries of a URL when room is made, until they are unpinned or removed.
        ///
        /// - Returns: how many there are.
        @discardableResult
        public func pin(_ url: String) async throws -> Int { try await setPinned(true, url) }

        /// Lets the entries of a URL go again when room is made.
        ///
        /// - Returns: how many there are.
        @discardableResult
        public func unpin(_ url: String) async throws -> Int { try await setPinned(false, url) }

        /// Notes that the entries of a URL were used now: sliding times to live begin anew, and room is made of others
        /// first.
        ///
        /// - Returns: how many there are.
        @discardableResult
        public func touch(_ url: String) async throws -> Int {
            let store = try await storage.store()
            let entries = try await store.inspected().entries(canonical(.url(url)))
            for entry in entries { try await store.touch(entry.key, at: storage.now()) }
            return entries.count
        }

        /// Removes the responses that are selected, pinned ones too, and says how much that was. Values stay.
        @discardableResult
        public func remove(_ selection: CacheSelection) async throws -> CacheUsage {
            let store = try await storage.store()
            guard case .storedBefore = selection, let inspecting = store.inspecting,
                try await inspecting.entries(selection).contains(where: \.isValue)
            else { return try await store.remove(canonical(selection)) }
            var removed = CacheUsage()
            for entry in try await inspecting.entries(selection) where !entry.isValue {
                removed += try await store.remove(.key(entry.key))
            }
            return removed
        }

        /// Removes all responses.
        @discardableResult
        public func removeAll() async throws -> CacheUsage { try await remove(.all) }

        /// Removes the responses that are older.
        @discardableResult
        public func removeAll(olderThan age: Duration) async throws -> CacheUsage {
            return try await remove(.storedBefore(storage.now().addingTimeInterval(-age.seconds)))
        }

        /// Makes room down to the limits and clears away what nobody refers to; says how much went.
        @discardableResult
        public func collectGarbage() async throws -> CacheUsage { try await storage.store().collectGarbage() }

        /// Returns when all that was kept would survive a loss of power. What waits to be written is written first: a
        /// process that ends without this, or without ``CentralRequestManager/shutdown()``, may lose its last answers.
        public func flush() async throws { try await storage.store().flush() }

        private func setPinned(_ isPinned: Bool, _ url: String) async throws -> Int {
            let store = try await storage.store()
            let entries = try await store.inspected().entries(canonical(.url(url)))
            for var entry in entries where entry.isPinned != isPinned {
                entry.isPinned = isPinned
                try await store.update(entry)
            }
            return entries.count
        }

        /// URLs in the form in which entries have them.
        private func canonical(_ selection: CacheSelection) -> CacheSelection {
            switch selection {
            case .url(let url): CacheSelection.url(CanonicalURL(absolute(url))?.text ?? url).withoutValues
            case .urlPrefix(let prefix): CacheSelection.urlPrefix(absolute(prefix)).withoutValues
            default: selection.withoutValues
            }
        }

        private func absolute(_ url: String) -> String { RequestBuilder.absoluteURL(url, base: manager()?.baseURL) }
    }
}

/// Where a manager keeps responses.
public enum CacheStorageKind: String, Hashable, Sendable {
    /// In the memory of the process.
    case memory
    /// There, and on disk, where they outlive it.
    case memoryAndDisk
}

extension CacheStorage {
    /// The storage of a manager, as its configuration says.
    convenience init(_ configuration: CentralRequestManager.Configuration) {
        let isOnDisk = configuration.cacheStore == nil && configuration.cacheStorage == .memoryAndDisk
        let own = isOnDisk ? configuration.cacheDirectory ?? Self.standardDirectory() : nil
        let given = configuration.cacheStore.flatMap(Self.directory)
        var settings = WriteBehind.Settings()
        settings.lookUpTimeout = configuration.cacheLookUpTimeout
        self.init(
            partition: configuration.cachePartition, directory: own ?? given, settings: settings,
            now: configuration.cacheClock, observer: configuration.cacheObserver
        ) {
            if let store = configuration.cacheStore { return store }
            guard let directory = own else { return MemoryStore() }
            return TieredStore(memory: MemoryStore(), disk: try DiskStore(directory: directory))
        }
    }

    /// The folder of a store; `nil` for one that is not on disk.
    private static func directory(of store: any CacheStore) -> String? {
        guard let tiers = store as? TieredStore else { return (store as? DiskStore)?.directory }
        return directory(of: tiers.upper) ?? directory(of: tiers.lower)
    }

    /// `$XDG_CACHE_HOME/<program>`, else `~/.cache/<program>`; `nil` for a process without a home.
    static func standardDirectory(
        environment: [String: String] = ProcessInfo.processInfo.environment,
        program: String = ProcessInfo.processInfo.processName
    ) -> String? {
        // A path that is not absolute is to be ignored (XDG Base Directory Specification).
        let base = environment["XDG_CACHE_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        let home = environment["HOME"].flatMap { $0.hasPrefix("/") ? "\($0)/.cache" : nil }
        guard let base = base ?? home, !program.isEmpty else { return nil }
        return base.hasSuffix("/") ? base + program : "\(base)/\(program)"
    }
}
