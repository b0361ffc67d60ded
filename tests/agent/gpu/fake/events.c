/* XID errors: one event for every step of the counter `xids`; `xids_per_s` is a storm, `xid=79,48` the numbers in turn. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver.h"
#include "structures.h"

#define XID 0x8
#define STEP_MILLISECONDS 50

typedef struct { u64 seen[MOST_GPUS]; char follows[MOST_GPUS]; } event_set;

int nvmlEventSetCreate(event_set **out) {
    ENTER(NULL);
    *out = calloc(1, sizeof **out);
    return OK;
}

int nvmlEventSetFree(event_set *set) {
    free(set);
    return OK;
}

int nvmlDeviceGetSupportedEventTypes(device *of, u64 *out) {
    ENTER(of);
    if (count_of(of, "event_types", out)) *out = XID;
    return OK;
}

static u64 happened(int gpu) {
    u64 count = 0;
    scenario_counter(gpu, "xids", &count);
    return count;
}

int nvmlDeviceRegisterEvents(device *of, u64 types, event_set *set) {
    ENTER(of);
    (void)types;
    set->follows[of->gpu] = 1;
    set->seen[of->gpu] = happened(of->gpu);
    return OK;
}

typedef struct { u64 numbers[32]; } numbers;

static int take_number(void *into, u32 at, const u64 *found) {
    ((numbers *)into)->numbers[at] = found[0];
    return 1;
}

static u64 xid(const device *of, u64 at) {
    numbers said;
    u32 count = each(of, "xid", 32, &said, take_number);
    return count ? said.numbers[at % count] : 79;
}

int nvmlEventSetWait_v2(event_set *set, event *out, u32 milliseconds) {
    ENTER(NULL);
    for (u32 waited = 0;; waited += STEP_MILLISECONDS) {
        for (int gpu = 0; gpu < MOST_GPUS; gpu++) {
            if (!set->follows[gpu] || happened(gpu) <= set->seen[gpu]) continue;
            device *of = device_at(gpu, -1);
            *out = (event){of, XID, xid(of, set->seen[gpu]++), ALL, ALL};
            return OK;
        }
        if (waited >= milliseconds) return TIMEOUT;
        usleep(STEP_MILLISECONDS * 1000);
        scenario_look();
    }
}
