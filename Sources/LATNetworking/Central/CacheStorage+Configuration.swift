import FoundationEssentials
import HTTPCore
import ResponseCache

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
        self.init(
            partition: configuration.cachePartition, now: configuration.cacheClock,
            observer: configuration.cacheObserver
        ) {
            if let store = configuration.cacheStore { return store }
            guard configuration.cacheStorage == .memoryAndDisk,
                let directory = configuration.cacheDirectory ?? Self.standardDirectory()
            else { return MemoryStore() }
            return TieredStore(memory: MemoryStore(), disk: try DiskStore(directory: directory))
        }
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
