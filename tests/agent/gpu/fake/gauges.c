/* What holds at the moment: utilization, memory, power, clocks, heat, the link to the host. */

#include "driver.h"
#include "structures.h"

NUMBER(nvmlDeviceGetPowerUsage, "power_mw")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
NUMBER(nvmlDeviceGetPowerManagementLimit, "power_limit_mw")
NUMBER(nvmlDeviceGetPerformanceState, "performance_state")
NUMBER(nvmlDeviceGetFanSpeed, "fan_percent")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation_max")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")

/* Graphics (0) and SM (1) are one clock on what computes; 2 is memory, 3 video. */
static const char *const CLOCKS[] = {"sm_clock_mhz", "sm_clock_mhz", "mem_clock_mhz", "video_clock_mhz"};
static const char *const HIGHEST[] = {"sm_clock_max_mhz", "sm_clock_max_mhz", "mem_clock_max_mhz", "video_clock_max_mhz"};

int nvmlDeviceGetClockInfo(device *of, u32 type, u32 *out) {
    ENTER(of);
    return type < 4 ? u32_of(of, CLOCKS[type], out) : INVALID;
}

int nvmlDeviceGetMaxClockInfo(device *of, u32 type, u32 *out) {
    ENTER(of);
    return type < 4 ? u32_of(of, HIGHEST[type], out) : INVALID;
}

int nvmlDeviceGetCurrentClocksEventReasons(device *of, u64 *out) {
    ENTER(of);
    return count_of(of, "clock_reasons", out);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device *of, u64 *out) {
    ENTER(of);
    return count_of(of, "clock_reasons", out);
}

int nvmlDeviceGetTemperatureV(device *of, temperature *out) {
    u32 celsius = 0;
    ENTER(of);
    if (out->version != WORD(1, temperature)) return OTHER_VERSION;
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
    if (cut_up(of)) return NOT_SUPPORTED;
    u32_of(of, "memory_utilization", &out->memory);
    return u32_of(of, "utilization", &out->gpu);
}

static int codec(device *of, const char *key, u32 *out, u32 *period) {
    *period = 166667; /* microseconds that the share is taken over */
    return cut_up(of) ? NOT_SUPPORTED : u32_of(of, key, out);
}

int nvmlDeviceGetEncoderUtilization(device *of, u32 *out, u32 *period) {
    ENTER(of);
    return codec(of, "encoder", out, period);
}

int nvmlDeviceGetDecoderUtilization(device *of, u32 *out, u32 *period) {
    ENTER(of);
    return codec(of, "decoder", out, period);
}

int nvmlDeviceGetMemoryInfo_v2(device *of, memory_v2 *out) {
    ENTER(of);
    if (out->version != WORD(2, memory_v2)) return OTHER_VERSION;
    out->used = out->reserved = 0;
    int code = count_of(of, "memory_total", &out->total);
    count_of(of, "memory_used", &out->used);
    count_of(of, "memory_reserved", &out->reserved);
    out->free = out->total - out->used - out->reserved;
    return code;
}

int nvmlDeviceGetMemoryInfo(device *of, memory_v1 *out) {
    u64 reserved = 0;
    ENTER(of);
    out->used = 0;
    int code = count_of(of, "memory_total", &out->total);
    count_of(of, "memory_used", &out->used);
    count_of(of, "memory_reserved", &reserved);
    out->used += reserved; /* the older form counts the reserve as used */
    out->free = out->total - out->used;
    return code;
}

int nvmlDeviceGetBAR1MemoryInfo(device *of, memory_v1 *out) {
    ENTER(of);
    out->used = 0;
    int code = count_of(of, "bar1_total", &out->total);
    count_of(of, "bar1_used", &out->used);
    out->free = out->total - out->used;
    return code;
}
