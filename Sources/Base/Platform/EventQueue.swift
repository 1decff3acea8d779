package import CLinux
internal import Glibc

/// Waits for events on file descriptors with `epoll(7)`. The cost of a wait grows with the events, not with the watched
/// descriptors.
///
/// `@unchecked Sendable`: only the waiting thread uses the buffer and `isOpen`. The other properties are constant.
package final class EventQueue: @unchecked Sendable {
    /// The events of a descriptor.
    package struct Events: OptionSet, Sendable {
        package let rawValue: UInt32

        @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }

        @inlinable package static var readable: Events { Events(rawValue: EPOLLIN.rawValue) }
        @inlinable package static var writable: Events { Events(rawValue: EPOLLOUT.rawValue) }
        /// The peer will send nothing more.
        @inlinable package static var peerClosed: Events { Events(rawValue: EPOLLRDHUP.rawValue) }
        /// The connection failed or is closed in both directions. Always reported.
        @inlinable package static var gone: Events { Events(rawValue: EPOLLERR.rawValue | EPOLLHUP.rawValue) }
        /// Edge-triggered: reports an event once, and again only after a new one.
        @inlinable package static var edge: Events { Events(rawValue: EPOLLET.rawValue) }

        // These functions run several times for each request. The default ones would go through protocol witnesses.

        @inlinable package func contains(_ other: Events) -> Bool { rawValue & other.rawValue == other.rawValue }

        @inlinable package func isDisjoint(with other: Events) -> Bool { rawValue & other.rawValue == 0 }

        @inlinable package func union(_ other: Events) -> Events { Events(rawValue: rawValue | other.rawValue) }
    }

    /// The descriptor of the queue, which is readable when a watched descriptor has events.
    package let descriptor: Int32
    @usableFromInline let ready: UnsafeMutablePointer<epoll_event>
    private let capacity: Int32
    private var isOpen: Bool

    /// Makes a queue. Returns `nil` and sets `errno` when the process has no descriptor left.
    ///
    /// - Parameter capacity: the largest number of events in one wait. The next wait returns the rest.
    package init?(capacity: Int32 = 256) {
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        ready = .allocate(capacity: Int(capacity))
        self.capacity = capacity
        isOpen = descriptor >= 0
        guard descriptor >= 0 else { return nil }
    }

    deinit {
        end()
        ready.deallocate()
    }

    /// Closes the descriptor. Must not be called while a thread waits.
    package func end() {
        if isOpen { close(descriptor) }
        isOpen = false
    }

    /// Watches a descriptor, or changes the events it is watched for.
    ///
    /// - Parameters:
    ///   - token: the number that its events carry. Default: the descriptor.
    ///   - isWatched: whether it is watched already. This may be wrong when the descriptor was closed and its number
    ///     reused, so the other operation is tried too.
    package func watch(_ watched: Int32, for events: Events, token: Int? = nil, isWatched: Bool = false) {
        let token = Int64(token ?? Int(watched))
        let operation = isWatched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD
        if lat_epoll_ctl(descriptor, operation, watched, events.rawValue, token) != 0 {
            let other = isWatched ? EPOLL_CTL_ADD : EPOLL_CTL_MOD
            _ = lat_epoll_ctl(descriptor, other, watched, events.rawValue, token)
        }
    }

    /// Stops watching a descriptor. Needed before closing a descriptor of which a child process may have a copy.
    package func forget(_ watched: Int32) { _ = lat_epoll_ctl(descriptor, EPOLL_CTL_DEL, watched, 0, 0) }

    /// Waits for events, at most for this many milliseconds; -1 for no limit.
    ///
    /// - Returns: the number of events.
    package func wait(milliseconds: Int32) -> Int {
        max(0, Int(epoll_wait(descriptor, ready, capacity, milliseconds)))
    }

    /// One of the events of the last ``wait(milliseconds:)``.
    @inlinable package subscript(index: Int) -> (token: Int, events: Events) {
        (Int(lat_epoll_token(ready + index)), Events(rawValue: ready[index].events))
    }
}

/// Wakes a thread that waits for descriptors, with `eventfd(2)`. Releasing the object closes its descriptor.
package final class WakeUp: Sendable {
    /// The descriptor, which is readable from ``signal()`` until ``clear()``.
    package let descriptor: Int32

    /// Returns `nil` and sets `errno` when the process has no descriptor left.
    package init?() {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard descriptor >= 0 else { return nil }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Wakes the thread, now or at its next wait.
    package func signal() {
        var one: UInt64 = 1
        // Fails only when the counter is full, and then the descriptor is readable anyway.
        _ = write(descriptor, &one, MemoryLayout.size(ofValue: one))
    }

    /// Makes the descriptor unreadable again.
    package func clear() {
        var count: UInt64 = 0
        _ = read(descriptor, &count, MemoryLayout.size(ofValue: count))
    }
}
