"""The other offer, in integers: how many GPUs the work needs once the fix is made, and what they cost.

GPUs needed in all   today's GPUs x growth / speed after the fix, rounded up to whole hosts
more                 what is beyond today's GPUs
to buy               what is beyond the GPUs that stood free on the day with the fewest
"""

from dataclasses import dataclass

from agent.wire.units import PERMILLE
from analyzer.capacity.gate.decided import Need, Offer
from analyzer.capacity.gate.fix import Fix
from analyzer.capacity.gate.request import Request
from analyzer.capacity.gate.supply import Supply
from analyzer.capacity.gate.work import Work
from analyzer.text.rounding import nearest

_TENTHS = 10


@dataclass(frozen=True, slots=True)
class WantedWork:
    """What the GPUs are for: today's GPUs of that work, and how many times as much is to be done."""

    today_gpus: int
    growth_permille: int


def asked_of(request: Request, work: Work, until_us: int) -> WantedWork | None:
    """Return today's GPUs and the growth, as the request says them or as they follow; None where nobody can say.

    `until_us` is the end of the profile, to which runs that go on are counted.

    Without a word on growth the request itself is the word: so many more GPUs for so much more work.
    """
    today = request.today_gpus or held_at_once(request, work, until_us)
    if not today:
        return None
    growth = request.growth_permille
    return WantedWork(today, growth if growth is not None else nearest((today + request.gpus) * PERMILLE, today))


def held_at_once(request: Request, work: Work, until_us: int) -> int | None:
    """Return how many GPUs of the asked kind the runs of this work held, on average over the time that any of them ran.

    None where no run is on that kind: an hour of another kind of GPU is other work.
    """
    own = [run for run in work.runs if run.sku == request.sku]
    ends = [(run.started_at, until_us if run.ended_at is None else run.ended_at, run.gpus) for run in own]
    spans = [(start, end, gpus) for start, end, gpus in ends if end > start]
    if not spans:
        return None
    held = sum((end - start) * gpus for start, end, gpus in spans)
    covered, until = 0, min(start for start, _, _ in spans)
    for start, end, _ in sorted(spans):
        covered += max(0, end - max(start, until))
        until = max(until, end)
    return max(1, nearest(held, covered))


def price_of(gpus: int, hours: int, micros_per_gpu_hour: int | None) -> int | None:
    """Return what so many GPUs cost for so long, None where nobody has said a price."""
    return None if micros_per_gpu_hour is None else gpus * hours * micros_per_gpu_hour


def need_of(request: Request, asked: WantedWork, speedup_permille: int, step: int, supply: Supply) -> Need:
    """Return what is needed at one speed."""
    work = asked.today_gpus * asked.growth_permille  # in thousandths of a GPU at today's speed
    gpus = step * _up(work, speedup_permille * step)
    more = max(0, gpus - asked.today_gpus)
    rate = supply.rate.micros_per_gpu_hour if supply.rate else None
    micros, whole = price_of(more, request.hours, rate), price_of(request.gpus, request.hours, rate)
    return Need(
        speedup_permille=speedup_permille,
        needed_tenths=_up(work * _TENTHS, speedup_permille),
        gpus=gpus,
        more=more,
        to_buy=None if supply.free is None else max(0, more - supply.free.gpus),
        micros=micros,
        less_micros=None if micros is None or whole is None else whole - micros,
    )


def offer_of(request: Request, asked: WantedWork | None, fix: Fix | None, step: int, supply: Supply) -> Offer | None:
    """Return the other offer; None without a fix, or where today's GPUs are not known."""
    if asked is None or fix is None:
        return None
    speed = fix.advice.speedup_permille
    careful = max(PERMILLE, min(speed.p20, speed.p50))  # what is likely to help does not slow down
    return Offer(
        advice_id=fix.advice.id,
        what=fix.in_short,
        fix=fix.todo,
        fixed=fix.done,
        hours_to_prove=fix.hours_to_prove,
        today_gpus=asked.today_gpus,
        growth_permille=asked.growth_permille,
        likely=need_of(request, asked, speed.p50, step, supply),
        careful=need_of(request, asked, careful, step, supply),
        free_gpus=supply.free.gpus if supply.free else None,
        free_day=supply.free.day if supply.free else None,
    )


def spared(request: Request, offer: Offer, step: int) -> int:
    """Return by how many GPUs the fix makes a request smaller, for the work that all GPUs would do without it.

    Of the request's own numbers alone: a growth that is told too large would else make every fix look worthless.
    """
    whole = offer.today_gpus + request.gpus
    after = step * _up(whole * PERMILLE, offer.likely.speedup_permille * step)
    return max(0, request.gpus - max(0, after - offer.today_gpus))


def _up(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
