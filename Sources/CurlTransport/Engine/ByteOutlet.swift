import Glibc
import Synchronization

/// Sends bytes on a ``ByteConnection`` from any thread, so that a caller need not hand them to the engine's thread.
///
/// The engine's thread must not send at the same time. The connection's user decides which thread sends, and calls
/// ``waitForSending()`` before the engine's thread does.
package final class ByteOutlet: Sendable {
    /// The connection's socket; -1 unless it is open. Locked while bytes are sent, and changed before the socket is closed,
    /// because its number may then belong to another connection.
    private let socket = Mutex<CInt>(-1)

    private static let flags = CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL)

    func open(_ socket: CInt) { self.socket.withLock { $0 = socket } }

    func close() { socket.withLock { $0 = -1 } }

    /// Sends as many bytes as the kernel takes without waiting, and removes them. When the connection is lost it sends none,
    /// and the engine's thread reports the loss.
    ///
    /// - Parameter begin: Called first, while no other thread sends. It returns `false` when nothing may be sent after all.
    /// - Returns: Whether all bytes were sent; `nil` when nothing was tried.
    package func send(_ bytes: inout [UInt8], _ begin: () -> Bool) -> Bool? {
        socket.withLock { socket -> Bool? in
            guard socket >= 0, begin() else { return nil }
            let count = bytes.withUnsafeBytes { Glibc.send(socket, $0.baseAddress, $0.count, Self.flags) }
            bytes = count == bytes.count ? [] : Array(bytes[max(0, count)...])
            return bytes.isEmpty
        }
    }

    /// Returns once no thread is sending.
    package func waitForSending() { socket.withLock { _ in } }
}
