"""A recommendation for tests: everything about it that a test does not name is harmless."""

from dataclasses import replace
from typing import Any

from analyzer.recommendations.recommendation import Moving, Outlook, Range, Recommendation, RestartPart

HOUR = 3_600_000_000
DAY = 24 * HOUR
WEEK_MS = 7 * 24 * 3_600_000
DOLLAR = 1_000_000
GPUS = 8


def saving(dollars: int) -> Range:
    """Return a saving in money: half of it at P20."""
    return Range(dollars * DOLLAR // 2, dollars * DOLLAR, dollars * DOLLAR)


def advice(id_: str = "r-aaaaa", dollars: int = 100, **more: Any) -> Recommendation:
    """Return a change of one run that costs nothing, and saves so many dollars a week at P50."""
    made = Recommendation(
        "loader_settings",
        "twice the workers",
        "4 workers",
        "8 workers",
        "they are the limit",
        (),
        "nobody",
        id=id_,
        finding_ids=("f-aaaaa",),
        subject="train",
        team="team-a",
        actor="run",
        saves_milliseconds=Range(dollars * 100_000, dollars * 200_000, dollars * 200_000),
        saves_micros=saving(dollars),
        cost_to_move_micros=0,
        run_ids=("slurm/alpha/1",),
    )
    return replace(made, **more)


def restart(
    id_: str = "r-aaaaa", dollars: int = 100, *, costs: int = 10, days: int | None = 28, gpus: int = GPUS, **more: Any
) -> Recommendation:
    """Return a change for which a run of so many GPUs is restarted now; it runs on for so many days."""
    parts = (RestartPart("reload", 60, measured=True, told="1 min to load"),)
    recurs = more.pop("recurs", 0)
    moved_at = more.pop("moved_at", None)
    left = None if days is None else days * 86_400
    return replace(
        advice(id_, dollars),
        **{
            "kind": "co_locate",
            "cost_to_move": "one restart",
            "cost_to_move_micros": costs * DOLLAR,
            "cost_to_move_milliseconds": costs * 200_000,
            "takes_effect": "now",
            "moving": Moving(gpus, parts, moved_at),
            "outlook": Outlook(running=True, remaining_seconds=left, recurs=recurs, told="until its time limit"),
            **more,
        },
    )
