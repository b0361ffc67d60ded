"""The gates: on the evidence, on the work (all of the ledger, none of utilization), on what could be done instead."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from agent.wire.units import DAY_US, GIB, HOUR_MS, MILLISECOND_US, PERMILLE
from analyzer.capacity.gate.decided import Gate, Offer, Outcome
from analyzer.capacity.gate.offer import Fix, advice_for, spared
from analyzer.capacity.gate.policy import Policy, Rule
from analyzer.capacity.gate.request import Request
from analyzer.capacity.gate.supply import Supply, Work
from analyzer.capacity.profile.facts import Alternative, CapacityProfile, OpenAdvice, StateHours
from analyzer.capacity.profile.signature import ReadProfile
from analyzer.text.words import counted, decimal, gpu_hours, nearest, plain

_MOST_DECIMALS = 6


def at_least(part: int, whole: int, permille: int) -> bool:
    """Say whether a share is no less than a bar, exactly."""
    return part * PERMILLE >= permille * whole


def at_most(part: int, whole: int, permille: int) -> bool:
    """Say whether a share is no more than a bar, exactly."""
    return part * PERMILLE <= permille * whole


def _percent_text(part: int, whole: int, permille: int) -> str:
    """Return a share as percent, with as many decimals as it takes to stand on its own side of the bar: "49.96%"."""
    if whole <= 0:
        return "-"
    for decimals in range(1, _MOST_DECIMALS + 1):
        scale = 100 * 10**decimals
        shown, bar = nearest(part * scale, whole), permille * scale // PERMILLE
        exact = part * PERMILLE - permille * whole
        if (shown > bar) == (exact > 0) and (shown < bar) == (exact < 0):
            break
    return f"{decimal(shown, decimals)}%"


def _ratio_parts(ratio: float) -> tuple[int, int]:
    """Return a measured ratio as the integers of its shortest decimal, so that it compares as it reads."""
    exact = Decimal(str(ratio)).quantize(Decimal("0.000001"), rounding=ROUND_HALF_UP)
    return int(exact * 10**6), 10**6


@dataclass(frozen=True, slots=True)
class GateInput:
    """What is judged. `now_us` is microseconds UTC."""

    request: Request
    read: ReadProfile
    work: Work
    policy: Policy
    supply: Supply
    fix: Fix | None
    offer: Offer | None
    now_us: int

    @property
    def profile(self) -> CapacityProfile:
        """The profile's facts."""
        return self.read.profile

    @property
    def advice(self) -> tuple[OpenAdvice, ...]:
        """The open recommendations for the work that is asked for."""
        return advice_for(self.work.runs, self.profile)

    @property
    def sku(self) -> str:
        """The kind of GPU as it may be printed."""
        return plain(self.request.sku)

    @property
    def age_days(self) -> int:
        """Whole days since the last that was measured of this work; negative where the profile is of the future."""
        until = self.profile.until_us
        ends = [until if run.ended_at is None else min(run.ended_at, until) for run in self.work.runs]
        return (self.now_us - (until if until > self.now_us else max(ends))) // DAY_US

    @property
    def sizes(self) -> set[int]:
        """The sizes at which the work has run."""
        return {run.gpus for run in self.work.runs} | {each.gpus for each in self.profile.scaling}

    @property
    def is_scaling_of_others(self) -> bool:
        """Whether the speed at several sizes was measured of runs that are not of this work."""
        of = self.profile.scaling_of
        return of is not None and not any(of == run.name for run in self.work.runs)

    @property
    def is_beside_others(self) -> bool:
        """Whether runs that are not of this work held the kind of GPU that is asked for: its figures may be theirs."""
        own = {run.run_id for run in self.work.runs}
        return any(run.sku in (self.request.sku, None) for run in self.profile.runs if run.run_id not in own)

    @property
    def is_whole(self) -> bool:
        """Whether every run of the profile is of this work."""
        return len(self.work.runs) == len(self.profile.runs)

    @property
    def run_gpus(self) -> int | None:
        """How many GPUs a run is to have: as asked, else as the newest run of the work had."""
        if self.request.gpus_per_run is not None:
            return self.request.gpus_per_run
        newest = max(self.work.runs, key=lambda run: (run.started_at, run.run_id), default=None)
        return None if newest is None else newest.gpus


_STATES = {"edited": "edited", "unsigned": "nobody", "unknown_key": "unknown key"}


def gate(rule: Rule, label: str, outcome: Outcome, value: str, bar: str, why: str | None = None) -> Gate:
    """Return a gate as the policy has it."""
    return Gate(rule.name, label, outcome, value, bar, rule.need == "required", rule.waiver == "approver", why)


def passed(is_so: bool) -> Outcome:
    """Return PASS or FAIL."""
    return "PASS" if is_so else "FAIL"


def signed(rule: Rule, look: GateInput) -> Gate:
    """Judge whose word the profile is: an edit fails; a key that the policy does not know is not evaluated at all."""
    read, names = look.read, sorted({plain(key.name) for key in look.policy.keys})
    bar = ", ".join(names) or "no key named"
    label = "profile signed by"
    if read.page == "edited":
        return gate(rule, label, "FAIL", "page edited", bar, "the words of the page are not those that were signed")
    if read.valid:
        return gate(rule, label, "PASS", plain(read.signed_by or ""), bar)
    value = _STATES.get(read.state, read.state)
    if read.state == "unknown_key" and not names:
        why = f"the policy names no key; to trust this one, add [[key]] with the public key of {read.key_id}"
        return gate(rule, label, "N/E", value, bar, why)
    return gate(rule, label, "FAIL", value, bar, read.sentence)


def age(rule: Rule, look: GateInput) -> Gate:
    """Judge how long ago the last of it was measured; what is of the future is a clock that is wrong."""
    most, days = rule.number("days"), look.age_days
    value = counted(days, "day") if days >= 0 else "not over yet"
    return gate(rule, "profile age", passed(0 <= days <= most), value, f"{most} days at most")


def measured(rule: Rule, look: GateInput) -> Gate:
    """Judge how much of the runs' GPU time was measured."""
    part, whole = look.work.measured
    bar = f"{rule.number('percent')}% or more"
    value = _percent_text(part, whole, rule.permille)
    if look.work.milliseconds <= 0:
        return gate(rule, "time measured", "N/E", "no GPU time", bar, "the profile has no GPU time")
    return gate(rule, "time measured", passed(at_least(part, whole, rule.permille)), value, bar)


def runs(rule: Rule, look: GateInput) -> Gate:
    """Judge whether there is enough of it, of this team: so many runs, or so many GPU-hours."""
    own = look.work.runs
    count, milliseconds = len(own), sum(run.milliseconds for run in own)
    least, hours = rule.number("runs"), rule.number("gpu_hours")
    enough = count >= least or milliseconds >= hours * HOUR_MS
    decimals = 0 if milliseconds >= 100 * HOUR_MS else 1
    value, bar = f"{decimal(count, 0)}, {gpu_hours(milliseconds, decimals)}", f"{least}, or {hours} GPU-h"
    if not look.work.is_known:
        why = f"whose runs these are is not known: those of {plain(look.request.team)}, or of another team"
        return gate(rule, "runs, GPU-hours", "N/E", "whose is not known", bar, why)
    return gate(rule, "runs, GPU-hours", passed(enough), value, bar)


_FULL_PERCENT = 100
_NO_TIME = "the profile has no GPU time"


# Which share of the time a gate judges, what is booked so, and on which side of its bar it must be. Useful is what the
# ledger books so: a loop that only keeps a GPU busy is not.
_SHARES: dict[str, tuple[str, Callable[[StateHours], bool], Callable[[int, int, int], bool]]] = {
    "idle": ("idle allocation", lambda each: each.state == "held_idle", at_most),
    "waiting": ("input starvation", lambda each: each.state == "starved", at_most),
    "useful": ("useful", lambda each: each.klass == "useful", at_least),
}


def share(rule: Rule, look: GateInput) -> Gate:
    """Judge a share of the time that was measured; how much that is has a gate of its own."""
    label, which, is_kept = _SHARES[rule.name]
    bar = f"{rule.number('percent')}% or {'more' if is_kept is at_least else 'less'}"
    part, whole = look.work.of(which), look.work.measured_milliseconds
    if whole <= 0:
        is_dark = look.work.milliseconds > 0
        told = ("nothing measured", "none of it was measured") if is_dark else ("no GPU time", _NO_TIME)
        return gate(rule, label, "N/E", told[0], bar, told[1])
    return gate(
        rule, label, passed(is_kept(part, whole, rule.permille)), _percent_text(part, whole, rule.permille), bar
    )


def memory(rule: Rule, look: GateInput) -> Gate:
    """Judge whether the work needs this kind's memory, or a smaller choice has at least been priced.

    The peak is that of all runs of the profile on this kind: more than enough where it is low, but no proof where it is
    high, if other work ran there too.
    """
    sku, label = look.request.sku, "memory peak"
    percent = rule.number("percent")
    bar = "over half" if percent == _FULL_PERCENT // 2 else f"over {percent}%"
    told = next((each for each in look.profile.memory if each.sku == sku), None)
    if told is None or not told.total_bytes:
        why = f"no run of the profile was on {look.sku}" if told is None else f"how much {look.sku} has is not known"
        return gate(rule, label, "N/E", "not known", bar, why)
    value = f"{decimal(nearest(told.peak_bytes, GIB), 0)} of {decimal(nearest(told.total_bytes, GIB), 0)} GiB"
    if told.peak_bytes * 1000 > rule.permille * told.total_bytes:
        if look.is_beside_others:
            why = f"the peak is that of all runs of the profile on {look.sku}, and some of them are other work"
            return gate(rule, label, "N/E", "of other work too", bar, why)
        return gate(rule, label, "PASS", value, bar)
    is_priced = any(each.micros_per_gpu_hour is not None for each in look.profile.alternatives if each.sku != sku)
    return gate(rule, label, passed(is_priced), value, f"{bar}, or priced")


def scaling(rule: Rule, look: GateInput) -> Gate:
    """Judge the efficiency at the size that runs are to have, against the smallest size that was measured."""
    size, percent = look.run_gpus, rule.number("percent")
    bar = f"{percent}% or more"
    if size is None:
        return gate(
            rule, "scaling", "N/E", "size not known", bar, "the request has no gpus_per_run, the profile no run"
        )
    label = f"scaling at {size} GPU{'' if size == 1 else 's'} per run"
    if size == 1:
        return gate(rule, label, "PASS", "nothing to scale", bar)
    if look.is_scaling_of_others:
        why = f"the speed at several sizes was measured of {plain(look.profile.scaling_of or '')}, which is other work"
        return gate(rule, label, "N/E", "of other work", bar, why)
    told = next((each for each in look.profile.scaling if each.gpus == size), None)
    if told is None or not any(each.gpus < size for each in look.profile.scaling):
        seen = ", ".join(str(gpus) for gpus in sorted({each.gpus for each in look.profile.scaling})) or "none"
        value = "one size seen" if size in look.sizes else f"not at {size}"
        return gate(rule, label, "N/E", value, bar, f"sizes at which the work's speed was measured: {seen}")
    part, whole = _ratio_parts(told.efficiency_ratio)
    value = f"{decimal(nearest(part * _FULL_PERCENT, whole), 0)}%"
    exact = at_least(part, whole, rule.permille)
    if at_least(nearest(part * _FULL_PERCENT, whole), _FULL_PERCENT, rule.permille) != exact:
        value = _percent_text(part, whole, rule.permille)
    return gate(rule, label, passed(exact), value, bar)


_TENTHS = 10


def recommendations(rule: Rule, look: GateInput) -> Gate:
    """Judge what the best open recommendation is worth: by how many GPUs it makes the request smaller.

    Where today's GPUs are not known, so that no offer can be made, it is worth the GPUs that it frees.
    """
    label, asked = "open recommendations", look.request.gpus
    bar = f"{rule.number('percent')}% of request"
    if look.offer is not None:
        worth = spared(look.request, look.offer, look.policy.step_gpus) * _TENTHS
    elif look.fix is None and not look.advice:
        return gate(rule, label, "PASS", "none open", bar)
    else:
        freed = max((each.frees.p50 for each in look.advice), default=0) * _TENTHS * MILLISECOND_US
        worth = min(nearest(max(0, freed), look.profile.until_us - look.profile.since_us), asked * _TENTHS)
    value = f"{decimal(worth // _TENTHS, 0) if worth % _TENTHS == 0 else decimal(worth, 1)} of {asked:,} GPUs"
    return gate(rule, label, passed(worth * 1000 <= rule.permille * asked * _TENTHS), value, bar)


def cheaper(rule: Rule, look: GateInput) -> Gate:
    """Judge whether a cheaper choice was tried, where the work fits there; without one there is nothing to try."""
    label, bar = "cheaper GPU type", "tried if it fits"
    choices = [each for each in look.profile.alternatives if is_cheaper(each, look)]
    if tried := [each for each in choices if each.tried]:
        if not look.is_whole:
            why = f"{plain(tried[0].sku)} was tried, but perhaps by other work of the profile alone"
            return gate(rule, label, "N/E", "of other work too", bar, why)
        return gate(rule, label, "PASS", f"{plain(tried[0].sku)} tried", bar)
    open_ones = [each for each in choices if each.fits is not False]
    if open_ones:
        value = f"no run on {plain(open_ones[0].sku.partition('-')[0])}"
        return gate(rule, label, "N/E", value, bar, f"it may fit on {plain(open_ones[0].sku)}, and was not tried there")
    if choices:
        return gate(rule, label, "PASS", "it does not fit", bar)
    return gate(rule, label, "N/E", "none known", bar, "the profile knows no cheaper kind of GPU of this fleet")


def is_cheaper(one: Alternative, look: GateInput) -> bool:
    """Say whether a choice is another kind than was asked for, and not one that costs as much or more."""
    if one.sku == look.request.sku:
        return False
    rate = look.supply.rate
    known = one.micros_per_gpu_hour
    return known is None or rate is None or known < rate.micros_per_gpu_hour


def team_idle(rule: Rule, look: GateInput) -> Gate:
    """Judge whether the team leaves fewer GPUs of this kind idle than it asks for."""
    label, asked = "team's own idle GPUs", look.request.gpus
    bar = f"under {asked:,}"
    held = [each for each in look.profile.holdings if each.sku == look.request.sku]
    if not held:
        if not look.profile.holdings:
            return gate(rule, label, "N/E", "not known", bar, "the profile does not say what the team holds")
        return gate(rule, label, "PASS", f"holds no {look.sku}", bar)
    total = sum((Decimal(str(each.idle_gpus)) for each in held), Decimal(0))
    tenths = int((total * _TENTHS).to_integral_value())
    return gate(rule, label, passed(total < asked), decimal(tenths, 1), bar)


JUDGES = {
    "signed": signed, "age": age, "measured": measured, "runs": runs, "idle": share, "memory": memory, "scaling":
    scaling, "useful": share, "waiting": share, "recommendations": recommendations, "cheaper": cheaper,
    "team_idle": team_idle, }  # fmt: skip
