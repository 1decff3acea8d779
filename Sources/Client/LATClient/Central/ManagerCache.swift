import FoundationEssentials
import HTTPCore
import Platform
public import ResponseCache

extension CentralRequestManager {
    /// The responses that the manager stores, to inspect, pin and remove.
    ///
    /// ```swift
    /// try await manager.cache.usage()                              // entries and bytes
    /// try await manager.cache.pin("https://api.example.org/cities")
    /// try await manager.cache.remove(.domain("daxiang"))
    /// try await manager.cache.removeAll(olderThan: .seconds(7 * 86_400))
    /// manager.cache.partition = "user-\(user.id)"                   // later calls are that user's
    /// ```
    public var cache: Cache { Cache(storage: storage) { [weak self] in self } }

    /// The app's own values by name, in the same store as the responses.
    ///
    /// ```swift
    /// try await manager.values.set(profile, for: "profile", expiresAfter: .seconds(3_600))
    /// let stored = try await manager.values.get(Profile.self, for: "profile")
    /// ```
    public var values: ValueStore { ValueStore(now: storage.now) { [storage] in try storage.storeOfValues() } }

    /// The app's own values by name, in memory only: at most 16 MiB, never on disk, released with the manager. Their
    /// names are independent of those of ``values``.
    public var memoryValues: ValueStore { ValueStore(now: storage.now) { [storage] in storage.memoryValues } }

    /// The responses that a manager stores.
    ///
    /// Every method that uses the store throws a ``NetworkError`` of kind ``NetworkError/Kind/cache`` when the store
    /// fails. A URL may be a path, which is joined to the manager's base URL.
    public struct Cache: Sendable {
        let storage: CacheStorage
        let manager: @Sendable () -> CentralRequestManager?

        /// The user whose responses are stored and found from the next call on; `nil` for those that all users share.
        public var partition: String? {
            get { storage.partition }
            nonmutating set { storage.partition = newValue }
        }

        /// Counts since the manager was created: hits, misses, and what was stored, skipped and evicted.
        public var statistics: CacheStatistics { storage.statistics }

        /// How much is stored, including ``CentralRequestManager/values``, which share the limits.
        public func usage() async throws -> CacheUsage { try await storage.store().inspected().usage() }

        /// Returns the selected entries, in no particular order. Default: all entries.
        public func entries(_ selection: CacheSelection = .all) async throws -> [CacheEntry] {
            try await storage.store().inspected().entries(canonical(selection)).filter { !$0.isValue }
        }

        /// Returns the entries whose URLs start with a prefix.
        public func entries(withPrefix prefix: String) async throws -> [CacheEntry] {
            try await storage.store().inspected().entries(canonical(.urlPrefix(prefix)))
        }

        /// Protects the entries of a URL from eviction until they are unpinned or removed, and returns their number.
        @discardableResult
        public func pin(_ url: some URLConvertible) async throws -> Int { try await setPinned(true, url.urlText) }

        /// Lets the entries of a URL be evicted again, and returns their number.
        @discardableResult
        public func unpin(_ url: some URLConvertible) async throws -> Int { try await setPinned(false, url.urlText) }

        /// Marks the entries of a URL as used now, and returns their number. Sliding lifetimes start anew, and other entries
        /// are evicted first.
        @discardableResult
        public func touch(_ url: some URLConvertible) async throws -> Int {
            try await change(url.urlText) { store, entry in try await store.touch(entry.key, at: storage.now()) }
        }

        /// Removes the selected responses, including pinned ones, and returns their number and size. Values stay.
        @discardableResult
        public func remove(_ selection: CacheSelection) async throws -> CacheUsage {
            let selection = canonical(selection)
            // What is being fetched was asked for before, so it is not stored afterwards.
            storage.behind?.noteRemoval(selection)
            manager()?.pipeline.cacheOperations.flights.leave()
            return try await storage.store().removeResponses(selection)
        }

        /// Removes all responses, and returns their number and size.
        @discardableResult
        public func removeAll() async throws -> CacheUsage { try await remove(.all) }

        /// Removes the responses that were stored longer ago than an age, and returns their number and size.
        @discardableResult
        public func removeAll(olderThan age: Duration) async throws -> CacheUsage {
            try await remove(.storedBefore(storage.now().addingTimeInterval(-age.inSeconds)))
        }

        /// Evicts entries down to the limits, deletes unreferenced data, and returns how much that was.
        @discardableResult
        public func collectGarbage() async throws -> CacheUsage { try await storage.store().collectGarbage() }

        /// Returns when everything stored would survive a loss of power. Pending writes are completed first. A process
        /// that calls neither this nor ``CentralRequestManager/shutdown()`` before it ends may lose its last responses.
        public func flush() async throws { try await storage.store().flush() }

        private func setPinned(_ isPinned: Bool, _ url: String) async throws -> Int {
            try await change(url) { store, entry in
                guard entry.isPinned != isPinned else { return }
                var entry = entry
                entry.isPinned = isPinned
                try await store.update(entry)
            }
        }

        /// Changes the entries of a URL, and returns their number.
        private func change(
            _ url: String, _ change: (any CacheStore, CacheEntry) async throws -> Void
        ) async throws -> Int {
            let store = try await storage.store()
            let entries = try await store.inspected().entries(canonical(.url(url)))
            for entry in entries { try await change(store, entry) }
            return entries.count
        }

        /// Returns the selection without values, and with URLs in the form in which entries have them.
        private func canonical(_ selection: CacheSelection) -> CacheSelection {
            switch selection {
            case .url(let url): CacheSelection.url(CanonicalURL(absolute(url))?.text ?? url).withoutValues
            case .urlPrefix(let prefix): CacheSelection.urlPrefix(absolute(prefix)).withoutValues
            default: selection.withoutValues
            }
        }

        private func absolute(_ url: String) -> String { RequestBuilder.absoluteURL(url, base: manager()?.baseURL) }

        /// Where a manager keeps responses.
        public enum Storage: String, Hashable, Sendable {
            /// In the memory of the process.
            case memory
            /// In memory and on disk, where responses outlive the process.
            case memoryAndDisk
        }
    }
}

extension CacheStorage {
    /// The storage that a manager's configuration describes.
    convenience init(_ configuration: CentralRequestManager.Configuration) {
        let isOnDisk = configuration.cacheStore == nil && configuration.cacheStorage == .memoryAndDisk
        let own = isOnDisk ? configuration.cacheDirectory ?? Self.standardDirectory : nil
        let given = configuration.cacheStore.flatMap(Self.directory)
        var settings = WriteBehind.Settings()
        settings.lookUpTimeout = configuration.cacheLookUpTimeout
        self.init(
            partition: configuration.cachePartition, directory: own ?? given,
            isShared: configuration.companion != nil || configuration.cacheStore != nil && given == nil,
            settings: settings, now: configuration.cacheClock, observer: configuration.cacheObserver
        ) {
            let store: any CacheStore
            if let given = configuration.cacheStore {
                store = given
            } else if let directory = own {
                store = TieredStore(memory: MemoryStore(), disk: try DiskStore(directory: directory))
            } else {
                store = MemoryStore()
            }
            return try configuration.companion?.store(above: store) ?? store
        }
    }

    /// The directory of a store; `nil` for a store that is not on disk.
    private static func directory(of store: any CacheStore) -> String? {
        guard let tiers = store as? TieredStore else { return (store as? DiskStore)?.directory }
        return directory(of: tiers.upper) ?? directory(of: tiers.lower)
    }

    /// `$XDG_CACHE_HOME/<program>`, else `~/.cache/<program>`; `nil` for a process without a home.
    private static var standardDirectory: String? {
        let process = ProcessInfo.processInfo
        return UserFolder.cache.path(environment: process.environment, program: process.processName)
    }
}
