/* What only grows, or is asked by number: energy, errors, traffic, fields. */

#include <stdio.h>
#include <unistd.h>

#include "driver.h"
#include "structures.h"

int nvmlDeviceGetTotalEnergyConsumption(device *of, u64 *out) {
    ENTER(of);
    return count_of(of, "energy_mj", out);
}

int nvmlDeviceGetTotalEccErrors(device *of, u32 kind, u32 since, u64 *out) {
    static const char *const KEYS[2][2] = {{"ecc_corrected", "ecc_corrected_ever"},
                                           {"ecc_uncorrected", "ecc_uncorrected_ever"}};
    ENTER(of);
    return kind < 2 && since < 2 ? count_of(of, KEYS[kind][since], out) : INVALID;
}

int nvmlDeviceGetRemappedRows(device *of, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
    ENTER(of);
    if (of->part >= 0) return NOT_SUPPORTED;
    *pending = *failed = *uncorrected = 0;
    u32_of(of, "remapped_uncorrected", uncorrected);
    u32_of(of, "remap_pending", pending);
    u32_of(of, "remap_failed", failed);
    return u32_of(of, "remapped_corrected", corrected);
}

int nvmlDeviceGetPcieThroughput(device *of, u32 counter, u32 *out) {
    ENTER(of);
    usleep(20000); /* the real one counts for 20 ms */
    return u32_of(of, counter == 1 ? "pcie_rx_kb" : "pcie_tx_kb", out);
}

/* Unsigned ints; every other field is an unsigned long long here. `field_type.<id>` says otherwise. */
static u32 type_of(const device *of, u32 id) {
    char key[64];
    u64 said = 0;
    snprintf(key, sizeof key, "field_type.%u", id);
    if (count_of(of, key, &said) == OK) return (u32)said;
    switch (id) {
        case 82: case 94: case 142: case 143: case 144: case 145: case 185: case 186: case 197: case 198: case 230:
            return 1;
        default:
            return 3;
    }
}

/* "field.<id>.<scope>", where scope may be "all"; else "field.<id>" for the whole GPU and for the sum over links. */
static int number_of(const device *of, const field *asked, u64 *out) {
    char key[64];
    if (asked->scope == ALL) snprintf(key, sizeof key, "field.%u.all", asked->id);
    else snprintf(key, sizeof key, "field.%u.%u", asked->id, asked->scope);
    if (count_of(of, key, out) == OK) return OK;
    if (asked->scope != 0 && asked->scope != ALL) return NOT_SUPPORTED;
    snprintf(key, sizeof key, "field.%u", asked->id);
    return count_of(of, key, out);
}

static void answer(const device *of, field *asked) {
    char key[64];
    u64 number = 0;
    asked->result = scenario_count(of->gpu, "lost", 0) ? LOST : number_of(of, asked, &number);
    asked->type = type_of(of, asked->id);
    asked->value = value_as(asked->type, number);
    asked->time = (int64_t)now_microseconds();
    asked->latency = 0;
    snprintf(key, sizeof key, "fail.field.%u", asked->id);
    if (asked->result == OK) asked->result = (int)scenario_count(of->gpu, key, 0);
}

/* As the driver does, a lost GPU succeeds here and says so in each value. */
int nvmlDeviceGetFieldValues(device *of, int count, field *fields) {
    int code = enter(of, __func__);
    if (code && !(code == LOST && scenario_count(of->gpu, "lost", 0))) return code;
    for (int i = 0; i < count; i++) answer(of, &fields[i]);
    return OK;
}
