"""The fleet: what its GPUs do and cost, who loses most, which hardware is ill, and whether the figures are fresh."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from dashboards.grafana.board import RUN_PAGE, Panels, board, chosen, filled, page_link, pages
from dashboards.grafana.findings_table import dearest_findings
from dashboards.grafana.panels import RED, YELLOW, Query, lines, stat, table
from dashboards.grafana.queries import CLUSTER, ledger, rate, share

_STATES = ("class", "state", "cause")
_COST = ledger("hour_cost_usd", *_STATES)
_LOST = ledger("gpus", *_STATES, where='class="avoidable"')
_AVOIDABLE = ledger("hour_cost_usd", *_STATES, where='class="avoidable"')
_HOT = "gpuledger_gpu_temperature_celsius"
_SILENT = "gpuledger_collector_silent_agent_age_seconds"


def fleet() -> Dashboard:
    """Return the dashboard."""
    variables = [
        chosen("cluster", "Cluster", "label_values(gpuledger_fleet_info, cluster)"),
        chosen("team", "Team", f"label_values(gpuledger_fleet_team_week_cost_usd{{{CLUSTER}}}, team)"),
        pages(),
    ]
    made = board("gpuledger-fleet", "gpuledger / Fleet", __doc__ or "", "now-7d", variables)
    made.link(page_link("The fleet in gpuledger", "${pages}/"))
    rows = [
        ("Now", _now()),
        ("Where it goes", _states()),
        ("Who loses most", _losing()),
        ("Hardware", _hardware()),
        ("Traffic and agents", _agents()),
    ]
    return filled(made, rows)


def _now() -> Panels:
    return (
        stat("GPUs", "GPUs that were owned in the last complete hour.", "none", f"sum({ledger('gpus', *_STATES)})"),
        stat(
            "Cost an hour",
            "What the last complete hour cost, by the price file. What has no price is in no cost.",
            "currencyUSD",
            f"sum({_COST})",
        ),
        stat(
            "Avoidable",
            "Share of the last complete hour's cost in avoidable states: idle, starved, throttled, lost and the like.",
            "percentunit",
            share(_AVOIDABLE, _COST),
            limits=((0.1, YELLOW), (0.2, RED)),
        ),
        stat(
            "At stake in findings",
            "Money of this week in findings that are still open. gpuledger findings lists them.",
            "currencyUSD",
            f"sum({ledger('open_findings_at_stake_usd', 'kind', 'confidence')})",
        ),
        stat(
            "Silent agents",
            "Agents not heard for five minutes; their GPUs count as not measured. 1 % of them calls somebody.",
            "none",
            f"sum(gpuledger_collector_agents_silent{{{CLUSTER}}})",
            limits=((1, YELLOW), (10, RED)),
        ),
        stat(
            "Ledger ends",
            "How long ago the newest hour of the ledger ended. An hour is complete half an hour after its end.",
            "s",
            f"time() - {ledger('known_until_timestamp_seconds')}",
            limits=((3 * 3600, YELLOW), (6 * 3600, RED)),
            decimals=1,
        ),
    )


def _states() -> Panels:
    by_state = "sum by (state, cause)"
    return (
        lines(
            "GPUs by class",
            "What the fleet's GPUs did in the last complete hour, on average. The classes sum to what is owned.",
            "none",
            Query(f"sum by (class) ({ledger('gpus', *_STATES)})", "{{class}}"),
            stacked=True,
        ),
        lines(
            "Avoidable cost an hour",
            "What each avoidable state costs, by cause. Their sum is what could be saved at once.",
            "currencyUSD",
            Query(f"{by_state} ({_AVOIDABLE})", "{{state}}: {{cause}}"),
            stacked=True,
        ),
        lines(
            "GPUs that wait, idle or are lost",
            "GPUs in avoidable states, by state and cause, in the last complete hour.",
            "none",
            Query(f"{by_state} ({_LOST})", "{{state}}: {{cause}}"),
            stacked=True,
        ),
        lines(
            "How busy the chips are",
            "Mean over all GPUs: time with any kernel, SM cycles, tensor cycles, HBM bandwidth. Much of the first with "
            "little of the others is work that fills no chip.",
            "percentunit",
            *(
                Query(f"avg(gpuledger_gpu_{name}_ratio{{{CLUSTER}}})", words)
                for name, words in (
                    ("utilization", "any kernel"),
                    ("sm_active", "SM"),
                    ("tensor_active", "tensor"),
                    ("dram_active", "HBM"),
                )
            ),
            limits=((1, RED),),
        ),
    )


def _losing() -> Panels:
    of_team = 'team=~"$team"'
    avoidable = f'class="avoidable", {of_team}'
    run = ("run_id", "name", "team", "state", "cause")
    return (
        dearest_findings(),
        table(
            "Runs that lose most",
            "The 20 runs that lost most GPU time in the last complete hour, by avoidable state.",
            "none",
            {"run_id": "Run", "name": "Name", "team": "Team", "state": "State", "cause": "Cause", "Value": "GPUs"},
            f"sort_desc({ledger('run_gpus', *run, where=avoidable)})",
            links={"run_id": RUN_PAGE},
        ),
    )


def _hardware() -> Panels:
    throttled = " + ".join(
        rate(f"gpuledger_gpu_throttle_{why}_seconds_total", CLUSTER) for why in ("thermal", "hardware")
    )
    return (
        stat(
            "GPUs that do not answer",
            "GPUs whose driver does not answer, or that fell off the bus. Drain their hosts.",
            "none",
            f"count(gpuledger_gpu_up{{{CLUSTER}}}) - sum(gpuledger_gpu_up{{{CLUSTER}}})",
            limits=((1, RED),),
            width=6,
        ),
        stat(
            "GPUs missing",
            "GPUs that hosts should have and do not see.",
            "none",
            f"sum(gpuledger_agent_gpus_expected{{{CLUSTER}}}) - sum(gpuledger_agent_gpus_seen{{{CLUSTER}}})",
            limits=((1, RED),),
            width=6,
        ),
        stat(
            "XID errors",
            "XID errors in the time shown. On the host, dmesg has their numbers.",
            "none",
            f"sum(increase(gpuledger_gpu_xid_events_total{{{CLUSTER}}}[$__range]))",
            limits=((1, YELLOW), (10, RED)),
            width=6,
            decimals=0,
        ),
        stat(
            "Power",
            "What all GPUs draw now, boards alone: no host, no cooling.",
            "watt",
            f"sum(gpuledger_gpu_power_watts{{{CLUSTER}}})",
            width=6,
        ),
        lines(
            "Slowed by heat or by the board",
            "Time below the wanted clock: the worst GPU of each of the ten worst hosts; a tenth calls somebody.",
            "percentunit",
            Query(f"topk(10, max by (instance) ({throttled}))", "{{instance}}"),
            limits=((0.1, RED),),
        ),
        lines(
            "Hottest hosts",
            "The hottest GPU of each of the ten hottest hosts.",
            "celsius",
            Query(f"topk(10, max by (instance) ({_HOT}{{{CLUSTER}}}))", "{{instance}}"),
            limits=((85, YELLOW), (90, RED)),
        ),
    )


def _agents() -> Panels:
    beyond = ledger("hour_traffic_bytes", "locality", where='locality!~"gpu_link|rack|unknown"')
    between = ledger("hour_traffic_bytes", "locality", where='locality!~"gpu_link|unknown"')
    return (
        lines(
            "Traffic that leaves its rack",
            "Of the bytes that runs sent between hosts in the last complete hour, the share that left the rack.",
            "percentunit",
            Query(share(beyond, between), "beyond racks"),
            limits=((0.5, YELLOW),),
            width=8,
        ),
        table(
            "Agents that are silent longest",
            "The 20 agents that are silent longest. Their GPUs count as not measured, neither used nor wasted.",
            "s",
            {"agent": "Agent", "Value": "Silent for"},
            f"sort_desc(max by (agent) ({_SILENT}{{{CLUSTER}}}))",
            width=8,
        ),
        lines(
            "Bytes that wait on hosts",
            "Spools of the ten agents with most. A spool that grows means that its collector cannot be reached.",
            "bytes",
            Query(f"topk(10, max by (instance) (gpuledger_agent_spool_bytes{{{CLUSTER}}}))", "{{instance}}"),
            limits=((128e6, YELLOW), (256e6, RED)),
            width=8,
        ),
    )
