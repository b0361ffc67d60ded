"""The dashboards of the ledger: the fleet by what it does and costs, and its money."""

from dashboards.grafana.panels import (
    CLUSTER,
    RED,
    RUN_PAGE,
    YELLOW,
    bars,
    board,
    chosen,
    dearest_findings,
    ledger,
    lines,
    pages,
    rate,
    share,
    stat,
    table,
)

_STATES = ("class", "state", "cause")
_BY_STATE = "sum by (state, cause)"
_AVOIDABLE_ONLY, _OF_TEAM, _OF_FLEET = 'class="avoidable"', 'team=~"$team"', 'scope="fleet"'
_COST = ledger("hour_cost_usd", *_STATES)
_LOST = ledger("gpus", *_STATES, where=_AVOIDABLE_ONLY)
_AVOIDABLE = ledger("hour_cost_usd", *_STATES, where=_AVOIDABLE_ONLY)
_AT_STAKE = ledger("open_findings_at_stake_usd", "kind", "confidence")
_TRAFFIC_BEYOND = ledger("hour_traffic_bytes", "locality", where='locality!~"gpu_link|rack|unknown"')
_TRAFFIC = ledger("hour_traffic_bytes", "locality", where='locality!~"gpu_link|unknown"')
_RUN = {"run_id": "Run", "name": "Name", "team": "Team", "state": "State", "cause": "Cause", "Value": "GPUs"}
_LOSING = ledger("run_gpus", *(name for name in _RUN if name != "Value"), where=f"{_AVOIDABLE_ONLY}, {_OF_TEAM}")
_UP = f"gpuledger_gpu_up{{{CLUSTER}}}"
_THROTTLED = " + ".join(rate(f"gpuledger_gpu_throttle_{why}_seconds_total", CLUSTER) for why in ("thermal", "hardware"))
_WEEK = ledger("week_cost_usd", *_STATES)
_WEEK_AVOIDABLE = ledger("week_cost_usd", *_STATES, where=_AVOIDABLE_ONLY)
_TEAM_WEEK = ledger("team_week_cost_usd", "team", "class", where=_OF_TEAM)
_BEARER = ("bearer", "scope")
_SPENT, _BUDGET = ledger("month_spent_usd", *_BEARER), ledger("month_budget_usd", *_BEARER)
_MONTH_START, _MONTH_END = ledger("month_timestamp_seconds"), ledger("month_end_timestamp_seconds")
_BUDGETS = {
    "bearer": "Who", "scope": "Kind", "Value #A": "Budget", "Value #B": "Spent", "Value #C": "Month-end",
    "Value #D": "Month-end, P90",
}  # fmt: skip
_VARIABLES = [
    chosen("cluster", "Cluster", "label_values(gpuledger_fleet_info, cluster)"),
    chosen("team", "Team", f"label_values(gpuledger_fleet_team_week_cost_usd{{{CLUSTER}}}, team)"),
    pages(),
]

FLEET = board(
    "gpuledger-fleet", "gpuledger / Fleet",
    "The fleet: what its GPUs do and cost, where most is lost, which hardware fails, and how fresh that is.",
    "now-7d", _VARIABLES,
    {
        "Now": (
            stat("GPUs", "GPUs that were owned in the last complete hour.", "none",
                 f"sum({ledger('gpus', *_STATES)})"),
            stat("Cost per hour", "What the last complete hour cost, by the price file. What has no price is in no "
                 "cost.", "currencyUSD", f"sum({_COST})"),
            stat("Avoidable", "Share of the last complete hour's cost in avoidable states, such as input "
                 "starvation, idle allocation and cross-rack transfers.", "percentunit",
                 share(_AVOIDABLE, _COST), limits=((0.1, YELLOW), (0.2, RED))),
            stat("Estimated waste in findings", "Money of this week in findings that are still open. gpuledger "
                 "findings lists them.", "currencyUSD", f"sum({_AT_STAKE})"),
            stat("Silent agents", "Agents last seen over five minutes ago; their GPUs count as not measured. The "
                 "alert fires at 1% of them.", "none", f"sum(gpuledger_collector_agents_silent{{{CLUSTER}}})",
                 limits=((1, YELLOW), (10, RED))),
            stat("Ledger ends", "How long ago the newest hour of the ledger ended. An hour is complete half an hour "
                 "after its end.", "s", f"time() - {ledger('known_until_timestamp_seconds')}",
                 limits=((3 * 3600, YELLOW), (6 * 3600, RED)), decimals=1),
        ),
        "Where time and money go": (
            lines("GPUs by class", "What the fleet's GPUs did in the last complete hour, on average. The classes sum "
                  "to what is owned.", "none",
                  (f"sum by (class) ({ledger('gpus', *_STATES)})", "{{class}}"), stacked=True),
            lines("Avoidable cost per hour", "What each avoidable state costs, by cause. Their sum is what could be "
                  "saved at once.", "currencyUSD",
                  (f"{_BY_STATE} ({_AVOIDABLE})", "{{state}}: {{cause}}"), stacked=True),
            lines("Avoidable GPU time by state", "GPUs in avoidable states, by state and cause, in the last "
                  "complete hour.", "none", (f"{_BY_STATE} ({_LOST})", "{{state}}: {{cause}}"), stacked=True),
            lines("Chip activity", "Mean over all GPUs: time with any kernel, SM cycles, tensor cycles, HBM "
                  "bandwidth. Much of the first with little of the others means underutilized GPUs.", "percentunit",
                  (f"avg(gpuledger_gpu_utilization_ratio{{{CLUSTER}}})", "any kernel"),
                  (f"avg(gpuledger_gpu_sm_active_ratio{{{CLUSTER}}})", "SM"),
                  (f"avg(gpuledger_gpu_tensor_active_ratio{{{CLUSTER}}})", "tensor"),
                  (f"avg(gpuledger_gpu_dram_active_ratio{{{CLUSTER}}})", "HBM"), limits=((1, RED),)),
        ),
        "Where most is lost": (
            dearest_findings(),
            table("Runs that lose most", "The 20 runs that lost most GPU time in the last complete hour, by avoidable "
                  "state.", "none", _RUN, f"sort_desc({_LOSING})", links={"run_id": RUN_PAGE}),
        ),
        "Hardware": (
            stat("GPUs not responding", "GPUs whose driver does not answer, or that fell off the bus. Drain their "
                 "hosts.", "none", f"count({_UP}) - sum({_UP})", limits=((1, RED),), width=6),
            stat("GPUs missing", "GPUs that hosts should have and do not see.", "none",
                 f"sum(gpuledger_agent_gpus_expected{{{CLUSTER}}}) - sum(gpuledger_agent_gpus_seen{{{CLUSTER}}})",
                 limits=((1, RED),), width=6),
            stat("XID errors", "XID errors in the time shown. On the host, dmesg has their numbers.", "none",
                 f"sum(increase(gpuledger_gpu_xid_events_total{{{CLUSTER}}}[$__range]))",
                 limits=((1, YELLOW), (10, RED)), width=6, decimals=0),
            stat("Power", "What all GPUs draw now, boards alone: no host, no cooling.", "watt",
                 f"sum(gpuledger_gpu_power_watts{{{CLUSTER}}})", width=6),
            lines("Thermal and hardware throttling", "Time below the wanted clock: the worst GPU of each of the ten "
                  "worst hosts; the alert fires at 10%.", "percentunit",
                  (f"topk(10, max by (instance) ({_THROTTLED}))", "{{instance}}"), limits=((0.1, RED),)),
            lines("Hottest hosts", "The hottest GPU of each of the ten hottest hosts.", "celsius",
                  (f"topk(10, max by (instance) (gpuledger_gpu_temperature_celsius{{{CLUSTER}}}))", "{{instance}}"),
                  limits=((85, YELLOW), (90, RED))),
        ),
        "Traffic and agents": (
            lines("Cross-rack transfers", "Of the bytes that runs sent between hosts in the last complete "
                  "hour, the share that left the rack.", "percentunit",
                  (share(_TRAFFIC_BEYOND, _TRAFFIC), "cross-rack"), limits=((0.5, YELLOW),), width=8),
            table("Longest silent agents", "The 20 agents that are silent longest. Their GPUs count as not "
                  "measured, neither used nor wasted.", "s", {"agent": "Agent", "Value": "Silent for"},
                  f"sort_desc(max by (agent) (gpuledger_collector_silent_agent_age_seconds{{{CLUSTER}}}))", width=8),
            lines("Spooled bytes by host", "Spools of the ten agents with most. A spool that grows means that its "
                  "collector cannot be reached.", "bytes",
                  (f"topk(10, max by (instance) (gpuledger_agent_spool_bytes{{{CLUSTER}}}))", "{{instance}}"),
                  limits=((128e6, YELLOW), (256e6, RED)), width=8),
        ),
    },
    link=("The fleet in gpuledger", "${pages}/"),
)  # fmt: skip

FINOPS = board(
    "gpuledger-finops", "gpuledger / FinOps",
    "Money: what the fleet costs and what of it was avoidable, by team; budgets and forecast; price list issues.",
    "now-30d", _VARIABLES,
    {
        "This week and this month": (
            stat("Week so far", "What the week cost so far.", "currencyUSD", f"sum({_WEEK})"),
            stat("Avoidable this week", "Share of the week's cost that is booked to avoidable states.", "percentunit",
                 share(_WEEK_AVOIDABLE, _WEEK), limits=((0.1, YELLOW), (0.2, RED))),
            stat("Month so far", "What the fleet cost this month so far, by the site's clock.", "currencyUSD",
                 f"sum({ledger('month_spent_usd', 'bearer', where=_OF_FLEET)})"),
            stat("Month-end", "What the fleet will have cost this month: what is spent, and a forecast of the days "
                 "that are left.", "currencyUSD",
                 f"sum({ledger('month_expected_usd', 'bearer', where=_OF_FLEET)})"),
            stat("GPUs without a price", "GPUs of the last complete hour that are in no cost. gpuledger bill prices "
                 "check names their kinds.", "none", f"sum({ledger('unpriced_gpus')})", limits=((1, YELLOW),)),
            stat("Price list issues", "Prices that are missing, stale, expired, with gaps, or far from every list "
                 "price. gpuledger bill prices check names them and what to ask.", "none",
                 f"sum({ledger('price_faults', 'kind')})", limits=((1, YELLOW), (10, RED))),
        ),
        "Where money goes": (
            lines("Cost per hour, by class", "What each class of time costs. The classes sum to the price of what is "
                  "owned.", "currencyUSD", (f"sum by (class) ({_COST})", "{{class}}"), stacked=True),
            bars("Week so far, by team", "What runs cost this week: of the teams that cost most, of all others, and "
                 "what nobody held.", "currencyUSD", (f"sort_desc(sum by (team) ({_TEAM_WEEK}))", "{{team}}")),
            table("Week so far, by state", "What each state of the ledger cost this week, and how much GPU time it "
                  "took.", "currencyUSD", {"class": "Class", "state": "State", "cause": "Cause", "Value": "Cost"},
                  f"sort_desc({_WEEK})"),
            lines("Avoidable cost per hour, by team", "What the teams that lost most could have saved in each hour, by "
                  "state.", "currencyUSD", (ledger("team_avoidable_hour_cost_usd", "team", "state", where=_OF_TEAM),
                  "{{team}}: {{state}}"), stacked=True),
        ),
        "Budgets": (
            bars("Budget spent", "Share of the month's budget that is spent. Compare it with how much of the "
                 "month is over.", "percentunit", (f"sort_desc({_SPENT} / {_BUDGET})", "{{bearer}}"),
                 limits=((0.8, YELLOW), (1, RED)), width=10),
            stat("Month elapsed", "Share of the month elapsed, by the newest hour of the ledger.",
                 "percentunit", f"({ledger('known_until_timestamp_seconds')} - {_MONTH_START}) / "
                 f"({_MONTH_END} - {_MONTH_START})", width=4),
            table("Budgets and forecast", "Budgets of the month, what is spent, and the forecast. Who "
                  "has no budget has an empty cell.", "currencyUSD", _BUDGETS, _BUDGET, _SPENT,
                  ledger("month_expected_usd", *_BEARER), ledger("month_expected_high_usd", *_BEARER), width=10),
        ),
        "What could be saved": (
            dearest_findings(),
            bars("Open findings by kind", "Money of this week in findings that are still open, by kind of finding.",
                 "currencyUSD", (f"sort_desc(sum by (kind) ({_AT_STAKE}))", "{{kind}}")),
        ),
    },
    link=("Money in gpuledger", "${pages}/money"),
)  # fmt: skip
