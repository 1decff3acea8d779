// libcurl and the kernel's event calls, with what Swift cannot call by itself:
// variadic functions, and macros that are casts.
#ifndef LAT_CLIBCURL_SHIMS_H
#define LAT_CLIBCURL_SHIMS_H

#if !__has_include(<curl/curl.h>)
#error "libcurl's headers were not found. Run scripts/setup, or: apt-get install libcurl4-openssl-dev pkg-config"
#else

#include <curl/curl.h>

#if LIBCURL_VERSION_NUM < 0x075800
#error "libcurl 7.88 or newer is needed. On Debian 12, Ubuntu 24.04 and later: apt-get install libcurl4-openssl-dev"
#endif

#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static inline CURLcode lat_setopt_long(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode lat_setopt_off(CURL *handle, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode lat_setopt_pointer(CURL *handle, CURLoption option, const void *value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode lat_setopt_string(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode lat_setopt_data(CURL *handle, CURLoption option, curl_write_callback callback) {
    return curl_easy_setopt(handle, option, callback);
}

static inline CURLcode lat_setopt_read(CURL *handle, curl_read_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_READFUNCTION, callback);
}

static inline CURLcode lat_setopt_seek(CURL *handle, curl_seek_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, callback);
}

static inline CURLcode lat_setopt_progress(CURL *handle, curl_xferinfo_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, callback);
}

static inline CURLcode lat_setopt_prereq(CURL *handle, curl_prereq_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, callback);
}


static inline CURLcode lat_setopt_trailers(CURL *handle, curl_trailer_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_TRAILERFUNCTION, callback);
}

static inline CURLcode lat_setopt_open_socket(CURL *handle, curl_opensocket_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, callback);
}

static inline CURLcode lat_setopt_close_socket(CURL *handle, curl_closesocket_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_CLOSESOCKETFUNCTION, callback);
}

static inline CURLcode lat_getinfo_long(CURL *handle, CURLINFO info, long *value) {
    return curl_easy_getinfo(handle, info, value);
}

static inline CURLcode lat_getinfo_off(CURL *handle, CURLINFO info, curl_off_t *value) {
    return curl_easy_getinfo(handle, info, value);
}

static inline CURLcode lat_getinfo_string(CURL *handle, CURLINFO info, const char **value) {
    return curl_easy_getinfo(handle, info, value);
}

static inline CURLcode lat_getinfo_socket(CURL *handle, CURLINFO info, curl_socket_t *value) {
    return curl_easy_getinfo(handle, info, value);
}

static inline CURLcode lat_getinfo_certificates(CURL *handle, struct curl_certinfo **chain) {
    return curl_easy_getinfo(handle, CURLINFO_CERTINFO, chain);
}

static inline CURLMcode lat_multi_setopt_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}

static inline CURLMcode lat_multi_setopt_pointer(CURLM *multi, CURLMoption option, void *value) {
    return curl_multi_setopt(multi, option, value);
}

static inline CURLMcode lat_multi_setopt_socket(CURLM *multi, curl_socket_callback callback) {
    return curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, callback);
}

static inline CURLMcode lat_multi_setopt_timer(CURLM *multi, curl_multi_timer_callback callback) {
    return curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, callback);
}

static inline CURLSHcode lat_share_setopt_long(CURLSH *share, CURLSHoption option, long value) {
    return curl_share_setopt(share, option, value);
}

// The result of a message: a union in C.
static inline CURLcode lat_message_result(const CURLMsg *message) { return message->data.result; }

// The descriptor of an epoll event: a union in a packed struct in C.
static inline int lat_epoll_fd(const struct epoll_event *event) { return event->data.fd; }

static inline int lat_epoll_ctl(int epoll, int operation, int fd, uint32_t events) {
    struct epoll_event event;
    event.events = events;
    event.data.fd = fd;
    return epoll_ctl(epoll, operation, fd, &event);
}

// Keeps OpenSSL from tearing itself down in exit() while an engine thread still uses it. OpenSSL is looked up
// and not linked, because libcurl may have been built with another TLS library.
static inline void lat_keep_openssl_past_exit(void) {
    typedef int (*init_crypto)(uint64_t, const void *);
    init_crypto init = (init_crypto)dlsym(RTLD_DEFAULT, "OPENSSL_init_crypto");
    if (init) init(0x00080000UL /* OPENSSL_INIT_NO_ATEXIT */, NULL);
}

// libcurl hands host names to libidn2 in the thread's charset, and a program starts in that of "C". The locale is
// kept for as long as the thread lives, and there are few threads.
static inline void lat_use_utf8_names(void) {
    locale_t names = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (names) uselocale(names);
}

// What a TLS connection saw of its handshake that libcurl's one code does not tell. Held by the SSL_CTX and by whoever
// asks, on one thread.
typedef struct {
    int references;
    // The server asked for a certificate of the client.
    int certificate_wanted;
    // The last alert the server sent (RFC 8446, 6.2), -1 for none.
    int alert;
} lat_tls_notes;

typedef struct {
    lat_tls_notes *notes;
} lat_tls_slot;

static inline void lat_tls_forget(lat_tls_slot *slot) {
    if (slot->notes && --slot->notes->references == 0) free(slot->notes);
    slot->notes = NULL;
}

static void lat_tls_release(void *parent, void *pointer, void *data, int index, long number, void *argument) {
    (void)parent, (void)data, (void)index, (void)number, (void)argument;
    lat_tls_notes *notes = pointer;
    if (notes && --notes->references == 0) free(notes);
}

static void lat_tls_saw(
    int is_written, int version, int type, const void *bytes, size_t count, void *ssl, void *argument) {
    (void)version, (void)ssl;
    lat_tls_notes *notes = argument;
    const unsigned char *message = bytes;
    if (is_written || count < 1) return;
    if (type == 22 /* handshake */ && message[0] == 13 /* CertificateRequest */) notes->certificate_wanted = 1;
    if (type == 21 /* alert */ && count >= 2 && message[1] != 0 /* close_notify */) notes->alert = message[1];
}

// Where an SSL_CTX keeps its notes; -1 when there is no OpenSSL. One for the process.
static inline int lat_tls_index(void) {
    typedef int (*new_index)(int, long, void *, void *, void *,
                             void (*)(void *, void *, void *, int, long, void *));
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int index_plus_two;
    pthread_mutex_lock(&lock);
    if (!index_plus_two) {
        new_index make = (new_index)dlsym(RTLD_DEFAULT, "CRYPTO_get_ex_new_index");
        index_plus_two = 2 + (make ? make(1 /* CRYPTO_EX_INDEX_SSL_CTX */, 0, NULL, NULL, NULL, lat_tls_release) : -1);
    }
    pthread_mutex_unlock(&lock);
    return index_plus_two - 2;
}

// A CURLOPT_SSL_CTX_FUNCTION whose data is a lat_tls_slot. OpenSSL is looked up, as below.
static inline CURLcode lat_tls_observe(CURL *handle, void *context, void *argument) {
    (void)handle;
    typedef void (*callback)(int, int, int, const void *, size_t, void *, void *);
    typedef void (*set_callback)(void *, callback);
    typedef long (*control)(void *, int, long, void *);
    typedef int (*set_data)(void *, int, void *);
    const int index = lat_tls_index();
    lat_tls_slot *slot = argument;
    lat_tls_forget(slot);
    set_callback observe = (set_callback)dlsym(RTLD_DEFAULT, "SSL_CTX_set_msg_callback");
    control set = (control)dlsym(RTLD_DEFAULT, "SSL_CTX_ctrl");
    set_data keep = (set_data)dlsym(RTLD_DEFAULT, "SSL_CTX_set_ex_data");
    if (index < 0 || !observe || !set || !keep) return CURLE_OK;
    lat_tls_notes *notes = calloc(1, sizeof *notes);
    if (!notes) return CURLE_OUT_OF_MEMORY;
    notes->alert = -1;
    notes->references = 1;
    if (!keep(context, index, notes)) {
        free(notes);
        return CURLE_OK;
    }
    notes->references = 2;
    slot->notes = notes;
    observe(context, lat_tls_saw);
    set(context, 16 /* SSL_CTRL_SET_MSG_CALLBACK_ARG */, 0, notes);
    return CURLE_OK;
}

static inline CURLcode lat_setopt_tls_observer(CURL *handle, lat_tls_slot *slot) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_SSL_CTX_DATA, slot);
    return code ? code : curl_easy_setopt(handle, CURLOPT_SSL_CTX_FUNCTION, lat_tls_observe);
}

// Whether OpenSSL knows ciphers by these names: 1 for yes, 0 for no, -1 when there is no OpenSSL to ask.
static inline int lat_tls_knows_ciphers(const char *list, const char *suites) {
    typedef void *(*make_context)(const void *);
    typedef const void *(*client_method)(void);
    typedef int (*set_ciphers)(void *, const char *);
    typedef void (*one)(void *);
    typedef void (*none)(void);
    make_context make = (make_context)dlsym(RTLD_DEFAULT, "SSL_CTX_new");
    client_method method = (client_method)dlsym(RTLD_DEFAULT, "TLS_client_method");
    set_ciphers set_list = (set_ciphers)dlsym(RTLD_DEFAULT, "SSL_CTX_set_cipher_list");
    set_ciphers set_suites = (set_ciphers)dlsym(RTLD_DEFAULT, "SSL_CTX_set_ciphersuites");
    one release = (one)dlsym(RTLD_DEFAULT, "SSL_CTX_free");
    none clear = (none)dlsym(RTLD_DEFAULT, "ERR_clear_error");
    if (!make || !method || !set_list || !set_suites || !release || !clear) return -1;
    void *context = make(method());
    if (!context) return -1;
    int knows = (!list || set_list(context, list) == 1) && (!suites || set_suites(context, suites) == 1);
    release(context);
    clear();
    return knows;
}

// Bytes that libcurl copies (CURLOPT_..._BLOB).
static inline CURLcode lat_setopt_blob(CURL *handle, CURLoption option, const void *bytes, size_t count) {
    struct curl_blob blob = {(void *)bytes, count, CURL_BLOB_COPY};
    return curl_easy_setopt(handle, option, &blob);
}

// The host of a URL in the letters of the DNS (IDNA), as libcurl will look it up. libidn2 wants the thread's locale to
// be one of UTF-8. The caller frees the text with curl_free.
static inline CURLUcode lat_url_ascii_host(CURLU *url, char **host) {
    locale_t names = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = names ? uselocale(names) : (locale_t)0;
    CURLUcode code = curl_url_get(url, CURLUPART_HOST, host, CURLU_PUNYCODE | CURLU_URLDECODE);
    if (names) {
        uselocale(before);
        freelocale(names);
    }
    return code;
}

static inline CURLcode lat_getinfo_slist(CURL *handle, CURLINFO info, struct curl_slist **list) {
    return curl_easy_getinfo(handle, info, list);
}

// Whether the two sides of a handle's TLS connection agreed on HTTP/2 (ALPN). 0 when that is not known.
static inline int lat_speaks_http2(CURL *handle) {
    typedef void (*selected)(const void *, const unsigned char **, unsigned *);
    struct curl_tlssessioninfo *info = NULL;
    selected get = (selected)dlsym(RTLD_DEFAULT, "SSL_get0_alpn_selected");
    if (!get || curl_easy_getinfo(handle, CURLINFO_TLS_SSL_PTR, &info) || !info || !info->internals ||
        info->backend != CURLSSLBACKEND_OPENSSL)
        return 0;
    const unsigned char *name = NULL;
    unsigned count = 0;
    get(info->internals, &name, &count);
    return count == 2 && name[0] == 'h' && name[1] == '2';
}

// What the kernel has still to send or to hear confirmed (SIOCOUTQ).
static inline int lat_unsent_bytes(int socket) {
    int count = 0;
    return ioctl(socket, TIOCOUTQ, &count) == 0 ? count : 0;
}

static inline void lat_name_thread(const char *name) { prctl(PR_SET_NAME, name); }

// With CURLOPT_NOSIGNAL libcurl no longer keeps SIGPIPE off, and OpenSSL writes with write(2): the engine's
// thread blocks the signal.
static inline void lat_block_sigpipe(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

#endif
#endif
