"""Every table and column of the contract, declared once (docs/metrics.md is generated from here).

Times are integer microseconds UTC, intervals half-open and abutting. Amounts are per interval, so that a counter's
reset can never look like work. None means that the source did not report; it never stands for 0.
"""

from typing import Final

from agent.wire.contract import ArrowType, Column, Kind, Sensitivity, Table, Teller


def _key(
    name: str,
    help: str,  # noqa: A002
    type: ArrowType = "string",  # noqa: A002
    unit: str = "",
    required: bool = True,
    sensitivity: Sensitivity = "none",
    since: int = 1,
) -> Column:
    return Column(name, type, "key", unit, help, required=required, sensitivity=sensitivity, since=since)


def _gauge(name: str, unit: str, help: str, source: str = "", dcgm: str = "", since: int = 1) -> Column:  # noqa: A002
    return Column(name, _number_type(unit), "gauge", unit, help, source, dcgm, since=since)


def _amount(name: str, unit: str, help: str, source: str = "", dcgm: str = "", since: int = 1) -> Column:  # noqa: A002
    return Column(name, _number_type(unit), "amount", unit, help, source, dcgm, since=since)


def _fact(
    name: str,
    help: str,  # noqa: A002
    type: ArrowType = "string",  # noqa: A002
    unit: str = "",
    source: str = "",
    sensitivity: Sensitivity = "none",
    since: int = 1,
    tellers: frozenset[Teller] | None = None,
) -> Column:
    kind: Kind = "fact"
    return Column(name, type, kind, unit, help, source, sensitivity=sensitivity, since=since, tellers=tellers)


def _number_type(unit: str) -> ArrowType:
    return "int64" if unit in ("bytes", "events", "count") else "float64"


_SCHEDULER: Final[frozenset[Teller]] = frozenset({"scheduler"})
_SCHEDULER_OR_HOST: Final[frozenset[Teller]] = frozenset({"scheduler", "host"})
_HOST_OR_RUN: Final[frozenset[Teller]] = frozenset({"host", "run"})
# How a host knows who holds its GPUs, in order of belief: its kubelet, a cgroup, the process's own word, nobody's.
HOST_AUTHORITIES: Final = ("kubernetes", "cgroup", "declared", "process")
_NODE = _key("node", "Host name, as its scheduler calls it.")
_STARTED = _key("started_at", "Start of the interval, inclusive.", "int64", "microseconds")
_ENDED = _key("ended_at", "End of the interval, exclusive.", "int64", "microseconds")
_INTERVAL = (_NODE, _STARTED, _ENDED)
_GPU = _key("gpu_uuid", "The driver's UUID of the GPU or MIG instance.")
_RUN = _key("run_id", "<scheduler>/<cluster>/<id> of the whole run.", sensitivity="id")
_RUN_WITH_GPU = _key("gpu_uuid", "The GPU that the process tree holds; none for a host-only process.", required=False)
_TOLD_BY = _fact(
    "told_by",
    "The host whose own key sent the row; none if it came from a scheduler, Prometheus or the operator. "
    "Set by the collector.",
    since=4,
)
_DEVICE = _key("device", "Kernel name of the device, or the mount point.", sensitivity="id")

GPU_SAMPLES = Table(
    "gpu_samples",
    "one GPU (or MIG instance) over one interval",
    (
        *_INTERVAL,
        _GPU,
        _fact("parent_uuid", "The GPU that a MIG instance is a part of."),
        Column("up", "bool", "gauge", "", "1 if the driver answers for this GPU, 0 if it is lost or off the bus."),
        _gauge(
            "utilization_ratio",
            "ratio",
            "Share of the interval with any kernel resident.",
            "nvmlDeviceGetUtilizationRates",
            "DCGM_FI_DEV_GPU_UTIL",
        ),
        _gauge(
            "utilization_zero_ratio",
            "ratio",
            "Share of the driver's sub-second utilization samples at 0.",
            "nvmlDeviceGetSamples(GPU_UTILIZATION)",
        ),
        _gauge(
            "utilization_low_ratio",
            "ratio",
            "Share of the driver's sub-second utilization samples under 20%.",
            "nvmlDeviceGetSamples(GPU_UTILIZATION)",
        ),
        _gauge(
            "utilization_high_ratio",
            "ratio",
            "Share of the driver's sub-second utilization samples over 80%.",
            "nvmlDeviceGetSamples(GPU_UTILIZATION)",
        ),
        _gauge(
            "memory_used_bytes",
            "bytes",
            "Device memory held by processes, without the driver's reserve.",
            "nvmlDeviceGetMemoryInfo(v2)",
            "DCGM_FI_DEV_FB_USED",
        ),
        _gauge(
            "memory_reserved_bytes",
            "bytes",
            "Device memory reserved by the driver.",
            "nvmlDeviceGetMemoryInfo(v2)",
            "DCGM_FI_DEV_FB_RESERVED",
        ),
        _gauge(
            "sm_active_ratio",
            "ratio",
            "Share of SM-cycles with at least one warp.",
            "GPM 2 (Hopper and newer)",
            "DCGM_FI_PROF_SM_ACTIVE",
        ),
        _gauge(
            "sm_occupancy_ratio",
            "ratio",
            "Resident warps as a share of the maximum.",
            "GPM 3",
            "DCGM_FI_PROF_SM_OCCUPANCY",
        ),
        _gauge(
            "tensor_active_ratio",
            "ratio",
            "Share of cycles with a tensor pipe busy.",
            "GPM 5",
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        ),
        _gauge("dram_active_ratio", "ratio", "Share of HBM bandwidth in use.", "GPM 10", "DCGM_FI_PROF_DRAM_ACTIVE"),
        _amount(
            "pcie_receive_bytes",
            "bytes",
            "Bytes from host to GPU.",
            "GPM 21, else a slow thread",
            "DCGM_FI_PROF_PCIE_RX_BYTES",
        ),
        _amount(
            "pcie_transmit_bytes",
            "bytes",
            "Bytes from GPU to host.",
            "GPM 20, else a slow thread",
            "DCGM_FI_PROF_PCIE_TX_BYTES",
        ),
        _amount(
            "nvlink_receive_bytes", "bytes", "Bytes received over NVLink.", "field 139", "DCGM_FI_PROF_NVLINK_RX_BYTES"
        ),
        _amount(
            "nvlink_transmit_bytes", "bytes", "Bytes sent over NVLink.", "field 138", "DCGM_FI_PROF_NVLINK_TX_BYTES"
        ),
        _gauge(
            "power_watts", "watts", "Board power.", "field 186, else nvmlDeviceGetPowerUsage", "DCGM_FI_DEV_POWER_USAGE"
        ),
        _amount("energy_joules", "joules", "Energy spent in the interval; none across a driver reload.", "field 83"),
        Column(
            "energy_joules_total",
            "float64",
            "counter",
            "joules",
            "The driver's energy counter, so that no energy is lost with a batch.",
            "nvmlDeviceGetTotalEnergyConsumption",
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        ),
        _fact("energy_epoch", "Changes whenever the driver's energy counter restarts.", "int64", "count"),
        _gauge(
            "temperature_celsius", "celsius", "Core temperature.", "nvmlDeviceGetTemperatureV", "DCGM_FI_DEV_GPU_TEMP"
        ),
        _gauge("sm_clock_hertz", "hertz", "SM clock.", "nvmlDeviceGetClockInfo", "DCGM_FI_DEV_SM_CLOCK"),
        _gauge(
            "sm_clock_reference_hertz",
            "hertz",
            "The SM clock that this GPU would run at under this load without any limit.",
            "nvmlDeviceGetMaxClockInfo",
        ),
        _amount(
            "throttle_power_seconds", "seconds", "Time below the requested clock because of power limits.", "field 74"
        ),
        _amount(
            "throttle_thermal_seconds",
            "seconds",
            "Time below the requested clock because of thermal limits.",
            "fields 75, 269, 270",
        ),
        _amount(
            "throttle_hardware_seconds",
            "seconds",
            "Time throttled by the board: power brake, reliability voltage.",
            "fields 77, 79, 271",
        ),
        _amount("xid_events", "events", "XID errors in the interval.", "nvmlEventSetWait_v2", "DCGM_FI_DEV_XID_ERRORS"),
        _amount(
            "ecc_uncorrected_events", "events", "Uncorrected ECC errors in the interval.", "nvmlDeviceGetTotalEccErrors"
        ),
        _gauge(
            "memory_utilization_ratio",
            "ratio",
            "Share of the interval in which device memory was read or written.",
            "nvmlDeviceGetSamples(MEMORY_UTILIZATION)",
            "DCGM_FI_DEV_MEM_COPY_UTIL",
            since=2,
        ),
        _gauge(
            "encoder_utilization_ratio",
            "ratio",
            "Share of the video encoders in use.",
            "nvmlDeviceGetEncoderUtilization",
            "DCGM_FI_DEV_ENC_UTIL",
            since=2,
        ),
        _gauge(
            "decoder_utilization_ratio",
            "ratio",
            "Share of the video decoders in use.",
            "nvmlDeviceGetDecoderUtilization",
            "DCGM_FI_DEV_DEC_UTIL",
            since=2,
        ),
        _gauge(
            "graphics_active_ratio",
            "ratio",
            "Share of cycles with a graphics or compute engine active.",
            "GPM 1",
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            since=2,
        ),
        _gauge(
            "fp64_active_ratio",
            "ratio",
            "Share of cycles with the FP64 pipe busy.",
            "GPM 11",
            "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
            since=2,
        ),
        _gauge(
            "fp32_active_ratio",
            "ratio",
            "Share of cycles with the FP32 pipe busy.",
            "GPM 12",
            "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
            since=2,
        ),
        _gauge(
            "fp16_active_ratio",
            "ratio",
            "Share of cycles with the FP16 pipe busy.",
            "GPM 13",
            "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
            since=2,
        ),
        _gauge(
            "power_watts_min",
            "watts",
            "Lowest power of the driver's samples within the interval.",
            "nvmlDeviceGetSamples(TOTAL_POWER)",
            since=2,
        ),
        _gauge(
            "power_watts_max",
            "watts",
            "Highest power of the driver's samples within the interval.",
            "nvmlDeviceGetSamples(TOTAL_POWER)",
            since=2,
        ),
        _gauge(
            "sm_clock_hertz_min",
            "hertz",
            "Lowest SM clock of the driver's samples within the interval.",
            "nvmlDeviceGetSamples(PROCESSOR_CLK)",
            since=2,
        ),
        _gauge(
            "memory_clock_hertz", "hertz", "Memory clock.", "nvmlDeviceGetClockInfo", "DCGM_FI_DEV_MEM_CLOCK", since=2
        ),
        _gauge(
            "memory_temperature_celsius",
            "celsius",
            "Temperature of the device memory.",
            "field 82",
            "DCGM_FI_DEV_MEMORY_TEMP",
            since=2,
        ),
        _amount(
            "throttle_sync_boost_seconds",
            "seconds",
            "Time held to the clock of a sync boost group.",
            "field 76",
            "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
            since=2,
        ),
        _amount(
            "pcie_replay_events",
            "events",
            "PCIe packets retransmitted in the interval.",
            "field 94",
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
            since=2,
        ),
        _gauge("pcie_generation", "count", "Current PCIe link generation.", since=2),
        _gauge("pcie_generation_max", "count", "Maximum PCIe link generation of GPU and slot.", since=2),
        _gauge("pcie_width", "count", "Current PCIe link width, in lanes.", since=2),
        _gauge("pcie_width_max", "count", "Maximum PCIe link width of GPU and slot, in lanes.", since=2),
        _fact("xid_last", "Code of the latest XID error of the interval.", "int64", "count", since=2),
        Column(
            "xid_last_timestamp_seconds",
            "float64",
            "gauge",
            "unix_seconds",
            "Time of the latest XID error that this agent received, in seconds since 1970.",
            "nvmlEventSetWait_v2",
            since=2,
        ),
        _amount(
            "ecc_corrected_events",
            "events",
            "Corrected ECC errors in the interval.",
            "nvmlDeviceGetTotalEccErrors",
            since=2,
        ),
        _gauge(
            "remapped_rows_corrected",
            "count",
            "Device memory rows remapped after corrected errors.",
            "field 142",
            "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
            since=2,
        ),
        _gauge(
            "remapped_rows_uncorrected",
            "count",
            "Device memory rows remapped after uncorrected errors.",
            "field 143",
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
            since=2,
        ),
        Column(
            "row_remap_pending",
            "bool",
            "gauge",
            "",
            "1 if a reset is needed to complete a row remap.",
            "field 144",
            since=2,
        ),
        Column(
            "row_remap_failure",
            "bool",
            "gauge",
            "",
            "1 if a row could not be remapped.",
            "field 145",
            "DCGM_FI_DEV_ROW_REMAP_FAILURE",
            since=2,
        ),
        _fact(
            "recovery_action",
            "Recovery action that the driver recommends: none, gpu_reset, node_reboot, drain_p2p, drain_and_reset.",
            source="field 230",
            since=2,
        ),
        _fact(
            "xid_numbers",
            "Codes of all XID errors of the interval, each once, in order of arrival: 48,63,43.",
            source="nvmlEventSetWait_v2",
            since=4,
        ),
    ),
    family="gpu",
    labels=("gpu_uuid",),
)

_HOST_SAMPLES = Table(
    "host_samples",
    "one host over one interval",
    (
        *_INTERVAL,
        _gauge("cpu_busy_ratio", "ratio", "Share of all cores' time neither idle nor in I/O wait.", "/proc/stat"),
        _gauge("cpu_iowait_ratio", "ratio", "Share of all cores' time in I/O wait.", "/proc/stat"),
        _gauge(
            "pressure_cpu_some_ratio", "ratio", "Share of time in which some task waited for CPU.", "/proc/pressure/cpu"
        ),
        _gauge(
            "pressure_io_some_ratio", "ratio", "Share of time in which some task waited for I/O.", "/proc/pressure/io"
        ),
        _gauge(
            "pressure_memory_some_ratio",
            "ratio",
            "Share of time in which some task waited for memory.",
            "/proc/pressure/memory",
        ),
        _gauge("memory_used_bytes", "bytes", "Host memory in use.", "/proc/meminfo"),
        _gauge("memory_available_bytes", "bytes", "Host memory available without swapping.", "/proc/meminfo"),
    ),
    family="host",
)

_DISK_SAMPLES = Table(
    "disk_samples",
    "one block device or network mount over one interval",
    (
        *_INTERVAL,
        _DEVICE,
        _fact("mount_kind", "block, nfs, lustre, cifs or fuse.", source="/proc/self/mountstats"),
        _amount("read_bytes", "bytes", "Bytes read.", "/proc/diskstats, mountstats, Lustre osc stats, cifs Stats"),
        _amount(
            "written_bytes", "bytes", "Bytes written.", "/proc/diskstats, mountstats, Lustre osc stats, cifs Stats"
        ),
        _amount("reads", "count", "Reads completed.", "/proc/diskstats, mountstats"),
        _amount("writes", "count", "Writes completed.", "/proc/diskstats, mountstats"),
        _gauge("busy_ratio", "ratio", "Share of time with a request in flight.", "/proc/diskstats"),
        _amount(
            "read_wait_seconds",
            "seconds",
            "Total time spent on reads, summed over reads.",
            "/proc/diskstats, mountstats",
        ),
    ),
    family="disk",
    labels=("device", "mount_kind"),
)

_NETWORK_SAMPLES = Table(
    "network_samples",
    "one NIC or RDMA port over one interval",
    (
        *_INTERVAL,
        _DEVICE,
        _fact("link_kind", "ethernet, infiniband, roce or efa.", source="/sys/class/net, /sys/class/infiniband"),
        _amount("receive_bytes", "bytes", "Bytes received.", "/proc/net/dev, port_rcv_data x 4"),
        _amount("transmit_bytes", "bytes", "Bytes sent.", "/proc/net/dev, port_xmit_data x 4"),
        _amount("errors", "events", "Errors and drops, both directions.", "/proc/net/dev, symbol_error"),
        _gauge(
            "speed_bytes_per_second",
            "bytes_per_second",
            "Link speed in one direction.",
            "/sys/class/net/<device>/speed, /sys/class/infiniband/<device>/ports/<port>/rate",
            since=2,
        ),
    ),
    family="network",
    labels=("device", "link_kind"),
)

_FLOW_SAMPLES = Table(
    "flow_samples",
    "one (run, peer) pair over one interval",
    (
        *_INTERVAL,
        _RUN,
        _key("peer", "The host at the other end, as a node name where known.", sensitivity="id"),
        _amount("receive_bytes", "bytes", "Bytes from the peer.", "tcpi_bytes_received"),
        _amount("transmit_bytes", "bytes", "Bytes to the peer.", "tcpi_bytes_acked"),
        _amount("retransmits", "events", "TCP segments retransmitted.", "tcpi_total_retrans"),
        _fact(
            "transport",
            "tcp, as counted; rdma_estimate, the ports' bytes divided among the run's peers.",
            source="sock_diag",
            since=2,
        ),
        _TOLD_BY,
    ),
    family="flow",
    labels=("run_id", "peer", "transport"),
)

_PROCESS_SAMPLES = Table(
    "process_samples",
    "one run's process tree on a GPU over one interval",
    (
        *_INTERVAL,
        _RUN,
        _RUN_WITH_GPU,
        _fact("pid", "Root of the tree.", "int64", "count"),
        Column(
            "owner",
            "string",
            "fact",
            "",
            "User of the process, if its run is not known otherwise.",
            sensitivity="identity",
        ),
        _gauge("memory_used_bytes", "bytes", "Device memory of the tree.", "nvmlDeviceGetComputeRunningProcesses"),
        _gauge("sm_utilization_ratio", "ratio", "The tree's share of SM time.", "nvmlDeviceGetProcessUtilization"),
        _amount("cpu_seconds", "seconds", "CPU time of the whole tree.", "/proc/<pid>/stat"),
        _gauge("workers", "count", "Processes of the tree below its root.", "/proc/<pid>/stat"),
        _gauge(
            "workers_busiest_cpu_ratio", "ratio", "Share of one core used by the busiest worker.", "/proc/<pid>/stat"
        ),
        _gauge("workers_waiting_ratio", "ratio", "Share of the workers in uninterruptible sleep.", "/proc/<pid>/stat"),
        _amount("read_bytes", "bytes", "Bytes read; none without permission to read them.", "/proc/<pid>/io"),
        _amount("written_bytes", "bytes", "Bytes written; none without permission to read them.", "/proc/<pid>/io"),
        _TOLD_BY,
    ),
    family="process",
    labels=("run_id", "gpu_uuid"),
)

_RUN_SAMPLES = Table(
    "run_samples",
    "one run on one host over one interval, from its cgroup",
    (
        *_INTERVAL,
        _RUN,
        _amount("read_bytes", "bytes", "Bytes read from block devices.", "io.stat"),
        _amount("written_bytes", "bytes", "Bytes written to block devices.", "io.stat"),
        _amount("cpu_seconds", "seconds", "CPU time.", "cpu.stat usage_usec"),
        _amount("cpu_throttled_seconds", "seconds", "CPU time throttled by the quota.", "cpu.stat throttled_usec"),
        _gauge("pressure_cpu_some_ratio", "ratio", "Share of time in which some task waited for CPU.", "cpu.pressure"),
        _gauge("pressure_io_some_ratio", "ratio", "Share of time in which some task waited for I/O.", "io.pressure"),
        _gauge(
            "pressure_memory_some_ratio",
            "ratio",
            "Share of time in which some task waited for memory.",
            "memory.pressure",
        ),
        _gauge("memory_used_bytes", "bytes", "Memory in use.", "memory.current"),
        Column(
            "cores_allotted", "float64", "gauge", "cores", "Cores that it may use.", "cpu.max, cpuset.cpus.effective"
        ),
        _TOLD_BY,
    ),
    family="run",
    labels=("run_id",),
)

_SERVICE_SAMPLES = Table(
    "service_samples",
    "one serving replica over one interval",
    (
        *_INTERVAL,
        _RUN,
        _amount("requests", "count", "Requests completed successfully.", "the engine"),
        _amount("tokens_in", "count", "Prompt tokens.", "the engine"),
        _amount("tokens_out", "count", "Generated tokens.", "the engine"),
        _gauge("running", "count", "Requests running.", "the engine"),
        _gauge("waiting", "count", "Requests queued.", "the engine"),
        _gauge("kv_cache_ratio", "ratio", "Share of the KV cache in use.", "the engine"),
        _gauge("first_token_seconds_p50", "seconds", "Time to the first token, median.", "the engine"),
        _gauge("first_token_seconds_p99", "seconds", "Time to the first token, 99th percentile.", "the engine"),
        _gauge("slo_seconds", "seconds", "The service's target for the latter.", "declared"),
        _fact(
            "engine",
            "The engine whose page it is, such as vllm, triton or sglang; the last one while it cannot be read.",
            since=2,
        ),
        _fact(
            "model",
            "The model that it serves, as its server calls it; none if it serves several.",
            source="the engine",
            sensitivity="identity",  # often a path, and in it a home
            since=3,
        ),
        _TOLD_BY,
        _fact("state", "How its page was read: read, or why not, such as key_wanted or server_error.", since=6),
        _gauge(
            "first_token_seconds_p99_low", "seconds", "That percentile is certainly no less.", "the engine", since=6
        ),
        _gauge(
            "first_token_seconds_p99_high",
            "seconds",
            "That percentile is certainly no more; none beyond the engine's last bucket.",
            "the engine",
            since=6,
        ),
        _amount(
            "requests_failed", "count", "Requests that failed; not those whose client left.", "the engine", since=7
        ),
        _amount(
            "tokens_cached", "count", "Prompt tokens, of those of tokens_in, that the cache had.", "the engine", since=7
        ),
        _gauge("inter_token_seconds_p50", "seconds", "Time from one token to the next, median.", "the engine", since=7),
        _gauge(
            "inter_token_seconds_p99",
            "seconds",
            "Time from one token to the next, 99th percentile.",
            "the engine",
            since=7,
        ),
        _gauge(
            "inter_token_seconds_p99_low", "seconds", "That percentile is certainly no less.", "the engine", since=7
        ),
        _gauge(
            "inter_token_seconds_p99_high",
            "seconds",
            "That percentile is certainly no more; none beyond the engine's last bucket.",
            "the engine",
            since=7,
        ),
    ),
    family="service",
    labels=("run_id",),
    tellers=_HOST_OR_RUN,
)

_PROGRESS = Table(
    "progress",
    "what a run itself reports for one interval",
    (
        *_INTERVAL,
        _RUN,
        _amount("steps", "count", "Steps done.", "the run"),
        _amount("samples", "count", "Samples consumed.", "the run"),
        _amount("tokens", "count", "Tokens consumed.", "the run"),
        _amount("requests", "count", "Requests served.", "the run"),
        _fact("checkpoint", "Name of the checkpoint that was complete at the end of the interval."),
        _TOLD_BY,
        _amount("data_wait_seconds", "seconds", "Time that its steps waited for data.", "the run", since=5),
    ),
    family="progress",
    labels=("run_id",),
    tellers=_HOST_OR_RUN,
)

ALLOCATIONS = Table(
    "allocations",
    "one GPU requested, held and released by one run",
    (
        _key("node", "Host name; none while pending.", required=False),
        Column("submitted_at", "int64", "fact", "microseconds", "When it was submitted.", tellers=_SCHEDULER),
        Column("started_at", "int64", "key", "microseconds", "When it started; none while pending."),
        Column("ended_at", "int64", "fact", "microseconds", "When it was released; none while held."),
        _RUN,
        _fact("member", "Pod, task or replica within the run.", sensitivity="identity"),
        _fact("attempt", "Requeues count up from 0.", "int64", "count"),
        _fact("parent_run_id", "The run that this one runs within.", sensitivity="id", tellers=_SCHEDULER),
        _RUN_WITH_GPU,
        _fact("requested_gpus", "GPUs requested for the whole run.", "int64", "count", tellers=_SCHEDULER),
        _fact("rank", "Position of this GPU in the run's order of ranks, from 0.", "int64", "count"),
        Column("time_limit_seconds", "float64", "fact", "seconds", "Time limit of the run.", tellers=_SCHEDULER),
        Column("priority", "float64", "fact", "", "The scheduler's own number.", tellers=_SCHEDULER),
        _fact("pending_reason", "Why it is pending.", tellers=_SCHEDULER),
        _fact("restarts_of", "The run that this one continues.", sensitivity="id", tellers=_SCHEDULER),
        _fact("scheduler", "slurm, kubernetes, ray, cgroup, declared or process: decides precedence."),
        _fact("user", "User who submitted it.", sensitivity="identity"),
        _fact("account", "Account or namespace charged.", sensitivity="identity", tellers=_SCHEDULER),
        _fact("project", "Project label.", sensitivity="identity", tellers=_SCHEDULER),
        _fact("name", "The run's name.", sensitivity="identity", tellers=_SCHEDULER),
        _fact("queue", "Partition or queue.", tellers=_SCHEDULER),
        _fact("labels", "Further labels, as a JSON object of strings.", sensitivity="identity"),
        _fact(
            "exit_status",
            "completed, failed, cancelled, preempted, node_failed, timeout or out_of_memory.",
            tellers=_SCHEDULER,
        ),
        _fact("gpu_fraction", "Share of the GPU that was requested, if it is shared.", "float64", "ratio", since=2),
        _TOLD_BY,
    ),
    tellers=_SCHEDULER_OR_HOST,
)

_RUN_ALIASES = Table(
    "run_aliases",
    "a name by which hosts report a run that its scheduler knows by another",
    (
        _key("alias_run_id", "The name that hosts use, as of a pod.", sensitivity="id", since=2),
        _key("run_id", "<scheduler>/<cluster>/<id> of the whole run.", sensitivity="id", since=2),
        _fact("member", "Pod, task or replica that the name stands for.", sensitivity="identity", since=2),
        _TOLD_BY,
    ),
    tellers=_SCHEDULER_OR_HOST,
)

_NODE_STATES = Table(
    "node_states",
    "a host's state in its scheduler over one interval",
    (
        *_INTERVAL,
        _fact("state", "up, drained, reserved or down."),
        _fact("reason", "The scheduler's own words."),
    ),
    tellers=_SCHEDULER,
)

_AGENT_SAMPLES = Table(
    "agent_samples",
    "the agent about itself over one interval",
    (
        *_INTERVAL,
        _amount("cpu_seconds", "seconds", "CPU time of the agent.", "getrusage"),
        _gauge("rss_bytes", "bytes", "Memory of the agent.", "/proc/self/statm"),
        _amount("beats_late", "events", "Sampling intervals that began more than half a period late."),
        _amount("gaps", "events", "Sampling intervals that were missed."),
        _amount("dropped_batches", "events", "Batches that the full spool dropped, oldest first."),
        _fact("dropped_from", "First sequence of the newest dropped range.", "int64", "count"),
        _fact("dropped_until", "Last sequence of the newest dropped range.", "int64", "count"),
        _gauge("spool_bytes", "bytes", "Bytes waiting on disk."),
        Column(
            "clock_offset_seconds", "float64", "gauge", "offset_seconds", "The collector's clock minus this host's."
        ),
        _gauge("gpus_expected", "count", "GPUs that this host should have.", since=2),
        _gauge("gpus_seen", "count", "GPUs that answer the driver.", since=2),
        _gauge("sources_failing", "count", "Sources whose last reading failed or is late.", since=2),
        _gauge("attribution_age_seconds", "seconds", "Age of the oldest allocation map still in use.", since=2),
        Column("paused", "bool", "gauge", "", "1 while sampling is paused by the operator.", since=2),
        _amount("dropped_rows", "count", "Rows in the batches that the full spool dropped.", since=2),
    ),
    family="agent",
)

_INVENTORY = Table(
    "inventory",
    "a host (no gpu_uuid) or a GPU as detected, from started_at on",
    (
        *_INTERVAL,
        _RUN_WITH_GPU,
        _fact("parent_uuid", "The GPU that a MIG instance is a part of."),
        _fact("gpu_index", "The driver's index.", "int64", "count"),
        _fact("pci_bus_id", "PCI bus ID."),
        _fact("sku", "H100-80GB, A100-40GB, …: model and memory."),
        _fact("memory_bytes", "Device memory.", "int64", "bytes"),
        _fact("mig_slices", "Compute slices of a MIG instance.", "int64", "count"),
        _fact("mig_slices_max", "Compute slices of the whole GPU; none where MIG is off.", "int64", "count"),
        _fact("power_limit_watts", "Enforced power limit.", "float64", "watts"),
        _fact("sm_clock_max_hertz", "Highest SM clock.", "float64", "hertz"),
        _fact("numa_node", "NUMA node of the GPU.", "int64", "count"),
        _fact("rack", "Rack; none where unknown."),
        _fact("block", "Block or spine group."),
        _fact("zone", "Zone or data hall."),
        _fact("region", "Region."),
        _fact("topology_source", "Source of rack, block and zone."),
        _fact("node_group", "Group of identical hosts."),
        _fact("instance_type", "The cloud's instance type."),
        _fact("cpu_cores", "Cores of the host.", "int64", "count"),
        _fact("host_memory_bytes", "Memory of the host.", "int64", "bytes"),
        _fact("local_nvme_bytes", "Local NVMe of the host.", "int64", "bytes"),
        _fact("pcie_generation", "Current link generation.", "int64", "count"),
        _fact("pcie_generation_max", "Maximum link generation.", "int64", "count"),
        _fact("pcie_width", "Current link width.", "int64", "count"),
        _fact("pcie_width_max", "Maximum link width.", "int64", "count"),
        _fact("nvlink_peers", "GPUs reached by NVLink.", "int64", "count"),
        _fact("driver_version", "Driver version."),
        _fact("architecture", "Architecture of the GPU, as the driver names it.", since=2),
        _fact("agent_version", "Version of the agent, with the host's own row.", since=2),
    ),
)

OWNERSHIP = Table(
    "ownership",
    "when a GPU is owned",
    (
        _NODE,
        _RUN_WITH_GPU,
        _fact("slot", "Position in the host, where the GPU is not yet known by UUID.", "int64", "count"),
        Column("owned_from", "int64", "key", "microseconds", "First owned microsecond.", required=True),
        Column("owned_until", "int64", "fact", "microseconds", "First microsecond no longer owned; none while owned."),
        _fact("sku", "H100-80GB, A100-40GB, …"),
        _fact("purchase_option", "on_demand, reserved, spot or owned."),
        _fact("source", "fleet file, scheduler, billing export or agents."),
    ),
    tellers=_SCHEDULER,
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        GPU_SAMPLES,
        _HOST_SAMPLES,
        _DISK_SAMPLES,
        _NETWORK_SAMPLES,
        _FLOW_SAMPLES,
        _PROCESS_SAMPLES,
        _RUN_SAMPLES,
        _SERVICE_SAMPLES,
        _PROGRESS,
        ALLOCATIONS,
        _RUN_ALIASES,
        _NODE_STATES,
        _AGENT_SAMPLES,
        _INVENTORY,
        OWNERSHIP,
    )
}
