/* The wall clock stands at STANDING_EPOCH_SECONDS; clocks that only measure go on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t fixed(void) {
    const char *text = getenv("STANDING_EPOCH_SECONDS");
    return text ? (time_t)atoll(text) : 0;
}
int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(clock, out);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) { out->tv_sec = fixed(); out->tv_nsec = 0; }
    return rc;
}
int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone; out->tv_sec = fixed(); out->tv_usec = 0; return 0;
}
time_t time(time_t *out) { time_t now = fixed(); if (out) *out = now; return now; }
