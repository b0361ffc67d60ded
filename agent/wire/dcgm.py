"""The fields of dcgm-exporter that we serve and read: names and units before and since 4.9, and our reading of each.

Sources: dcgm-exporter, etc/default-counters.csv and etc/dcp-metrics-included.csv (names, units and types before 4.9)
and its release notes of 4.9.0 (23 fields renamed, eleven of them with another unit); go-dcgm, pkg/dcgm, the pairs of
fields in base units; DCGM 4.7, field identifiers (the rest). A name that 4.9 kept stands in both columns.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit, and how a value in our base unit becomes one in it: times `times`, by `by`."""

    name: str
    times: int = 1
    by: int = 1


@dataclass(frozen=True, slots=True)
class Field:
    """One field: what it is, our reading, and its two names, each with its unit.

    `reading` is a column of gpu_samples, or what agent/metrics/dcgm.py works out under that name.
    """

    words: str
    reading: str
    legacy: str
    legacy_unit: Unit
    current: str
    current_unit: Unit
    kind: Literal["gauge", "counter"] = "gauge"


_CELSIUS = Unit("degrees Celsius")
WATTS = Unit("W")
_RATIO = Unit("0 to 1")
_PERCENT = Unit("%", times=100)
_HERTZ, MEGAHERTZ = Unit("Hz"), Unit("MHz", by=1_000_000)
_JOULES, _MILLIJOULES = Unit("J"), Unit("mJ", times=1000)
_BYTES, _MEBIBYTES = Unit("bytes"), Unit("MiB", by=2**20)
_SECONDS, NANOSECONDS = Unit("s"), Unit("ns", times=1_000_000_000)
_BYTES_A_SECOND = Unit("bytes/s")
_NVLINK_MEGABYTES = Unit("MB/s", by=1_024_000)  # DCGM divides the driver's KiB by 1000
COUNT = Unit("number")
_FLAG = Unit("0 or 1")

_DEV, _PROF = "DCGM_FI_DEV_", "DCGM_FI_PROF_"


def _dev(words: str, reading: str, legacy: str, unit: Unit, current: str, current_unit: Unit) -> Field:
    return Field(words, reading, _DEV + legacy, unit, _DEV + current, current_unit)


def _total(words: str, reading: str, legacy: str, unit: Unit, current: str, current_unit: Unit) -> Field:
    return Field(words, reading, _DEV + legacy, unit, _DEV + current, current_unit, "counter")


def _prof(words: str, reading: str, legacy: str, current: str, unit: Unit = _RATIO) -> Field:
    return Field(words, reading, _PROF + legacy, unit, _PROF + current, unit)


def fields() -> tuple[Field, ...]:
    """Return every field that is served, in the order of a scrape."""
    return (*_DEVICE, *_HEALTH, *_LINKS, *_PROFILING)


_DEVICE = (
    _dev("SM clock", "sm_clock_hertz", "SM_CLOCK", MEGAHERTZ, "SM_CLOCK_HERTZ", _HERTZ),
    _dev("Memory clock", "memory_clock_hertz", "MEM_CLOCK", MEGAHERTZ, "MEMORY_CLOCK_HERTZ", _HERTZ),
    _dev(
        "Memory temperature",
        "memory_temperature_celsius",
        "MEMORY_TEMP",
        _CELSIUS,
        "MEMORY_TEMP_CELSIUS",
        _CELSIUS,
    ),
    _dev("GPU temperature", "temperature_celsius", "GPU_TEMP", _CELSIUS, "GPU_TEMP_CELSIUS", _CELSIUS),
    _dev("Power draw", "power_watts", "POWER_USAGE", WATTS, "BOARD_POWER_WATTS", WATTS),
    _total(
        "Energy since the driver was loaded",
        "energy_joules_total",
        "TOTAL_ENERGY_CONSUMPTION",
        _MILLIJOULES,
        "GPU_ENERGY_JOULES_TOTAL",
        _JOULES,
    ),
    _dev("GPU utilization", "utilization_ratio", "GPU_UTIL", _PERCENT, "GPU_UTIL_RATIO", _RATIO),
    _dev("Memory utilization", "memory_utilization_ratio", "MEM_COPY_UTIL", _PERCENT, "MEMORY_UTIL_RATIO", _RATIO),
    _dev("Encoder utilization", "encoder_utilization_ratio", "ENC_UTIL", _PERCENT, "ENC_UTIL_RATIO", _RATIO),
    _dev("Decoder utilization", "decoder_utilization_ratio", "DEC_UTIL", _PERCENT, "DEC_UTIL_RATIO", _RATIO),
    _dev("Device memory", "memory_bytes", "FB_TOTAL", _MEBIBYTES, "FB_CAPACITY_BYTES", _BYTES),
    _dev("Device memory free", "memory_free_bytes", "FB_FREE", _MEBIBYTES, "FB_FREE_BYTES", _BYTES),
    _dev("Device memory used", "memory_used_bytes", "FB_USED", _MEBIBYTES, "FB_USED_BYTES", _BYTES),
    _dev("Device memory reserved", "memory_reserved_bytes", "FB_RESERVED", _MEBIBYTES, "FB_RESERVED_BYTES", _BYTES),
    _dev("Share of the device memory in use", "memory_used_ratio", "FB_USED_PERCENT", _RATIO, "FB_USED_RATIO", _RATIO),
)

_HEALTH = (
    _dev("Code of the latest XID error; 0 for none", "xid_last", "XID_ERRORS", COUNT, "XID_ERROR", COUNT),
    _total(
        "Rows remapped for uncorrectable errors",
        "remapped_rows_uncorrected",
        "UNCORRECTABLE_REMAPPED_ROWS",
        COUNT,
        "ROW_REMAP_UNCORRECTABLE_TOTAL",
        COUNT,
    ),
    _total(
        "Rows remapped for correctable errors",
        "remapped_rows_corrected",
        "CORRECTABLE_REMAPPED_ROWS",
        COUNT,
        "ROW_REMAP_CORRECTABLE_TOTAL",
        COUNT,
    ),
    _dev("A row could not be remapped", "row_remap_failure", "ROW_REMAP_FAILURE", _FLAG, "ROW_REMAP_FAILED", _FLAG),
    _dev(
        "A row remap is waiting for a reset",
        "row_remap_pending",
        "ROW_REMAP_PENDING",
        _FLAG,
        "ROW_REMAP_PENDING",
        _FLAG,
    ),
    _total(
        "Time throttled for power since the agent started",
        "throttle_power_seconds",
        "POWER_VIOLATION",
        NANOSECONDS,
        "GPU_POWER_THROTTLE_SECONDS_TOTAL",
        _SECONDS,
    ),
    _total(
        "Time throttled for heat since the agent started",
        "throttle_thermal_seconds",
        "THERMAL_VIOLATION",
        NANOSECONDS,
        "GPU_THERMAL_THROTTLE_SECONDS_TOTAL",
        _SECONDS,
    ),
    _total(
        "Time held to the clock of other GPUs (sync boost) since the agent started",
        "throttle_sync_boost_seconds",
        "SYNC_BOOST_VIOLATION",
        NANOSECONDS,
        "GPU_SYNC_BOOST_THROTTLE_SECONDS_TOTAL",
        _SECONDS,
    ),
)

_LINKS = (
    _total(
        "PCIe packets retransmitted since the agent started",
        "pcie_replay_events",
        "PCIE_REPLAY_COUNTER",
        COUNT,
        "PCIE_REPLAY_TOTAL",
        COUNT,
    ),
    # dcgm-exporter calls it a counter, and serves a rate.
    _dev(
        "NVLink traffic, both directions",
        "nvlink_bytes_per_second",
        "NVLINK_BANDWIDTH_TOTAL",
        _NVLINK_MEGABYTES,
        "NVLINK_THROUGHPUT_BYTES_PER_SECOND",
        _BYTES_A_SECOND,
    ),
    _prof("PCIe sent", "pcie_transmit_bytes_per_second", "PCIE_TX_BYTES", "PCIE_TX_BYTES", _BYTES_A_SECOND),
    _prof("PCIe received", "pcie_receive_bytes_per_second", "PCIE_RX_BYTES", "PCIE_RX_BYTES", _BYTES_A_SECOND),
    _prof("NVLink sent", "nvlink_transmit_bytes_per_second", "NVLINK_TX_BYTES", "NVLINK_TX_BYTES", _BYTES_A_SECOND),
    _prof("NVLink received", "nvlink_receive_bytes_per_second", "NVLINK_RX_BYTES", "NVLINK_RX_BYTES", _BYTES_A_SECOND),
)

_PROFILING = (
    _prof("Graphics or compute engine active", "graphics_active_ratio", "GR_ENGINE_ACTIVE", "GR_ENGINE_UTIL_RATIO"),
    _prof("SMs with a resident warp", "sm_active_ratio", "SM_ACTIVE", "SM_UTIL_RATIO"),
    _prof("Resident warps as a share of the maximum", "sm_occupancy_ratio", "SM_OCCUPANCY", "SM_OCCUPANCY_RATIO"),
    _prof("Tensor pipe active", "tensor_active_ratio", "PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO"),
    _prof("FP64 pipe active", "fp64_active_ratio", "PIPE_FP64_ACTIVE", "FP64_UTIL_RATIO"),
    _prof("FP32 pipe active", "fp32_active_ratio", "PIPE_FP32_ACTIVE", "FP32_UTIL_RATIO"),
    _prof("FP16 pipe active", "fp16_active_ratio", "PIPE_FP16_ACTIVE", "FP16_UTIL_RATIO"),
    _prof("Device memory interface active", "dram_active_ratio", "DRAM_ACTIVE", "DRAM_UTIL_RATIO"),
)
