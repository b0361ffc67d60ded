/* Who holds a GPU, and how busy each of them keeps it.
 *
 * `process_entry_bytes` is the size of an entry under every name (24), `process_room_cleared` whether all the room is
 * cleared first. `processes`, `graphics_processes` and `mps_processes` are `<pid>:<bytes or n/a>,…`; `process_utilization` is
 * `<time>:<pid>:<sm percent>,…` as it stands, `process_busy` is `<pid>:<sm percent>,…` of the second that just ended.
 */

#include <stddef.h>
#include <string.h>

#include "driver.h"
#include "structures.h"

enum { MOST_PROCESSES = 1024 };

typedef struct { char *out; u32 size; } entries;

/* Entries of 16 bytes end with the memory; of 24 with the instances; of 32 with what is protected, here nothing. */
static int take_process(void *into, u32 at, const u64 *numbers) {
    entries *to = into;
    struct { process first; u64 more[6]; } entry = {{(u32)numbers[0], numbers[1], ALL, ALL}, {0}};
    if (to) memcpy(to->out + (size_t)at * to->size, &entry, to->size);
    return 1;
}

static int listed(device *of, const char *key, u32 *count, void *out) {
    entries to = {out, (u32)scenario_count(of->gpu, "process_entry_bytes", sizeof(process))};
    u32 there = each(of, key, MOST_PROCESSES, NULL, take_process), room = *count;
    *count = there;
    if (there == 0) return OK;
    if (!out || room < there) return TOO_SMALL;
    if (scenario_count(of->gpu, "process_room_cleared", 0)) memset(out, 0, (size_t)room * to.size);
    each(of, key, there, &to, take_process);
    return OK;
}

#define PROCESSES(function, key)                         \
    int function(device *of, u32 *count, void *out) { \
        ENTER(of);                                       \
        return listed(of, key, count, out);              \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses, "processes")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "processes")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "processes")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics_processes")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics_processes")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps_processes")

/* ---- how busy ---- */

typedef struct { u64 since; process_share *shares; process_info *infos; } shares;

static int take_share(void *into, u32 at, const u64 *numbers) {
    shares *to = into;
    u32 pid = (u32)numbers[1], sm = (u32)numbers[2];
    if (numbers[0] <= to->since) return 0;
    if (to->shares) to->shares[at] = (process_share){pid, numbers[0], sm, 0, 0, 0};
    if (to->infos) to->infos[at] = (process_info){.time = numbers[0], .pid = pid, .sm = sm};
    return 1;
}

static int take_busy(void *into, u32 at, const u64 *numbers) {
    u64 dated[3] = {now_microseconds() / 1000000 * 1000000, numbers[0], numbers[1]};
    return take_share(into, at, dated);
}

static u32 shared(const device *of, u32 most, shares *to) {
    u32 count = each(of, "process_utilization", most, to, take_share);
    return count ? count : each(of, "process_busy", most, to, take_busy);
}

/* With nothing to say the real one answers success to the first question, which the binding raises as NVMLError(0). */
int nvmlDeviceGetProcessUtilization(device *of, process_share *out, u32 *count, u64 since) {
    shares to = {since, out, NULL};
    ENTER(of);
    if (of->part >= 0) return NOT_SUPPORTED;
    *count = shared(of, out ? *count : MOST_PROCESSES, &to);
    return out || *count == 0 ? OK : TOO_SMALL;
}

int nvmlDeviceGetProcessesUtilizationInfo(device *of, process_infos *out) {
    ENTER(of);
    if (out->version != WORD(1, process_infos)) return OTHER_VERSION;
    if (of->part >= 0) return NOT_SUPPORTED;
    shares to = {out->since, NULL, out->infos};
    out->count = shared(of, out->infos ? out->count : MOST_PROCESSES, &to);
    return out->infos || out->count == 0 ? OK : TOO_SMALL;
}
