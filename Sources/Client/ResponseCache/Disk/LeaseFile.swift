import CLinux
import Glibc
import Platform
import Synchronization

/// Leases between processes: locks on single bytes of an empty file, which the kernel releases when a process ends.
///
/// Two names may share a byte. A caller then waits for an unrelated lease, but no longer than it would for its own.
final class LeaseFile: Sendable {
    private struct State {
        /// -1 until the folder exists.
        var descriptor: Int32 = -1
        /// The file of the descriptor.
        var file: FileIdentity?
        var held: Set<Int64> = []
    }

    private let path: String
    private let state = Mutex(State())

    init(_ path: String) { self.path = path }

    deinit { _ = state.withLock { close($0.descriptor) } }

    /// Opens the file, and again when another one has taken its place: other processes lock that one.
    private func openFile(_ state: inout State) {
        guard state.descriptor < 0 || FileIdentity(path) != state.file else { return }
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return }
        for byte in state.held { _ = lat_lock_byte(descriptor, byte, 1) }
        if state.descriptor >= 0 { close(state.descriptor) }
        (state.descriptor, state.file) = (descriptor, FileIdentity(of: descriptor))
    }

    /// The lease of a name; `nil` while another holder has it. If the file cannot be locked, every process gets it.
    func lease(_ name: String) -> CacheLease? {
        let byte = CacheIndex.slot(Array(name.utf8)) & (.max >> 1)
        return state.withLock { state in
            openFile(&state)
            guard state.descriptor >= 0 else { return CacheLease(number: 0) {} }
            guard state.held.insert(byte).inserted else { return nil }
            if lat_lock_byte(state.descriptor, byte, 1) != 0, errno == EAGAIN || errno == EACCES {
                state.held.remove(byte)
                return nil
            }
            // All processes of the machine share this clock.
            return CacheLease(number: UInt64(MonotonicTime.now.nanoseconds)) {
                self.state.withLock { state in
                    state.held.remove(byte)
                    _ = lat_lock_byte(state.descriptor, byte, 0)
                }
            }
        }
    }
}
