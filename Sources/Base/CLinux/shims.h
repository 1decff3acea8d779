// System calls that Swift's Glibc module lacks, and wrappers of what Swift cannot import: variadic functions, unions, macros.
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

// Returns the number that an epoll event was registered with. In C it is a union in a packed struct.
static inline int64_t lat_epoll_token(const struct epoll_event *event) { return (int64_t)event->data.u64; }

static inline int lat_epoll_ctl(int epoll, int operation, int fd, uint32_t events, int64_t token) {
    struct epoll_event event;
    event.events = events;
    event.data.u64 = (uint64_t)token;
    return epoll_ctl(epoll, operation, fd, &event);
}

// accept4(2); sys/socket.h declares it only with _GNU_SOURCE.
extern int accept4(int, struct sockaddr *, socklen_t *, int);

// Accepts a connection. The socket is non-blocking, and no child process inherits it.
static inline int lat_accept(int listener) { return accept4(listener, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK); }

// The number of received bytes that have not been read (FIONREAD).
static inline int lat_unread_bytes(int socket) {
    int count = 0;
    return ioctl(socket, FIONREAD, &count) == 0 ? count : 0;
}

// The number of bytes that the peer has not acknowledged yet (SIOCOUTQ).
static inline int lat_unsent_bytes(int socket) {
    int count = 0;
    return ioctl(socket, TIOCOUTQ, &count) == 0 ? count : 0;
}

// Whether the peer has closed its half of a connection, even if unread bytes are left.
static inline int lat_is_closed_by_peer(int socket) {
    const short half_closed = EPOLLRDHUP; // POLLRDHUP, which poll.h defines only with _GNU_SOURCE.
    struct pollfd state = {.fd = socket, .events = half_closed};
    return poll(&state, 1, 0) == 1 && (state.revents & (half_closed | POLLHUP | POLLERR)) != 0;
}

// syncfs(2); unistd.h declares it only with _GNU_SOURCE.
extern int syncfs(int descriptor);

// F_OFD_SETLK; fcntl.h defines it only with _GNU_SOURCE.
#define LAT_OFD_SETLK 37

// Locks or unlocks a byte of a file without waiting. The lock belongs to the open file description (fcntl(2), "Open file
// description locks") and ends with it. Returns -1 and sets EAGAIN while another description holds it.
static inline int lat_lock_byte(int descriptor, int64_t offset, int isLocked) {
    struct flock lock = {.l_type = isLocked ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};
    return fcntl(descriptor, LAT_OFD_SETLK, &lock);
}

static inline int lat_syncfs(int descriptor) { return syncfs(descriptor); }

#endif
