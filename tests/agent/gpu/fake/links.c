/* Links between GPUs, and where a GPU sits in a larger machine. */

#include <stdio.h>
#include <string.h>

#include "driver.h"
#include "structures.h"

int nvmlDeviceGetP2PStatus(device *one, device *other, u32 kind, u32 *out) {
    u32 linked = 0;
    (void)other;
    ENTER(one);
    int code = kind == 2 ? u32_of(one, "nvlink", &linked) : NOT_SUPPORTED;
    *out = linked ? 0 : 5;
    return code;
}

/* `nvlinks` of them, all up but those that "nvlink.<link>=0" names. */
static int link_state(const device *of, u32 link, u32 *out) {
    char key[32];
    u32 links = 0;
    int code = u32_of(of, "nvlinks", &links);
    if (code || link >= links) return code ? code : INVALID;
    snprintf(key, sizeof key, "nvlink.%u", link);
    *out = 1;
    u32_of(of, key, out);
    return OK;
}

int nvmlDeviceGetNvLinkState(device *of, u32 link, u32 *out) {
    u32 up = 1;
    ENTER(of);
    int code = link_state(of, link, &up);
    *out = up;
    return code;
}

/* The other end is a switch. */
int nvmlDeviceGetNvLinkRemotePciInfo_v2(device *of, u32 link, pci *out) {
    u32 up = 1;
    ENTER(of);
    int code = link_state(of, link, &up);
    if (code || !up) return code ? code : NOT_SUPPORTED;
    *out = (pci){.bus = 0xC0 + link};
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
    return OK;
}

int nvmlDeviceGetGpuFabricInfoV(device *of, fabric *out) {
    u32 state = 0;
    ENTER(of);
    if (out->version != WORD(2, fabric)) return OTHER_VERSION;
    u32 word = out->version;
    memset(out, 0, sizeof *out);
    out->version = word;
    int code = u32_of(of, "fabric_state", &state);
    out->state = (unsigned char)state;
    u32_of(of, "fabric_clique", &out->clique);
    return code;
}

int nvmlDeviceGetPlatformInfo(device *of, platform *out) {
    u32 module = 0;
    ENTER(of);
    if (out->version != WORD(2, platform)) return OTHER_VERSION;
    u32 word = out->version;
    memset(out, 0, sizeof *out);
    out->version = word;
    int code = u32_of(of, "platform_module", &module);
    out->module = (char)module;
    text_of(of, "platform_chassis", out->chassis, sizeof out->chassis);
    return code;
}
