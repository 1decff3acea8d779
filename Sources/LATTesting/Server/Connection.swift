import FoundationEssentials
import Glibc
import Platform

/// One accepted connection. Belongs to the thread of the ``ServerLoop``.
final class Connection {
    enum Phase {
        /// A request is read, or the next one is waited for.
        case reading
        case replying(Wait)
        /// Our side is closed; what still comes is thrown away, so that the system
        /// sends no reset that would overtake the reply.
        case lingering
        /// All is sent; the reset waits until it has been received.
        case resetting
        case closed
    }

    /// Why a reply is not going on right now.
    enum Wait {
        case none
        /// The socket takes no more.
        case room
        case time
        case stall
    }

    /// A request of which the head was read.
    struct Exchange {
        let head: RequestHead
        var record: RecordedRequest
        let bodyLimit: Int
        var isRead = false
        var isAnswered = false

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
    /// Bytes that came and are not parsed.
    var pending: ArraySlice<UInt8> = []
    var exchange: Exchange?
    var writer: ReplyWriter?
    var requestCount = 0
    /// When to look at the connection again without an event.
    var deadline: Nanoseconds?
    /// Before this, no more of a body is read (``MockServer/bodyReadRate``).
    var nextRead = Nanoseconds.min
    /// Whether the reading stands still until then.
    var readIsPaused = false
    /// When a reset no longer waits for its bytes to be received.
    var resetDeadline = Nanoseconds.max
    /// The events that are waited for.
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
        // A client that goes away while nothing is sent is noticed at once.
        case .replying(.time), .replying(.stall): .peerClosed
        case .replying(.none), .lingering: .readable
        case .resetting, .closed: []
        }
    }

    /// Sends from the front of a piece; how much was taken, or nil when the connection is broken.
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
