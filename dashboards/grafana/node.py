"""One host: each of its GPUs, who holds them, the host around them, and its agent."""

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana.board import RUN_PAGE, Panels, board, chosen, filled, page_link, pages
from dashboards.grafana.panels import RED, YELLOW, Limits, Query, lines, stat, table
from dashboards.grafana.queries import CLUSTER, NODE, numbered, rate

_GPU = "{{instance}} {{gpu_index}}"
_HELD = {
    "run_id": "Run",
    "name": "Name",
    "user": "User",
    "account": "Account",
    "instance": "Node",
    "gpu_index": "GPU",
}


def node() -> Dashboard:
    """Return the dashboard."""
    variables = [
        chosen("cluster", "Cluster", "label_values(gpuledger_agent_build_info, cluster)"),
        chosen("node", "Node", f"label_values(gpuledger_agent_build_info{{{CLUSTER}}}, instance)"),
        pages(),
    ]
    made = board("gpuledger-node", "gpuledger / Node", __doc__ or "", "now-6h", variables)
    made.link(page_link("Agents in gpuledger", "${pages}/health#agents"))
    rows = [("Now", _now()), ("GPUs", _gpus()), ("Host", _host()), ("Agent", _agent())]
    return filled(made, rows)


def _now() -> Panels:
    missing = f"sum(gpuledger_agent_gpus_expected{{{NODE}}}) - sum(gpuledger_agent_gpus_seen{{{NODE}}})"
    return (
        stat("GPUs", "GPUs that answer their driver.", "none", f"sum(gpuledger_gpu_up{{{NODE}}})"),
        stat("GPUs missing", "GPUs that it should have and does not see.", "none", missing, limits=((1, RED),)),
        stat(
            "Held by runs",
            "GPUs that a run holds; what is not held is free. A shared GPU counts once.",
            "none",
            f"count(count by (cluster, instance, gpu_uuid) (gpuledger_gpu_run_info{{{NODE}}}))",
        ),
        stat("Power, all", "What its GPUs draw, boards alone.", "watt", f"sum(gpuledger_gpu_power_watts{{{NODE}}})"),
        stat(
            "XID errors, all",
            "XID errors in the time shown. dmesg has their numbers.",
            "none",
            f"sum(increase(gpuledger_gpu_xid_events_total{{{NODE}}}[$__range]))",
            limits=((1, YELLOW), (10, RED)),
            decimals=0,
        ),
        stat(
            "Sources that fail",
            "What the agent reads and could not, last time. gpuledger admin doctor on the host says why.",
            "none",
            f"sum(gpuledger_agent_sources_failing{{{NODE}}})",
            limits=((1, YELLOW),),
        ),
        table(
            "Runs that hold its GPUs",
            "One row for each run and GPU; the run opens in gpuledger.",
            "none",
            _HELD,
            f"max by ({', '.join(_HELD)}) ({numbered(f'gpuledger_gpu_run_info{{{NODE}}}')})",
            links={"run_id": RUN_PAGE},
        ),
        table(
            "What cannot be measured here",
            "What of a GPU is not known, and why. Not known is never counted as idle.",
            "none",
            {"instance": "Node", "gpu_uuid": "GPU", "subject": "What", "reason": "Why"},
            f"max by (instance, gpu_uuid, subject, reason) (gpuledger_gpu_supported{{{NODE}}} == 0)",
        ),
    )


def _gpus() -> Panels:
    return (
        _each("Time with any kernel", "NVML's utilization: share of time with any kernel resident. A full bar says "
              "nothing of how much of the chip is used.", "percentunit", "utilization_ratio"),
        _each("SM activity", "Share of SM cycles with a warp; Hopper or newer.", "percentunit", "sm_active_ratio"),
        _each("Tensor activity", "Share of cycles with a tensor pipe busy.", "percentunit", "tensor_active_ratio"),
        _each("HBM bandwidth", "Share of the memory's bandwidth in use.", "percentunit", "dram_active_ratio"),
        _each("Memory held", "Device memory held by processes. Frameworks set memory aside that they do not use.",
              "bytes", "memory_used_bytes"),
        _each("Power", "Board power of each GPU.", "watt", "power_watts"),
        _each("Temperature", "Core temperature. Boards slow themselves near 90.", "celsius", "temperature_celsius",
              limits=((85, YELLOW), (90, RED))),
        _each("SM clock", "Falls where power or heat hold it down.", "hertz", "sm_clock_hertz"),
        lines(
            "Slowed by heat or by the board",
            "Share of time below the wanted clock; a tenth calls somebody. Power is left out: a cap is meant.",
            "percentunit",
            Query(numbered(f"{_of('throttle_thermal_seconds')} + {_of('throttle_hardware_seconds')}"), _GPU),
            limits=((0.1, RED),),
        ),
        lines(
            "XID errors",
            "XID errors by GPU; a counter, so that no repetition is missed.",
            "none",
            Query(numbered(f"increase(gpuledger_gpu_xid_events_total{{{NODE}}}[$__rate_interval])"), _GPU),
            limits=((1, RED),),
        ),
        lines(
            "PCIe",
            "Bytes a second from host to GPU and back. Input that is not pinned takes long here.",
            "Bps",
            Query(numbered(_of("pcie_receive_bytes")), f"in {_GPU}"),
            Query(numbered(_of("pcie_transmit_bytes")), f"out {_GPU}"),
        ),
        lines(
            "NVLink",
            "Bytes a second in and out over NVLink.",
            "Bps",
            Query(numbered(_of("nvlink_receive_bytes")), f"in {_GPU}"),
            Query(numbered(_of("nvlink_transmit_bytes")), f"out {_GPU}"),
        ),
    )  # fmt: skip


def _each(title: str, about: str, unit: str, metric: str, *, limits: Limits = ()) -> Builder[Panel]:
    return lines(title, about, unit, Query(numbered(f"gpuledger_gpu_{metric}{{{NODE}}}"), _GPU), limits=limits, width=6)


def _of(amount: str) -> str:
    return rate(f"gpuledger_gpu_{amount}_total", NODE)


def _host() -> Panels:
    return (
        lines(
            "Processors",
            "Share of all cores' time that is busy, and that waits for a disk.",
            "percentunit",
            Query(f"gpuledger_host_cpu_busy_ratio{{{NODE}}}", "busy {{instance}}"),
            Query(f"gpuledger_host_cpu_iowait_ratio{{{NODE}}}", "waiting {{instance}}"),
            limits=((0.9, YELLOW),),
        ),
        lines(
            "Pressure",
            "Share of time in which some task waited for a core, for I/O or for memory.",
            "percentunit",
            *(
                Query(f"gpuledger_host_pressure_{what}_some_ratio{{{NODE}}}", f"{what} {{{{instance}}}}")
                for what in ("cpu", "io", "memory")
            ),
            limits=((0.2, YELLOW),),
        ),
        lines(
            "Host memory",
            "In use, and what can be had without swapping.",
            "bytes",
            Query(f"gpuledger_host_memory_used_bytes{{{NODE}}}", "used {{instance}}"),
            Query(f"gpuledger_host_memory_available_bytes{{{NODE}}}", "available {{instance}}"),
        ),
        lines(
            "Disks and mounts",
            "Bytes a second read and written, by device or mount.",
            "Bps",
            Query(rate("gpuledger_disk_read_bytes_total", NODE), "read {{instance}} {{device}}"),
            Query(rate("gpuledger_disk_written_bytes_total", NODE), "written {{instance}} {{device}}"),
        ),
        lines(
            "Disks in use",
            "Share of time with a request in flight. A disk that is full of requests starves its readers.",
            "percentunit",
            Query(f"gpuledger_disk_busy_ratio{{{NODE}}}", "{{instance}} {{device}}"),
            limits=((0.8, YELLOW),),
        ),
        lines(
            "Network",
            "Bytes a second in and out, by link.",
            "Bps",
            Query(rate("gpuledger_network_receive_bytes_total", NODE), "in {{instance}} {{device}}"),
            Query(rate("gpuledger_network_transmit_bytes_total", NODE), "out {{instance}} {{device}}"),
        ),
    )


def _agent() -> Panels:
    return (
        lines(
            "Bytes that wait",
            "The agent's spool. It empties with every delivery; beyond spool_bytes the oldest batches are dropped.",
            "bytes",
            Query(f"gpuledger_agent_spool_bytes{{{NODE}}}", "{{instance}}"),
            limits=((128e6, YELLOW), (256e6, RED)),
            width=8,
        ),
        lines(
            "The agent's own cost",
            "Cores that the agent takes: processor seconds a second.",
            "none",
            Query(rate("gpuledger_agent_cpu_seconds_total", NODE), "{{instance}}"),
            limits=((0.05, YELLOW),),
            width=8,
        ),
        lines(
            "The agent's memory",
            "Resident memory of the agent.",
            "bytes",
            Query(f"gpuledger_agent_rss_bytes{{{NODE}}}", "{{instance}}"),
            limits=((200e6, YELLOW),),
            width=8,
        ),
    )
