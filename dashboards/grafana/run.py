"""One run: all of its GPUs as a spread from the least to the most, its processes, its traffic and its own progress."""

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from dashboards.grafana.board import FINDING_PAGE, Panels, board, chosen, filled, page_link, pages
from dashboards.grafana.panels import RED, YELLOW, Limits, Query, lines, stat, table
from dashboards.grafana.queries import CLUSTER, RUN, ledger, of_run, rate

_THIS = 'run_id="$run"'


def run() -> Dashboard:
    """Return the dashboard."""
    variables = [
        chosen("cluster", "Cluster", "label_values(gpuledger_agent_build_info, cluster)"),
        chosen("run", "Run", f"label_values(gpuledger_gpu_run_info{{{CLUSTER}}}, run_id)", many=False),
        pages(),
    ]
    made = board("gpuledger-run", "gpuledger / Run", __doc__ or "", "now-6h", variables)
    made.link(page_link("This run in gpuledger", "${pages}/runs/${run}"))
    rows = [
        ("Now", _now()),
        ("Its GPUs: least, median, most", _gpus()),
        ("Input", _input()),
        ("Traffic", _traffic()),
        ("What it says of itself", _told()),
    ]
    return filled(made, rows)


def _now() -> Panels:
    finding = ("finding", "kind", "confidence")
    return (
        stat("GPUs", "GPUs that it holds now.", "none", f"count(gpuledger_gpu_run_info{{{RUN}}})"),
        stat(
            "Nodes",
            "Hosts on which it holds GPUs.",
            "none",
            f"count(count by (cluster, instance) (gpuledger_gpu_run_info{{{RUN}}}))",
        ),
        stat(
            "GPUs that do nothing",
            "GPUs of the run on which no kernel has run for ten minutes.",
            "none",
            f"sum({of_run(f'(max_over_time(gpuledger_gpu_utilization_ratio{{{CLUSTER}}}[10m]) == bool 0)')})",
            limits=((1, YELLOW),),
        ),
        stat("SM activity, mean", "Mean over its GPUs: share of SM cycles with a warp.", "percentunit",
             f"avg({of_run(_gpu('sm_active_ratio'))})"),
        stat("Power, all", "What its GPUs draw, boards alone; a shared GPU counts whole.", "watt",
             f"sum({of_run(_gpu('power_watts'))})"),
        stat(
            "Energy",
            "What its GPUs have spent in the time shown.",
            "joule",
            f"sum({of_run(f'increase(gpuledger_gpu_energy_joules_total{{{CLUSTER}}}[$__range])')})",
        ),
        table(
            "Where its time went in the last complete hour",
            "The ledger's states of this run, while it is one of the 20 that lose most. Its page always has them.",
            "none",
            {"class": "Class", "state": "State", "cause": "Cause", "Value": "GPUs"},
            f"sort_desc({ledger('run_gpus', 'class', 'state', 'cause', where=_THIS)})",
        ),
        table(
            "Its findings",
            "Findings of this run among the 20 dearest of the fleet; each opens with its evidence.",
            "currencyUSD",
            {"finding": "Finding", "kind": "Why", "confidence": "Sure", "Value": "At stake"},
            f"sort_desc({ledger('finding_at_stake_usd', *finding, where=_THIS)})",
            links={"finding": FINDING_PAGE},
        ),
    )  # fmt: skip


def _gpu(metric: str) -> str:
    return f"gpuledger_gpu_{metric}{{{CLUSTER}}}"


def _gpus() -> Panels:
    pcie = of_run(rate("gpuledger_gpu_pcie_receive_bytes_total", CLUSTER))
    nvlink = of_run(rate("gpuledger_gpu_nvlink_transmit_bytes_total", CLUSTER))
    heat = " + ".join(rate(f"gpuledger_gpu_throttle_{why}_seconds_total", CLUSTER) for why in ("thermal", "hardware"))
    return (
        _spread("Time with any kernel", "NVML's utilization. Ranks that wait for one another look busy here.",
                "percentunit", of_run(_gpu("utilization_ratio"))),
        _spread("SM activity", "Share of SM cycles with a warp. One GPU below the others holds all of them up.",
                "percentunit", of_run(_gpu("sm_active_ratio"))),
        _spread("Tensor activity", "Share of cycles with a tensor pipe busy.", "percentunit",
                of_run(_gpu("tensor_active_ratio"))),
        _spread("HBM bandwidth", "Share of the memory's bandwidth in use.", "percentunit",
                of_run(_gpu("dram_active_ratio"))),
        _spread("Memory held", "Device memory held by processes. Frameworks set memory aside that they do not use.",
                "bytes", of_run(_gpu("memory_used_bytes"))),
        _spread("Power", "Board power. It falls together at a checkpoint or a stall, and alone on a sick GPU.", "watt",
                of_run(_gpu("power_watts"))),
        _spread("SM clock", "Falls where power or heat hold it down.", "hertz", of_run(_gpu("sm_clock_hertz"))),
        _spread("Slowed by heat or by the board", "Share of time below the wanted clock; a tenth calls somebody.",
                "percentunit", of_run(f"({heat})"), limits=((0.1, RED),)),
        _spread("From host to GPU", "Bytes a second over PCIe: input, mostly.", "Bps", pcie),
        _spread("NVLink", "Bytes a second that each GPU sends over NVLink: exchange with its peers.", "Bps", nvlink),
    )  # fmt: skip


def _spread(title: str, about: str, unit: str, expr: str, *, limits: Limits = ()) -> Builder[Panel]:
    """A thousand GPUs are three lines: none of them is drawn for itself."""
    queries = (Query(f"min({expr})", "least"), Query(f"quantile(0.5, {expr})", "median"), Query(f"max({expr})", "most"))
    return lines(title, about, unit, *queries, limits=limits)


def _input() -> Panels:
    return (
        lines(
            "Loader workers",
            "The busiest worker's share of a core, and the share of workers that wait in the kernel. A full core with "
            "waiting GPUs means that input is prepared too slowly; waiting workers, that storage is slow.",
            "percentunit",
            Query(f"max(gpuledger_process_workers_busiest_cpu_ratio{{{RUN}}})", "busiest worker"),
            Query(f"avg(gpuledger_process_workers_waiting_ratio{{{RUN}}})", "waiting, mean"),
            limits=((0.9, YELLOW),),
        ),
        lines(
            "Read by its processes",
            "Bytes a second that the run's processes read, from anywhere. None where the agent may not see it.",
            "Bps",
            Query(f"sum({rate('gpuledger_process_read_bytes_total', RUN)})", "read"),
            Query(f"sum({rate('gpuledger_process_written_bytes_total', RUN)})", "written"),
        ),
        lines(
            "Cores",
            "Processor seconds a second of the run's process trees, and what its quota refused.",
            "none",
            Query(f"sum({rate('gpuledger_process_cpu_seconds_total', RUN)})", "used by its processes"),
            Query(f"sum({rate('gpuledger_run_cpu_throttled_seconds_total', RUN)})", "refused by its quota"),
        ),
        lines(
            "Pressure in its control group",
            "Share of time in which some task of the run waited, on its worst host.",
            "percentunit",
            *(
                Query(f"max(gpuledger_run_pressure_{what}_some_ratio{{{RUN}}})", what)
                for what in ("cpu", "io", "memory")
            ),
            limits=((0.2, YELLOW),),
        ),
    )


def _traffic() -> Panels:
    sent = rate("gpuledger_flow_transmit_bytes_total", RUN)
    again = rate("gpuledger_flow_retransmits_total", RUN)
    return (
        lines(
            "Sent, by peer",
            "Bytes a second to the ten hosts it sends most to. TCP is counted; RDMA is the ports' bytes shared out.",
            "Bps",
            Query(f"topk(10, sum by (peer, transport) ({sent}))", "{{peer}} {{transport}}"),
        ),
        lines(
            "Sent again",
            "TCP segments sent again, a second, over all of its flows.",
            "none",
            Query(f"sum({again})", "segments"),
        ),
    )


def _told() -> Panels:
    return (
        lines(
            "Steps",
            "Steps a second, as the run tells them (docs/progress.md).",
            "none",
            Query(f"sum({rate('gpuledger_progress_steps_total', RUN)})", "steps a second"),
            width=8,
        ),
        lines(
            "Tokens",
            "Tokens a second, as the run tells them.",
            "none",
            Query(f"sum({rate('gpuledger_progress_tokens_total', RUN)})", "tokens a second"),
            width=8,
        ),
        lines(
            "Requests of a service",
            "Requests a second that were answered, and those that wait, as vLLM or Triton tell them.",
            "none",
            Query(f"sum({rate('gpuledger_service_requests_total', RUN)})", "answered a second"),
            Query(f"sum(gpuledger_service_waiting{{{RUN}}})", "waiting"),
            width=8,
        ),
    )
