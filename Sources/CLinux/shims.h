// The kernel's calls that Swift's Glibc module leaves out, with what Swift cannot call by itself: variadic functions, unions,
// macros of numbers.
#ifndef LAT_CLINUX_SHIMS_H
#define LAT_CLINUX_SHIMS_H

#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

// What an epoll event was registered with: a union in a packed struct in C.
static inline int64_t lat_epoll_token(const struct epoll_event *event) { return (int64_t)event->data.u64; }

static inline int lat_epoll_ctl(int epoll, int operation, int fd, uint32_t events, int64_t token) {
    struct epoll_event event;
    event.events = events;
    event.data.u64 = (uint64_t)token;
    return epoll_ctl(epoll, operation, fd, &event);
}

// Declared here, because sys/socket.h has it with _GNU_SOURCE only.
extern int accept4(int, struct sockaddr *, socklen_t *, int);

// Accepts a connection, non-blocking; it never slips into a child process that is started at the same moment.
static inline int lat_accept(int listener) { return accept4(listener, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK); }

// What came on a socket and was not read (FIONREAD).
static inline int lat_unread_bytes(int socket) {
    int count = 0;
    return ioctl(socket, FIONREAD, &count) == 0 ? count : 0;
}

// What the kernel has still to send or to hear confirmed (SIOCOUTQ).
static inline int lat_unsent_bytes(int socket) {
    int count = 0;
    return ioctl(socket, TIOCOUTQ, &count) == 0 ? count : 0;
}

// Whether the other side has closed its half of a connection, even when there is still something to read.
static inline int lat_is_closed_by_peer(int socket) {
    const short half_closed = EPOLLRDHUP; // POLLRDHUP, which poll.h has with _GNU_SOURCE only.
    struct pollfd state = {.fd = socket, .events = half_closed};
    return poll(&state, 1, 0) == 1 && (state.revents & (half_closed | POLLHUP | POLLERR)) != 0;
}

// syncfs(2), which unistd.h has with _GNU_SOURCE only.
extern int syncfs(int descriptor);

// F_OFD_SETLK, which fcntl.h has with _GNU_SOURCE only.
#define LAT_OFD_SETLK 37

// Locks a byte of a file, or lets go of it, without waiting. The lock belongs to what open(2) gave (fcntl(2), "Open file
// description locks"), and goes with it. -1 and EAGAIN while somebody else has it.
static inline int lat_lock_byte(int descriptor, int64_t offset, int isLocked) {
    struct flock lock = {.l_type = isLocked ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};
    return fcntl(descriptor, LAT_OFD_SETLK, &lock);
}

static inline int lat_syncfs(int descriptor) { return syncfs(descriptor); }

#endif
