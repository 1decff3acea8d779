import CLibcurl
package import HTTPCore
import Platform

/// The destination of a ``ByteConnection``, with the checked settings of its transport.
package struct ByteEndpoint: Sendable {
    let request: HTTPRequest
    let target: Target
    let plan: TransferPlan
}

/// Receives the events of a ``ByteConnection``, on the engine's thread. It may call the connection in them.
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
    /// A way to send from other threads; `nil` where libcurl encrypts.
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
        var socket = curl_socket_t(CURL_SOCKET_BAD)
        if result == CURLE_OK, lat_getinfo_socket(handle.curl, &socket) == CURLE_OK, socket != CURL_SOCKET_BAD {
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

/// Bytes that wait to be sent. Small ones are sent together.
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

    /// The next bytes; `nil` when there are none.
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
