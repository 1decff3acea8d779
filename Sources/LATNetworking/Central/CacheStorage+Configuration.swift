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
            throw NetworkError(
                .cache, message: "there is no store to keep responses in; set configuration.cacheStore")
        }
    }
}
