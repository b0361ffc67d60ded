"""How often what came of it lies where it was said to: by kind of change, and over all."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.machine import quantile

Row = Mapping[str, Any]
SHARES = (0.05, 0.20, 0.50, 0.80, 0.95)
HOUR_MS = 3_600_000


def inside(row: Row, low: str, high: str) -> bool | None:
    """Return whether what came of a trial lies between two quantiles of what was said; None where that is not known."""
    least, most = row["predicted"][low], row["predicted"][high]
    if row["realised_ms"] is None or least is None or most is None:
        return None
    return bool(least <= row["realised_ms"] <= most)


def share_inside(rows: Iterable[Row], low: str, high: str) -> float | None:
    """Return which share of the trials lies between two quantiles; None where none says."""
    said = [held for row in rows if (held := inside(row, low, high)) is not None]
    return round(sum(said) / len(said), 3) if said else None


def by_change(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the trials that were applied, by kind, cause and subject."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["realised_ms"] is not None:
            groups[f"{row['kind']} · {row['cause']} · {row['subject']}"].append(row)
    return dict(sorted(groups.items()))


def by_kind(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the trials that were applied, by kind."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["realised_ms"] is not None:
            groups[row["kind"]].append(row)
    return dict(sorted(groups.items()))


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return what is told of a group: how often inside, and the shares of the loss that were said and that came."""
    came = sorted(row["realised_ms"] / row["booked_ms"] for row in rows if row["booked_ms"])
    ledgers = [row for row in rows if row["second_ledger_ms"] is not None]
    return {
        "trials": len(rows),
        "inside_p20_p80": share_inside(rows, "p20", "p80"),
        "inside_p5_p95": share_inside(rows, "p5", "p95"),
        "predicted_share": {
            name: _median(
                [row["predicted"][name] / row["booked_ms"] for row in rows if row["predicted"][name] is not None]
            )
            for name in ("p5", "p20", "p50", "p80", "p95")
        },
        "realised_share": {f"p{round(100 * at)}": round(quantile(came, at), 3) for at in SHARES} if came else {},
        "predicted_gpu_hours_p50": round(sum(row["predicted"]["p50"] for row in rows) / len(rows) / HOUR_MS, 1),
        "realised_gpu_hours": round(sum(row["realised_ms"] for row in rows) / len(rows) / HOUR_MS, 1),
        "second_ledger_over_truth": _median(
            [row["second_ledger_ms"] / row["realised_ms"] for row in ledgers if row["realised_ms"]]
        ),
        "loss_left_in_second_ledger": _median([row["second_booked_ms"] / row["booked_ms"] for row in ledgers]),
    }


def table(groups: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return the groups as lines of a table in Markdown."""
    lines = [
        "| change · cause · runs | seeds | said, share of the loss P20 / P50 / P80 | came, P5 / P20 / P50 / P80 / P95 "
        "| GPU-hours a week said (P50), came | in P20-P80 | in P5-P95 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, rows in groups.items():
        told = summary(rows)
        said = " / ".join(_number(told["predicted_share"][each]) for each in ("p20", "p50", "p80"))
        came = " / ".join(_number(share) for share in told["realised_share"].values())
        lines.append(
            f"| {name} | {told['trials']} | {said} | {came} | {told['predicted_gpu_hours_p50']:,}, "
            f"{told['realised_gpu_hours']:,} | {_percent(told['inside_p20_p80'])} | {_percent(told['inside_p5_p95'])} |"
        )
    return lines


def _median(values: list[float]) -> float | None:
    return round(quantile(sorted(values), 0.5), 3) if values else None


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"
