"""Waiting for other GPUs: exchanges across racks, ranks that hold up the rest, hangs, and what the fabric can do.

The chip is busy as nvidia-smi reports it while it spins in a collective, and does little; links carry the bytes
(reference, algorithms 1.2). What the same bytes would take inside a rack is the fair part, the rest is avoidable.

It is learned from the fleet's own runs, hour by hour, so that an hour's verdict can be made again from what is stored.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from analyzer.ledger.thresholds import FABRIC_BACK_MS, FABRIC_DIGITS, Thresholds
from analyzer.ledger.windows import RunFacts, RunWindow, per_gpu_rate
from analyzer.period import WINDOW_MS
from analyzer.states import Confidence

if TYPE_CHECKING:
    from collector.store.session import Session


def at_least(value: int | None, bar: int) -> bool:
    """True where the value is known and reaches the bar; what is unknown reaches nothing."""
    return value is not None and value >= bar


def most(*values: int | None) -> int | None:
    """Return the largest of the known values, or None where none is known."""
    known = [value for value in values if value is not None]
    return max(known) if known else None


def of_busy(window: RunWindow, share: int | None) -> int | None:
    """Return a share of all time as a share of the time with a kernel resident."""
    busy = 1000 - window.still
    return None if share is None or busy <= 0 else min(1000, share * 1000 // busy)


@dataclass(frozen=True, slots=True)
class ExchangeJudgement:
    """How the time short of the run's own best divides; permilles of it, the rest being plain collectives."""

    is_exchanging: bool
    straggler_permille: int = 0
    cross_rack_permille: int = 0
    confidence: Confidence = "medium"
    caused_by: str | None = None


NO_EXCHANGE = ExchangeJudgement(False)


def exchange_rate(window: RunWindow, limits: Thresholds) -> int | None:
    """Return the bytes a second and node at which this window exchanged over the fabric, or None where it did not.

    Time spent exchanging is the share short of the run's best; the bytes are those of the RDMA ports.
    """
    exchange_ms = window.ms // window.gpus * window.short // 1000
    if window.rdma_out is None or window.nodes < 2:
        return None
    if window.short < limits.exchange_short_permille or exchange_ms < limits.exchange_ms:
        return None
    if _ranks_apart(window, limits):  # then some of that time is waiting for a rank, in which nothing moves
        return None
    return window.rdma_out * 1000 // (exchange_ms * window.nodes)


def detect(window: RunWindow, facts: RunFacts, in_rack_rate: int | None, limits: Thresholds) -> ExchangeJudgement:
    """Judge one window. `in_rack_rate` is what this fabric gives inside a rack, in bytes a second and node."""
    if window.gpus < 2 or window.short < limits.exchange_short_permille or not links_busy(window, limits):
        return NO_EXCHANGE
    straggler = _straggler(window, limits)
    cross = _cross_rack(window, facts, in_rack_rate, 1000 - straggler, limits)
    is_long = window.slowest_gpu is not None and straggler > 0
    return ExchangeJudgement(
        True, straggler, cross, "high" if cross else "medium", window.slowest_gpu if is_long else None
    )


def lesson(window: RunWindow, limits: Thresholds) -> int | None:
    """Return the rate from which the fabric is learned, or None where this window's time of exchanging is not sure.

    Bytes over too short a time would make the fabric look faster than it is. The time is sure where exchanges stand out
    for more of it than noise does, over a best that leaves no room for others in every step.
    """
    stands_out = window.short >= limits.lesson_short_permille and at_least(window.best, limits.effective_sm_permille)
    return exchange_rate(window, limits) if stands_out else None


def _ranks_apart(window: RunWindow, limits: Thresholds) -> bool:
    """True where some ranks stand still for a tenth of the time and more while others do not: they come late."""
    if window.still_most is None or window.still_median is None:
        return False
    return window.still_most - window.still_median >= limits.apart_permille


def links_busy(window: RunWindow, limits: Thresholds) -> bool:
    """True where the run's GPUs send each other more than a trickle."""
    fabric_kb = None if window.rdma_out is None or window.nodes < 2 else window.rdma_out // 1000
    return at_least(per_gpu_rate(window, most(window.nvlink_kb, fabric_kb)), limits.exchange_kb_per_ms)


def _straggler(window: RunWindow, limits: Thresholds) -> int:
    """Return the part that one slowed GPU makes its peers wait: they wait as long as it is behind."""
    behind = window.slowed_most - window.slowed_least
    if behind < limits.slowed_permille or window.slowest_gpu is None:
        return 0
    return min(1000, behind * 1000 // window.short)


def _cross_rack(
    window: RunWindow, facts: RunFacts, in_rack_rate: int | None, left_permille: int, limits: Thresholds
) -> int:
    """Return the part that the same bytes would not have taken inside a rack; 0 where racks are not known."""
    seen = exchange_rate(window, limits)
    if facts.racks is None or facts.racks < 2 or seen is None or in_rack_rate is None or seen >= in_rack_rate:
        return 0
    return left_permille * (in_rack_rate - seen) // in_rack_rate


def steady_permille(window: RunWindow, facts: RunFacts, in_rack_rate: int | None, limits: Thresholds) -> int:
    """Return the share of working time that every step spends in exchanges, where two bounds agree on it.

    What recurs in every step is no dip, so the run's own best holds it already. It is bounded twice: by the time that
    the bytes seen take at the rate of this fabric, and by what the run's best lacks of a dense model's SM activity.
    """
    if window.rdma_out is None or window.nodes < 2 or not in_rack_rate or facts.is_service:
        return 0
    if (
        window.best is None or window.best <= limits.spinning_permille
    ):  # a best that is no more than spinning says nothing
        return 0
    working_ms = window.ms * (1000 - window.still - window.short) // 1000 // window.gpus
    if working_ms <= 0 or not at_least(of_busy(window, window.tensor), limits.dense_tensor_permille):
        return 0
    by_bytes = window.rdma_out * 1000 // (in_rack_rate * window.nodes) * 1000 // working_ms
    by_chip = (limits.dense_sm_permille - window.best) * 1000 // (limits.dense_sm_permille - limits.spinning_permille)
    # Where exchanges stand out as dips, the bytes are theirs.
    steady = 0 if window.short >= limits.exchange_short_permille else max(0, min(by_bytes, by_chip))
    return steady if steady >= limits.exchange_short_permille else 0


def crossing_permille(window: RunWindow, facts: RunFacts, in_rack_rate: int | None, limits: Thresholds) -> int:
    """Return the share of working time that every step spends across racks beyond what its bytes take in one rack.

    As steady_permille, but from what the chip lacks of effective use at the least, less the fair time of those bytes.
    """
    if facts.racks is None or facts.racks < 2 or facts.is_service or not in_rack_rate:
        return 0
    if window.rdma_out is None or window.nodes < 2 or window.best is None or window.best <= limits.spinning_permille:
        return 0
    working_ms = window.ms * (1000 - window.still - window.short) // 1000 // window.gpus
    room = limits.effective_sm_permille - limits.spinning_permille
    lacking = (limits.effective_sm_permille - window.best) * 1000 // room
    tensor = of_busy(window, window.tensor)
    if working_ms <= 0 or lacking <= 0 or tensor is None:
        return 0
    if tensor * 1000 // (1000 - lacking) < limits.dense_tensor_permille:  # of the time in which it computes
        return 0
    short_ms = window.ms * window.short // 1000 // window.gpus
    fair_ms = window.rdma_out * 1000 // (in_rack_rate * window.nodes)
    if (
        fair_ms * 1000 < working_ms * limits.exchange_short_permille
    ):  # hardly any bytes: what the chip lacks has another cause
        return 0
    beyond = lacking - max(0, fair_ms - short_ms) * 1000 // working_ms
    return beyond if beyond >= limits.crossing_permille else 0


def spins_in_silence(window: RunWindow, limits: Thresholds) -> bool:
    """True where GPUs are busy, and their links are known to have carried nothing, or they spin."""
    is_silent = window.nvlink_kb == 0 or window.spinning_gpus > 0
    return is_silent and at_least(window.utilization, limits.hang_utilization_permille)


@dataclass(frozen=True, slots=True)
class Usual:
    """What the run's links carry and its boards draw while it works; None where that was not seen."""

    link_kb: int | None = None
    power: int | None = None
    over_nvlink: bool = True  # else over PCIe, which carries the input too
    has_worked: bool = False  # before the windows that are judged


def _sent_kb(window: RunWindow, *, over_nvlink: bool) -> int | None:
    """Return what went over a run's NVLink, or over its PCIe."""
    if over_nvlink:
        return window.nvlink_kb
    if window.pcie_in_kb is None or window.pcie_out_kb is None:
        return None
    return window.pcie_in_kb + window.pcie_out_kb


def usual(windows: Sequence[RunWindow]) -> Usual:
    """Return what the run's links carry and its boards draw while they carry anything: the middle over NVLink.

    Those without are left out: a hang that lasts for most of a day would else be what is usual. Over PCIe something
    always moves: there it is the upper quarter.
    """
    over_nvlink = any(window.nvlink_kb is not None for window in windows)
    moving = [(sent, window.power) for window in windows if (sent := _sent_kb(window, over_nvlink=over_nvlink))]
    links = sorted(sent for sent, _ in moving)
    power = sorted(drawn for _, drawn in moving if drawn is not None)
    quarters = 2 if over_nvlink else 3
    return Usual(
        links[len(links) * quarters // 4] if links else None,
        power[len(power) * quarters // 4] if power else None,
        over_nvlink,
    )


@dataclass(frozen=True, slots=True)
class Hang:
    """Whether a window hangs, or what of it spins belongs to a hang, and how sure that is."""

    is_hung: bool = False
    confidence: Confidence = "high"
    is_edge: bool = False  # it begins or ends in this window


def has_worked(window: RunWindow, limits: Thresholds) -> bool:
    """True where each GPU was at work for a minute."""
    return window.ms // window.gpus * (1000 - window.spinning - window.still) // 1000 >= limits.begun_work_ms


def hung_windows(windows: Sequence[RunWindow], gpus: int, habit: Usual, limits: Thresholds) -> list[Hang]:
    """Return which windows of a run of so many GPUs hang; the tail of a hang, until it is ended, is of any length.

    What its links carried tells it, or that every GPU spins which is left of it, where the run has worked before.
    Silence of PCIe, which says less, is of medium confidence.
    """
    hung: list[Hang] = []
    gone: list[int] = []  # GPUs without a process, without memory in use, or of which nothing is heard
    began: list[bool] = []
    most_alive = at_work = lived = 0
    for before, window in zip([None, *windows], windows, strict=False):
        goes_on = before is not None and hung[-1].is_hung and _abut(before, window)
        is_whole = goes_on or window.ms * 2 >= window.gpus * WINDOW_MS
        most_alive = max(most_alive, window.gpus_alive or 0)
        dead = 0 if window.gpus_alive is None else most_alive - window.gpus_alive
        is_usual = at_work >= limits.persistence_windows and at_work * 2 >= lived
        is_stuck = is_usual and _is_stuck_at_rest(window, limits)
        at_rest = 0 if is_stuck else window.resting_gpus or 0
        gone.append(max(dead, gpus - window.gpus + (window.stopped_gpus or 0) - at_rest))
        has_begun = began[-1] if began else habit.has_worked
        may_hang = not _goes_on(window, limits)
        spins = may_hang and has_begun and is_whole and _are_all(window.spinning_gpus, gone[-1], gpus)
        silent = may_hang and is_hung(window, habit, limits, of_any_length=goes_on, dead=dead)
        # Ranks that compute each for itself send nothing either: whether they spin, their memory and power tell.
        is_waiting = habit.over_nvlink and window.spinning >= limits.spun_permille
        is_sure = (spins and gone[-1] * 2 < gpus and not window.resting_gpus) or (silent and is_waiting)
        hung.append(Hang(spins or silent, "high" if is_sure else "medium"))
        lived += not hung[-1].is_hung
        at_work += window.spinning + window.still < limits.spun_permille
        began.append(has_begun or has_worked(window, limits))
    edges = _edges(windows, gpus, hung, gone, began, limits)
    return [Hang(is_edge=True, confidence="medium") if place in edges else each for place, each in enumerate(hung)]


def _goes_on(window: RunWindow, limits: Thresholds) -> bool:
    """True where the run tells of more steps than ended as a hang began, a rank computes, or nobody asks a service."""
    if (window.steps or 0) > 1 or window.answering == 0:
        return True
    return at_least(window.resting_cores_milli, limits.one_core_least_milli)


def _is_stuck_at_rest(window: RunWindow, limits: Thresholds) -> bool:
    """True where no process of the GPUs that rest does anything either."""
    return window.resting_cores_milli is not None and window.resting_cores_milli < limits.worker_seen_permille


def _edges(
    windows: Sequence[RunWindow],
    gpus: int,
    hung: Sequence[Hang],
    gone: Sequence[int],
    began: Sequence[bool],
    limits: Thresholds,
) -> set[int]:
    """Return the windows in which a hang begins or ends: next to one that hangs, or long enough together.

    The last is the last of its hour, beyond which only for how long its GPUs go on is known.
    """
    found: set[int] = set()
    for place, (one, other) in enumerate(pairwise(windows)):
        if not _abut(one, other):
            continue
        are_gone = max(gone[place], gone[place + 1])
        stuck = [_stuck_ms(each, are_gone, gpus) if began[place] else 0 for each in (one, other)]
        if hung[place].is_hung != hung[place + 1].is_hung:
            found |= {place + n for n in (0, 1) if stuck[n] and not hung[place + n].is_hung}
        elif not hung[place].is_hung and min(stuck) > 0 and sum(stuck) >= limits.hang_ms:
            found |= {place, place + 1}
    last = windows[-1] if windows else None
    if last is not None and last.stuck_on_ms and began[-1] and not hung[-1].is_hung:
        stuck_ms = _stuck_ms(last, max(gone[-1], last.gone_on or 0), gpus)
        if stuck_ms and stuck_ms + last.stuck_on_ms >= limits.hang_ms:
            found.add(len(windows) - 1)
    return found


def _stuck_ms(window: RunWindow, gone: int, gpus: int) -> int:
    """Return for how long all GPUs that are left spin at once, in a window of which they did something else too.

    One of which they did nothing else hangs by itself, or for good reason does not; but for the minutes before an end.
    """
    is_whole = window.spinning_gpus >= (window.stuck_gpus or 0) and window.ms * 2 >= window.gpus * WINDOW_MS
    return (window.stuck_ms or 0) if not is_whole and _are_all(window.stuck_gpus or 0, gone, gpus) else 0


def _abut(one: RunWindow, other: RunWindow) -> bool:
    return other.window_ms - one.window_ms == WINDOW_MS


def waits_for_ranks(window: RunWindow, gpus: int, limits: Thresholds) -> bool:
    """True where what spins waits for other GPUs of the run: not all of them spin throughout."""
    return gpus > 1 and window.spinning >= limits.low_permille and window.spinning_gpus < gpus


def _are_all(found: int, gone: int, gpus: int) -> bool:
    """True where these are all of several GPUs but those that are gone, which are half of them at the most."""
    return gpus > 1 and found >= max(1, gone) and found + gone >= gpus


def is_hung(window: RunWindow, habit: Usual, limits: Thresholds, *, of_any_length: bool = False, dead: int = 0) -> bool:
    """True where every GPU spins but the dead, the chip does nothing and the links are silent for the whole window."""
    sent = _sent_kb(window, over_nvlink=habit.over_nvlink)
    if window.gpus < 2 or not habit.link_kb or sent is None:
        return False
    if window.ms * 2 < window.gpus * WINDOW_MS and not of_any_length:  # minutes of silence are no hang
        return False
    busy = at_least(window.utilization, limits.hang_utilization_permille)
    return (
        (busy or (dead > 0 and _are_all(window.busy_gpus, dead, window.gpus)))
        and sent * 1000 <= habit.link_kb * limits.hang_link_permille
        and _chip_rests(window, habit, limits)
    )


def _chip_rests(window: RunWindow, habit: Usual, limits: Thresholds) -> bool:
    """By SM activity against the run's own best; by power against what it usually draws where that is not measured."""
    if window.sm_ms * 2 < window.ms:
        draws = window.power
        if draws is None or habit.power is None or draws > limits.hang_power_permille:
            return False
        return draws * 1000 <= habit.power * limits.hang_power_of_usual_permille
    # A phase that decodes or multiplies on one GPU alone needs no link, and is no hang.
    computes = at_least(window.tensor, limits.underused_tensor_permille)
    if window.best is None or computes or at_least(window.dram, limits.underused_dram_permille):
        return False
    return window.activity * 1000 <= window.best * limits.hang_activity_permille


_SEVERAL = -1  # no rate: parts of an hour were judged by different ones, and all of it is due once more

# The median of what was seen on such a fabric in the week up to the end of the hour.
_RATES = """
SELECT h.hour, h.fabric, (SELECT quantile_disc(r.bytes_per_second, 0.5) FROM in_rack_rates r
    WHERE r.fabric = h.fabric AND r.window_start >= h.hour - $back AND r.window_start < h.hour + 3600000000) AS rate
FROM (SELECT unnest($hours::BIGINT[]) AS hour, unnest($fabrics::VARCHAR[]) AS fabric) h ORDER BY ALL
"""
HourOfFabric = tuple[int, str]  # its first microsecond, and the kind of fabric


def fabric_of(window: RunWindow, sku: str | None) -> str:
    """Return what kind of fabric a run exchanges over: fleets have several, and one is no yardstick of another."""
    return f"{sku or 'several'} {'' if window.ports_gb is None else window.ports_gb}".strip()


def learn_rates(
    session: "Session", windows: Iterable[RunWindow], facts: Mapping[str, RunFacts], limits: Thresholds
) -> None:
    """Keep what these windows of runs within one rack were seen to reach."""
    seen = [
        (window.run_id, window.window_ms * 1000, fabric_of(window, facts[window.run_id].sku), rate)
        for window in windows
        if facts[window.run_id].racks == 1 and (rate := lesson(window, limits)) is not None
    ]
    session.load("in_rack_rates", ("run_id", "window_start", "fabric", "bytes_per_second"), seen)


def in_rack_rates(session: "Session", asked: Collection[HourOfFabric]) -> dict[HourOfFabric, int | None]:
    """Return the rates by hour and fabric in bytes a second of one host; None where none was seen."""
    hours, fabrics = [hour for hour, _ in asked], [fabric for _, fabric in asked]
    found = session.rows(_RATES, {"hours": hours, "fabrics": fabrics, "back": FABRIC_BACK_MS * 1000})
    return {(hour, fabric): _rounded(rate) for hour, fabric, rate in found}


def keep_rates(session: "Session", judged_by: Mapping[HourOfFabric, int | None]) -> None:
    """Write down by which rate the runs across racks of each hour were judged; by several, where others had another."""
    before = _judged_by(session, min((hour for hour, _ in judged_by), default=0))
    _write(session, {key: _SEVERAL if before.get(key, rate) != rate else rate for key, rate in judged_by.items()})


def outdated_hours(session: "Session", from_us: int) -> list[int]:
    """Return the hours from `from_us` on that were judged by another rate than is known now, and keep the new ones."""
    judged_by = _judged_by(session, from_us)
    now = in_rack_rates(session, judged_by)
    changed = {key: rate for key, rate in now.items() if rate != judged_by[key]}
    _write(session, changed)
    return sorted({hour for hour, _ in changed})


def _judged_by(session: "Session", from_us: int) -> dict[HourOfFabric, int | None]:
    rows = session.rows("SELECT hour, fabric, bytes_per_second FROM fabric_rates WHERE hour >= ?", [from_us])
    return {(hour, fabric): rate for hour, fabric, rate in rows}


def _write(session: "Session", judged_by: Mapping[HourOfFabric, int | None]) -> None:
    rows = [(*key, rate) for key, rate in judged_by.items()]
    session.load("fabric_rates", ("hour", "fabric", "bytes_per_second"), rows, replace=True)


def _rounded(rate: int | None) -> int | None:
    if rate is None:
        return None
    unit = 10 ** max(0, len(str(rate)) - FABRIC_DIGITS)
    return rate - rate % int(unit)
