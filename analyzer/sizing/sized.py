"""A model, sized: its memory, the GPUs that hold it and their prices, and what runs like it took. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from analyzer.sizing.fitting import Fit, GpuRequest, Misfit, fitting_offers
from analyzer.sizing.kinds import GpuKind
from analyzer.sizing.memory import Memory, memory
from analyzer.sizing.model import Model
from analyzer.sizing.sharding import Sharding, sharding_of
from analyzer.sizing.similar import PastRun, Similar, similar
from analyzer.sizing.work import Work


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


def sized(
    model: Model,
    work: Work,
    kinds: Sequence[GpuKind],
    asked: GpuRequest,
    currency: str = "USD",
    past: Past | None = None,
) -> Sized:
    """Return all that is known of a model's size.

    Raises:
        ConfigError: what was asked for divides neither the GPUs nor the model.
    """
    fits, misfits = fitting_offers(model, work, kinds, asked)
    named = sharding_of(asked.sharding, asked.gpus) if asked.sharding and asked.gpus else Sharding()
    known = similar(past.runs, model, work, fits, kinds, past.like) if past else None
    needed = memory(model, work, named)
    return Sized(model, work, needed, tuple(fits), tuple(misfits), currency, known, past is not None)
