// Measures the same work in C with libcurl, written as libcurl's documentation suggests.
//
//   curlbench multi      URL REQUESTS IN_FLIGHT WARMUP    curl_multi_socket_action on epoll
//   curlbench multi-bare URL REQUESTS IN_FLIGHT WARMUP    the same without User-Agent and Accept-Encoding
//   curlbench multi-poll URL REQUESTS IN_FLIGHT WARMUP    curl_multi_poll and curl_multi_perform
//   curlbench urls       URL REQUESTS IN_FLIGHT WARMUP    multi, to 10,000 URLs that differ in their query
//   curlbench post       URL REQUESTS IN_FLIGHT WARMUP    multi, a POST of 1 KiB of JSON, encoded in advance
//   curlbench easy       URL REQUESTS 1 WARMUP            curl_easy_perform on one handle, one at a time
//   curlbench download   URL 1 1 0 FILE                   curl_easy_perform and fwrite
//   curlbench waiting    URL REQUESTS REQUESTS 0          requests that get no response; see stallserver.c
//
// LAT_BENCH_CA in the environment names the trusted certificates for https URLs. Connections share their TLS sessions.
//
// Prints one line of JSON. CPU time is user + system over the measured requests only, after the warm-up.

#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "measure.h"

struct transfer {
    CURL *easy;
    char *body;
    size_t length, capacity;
    double started;
    double *latency;  // receives the duration of the request in microseconds
};

static const char *url, *authorities;
static CURLSH *sessions;
static int bare, urls;
static char *content;  // the body of a POST; NULL for GET
static struct curl_slist *content_fields;
static struct transfer *transfers;
static long in_flight;
static double *latencies;

static void die(const char *what, const char *why) {
    fprintf(stderr, "curlbench: %s: %s\n", what, why);
    exit(1);
}

// The peak memory of this program. ru_maxrss is not used, because it includes the memory of the parent before exec.
static long peak_kb(void) {
    char line[256];
    long peak = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (!file) die("/proc/self/status", strerror(errno));
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld", &peak) == 1) break;
    fclose(file);
    return peak;
}

static size_t collect(char *bytes, size_t size, size_t count, void *context) {
    struct transfer *transfer = context;
    size_t added = size * count;
    if (transfer->length + added > transfer->capacity) {
        size_t capacity = transfer->capacity ? transfer->capacity : 4096;
        while (capacity < transfer->length + added) capacity *= 2;
        char *body = realloc(transfer->body, capacity);
        if (!body) return 0;
        transfer->body = body;
        transfer->capacity = capacity;
    }
    memcpy(transfer->body + transfer->length, bytes, added);
    transfer->length += added;
    return added;
}

static void prepare(struct transfer *transfer) {
    transfer->easy = curl_easy_init();
    if (!transfer->easy) die("curl_easy_init", "no memory");
    curl_easy_setopt(transfer->easy, CURLOPT_NOSIGNAL, 1L);
    if (!bare) {
        // Go and URLSession send such header fields too. The mode multi-bare omits them.
        curl_easy_setopt(transfer->easy, CURLOPT_USERAGENT, "LATNetworking/0.1.0");
        curl_easy_setopt(transfer->easy, CURLOPT_ACCEPT_ENCODING, "gzip, br, zstd");
    }
    if (authorities) {
        curl_easy_setopt(transfer->easy, CURLOPT_CAINFO, authorities);
        // With a CAPATH too, libcurl would read the CA file again for each connection.
        curl_easy_setopt(transfer->easy, CURLOPT_CAPATH, NULL);
        curl_easy_setopt(transfer->easy, CURLOPT_SHARE, sessions);
        // Waits until a new connection turns out to be shareable, instead of opening another.
        curl_easy_setopt(transfer->easy, CURLOPT_PIPEWAIT, 1L);
    }
    if (content) {
        curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, content_fields);
        curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDS, content);
        curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(content));
    }
    curl_easy_setopt(transfer->easy, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(transfer->easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer);
}

// Makes the body of a POST: an order of exactly 1,024 bytes, as an app may send it. lat-bench posts the same.
static void make_content(void) {
    const char *head = "{\"id\":1842,\"customer\":\"Ada Lovelace\",\"express\":true,\"amount\":19.5,\"lines\":[1,2,3],\"note\":\"";
    size_t length = 1024, used = strlen(head);
    content = malloc(length + 1);
    content_fields = curl_slist_append(NULL, "Content-Type: application/json");
    if (!content || !content_fields) die("post", "no memory");
    memset(content, 'n', length);
    memcpy(content, head, used);
    memcpy(content + length - 2, "\"}", 3);
}

static void check(struct transfer *transfer, CURLcode result) {
    long status = 0;
    if (result != CURLE_OK) die(url, curl_easy_strerror(result));
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) die(url, "the status is not 200");
    if (transfer->latency) *transfer->latency = (now() - transfer->started) * 1e6;
}

// One request at a time.

static void run_easy(long total, double *times) {
    struct transfer *transfer = &transfers[0];
    for (long i = 0; i < total; i++) {
        transfer->length = 0;
        transfer->latency = times ? times + i : NULL;
        transfer->started = now();
        curl_easy_setopt(transfer->easy, CURLOPT_URL, url);
        check(transfer, curl_easy_perform(transfer->easy));
    }
}

// Many requests at a time.

static CURLM *multi;
static int events;  // the epoll descriptor
static long timeout_ms = -1;
static double timeout_at;
static long started, finished, wanted;
static double *times_of_run;

static void start(struct transfer *transfer) {
    transfer->length = 0;
    transfer->latency = times_of_run ? times_of_run + started : NULL;
    transfer->started = now();
    if (urls) {
        char one[2048];
        snprintf(one, sizeof one, "%s?n=%ld", url, started % 10000);
        curl_easy_setopt(transfer->easy, CURLOPT_URL, one);
    } else {
        curl_easy_setopt(transfer->easy, CURLOPT_URL, url);
    }
    CURLMcode code = curl_multi_add_handle(multi, transfer->easy);
    if (code != CURLM_OK) die("curl_multi_add_handle", curl_multi_strerror(code));
    started++;
}

static void reap(void) {
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(multi, &left))) {
        if (message->msg != CURLMSG_DONE) continue;
        struct transfer *transfer;
        CURLcode result = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        check(transfer, result);
        curl_multi_remove_handle(multi, transfer->easy);
        finished++;
        if (started < wanted) start(transfer);
    }
}

static int on_socket(CURL *easy, curl_socket_t socket, int what, void *context, void *known) {
    (void)easy;
    (void)context;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(events, EPOLL_CTL_DEL, socket, NULL);
        return 0;
    }
    struct epoll_event event = {.data.fd = socket};
    if (what & CURL_POLL_IN) event.events |= EPOLLIN;
    if (what & CURL_POLL_OUT) event.events |= EPOLLOUT;
    if (epoll_ctl(events, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event) != 0) return -1;
    curl_multi_assign(multi, socket, &events);  // a pointer that is not null marks the socket as known to epoll
    return 0;
}

static int on_timeout(CURLM *handle, long milliseconds, void *context) {
    (void)handle;
    (void)context;
    timeout_ms = milliseconds;
    timeout_at = now() + milliseconds / 1e3;
    return 0;
}

// One turn of the loop: waits for an event or a timer, at most `limit_ms` (-1: without limit), and lets libcurl act.
static void turn(long limit_ms) {
    struct epoll_event ready[256];
    int running, wait = (int)limit_ms;
    if (timeout_ms >= 0) {
        double left = (timeout_at - now()) * 1e3;
        int until = left <= 0 ? 0 : (int)left + 1;
        if (wait < 0 || until < wait) wait = until;
    }
    int count = epoll_wait(events, ready, 256, wait);
    if (count < 0 && errno != EINTR) die("epoll_wait", strerror(errno));
    for (int i = 0; i < count; i++) {
        int what = 0;
        if (ready[i].events & EPOLLIN) what |= CURL_CSELECT_IN;
        if (ready[i].events & EPOLLOUT) what |= CURL_CSELECT_OUT;
        if (ready[i].events & (EPOLLERR | EPOLLHUP)) what |= CURL_CSELECT_ERR;
        curl_multi_socket_action(multi, ready[i].data.fd, what, &running);
    }
    if (timeout_ms >= 0 && now() >= timeout_at) {
        timeout_ms = -1;
        curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
}

static void begin(long total, double *times) {
    started = finished = 0;
    wanted = total;
    times_of_run = times;
    for (long i = 0; i < in_flight && started < wanted; i++) start(&transfers[i]);
}

static void run_multi(long total, double *times) {
    begin(total, times);
    while (finished < wanted) {
        turn(-1);
        reap();
    }
}

static void run_multi_poll(long total, double *times) {
    int running;
    begin(total, times);
    while (finished < wanted) {
        CURLMcode code = curl_multi_perform(multi, &running);
        if (code == CURLM_OK && finished < wanted) {
            reap();
            if (finished < wanted) code = curl_multi_poll(multi, NULL, 0, 1000, NULL);
        }
        if (code != CURLM_OK) die("curl_multi_poll", curl_multi_strerror(code));
    }
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// A download to a file.

static void run_download(const char *path) {
    struct transfer *transfer = &transfers[0];
    FILE *file = fopen(path, "wb");
    if (!file) die(path, strerror(errno));
    curl_easy_setopt(transfer->easy, CURLOPT_URL, url);
    curl_easy_setopt(transfer->easy, CURLOPT_WRITEFUNCTION, NULL);  // libcurl's default, fwrite
    curl_easy_setopt(transfer->easy, CURLOPT_WRITEDATA, file);
    check(transfer, curl_easy_perform(transfer->easy));
    if (fclose(file) != 0) die(path, strerror(errno));
}

// Requests that get no response.

static long resident_kb(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1) die("/proc/self/statm", "not readable");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static long open_descriptors(void) {
    long count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) die("/proc/self/fd", strerror(errno));
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

static int run_waiting(long total) {
    long before = resident_kb(), descriptors = open_descriptors();
    double deadline = now() + 60;
    for (long i = 0; i < in_flight; i++) prepare(&transfers[i]);  // measured, because each request needs its handle
    begin(total, NULL);
    while (open_descriptors() < descriptors + total) {
        for (int i = 0; i < 100; i++) turn(1);
        reap();
        if (now() > deadline) die("waiting", "not every request got its connection within a minute");
    }
    // Runs the loop for another second, in which the last requests are sent.
    for (double quiet = now() + 1; now() < quiet;) turn(100);
    long after = resident_kb();
    double wall = now(), used = cpu();
    while (now() < wall + 3) turn(1000);
    reap();
    used = cpu() - used;
    wall = now() - wall;
    printf("{\"program\":\"c\",\"mode\":\"waiting\",\"requests\":%ld,\"in_flight\":%ld,\"seconds\":%.3f,\"cpu_seconds\":%.6f,"
           "\"kb_per_request\":%.2f,\"rss_kb\":%ld,\"rss_peak_kb\":%ld}\n",
           total, total - finished, wall, used, (double)(after - before) / total, after, peak_kb());
    return 0;
}

int main(int count, char **arguments) {
    if (count < 6) {
        fprintf(stderr, "usage: curlbench multi|multi-bare|multi-poll|urls|post|easy|download|waiting"
                        " URL REQUESTS IN_FLIGHT WARMUP [FILE]\n");
        return 2;
    }
    const char *mode = arguments[1];
    url = arguments[2];
    long total = atol(arguments[3]), warmup = atol(arguments[5]);
    in_flight = atol(arguments[4]);
    int easy = !strcmp(mode, "easy"), download = !strcmp(mode, "download"), waiting = !strcmp(mode, "waiting");
    int poll = !strcmp(mode, "multi-poll"), post = !strcmp(mode, "post");
    bare = !strcmp(mode, "multi-bare");
    urls = !strcmp(mode, "urls");
    int known = easy || download || waiting || poll || post || bare || urls || !strcmp(mode, "multi");
    if (total < 1 || in_flight < 1 || !known) return 2;
    if (download && count < 7) return 2;

    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);

    curl_global_init(CURL_GLOBAL_DEFAULT);
    authorities = getenv("LAT_BENCH_CA");
    if (authorities) {
        sessions = curl_share_init();
        if (!sessions) die("curl_share_init", "no memory");
        curl_share_setopt(sessions, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    }
    transfers = calloc(in_flight, sizeof *transfers);
    latencies = calloc(total, sizeof *latencies);
    if (post) make_content();
    if (!transfers || !latencies) die("calloc", "no memory");
    if (!waiting)
        for (long i = 0; i < in_flight; i++) prepare(&transfers[i]);

    multi = curl_multi_init();
    events = epoll_create1(EPOLL_CLOEXEC);
    if (!multi || events < 0) die("set up", "no memory or descriptors");
    // Keeps as many idle connections as there are requests in flight. The default may be fewer.
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, in_flight);
    if (!poll) {
        curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
        curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    }
    if (waiting) {
        return run_waiting(total);
    }

    void (*run)(long, double *) = easy ? run_easy : poll ? run_multi_poll : run_multi;
    if (warmup > 0) run(warmup, NULL);
    double wall = now(), used = cpu();
    if (download) run_download(arguments[6]);
    else run(total, latencies);
    used = cpu() - used;
    wall = now() - wall;

    printf("{\"program\":\"c\",\"mode\":\"%s\",\"requests\":%ld,\"in_flight\":%ld,\"seconds\":%.6f,\"cpu_seconds\":%.6f,"
           "\"cpu_us_per_request\":%.3f,\"rss_peak_kb\":%ld,\"requests_per_second\":%.1f",
           mode, total, in_flight, wall, used, used / total * 1e6, peak_kb(), total / wall);
    if (!download) {
        qsort(latencies, total, sizeof *latencies, by_value);
        printf(",\"p50_us\":%.1f,\"p99_us\":%.1f", latencies[total / 2], latencies[(long)(total * 0.99)]);
    }
    printf("}\n");
    return 0;
}
