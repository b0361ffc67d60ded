"""What the fleet has free of one kind, what an hour of it costs, and what the team had before: each with its source."""

from dataclasses import dataclass, replace

from agent.wire.units import HOUR_MS
from analyzer.capacity.gate.decided import Rate
from analyzer.capacity.gate.references import Names
from analyzer.capacity.gate.request import Request
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.text.rounding import nearest


@dataclass(frozen=True, slots=True)
class FreeGpus:
    """GPUs of the asked kind that nobody held on the day with the fewest of them."""

    gpus: int
    day: str  # ISO date


@dataclass(frozen=True, slots=True)
class History:
    """What a team did before: its GPU milliseconds in the days that the policy looks back, and its earlier pilots.

    `pilots` None is not looked up: without a registry nobody knows. They are counted from `since_us` on.
    """

    milliseconds: int
    pilots: int | None
    told: str
    since_us: int = 0


@dataclass(frozen=True, slots=True)
class Supply:
    """What a request is priced and compared with. None is unknown, and the decision then says so."""

    free: FreeGpus | None = None
    rate: Rate | None = None
    history: History | None = None
    names: Names | None = None


def completed(known: Supply, request: Request, profile: CapacityProfile | None) -> Supply:
    """Return the site's price, else the profile's; the profile's free GPUs, which its page shows, else the site's."""
    if profile is None:
        return known
    return replace(known, free=_free(request, profile) or known.free, rate=known.rate or _rate(request, profile))


def _free(request: Request, profile: CapacityProfile) -> FreeGpus | None:
    told = [each for each in profile.free if each.sku == request.sku]
    return FreeGpus(max(0, told[0].lowest_gpus), told[0].lowest_day) if len(told) == 1 else None


def _rate(request: Request, profile: CapacityProfile) -> Rate | None:
    """Return what the profile's own runs on this kind cost an hour, else what it says of the kind as another choice."""
    paid = [(run.micros, run.milliseconds) for run in profile.runs if run.sku == request.sku and run.milliseconds > 0]
    if paid and all(micros is not None for micros, _ in paid):
        micros, milliseconds = sum(micros or 0 for micros, _ in paid), sum(each for _, each in paid)
        return Rate(nearest(micros * HOUR_MS, milliseconds), "by the profile", profile.currency)
    for each in profile.alternatives:
        if each.sku == request.sku and each.micros_per_gpu_hour is not None:
            return Rate(each.micros_per_gpu_hour, "by the profile", profile.currency)
    return None
