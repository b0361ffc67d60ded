"""What a plan says first: what to move and delay, when it ends, and how likely that is; or what makes it impossible.

A template over the solver's figures, and nothing else: no figure is made here, and nothing is "on time" without its
probability.
"""

from collections.abc import Sequence

from agent.wire.units import DAY_SECONDS, DAY_US, HOUR_SECONDS, MINUTE_SECONDS, MINUTE_US, SECOND_US
from analyzer.capacity.planner.facts import PlanFacts
from analyzer.capacity.planner.plan import Binding, Change, Solver
from analyzer.capacity.planner.problem import Medium
from analyzer.period import local
from analyzer.text.words import NO_BREAK, counted, day, moment_words, nearest, plain

_NAMED_DAYS_US = 6 * DAY_US  # within it the name of a day says which one
_SURE = 0.995  # draws never say that something is certain

SOLVER_WORDS: dict[Solver, str] = {
    "olb": "OLB (next free)",
    "heft": "HEFT",
    "random_heft": "HEFT, randomised",
    "cp_sat": "CP-SAT (exact)",
    "said": "as proposed",
}
_MEDIUM_WORDS: dict[Medium, str] = {
    "local": "same node",
    "rack": "rack network",
    "cross_rack": "cross-rack network",
    "storage": "network storage",
}


def when(instant: int, timezone: str, near: int) -> str:
    """Return a moment as "Fri 14:20", or with its day of the month where it is a week from `near` or more."""
    at = local(instant, timezone)
    if abs(instant - near) >= _NAMED_DAYS_US:
        return moment_words(instant, timezone)
    return f"{day(at).split(' ', 1)[0]} {at:%H:%M}"


def short_when(instant: int, timezone: str, near: int) -> str:
    """Return a moment for a column: "Fri 14:20", or "27 Nov 14:20" where it is a week from `near` or more."""
    told = when(instant, timezone, near)
    return told if abs(instant - near) < _NAMED_DAYS_US else told.split(" ", 1)[1]


def again(instant: int, timezone: str, near: int) -> str:
    """Return a moment that is told beside `near`: its time alone on the same day."""
    at = local(instant, timezone)
    return f"{at:%H:%M}" if at.date() == local(near, timezone).date() else when(instant, timezone, near)


def about(seconds: int) -> str:
    """Return a span as people say it: "40 s", "28 min", "8 h", "8 h 30 min", "2 d 3 h"."""
    if seconds < MINUTE_SECONDS:
        return f"{seconds} s".replace(" ", NO_BREAK)
    minutes = nearest(seconds, MINUTE_SECONDS)
    if minutes < HOUR_SECONDS // MINUTE_SECONDS:
        return f"{minutes} min".replace(" ", NO_BREAK)
    if seconds < 2 * DAY_SECONDS:
        return _two(minutes // 60, "h", minutes % 60, "min")
    hours = nearest(seconds, HOUR_SECONDS)
    return _two(hours // 24, "d", hours % 24, "h")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = f" {small} {small_unit}" if small else ""
    return f"{large} {large_unit}{rest}".replace(" ", NO_BREAK)


def brief(seconds: int) -> str:
    """Return a span for a narrow column: "40 s", "28 min", "1.3 h", "2.5 d"."""
    if seconds < HOUR_SECONDS - MINUTE_SECONDS // 2:
        return about(seconds)
    unit, word = (HOUR_SECONDS, "h") if seconds < 2 * DAY_SECONDS else (DAY_SECONDS, "d")
    return f"{nearest(10 * seconds, unit) / 10:,.1f}{NO_BREAK}{word}"


def exact(seconds: int) -> str:
    """Return a span to the second, without the zeros at its end: "9 h 00 min 11 s", "9 h 30 min", "5 h", "40 s"."""
    hours, minutes, rest = seconds // HOUR_SECONDS, seconds // MINUTE_SECONDS % 60, seconds % MINUTE_SECONDS
    parts = [f"{hours:,} h"] if hours else []
    if minutes or (hours and rest):
        parts.append(f"{minutes:02d} min" if hours else f"{minutes} min")
    if rest or not parts:
        parts.append(f"{rest:02d} s" if parts else f"{rest} s")
    return " ".join(parts).replace(" ", NO_BREAK)


def medium_words(medium: Medium, *, on_ssd: bool) -> str:
    """Return what bytes go over; within a node it is its local SSD where it has one."""
    return "local SSD" if medium == "local" and on_ssd else _MEDIUM_WORDS[medium]


def chance(ratio: float) -> str:
    """Return a probability in whole percent; draws say neither always nor never."""
    if ratio >= _SURE:
        return "over 99%"
    if ratio < 1 - _SURE:
        return "under 1%"
    return f"{round(100 * ratio)}%"


_CHANGES_NAMED = 3  # of each kind; the list below the sentence has all
_NAMES = 6
_RESOURCE_WORDS = {"cpus": "CPUs", "memory_bytes": "memory", "gpus": "GPUs", "ssd_bytes": "local SSD"}


def sentence(facts: PlanFacts) -> str:
    """Return the answer in a few sentences."""
    if facts.verdict == "impossible":
        return " ".join([_impossible(facts), *_kept_off(facts), *_odds(facts)])
    if facts.verdict == "not_found":
        return " ".join([_not_found(facts), *_odds(facts)])
    said = [*_moves(facts), *_delays(facts)]
    if not said and facts.is_planned:
        said = ["Nothing has to be moved or delayed."]
    said.append(f"{_finish(facts)}{_deadline(facts)}")
    return " ".join([*said, *_against_olb(facts)])


def binding_words(bound: Binding) -> str:
    """Return what keeps every plan from being shorter."""
    if bound.kind == "path":
        return f"the critical path {_named(bound.tasks, ' → ')} binds"
    if bound.kind == "resource":
        what = _RESOURCE_WORDS.get(bound.resource or "", "capacity")
        verb, whose = ("bind", "them") if what.endswith("s") else ("binds", "it")
        return f"the {what} of {_named(bound.nodes)} {verb}: {counted(len(bound.tasks), 'task')} share {whose}"
    return "CP-SAT has ruled out every shorter plan"


def has_spread(facts: PlanFacts) -> bool:
    """Return whether any duration was drawn: without one there is no probability to tell."""
    return facts.finish is not None and len(facts.finish.without_spread) < len(facts.tasks)


def _named(names: Sequence[str], between: str = ", ") -> str:
    shown = between.join(plain(name) for name in names[:_NAMES])
    return f"{shown} and {len(names) - _NAMES} more" if len(names) > _NAMES else shown


def _moves(facts: PlanFacts) -> list[str]:
    moved = [one for one in facts.changes if one.from_node is not None and one.to_node is not None]
    said = [_move(facts, one) for one in moved[:_CHANGES_NAMED]]
    return [*said, *_more(len(moved) - _CHANGES_NAMED, "move")]


def _move(facts: PlanFacts, change: Change) -> str:
    task = next(one for one in facts.tasks if one.task == change.task)
    there = f"{plain(task.node)}{f' in group {plain(task.group)}' if task.group else ''}"
    took = sorted(
        (one for one in facts.transfers if change.task in (one.before, one.after)), key=lambda one: -one.bytes
    )
    over = medium_words(took[0].medium, on_ssd=facts.is_ssd(task.node)) if took else "it"
    if change.saved_seconds > 0:
        why = f" ({over} saves {about(change.saved_seconds)} of transfers)"
    elif change.saved_seconds < 0:
        why = f" (its transfers take {about(-change.saved_seconds)} longer there)"
    else:
        why = ""
    return f"Move {plain(change.task)} from {plain(change.from_node or '')} to {there}{why}."


def _delays(facts: PlanFacts) -> list[str]:
    late = [one for one in facts.changes if one.delay_seconds > 0]
    said = []
    for one in late[:_CHANGES_NAMED]:
        slack = None if one.slack_seconds is None else one.delay_seconds + one.slack_seconds
        has = f" (it has {about(slack)} of slack)" if slack is not None else ""
        said.append(f"Delay {plain(one.task)} {about(one.delay_seconds)}{has}.")
    return [*said, *_more(len(late) - _CHANGES_NAMED, "delay")]


def _more(count: int, noun: str) -> list[str]:
    return [f"And {counted(count, f'more {noun}')}, listed below."] if count > 0 else []


def _finish(facts: PlanFacts) -> str:
    zone = facts.timezone
    if facts.finish is None or not has_spread(facts):
        return f"Estimated finish {when(facts.end_at, zone, facts.start_at)}, if every task takes its stated time"
    middle, late = facts.finish.p50_at, facts.finish.p90_at
    return f"Estimated finish {when(middle, zone, facts.start_at)} (P50), {again(late, zone, middle)} (P90)"


def _deadline(facts: PlanFacts) -> str:
    ratio = facts.finish.on_time_ratio if facts.finish is not None and has_spread(facts) else None
    if facts.deadline_at is None:  # tasks may have deadlines of their own
        return "." if ratio is None else f"; P(every task on time) {chance(ratio)}."
    deadline = f"; deadline {again(facts.deadline_at, facts.timezone, facts.end_at)}"
    if ratio is None:
        return f"{deadline}. Its probability is N/A: no task has a spread (P10 to P90, or a history)."
    return f"{deadline}, P(on time) {chance(ratio)}."


def _impossible(facts: PlanFacts) -> str:
    durations = " with every task at its P50" if has_spread(facts) else ""
    if facts.deadline_at is None or facts.earliest_at <= facts.deadline_at:  # tasks have deadlines of their own
        return f"Impossible{durations}: no plan keeps every task's deadline.{_late_tasks(facts)}"
    why = f"; {binding_words(facts.bound)}" if facts.bound is not None else ""
    best = "" if facts.is_optimal else f" The best plan found ends {_beside_deadline(facts.end_at, facts)}."
    return f"Impossible: earliest {_beside_deadline(facts.earliest_at, facts)}{durations}{why}.{best}"


def _kept_off(facts: PlanFacts) -> list[str]:
    """Return that it is proven only of the kinds of GPU on which durations are known, where there are others."""
    if not facts.unseen:
        return []
    kinds = [*dict.fromkeys(one.sku or "a kind that is not known" for one in facts.unseen)]
    tasks = [*dict.fromkeys(one.task for one in facts.unseen)]
    return [f"That is without {_named(tasks)} on {_named(kinds)}: how long that takes is not known."]


def _not_found(facts: PlanFacts) -> str:
    earliest = when(facts.earliest_at, facts.timezone, facts.start_at)
    if facts.deadline_at is None or facts.end_at <= facts.deadline_at:
        return f"No plan found that keeps every task's deadline; it is not proven that none can.{_late_tasks(facts)}"
    return (
        f"No plan found that keeps the deadline: the best ends {_beside_deadline(facts.end_at, facts)}. "
        f"It is proven that none ends before {earliest}; whether one ends in between is not known."
    )


def _late_tasks(facts: PlanFacts) -> str:
    late = [one for one in facts.tasks if one.deadline_at is not None and one.end_at > one.deadline_at]
    said = [f"{plain(one.task)} ends {_beside(one.end_at, one.deadline_at, facts)}" for one in late[:_CHANGES_NAMED]]
    more = f" and {len(late) - _CHANGES_NAMED} more are late" if len(late) > _CHANGES_NAMED else ""
    return f" In the best one {', '.join(said)}{more}." if said else ""


def _beside_deadline(at: int, facts: PlanFacts) -> str:
    return _beside(at, facts.deadline_at, facts)


def _beside(at: int, deadline: int | None, facts: PlanFacts) -> str:
    """Return a moment and how late that is, to the second where the deadline is in the same minute."""
    told = when(at, facts.timezone, facts.start_at)
    if deadline is None or at <= deadline:
        return told
    seconds = f":{at // SECOND_US % MINUTE_SECONDS:02d}" if at // MINUTE_US == deadline // MINUTE_US else ""
    return f"{told}{seconds} ({about((at - deadline) // SECOND_US)} late)"


def _odds(facts: PlanFacts) -> list[str]:
    if facts.finish is None or facts.finish.on_time_ratio is None or not has_spread(facts):
        return []
    return [f"P(on time) {chance(facts.finish.on_time_ratio)}, should tasks end sooner than their P50."]


def _against_olb(facts: PlanFacts) -> list[str]:
    """Return what the plan gains on the plainest one, where nobody had planned anything to gain on."""
    if facts.changes or facts.is_planned:
        return []
    olb = next((one.makespan_seconds for one in facts.compared if one.solver == "olb"), None)
    saved = 0 if olb is None else olb - (facts.end_at - facts.start_at) // SECOND_US
    return (
        [f"That is {about(saved)} sooner than each task on the next free node (OLB)."]
        if saved >= MINUTE_SECONDS
        else []
    )
