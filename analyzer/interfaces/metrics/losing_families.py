"""The families that name runs, teams and findings: a few of each, so that an alert can say whom it means."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily

from agent.wire.units import HOUR_MS, MICROS
from analyzer.findings.finding import Finding
from analyzer.interfaces.metrics.family import many, money, one
from analyzer.interfaces.metrics.losing import (
    FINDINGS_SHOWN,
    RUNS_SHOWN,
    TEAMS_SHOWN,
    UNMAPPED,
    Losing,
    RunPart,
    TeamLoss,
)
from analyzer.interfaces.metrics.recent import Recent
from analyzer.period import WINDOW_MS

_MS = 1000
_FINDING = ("finding", "kind", "confidence", "team", "run_id")


def losing_families(losing: Losing, unit: str) -> Iterator[GaugeMetricFamily]:
    """Yield them; `unit` is the ledger's currency, as names bear it."""
    yield many(
        "run_gpus",
        f"GPUs by state of the {RUNS_SHOWN} runs that lost most in the last complete hour, on average.",
        ("run_id", "name", "team", "class", "state", "cause"),
        losing.runs,
        _run,
        lambda part: part.milliseconds / HOUR_MS,
    )
    yield many(
        f"team_avoidable_hour_cost_{unit}",
        f"What the {TEAMS_SHOWN} teams that lost most could have saved in the last complete hour, by state.",
        ("team", "state"),
        losing.teams,
        _team,
        lambda each: money(each.cost_micros),
    )
    about = f"The {FINDINGS_SHOWN} dearest findings of the week that are still open"
    yield many(
        "finding_gpu_seconds", f"{about}: GPU time at stake.", _FINDING, losing.findings, _finding,
        lambda each: each.milliseconds / _MS,
    )  # fmt: skip
    yield many(
        f"finding_at_stake_{unit}", f"{about}: money at stake.", _FINDING, losing.findings, _finding,
        lambda each: money(each.at_stake_micros),
    )  # fmt: skip


def recent_families(recent: Recent) -> Iterator[GaugeMetricFamily]:
    """Yield what runs did in the newest ten minutes, and which those are."""
    about = "End of the newest ten minutes that are wholly booked."
    yield one("recent_until_timestamp_seconds", about, recent.until / MICROS)
    yield many(
        "recent_gpus",
        "GPUs that runs held in these ten minutes by state, on average; may still change.",
        ("class", "state", "cause"),
        recent.held,
        lambda part: (part.klass, part.state, part.cause),
        lambda part: part.milliseconds / WINDOW_MS,
    )
    yield many(
        "run_recent_gpus",
        f"GPUs by state of the {RUNS_SHOWN} runs that lost most in these ten minutes, on average; may still change.",
        ("run_id", "name", "team", "class", "state", "cause"),
        recent.runs,
        _run,
        lambda part: part.milliseconds / WINDOW_MS,
    )


def _run(part: RunPart) -> tuple[str, ...]:
    return part.run_id, part.name, part.team, part.klass, part.state, part.cause


def _team(each: TeamLoss) -> tuple[str, ...]:
    return each.team, each.state


def _finding(each: Finding) -> tuple[str, ...]:
    run_id = each.run_ids[0] if each.run_ids else ""
    return each.id, each.rule, each.confidence, each.team or (UNMAPPED if run_id else ""), run_id
