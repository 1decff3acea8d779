// The server of the benchmark's `upload` and `resumable` rows. Reads and discards request bodies that have a Content-Length.
// Responds to each with 200 and the number of bytes it read. An empty POST or PUT begins an upload of tus 1.0 or of the IETF
// draft, to which each PATCH appends, whatever its offset; POST with `?uploads` begins one of S3, whose parts are counted.
// Prints the port on which it listens (loopback, chosen by the system), and ends when its standard input closes.

#define _GNU_SOURCE  // accept4, strcasestr, memmem

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Each connection has its thread, because the parts of S3 come side by side.
static _Thread_local char buffer[1 << 20];
// The bytes of the upload.
static atomic_llong stored;

static void die(const char *what) {
    fprintf(stderr, "sinkserver: %s: %s\n", what, strerror(errno));
    exit(1);
}

#include "listener.h"

// Reads one request and answers it. Returns 0 at the end of the connection.
static int serve(int connection) {
    size_t head = 0;
    char *end = NULL;
    while (end == NULL && head < sizeof buffer - 1) {
        ssize_t got = read(connection, buffer + head, sizeof buffer - 1 - head);
        if (got <= 0) return 0;
        head += (size_t)got;
        end = memmem(buffer, head, "\r\n\r\n", 4);
    }
    if (end == NULL) return 0;
    *end = '\0';
    const char *length = strcasestr(buffer, "\r\nContent-Length:");
    long long wanted = length ? atoll(length + 17) : 0;
    int posts = strncmp(buffer, "POST ", 5) == 0, puts = strncmp(buffer, "PUT ", 4) == 0;
    int multipart = strstr(buffer, "?uploads=") || strstr(buffer, "uploadId=");
    int joins = posts && strstr(buffer, "uploadId=") != NULL;
    int creates = wanted == 0 && (posts || puts);
    int completes = strcasestr(buffer, "\r\nUpload-Complete: ?1") != NULL;
    int appends = strncmp(buffer, "PATCH ", 6) == 0;
    int asks = strncmp(buffer, "HEAD ", 5) == 0 || strncmp(buffer, "OPTIONS ", 8) == 0;
    long long received = (long long)(head - (size_t)(end + 4 - buffer));
    if (strcasestr(buffer, "\r\nExpect: 100-continue") && received == 0)
        if (write(connection, "HTTP/1.1 100 Continue\r\n\r\n", 25) != 25) return 0;
    while (received < wanted) {
        ssize_t got = read(connection, buffer, sizeof buffer);
        if (got <= 0) return 0;
        received += got;
    }
    if (creates || appends || asks || multipart) {
        if (creates) stored = 0;
        if (appends || (puts && multipart)) stored += received;
        const char *about = joins ? "<CompleteMultipartUploadResult/>" : multipart ? "<UploadId>1</UploadId>" : "";
        char answer[320];
        int count = snprintf(answer, sizeof answer,
                             "HTTP/1.1 %s\r\nTus-Resumable: 1.0.0\r\nLocation: /1\r\nUpload-Offset: %lld\r\n"
                             "Upload-Draft-Interop-Version: 8\r\nUpload-Complete: %s\r\nETag: \"1\"\r\n"
                             "Content-Length: %zu\r\n\r\n%s", creates ? "201 Created" : "200 OK", (long long)stored,
                             completes ? "?1" : "?0", strlen(about), about);
        return write(connection, answer, (size_t)count) == count;
    }
    char body[32], answer[128];
    int size = snprintf(body, sizeof body, "%lld", received);
    int count = snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, body);
    return write(connection, answer, (size_t)count) == count;
}

static void *serve_all(void *connection) {
    while (serve((int)(intptr_t)connection)) continue;
    close((int)(intptr_t)connection);
    return NULL;
}

int main(void) {
    int listener = listen_on_loopback(0, 16);
    struct pollfd ready[2] = {{.fd = listener, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
    for (;;) {
        if (poll(ready, 2, -1) < 0 && errno != EINTR) die("poll");
        if (ready[1].revents) return 0;
        if (!ready[0].revents) continue;
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0) continue;
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve_all, (void *)(intptr_t)connection) != 0) die("pthread_create");
        pthread_detach(thread);
    }
}
