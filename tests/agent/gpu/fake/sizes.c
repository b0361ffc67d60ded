/* What the compiler makes of our structures, told to the tests by the name that the structure bears in nvidia-ml-py. */

#include <string.h>

#include "driver.h"
#include "structures.h"

static const struct { const char *name; size_t size; u32 word; } SHAPES[] = {
    {"c_nvmlFieldValue_t", sizeof(field), 0},
    {"c_nvmlSample_t", sizeof(sample), 0},
    {"c_nvmlProcessInfo_v2_t", sizeof(process), 0},
    {"c_nvmlProcessInfo_v3_t", sizeof(process), 0},
    {"c_nvmlProcessUtilizationSample_t", sizeof(process_share), 0},
    {"c_nvmlProcessUtilizationInfo_v1_t", sizeof(process_info), 0},
    {"c_nvmlProcessesUtilizationInfo_v1_t", sizeof(process_infos), WORD(1, process_infos)},
    {"c_nvmlMemory_t", sizeof(memory_v1), 0},
    {"c_nvmlMemory_v2_t", sizeof(memory_v2), WORD(2, memory_v2)},
    {"nvmlPciInfo_t", sizeof(pci), 0},
    {"c_nvmlTemperature_v1_t", sizeof(temperature), WORD(1, temperature)},
    {"c_nvmlUtilization_t", sizeof(rates), 0},
    {"c_nvmlDeviceAttributes", sizeof(attributes), 0},
    {"c_nvmlEventData_t", sizeof(event), 0},
    {"c_nvmlGpmSupport_t", sizeof(gpm_support), 0},
    {"c_nvmlGpmMetric_t", sizeof(gpm_metric), 0},
    {"c_nvmlGpmMetricsGet_t", sizeof(gpm_question), 0},
    {"c_nvmlGpuFabricInfo_v2_t", sizeof(fabric), WORD(2, fabric)},
    {"c_nvmlPlatformInfo_v2_t", sizeof(platform), WORD(2, platform)},
};

/* The name of the next structure, NULL after the last; its size and, where it has one, its version word. */
const char *gpuledger_fake_shape(u32 at, size_t *size, u32 *word) {
    if (at >= sizeof SHAPES / sizeof *SHAPES) return NULL;
    *size = SHAPES[at].size;
    *word = SHAPES[at].word;
    return SHAPES[at].name;
}
