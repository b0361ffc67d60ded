/* The structures of nvml.h that cross the border, under short names. sizes.c tells their sizes to the tests. */

#ifndef STRUCTURES_H
#define STRUCTURES_H

#include "driver.h"

typedef struct { u32 id, scope; int64_t time, latency; u32 type; int result; value value; } field;
typedef struct { u64 time; value value; } sample;
typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } process;
typedef struct { u32 pid; u64 time; u32 sm, memory, encoder, decoder; } process_share;
typedef struct { u64 time; u32 pid, sm, memory, encoder, decoder, jpeg, ofa; } process_info;
typedef struct { u32 version, count; u64 since; process_info *infos; } process_infos;
typedef struct { u32 version; u64 total, reserved, free, used; } memory_v2;
typedef struct { u64 total, free, used; } memory_v1;
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } pci;
typedef struct { u32 version, sensor; int celsius; } temperature;
typedef struct { u32 gpu, memory; } rates;
typedef struct { u32 sms, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices; u64 megabytes; } attributes;
typedef struct { device *device; u64 type, data; u32 gpu_instance, compute_instance; } event;
typedef struct { u32 version, supported; } gpm_support;
typedef struct { u32 id; int result; double value; const char *name, *long_name, *unit; } gpm_metric;
typedef struct { u32 version; unsigned char cluster[16]; int status; u32 clique; unsigned char state; u32 health; } fabric;
typedef struct { u32 version; char guid[16], chassis[16], slot, tray, host, peer, module; } platform;

/* A sample is the driver's own; only its address is given out. A question has room for NVML_GPM_METRIC_MAX. */
#define MOST_GPM_METRICS 477
typedef struct { int gpu, part; } gpm_sample;
typedef struct { u32 version, count; gpm_sample *first, *second; gpm_metric metrics[MOST_GPM_METRICS]; } gpm_question;

/* The low 24 bits of a version word are the size of its structure, the high 8 its number. */
#define WORD(number, type) ((u32)(sizeof(type) | (u32)(number) << 24))

#endif
