"""The dashboards of what agents measure: one host, and one run."""

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana.panels import (
    CLUSTER,
    FINDING_PAGE,
    NODE,
    RED,
    RUN,
    RUN_PAGE,
    YELLOW,
    Limits,
    board,
    chosen,
    ledger,
    lines,
    numbered,
    of_run,
    pages,
    rate,
    stat,
    table,
)

_GPU = "{{instance}} {{gpu_index}}"
_HELD = {
    "run_id": "Run", "name": "Name", "user": "User", "account": "Account", "instance": "Node", "gpu_index": "GPU",
}  # fmt: skip
_HEAT = " + ".join(rate(f"gpuledger_gpu_throttle_{why}_seconds_total", CLUSTER) for why in ("thermal", "hardware"))
_THIS = 'run_id="$run"'


def _amount(amount: str) -> str:
    return rate(f"gpuledger_gpu_{amount}_total", NODE)


def _each(title: str, about: str, unit: str, metric: str, *, limits: Limits = ()) -> Builder[Panel]:
    return lines(title, about, unit, (numbered(f"gpuledger_gpu_{metric}{{{NODE}}}"), _GPU), limits=limits, width=6)


def _gpu(metric: str) -> str:
    """Return a gauge of the run's GPUs."""
    return of_run(f"gpuledger_gpu_{metric}{{{CLUSTER}}}")


def _spread(title: str, about: str, unit: str, expr: str, *, limits: Limits = ()) -> Builder[Panel]:
    """Return a thousand GPUs as three lines: none of them is drawn for itself."""
    queries = ((f"min({expr})", "least"), (f"quantile(0.5, {expr})", "median"), (f"max({expr})", "most"))
    return lines(title, about, unit, *queries, limits=limits)


NODE_BOARD = board(
    "gpuledger-node", "gpuledger / Node", "One host: each of its GPUs, who holds them, the host around them, and its "
    "agent.", "now-6h",
    [
        chosen("cluster", "Cluster", "label_values(gpuledger_agent_build_info, cluster)"),
        chosen("node", "Node", f"label_values(gpuledger_agent_build_info{{{CLUSTER}}}, instance)"),
        pages(),
    ],
    {
        "Now": (
            stat("GPUs", "GPUs that answer their driver.", "none", f"sum(gpuledger_gpu_up{{{NODE}}})"),
            stat("GPUs missing", "GPUs that it should have and does not see.", "none",
                 f"sum(gpuledger_agent_gpus_expected{{{NODE}}}) - sum(gpuledger_agent_gpus_seen{{{NODE}}})",
                 limits=((1, RED),)),
            stat("Held by runs", "GPUs that a run holds; the others are unallocated. A shared GPU counts once.", "none",
                 f"count(count by (cluster, instance, gpu_uuid) (gpuledger_gpu_run_info{{{NODE}}}))"),
            stat("Power, all", "What its GPUs draw, boards alone.", "watt",
                 f"sum(gpuledger_gpu_power_watts{{{NODE}}})"),
            stat("XID errors, all", "XID errors in the time shown. dmesg has their numbers.", "none",
                 f"sum(increase(gpuledger_gpu_xid_events_total{{{NODE}}}[$__range]))",
                 limits=((1, YELLOW), (10, RED)), decimals=0),
            stat("Failing sources", "Sources that the agent could not read, last time. gpuledger admin doctor on the "
                 "host says why.", "none", f"sum(gpuledger_agent_sources_failing{{{NODE}}})", limits=((1, YELLOW),)),
            table("Runs that hold its GPUs", "One row for each run and GPU; the run opens in gpuledger.", "none",
                  _HELD, f"max by ({', '.join(_HELD)}) ({numbered(f'gpuledger_gpu_run_info{{{NODE}}}')})",
                  links={"run_id": RUN_PAGE}),
            table("Not measured here", "What is not measured of a GPU, and why. Not measured is never counted as "
                  "idle.", "none", {"instance": "Node", "gpu_uuid": "GPU", "subject": "What", "reason": "Why"},
                  f"max by (instance, gpu_uuid, subject, reason) (gpuledger_gpu_supported{{{NODE}}} == 0)"),
        ),
        "GPUs": (
            _each("Time with any kernel", "NVML's utilization: share of time with any kernel resident. A full bar "
                  "says nothing of how much of the chip is used.", "percentunit", "utilization_ratio"),
            _each("SM activity", "Share of SM cycles with a warp; Hopper or newer.", "percentunit", "sm_active_ratio"),
            _each("Tensor activity", "Share of cycles with a tensor pipe busy.", "percentunit", "tensor_active_ratio"),
            _each("HBM bandwidth", "Share of the memory's bandwidth in use.", "percentunit", "dram_active_ratio"),
            _each("Memory in use", "Device memory in use by processes. Frameworks reserve memory that they do not use.",
                  "bytes", "memory_used_bytes"),
            _each("Power", "Board power of each GPU.", "watt", "power_watts"),
            _each("Temperature", "Core temperature. Boards slow themselves near 90.", "celsius",
                  "temperature_celsius", limits=((85, YELLOW), (90, RED))),
            _each("SM clock", "Falls under power or thermal throttling.", "hertz", "sm_clock_hertz"),
            lines("Thermal and hardware throttling", "Share of time below the wanted clock; the alert fires at 10%. "
                  "Power is left out: a cap is meant.", "percentunit",
                  (numbered(f"{_amount('throttle_thermal_seconds')} + {_amount('throttle_hardware_seconds')}"), _GPU),
                  limits=((0.1, RED),)),
            lines("XID errors", "XID errors by GPU; a counter, so that no repetition is missed.", "none",
                  (numbered(f"increase(gpuledger_gpu_xid_events_total{{{NODE}}}[$__rate_interval])"), _GPU),
                  limits=((1, RED),)),
            lines("PCIe", "Bytes per second from host to GPU and back. Unpinned input takes long here.", "Bps",
                  (numbered(_amount("pcie_receive_bytes")), f"in {_GPU}"),
                  (numbered(_amount("pcie_transmit_bytes")), f"out {_GPU}")),
            lines("NVLink", "Bytes per second in and out over NVLink.", "Bps",
                  (numbered(_amount("nvlink_receive_bytes")), f"in {_GPU}"),
                  (numbered(_amount("nvlink_transmit_bytes")), f"out {_GPU}")),
        ),
        "Host": (
            lines("Processors", "Share of all cores' time that is busy, and that waits for a disk.", "percentunit",
                  (f"gpuledger_host_cpu_busy_ratio{{{NODE}}}", "busy {{instance}}"),
                  (f"gpuledger_host_cpu_iowait_ratio{{{NODE}}}", "waiting {{instance}}"), limits=((0.9, YELLOW),)),
            lines("Pressure", "Share of time in which some task waited for a core, for I/O or for memory.",
                  "percentunit", *((f"gpuledger_host_pressure_{what}_some_ratio{{{NODE}}}", f"{what} {{{{instance}}}}")
                  for what in ("cpu", "io", "memory")), limits=((0.2, YELLOW),)),
            lines("Host memory", "In use, and what can be had without swapping.", "bytes",
                  (f"gpuledger_host_memory_used_bytes{{{NODE}}}", "used {{instance}}"),
                  (f"gpuledger_host_memory_available_bytes{{{NODE}}}", "available {{instance}}")),
            lines("Disks and mounts", "Bytes per second read and written, by device or mount.", "Bps",
                  (rate("gpuledger_disk_read_bytes_total", NODE), "read {{instance}} {{device}}"),
                  (rate("gpuledger_disk_written_bytes_total", NODE), "written {{instance}} {{device}}")),
            lines("Disks in use", "Share of time with a request in flight. A disk that is full of requests starves its "
                  "readers.", "percentunit", (f"gpuledger_disk_busy_ratio{{{NODE}}}", "{{instance}} {{device}}"),
                  limits=((0.8, YELLOW),)),
            lines("Network", "Bytes per second in and out, by link.", "Bps",
                  (rate("gpuledger_network_receive_bytes_total", NODE), "in {{instance}} {{device}}"),
                  (rate("gpuledger_network_transmit_bytes_total", NODE), "out {{instance}} {{device}}")),
        ),
        "Agent": (
            lines("Spooled bytes", "The agent's spool. It empties with every delivery; beyond spool_bytes the oldest "
                  "batches are dropped.", "bytes", (f"gpuledger_agent_spool_bytes{{{NODE}}}", "{{instance}}"),
                  limits=((128e6, YELLOW), (256e6, RED)), width=8),
            lines("The agent's own cost", "Cores that the agent takes: processor seconds per second.", "none",
                  (rate("gpuledger_agent_cpu_seconds_total", NODE), "{{instance}}"), limits=((0.05, YELLOW),), width=8),
            lines("The agent's memory", "Resident memory of the agent.", "bytes",
                  (f"gpuledger_agent_rss_bytes{{{NODE}}}", "{{instance}}"), limits=((200e6, YELLOW),), width=8),
        ),
    },
    link=("Agents in gpuledger", "${pages}/health#agents"),
)  # fmt: skip

RUN_BOARD = board(
    "gpuledger-run", "gpuledger / Run", "One run: all of its GPUs as a spread from the least to the most, its "
    "processes, its traffic and its own progress.", "now-6h",
    [
        chosen("cluster", "Cluster", "label_values(gpuledger_agent_build_info, cluster)"),
        chosen("run", "Run", f"label_values(gpuledger_gpu_run_info{{{CLUSTER}}}, run_id)", many=False),
        pages(),
    ],
    {
        "Now": (
            stat("GPUs", "GPUs that it holds now.", "none", f"count(gpuledger_gpu_run_info{{{RUN}}})"),
            stat("Nodes", "Hosts on which it holds GPUs.", "none",
                 f"count(count by (cluster, instance) (gpuledger_gpu_run_info{{{RUN}}}))"),
            stat("Idle GPUs", "GPUs of the run on which no kernel has run for ten minutes.", "none",
                 f"sum({of_run(f'(max_over_time(gpuledger_gpu_utilization_ratio{{{CLUSTER}}}[10m]) == bool 0)')})",
                 limits=((1, YELLOW),)),
            stat("SM activity, mean", "Mean over its GPUs: share of SM cycles with a warp.", "percentunit",
                 f"avg({_gpu('sm_active_ratio')})"),
            stat("Power, all", "What its GPUs draw, boards alone; a shared GPU counts whole.", "watt",
                 f"sum({_gpu('power_watts')})"),
            stat("Energy", "What its GPUs have spent in the time shown.", "joule",
                 f"sum({of_run(f'increase(gpuledger_gpu_energy_joules_total{{{CLUSTER}}}[$__range])')})"),
            table("Time by state in the last complete hour", "The ledger's states of this run, while it is one "
                  "of the 20 that lose most. Its page always has them.", "none",
                  {"class": "Class", "state": "State", "cause": "Cause", "Value": "GPUs"},
                  f"sort_desc({ledger('run_gpus', 'class', 'state', 'cause', where=_THIS)})"),
            table("Its findings", "Findings of this run among the 20 most expensive of the fleet; each opens with its "
                  "evidence.", "currencyUSD",
                  {"finding": "Finding", "kind": "Why", "confidence": "Confidence", "Value": "Estimated waste"},
                  f"sort_desc({ledger('finding_at_stake_usd', 'finding', 'kind', 'confidence', where=_THIS)})",
                  links={"finding": FINDING_PAGE}),
        ),
        "Its GPUs: least, median, most": (
            _spread("Time with any kernel", "NVML's utilization. Ranks that wait for one another look busy here.",
                    "percentunit", _gpu("utilization_ratio")),
            _spread("SM activity", "Share of SM cycles with a warp. One GPU below the others holds all of them up.",
                    "percentunit", _gpu("sm_active_ratio")),
            _spread("Tensor activity", "Share of cycles with a tensor pipe busy.", "percentunit",
                    _gpu("tensor_active_ratio")),
            _spread("HBM bandwidth", "Share of the memory's bandwidth in use.", "percentunit",
                    _gpu("dram_active_ratio")),
            _spread("Memory in use", "Device memory in use by processes. Frameworks reserve memory that they do not "
                    "use.", "bytes", _gpu("memory_used_bytes")),
            _spread("Power", "Board power. It falls together at a checkpoint or a stall, and alone on a sick GPU.",
                    "watt", _gpu("power_watts")),
            _spread("SM clock", "Falls under power or thermal throttling.", "hertz", _gpu("sm_clock_hertz")),
            _spread("Thermal and hardware throttling", "Share of time below the wanted clock; the alert fires at 10%.",
                    "percentunit", of_run(f"({_HEAT})"), limits=((0.1, RED),)),
            _spread("From host to GPU", "Bytes per second over PCIe: input, mostly.", "Bps",
                    of_run(rate("gpuledger_gpu_pcie_receive_bytes_total", CLUSTER))),
            _spread("NVLink", "Bytes per second that each GPU sends over NVLink: exchange with its peers.", "Bps",
                    of_run(rate("gpuledger_gpu_nvlink_transmit_bytes_total", CLUSTER))),
        ),
        "Input": (
            lines("Loader workers", "The busiest worker's share of a core, and the share of workers that wait in the "
                  "kernel. A full core with waiting GPUs means that input is prepared too slowly; waiting workers, "
                  "that storage is slow.", "percentunit",
                  (f"max(gpuledger_process_workers_busiest_cpu_ratio{{{RUN}}})", "busiest worker"),
                  (f"avg(gpuledger_process_workers_waiting_ratio{{{RUN}}})", "waiting, mean"), limits=((0.9, YELLOW),)),
            lines("Read by its processes", "Bytes per second that the run's processes read, from anywhere. None where "
                  "the agent may not see it.", "Bps",
                  (f"sum({rate('gpuledger_process_read_bytes_total', RUN)})", "read"),
                  (f"sum({rate('gpuledger_process_written_bytes_total', RUN)})", "written")),
            lines("Cores", "Cores used by the run's process trees, and what its quota refused.", "none",
                  (f"sum({rate('gpuledger_process_cpu_seconds_total', RUN)})", "used by its processes"),
                  (f"sum({rate('gpuledger_run_cpu_throttled_seconds_total', RUN)})", "refused by its quota")),
            lines("Pressure in its control group", "Share of time in which some task of the run waited, on its worst "
                  "host.", "percentunit", *((f"max(gpuledger_run_pressure_{what}_some_ratio{{{RUN}}})", what)
                  for what in ("cpu", "io", "memory")), limits=((0.2, YELLOW),)),
        ),
        "Traffic": (
            lines("Sent, by peer", "Bytes per second to the ten hosts it sends most to. TCP is counted; RDMA is the "
                  "ports' bytes shared out.", "Bps",
                  (f"topk(10, sum by (peer, transport) ({rate('gpuledger_flow_transmit_bytes_total', RUN)}))",
                   "{{peer}} {{transport}}")),
            lines("TCP retransmissions", "TCP segments retransmitted per second, over all of its flows.", "none",
                  (f"sum({rate('gpuledger_flow_retransmits_total', RUN)})", "segments")),
        ),
        "Its own progress": (
            lines("Steps", "Steps per second, as the run reports them (docs/progress.md).", "none",
                  (f"sum({rate('gpuledger_progress_steps_total', RUN)})", "steps per second"), width=8),
            lines("Tokens", "Tokens per second, as the run reports them.", "none",
                  (f"sum({rate('gpuledger_progress_tokens_total', RUN)})", "tokens per second"), width=8),
            lines("Requests of a service", "Requests per second that were answered, and those that wait, as vLLM or "
                  "Triton tell them.", "none",
                  (f"sum({rate('gpuledger_service_requests_total', RUN)})", "answered per second"),
                  (f"sum(gpuledger_service_waiting{{{RUN}}})", "waiting"), width=8),
        ),
    },
    link=("This run in gpuledger", "${pages}/runs/${run}"),
)  # fmt: skip
