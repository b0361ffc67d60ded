/* The driver's rings of samples.
 *
 * `samples.<type>=<time>:<value>,…` is a ring as it stands; `ring.<type>=<busy>:<idle>` one that lives: six samples a
 * second (power: four) of a GPU that works four fifths of every two seconds.
 */

#include <stdio.h>

#include "driver.h"
#include "structures.h"

enum { POWER = 0, UTILIZATION = 1, MOST_SAMPLES = 120 };
#define CYCLE_MICROSECONDS 2000000
#define BUSY_MICROSECONDS 1600000

typedef struct { u64 since; u32 type; sample *samples; } ring;

static int take_sample(void *into, u32 at, const u64 *numbers) {
    ring *to = into;
    if (numbers[0] <= to->since) return 0;
    if (to->samples) to->samples[at] = (sample){numbers[0], value_as(to->type, numbers[1])};
    return 1;
}

typedef struct { u64 busy, idle; } levels;

static int take_levels(void *into, u32 at, const u64 *numbers) {
    (void)at;
    *(levels *)into = (levels){numbers[0], numbers[1]};
    return 1;
}

static u32 living(ring *to, const levels *says, u64 step, u32 most) {
    u64 now = now_microseconds() / step * step, begin = now - (MOST_SAMPLES - 1) * step;
    u32 taken = 0;
    if (begin <= to->since) begin = to->since / step * step;
    for (u64 time = begin; time <= now && taken < most; time += step) {
        u64 numbers[2] = {time, time % CYCLE_MICROSECONDS < BUSY_MICROSECONDS ? says->busy : says->idle};
        taken += (u32)take_sample(to, taken, numbers);
    }
    return taken;
}

int nvmlDeviceGetSamples(device *of, u32 kind, u64 since, u32 *type, u32 *count, sample *samples) {
    char moving[32], still[32], key[32];
    levels says;
    u64 said = 1;
    ENTER(of);
    snprintf(moving, sizeof moving, "ring.%u", kind);
    snprintf(still, sizeof still, "samples.%u", kind);
    snprintf(key, sizeof key, "samples_type.%u", kind);
    count_of(of, key, &said);
    *type = (u32)said;
    ring to = {since, *type, samples};
    u32 most = samples ? *count : MOST_SAMPLES;
    if (kind != POWER && cut_up(of)) return NOT_SUPPORTED;
    if (each(of, moving, 1, &says, take_levels)) {
        *count = living(&to, &says, 1000000 / (kind == POWER ? 4 : 6), most);
        return *count ? OK : NOT_FOUND;
    }
    *count = each(of, still, most, &to, take_sample);
    if (*count) return OK;
    /* Nothing new is not the same as nothing there: an empty ring must be said ("samples.0=none"). */
    return kind == UTILIZATION || text_of(of, still, key, sizeof key) ? NOT_FOUND : NOT_SUPPORTED;
}
