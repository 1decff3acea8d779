// Linked into the tests that `scripts/test --sanitize thread` builds. ThreadSanitizer sees only code that was compiled with it.
// The Swift libraries were not, so it misses two ways in which they synchronize threads: a `Mutex` that a thread has to wait for,
// and a continuation that is resumed before its task awaits it. The functions below call the originals and report both.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

// Absent from programs that are built beside the tests without a sanitizer.
__attribute__((weak)) void __tsan_acquire(void *address);
__attribute__((weak)) void __tsan_release(void *address);

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *mutex
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY_LOCK "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

SWIFT void lock_slow(uint32_t thread, SELF) __asm__(LOCK);
SWIFT bool try_lock_slow(SELF) __asm__(TRY_LOCK);
SWIFT void unlock_slow(SELF) __asm__(UNLOCK);

SWIFT void lock_slow(uint32_t thread, SELF) {
    SWIFT void (*original)(uint32_t, SELF) = dlsym(RTLD_NEXT, LOCK);
    original(thread, mutex);
    if (__tsan_acquire) __tsan_acquire(mutex);
}

SWIFT bool try_lock_slow(SELF) {
    SWIFT bool (*original)(SELF) = dlsym(RTLD_NEXT, TRY_LOCK);
    bool isLocked = original(mutex);
    if (isLocked && __tsan_acquire) __tsan_acquire(mutex);
    return isLocked;
}

SWIFT void unlock_slow(SELF) {
    SWIFT void (*original)(SELF) = dlsym(RTLD_NEXT, UNLOCK);
    if (__tsan_release) __tsan_release(mutex);
    original(mutex);
}

// The Swift library reports a resumption (a release of the task) and the start of a suspended task (an acquire). It reports no
// acquire when the result arrives before the task is suspended. Either the first function below finds the result at once, or
// the result arrives during the suspension, and the task enters its context again.
extern SWIFT void *swift_task_getCurrent(void);
typedef __attribute__((swiftasynccall)) void Await(void *continuation);

static void acquire_task(void) {
    void *task = __tsan_acquire ? swift_task_getCurrent() : 0;
    if (task) __tsan_acquire(task);
}

__attribute__((swiftasynccall)) void swift_continuation_await(void *continuation) {
    Await *original = (Await *)dlsym(RTLD_NEXT, "swift_continuation_await");
    acquire_task();
    __attribute__((musttail)) return original(continuation);
}

void swift_task_enterThreadLocalContext(char *context) {
    void (*original)(char *) = (void (*)(char *))dlsym(RTLD_NEXT, "swift_task_enterThreadLocalContext");
    if (original) original(context);
    acquire_task();
}
