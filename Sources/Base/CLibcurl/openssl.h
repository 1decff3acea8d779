// The functions of the OpenSSL that libcurl uses. They are looked up through libcurl instead of linked: libcurl may
// have been built with another TLS library, and a process may have loaded two OpenSSLs, which cannot use each other's
// objects.
#ifndef LAT_CLIBCURL_OPENSSL_H
#define LAT_CLIBCURL_OPENSSL_H

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#define LAT_SOME _Nonnull
#define LAT_NONE _Nullable

typedef void (*lat_message_callback)(
    int is_written, int version, int type, const void *LAT_NONE bytes, size_t count, void *LAT_NONE ssl,
    void *LAT_NONE argument);
typedef void (*lat_state_callback)(const void *LAT_NONE ssl, int where, int value);
typedef int (*lat_session_callback)(void *LAT_NONE ssl, void *LAT_NONE session);
typedef void (*lat_key_callback)(const void *LAT_NONE ssl, const char *LAT_NONE line);
typedef int (*lat_verify_callback)(void *LAT_SOME check, void *LAT_NONE argument);
typedef void (*lat_free_callback)(
    void *LAT_NONE parent, void *LAT_NONE pointer, void *LAT_NONE data, int index, long number, void *LAT_NONE argument);

// Every member has the name and the meaning of the OpenSSL function. A `context` is an SSL_CTX; an `ssl` is a
// connection; a `check` is an X509_STORE_CTX.
typedef struct {
    int (*LAT_SOME CRYPTO_get_ex_new_index)(
        int class_index, long number, void *LAT_NONE argument, void *LAT_NONE make, void *LAT_NONE copy,
        lat_free_callback LAT_NONE release);
    unsigned long (*LAT_SOME OpenSSL_version_num)(void);
    void (*LAT_SOME ERR_clear_error)(void);
    unsigned long (*LAT_SOME ERR_peek_last_error)(void);
    void *LAT_NONE (*LAT_SOME BIO_new_mem_buf)(const void *LAT_SOME bytes, int count);
    int (*LAT_SOME BIO_free)(void *LAT_NONE input);
    void *LAT_NONE (*LAT_SOME PEM_read_bio_X509_AUX)(
        void *LAT_SOME input, void *LAT_NONE reuse, void *LAT_NONE password, void *LAT_NONE argument);
    void (*LAT_SOME X509_free)(void *LAT_NONE certificate);
    void *LAT_NONE (*LAT_SOME X509_STORE_new)(void);
    void (*LAT_SOME X509_STORE_free)(void *LAT_NONE store);
    int (*LAT_SOME X509_STORE_up_ref)(void *LAT_SOME store);
    int (*LAT_SOME X509_STORE_set_flags)(void *LAT_SOME store, unsigned long flags);
    int (*LAT_SOME X509_STORE_add_cert)(void *LAT_SOME store, void *LAT_SOME certificate);
    int (*LAT_SOME X509_STORE_load_locations)(
        void *LAT_SOME store, const char *LAT_NONE file, const char *LAT_NONE folder);
    const void *LAT_NONE (*LAT_SOME TLS_client_method)(void);
    void *LAT_NONE (*LAT_SOME SSL_CTX_new)(const void *LAT_NONE method);
    void (*LAT_SOME SSL_CTX_free)(void *LAT_NONE context);
    int (*LAT_SOME SSL_CTX_set_cipher_list)(void *LAT_SOME context, const char *LAT_SOME list);
    int (*LAT_SOME SSL_CTX_set_ciphersuites)(void *LAT_SOME context, const char *LAT_SOME suites);
    void (*LAT_SOME SSL_CTX_set_cert_store)(void *LAT_SOME context, void *LAT_SOME store);
    int (*LAT_SOME SSL_CTX_set_ex_data)(void *LAT_SOME context, int index, void *LAT_NONE data);
    void *LAT_NONE (*LAT_SOME SSL_CTX_get_ex_data)(const void *LAT_SOME context, int index);
    uint64_t (*LAT_SOME SSL_CTX_clear_options)(void *LAT_SOME context, uint64_t options);
    void (*LAT_SOME SSL_CTX_set_msg_callback)(void *LAT_SOME context, lat_message_callback LAT_NONE callback);
    long (*LAT_SOME SSL_CTX_ctrl)(void *LAT_SOME context, int command, long number, void *LAT_NONE pointer);
    void (*LAT_SOME SSL_CTX_set_info_callback)(void *LAT_SOME context, lat_state_callback LAT_NONE callback);
    void (*LAT_SOME SSL_CTX_sess_set_new_cb)(void *LAT_SOME context, lat_session_callback LAT_NONE callback);
    void (*LAT_SOME SSL_CTX_set_keylog_callback)(void *LAT_SOME context, lat_key_callback LAT_NONE callback);
    void *LAT_NONE (*LAT_SOME SSL_get_SSL_CTX)(const void *LAT_SOME ssl);
    void (*LAT_SOME SSL_get0_alpn_selected)(
        const void *LAT_SOME ssl, const unsigned char *LAT_NONE *LAT_SOME name, unsigned int *LAT_SOME length);
    const char *LAT_NONE (*LAT_SOME SSL_get_servername)(const void *LAT_SOME ssl, int type);
    void *LAT_NONE (*LAT_SOME SSL_get_rbio)(const void *LAT_SOME ssl);
    long (*LAT_SOME SSL_get_verify_result)(const void *LAT_SOME ssl);
    void (*LAT_SOME SSL_set_shutdown)(void *LAT_SOME ssl, int mode);
    const char *LAT_NONE (*LAT_SOME SSL_get_version)(const void *LAT_SOME ssl);
    const void *LAT_NONE (*LAT_SOME SSL_get_current_cipher)(const void *LAT_SOME ssl);
    const char *LAT_NONE (*LAT_SOME SSL_CIPHER_get_name)(const void *LAT_NONE cipher);
    void *LAT_NONE (*LAT_SOME SSL_get1_peer_certificate)(const void *LAT_SOME ssl);
    int (*LAT_SOME i2d_X509)(const void *LAT_SOME certificate, unsigned char *LAT_NONE *LAT_NONE bytes);
    int (*LAT_SOME SSL_set_session)(void *LAT_SOME ssl, void *LAT_NONE session);
    void *LAT_NONE (*LAT_SOME SSL_SESSION_dup)(const void *LAT_SOME session);
    void (*LAT_SOME SSL_SESSION_free)(void *LAT_NONE session);
    void (*LAT_SOME SSL_CTX_set_cert_verify_callback)(
        void *LAT_SOME context, lat_verify_callback LAT_NONE callback, void *LAT_NONE argument);
    int (*LAT_SOME X509_verify_cert)(void *LAT_SOME check);
    void *LAT_NONE (*LAT_SOME X509_STORE_CTX_get0_chain)(const void *LAT_SOME check);
    int (*LAT_SOME X509_STORE_CTX_get_num_untrusted)(const void *LAT_SOME check);
    void (*LAT_SOME X509_STORE_CTX_set_error)(void *LAT_SOME check, int error);
    int (*LAT_SOME OPENSSL_sk_num)(const void *LAT_NONE stack);
    void *LAT_NONE (*LAT_SOME OPENSSL_sk_value)(const void *LAT_NONE stack, int index);
} lat_openssl;

// Fills the table. Returns 0 when libcurl does not use OpenSSL, or uses one older than 3.0.
static inline int lat_openssl_find(lat_openssl *LAT_SOME table) {
    // A search that begins at the loaded libcurl finds the OpenSSL that libcurl was linked with before any other.
    void *libcurl = dlopen("libcurl.so.4", RTLD_LAZY | RTLD_NOLOAD);
#define LAT_FIND(name) \
    if (!(table->name = (__typeof__(table->name))dlsym(libcurl ? libcurl : RTLD_DEFAULT, #name))) return 0
    LAT_FIND(OpenSSL_version_num);
    if (table->OpenSSL_version_num() < 0x30000000UL) return 0;
    LAT_FIND(CRYPTO_get_ex_new_index);
    LAT_FIND(ERR_clear_error);
    LAT_FIND(ERR_peek_last_error);
    LAT_FIND(BIO_new_mem_buf);
    LAT_FIND(BIO_free);
    LAT_FIND(PEM_read_bio_X509_AUX);
    LAT_FIND(X509_free);
    LAT_FIND(X509_STORE_new);
    LAT_FIND(X509_STORE_free);
    LAT_FIND(X509_STORE_up_ref);
    LAT_FIND(X509_STORE_set_flags);
    LAT_FIND(X509_STORE_add_cert);
    LAT_FIND(X509_STORE_load_locations);
    LAT_FIND(TLS_client_method);
    LAT_FIND(SSL_CTX_new);
    LAT_FIND(SSL_CTX_free);
    LAT_FIND(SSL_CTX_set_cipher_list);
    LAT_FIND(SSL_CTX_set_ciphersuites);
    LAT_FIND(SSL_CTX_set_cert_store);
    LAT_FIND(SSL_CTX_set_ex_data);
    LAT_FIND(SSL_CTX_get_ex_data);
    LAT_FIND(SSL_CTX_clear_options);
    LAT_FIND(SSL_CTX_set_msg_callback);
    LAT_FIND(SSL_CTX_ctrl);
    LAT_FIND(SSL_CTX_set_info_callback);
    LAT_FIND(SSL_CTX_sess_set_new_cb);
    LAT_FIND(SSL_CTX_set_keylog_callback);
    LAT_FIND(SSL_get_SSL_CTX);
    LAT_FIND(SSL_get0_alpn_selected);
    LAT_FIND(SSL_get_servername);
    LAT_FIND(SSL_get_rbio);
    LAT_FIND(SSL_get_verify_result);
    LAT_FIND(SSL_set_shutdown);
    LAT_FIND(SSL_get_version);
    LAT_FIND(SSL_get_current_cipher);
    LAT_FIND(SSL_CIPHER_get_name);
    LAT_FIND(SSL_get1_peer_certificate);
    LAT_FIND(i2d_X509);
    LAT_FIND(SSL_set_session);
    LAT_FIND(SSL_SESSION_dup);
    LAT_FIND(SSL_SESSION_free);
    LAT_FIND(SSL_CTX_set_cert_verify_callback);
    LAT_FIND(X509_verify_cert);
    LAT_FIND(X509_STORE_CTX_get0_chain);
    LAT_FIND(X509_STORE_CTX_get_num_untrusted);
    LAT_FIND(X509_STORE_CTX_set_error);
    LAT_FIND(OPENSSL_sk_num);
    LAT_FIND(OPENSSL_sk_value);
#undef LAT_FIND
    return 1;
}

// Sets the callback for each SSL_CTX that libcurl makes (CURLOPT_SSL_CTX_FUNCTION), and its last argument.
static inline CURLcode lat_setopt_ssl_context(
    CURL *LAT_SOME handle, curl_ssl_ctx_callback LAT_SOME callback, void *LAT_NONE argument) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_SSL_CTX_DATA, argument);
    return code ? code : curl_easy_setopt(handle, CURLOPT_SSL_CTX_FUNCTION, callback);
}

// Returns the SSL of a handle's connection; NULL without a connection, and when its TLS library is not OpenSSL.
static inline void *LAT_NONE lat_openssl_connection(CURL *LAT_SOME handle) {
    struct curl_tlssessioninfo *info = NULL;
    if (curl_easy_getinfo(handle, CURLINFO_TLS_SSL_PTR, &info) || !info || info->backend != CURLSSLBACKEND_OPENSSL)
        return NULL;
    return info->internals;
}

#undef LAT_SOME
#undef LAT_NONE
#endif
