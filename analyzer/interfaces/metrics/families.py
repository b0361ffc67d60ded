"""The families of /metrics that speak of the fleet. Each has an end, however many hosts, runs and teams there are.

Money bears the ledger's currency as its unit: …_usd, …_eur. What has no price has no cost, and is told as such.
"""

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily

from agent.wire.units import HOUR_MS, HOUR_SECONDS
from analyzer.interfaces.metrics.family import PREFIX, many, money, one
from analyzer.interfaces.metrics.fleet_query import FleetReading, Open, StateTime, TeamPart
from analyzer.interfaces.metrics.losing_families import losing_families, recent_families

_MS = 1000
_STATE = ("class", "state", "cause")


def families(reading: FleetReading) -> Iterator[GaugeMetricFamily]:
    """Yield every family of the fleet."""
    unit = reading.currency.lower()
    if reading.hour is not None:
        yield one("hour_timestamp_seconds", "Start of the last complete hour.", reading.hour / 1e6)
        yield from _of_hour(reading.hour_parts, reading.runs, unit)
    yield one("week_timestamp_seconds", "Start of the week that is summed.", reading.week.start / 1e6)
    yield from _of_week(reading.week_parts, unit)
    yield from _of_teams(reading.week_teams, unit)
    yield from _of_findings(reading.open_findings, unit)
    yield from losing_families(reading.losing, unit)
    yield from recent_families(reading.recent)
    yield one("known_until_timestamp_seconds", "End of the newest hour of the ledger.", reading.known_until / 1e6)
    settled = GaugeMetricFamily(
        f"{PREFIX}_week_known_seconds",
        "Hours of the week by how far they are settled.",
        labels=["status"],
    )
    for status, hours in reading.hours.items():
        settled.add_metric([status], hours * HOUR_SECONDS)
    yield settled


def _of_hour(parts: Sequence[StateTime], runs: int, unit: str) -> Iterator[GaugeMetricFamily]:
    yield many(
        "gpus", "GPUs by state in the last complete hour, on average.", _STATE, parts, _state,
        lambda part: part.milliseconds / HOUR_MS,
    )  # fmt: skip
    yield many(
        f"hour_cost_{unit}", "What the last complete hour cost, by state.", _STATE, parts, _state,
        lambda part: money(part.cost_micros),
    )  # fmt: skip
    unpriced = sum(part.unpriced_milliseconds for part in parts)
    yield one("unpriced_gpus", "GPUs without a price in the last complete hour, on average.", unpriced / HOUR_MS)
    yield one("runs", "Runs that held a GPU in the last complete hour.", runs)


def _of_week(parts: Sequence[StateTime], unit: str) -> Iterator[GaugeMetricFamily]:
    yield many(
        "week_gpu_seconds", "GPU time of the week so far, by state.", _STATE, parts, _state,
        lambda part: part.milliseconds / _MS,
    )  # fmt: skip
    yield many(
        f"week_cost_{unit}", "What the week cost so far, by state.", _STATE, parts, _state,
        lambda part: money(part.cost_micros),
    )  # fmt: skip


def _of_teams(parts: Sequence[TeamPart], unit: str) -> Iterator[GaugeMetricFamily]:
    labels = ("team", "class")
    yield many(
        "team_week_gpu_seconds",
        "GPU time of the week so far by team: those that cost most, all others, unmapped runs, and what nobody held.",
        labels, parts, _team, lambda part: part.milliseconds / _MS,
    )  # fmt: skip
    yield many(
        f"team_week_cost_{unit}", "What the week cost so far, by team.", labels, parts, _team,
        lambda part: money(part.cost_micros),
    )  # fmt: skip


def _of_findings(found: Sequence[Open], unit: str) -> Iterator[GaugeMetricFamily]:
    labels = ("kind", "confidence")
    yield many(
        "open_findings", "Findings of the week that are still open.", labels, found, _kind, lambda each: each.findings
    )
    yield many(
        "open_findings_gpu_seconds", "GPU time at stake in them.", labels, found, _kind,
        lambda each: each.milliseconds / _MS,
    )  # fmt: skip
    yield many(
        f"open_findings_at_stake_{unit}", "Money at stake in them.", labels, found, _kind,
        lambda each: money(each.at_stake_micros),
    )  # fmt: skip


def _state(part: StateTime) -> tuple[str, ...]:
    return part.klass, part.state, part.cause


def _team(part: TeamPart) -> tuple[str, ...]:
    return part.team, part.klass


def _kind(each: Open) -> tuple[str, ...]:
    return each.rule, each.confidence
