// The server of the benchmark's `waiting` row. Accepts connections, reads the requests, and never responds. Prints the
// port on which it listens (loopback, chosen by the system), and ends when its standard input closes.

#define _GNU_SOURCE  // accept4

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void die(const char *what) {
    fprintf(stderr, "stallserver: %s: %s\n", what, strerror(errno));
    exit(1);
}

#include "listener.h"

static void watch(int events, int descriptor) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
    if (epoll_ctl(events, EPOLL_CTL_ADD, descriptor, &event) != 0) die("epoll_ctl");
}

int main(void) {
    raise_descriptor_limit();
    int listener = listen_on_loopback(SOCK_NONBLOCK, 4096);

    int events = epoll_create1(EPOLL_CLOEXEC);
    if (events < 0) die("epoll_create1");
    watch(events, listener);
    watch(events, STDIN_FILENO);
    for (;;) {
        struct epoll_event ready[256];
        int count = epoll_wait(events, ready, 256, -1);
        if (count < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < count; i++) {
            int descriptor = ready[i].data.fd;
            char bytes[4096];
            if (descriptor == listener) {
                int connection;
                while ((connection = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
                    watch(events, connection);
                if (errno != EAGAIN && errno != ECONNABORTED) die("accept4");
                continue;
            }
            ssize_t got = read(descriptor, bytes, sizeof bytes);
            if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) continue;
            if (descriptor == STDIN_FILENO) return 0;
            close(descriptor);
        }
    }
}
