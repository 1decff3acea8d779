// libcurl, and wrappers for what Swift cannot call: its variadic functions, and macros with casts.
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
#include <locale.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

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

static inline CURLcode lat_setopt_debug(CURL *handle, curl_debug_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_DEBUGFUNCTION, callback);
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

static inline CURLcode lat_getinfo_socket(CURL *handle, curl_socket_t *value) {
    return curl_easy_getinfo(handle, CURLINFO_ACTIVESOCKET, value);
}

static inline CURLcode lat_getinfo_off(CURL *handle, CURLINFO info, curl_off_t *value) {
    return curl_easy_getinfo(handle, info, value);
}

static inline CURLcode lat_getinfo_string(CURL *handle, CURLINFO info, const char **value) {
    return curl_easy_getinfo(handle, info, value);
}

static inline CURLcode lat_getinfo_certificates(CURL *handle, struct curl_certinfo **chain) {
    return curl_easy_getinfo(handle, CURLINFO_CERTINFO, chain);
}

static inline CURLMcode lat_multi_setopt_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}

// Sets the callbacks of a multi handle, and the context pointer that both receive.
static inline void lat_multi_set_callbacks(
    CURLM *multi, curl_socket_callback socket, curl_multi_timer_callback timer, void *argument) {
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, argument);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, argument);
}

static inline CURLSHcode lat_share_setopt_long(CURLSH *share, CURLSHoption option, long value) {
    return curl_share_setopt(share, option, value);
}

// Returns the result of a message, which is a member of a union.
static inline CURLcode lat_message_result(const CURLMsg *message) { return message->data.result; }

// Prevents OpenSSL from freeing its data in exit() while an engine's thread still uses it. The function is looked up
// instead of linked, because libcurl may have been built with another TLS library.
static inline void lat_keep_openssl_past_exit(void) {
    typedef int (*init_crypto)(uint64_t, const void *);
    init_crypto init = (init_crypto)dlsym(RTLD_DEFAULT, "OPENSSL_init_crypto");
    if (init) init(0x00080000UL /* OPENSSL_INIT_NO_ATEXIT */, NULL);
}

// Returns a locale with UTF-8, made once per process and never freed; NULL when the system has none.
static inline locale_t lat_utf8_locale(void) {
    static locale_t shared;
    locale_t locale = __atomic_load_n(&shared, __ATOMIC_ACQUIRE), none = (locale_t)0;
    if (locale) return locale;
    locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", none);
    if (locale && !__atomic_compare_exchange_n(&shared, &none, locale, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        freelocale(locale);
        locale = none;
    }
    return locale;
}

// Sets a UTF-8 locale for the calling thread. libcurl passes host names to libidn2 in the encoding of the thread's
// locale, which at the start of a program is "C".
static inline void lat_use_utf8_names(void) {
    locale_t names = lat_utf8_locale();
    if (names) uselocale(names);
}

// Sets an option to bytes, which libcurl copies (CURLOPT_..._BLOB).
static inline CURLcode lat_setopt_blob(CURL *handle, CURLoption option, const void *bytes, size_t count) {
    struct curl_blob blob = {(void *)bytes, count, CURL_BLOB_COPY};
    return curl_easy_setopt(handle, option, &blob);
}

// Gets the host of a URL in ASCII (IDNA), as libcurl looks it up. The thread has a UTF-8 locale during the call, which
// libidn2 needs. The caller frees the text with curl_free.
static inline CURLUcode lat_url_ascii_host(CURLU *url, char **host) {
    locale_t names = lat_utf8_locale();
    locale_t before = names ? uselocale(names) : (locale_t)0;
    CURLUcode code = curl_url_get(url, CURLUPART_HOST, host, CURLU_PUNYCODE | CURLU_URLDECODE);
    if (names) uselocale(before);
    return code;
}

// Returns a function of libidn2; NULL when it is missing. libcurl or libpsl may already have loaded libidn2; otherwise
// it is loaded here if the system has it. It is not linked, because few names need it.
static inline void *lat_idn_function(const char *name) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void *library;
    void *function = dlsym(RTLD_DEFAULT, name);
    if (function) return function;
    pthread_mutex_lock(&lock);
    if (!library) library = dlopen("libidn2.so.0", RTLD_NOW | RTLD_LOCAL);
    function = library ? dlsym(library, name) : NULL;
    pthread_mutex_unlock(&lock);
    return function;
}

static inline int lat_has_idn(void) { return lat_idn_function("idn2_lookup_u8") && lat_idn_function("idn2_free"); }

// Converts a host name from UTF-8 to ASCII (IDNA). Returns 1 on success, 0 when the name is invalid, and -1 without
// libidn2. The caller frees the text with lat_idn_free.
static inline int lat_idn_ascii(const char *host, char **ascii) {
    typedef int (*lookup_name)(const uint8_t *, uint8_t **, int);
    lookup_name lookup = (lookup_name)lat_idn_function("idn2_lookup_u8");
    if (!lookup || !lat_idn_function("idn2_free")) return -1;
    const uint8_t *name = (const uint8_t *)host;
    // As in libcurl: IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL, then IDN2_TRANSITIONAL if libidn2 refuses the name.
    return lookup(name, (uint8_t **)ascii, 1 | 8) == 0 || lookup(name, (uint8_t **)ascii, 4) == 0;
}

static inline void lat_idn_free(char *text) {
    typedef void (*release_text)(void *);
    release_text release = (release_text)lat_idn_function("idn2_free");
    if (release) release(text);
}

#endif
#endif
