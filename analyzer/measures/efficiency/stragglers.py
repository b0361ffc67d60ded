"""What slow GPUs cost those who waited for them: rows of the ledger that name who caused them."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waited:
    """GPU time that the ranks of one run waited for one GPU, and what it cost in millionths (None: no price)."""

    caused_by: str | None  # a GPU; None where nobody can say which
    node: str | None  # the host of that GPU
    run_id: str
    milliseconds: int
    cost_micros: int | None


@dataclass(frozen=True, slots=True)
class Straggler:
    """One GPU for which others waited: its host, in which runs, how much GPU time, at what cost."""

    gpu_uuid: str | None
    node: str | None
    run_ids: tuple[str, ...]
    milliseconds: int
    cost_micros: int | None


def stragglers(waited: Iterable[Waited]) -> tuple[Straggler, ...]:
    """Return the GPUs for which others waited, the dearest in GPU time first."""
    by_gpu: dict[str | None, list[Waited]] = {}
    for row in waited:
        by_gpu.setdefault(row.caused_by, []).append(row)
    found = [
        Straggler(
            gpu,
            rows[0].node,
            tuple(sorted({row.run_id for row in rows})),
            sum(row.milliseconds for row in rows),
            known_cost(row.cost_micros for row in rows),
        )
        for gpu, rows in by_gpu.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.milliseconds, one.gpu_uuid or "")))


def known_cost(amounts: Iterable[int | None]) -> int | None:
    """Return the sum of amounts; None where any of them is unknown, since a part is not the cost."""
    total = 0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total
