// Linked into the tests that `scripts/test --sanitize thread` builds. ThreadSanitizer sees only code that was compiled
// with it. The Swift libraries were not, so it misses three ways in which they synchronize threads: waiting for a
// `Mutex`, resuming a continuation before its task awaits it, and changing a value in place after all other references
// to it were released. The functions below call the original functions and report the synchronization to
// ThreadSanitizer.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

// Weak, because the programs that are built with the tests, but without a sanitizer, do not have them.
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

// Swift's concurrency library itself reports two events: a continuation is resumed (a release of the task), and a
// suspended task continues (an acquire of the task). It omits the acquire if the result arrives before the task is
// suspended. It then calls the resume function of the continuation at once, on the same thread. The function below
// replaces that resume function with one that acquires the task first. Only optimized code calls
// `swift_continuation_await` directly. Unoptimized code calls it through the library, and so not the function below.
#define ASYNC __attribute__((swiftasynccall))
typedef ASYNC void Resume(__attribute__((swift_async_context)) void *context);
struct Continuation {
    void *parent;
    Resume *resume;
};
extern SWIFT void *swift_task_getCurrent(void);
static __thread Resume *pending;

static ASYNC void acquire_and_resume(__attribute__((swift_async_context)) void *context) {
    Resume *resume = pending;
    ((struct Continuation *)context)->resume = resume;
    __tsan_acquire(swift_task_getCurrent());
    __attribute__((musttail)) return resume(context);
}

ASYNC void swift_continuation_await(struct Continuation *continuation) {
    ASYNC void (*original)(struct Continuation *) = dlsym(RTLD_NEXT, "swift_continuation_await");
    if (__tsan_acquire && continuation->resume != acquire_and_resume) {
        pending = continuation->resume;
        continuation->resume = acquire_and_resume;
    }
    __attribute__((musttail)) return original(continuation);
}

// The last holder of a value may change it in place. The change happens after everything that other holders did before
// they released the value.
void swift_release(void *object) {
    static void (*cached)(void *);
    void (*original)(void *) = __atomic_load_n(&cached, __ATOMIC_RELAXED);
    if (!original) {
        original = dlsym(RTLD_NEXT, "swift_release");
        __atomic_store_n(&cached, original, __ATOMIC_RELAXED);
    }
    if (object && __tsan_release) __tsan_release(object);
    original(object);
}

#define UNIQUE(name)                                                        \
    bool name(void *object) {                                               \
        bool (*original)(void *) = dlsym(RTLD_NEXT, #name);                 \
        bool isUnique = original(object);                                   \
        if (isUnique && object && __tsan_acquire) __tsan_acquire(object);   \
        return isUnique;                                                    \
    }
UNIQUE(swift_isUniquelyReferenced_native)
UNIQUE(swift_isUniquelyReferenced_nonNull_native)
