// The reader of hiredis, without its tree of replies. It is the same in 0.14 and in 1.x.
#ifndef LAT_CHIREDIS_SHIMS_H
#define LAT_CHIREDIS_SHIMS_H

#if !__has_include(<hiredis.h>) && !__has_include(<hiredis/hiredis.h>)
#error "hiredis' headers were not found. Run scripts/setup --tests, or: apt-get install libhiredis-dev"
#else

#include <stdint.h>
#include <stdlib.h>
#if __has_include(<hiredis.h>)
#include <hiredis.h>
#else
#include <hiredis/hiredis.h>
#endif

// The type of an array's length: int in 0.14, size_t in 1.x.
#if HIREDIS_MAJOR >= 1
typedef size_t lat_redis_count;
#else
typedef int lat_redis_count;
#endif

// Receives what hiredis reads, in the order of the bytes: an array comes before its elements. `number` is an integer, or the
// number of an array's elements. `text` is valid during the call. Returns whether reading may go on.
typedef struct {
    void *owner;
    int (*take)(void *owner, int type, const char *text, size_t length, long long number);
} lat_redis_sink;

// hiredis takes what these return for its own object; NULL ends the reading with an error. The sink has the values already,
// so no tree of objects is made, which would take many times the memory of short replies.
static inline void *lat_redis_take(const redisReadTask *task, int type, const char *text, size_t length, long long number) {
    lat_redis_sink *sink = (lat_redis_sink *)task->privdata;
    return sink->take(sink->owner, type, text, length, number) ? sink : NULL;
}

static inline void *lat_redis_string(const redisReadTask *task, char *text, size_t length) {
    return lat_redis_take(task, task->type, text, length, 0);
}

static inline void *lat_redis_array(const redisReadTask *task, lat_redis_count count) {
    return lat_redis_take(task, REDIS_REPLY_ARRAY, NULL, 0, (long long)count);
}

static inline void *lat_redis_integer(const redisReadTask *task, long long number) {
    return lat_redis_take(task, REDIS_REPLY_INTEGER, NULL, 0, number);
}

static inline void *lat_redis_nil(const redisReadTask *task) { return lat_redis_take(task, REDIS_REPLY_NIL, NULL, 0, 0); }

static inline void lat_redis_ignore(void *object) { (void)object; }

// Makes a reader that gives all it reads to a sink. Returns NULL when memory is short.
static inline redisReader *lat_redis_reader_new(lat_redis_sink *sink) {
    static redisReplyObjectFunctions functions = {
        .createString = lat_redis_string,
        .createArray = lat_redis_array,
        .createInteger = lat_redis_integer,
        .createNil = lat_redis_nil,
        .freeObject = lat_redis_ignore,
    };
    redisReader *reader = redisReaderCreateWithFunctions(&functions);
    if (reader) reader->privdata = sink;
    return reader;
}

static inline const char *lat_redis_reader_error(const redisReader *reader) { return reader->errstr; }

#endif
#endif
