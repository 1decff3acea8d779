// Measures bare GETs of a Redis with hiredis, written as its documentation suggests: one connection, one command at a time.
//
//   redisbench get HOST:PORT REQUESTS KEYS WARMUP    REQUESTS times, gets a random one of KEYS values of 4 KiB
//
// Prints one line of JSON. CPU time is user + system over the measured part only.

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

static const size_t size = 4096;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void stop(const char *what, const char *why) {
    fprintf(stderr, "redisbench: %s: %s\n", what, why);
    exit(1);
}

int main(int count, char **words) {
    char *colon = count == 6 ? strrchr(words[2], ':') : NULL;
    if (!colon || strcmp(words[1], "get") != 0) {
        fprintf(stderr, "usage: redisbench get HOST:PORT REQUESTS KEYS WARMUP\n");
        return 2;
    }
    *colon = 0;
    int requests = atoi(words[3]), keys = atoi(words[4]), warmup = atoi(words[5]);
    if (requests < 1 || keys < 1 || warmup < 0) stop("the numbers", "not usable");
    redisContext *redis = redisConnect(words[2], atoi(colon + 1));
    if (!redis || redis->err) stop("connect", redis ? redis->errstr : "no memory");
    char *value = malloc(size);
    memset(value, 7, size);
    for (int key = 0; key < keys; key++) {
        redisReply *reply = redisCommand(redis, "SET bench:%d %b", key, value, size);
        if (!reply || reply->type == REDIS_REPLY_ERROR) stop("SET", reply ? reply->str : redis->errstr);
        freeReplyObject(reply);
    }
    double *latencies = malloc(requests * sizeof *latencies), started = 0, cpu_started = 0;
    for (int turn = -warmup; turn < requests; turn++) {
        if (turn == 0) {
            started = now();
            cpu_started = cpu();
        }
        double start = now();
        redisReply *reply = redisCommand(redis, "GET bench:%d", rand() % keys);
        if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != size) stop("GET", reply ? "no value" : redis->errstr);
        freeReplyObject(reply);
        if (turn >= 0) latencies[turn] = (now() - start) * 1e6;
    }
    double seconds = now() - started, used = cpu() - cpu_started;
    qsort(latencies, requests, sizeof *latencies, by_size);
    printf("{\"program\":\"c hiredis\",\"mode\":\"get\",\"requests\":%d,\"seconds\":%f,\"cpu_seconds\":%f,"
           "\"cpu_us_per_request\":%f,\"requests_per_second\":%f,\"p50_us\":%f,\"p99_us\":%f}\n",
           requests, seconds, used, used / requests * 1e6, requests / seconds, latencies[requests / 2],
           latencies[requests * 99 / 100]);
    redisFree(redis);
    free(latencies);
    free(value);
    return 0;
}
