// Measures the echo of WebSocket messages in C: libcurl opens the connections and carries the bytes
// (CURLOPT_CONNECT_ONLY, curl_easy_send, curl_easy_recv), epoll tells which are ready, and wslay makes and reads the
// frames.
//
//   socketbench echo URL MESSAGES SOCKETS WARMUP SIZE    each socket sends a message of SIZE bytes whenever one has
//                                                        come back; it has one message on its way, or four if they
//                                                        are larger than 1 KiB
//
// Prints one line of JSON. CPU time is user + system over the measured messages only, after the warm-up.

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>
#include <wslay/wslay.h>

#include "measure.h"

struct client {
    CURL *easy;
    wslay_event_context_ptr frames;
    curl_socket_t descriptor;
    uint32_t watched;
    // The bytes that arrived right after the head of the handshake's response.
    unsigned char early[4096];
    size_t early_count, early_used;
};

static long to_send, to_receive;
static size_t size;
static unsigned char *payload;

static void die(const char *what, const char *why) {
    fprintf(stderr, "socketbench: %s: %s\n", what, why);
    exit(1);
}

static ssize_t receive_bytes(
    wslay_event_context_ptr frames, uint8_t *bytes, size_t count, int flags, void *context) {
    (void)flags;
    struct client *client = context;
    if (client->early_used < client->early_count) {
        size_t left = client->early_count - client->early_used, taken = count < left ? count : left;
        memcpy(bytes, client->early + client->early_used, taken);
        client->early_used += taken;
        return (ssize_t)taken;
    }
    size_t got = 0;
    CURLcode code = curl_easy_recv(client->easy, bytes, count, &got);
    if (code == CURLE_OK && got > 0) return (ssize_t)got;
    wslay_event_set_error(frames, code == CURLE_AGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static ssize_t send_bytes(
    wslay_event_context_ptr frames, const uint8_t *bytes, size_t count, int flags, void *context) {
    (void)flags;
    struct client *client = context;
    size_t sent = 0;
    CURLcode code = curl_easy_send(client->easy, bytes, count, &sent);
    if (code == CURLE_OK) return (ssize_t)sent;
    wslay_event_set_error(frames, code == CURLE_AGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

// Masks are random bytes of the system, taken for many frames at once.
static int make_mask(wslay_event_context_ptr frames, uint8_t *mask, size_t count, void *context) {
    (void)frames;
    (void)context;
    static unsigned char pool[256];
    static size_t used = sizeof pool;
    if (used + count > sizeof pool) {
        if (getentropy(pool, sizeof pool) != 0) return -1;
        used = 0;
    }
    memcpy(mask, pool + used, count);
    used += count;
    return 0;
}

static void send_next(wslay_event_context_ptr frames) {
    if (to_send == 0) return;
    to_send--;
    struct wslay_event_msg message = {.opcode = WSLAY_BINARY_FRAME, .msg = payload, .msg_length = size};
    if (wslay_event_queue_msg(frames, &message) != 0) die("wslay_event_queue_msg", "failed");
}

static void received(
    wslay_event_context_ptr frames, const struct wslay_event_on_msg_recv_arg *message, void *context) {
    (void)context;
    if (message->opcode != WSLAY_BINARY_FRAME || message->msg_length != size) die("echo", "not what was sent");
    to_receive--;
    send_next(frames);
}

static const struct wslay_event_callbacks callbacks = {
    .recv_callback = receive_bytes, .send_callback = send_bytes, .genmask_callback = make_mask,
    .on_msg_recv_callback = received,
};

static void wait_for(curl_socket_t descriptor, uint32_t events) {
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = events};
    if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) != 0) die("epoll_ctl", strerror(errno));
    epoll_wait(set, &event, 1, -1);
    close(set);
}

static void open_socket(struct client *client, const char *url) {
    char request[512], host[128];
    if (sscanf(url, "http://%127[^/]", host) != 1) die("URL", url);
    client->easy = curl_easy_init();
    curl_easy_setopt(client->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(client->easy, CURLOPT_URL, url);
    curl_easy_setopt(client->easy, CURLOPT_CONNECT_ONLY, 1L);
    CURLcode code = curl_easy_perform(client->easy);
    if (code != CURLE_OK) die("connect", curl_easy_strerror(code));
    curl_easy_getinfo(client->easy, CURLINFO_ACTIVESOCKET, &client->descriptor);
    int length = snprintf(request, sizeof request,
                          "GET / HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", host);
    size_t sent = 0, got = 0;
    if (curl_easy_send(client->easy, request, (size_t)length, &sent) != CURLE_OK || (int)sent != length)
        die("handshake", "not sent");
    char *end = NULL;
    while (!end) {
        code = curl_easy_recv(client->easy, client->early + client->early_count,
                              sizeof client->early - 1 - client->early_count, &got);
        if (code == CURLE_AGAIN) {
            wait_for(client->descriptor, EPOLLIN);
            continue;
        }
        if (code != CURLE_OK || got == 0) die("handshake", "no answer");
        client->early_count += got;
        client->early[client->early_count] = '\0';
        end = strstr((char *)client->early, "\r\n\r\n");
    }
    if (strncmp((char *)client->early, "HTTP/1.1 101", 12) != 0) die("handshake", "refused");
    client->early_used = (size_t)(end + 4 - (char *)client->early);
    if (wslay_event_context_client_init(&client->frames, &callbacks, client) != 0) die("wslay", "no memory");
}

// Sends what is queued, and asks epoll for room if bytes are left.
static void flush(struct client *client, int events) {
    if (wslay_event_want_write(client->frames) && wslay_event_send(client->frames) != 0) die("send", "failed");
    uint32_t wanted = EPOLLIN | (wslay_event_want_write(client->frames) ? EPOLLOUT : 0);
    if (wanted == client->watched) return;
    struct epoll_event event = {.events = wanted, .data.ptr = client};
    if (epoll_ctl(events, client->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, client->descriptor, &event) != 0)
        die("epoll_ctl", strerror(errno));
    client->watched = wanted;
}

static void run(struct client *clients, long sockets, int events, long messages) {
    to_send = to_receive = messages;
    for (long i = 0; i < sockets; i++) {
        for (int window = size > 1024 ? 4 : 1; window > 0; window--) send_next(clients[i].frames);
        flush(&clients[i], events);
    }
    while (to_receive > 0) {
        struct epoll_event ready[64];
        int count = epoll_wait(events, ready, 64, -1);
        if (count < 0 && errno != EINTR) die("epoll_wait", strerror(errno));
        for (int i = 0; i < count; i++) {
            struct client *client = ready[i].data.ptr;
            if ((ready[i].events & ~(uint32_t)EPOLLOUT) && wslay_event_recv(client->frames) != 0) die("receive", "failed");
            flush(client, events);
        }
    }
}

int main(int count, char **arguments) {
    if (count != 7 || strcmp(arguments[1], "echo") != 0) {
        fprintf(stderr, "usage: %s echo URL MESSAGES SOCKETS WARMUP SIZE\n", arguments[0]);
        return 2;
    }
    long messages = atol(arguments[3]), sockets = atol(arguments[4]), warmup = atol(arguments[5]);
    size = (size_t)atol(arguments[6]);
    curl_global_init(CURL_GLOBAL_ALL);
    payload = malloc(size);
    struct client *clients = calloc((size_t)sockets, sizeof *clients);
    int events = epoll_create1(EPOLL_CLOEXEC);
    if (!payload || !clients || events < 0) die("start", strerror(errno));
    memset(payload, 'x', size);
    for (long i = 0; i < sockets; i++) open_socket(&clients[i], arguments[2]);
    if (warmup > 0) run(clients, sockets, events, warmup);
    double cpu_before = cpu(), started = now();
    run(clients, sockets, events, messages);
    double used = cpu() - cpu_before, seconds = now() - started;
    printf("{\"program\":\"c\",\"mode\":\"echo\",\"requests\":%ld,\"in_flight\":%ld,\"seconds\":%f,\"cpu_seconds\":%f,"
           "\"cpu_us_per_request\":%f,\"requests_per_second\":%f}\n",
           messages, sockets, seconds, used, used / (double)messages * 1e6, (double)messages / seconds);
    return 0;
}
