import Cryptography
import FoundationEssentials
internal import HTTPCore
import Platform
import Synchronization

/// The revocation lists of a file.
final class RevocationFile: Sendable {
    private struct State {
        var lists: [RevocationList]
        /// The file's stamp at the last read, whether that succeeded or failed.
        var stamp: FileStamp?
        /// Reads it again.
        var task: Task<Void, Never>?
    }

    let path: String
    private let warn: @Sendable (String) -> Void
    private let state: Mutex<State>

    var lists: [RevocationList] { state.withLock(\.lists) }

    /// Whether the file has changed since it was read. One that is missing is being replaced.
    var hasChanged: Bool {
        guard let stamp = FileStamp(path: path) else { return false }
        return state.withLock { $0.stamp != stamp }
    }

    /// - Parameter path: An absolute one.
    /// - Throws: ``NetworkError/Kind/invalidRequest`` for a file that cannot be used.
    init(_ path: String, warn: @escaping @Sendable (String) -> Void) throws(NetworkError) {
        (self.path, self.warn) = (path, warn)
        let (lists, stamp) = try Self.read(path)
        state = Mutex(State(lists: lists, stamp: stamp))
    }

    private static func read(_ path: String) throws(NetworkError) -> ([RevocationList], FileStamp) {
        let content = try SettingsFile(path, setting: "tls.crlFile")
        do throws(CertificateFile.Problem) {
            return (try RevocationList.read(content.data), content.stamp)
        } catch {
            throw .invalidRequest("tls.crlFile \"\(path)\" \(error.reason)")
        }
    }

    /// Reads the file if it has changed, once for all who want that. When it cannot be used, the lists stay, and it is read
    /// after its next change.
    func readAgain(in turns: Turns) -> Task<Void, Never> {
        state.withLock { state in
            if let task = state.task { return task }
            let task = Task.detached {
                // The task is never cancelled, so it gets its turn.
                try? await turns.run { self.readAgain() }
                self.state.withLock { $0.task = nil }
            }
            state.task = task
            return task
        }
    }

    private func readAgain() {
        guard let seen = FileStamp(path: path), state.withLock({ $0.stamp != seen }) else { return }
        do throws(NetworkError) {
            let (lists, stamp) = try Self.read(path)
            state.withLock { ($0.lists, $0.stamp) = (lists, stamp) }
        } catch {
            state.withLock { $0.stamp = seen }
            warn("\(error.message); the lists that were read before remain in use")
        }
    }
}
