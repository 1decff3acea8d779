#ifndef LAT_CLIBCRYPTO_SHIMS_H
#define LAT_CLIBCRYPTO_SHIMS_H

#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

// Whether the last error is that a PEM file has no further item of the requested kind. Swift does not import these macros.
static inline int lat_is_end_of_pem(void) {
    unsigned long error = ERR_peek_last_error();
    return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

// Prints a name such as `CN = example.org, O = Example`. Swift does not import the flags.
static inline int lat_print_name(BIO *output, const X509_NAME *name) {
    return X509_NAME_print_ex(output, name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
}

// Calls a function with each URL at which a certificate says that its revocation list is. Points of other authorities and of
// single reasons are passed over (RFC 5280 §4.2.1.13). Swift does not import the macros of stacks.
static inline void lat_visit_list_urls(
    const X509 *certificate, void (*visit)(void *argument, const unsigned char *bytes, int count), void *argument) {
    CRL_DIST_POINTS *points = X509_get_ext_d2i(certificate, NID_crl_distribution_points, NULL, NULL);
    for (int index = 0; points && index < sk_DIST_POINT_num(points); index++) {
        const DIST_POINT *point = sk_DIST_POINT_value(points, index);
        const DIST_POINT_NAME *place = point->distpoint;
        if (!place || place->type != 0 || point->CRLissuer || point->reasons) continue;
        for (int number = 0; number < sk_GENERAL_NAME_num(place->name.fullname); number++) {
            const GENERAL_NAME *name = sk_GENERAL_NAME_value(place->name.fullname, number);
            if (name->type != GEN_URI) continue;
            const ASN1_IA5STRING *url = name->d.uniformResourceIdentifier;
            visit(argument, ASN1_STRING_get0_data(url), ASN1_STRING_length(url));
        }
    }
    CRL_DIST_POINTS_free(points);
}

#endif
