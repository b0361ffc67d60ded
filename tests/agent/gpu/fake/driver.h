/* What every part of the fake driver shares: codes, handles, and how a function looks its answer up in the scenario.
 *
 * Structures and numbers are those of nvml.h; tests/agent/gpu/test_fake_shape.py holds them against nvidia-ml-py.
 */

#ifndef DRIVER_H
#define DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "scenario.h"

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10, LOST = 15, MISMATCH = 18, OTHER_VERSION = 25 };

#define MOST_GPUS 64
#define MOST_PARTS 16
#define ALL 0xFFFFFFFFu

typedef unsigned int u32;
typedef unsigned long long u64;

/* A handle: a GPU, or a part of one where part >= 0. Only its address is given out. */
typedef struct { int gpu, part; } device;
typedef union { double d; u32 ui; unsigned long ul; u64 ull; long long sll; int si; unsigned short us; } value;

/* The handle of a GPU (part -1) or of a part of one. */
device *device_at(int gpu, int part);

/* Looks at the scenario, hangs as long as it says (`hang.<function>`), and returns what this call has to fail with, 0
 * where it may go on: `mismatch=1` fails every call, `lost=1` every one on a GPU, `fail=<code>` every one, `fail.<function>=<code>` this one.
 */
int enter(const device *of, const char *function);

#define ENTER(of)                         \
    do {                                  \
        int code_ = enter(of, __func__);  \
        if (code_) return code_;          \
    } while (0)

/* The value of a device's key (of a part: "mig.<part>.<key>" of its GPU). 1 where there is one. */
int text_of(const device *of, const char *key, char *out, size_t size);

/* The same as a number that may move by itself; OK, or NOT_SUPPORTED and nothing written. */
int count_of(const device *of, const char *key, u64 *out);
int u32_of(const device *of, const char *key, u32 *out);

/* Whether utilization cannot be told, as of MIG instances and of the GPU that is cut into them. */
int cut_up(const device *of);

/* Calls `take` for each item of "a:b:c,a:b:c" (n/a is all bits set) and returns how many it took. */
u32 each(const device *of, const char *key, u32 most, void *into, int (*take)(void *, u32, const u64 *));

/* Writes a value as the driver's type with this number (nvmlValueType_t). */
value value_as(u32 type, u64 number);

u64 now_microseconds(void);

#define NUMBER(function, key)            \
    int function(device *of, u32 *out) { \
        ENTER(of);                       \
        return u32_of(of, key, out);     \
    }

#endif
