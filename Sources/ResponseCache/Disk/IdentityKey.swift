import Cryptography
package import FoundationEssentials
import Glibc
import Platform
import Synchronization

/// The secret that ``RequestIdentity`` digests credentials with. It lies in the store's folder, for its owner only, so that
/// what was stored for somebody is found again by the next process.
package final class IdentityKey: Sendable {
    private struct State {
        var key: Data?
        var isSaved = false
    }

    private let path: String?
    private let state = Mutex(State())
    private static let byteCount = 32

    /// - Parameter directory: the folder of the store; `nil` for one that does not outlive the process.
    package init(directory: String?) { path = directory.map { $0 + "/identity.key" } }

    /// The secret, read from the folder or made.
    package var bytes: Data {
        state.withLock { state in
            if let key = state.key, state.isSaved { return key }
            // As long as no entry of this process depends on its own, that of another process counts.
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

    /// Puts the secret into the folder, before the first entry that depends on it. Where another process was first, its
    /// secret counts from now on. Without a word where nothing can be written: the entries are not found again then.
    package func save() {
        guard let path, let own = state.withLock({ $0.isSaved ? nil : $0.key }) else { return }
        try? DiskLayout(PathParts(path).folder).makeFolders()
        // Of those who save at the same time one puts it there, whole, and the others find it.
        try? AtomicFile.write(own, to: path, isShared: true, replaces: false)
        let saved = Self.read(path)
        // What is there and is no secret was damaged.
        if saved == nil { try? AtomicFile.write(own, to: path, isShared: true) }
        state.withLock { state in
            state.key = saved ?? own
            state.isSaved = true
        }
    }

    private static func read(_ path: String) -> Data? {
        guard let data = FileManager.default.contents(atPath: path), data.count == byteCount else { return nil }
        return data
    }
}
