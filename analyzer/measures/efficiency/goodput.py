"""What came of a run's GPU time: goodput, model FLOPs utilization, and how its speed scales with GPUs.

Google's ML Goodput counts what is lost (badput) by kind, and calls the rest productive: a step that is slow is
productive there. So communication, throttling and small kernels are within the step, while starting, saving,
input starvation, hangs, standing idle and thrown-away work are badput. What was not measured or not explained is
neither, and stands beside them: goodput, badput and unknown are the whole of the run's GPU time.

The six are two for the forward and four for the backward pass of each parameter and token; attention is left out, as
there. Of a run that trains adapters only the figure is too high, since most of its parameters have no gradient.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from agent.wire.units import MILLISECOND_US
from analyzer.measures.efficiency.checkpoints import Figure, withheld
from analyzer.sizing.work import Board, board_of

_Badput = Literal[
    "starting", "restoring", "data loading", "checkpointing", "wasted progress", "idle", "hang", "hardware down"
]
GoodputClass = Literal["good", "unknown"] | _Badput

_KINDS: dict[tuple[str, str | None], GoodputClass] = {
    ("starting", "restore"): "restoring",
    ("communicating", "hang"): "hang",
}
_BY_STATE: dict[str, GoodputClass] = {
    "starting": "starting",
    "checkpointing": "checkpointing",
    "starved": "data loading",
    "lost_work": "wasted progress",
    "held_idle": "idle",
    "headroom": "idle",
    "unallocated": "idle",
    "broken": "hardware down",
    "unobserved": "unknown",
    "unexplained": "unknown",
    "communicating": "good",
    "throttled": "good",
    "underused": "good",
    "productive": "good",
}
_UNKNOWN_MOST = 0.5  # with more than half of the time unknown the rest says little
_UNASKED = "its submission time is not reported"


@dataclass(frozen=True, slots=True)
class Spent:
    """GPU milliseconds that a run held in one state and cause, and what they cost in millionths (None: no price)."""

    state: str
    cause: str | None
    milliseconds: int
    cost_micros: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a run, in microseconds UTC. `worked_at` is when the last of its GPUs first worked; None: never."""

    number: int
    started_at: int | None
    worked_at: int | None
    ended_at: int | None
    exit_status: str | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Life:
    """From when to when a run was, in microseconds UTC, and with how many GPUs.

    `until` is its end, or up to when it is known while it runs; `known_from` is the ledger's first hour of it.
    """

    gpus: int
    submitted_at: int | None
    started_at: int | None
    known_from: int
    until: int

    @property
    def hidden(self) -> str | None:
        """Why the time before it worked is not known; None where it is."""
        if self.submitted_at is None:
            return _UNASKED
        if self.started_at is None or self.started_at < self.known_from:
            return "it began before the ledger does"
        return None


@dataclass(frozen=True, slots=True)
class Loss:
    """One kind of badput and its share of the run's GPU time, 0 to 1."""

    kind: _Badput
    ratio: float


@dataclass(frozen=True, slots=True)
class Goodput:
    """Goodput (Google) and ETTR (Meta) as ratios, and the two times that Meta's definition is made of, in seconds.

    `unknown_ratio` is the share of its GPU time that was not measured or not explained.
    """

    goodput: Figure
    badput: tuple[Loss, ...]
    unknown_ratio: float
    ettr: Figure
    time_to_start_seconds: Figure
    time_to_recover_seconds: Figure


def kind_of(state: str, cause: str | None) -> GoodputClass:
    """Return what a state of the ledger is in terms of goodput; a KeyError is our own mistake."""
    return _KINDS.get((state, cause)) or _BY_STATE[state]


def goodput(spent: Iterable[Spent], attempts: Sequence[Attempt], life: Life) -> Goodput:
    """Return a run's goodput."""
    sums: dict[GoodputClass, int] = {}
    for row in spent:
        kind = kind_of(row.state, row.cause)
        sums[kind] = sums.get(kind, 0) + row.milliseconds
    whole = sum(sums.values())
    unknown = sums.get("unknown", 0)
    times = _time_to_start(attempts, life), _time_to_recover(attempts)
    if not whole or unknown > _UNKNOWN_MOST * whole:
        why = "more than half of its time is not measured or not explained"
        return Goodput(withheld(why), (), unknown / whole if whole else 1.0, withheld(why), *times)
    good = sums.get("good", 0)
    return Goodput(Figure(good / whole), _losses(sums, whole), unknown / whole, _ettr(good, whole, life), *times)


def _losses(sums: Mapping[GoodputClass, int], whole: int) -> tuple[Loss, ...]:
    bad = [(kind, ms) for kind, ms in sums.items() if kind not in ("good", "unknown") and ms]
    return tuple(Loss(kind, ms / whole) for kind, ms in sorted(bad, key=lambda item: (-item[1], item[0])))  # type: ignore[arg-type]


def _ettr(good_ms: int, whole_ms: int, life: Life) -> Figure:
    """Return productive time over the time from submission to the end, queues between attempts included."""
    if life.submitted_at is None or life.hidden is not None:
        return withheld(life.hidden or _UNASKED)
    wall_ms = life.gpus * (life.until - life.submitted_at) // MILLISECOND_US
    if wall_ms < whole_ms:
        return withheld("it held more GPU time than its GPUs times its duration: its size changed")
    return Figure(good_ms / wall_ms)


def _time_to_start(attempts: Sequence[Attempt], life: Life) -> Figure:
    if life.submitted_at is None or life.hidden is not None:
        return withheld(life.hidden or _UNASKED)
    first = min(attempts, key=lambda attempt: attempt.number, default=None)
    if first is None or first.worked_at is None:
        return withheld("its first attempt was never observed working")
    return Figure(max(0, first.worked_at - life.submitted_at) / 1_000_000)


def _time_to_recover(attempts: Sequence[Attempt]) -> Figure:
    """Return the median of the times from the end of an attempt to the first work of the next."""
    ordered = sorted(attempts, key=lambda attempt: attempt.number)
    times = [
        after.worked_at - before.ended_at
        for before, after in pairwise(ordered)
        if before.ended_at is not None and after.worked_at is not None and after.worked_at >= before.ended_at
    ]
    if len(ordered) < 2:
        return withheld("it never had to restart")
    if not times:
        return withheld("no later attempt was observed working")
    return Figure(sorted(times)[(len(times) - 1) // 2] / 1_000_000)


_FLOP_PER_PARAMETER_AND_TOKEN = 6
# Of a mixture of experts those that a token meets count; nothing is guessed from a model's name.
_PARAMETER_LABELS = ("active_params", "params", "model_params")
_PRECISION_LABELS = ("precision", "dtype")
_SIXTEEN_BITS = frozenset({"bf16", "bfloat16", "fp16", "float16", "half", "bf16-mixed", "16-mixed"})
_COUNT = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*(?:([kmbt])|e(\d{1,2}))?")
_LETTERS = {"k": 3, "m": 6, "b": 9, "t": 12}
_FEWEST, _MOST = 10**5, 10**14  # parameters; what lies beyond is a slip of the pen


def peak_of(sku: str | None, power_limit_watts: float | None) -> Board | str:
    """Return what GPUs of a SKU do at most in BF16, or why that is not known."""
    if sku is None:
        return "its GPUs are not of a single known model"
    board = board_of(sku)
    if board is None or not board.has_bf16:
        return f"the table has no 16-bit peak for {sku}"
    if board.above_watts is not None and (power_limit_watts is None or power_limit_watts <= board.above_watts):
        seen = "an unknown power limit" if power_limit_watts is None else f"a power limit of {power_limit_watts:g} W"
        return f"boards of {sku} differ, and {seen} does not show which these are"
    return board


def parameters(labels: Mapping[str, str]) -> int | str:
    """Return how many parameters a run's labels say that its model has, or why that is not known."""
    for name in _PARAMETER_LABELS:
        if name in labels:
            return (
                parameter_count(labels[name])
                or f"its label {name} says {labels[name][:24]!r}, and not a number such as 7b"
            )
    return "its parameters are not known: label params, such as 7b"


def parameter_count(text: str) -> int | None:
    """Return how many parameters a text says: 7b, 1.3e9, 6738415616; None where it says none, or not so many."""
    match = _COUNT.fullmatch(text.strip().lower().replace("_", "").replace(",", ""))
    if match is None:
        # A plain count of any length: 6738415616.
        plain = text.strip().replace("_", "").replace(",", "")
        number = int(plain) if plain.isdecimal() and len(plain) <= 15 else 0
    else:
        exponent = _LETTERS[match[2]] if match[2] else int(match[3] or 0)
        number = round(float(match[1]) * 10**exponent)
    return number if _FEWEST <= number <= _MOST else None


def mfu(
    labels: Mapping[str, str],
    tokens_per_second: Figure,
    gpus: int,
    sku: str | None,
    power_limit_watts: float | None,
) -> Figure:
    """Return the share of the GPUs' peak that the model's arithmetic took while the run worked; 0 to 1."""
    if tokens_per_second.value is None:
        return tokens_per_second
    count = parameters(labels)
    if isinstance(count, str):
        return withheld(count)
    precision = next((labels[name].lower() for name in _PRECISION_LABELS if name in labels), "bf16")
    if precision not in _SIXTEEN_BITS:
        return withheld(f"peaks are known for 16 bits only, and its precision is {precision[:24]!r}")
    peak = peak_of(sku, power_limit_watts)
    if isinstance(peak, str):
        return withheld(peak)
    share = _FLOP_PER_PARAMETER_AND_TOKEN * count * tokens_per_second.value / (gpus * peak.flops)
    if share > 1:
        return withheld(f"it would be {share:.0%}: its parameters or its tokens are mislabeled")
    return Figure(share)


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
        gone = f"the samples of {runs} of its kind, which report no steps, are no longer kept"
    usable = [peer for peer in peers if peer.working_us > 0 and peer.gpus > 0]
    rated = [peer for peer in usable if any(peer.amounts.get(unit) for unit in _UNITS)]
    if not rated:
        return Scaling(None, (), gone or "no run of its kind reports tokens, samples or steps")
    for unit in _UNITS if is_batch_known else _UNITS[:2]:
        counted = [peer for peer in rated if peer.amounts.get(unit)]
        if len({peer.gpus for peer in counted}) > 1:
            return Scaling(unit, _table(counted, unit), gone)
    if len({peer.gpus for peer in rated}) > 1:
        return Scaling(None, (), "runs of several sizes report steps alone: label global_batch, or report tokens")
    return Scaling(None, (), f"only one size observed; {gone}" if gone else "only one size observed")


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
