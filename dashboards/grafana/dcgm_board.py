"""The dashboard of a fleet that runs dcgm-exporter and no agent of ours."""

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from agent.wire.units import MIB
from dashboards.grafana.panels import CLUSTER, NODE, RED, YELLOW, Limits, board, chosen, lines, stat, table

_GPU = "{{instance}} {{gpu}}"
_NOT_DEFAULT = "Not in NVIDIA's counters files: add the field to the one that dcgm-exporter is given with -f."
_MEGA, _MILLI = 1_000_000, 1000
_HOLDERS = {
    "instance": "Node", "gpu": "GPU", "modelName": "Model", "namespace": "Namespace", "pod": "Pod", "hpc_job": "Job",
    "Value": "Utilization",
}  # fmt: skip


def _each(title: str, about: str, unit: str, expr: str, *, limits: Limits = ()) -> Builder[Panel]:
    return lines(title, about, unit, (expr, _GPU), limits=limits, width=6)


def _between(above: int | None, most: int) -> str:
    """Return how many GPUs are at most at one utilization and above another; 0 too is an answer."""
    at_most = f"sum({_busy()} <= bool {most})"
    return at_most if above is None else f"{at_most} - sum({_busy()} <= bool {above})"


def _busy(over: str = "") -> str:
    """Return utilization in percent, or its most over a time: counters files with profiling fields may leave it out."""
    said, instead = _dev("GPU_UTIL"), _prof("GR_ENGINE_ACTIVE")
    if over:
        said, instead = f"max_over_time({said}[{over}])", f"max_over_time({instead}[{over}])"
    return f"({said} or on (instance, gpu, UUID) 100 * {instead})"


def _dev(field: str) -> str:
    return f"DCGM_FI_DEV_{field}{{{NODE}}}"


def _prof(field: str) -> str:
    return f"DCGM_FI_PROF_{field}{{{NODE}}}"


_ENERGY = "increase(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{" + NODE + "}[$__range])"

DCGM = board(
    "gpuledger-dcgm", "gpuledger / dcgm-exporter",
    "A fleet that runs dcgm-exporter and no agent of ours: its metrics, by their names before its release 4.9.",
    "now-6h",
    [
        chosen("cluster", "Cluster", "label_values(DCGM_FI_DEV_FB_USED, cluster)"),
        chosen("node", "Node", f"label_values(DCGM_FI_DEV_FB_USED{{{CLUSTER}}}, instance)"),
    ],
    {
        "Now": (
            stat("GPUs", "GPUs that dcgm-exporter reports; a lost GPU is missing here.", "none",
                 f"count({_dev('FB_USED')})"),
            stat("Utilization", "Mean: share of time with any kernel.", "percent", f"avg({_busy()})"),
            stat("Idle GPUs", "GPUs on which no kernel has run for an hour. Whether somebody holds them, "
                 "and what that costs, is what gpuledger import prometheus adds.", "none",
                 f"count({_busy('1h')}) - count({_busy('1h')} > 0)", limits=((1, YELLOW),)),
            stat("Power, all", "What all GPUs draw, boards alone.", "watt", f"sum({_dev('POWER_USAGE')})"),
            stat("Energy", "What they have spent in the time shown. The counter is in millijoules.", "joule",
                 f"sum({_ENERGY}) / {_MILLI}"),
            stat("GPUs with an XID", "GPUs whose newest XID is not 0. The gauge sticks, and repetitions are "
                 "invisible; our agent counts them.", "none",
                 f"count({_dev('XID_ERRORS')}) - count({_dev('XID_ERRORS')} == 0)", limits=((1, YELLOW),)),
        ),
        "GPUs": (
            _each("Time with any kernel", "NVML's utilization, in percent. A full bar says nothing of how much of the "
                  "chip is used. Where only profiling fields are exported, the graphics engine's activity.", "percent",
                  _busy()),
            _each("SM activity", f"Share of SM cycles with a warp; a profiling field. {_NOT_DEFAULT}", "percentunit",
                  _prof("SM_ACTIVE")),
            _each("Tensor activity", "Share of cycles with a tensor pipe busy; a profiling field.", "percentunit",
                  _prof("PIPE_TENSOR_ACTIVE")),
            _each("HBM bandwidth", "Share of the memory's bandwidth in use; a profiling field.", "percentunit",
                  _prof("DRAM_ACTIVE")),
            _each("Memory in use", "Device memory in use. dcgm-exporter counts in MiB.", "bytes",
                  f"{_dev('FB_USED')} * {MIB}"),
            _each("Power", "Board power of each GPU.", "watt", _dev("POWER_USAGE")),
            _each("Temperature", "Core temperature; boards slow themselves near 90.", "celsius", _dev("GPU_TEMP"),
                  limits=((85, YELLOW), (90, RED))),
            _each("SM clock", "Falls under power or thermal throttling. dcgm-exporter counts in MHz.", "hertz",
                  f"{_dev('SM_CLOCK')} * {_MEGA}"),
            table("GPUs by holder", "Pods and jobs, where dcgm-exporter knows them; GPUs without either have no "
                  "known holder.", "percent", _HOLDERS,
                  f"sort_desc(max by (instance, gpu, modelName, namespace, pod, hpc_job) ({_busy()}))"),
            lines("GPUs by utilization", "How many GPUs are idle, little used (to 20%), something, or are busy (over "
                  "80%), as nvidia-smi reports it.", "none", (_between(None, 0), "idle"), (_between(0, 20), "little"),
                  (_between(20, 80), "something"), (_between(80, 100), "busy"), stacked=True),
        ),
        "Links": (
            lines("PCIe", "Bytes per second from host to GPU and back; profiling fields, and gauges in spite of their "
                  "names.", "Bps", (_prof("PCIE_RX_BYTES"), f"in {_GPU}"), (_prof("PCIE_TX_BYTES"), f"out {_GPU}")),
            lines("NVLink", f"Bytes per second in and out over NVLink; gauges in spite of their names. {_NOT_DEFAULT}",
                  "Bps", (_prof("NVLINK_RX_BYTES"), f"in {_GPU}"), (_prof("NVLINK_TX_BYTES"), f"out {_GPU}")),
        ),
    },
)  # fmt: skip
