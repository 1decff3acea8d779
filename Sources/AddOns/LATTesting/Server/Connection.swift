import FoundationEssentials
import Glibc
import Platform

/// One accepted connection, used only on the thread of the ``ServerLoop``.
final class Connection {
    enum Phase {
        /// Reads a request, or waits for the next one.
        case reading
        case replying(Wait)
        /// The connection is a WebSocket, with what it waits for and whether it reads.
        case webSocket(Wait, reads: Bool)
        /// The server's side is closed. Bytes that still arrive are read and discarded: if they stayed unread, the
        /// system would send a reset, which could overtake the reply.
        case lingering
        /// The reply is sent. The reset waits until the client has received it, or until this time.
        case resetting(until: MonotonicTime)
        case closed
    }

    /// What a reply or a WebSocket waits for.
    enum Wait {
        case none
        /// Room in the socket's send buffer.
        case room
        case time
        case stall
    }

    /// A request whose head was read, and its reply.
    struct Exchange {
        let head: RequestHead
        var record: RecordedRequest
        let bodyLimit: Int
        /// Receives the body as it arrives, and answers; `nil` for a route.
        var receiver: (any BodyReceiver)?
        var isAnswered = false
        var sentInterim = false

        mutating func append(_ piece: ArraySlice<UInt8>) {
            record.bodyByteCount += Int64(piece.count)
            let room = bodyLimit - record.body.count
            if room > 0 { record.body.append(contentsOf: piece.prefix(room)) }
        }
    }

    let id: Int
    let descriptor: Int32
    var phase = Phase.reading
    var parser = RequestParser()
    /// Bytes that were received and are not parsed yet.
    var pending: ArraySlice<UInt8> = []
    var exchange: Exchange?
    var writer: ReplyWriter?
    /// The script of a WebSocket, from its handshake on.
    var player: SocketPlayer?
    var requestCount = 0
    /// When the connection is handled again without an event.
    var deadline: MonotonicTime?
    /// No body bytes are read before this time (``MockServer/bodyReadRate``).
    var nextRead = MonotonicTime(nanoseconds: .min)
    /// Whether reading is paused until ``nextRead``.
    var readIsPaused = false
    /// The registered events.
    var interest = EventQueue.Events.readable

    init(id: Int, descriptor: Int32) {
        self.id = id
        self.descriptor = descriptor
    }

    /// The events to wait for in the present phase.
    var wantedInterest: EventQueue.Events {
        switch phase {
        case .reading: readIsPaused ? [] : .readable
        case .replying(.room): .writable
        // While nothing is sent, a client that closes is noticed at once.
        case .replying(.time), .replying(.stall): .peerClosed
        case .replying(.none), .lingering: .readable
        case .webSocket(.room, reads: true): EventQueue.Events.readable.union(.writable)
        case .webSocket(.room, reads: false): EventQueue.Events.peerClosed.union(.writable)
        case .webSocket(_, reads: true): .readable
        case .webSocket(_, reads: false): .peerClosed
        case .resetting, .closed: []
        }
    }

    /// Sends from the front of a piece. Returns how much was taken, or `nil` when the connection is broken.
    func send(_ content: ReplyPlan.Content) -> Int? {
        switch content {
        case .bytes(let bytes): bytes.withUnsafeBytes { send($0) }
        case .data(let data): data.withUnsafeBytes { send($0) }
        case .pattern(let range):
            MockPattern.withBytes(at: range.lowerBound, limit: range.upperBound - range.lowerBound) { send($0) }
        }
    }

    private func send(_ bytes: UnsafeRawBufferPointer) -> Int? {
        let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
        while true {
            let count = Glibc.send(descriptor, bytes.baseAddress, bytes.count, flags)
            if count >= 0 { return count }
            if errno == EAGAIN { return 0 }
            if errno != EINTR { return nil }
        }
    }
}
