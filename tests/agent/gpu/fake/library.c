/* The library, the host, and which GPUs there are. */

#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "driver.h"
#include "structures.h"

int nvmlInitWithFlags(u32 flags) {
    (void)flags;
    ENTER(NULL);
    return OK;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(int code) {
    static char text[64];
    (void)code;
    return scenario_text(-1, "error_text", text, sizeof text) ? text : "an error of the scenario";
}

/* ---- the host ---- */

static int host_text(const char *key, const char *otherwise, char *out, u32 size) {
    if (!scenario_text(-1, key, out, size)) snprintf(out, size, "%s", otherwise);
    return OK;
}

int nvmlSystemGetDriverVersion(char *out, u32 size) {
    ENTER(NULL);
    return host_text("driver", "570.86.10", out, size);
}

int nvmlSystemGetNVMLVersion(char *out, u32 size) {
    ENTER(NULL);
    return host_text("nvml", "12.570.86.10", out, size);
}

int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    ENTER(NULL);
    *out = (int)scenario_count(-1, "cuda", 12080);
    return OK;
}

int nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

int nvmlSystemGetProcessName(u32 pid, char *out, u32 size) {
    char path[64];
    ENTER(NULL);
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE *file = fopen(path, "r");
    if (!file) return NOT_FOUND;
    if (!fgets(out, (int)size, file)) *out = 0;
    fclose(file);
    out[strcspn(out, "\n")] = 0;
    return OK;
}

/* ---- handles ---- */

static u32 count(void) {
    u64 said = scenario_count(-1, "count", 0);
    return said < MOST_GPUS ? (u32)said : MOST_GPUS;
}

int nvmlDeviceGetCount_v2(u32 *out) {
    ENTER(NULL);
    *out = (u32)scenario_count(-1, "count", 0);
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(u32 index, device **out) {
    if (index >= MOST_GPUS) return INVALID;
    ENTER(device_at((int)index, -1));
    if (index >= count()) return INVALID;
    *out = device_at((int)index, -1);
    return OK;
}

static void uuid_of(const device *of, char *out, size_t size) {
    if (text_of(of, "uuid", out, size)) return;
    snprintf(out, size, "%s-%08d-0000-0000-0000-%012d", of->part < 0 ? "GPU" : "MIG", of->gpu, of->part + 1);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device **out) {
    char mine[96];
    ENTER(NULL);
    for (u32 gpu = 0; gpu < count(); gpu++) {
        for (int part = -1; part < MOST_PARTS; part++) {
            device *at = device_at((int)gpu, part);
            uuid_of(at, mine, sizeof mine);
            if (strcmp(mine, uuid)) continue;
            *out = at;
            return OK;
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(device *of, char *out, u32 size) {
    ENTER(of);
    uuid_of(of, out, size);
    return OK;
}

int nvmlDeviceGetName(device *of, char *out, u32 size) {
    ENTER(of);
    return text_of(of, "name", out, size) ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetIndex(device *of, u32 *out) {
    ENTER(of);
    *out = (u32)of->gpu;
    return OK;
}

int nvmlDeviceGetMinorNumber(device *of, u32 *out) {
    ENTER(of);
    *out = (u32)scenario_count(of->gpu, "minor", (u64)of->gpu);
    return OK;
}

int nvmlDeviceGetPciInfo_v3(device *of, pci *out) {
    ENTER(of);
    *out = (pci){.bus = (u32)scenario_count(of->gpu, "bus", 0x10 + (u64)of->gpu)};
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus & 0xFF);
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
    return OK;
}

NUMBER(nvmlDeviceGetArchitecture, "architecture")
