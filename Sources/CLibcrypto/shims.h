#ifndef LAT_CLIBCRYPTO_SHIMS_H
#define LAT_CLIBCRYPTO_SHIMS_H

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#endif
