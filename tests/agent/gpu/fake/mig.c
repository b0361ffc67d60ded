/* GPUs cut into parts: "<gpu>.mig=1", and "<gpu>.mig.<place>.slices" for every part there is. */

#include <stdio.h>

#include "driver.h"
#include "structures.h"

NUMBER(nvmlDeviceGetMaxMigDeviceCount, "mig_max")
NUMBER(nvmlDeviceGetGpuInstanceId, "gpu_instance")
NUMBER(nvmlDeviceGetComputeInstanceId, "compute_instance")

int nvmlDeviceGetMigMode(device *of, u32 *current, u32 *pending) {
    ENTER(of);
    int code = u32_of(of, "mig", current);
    *pending = *current;
    return code;
}

int nvmlDeviceIsMigDeviceHandle(device *of, u32 *out) {
    ENTER(of);
    *out = of->part >= 0;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device *of, u32 index, device **out) {
    char key[32];
    ENTER(of);
    snprintf(key, sizeof key, "mig.%u.slices", index);
    if (index >= MOST_PARTS || !scenario_count(of->gpu, key, 0)) return NOT_FOUND;
    *out = device_at(of->gpu, (int)index);
    return OK;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device *of, device **out) {
    ENTER(of);
    if (of->part < 0) return INVALID;
    *out = device_at(of->gpu, -1);
    return OK;
}

int nvmlDeviceGetAttributes_v2(device *of, attributes *out) {
    u64 bytes = 0;
    ENTER(of);
    *out = (attributes){0};
    count_of(of, "memory_total", &bytes);
    out->megabytes = bytes >> 20;
    int code = u32_of(of, "slices", &out->compute_slices);
    out->gpu_slices = out->compute_slices;
    return code;
}
