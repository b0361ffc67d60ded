"""What was read of the runs' GPUs while they held them: how signals are spread, memory, energy, bytes over links."""

from dataclasses import dataclass

from agent.wire.units import PERMILLE, SECOND_MS, SECOND_US
from analyzer.capacity.profile.facts import Distribution, Memory
from analyzer.capacity.profile.work import Work
from analyzer.finops.non_gpu_costs.energy import Drawn
from analyzer.queries.statements import statements
from collector.lake.tiers.sources import TableExtent
from collector.store.session import Session
from collector.tier_tables import tiered

_READINGS_MOST = 200_000  # tell a tenth to a permille; a month of a hundred GPUs has ten times as many
_SPARSE_US = 30 * SECOND_US


@dataclass(frozen=True, slots=True)
class Signals:
    """What the samples say. Energy and bytes are of all the runs' GPUs together; None was not told."""

    distributions: tuple[Distribution, ...]
    memory: tuple[Memory, ...]
    at_zero_ratio: float | None
    drawn: tuple[Drawn, ...]  # by node group and hour; empty where nobody told it
    nvlink_bytes: int | None
    pcie_bytes_per_second: float | None  # into one GPU, on average


def read_signals(session: Session, work: Work) -> Signals:
    """Return what was read of these runs' GPUs.

    Where samples have expired their minutes stand for them, and hours for those: a spread is then that of means.
    """
    _gather(session, work)
    spread, zero, memory, links, drawn = statements("capacity/profile/signals.sql")
    still, measured = session.row(zero)
    nvlink, pcie, pcie_ms = session.row(links)
    return Signals(
        tuple(_distribution(*row) for row in session.rows(spread)),
        tuple(Memory(*row) for row in session.rows(memory)),
        round(still / measured, 6) if measured else None,
        tuple(Drawn(*row) for row in session.rows(drawn)),
        _whole(nvlink),
        round(pcie * SECOND_MS / pcie_ms, 1) if pcie is not None and pcie_ms else None,
    )


def _gather(session: Session, work: Work) -> None:
    held, *of_samples, minutes, minute, hours, hour = statements("capacity/profile/held.sql")
    kept = TableExtent.of(session, tiered("gpu_samples"))
    start, end = work.period.start, work.period.end
    minutes_from = min(max(start, kept.minutes_from), end)
    samples_from = min(max(start, kept.raw_from), end)
    work.rows(session, held)
    parts: tuple[tuple[list[str], int, int], ...] = (
        (of_samples, samples_from, end),
        ([minutes, minute], minutes_from, samples_from),
        ([hours, hour], start, min(minutes_from, samples_from)),
    )
    for selects, first, last in parts:
        for select in selects:
            if first < last or select in of_samples:  # those of samples make the tables
                given = {"start": first, "end": last, "step": _step_us(work)}
                session.execute(select, {name: value for name, value in given.items() if f"${name}" in select})


def _step_us(work: Work) -> int:
    """Return how far apart the readings are of which a spread is told: all of them where there are not too many."""
    step = work.milliseconds * 1000 // _READINGS_MOST // SECOND_US * SECOND_US
    return step if step >= _SPARSE_US else 1


def _distribution(signal: str, sku: str | None, p10: int, p50: int, p90: int, most: int) -> Distribution:
    per = PERMILLE if signal.endswith("_ratio") else 1
    return Distribution(signal, sku, *(each / per for each in (p10, p50, p90, most)))


def _whole(amount: int | None) -> int | None:
    return None if amount is None else int(amount)
