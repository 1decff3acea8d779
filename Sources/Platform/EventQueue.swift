package import CLinux
internal import Glibc

/// The descriptors a thread waits for: `epoll(7)`. A turn costs what happens in it, not what is watched.
///
/// `@unchecked Sendable`: the buffer, and whether the descriptor is open, belong to the one thread that waits; all else is
/// constant, and the kernel's.
package final class EventQueue: @unchecked Sendable {
    /// What can happen to a descriptor.
    package struct Events: OptionSet, Sendable {
        package let rawValue: UInt32

        @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }

        @inlinable package static var readable: Events { Events(rawValue: EPOLLIN.rawValue) }
        @inlinable package static var writable: Events { Events(rawValue: EPOLLOUT.rawValue) }
        /// The other side will send nothing more.
        @inlinable package static var peerClosed: Events { Events(rawValue: EPOLLRDHUP.rawValue) }
        /// The connection is broken, or closed in both directions. Always told.
        @inlinable package static var gone: Events { Events(rawValue: EPOLLERR.rawValue | EPOLLHUP.rawValue) }
        /// Told once, and again only when something new happens.
        @inlinable package static var edge: Events { Events(rawValue: EPOLLET.rawValue) }

        // Asked several times for each request: what `OptionSet` brings is called through witnesses from other modules.

        @inlinable package func contains(_ other: Events) -> Bool { rawValue & other.rawValue == other.rawValue }

        @inlinable package func isDisjoint(with other: Events) -> Bool { rawValue & other.rawValue == 0 }

        @inlinable package func union(_ other: Events) -> Events { Events(rawValue: rawValue | other.rawValue) }
    }

    /// Readable when something has happened to a descriptor that is watched.
    package let descriptor: Int32
    @usableFromInline let ready: UnsafeMutablePointer<epoll_event>
    private let capacity: Int32
    private var isOpen: Bool

    /// - Parameter capacity: how many events a turn takes at most; others come with the next.
    /// - Returns: `nil`, with `errno`, when the process has no descriptor left.
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

    /// Closes the descriptor, once nobody waits any more.
    package func end() {
        if isOpen { close(descriptor) }
        isOpen = false
    }

    /// Watches a descriptor, or changes what is waited for.
    ///
    /// - Parameters:
    ///   - token: what its events are told with. Default: the descriptor.
    ///   - isWatched: whether it is watched already. The kernel knows better where a number was closed, and opened again,
    ///   behind our back.
    package func watch(_ watched: Int32, for events: Events, token: Int? = nil, isWatched: Bool = false) {
        let token = Int64(token ?? Int(watched))
        let operation = isWatched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD
        if lat_epoll_ctl(descriptor, operation, watched, events.rawValue, token) != 0 {
            let other = isWatched ? EPOLL_CTL_ADD : EPOLL_CTL_MOD
            _ = lat_epoll_ctl(descriptor, other, watched, events.rawValue, token)
        }
    }

    /// Watches a descriptor no longer. Wanted before one is closed that a child process may hold a copy of.
    package func forget(_ watched: Int32) { _ = lat_epoll_ctl(descriptor, EPOLL_CTL_DEL, watched, 0, 0) }

    /// Waits until something happens, or for so many milliseconds; -1 for any time.
    ///
    /// - Returns: how many events there are.
    package func wait(milliseconds: Int32) -> Int {
        max(0, Int(epoll_wait(descriptor, ready, capacity, milliseconds)))
    }

    /// One of the events that ``wait(milliseconds:)`` has brought.
    @inlinable package subscript(index: Int) -> (token: Int, events: Events) {
        (Int(lat_epoll_token(ready + index)), Events(rawValue: ready[index].events))
    }
}

/// Wakes a thread that waits for descriptors: `eventfd(2)`. The descriptor is closed when it is released.
package final class WakeUp: Sendable {
    /// Readable once woken, until ``clear()``.
    package let descriptor: Int32

    /// `nil`, with `errno`, when the process has no descriptor left.
    package init?() {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard descriptor >= 0 else { return nil }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Wakes the thread, now or when it waits next.
    package func signal() {
        var one: UInt64 = 1
        // It cannot fail but for a full counter, and then the thread is awake anyway.
        _ = write(descriptor, &one, MemoryLayout.size(ofValue: one))
    }

    /// Not readable any more.
    package func clear() {
        var count: UInt64 = 0
        _ = read(descriptor, &count, MemoryLayout.size(ofValue: count))
    }
}
