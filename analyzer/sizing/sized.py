"""A model, sized: its memory, the GPUs that hold it and their prices, and what runs like it took. Pure.

What runs like it took: of the same model, else near in memory and GPUs. A gauge says what was set aside: for training
that is close to what is needed, for servers it is what they were told to take. So the formula is held against runs that
trained, and against services only as "not more than".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.wire.units import DAY_US
from analyzer.queries.statements import statements
from analyzer.sizing.fitting import Fit, GpuKind, GpuRequest, Misfit, fitting_offers, usual_ways
from analyzer.sizing.memory import Memory, memory
from analyzer.sizing.model import Model, plain_name
from analyzer.sizing.throughput import Paced, Traffic, TrainingRun, paced
from analyzer.sizing.work import Sharding, Work, sharding_of
from analyzer.text.as_json import WHOLE
from collector.store.session import Session

LOOK_BACK_DAYS = 90
_NEAR_PERCENT = 25  # ours: how far memory in use may lie from the estimate
_NEAR_TIMES = 2  # and the number of GPUs
_LEAST_RUNS = 5  # of fewer no tenth is told, only the least and the most
_TUNING, _SERVING = "fine-tuning", "serving"
_TRAINING = frozenset({"training", "pretraining", "alignment", _TUNING})


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run of the ledger. `peak_bytes` is the most memory in use on one of its GPUs; None: not measured."""

    __pydantic_config__ = WHOLE
    run_id: str
    name: str | None
    model: str | None
    stage: str | None
    sku: str
    gpus: int
    seconds: int
    micros: int | None
    is_open: bool
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """How amounts are spread: the value that a tenth, half, nine tenths are not above. `is_range`: least and most."""

    p10: int
    p50: int
    p90: int
    count: int
    is_range: bool


@dataclass(frozen=True, slots=True)
class Check:
    """The formula held against runs: the most memory seen on a GPU, and the estimate for as many GPUs of that kind.

    `says_need` is False of services: what they set aside is what they were told to.
    """

    sku: str
    gpus: int
    seen_bytes: int
    estimate_bytes: int
    sharding: str
    says_need: bool


@dataclass(frozen=True, slots=True)
class OfKind:
    """What runs on so many GPUs of one kind cost and took."""

    sku: str
    gpus: int
    runs: int
    micros: Spread | None
    micros_per_hour: Spread | None
    seconds: Spread | None


@dataclass(frozen=True, slots=True)
class Similar:
    """Runs like it, how they were found, and what they say.

    The spreads are None where the runs were on several kinds or numbers of GPUs: `of_kinds` has one of each.
    """

    by: str
    runs: tuple[PastRun, ...]
    micros: Spread | None
    micros_per_hour: Spread | None
    seconds: Spread | None
    check: Check | None
    of_kinds: tuple[OfKind, ...] = ()


def read_past(session: Session, end_us: int, peaks: Mapping[str, int]) -> list[PastRun]:
    """Return the runs that ended in the days before, and services; `peaks` is the most memory in use, by run."""
    (query,) = statements("sizing/runs.sql")
    rows = session.rows(query, {"start": end_us - LOOK_BACK_DAYS * DAY_US, "end": end_us})
    return [replace(PastRun(*row), peak_bytes=peaks.get(row[0])) for row in rows]


def similar(
    past: Sequence[PastRun], model: Model, work: Work, fits: Sequence[Fit], kinds: Sequence[GpuKind], like: str | None
) -> Similar | None:
    """Return what is known of runs like it; None where there are none. `like` is the ledger's name of the model."""
    wanted = [run for run in past if _is_kind_of_work(run, work)]
    names = {plain_name(like)} if like else model.names
    own = [run for run in wanted if run.model is not None and plain_name(run.model) in names]
    if own:
        return _told(f"of the model {like or model.name}", own, model, work, kinds)
    near = [run for run in wanted if any(_is_near(run, fit) for fit in fits)]
    return _told("near in memory and GPUs", near, model, work, kinds) if near and not like else None


def quantiles(amounts: Sequence[int]) -> Spread | None:
    """Return tenth, half and nine tenths (nearest rank) of amounts; of few the least and the most."""
    if not amounts:
        return None
    ordered = sorted(amounts)
    few = len(ordered) < _LEAST_RUNS

    def at(percent: int) -> int:
        return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]

    return Spread(ordered[0] if few else at(10), at(50), ordered[-1] if few else at(90), len(ordered), few)


def _told(by: str, runs: Sequence[PastRun], model: Model, work: Work, kinds: Sequence[GpuKind]) -> Similar:
    checked = None if "near" in by else _check(runs, model, work, kinds)
    by_kind: dict[tuple[str, int], list[PastRun]] = {}
    for run in runs:
        by_kind.setdefault((run.sku, run.gpus), []).append(run)
    told = tuple(_of_kind(sku, gpus, by_kind[sku, gpus]) for sku, gpus in sorted(by_kind))
    if len(told) > 1:  # what one kind took, another takes in another time for another price
        return Similar(by, tuple(runs), None, None, None, checked, told)
    return Similar(by, tuple(runs), told[0].micros, told[0].micros_per_hour, told[0].seconds, checked, told)


def _of_kind(sku: str, gpus: int, runs: Sequence[PastRun]) -> OfKind:
    whole = [run for run in runs if not run.is_open]
    costs = [run.micros for run in whole if run.micros is not None]
    hourly = [run.micros * 3600 // run.seconds for run in runs if run.micros is not None and run.seconds > 0]
    return OfKind(sku, gpus, len(runs), quantiles(costs), quantiles(hourly), quantiles([run.seconds for run in whole]))


def _is_kind_of_work(run: PastRun, work: Work) -> bool:
    """Say whether a run did such work, as far as its stage tells: a run of LoRA and one of all weights look alike."""
    if work.purpose == "inference":
        return run.stage == _SERVING
    return run.stage in _TRAINING


def _is_near(run: PastRun, fit: Fit) -> bool:
    if run.sku != fit.kind.sku or run.peak_bytes is None:
        return False
    if not fit.gpus <= run.gpus * _NEAR_TIMES or not run.gpus <= fit.gpus * _NEAR_TIMES:
        return False
    estimate = fit.memory.total_bytes
    return abs(run.peak_bytes - estimate) * 100 <= _NEAR_PERCENT * estimate


def _check(runs: Sequence[PastRun], model: Model, work: Work, kinds: Sequence[GpuKind]) -> Check | None:
    """Hold the estimate against the run that used most of a GPU; spread as would fit there, else as needs least."""
    measured = [run for run in runs if run.peak_bytes is not None]
    if not measured or model.shape is None:
        return None
    fullest = max(measured, key=lambda run: run.peak_bytes or 0)
    kind = next((kind for kind in kinds if kind.sku == fullest.sku), None)
    ways = list(usual_ways(work, fullest.gpus, kind.gpus_a_node if kind else fullest.gpus))
    needed = [memory(model, work, way) for way in ways]
    there = kind.memory_bytes if kind and kind.memory_bytes else 0
    chosen = next((one for one in needed if one.total_bytes <= there), min(needed, key=lambda one: one.total_bytes))
    return Check(
        fullest.sku,
        fullest.gpus,
        fullest.peak_bytes or 0,
        chosen.total_bytes,
        chosen.sharding.told,
        work.is_training,
    )


@dataclass(frozen=True, slots=True)
class Past:
    """What a ledger knows: its runs, and what it calls the model where that is another name."""

    runs: Sequence[PastRun]
    like: str | None = None


@dataclass(frozen=True, slots=True)
class Sized:
    """The answer. `memory` is that of each GPU as it was asked for, else of one GPU that holds all."""

    model: Model
    work: Work
    memory: Memory
    fits: tuple[Fit, ...]
    misfits: tuple[Misfit, ...]
    currency: str
    similar: Similar | None
    has_ledger: bool = field(default=False)
    asked: Traffic | TrainingRun | None = None
    paces: tuple[Paced, ...] = ()


def sized(
    model: Model,
    work: Work,
    kinds: Sequence[GpuKind],
    asked: GpuRequest,
    currency: str = "USD",
    past: Past | None = None,
    pace: Traffic | TrainingRun | None = None,
) -> Sized:
    """Return all that is known of a model's size.

    Raises:
        ConfigError: what was asked for divides neither the GPUs nor the model.
    """
    fits, misfits = fitting_offers(model, work, kinds, asked)
    named = sharding_of(asked.sharding, asked.gpus) if asked.sharding and asked.gpus else Sharding()
    known = similar(past.runs, model, work, fits, kinds, past.like) if past else None
    needed = memory(model, work, named)
    paces = paced(fits, model, work, pace) if pace is not None else ()
    return Sized(model, work, needed, tuple(fits), tuple(misfits), currency, known, past is not None, pace, paces)
