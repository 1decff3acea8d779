// A clock that a test sets while a process runs, for LD_PRELOAD: CLOCK_REALTIME differs from the true time by the seconds in the
// file LAT_TEST_CLOCK, a number of 64 bits. The clocks that nobody can set are the true ones. libfaketime moves their timers, too
// (timerfd_settime), so that a process with timers of libdispatch stands still.

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *difference;

__attribute__((constructor)) static void find_file(void) {
    const char *path = getenv("LAT_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *address = mmap(NULL, sizeof *difference, PROT_READ, MAP_SHARED, file, 0);
    if (address != MAP_FAILED) difference = address;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int code = (int)syscall(SYS_clock_gettime, clock, now);
    if (code == 0 && difference && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *difference;
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec exact;
    int code = clock_gettime(CLOCK_REALTIME, &exact);
    *now = (struct timeval){exact.tv_sec, exact.tv_nsec / 1000};
    return code;
}

time_t time(time_t *copy) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (copy) *copy = now.tv_sec;
    return now.tv_sec;
}
