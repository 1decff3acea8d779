// zlib, with functions in place of macros, which Swift does not import; and the buffers of libzstd, which is not linked.
#ifndef LAT_CZLIB_SHIMS_H
#define LAT_CZLIB_SHIMS_H

#if !__has_include(<zlib.h>)
#error "zlib's headers were not found. Run scripts/setup, or: apt-get install zlib1g-dev pkg-config"
#else

#include <zlib.h>

// A stream to write, with zlib's notation of its format: 16 more window bits for gzip, a negative number for raw DEFLATE, as in
// WebSocket messages (RFC 7692 §7.2).
static inline int lat_deflate_begin(z_stream *stream, int bits, int memory) {
    return deflateInit2(stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, bits, memory, Z_DEFAULT_STRATEGY);
}

// A stream to read, with zlib's notation of its format: a negative number of window bits for raw DEFLATE, 16 more for gzip.
static inline int lat_inflate_begin(z_stream *stream, int bits) { return inflateInit2(stream, bits); }

// ZSTD_inBuffer and ZSTD_outBuffer of zstd.h, for the functions that are looked up when they are needed.
typedef struct {
    const void *bytes;
    size_t size, position;
} lat_zstd_input;
typedef struct {
    void *bytes;
    size_t size, position;
} lat_zstd_output;

#endif
#endif
