/* A libnvidia-ml.so.1 without a driver: what the unmodified nvidia-ml-py calls, answered from a scenario file.
 *
 * Structures and numbers are those of nvml.h. `fail.<function>=<code>` makes a call fail, `lost=1` every call on a GPU.
 */

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scenario.h"

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10, LOST = 15 };

#define MOST_GPUS 64
#define MOST_PARTS 16
#define LONG_TEXT 16384

typedef unsigned int u32;
typedef unsigned long long u64;

/* A handle: a GPU, or a part of one where part >= 0. Only its address leaves this file. */
typedef struct { int gpu, part; } device;
static device devices[MOST_GPUS][MOST_PARTS + 1];

typedef union { double d; u32 ui; unsigned long ul; u64 ull; long long sll; int si; unsigned short us; } value;
typedef struct { u32 id, scope; int64_t time, latency; u32 type; int result; value value; } field;
typedef struct { u64 time; value value; } sample;
typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } process;
typedef struct { u32 pid; u64 time; u32 sm, memory, encoder, decoder; } process_share;
typedef struct { u32 version; u64 total, reserved, free, used; } memory_v2;
typedef struct { u64 total, free, used; } memory_v1;
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } pci;
typedef struct { u32 version, sensor; int celsius; } temperature;
typedef struct { u32 gpu, memory; } rates;
typedef struct { u32 sms, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices; u64 megabytes; } attributes;
typedef struct { device *device; u64 type, data; u32 gpu_instance, compute_instance; } event;
typedef struct { u32 version, supported; } gpm_support;
typedef struct { u32 id; int result; double value; const char *name, *long_name, *unit; } gpm_metric;
typedef struct { int gpu, part; } gpm_sample;
typedef struct { u32 version, count; gpm_sample *first, *second; gpm_metric metrics[]; } gpm_question;
typedef struct { u64 seen[MOST_GPUS]; char follows[MOST_GPUS]; } event_set;

/* What this call has to fail with, 0 where it may go on. */
static int refusal(const device *of, const char *function) {
    char key[128];
    int gpu = of ? of->gpu : -1;
    scenario_called(function, gpu);
    if (of && scenario_count(gpu, "lost", 0)) return LOST;
    snprintf(key, sizeof key, "fail.%s", function);
    return (int)scenario_count(gpu, key, 0);
}

#define ENTER(of)                                 \
    do {                                          \
        int code_ = refusal(of, __func__);        \
        if (code_) return code_;                  \
    } while (0)

/* The key of a device: for a part "mig.<part>.<key>" of its GPU. */
static const char *named(const device *of, const char *key, char *out, size_t size) {
    if (of->part < 0) return key;
    snprintf(out, size, "mig.%d.%s", of->part, key);
    return out;
}

static int text_of(const device *of, const char *key, char *out, size_t size) {
    char full[128];
    return scenario_text(of->gpu, named(of, key, full, sizeof full), out, size);
}

static int count_of(const device *of, const char *key, u64 *out) {
    char full[128];
    return scenario_counter(of->gpu, named(of, key, full, sizeof full), out) ? OK : NOT_SUPPORTED;
}

static int u32_of(const device *of, const char *key, u32 *out) {
    u64 wide = 0;
    int code = count_of(of, key, &wide);
    *out = (u32)wide;
    return code;
}

static u64 now_microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (u64)now.tv_sec * 1000000 + (u64)now.tv_nsec / 1000;
}

/* ---- the library and its devices ---- */

int nvmlInitWithFlags(u32 flags) {
    (void)flags;
    ENTER(NULL);
    for (int gpu = 0; gpu < MOST_GPUS; gpu++)
        for (int part = 0; part <= MOST_PARTS; part++) devices[gpu][part] = (device){gpu, part - 1};
    return OK;
}

int nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(int code) {
    (void)code;
    return "an error of the scenario";
}

int nvmlSystemGetDriverVersion(char *out, u32 size) {
    ENTER(NULL);
    if (!scenario_text(-1, "driver", out, size)) snprintf(out, size, "570.86.10");
    return OK;
}

int nvmlDeviceGetCount_v2(u32 *out) {
    ENTER(NULL);
    *out = (u32)scenario_count(-1, "count", 0);
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(u32 index, device **out) {
    if (index >= MOST_GPUS || index >= scenario_count(-1, "count", 0)) return INVALID;
    ENTER(&devices[index][0]);
    *out = &devices[index][0];
    return OK;
}

int nvmlDeviceGetUUID(device *of, char *out, u32 size) {
    ENTER(of);
    if (text_of(of, "uuid", out, size)) return OK;
    snprintf(out, size, "%s-%08d-0000-0000-0000-%012d", of->part < 0 ? "GPU" : "MIG", of->gpu, of->part + 1);
    return OK;
}

int nvmlDeviceGetName(device *of, char *out, u32 size) {
    ENTER(of);
    return text_of(of, "name", out, size) ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetPciInfo_v3(device *of, pci *out) {
    ENTER(of);
    memset(out, 0, sizeof *out);
    out->bus = 0x10 + (u32)of->gpu;
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
    return OK;
}

/* ---- gauges ---- */

#define NUMBER(function, key)                       \
    int function(device *of, u32 *out) {            \
        ENTER(of);                                  \
        return u32_of(of, key, out);                \
    }

NUMBER(nvmlDeviceGetPowerUsage, "power_mw")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation_max")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")
NUMBER(nvmlDeviceGetMaxMigDeviceCount, "mig_max")
NUMBER(nvmlDeviceGetGpuInstanceId, "gpu_instance")

int nvmlDeviceGetClockInfo(device *of, u32 type, u32 *out) {
    ENTER(of);
    return type == 1 ? u32_of(of, "sm_clock_mhz", out) : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxClockInfo(device *of, u32 type, u32 *out) {
    ENTER(of);
    return type == 1 ? u32_of(of, "sm_clock_max_mhz", out) : NOT_SUPPORTED;
}

int nvmlDeviceGetTemperatureV(device *of, temperature *out) {
    u32 celsius = 0;
    ENTER(of);
    int code = u32_of(of, "celsius", &celsius);
    out->celsius = (int)celsius;
    return code;
}

int nvmlDeviceGetTemperature(device *of, u32 sensor, u32 *out) {
    (void)sensor;
    ENTER(of);
    return u32_of(of, "celsius", out);
}

int nvmlDeviceGetUtilizationRates(device *of, rates *out) {
    ENTER(of);
    out->memory = 0;
    if (of->part >= 0 || scenario_count(of->gpu, "mig", 0)) return NOT_SUPPORTED;
    return u32_of(of, "utilization", &out->gpu);
}

int nvmlDeviceGetMemoryInfo_v2(device *of, memory_v2 *out) {
    u64 reserved = 0;
    ENTER(of);
    if (out->version != 0x2000028) return 25;
    int code = count_of(of, "memory_total", &out->total);
    count_of(of, "memory_used", &out->used);
    count_of(of, "memory_reserved", &reserved);
    out->reserved = reserved;
    out->free = out->total - out->used - reserved;
    return code;
}

int nvmlDeviceGetMemoryInfo(device *of, memory_v1 *out) {
    u64 reserved = 0;
    ENTER(of);
    int code = count_of(of, "memory_total", &out->total);
    count_of(of, "memory_used", &out->used);
    count_of(of, "memory_reserved", &reserved);
    out->used += reserved; /* the older form counts the reserve as used */
    out->free = out->total - out->used;
    return code;
}

/* ---- counters ---- */

int nvmlDeviceGetTotalEnergyConsumption(device *of, u64 *out) {
    ENTER(of);
    return count_of(of, "energy_mj", out);
}

int nvmlDeviceGetTotalEccErrors(device *of, u32 kind, u32 since, u64 *out) {
    ENTER(of);
    return kind == 1 && since == 0 ? count_of(of, "ecc_uncorrected", out) : NOT_SUPPORTED;
}

int nvmlDeviceGetPcieThroughput(device *of, u32 counter, u32 *out) {
    ENTER(of);
    usleep(20000); /* the real one counts for 20 ms */
    return u32_of(of, counter == 1 ? "pcie_rx_kb" : "pcie_tx_kb", out);
}

static void answer(const device *of, field *asked) {
    char key[64];
    u64 number = 0;
    if (asked->scope == 0 || asked->scope == 0xFFFFFFFFu) snprintf(key, sizeof key, "field.%u", asked->id);
    else snprintf(key, sizeof key, "field.%u.%u", asked->id, asked->scope);
    asked->result = scenario_count(of->gpu, "lost", 0) ? LOST : count_of(of, key, &number);
    asked->type = asked->id == 185 || asked->id == 186 ? 1 : 3;
    asked->value.ull = 0;
    if (asked->type == 1) asked->value.ui = (u32)number;
    else asked->value.ull = number;
    snprintf(key, sizeof key, "fail.field.%u", asked->id);
    if (asked->result == OK) asked->result = (int)scenario_count(of->gpu, key, 0);
}

/* As the driver does, a lost GPU succeeds here and says so in each value. */
int nvmlDeviceGetFieldValues(device *of, int count, field *fields) {
    char key[] = "fail.nvmlDeviceGetFieldValues";
    scenario_called(__func__, of->gpu);
    int code = (int)scenario_count(of->gpu, key, 0);
    if (code) return code;
    for (int i = 0; i < count; i++) answer(of, &fields[i]);
    return OK;
}

/* ---- lists ---- */

/* Calls `take` for each item of "a:b:c,a:b:c" and returns how many it took. */
static u32 each(const device *of, const char *key, u32 most, void *into, int (*take)(void *, u32, const u64 *)) {
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

typedef struct { u64 since; sample *samples; } ring;

static int take_sample(void *into, u32 at, const u64 *numbers) {
    ring *to = into;
    if (numbers[0] <= to->since) return 0;
    if (to->samples) to->samples[at] = (sample){numbers[0], {.ui = (u32)numbers[1]}};
    return 1;
}

/* A ring that lives: 6 samples a second of a GPU that works four fifths of every two seconds. */
static u32 living_ring(ring *to, u32 most) {
    u64 step = 1000000 / 6, now = now_microseconds() / step * step, taken = 0;
    for (u64 time = now - 99 * step; time <= now && taken < most; time += step) {
        u64 numbers[2] = {time, time % 2000000 < 1600000 ? 97 : 0};
        taken += (u64)take_sample(to, (u32)taken, numbers);
    }
    return (u32)taken;
}

int nvmlDeviceGetSamples(device *of, u32 kind, u64 since, u32 *type, u32 *count, sample *samples) {
    ring to = {since, samples};
    ENTER(of);
    if (kind != 1 || of->part >= 0 || scenario_count(of->gpu, "mig", 0)) return NOT_SUPPORTED;
    u32 most = samples ? *count : 120;
    *type = 1;
    *count = scenario_count(of->gpu, "living", 0) ? living_ring(&to, most) : each(of, "samples", most, &to, take_sample);
    return *count ? OK : NOT_FOUND;
}

static int take_process(void *into, u32 at, const u64 *numbers) {
    if (into) ((process *)into)[at] = (process){(u32)numbers[0], numbers[1], ~0u, ~0u};
    return 1;
}

static int processes(device *of, const char *key, u32 *count, process *out) {
    u32 there = each(of, key, 256, NULL, take_process), room = *count;
    *count = there;
    if (there == 0) return OK;
    if (!out || room < there) return TOO_SMALL;
    each(of, key, there, out, take_process);
    return OK;
}

#define PROCESSES(function, key)                                \
    int function(device *of, u32 *count, process *out) {        \
        ENTER(of);                                              \
        return processes(of, key, count, out);                  \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "processes")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "processes")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps_processes")

typedef struct { u64 since; process_share *shares; } shares;

static int take_share(void *into, u32 at, const u64 *numbers) {
    shares *to = into;
    if (numbers[0] <= to->since) return 0;
    if (to->shares) to->shares[at] = (process_share){(u32)numbers[1], numbers[0], (u32)numbers[2], 0, 0, 0};
    return 1;
}

/* With nothing to say the real one answers success to the first question, which the binding raises as NVMLError(0). */
int nvmlDeviceGetProcessUtilization(device *of, process_share *out, u32 *count, u64 since) {
    shares to = {since, out};
    ENTER(of);
    if (of->part >= 0) return NOT_SUPPORTED;
    *count = each(of, "process_utilization", out ? *count : 256, &to, take_share);
    return out || *count == 0 ? OK : TOO_SMALL;
}

/* ---- MIG ---- */

int nvmlDeviceGetMigMode(device *of, u32 *current, u32 *pending) {
    ENTER(of);
    int code = u32_of(of, "mig", current);
    *pending = *current;
    return code;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device *of, u32 index, device **out) {
    char key[32];
    ENTER(of);
    snprintf(key, sizeof key, "mig.%u.slices", index);
    if (index >= MOST_PARTS || !scenario_count(of->gpu, key, 0)) return NOT_FOUND;
    *out = &devices[of->gpu][index + 1];
    return OK;
}

int nvmlDeviceGetAttributes_v2(device *of, attributes *out) {
    ENTER(of);
    memset(out, 0, sizeof *out);
    return u32_of(of, "slices", &out->compute_slices);
}

/* ---- links between GPUs ---- */

int nvmlDeviceGetP2PStatus(device *one, device *other, u32 kind, u32 *out) {
    u32 linked = 0;
    (void)other;
    ENTER(one);
    int code = kind == 2 ? u32_of(one, "nvlink", &linked) : NOT_SUPPORTED;
    *out = linked ? 0 : 5;
    return code;
}

/* ---- GPM ---- */

int nvmlGpmQueryDeviceSupport(device *of, gpm_support *out) {
    ENTER(of);
    out->supported = scenario_count(of->gpu, "gpm", 0) != 0;
    return OK;
}

int nvmlGpmSampleAlloc(gpm_sample **out) {
    *out = calloc(1, sizeof **out);
    return OK;
}

int nvmlGpmSampleFree(gpm_sample *sample) {
    free(sample);
    return OK;
}

int nvmlGpmSampleGet(device *of, gpm_sample *out) {
    ENTER(of);
    *out = (gpm_sample){of->gpu, -1};
    return OK;
}

int nvmlGpmMigSampleGet(device *of, u32 instance, gpm_sample *out) {
    ENTER(of);
    *out = (gpm_sample){of->gpu, (int)instance};
    return OK;
}

int nvmlGpmMetricsGet(gpm_question *question) {
    gpm_sample *second = question->second;
    if (question->version != 1 || question->first->gpu != second->gpu) return INVALID;
    ENTER(&devices[second->gpu][0]);
    for (u32 i = 0; i < question->count; i++) {
        gpm_metric *asked = &question->metrics[i];
        char key[64], found[64];
        if (second->part < 0) snprintf(key, sizeof key, "gpm.%u", asked->id);
        else snprintf(key, sizeof key, "gpm.instance%d.%u", second->part, asked->id);
        asked->result = scenario_text(second->gpu, key, found, sizeof found) ? OK : NOT_SUPPORTED;
        asked->value = asked->result == OK ? strtod(found, NULL) : 0;
    }
    return OK;
}

/* ---- events ---- */

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
    *out = 0x8;
    return OK;
}

int nvmlDeviceRegisterEvents(device *of, u64 types, event_set *set) {
    ENTER(of);
    (void)types;
    set->follows[of->gpu] = 1;
    set->seen[of->gpu] = scenario_count(of->gpu, "xids", 0);
    return OK;
}

/* One event at a time for every step of `xids` beyond what this set has told. */
int nvmlEventSetWait_v2(event_set *set, event *out, u32 milliseconds) {
    ENTER(NULL);
    for (u32 waited = 0;; waited += 50) {
        for (int gpu = 0; gpu < MOST_GPUS; gpu++) {
            if (!set->follows[gpu] || scenario_count(gpu, "xids", 0) <= set->seen[gpu]) continue;
            set->seen[gpu]++;
            *out = (event){&devices[gpu][0], 0x8, scenario_count(gpu, "xid", 79), ~0u, ~0u};
            return OK;
        }
        if (waited >= milliseconds) return TIMEOUT;
        usleep(50000);
    }
}
