/* Handles, refusals and look-ups: see driver.h. */

#define _GNU_SOURCE
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LONG_TEXT 16384
#define HANG_STEP_SECONDS 0.02

static device devices[MOST_GPUS][MOST_PARTS + 1];

device *device_at(int gpu, int part) {
    device *found = &devices[gpu][part + 1];
    *found = (device){gpu, part};
    return found;
}

/* Sleeps until the time is over or the key is gone, so that a test can end the hang. */
static void hang(int gpu, const char *function) {
    char key[128];
    snprintf(key, sizeof key, "hang.%s", function);
    for (double slept = 0; slept < scenario_number(gpu, key, 0); slept += HANG_STEP_SECONDS) {
        usleep((useconds_t)(HANG_STEP_SECONDS * 1e6));
        scenario_look();
    }
}

int enter(const device *of, const char *function) {
    char key[128];
    int gpu = of ? of->gpu : -1;
    scenario_look();
    scenario_called(function, gpu);
    hang(gpu, function);
    if (scenario_count(-1, "mismatch", 0)) return MISMATCH;
    if (of && scenario_count(gpu, "lost", 0)) return LOST;
    snprintf(key, sizeof key, "fail.%s", function);
    if (scenario_count(gpu, "fail", 0)) return (int)scenario_count(gpu, "fail", 0);
    return (int)scenario_count(gpu, key, 0);
}

static const char *named(const device *of, const char *key, char *out, size_t size) {
    if (of->part < 0) return key;
    snprintf(out, size, "mig.%d.%s", of->part, key);
    return out;
}

int text_of(const device *of, const char *key, char *out, size_t size) {
    char full[128];
    return scenario_text(of->gpu, named(of, key, full, sizeof full), out, size);
}

int count_of(const device *of, const char *key, u64 *out) {
    char full[128];
    return scenario_counter(of->gpu, named(of, key, full, sizeof full), out) ? OK : NOT_SUPPORTED;
}

int u32_of(const device *of, const char *key, u32 *out) {
    u64 wide = 0;
    int code = count_of(of, key, &wide);
    if (code == OK) *out = (u32)wide;
    return code;
}

int cut_up(const device *of) { return of->part >= 0 || scenario_count(of->gpu, "mig", 0) != 0; }

u32 each(const device *of, const char *key, u32 most, void *into, int (*take)(void *, u32, const u64 *)) {
    char list[LONG_TEXT], *rest = list, *item;
    u32 taken = 0;
    if (!text_of(of, key, list, sizeof list)) return 0;
    while (taken < most && (item = strsep(&rest, ","))) {
        u64 numbers[3] = {0, 0, 0};
        for (int i = 0; i < 3 && item; i++) {
            char *part = strsep(&item, ":");
            numbers[i] = !strcmp(part, "n/a") ? ~0ull : strtoull(part, NULL, 0);
        }
        taken += (u32)take(into, taken, numbers);
    }
    return taken;
}

value value_as(u32 type, u64 number) {
    value out = {.ull = 0};
    switch (type) {
        case 0: out.d = (double)number; break;
        case 1: out.ui = (u32)number; break;
        case 5: out.si = (int)number; break;
        case 6: out.us = (unsigned short)number; break;
        default: out.ull = number;
    }
    return out;
}

u64 now_microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (u64)now.tv_sec * 1000000 + (u64)now.tv_nsec / 1000;
}
