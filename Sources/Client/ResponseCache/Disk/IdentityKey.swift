import Cryptography
package import FoundationEssentials
import Glibc
import Platform
import Synchronization

/// The secret key with which ``RequestIdentity`` digests credentials. It is saved in the store's folder, readable by the
/// owner only, because the next process needs it to find the entries that were stored for a sender.
package final class IdentityKey: Sendable {
    private let path: String?
    private let state = Mutex((key: Data?.none, isSaved: false))
    private static let byteCount = 32

    /// - Parameter directory: The folder of the store; `nil` for a store in memory.
    package init(directory: String?) { path = directory.map { $0 + "/identity.key" } }

    /// The key, read from the folder or generated.
    package var bytes: Data {
        state.withLock { state in
            if let key = state.key, state.isSaved { return key }
            // While no entry depends on this process's key, the key that another process saved is used.
            if let saved = path.flatMap(Self.read) {
                state.key = saved
                state.isSaved = true
                return saved
            }
            let key = state.key ?? Data((try? randomBytes(Self.byteCount)) ?? [])
            state.key = key
            state.isSaved = path == nil
            return key
        }
    }

    /// Saves the key in the folder, before the first entry that depends on it. If another process was first, its key is used
    /// from now on. A failure is ignored: the next process then does not find these entries.
    package func save() {
        guard let path, let own = state.withLock({ $0.isSaved ? nil : $0.key }) else { return }
        try? DiskLayout(PathParts(path).folder).makeFolders()
        // If several processes save at the same time, one writes the complete file and the others find it.
        try? AtomicFile.write(own, to: path, isShared: true, replaces: false, followsLinks: false)
        let saved = Self.read(path)
        // An existing file that holds no key is damaged.
        if saved == nil { try? AtomicFile.write(own, to: path, isShared: true, followsLinks: false) }
        state.withLock { state in
            state.key = saved ?? own
            state.isSaved = true
        }
    }

    private static func read(_ path: String) -> Data? {
        guard let bytes = try? OwnFile.bytes(of: path, limit: byteCount), bytes.count == byteCount else { return nil }
        return Data(bytes)
    }
}
