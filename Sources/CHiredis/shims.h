// The reader of hiredis, with a limit on the size of arrays. Replies are the same in 0.14 and in 1.x.
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

typedef struct {
    redisReplyObjectFunctions functions, own;
    size_t element_limit;
} lat_redis_rules;

// hiredis allocates an array before its elements arrive, so a wrong length could take all memory. NULL ends the reading with an
// error.
static inline void *lat_redis_create_array(const redisReadTask *task, lat_redis_count count) {
    const lat_redis_rules *rules = (const lat_redis_rules *)task->privdata;
    if (count < 0 || (size_t)count > rules->element_limit) return NULL;
    return rules->own.createArray(task, count);
}

// Makes a reader of replies (redisReply) that refuses arrays with more elements than the limit. Returns NULL when
// memory is short.
static inline redisReader *lat_redis_reader_new(size_t element_limit) {
    redisReader *reader = redisReaderCreate();
    lat_redis_rules *rules = (lat_redis_rules *)malloc(sizeof(lat_redis_rules));
    if (!reader || !rules) {
        if (reader) redisReaderFree(reader);
        free(rules);
        return NULL;
    }
    rules->own = *reader->fn;
    rules->functions = rules->own;
    rules->functions.createArray = lat_redis_create_array;
    rules->element_limit = element_limit;
    reader->fn = &rules->functions;
    reader->privdata = rules;
    return reader;
}

static inline void lat_redis_reader_free(redisReader *reader) {
    void *rules = reader->privdata;
    redisReaderFree(reader);
    free(rules);
}

static inline const char *lat_redis_reader_error(const redisReader *reader) { return reader->errstr; }

#endif
#endif
