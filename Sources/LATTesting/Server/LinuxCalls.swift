import Glibc

/// System calls that Swift's `Glibc` module leaves out (`sys/epoll.h`, and what needs `_GNU_SOURCE`). This
/// module has no C target to include them with, so they are looked up by name, once.
struct LinuxCalls: Sendable {
    typealias EpollCreate = @convention(c) @Sendable (Int32) -> Int32
    typealias EpollControl = @convention(c) @Sendable (Int32, Int32, Int32, UnsafeMutableRawPointer?) -> Int32
    typealias EpollWait = @convention(c) @Sendable (Int32, UnsafeMutableRawPointer?, Int32, Int32) -> Int32
    typealias Accept =
        @convention(c) @Sendable (
            Int32, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?, Int32
        ) -> Int32

    let epollCreate: EpollCreate
    let epollControl: EpollControl
    let epollWait: EpollWait
    /// `accept4`: a connection never slips into a child process that is started at the same moment.
    let accept: Accept

    // `struct epoll_event`: 4 bytes of events, 8 of data; packed on x86-64 alone.
    #if arch(x86_64)
    static let eventSize = 12
    static let eventDataOffset = 4
    #else
    static let eventSize = 16
    static let eventDataOffset = 8
    #endif

    /// - Throws: ``MockServerError`` when the C library lacks one of them.
    static func found() throws -> LinuxCalls {
        guard let shared else {
            throw MockServerError(
                kind: .system(errno: ENOSYS),
                description: "the C library has no epoll or accept4; MockServer runs on Linux")
        }
        return shared
    }

    private static let shared: LinuxCalls? = {
        guard let create = dlsym(nil, "epoll_create1"), let control = dlsym(nil, "epoll_ctl"),
            let wait = dlsym(nil, "epoll_wait"), let accept = dlsym(nil, "accept4")
        else { return nil }
        return LinuxCalls(
            epollCreate: unsafeBitCast(create, to: EpollCreate.self),
            epollControl: unsafeBitCast(control, to: EpollControl.self),
            epollWait: unsafeBitCast(wait, to: EpollWait.self),
            accept: unsafeBitCast(accept, to: Accept.self))
    }()
}
