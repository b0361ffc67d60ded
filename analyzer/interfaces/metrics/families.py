"""The families of /metrics that speak of the fleet, a row each. Each has an end, however large the fleet is.

Money bears the ledger's currency as its unit: …_usd, …_eur. What has no price has no cost, and is told as such.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from prometheus_client.core import GaugeMetricFamily

from agent.wire.units import HOUR_MS, MICROS
from analyzer.interfaces.metrics.fleet_query import FINDINGS_SHOWN, RUNS_SHOWN, TEAMS_SHOWN, FinopsFigures, FleetReading
from analyzer.period import WINDOW_MS

PREFIX = "gpuledger_fleet"
_SECOND_MS = 1000
_STATE = ("class", "state", "cause")
_TEAM = ("team", "class")
_KIND = ("kind", "confidence")
_RUN = ("run_id", "name", "team", "class", "state", "cause")
_FINDING = ("finding", "kind", "confidence", "team", "run_id")
_BEARER = ("bearer", "scope")
_FIELDS = {"class": "klass", "kind": "rule", "finding": "id", "bearer": "name"}  # of labels that are named otherwise
_DEAREST = f"The {FINDINGS_SHOWN} most expensive findings of the week that are still open"


@dataclass(frozen=True, slots=True)
class Family:
    """One family. `{unit}` in its name is the ledger's currency.

    `source` is where its value stands in what was read; with labels there are rows, or a value by the label. `value` is
    the field of a row, divided by `per`. It is left out while what it `needs` is not known.
    """

    name: str
    about: str
    source: str
    value: str = ""
    per: int = 1
    labels: Sequence[str] = ()
    needs: str = "known_until"


FLEET = (
    Family("hour_timestamp_seconds", "Start of the last complete hour.", "hour", per=MICROS, needs="hour"),
    Family(
        "gpus", "GPUs by state in the last complete hour, on average.",
        "hour_parts", "milliseconds", HOUR_MS, _STATE, "hour",
    ),
    Family(
        "hour_cost_{unit}", "What the last complete hour cost, by state.",
        "hour_parts", "cost_micros", MICROS, _STATE, "hour",
    ),
    Family(
        "unpriced_gpus", "GPUs without a price in the last complete hour, on average.",
        "unpriced_milliseconds", per=HOUR_MS, needs="hour",
    ),
    Family("runs", "Runs that held a GPU in the last complete hour.", "runs", needs="hour"),
    Family("week_timestamp_seconds", "Start of the week that is summed.", "week.start", per=MICROS),
    Family(
        "week_gpu_seconds", "GPU time of the week so far, by state.", "week_parts", "milliseconds", _SECOND_MS, _STATE
    ),
    Family("week_cost_{unit}", "What the week cost so far, by state.", "week_parts", "cost_micros", MICROS, _STATE),
    Family(
        "team_week_gpu_seconds",
        "GPU time of the week so far, by team: the most expensive teams, all others, unmapped runs, and unallocated.",
        "week_teams", "milliseconds", _SECOND_MS, _TEAM,
    ),
    Family("team_week_cost_{unit}", "What the week cost so far, by team.", "week_teams", "cost_micros", MICROS, _TEAM),
    Family(
        "open_findings", "Findings of the week that are still open.", "open_findings", "findings", labels=_KIND
    ),
    Family(
        "open_findings_gpu_seconds", "Estimated wasted GPU time of these findings.", "open_findings",
        "milliseconds", _SECOND_MS, _KIND,
    ),
    Family(
        "open_findings_at_stake_{unit}", "Estimated waste of these findings.", "open_findings",
        "at_stake_micros", MICROS, _KIND,
    ),
    Family(
        "run_gpus", f"GPUs by state of the {RUNS_SHOWN} runs that lost most in the last complete hour, on average.",
        "losing_runs", "milliseconds", HOUR_MS, _RUN,
    ),
    Family(
        "team_avoidable_hour_cost_{unit}",
        f"What the {TEAMS_SHOWN} teams that lost most could have saved in the last complete hour, by state.",
        "losing_teams", "cost_micros", MICROS, ("team", "state"),
    ),
    Family(
        "finding_gpu_seconds", f"{_DEAREST}: estimated wasted GPU time.",
        "dearest_findings", "milliseconds", _SECOND_MS, _FINDING,
    ),
    Family(
        "finding_at_stake_{unit}", f"{_DEAREST}: estimated waste.",
        "dearest_findings", "at_stake_micros", MICROS, _FINDING,
    ),
    Family(
        "recent_until_timestamp_seconds", "End of the newest fully accounted ten minutes.",
        "recent.until", per=MICROS,
    ),
    Family(
        "recent_gpus", "GPUs that runs held in these ten minutes, by state, on average; preliminary.",
        "recent.held", "milliseconds", WINDOW_MS, _STATE,
    ),
    Family(
        "run_recent_gpus",
        f"GPUs by state of the {RUNS_SHOWN} runs that lost most in these ten minutes, on average; preliminary.",
        "recent.runs", "milliseconds", WINDOW_MS, _RUN,
    ),
    Family("known_until_timestamp_seconds", "End of the newest hour of the ledger.", "known_until", per=MICROS),
    Family(
        "week_known_seconds", "Time of the week by status of its hours (provisional, closed, final).", "known_seconds",
        labels=("status",),
    ),
)  # fmt: skip
FINOPS = (
    Family(
        "hour_traffic_bytes",
        "Bytes that runs moved in the last complete hour, by distance; GPU links are within a host or pod.",
        "traffic", "bytes", labels=("locality",), needs="traffic",
    ),
    Family("month_timestamp_seconds", "Start of the month that is summed.", "month.start", per=MICROS, needs="month"),
    Family("month_end_timestamp_seconds", "End of the month that is summed.", "month.end", per=MICROS, needs="month"),
    Family(
        "month_spent_{unit}",
        "What the month cost so far: the most expensive teams, those with a budget, and the fleet.",
        "bearers", "spent_micros", MICROS, _BEARER, "month",
    ),
    Family(
        "month_budget_{unit}", "Budget of the month.",
        "bearers", "budget_micros", MICROS, _BEARER, "month",
    ),
    Family(
        "month_expected_{unit}", "Forecast cost at the end of the month.",
        "bearers", "expected_micros", MICROS, _BEARER, "month",
    ),
    Family(
        "month_expected_high_{unit}", "Forecast cost at the end of the month, 90th percentile.",
        "bearers", "high_micros", MICROS, _BEARER, "month",
    ),
    Family(
        "price_faults", "Faults of the price list by kind, as `gpuledger bill prices check` counts them.",
        "faults", labels=("kind",), needs="traffic",
    ),
    Family(
        "file_unreadable", "Whether a file of the settings cannot be read, so that its figures are missing.",
        "unreadable", labels=("file",), needs="traffic",
    ),
)  # fmt: skip


def families(
    rows: Sequence[Family], reading: FleetReading | FinopsFigures, currency: str
) -> Iterator[GaugeMetricFamily]:
    """Yield the families of what was read, in the order of their rows; a value that is not known is left out."""
    for row in rows:
        if attrgetter(row.needs)(reading) is None:
            continue
        name = f"{PREFIX}_{row.name.format(unit=currency.lower())}"
        family = GaugeMetricFamily(name, row.about, labels=list(row.labels))
        for labels, value in _series(row, attrgetter(row.source)(reading)):
            if value is not None:
                family.add_metric(labels, value / row.per)
        yield family


def _series(row: Family, source: object) -> Iterator[tuple[list[str], float | None]]:
    """Yield the values of the labels, and the figure beside them."""
    if isinstance(source, Mapping):
        yield from (([key], value) for key, value in source.items())
    elif isinstance(source, tuple):
        fields = [_FIELDS.get(label, label) for label in row.labels]
        yield from (([getattr(one, field) for field in fields], getattr(one, row.value)) for one in source)
    elif isinstance(source, int):
        yield [], source
