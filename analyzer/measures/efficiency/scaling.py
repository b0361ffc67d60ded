"""Scaling: what a GPU does in a larger run of the same model, against the smallest run that was seen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["tokens", "samples", "steps"]
_UNITS: tuple[Unit, ...] = ("tokens", "samples", "steps")
MODEL_LABEL = "model"
_BATCH_LABELS = ("global_batch", "batch")  # samples of one step over all GPUs


@dataclass(frozen=True, slots=True)
class Signature:
    """What makes runs comparable: the model (its label, else the run's name), the batch where it is said, the SKU."""

    model: str
    batch: str | None
    sku: str


@dataclass(frozen=True, slots=True)
class Peer:
    """A run of one signature: its size, what it did (by unit) and in how many microseconds of working time."""

    run_id: str
    gpus: int
    amounts: Mapping[Unit, int]
    working_us: int


@dataclass(frozen=True, slots=True)
class Size:
    """One row of the table: so many GPUs do so much a second, `speed_up` times the smallest size of the table."""

    gpus: int
    runs: int
    per_second: float
    speed_up: float
    efficiency: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """The table of sizes, smallest first, and of what it counts; and why there is none, or what is not in it."""

    unit: Unit | None
    sizes: tuple[Size, ...]
    because: str | None = None


def signature(name: str | None, labels: Mapping[str, str], sku: str | None) -> Signature | None:
    """Return what a run may be compared by; None where its model or its GPUs are not known."""
    model = labels.get(MODEL_LABEL) or name
    if not model or not sku:
        return None
    batch = next((labels[key] for key in _BATCH_LABELS if labels.get(key)), None)
    return Signature(model, batch, sku)


def scaling(peers: Iterable[Peer], *, is_batch_known: bool, expired: int = 0) -> Scaling:
    """Return the table of runs of one signature; of so many more nobody can tell any more what they did.

    Tokens are compared before samples, and those before steps. Steps compare only where the batch of a step is known to
    be the same: with the GPUs the batch often grows, and then a step does more.
    """
    gone = None
    if expired:
        runs = "1 run" if expired == 1 else f"{expired} runs"
        gone = f"the samples of {runs} of its kind, which tell no steps, are no longer kept"
    usable = [peer for peer in peers if peer.working_us > 0 and peer.gpus > 0]
    rated = [peer for peer in usable if any(peer.amounts.get(unit) for unit in _UNITS)]
    if not rated:
        return Scaling(None, (), gone or "no run of its kind says its tokens, samples or steps")
    for unit in _UNITS if is_batch_known else _UNITS[:2]:
        counted = [peer for peer in rated if peer.amounts.get(unit)]
        if len({peer.gpus for peer in counted}) > 1:
            return Scaling(unit, _table(counted, unit), gone)
    if len({peer.gpus for peer in rated}) > 1:
        return Scaling(None, (), "runs of several sizes tell steps alone: label global_batch, or tell tokens")
    return Scaling(None, (), f"only one size seen; {gone}" if gone else "only one size seen")


def _table(peers: Sequence[Peer], unit: Unit) -> tuple[Size, ...]:
    rows: list[Size] = []
    for gpus in sorted({peer.gpus for peer in peers}):
        alike = [peer for peer in peers if peer.gpus == gpus]
        rate = sum(peer.amounts[unit] for peer in alike) * 1_000_000 / sum(peer.working_us for peer in alike)
        smallest = rows[0] if rows else None
        speed_up = rate / smallest.per_second if smallest else 1.0
        efficiency = speed_up * smallest.gpus / gpus if smallest else 1.0
        rows.append(Size(gpus, len(alike), rate, speed_up, efficiency))
    return tuple(rows)
