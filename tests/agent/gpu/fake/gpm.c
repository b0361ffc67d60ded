/* Activity within the chip: "gpm=1" and "gpm.<metric>=<value>", of a GPU instance "gpm.instance<number>.<metric>". */

#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "structures.h"

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

/* Of a MIG handle it measures the GPU instance that the part lies in. */
int nvmlGpmSampleGet(device *of, gpm_sample *out) {
    u32 instance = 0;
    ENTER(of);
    if (of->part >= 0) u32_of(of, "gpu_instance", &instance);
    *out = (gpm_sample){of->gpu, of->part < 0 ? -1 : (int)instance};
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
    ENTER(device_at(second->gpu, -1));
    for (u32 i = 0; i < question->count && i < MOST_GPM_METRICS; i++) {
        gpm_metric *asked = &question->metrics[i];
        char key[64], found[64];
        if (second->part < 0) snprintf(key, sizeof key, "gpm.%u", asked->id);
        else snprintf(key, sizeof key, "gpm.instance%d.%u", second->part, asked->id);
        asked->result = scenario_text(second->gpu, key, found, sizeof found) ? OK : NOT_SUPPORTED;
        asked->value = asked->result == OK ? strtod(found, NULL) : 0;
    }
    return OK;
}
