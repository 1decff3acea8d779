import CLibcurl
import Glibc
package import HTTPCore
import Platform
import Synchronization

/// The destination of a ``ByteConnection``, with the checked settings of its transport.
package struct ByteEndpoint: Sendable {
    let request: HTTPRequest
    let target: Target
    let plan: TransferPlan
}

/// Receives the events of a ``ByteConnection``, on the engine's thread. Its methods may call the connection.
package protocol ByteConnectionUser: AnyObject {
    /// The connection is established, TLS included.
    func connectionIsOpen(_ connection: ByteConnection)
    /// Bytes arrived.
    func connection(_ connection: ByteConnection, received bytes: UnsafeRawBufferPointer)
    /// Bytes that had to wait were sent.
    func connectionHasSent(_ connection: ByteConnection)
    /// The connection could not be established, or is lost. Nothing follows. Not called after ``ByteConnection/close()``.
    func connection(_ connection: ByteConnection, failed error: NetworkError)
}

/// A connection that carries bytes of any protocol (`CURLOPT_CONNECT_ONLY`), with the TLS settings, the proxy and the address
/// guard of its transport. Belongs to the engine's thread.
package final class ByteConnection {
    private enum State { case connecting, open, closed }

    unowned(unsafe) private let owner: ByteConnections
    private weak var user: (any ByteConnectionUser)?
    let transfer: Transfer
    /// `nil` after the end. The engine frees the data that handles share, so no handle may outlive it.
    private(set) var handle: EasyHandle?
    /// Whether a read that fills less than the buffer has taken everything. TLS may hold more.
    private let readsAreWhole: Bool
    /// A way to send from other threads; `nil` with TLS or a proxy.
    package let outlet: ByteOutlet?
    private(set) var socket: CInt = -1
    private var state = State.connecting
    private var output = OutputQueue()
    private var isWatchedForWriting = false

    init(_ owner: ByteConnections, _ endpoint: ByteEndpoint, user: any ByteConnectionUser, _ handle: EasyHandle) {
        self.owner = owner
        self.user = user
        self.handle = handle
        readsAreWhole = !endpoint.target.isSecure && endpoint.plan.proxy == nil
        outlet = readsAreWhole ? ByteOutlet() : nil
        transfer = Transfer(request: endpoint.request, target: endpoint.target, plan: endpoint.plan, pipe: nil)
    }

    /// The number of bytes that wait until the peer takes more.
    package var unsentByteCount: Int { output.byteCount }

    /// Sends bytes, after those that wait.
    package func send(_ bytes: [UInt8]) {
        guard state != .closed else { return }
        output.append(bytes)
        guard state == .open, !isWatchedForWriting else { return }
        flush()
    }

    /// Closes the connection. Bytes that wait are dropped.
    package func close() {
        guard state != .closed else { return }
        state = .closed
        outlet?.close()
        owner.remove(self)
        handle = nil
    }

    // MARK: For the owner

    func connected(_ result: CURLcode, _ now: MonotonicTime) {
        guard state == .connecting, let handle else { return }
        let socket = handle.activeSocket
        if result == CURLE_OK, socket != CURL_SOCKET_BAD {
            self.socket = socket
            state = .open
            outlet?.open(socket)
            owner.watch(self, for: .readable)
            user?.connectionIsOpen(self)
            if state == .open, output.byteCount > 0, !isWatchedForWriting { flush() }
        } else {
            let timings = handle.timings(of: transfer, isOver: true)
            fail(EngineFailure.describe(result, handle: handle, transfer: transfer, timings: timings, now: now))
        }
    }

    func handle(_ events: EventQueue.Events, _ buffer: UnsafeMutableRawBufferPointer) {
        if state == .open, isWatchedForWriting, !events.isDisjoint(with: .writable.union(.gone)) {
            let before = output.byteCount
            flush()
            if state == .open, output.byteCount < before { user?.connectionHasSent(self) }
        }
        if !events.isDisjoint(with: .readable.union(.gone)) { receive(buffer) }
    }

    /// Reads the bytes that have arrived, up to a limit so that other connections need not wait long.
    func receive(_ buffer: UnsafeMutableRawBufferPointer) {
        for _ in 0..<Self.readsPerTurn {
            guard state == .open, let handle else { return }
            var count = 0
            let code = curl_easy_recv(handle.curl, buffer.baseAddress, buffer.count, &count)
            switch code {
            case CURLE_OK where count > 0:
                user?.connection(self, received: UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                if readsAreWhole, count < buffer.count { return }
            case CURLE_OK: return fail(Self.lost("the server closed the connection"))
            case CURLE_AGAIN: return
            default: return fail(Self.lost(handle.errorText, code))
            }
        }
        // TLS may hold decrypted bytes that epoll does not report.
        if state == .open { owner.readAgain(self) }
    }

    private func flush() {
        while let handle, let chunk = output.first {
            var count = 0
            let code = chunk.withUnsafeBytes { curl_easy_send(handle.curl, $0.baseAddress, $0.count, &count) }
            output.removeFirst(count)
            guard code == CURLE_OK else {
                if code != CURLE_AGAIN { return fail(Self.lost(handle.errorText, code)) }
                break
            }
        }
        let waits = output.byteCount > 0
        guard waits != isWatchedForWriting else { return }
        isWatchedForWriting = waits
        owner.watch(self, for: waits ? [.readable, .writable] : .readable)
    }

    func fail(_ error: NetworkError) {
        guard state != .closed else { return }
        close()
        user?.connection(self, failed: error)
    }

    private static let readsPerTurn = 16

    private static func lost(_ detail: String, _ code: CURLcode? = nil) -> NetworkError {
        let text = code.map { detail.isEmpty ? String(cString: curl_easy_strerror($0)) : detail } ?? detail
        return NetworkError(.connectionLost, message: text, curlCode: code.map { Int($0.rawValue) })
    }
}

/// Bytes that wait to be sent. Small pieces are joined into one chunk.
struct OutputQueue {
    private var chunks: [[UInt8]] = []
    private var firstChunk = 0
    private var offset = 0
    private(set) var byteCount = 0

    /// The size up to which bytes are copied into the last chunk.
    private static let joinedSize = 64 << 10

    mutating func append(_ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        byteCount += bytes.count
        if let last = chunks.last, firstChunk < chunks.count, last.count + bytes.count <= Self.joinedSize {
            chunks[chunks.count - 1] += bytes
        } else {
            chunks.append(bytes)
        }
    }

    var first: ArraySlice<UInt8>? { firstChunk < chunks.count ? chunks[firstChunk][offset...] : nil }

    mutating func removeFirst(_ count: Int) {
        byteCount -= count
        offset += count
        guard firstChunk < chunks.count, offset == chunks[firstChunk].count else { return }
        offset = 0
        chunks[firstChunk] = []
        firstChunk += 1
        if firstChunk == chunks.count {
            chunks.removeAll(keepingCapacity: firstChunk < 64)
            firstChunk = 0
        }
    }
}

/// Sends bytes on a ``ByteConnection`` from any thread, so that a caller need not hand them to the engine's thread.
///
/// The engine's thread must not send at the same time. The connection's user decides which thread sends, and calls
/// ``waitForSending()`` before the engine's thread does.
package final class ByteOutlet: Sendable {
    /// The connection's socket; -1 unless it is open. Locked while bytes are sent, and changed before the socket is closed,
    /// because the number of a closed socket may belong to another connection.
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
