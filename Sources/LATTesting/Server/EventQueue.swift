import Glibc

/// The descriptors a thread waits for: `epoll(7)`, level-triggered. A turn costs what happens in it, not
/// what is open, so thousands of stalled connections are free.
struct EventQueue {
    struct Events: OptionSet, Sendable {
        let rawValue: UInt32
        static let readable = Events(rawValue: 0x001)
        static let writable = Events(rawValue: 0x004)
        /// The other side will send nothing more (`EPOLLRDHUP`).
        static let peerClosed = Events(rawValue: 0x2000)
        /// The connection is broken, or closed in both directions (`EPOLLERR`, `EPOLLHUP`). Always reported.
        static let gone = Events(rawValue: 0x008 | 0x010)
    }

    let descriptor: Int32
    private let calls: LinuxCalls
    private var buffer: [UInt8]

    private static let capacity = 256

    /// - Throws: ``MockServerError`` when the system gives no descriptor.
    init() throws {
        calls = try LinuxCalls.found()
        descriptor = calls.epollCreate(O_CLOEXEC)
        guard descriptor >= 0 else { throw MockServerError.systemCall("epoll_create1") }
        buffer = [UInt8](repeating: 0, count: Self.capacity * LinuxCalls.eventSize)
    }

    func insert(_ watched: Int32, token: Int, events: Events) { control(1, watched, token, events) }

    func change(_ watched: Int32, token: Int, to events: Events) { control(3, watched, token, events) }

    /// Wanted before a descriptor is closed: a child process may still hold a copy.
    func remove(_ watched: Int32) { control(2, watched, 0, []) }

    /// Accepts one connection, non-blocking and not for child processes; negative when there is none.
    func accept(_ listener: Int32) -> Int32 {
        calls.accept(listener, nil, nil, Int32(SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue))
    }

    private func control(_ operation: Int32, _ watched: Int32, _ token: Int, _ events: Events) {
        withUnsafeTemporaryAllocation(byteCount: LinuxCalls.eventSize, alignment: 8) { event in
            event.storeBytes(of: events.rawValue, as: UInt32.self)
            event.storeBytes(of: token, toByteOffset: LinuxCalls.eventDataOffset, as: Int.self)
            _ = calls.epollControl(descriptor, operation, watched, event.baseAddress)
        }
    }

    /// Waits and puts what happened into `ready`. -1 milliseconds is for ever.
    mutating func wait(milliseconds: Int32, into ready: inout [(token: Int, events: Events)]) {
        ready.removeAll(keepingCapacity: true)
        let (calls, descriptor) = (calls, descriptor)
        buffer.withUnsafeMutableBytes { buffer in
            let count = calls.epollWait(descriptor, buffer.baseAddress, Int32(Self.capacity), milliseconds)
            for index in 0..<max(0, Int(count)) {
                let offset = index * LinuxCalls.eventSize
                let events = buffer.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
                let token = buffer.loadUnaligned(fromByteOffset: offset + LinuxCalls.eventDataOffset, as: Int.self)
                ready.append((token, Events(rawValue: events)))
            }
        }
    }
}
