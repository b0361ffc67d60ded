"""Who holds which GPU, as several witnesses tell it, put together in one pure function."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

from agent.attribution.run import Attribution, Authority
from agent.wire.tables import HOST_AUTHORITIES

# DESIGN, invariant 4: the word of a scheduler before its cgroup, before what a run says itself, before nobody's.
PRECEDENCE: tuple[Authority, ...] = HOST_AUTHORITIES
_MEMBERS_MAX = 8  # of one run on one GPU that are named

T = TypeVar("T")

_RunOnGpu = tuple[str, str]  # run id and the GPU's UUID


@dataclass(frozen=True, slots=True)
class GpuHold:
    """A run holds a GPU. `fraction` is the part of the GPU that was asked for, where it is shared and known."""

    gpu_uuid: str
    attribution: Attribution
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class ProviderReport:
    """What one witness says: who holds what, and which of its names stand for which runs."""

    held: tuple[GpuHold, ...] = ()
    names: Mapping[str, "Meant"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Meant:
    """The run that a name stands for, and the part of the run where the name is that of a part."""

    run_id: str
    member: str | None = None


def combined(providers: Iterable[GpuHold], names: Mapping[str, str]) -> dict[_RunOnGpu, GpuHold]:
    """Return every run that holds a GPU, once, with all that is known of it.

    `names` are other names of runs: both are then one run. Where several tell of one run on one GPU, what the highest
    authority says stands and the others fill its gaps. Runs of different names stay side by side, each with its
    authority: who of them counts is decided where all hosts and schedulers are seen together.
    """
    found: dict[_RunOnGpu, list[GpuHold]] = {}
    for one in providers:
        run_id = names.get(one.attribution.run_id, one.attribution.run_id)
        found.setdefault((run_id, one.gpu_uuid), []).append(one)
    return {key: _merged(key, held) for key, held in found.items()}


def _merged(key: _RunOnGpu, providers: list[GpuHold]) -> GpuHold:
    """Return what all of them say of one run on one GPU; their order decides nothing."""
    ranked = sorted(providers, key=lambda held: PRECEDENCE.index(held.attribution.scheduler))
    said = [held.attribution for held in ranked]
    labels = sorted((one.labels for one in said), key=lambda labels: sorted(labels.items()))
    run_id, gpu_uuid = key
    return GpuHold(
        gpu_uuid=gpu_uuid,
        attribution=Attribution(
            run_id=run_id,
            scheduler=said[0].scheduler,
            attempt=max((one.attempt for one in said if one.attempt is not None), default=None),
            owner=min(_highest(ranked, lambda held: held.attribution.owner), default=None),
            member=", ".join(sorted({*_highest(ranked, lambda held: held.attribution.member)})[:_MEMBERS_MAX]) or None,
            rank=min((one.rank for one in said if one.rank is not None), default=None),
            labels={name: value for each in labels for name, value in each.items()},
        ),
        # Two containers of one pod may each have a part.
        fraction=min(1.0, math.fsum(parts)) if (parts := _highest(ranked, lambda held: held.fraction)) else None,
    )


def _highest(ranked: Iterable[GpuHold], of: Callable[[GpuHold], T | None]) -> list[T]:
    """Return what is said by the highest authority that says anything; more where several of its kind do."""
    for _, equals in groupby(ranked, key=lambda held: held.attribution.scheduler):
        if known := [value for held in equals if (value := of(held)) is not None]:
            return known
    return []
