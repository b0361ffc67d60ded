"""The other offer, in integers: how many GPUs the work needs once the fix is made, and what they cost.

GPUs needed in all   today's GPUs x growth / speed after the fix, rounded up to whole hosts
more                 what is beyond today's GPUs
to buy               what is beyond the GPUs that stood free on the day with the fewest
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.wire.units import HOUR_US, PERMILLE
from analyzer.capacity.gate.decided import InTime, Need, Offer, Option, Verdict
from analyzer.capacity.gate.request import Request
from analyzer.capacity.gate.supply import Supply, Work
from analyzer.capacity.profile.facts import CapacityProfile, OpenAdvice, Represented
from analyzer.text.words import nearest, plain_sentence

_PASTE_MOST = 60

# By kind of recommendation: what is to be done first, and how it is told once it is done.
_WORDS = {
    "more_cpu": ("Fix the loader", "With the loader fixed"),
    "loader_settings": ("Fix the loader", "With the loader fixed"),
    "cache_input": ("Cache the input", "With the input cached"),
    "local_nvme": ("Read from local disks", "With its input on local disks"),
    "reorder_ranks": ("Order the ranks by rack", "With the ranks ordered by rack"),
    "co_locate": ("Place each run in one rack", "With each run in one rack"),
    "release": ("Give back what stands idle", "With the idle GPUs given back"),
    "right_size": ("Ask for what the runs use", "With runs of the right size"),
    "checkpoint": ("Fix the checkpoints", "With the checkpoints fixed"),
    "share_mig": ("Share GPUs as slices", "With GPUs shared as slices"),
    "share_time": ("Share GPUs", "With GPUs shared"),
    "pack": ("Put several runs on a GPU", "With several runs on a GPU"),
    "batch": ("Batch the requests", "With requests batched"),
    "fewer_replicas": ("Keep fewer replicas", "With fewer replicas"),
    "mixed_precision": ("Use mixed precision", "With mixed precision"),
    "raise_power_limit": ("Raise the power limit", "With the power limit raised"),
}
INPUT_KINDS = frozenset({"more_cpu", "loader_settings", "cache_input", "local_nvme"})


@dataclass(frozen=True, slots=True)
class Fix:
    """One recommendation as the first thing to do. `hours_to_prove` is one run of the work at its new speed."""

    advice: OpenAdvice
    todo: str
    done: str
    name: str
    hours_to_prove: int | None

    @property
    def in_short(self) -> str:
        """The recommendation and its line: "r-3mx8 (num_workers=8)"."""
        line = plain_sentence(self.advice.paste or self.advice.title)
        line = line if len(line) <= _PASTE_MOST else f"{line[: _PASTE_MOST - 3]}..."
        return f"{plain_sentence(self.advice.id)} ({line})"


def advice_for(work: Sequence[Represented], profile: CapacityProfile) -> tuple[OpenAdvice, ...]:
    """Return the open recommendations but those for other runs of the profile: they make this work no faster."""
    own = {run.name for run in work}
    others = {run.name for run in profile.runs} - own
    return tuple(one for one in profile.advice if own & {*one.run_names} or not others & {*one.run_names})


def fix_of(work: Sequence[Represented], profile: CapacityProfile) -> Fix | None:
    """Return the open recommendation that makes the work fastest (P50), None where none makes it faster."""
    faster = [one for one in advice_for(work, profile) if one.speedup_permille.p50 > PERMILLE]
    if not faster:
        return None
    best = max(faster, key=lambda one: (one.speedup_permille.p50, one.frees.p50, one.id))
    todo, done = _WORDS.get(best.kind, (f"Apply {plain_sentence(best.id)}", f"With {plain_sentence(best.id)} applied"))
    newest = _newest(profile, best)
    name = plain_sentence(newest.name or newest.run_id) if newest else "the work"
    return Fix(best, todo, done, name, _hours(newest, best))


def _newest(profile: CapacityProfile, advice: OpenAdvice) -> Represented | None:
    own = [run for run in profile.runs if run.name in advice.run_names] or list(profile.runs)
    return max(own, key=lambda run: (run.started_at, run.run_id), default=None)


def _hours(run: Represented | None, advice: OpenAdvice) -> int | None:
    """Return how long such a run takes afterwards, in whole hours, begun ones not counted under the half."""
    if run is None or run.ended_at is None or run.ended_at <= run.started_at:
        return None
    faster = (run.ended_at - run.started_at) * PERMILLE
    return max(1, (2 * faster + advice.speedup_permille.p50 * HOUR_US) // (2 * advice.speedup_permille.p50 * HOUR_US))


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


_LETTERS = "ABCD"


@dataclass(frozen=True, slots=True)
class Loss:
    """The largest avoidable part of the work's GPU time, in thousandths of all of it: "waits" for input."""

    permille: int
    verb: str


def options_of(
    request: Request, supply: Supply, offer: Offer | None, grown: Need | None, loss: Loss | None, verdict: Verdict
) -> tuple[Option, ...]:
    """Return the choices; what is less than was asked stands beside it: after the fix, else as the growth says.

    `grown` is what the growth takes at today's speed, None where nobody said it.
    """
    rate = supply.rate.micros_per_gpu_hour if supply.rate else None
    asked = Need(
        speedup_permille=1000,
        needed_tenths=0,
        gpus=0,
        more=request.gpus,
        to_buy=None if supply.free is None else max(0, request.gpus - supply.free.gpus),
        micros=price_of(request.gpus, request.hours, rate),
        less_micros=0,
    )
    lost = f"{(loss.permille + 5) // 10}% {loss.verb}" if loss is not None and loss.permille >= 10 else "stand unused"
    fixes = [] if offer is None else _fixes(request, offer)
    if not fixes and grown is not None and grown.more < request.gpus:
        fixes = [_option(f"approve {grown.more}, as it grows", grown, "yes", "ask again")]
    is_fix_advised = verdict != "PASS" and bool(fixes)
    made = [_option("approve as asked", asked, "yes", lost, advised=verdict == "PASS" and not is_fix_advised), *fixes]
    if is_fix_advised:
        made[1] = replace(made[1], advised=True)
    nothing = Option("", "approve nothing", 0, 0, 0 if rate is not None else None, "no", "it comes late", False)
    return tuple(replace(option, letter=letter) for letter, option in zip(_LETTERS, [*made, nothing], strict=False))


def _fixes(request: Request, offer: Offer) -> list[Option]:
    likely, careful = offer.likely, offer.careful
    if likely.more >= request.gpus:
        return []
    between = careful.more - likely.more
    later = f"{between} more later" if between else "ask again"
    then = f"fix first, then {likely.more}" if likely.more else "fix first, no more GPUs"
    made = [_option(then, likely, "likely", later)]
    if between and careful.more < request.gpus:
        made.append(_option(f"fix first, then {careful.more}", careful, "yes", f"{between} too many"))
    return made


def _option(what: str, need: Need, in_time: InTime, if_wrong: str, *, advised: bool = False) -> Option:
    return Option("", what, need.more, need.to_buy, need.micros, in_time, if_wrong, advised)
