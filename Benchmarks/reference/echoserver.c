// The server of the benchmark's `live` row: a WebSocket server that sends every message back. Prints the port on which it
// listens (loopback, chosen by the system), and ends when its standard input closes. It does just what the row needs: it
// answers every request with 101, knows no extension, and does not check what it echoes.

#define _GNU_SOURCE  // accept4, memmem

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
    int descriptor, is_open;
    size_t count, capacity;
    unsigned char *bytes;  // what has arrived and is not answered
};

static void die(const char *what) {
    fprintf(stderr, "echoserver: %s: %s\n", what, strerror(errno));
    exit(1);
}

#include "listener.h"

static void watch(int events, int descriptor, void *data) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};
    if (epoll_ctl(events, EPOLL_CTL_ADD, descriptor, &event) != 0) die("epoll_ctl");
}

// Writes everything, and waits for room when there is none: the clients of the benchmark always read. Returns 0 at the end
// of the connection.
static int write_all(int descriptor, const unsigned char *bytes, size_t count) {
    while (count > 0) {
        ssize_t written = write(descriptor, bytes, count);
        if (written < 0 && errno == EAGAIN) {
            struct pollfd room = {.fd = descriptor, .events = POLLOUT};
            poll(&room, 1, -1);
        } else if (written < 0 && errno != EINTR) {
            return 0;
        } else if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        }
    }
    return 1;
}

// Answers the request, when all of it is there. Returns its size, 0 while bytes are missing, and -1 without a key or at
// the end of the connection.
static long upgrade(struct connection *connection) {
    static const char name[] = "Sec-WebSocket-Key: ", tail[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char *end = memmem(connection->bytes, connection->count, "\r\n\r\n", 4);
    if (!end) return 0;
    unsigned char *key = memmem(connection->bytes, (size_t)(end - connection->bytes), name, sizeof name - 1);
    if (!key) return -1;
    key += sizeof name - 1;
    char text[128], accept[64], answer[256];
    int length = snprintf(text, sizeof text, "%.24s%s", (char *)key, tail);
    unsigned char digest[SHA_DIGEST_LENGTH];
    SHA1((unsigned char *)text, (size_t)length, digest);
    EVP_EncodeBlock((unsigned char *)accept, digest, sizeof digest);
    length = snprintf(answer, sizeof answer,
                      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                      "Sec-WebSocket-Accept: %s\r\n\r\n", accept);
    if (!write_all(connection->descriptor, (unsigned char *)answer, (size_t)length)) return -1;
    connection->is_open = 1;
    return end + 4 - connection->bytes;
}

// Turns all whole frames into their answers in place, and writes the answers. An answer is shorter than its frame,
// because it has no mask. Returns how many bytes were used, and -1 at the end of the connection.
static long echo(struct connection *connection) {
    unsigned char *from = connection->bytes, *to = from, *end = from + connection->count;
    int is_closed = 0;
    while (end - from >= 2 && !is_closed) {
        uint64_t length = from[1] & 0x7F;
        size_t head = length == 127 ? 10 : length == 126 ? 4 : 2;
        if ((size_t)(end - from) < head + 4) break;
        if (head > 2) {
            length = 0;
            for (size_t i = 2; i < head; i++) length = length << 8 | from[i];
        }
        if ((uint64_t)(end - from) < head + 4 + length) break;
        unsigned char mask[8], *payload = from + head + 4;
        memcpy(mask, from + head, 4);
        memcpy(mask + 4, mask, 4);
        uint64_t wide, word;
        memcpy(&wide, mask, 8);
        is_closed = (from[0] & 0x0F) == 8;
        // A ping is answered with a pong.
        to[0] = (from[0] & 0x0F) == 9 ? 0x8A : from[0];
        to[1] = from[1] & 0x7F;
        memmove(to + 2, from + 2, head - 2);
        to += head;
        uint64_t i = 0;
        for (; i + 8 <= length; i += 8) {
            memcpy(&word, payload + i, 8);
            word ^= wide;
            memcpy(to + i, &word, 8);
        }
        for (; i < length; i++) to[i] = payload[i] ^ mask[i & 3];
        to += length;
        from = payload + length;
    }
    if (!write_all(connection->descriptor, connection->bytes, (size_t)(to - connection->bytes)) || is_closed) return -1;
    return from - connection->bytes;
}

// Reads what is there and answers it. Returns 0 at the end of the connection.
static int serve(struct connection *connection) {
    if (connection->capacity - connection->count < 4096) {
        connection->capacity = connection->capacity ? connection->capacity * 2 : 8192;
        connection->bytes = realloc(connection->bytes, connection->capacity);
        if (!connection->bytes) die("realloc");
    }
    ssize_t got = read(connection->descriptor, connection->bytes + connection->count,
                       connection->capacity - connection->count);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    connection->count += (size_t)got;
    long used = connection->is_open ? echo(connection) : upgrade(connection);
    if (used < 0) return 0;
    connection->count -= (size_t)used;
    memmove(connection->bytes, connection->bytes + used, connection->count);
    return 1;
}

int main(void) {
    raise_descriptor_limit();
    int listener = listen_on_loopback(SOCK_NONBLOCK, 4096);

    static struct connection input = {.descriptor = STDIN_FILENO}, listening;
    listening.descriptor = listener;
    int events = epoll_create1(EPOLL_CLOEXEC);
    if (events < 0) die("epoll_create1");
    watch(events, listener, &listening);
    watch(events, STDIN_FILENO, &input);
    for (;;) {
        struct epoll_event ready[256];
        int count = epoll_wait(events, ready, 256, -1);
        if (count < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < count; i++) {
            struct connection *connection = ready[i].data.ptr;
            if (connection == &input) return 0;
            if (connection == &listening) {
                int descriptor;
                while ((descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
                    int on = 1;
                    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                    struct connection *made = calloc(1, sizeof *made);
                    if (!made) die("calloc");
                    made->descriptor = descriptor;
                    watch(events, descriptor, made);
                }
                if (errno != EAGAIN && errno != ECONNABORTED) die("accept4");
            } else if (!serve(connection)) {
                close(connection->descriptor);
                free(connection->bytes);
                free(connection);
            }
        }
    }
}
