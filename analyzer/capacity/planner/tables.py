"""A plan in words: what it says first, and the rows of its tables, so that terminal and page round alike."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.wire.units import MINUTE_SECONDS, MINUTE_US, SECOND_US
from analyzer.capacity.planner.amounts import about, again, brief, exact, short_when, when
from analyzer.capacity.planner.facts import Compared, PlanFacts, TaskFact, Unseen
from analyzer.capacity.planner.ledger import History
from analyzer.capacity.planner.plan import Binding, Change, Solver
from analyzer.capacity.planner.problem import MEDIA, Medium
from analyzer.text.words import (
    UNKNOWN,
    bytes_words,
    counted,
    money,
    money_decimals,
    nearest,
    plain,
    plain_sentence,
    span_words,
)

_SURE = 0.995  # draws never say that something is certain

_SOLVER_WORDS: dict[Solver, str] = {
    "olb": "OLB (next free)",
    "heft": "HEFT",
    "random_heft": "HEFT, randomized",
    "cp_sat": "CP-SAT (exact)",
    "said": "as proposed",
}
_MEDIUM_WORDS: dict[Medium, str] = {
    "local": "same node",
    "rack": "rack network",
    "cross_rack": "cross-rack network",
    "storage": "network storage",
}


def _medium_words(medium: Medium, *, on_ssd: bool) -> str:
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


def _binding_words(bound: Binding) -> str:
    """Return what keeps every plan from being shorter than the bound."""
    if bound.kind == "path":
        return f"the critical path {_named(bound.tasks, ' → ')} binds"
    if bound.kind == "resource":
        what = _RESOURCE_WORDS.get(bound.resource or "", "capacity")
        verb, whose = ("bind", "them") if what.endswith("s") else ("binds", "it")
        return f"the {what} of {_named(bound.nodes)} {verb}: {counted(len(bound.tasks), 'task')} share {whose}"
    if bound.kind == "rounds":
        at_once = (
            f"of {counted(len(bound.tasks), 'task')} at most {bound.turns:,} run at a time on {_named(bound.nodes)}"
        )
        return f"{at_once}, one round after the other"
    return f"CP-SAT has ruled out every plan that takes less than {exact(bound.seconds)}"


def has_spread(facts: PlanFacts) -> bool:
    """Return whether any duration was drawn: without one there is no probability to tell."""
    return facts.finish is not None and len(facts.finish.without_spread) < len(facts.tasks)


def _named(names: Sequence[str], between: str = ", ", most: int = _NAMES) -> str:
    shown = between.join(plain(name) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


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
    over = _medium_words(took[0].medium, on_ssd=facts.is_ssd(task.node)) if took else "it"
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
    why = f"; {_binding_words(facts.bound)}" if facts.bound is not None else ""
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
    if saved < MINUTE_SECONDS:
        return []
    return [f"That is {about(saved)} sooner than each task on the next free node (OLB)."]


NOT_APPLICABLE = "N/A"
_OPTIMAL = "shortest"
_NAMES_SHOWN = 4
_WHOLE_FROM_MICROS = 1_000_000_000  # one that costs a thousand is told, as all beside it, without cents
MEDIUM_HEADS: dict[Medium, str] = {"local": "local", "rack": "rack", "cross_rack": "cross", "storage": "storage"}


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """Where and when one task runs."""

    task: str
    node: str
    place: str  # rack and group, or a dash
    start: str
    end: str
    takes: str
    slack: str
    waits: str  # for its inputs to arrive
    is_critical: bool


@dataclass(frozen=True, slots=True)
class MovedRow:
    """What one task hands another; `ways` by medium in the order of MEDIA, `taken` the place of the one it takes."""

    tasks: str
    nodes: str
    bytes: str
    over: str
    ways: tuple[str, ...]
    taken: int


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One solver's plan, or the bound that none is below."""

    name: str
    makespan: str
    above: str
    moves: str
    bytes: str
    moving: str
    cost: str
    is_answer: bool


def placed_rows(facts: PlanFacts) -> list[PlacedRow]:
    """Return the tasks in the order in which they start."""
    return [_placed(one, facts) for one in facts.tasks]


def _placed(one: TaskFact, facts: PlanFacts) -> PlacedRow:
    place = ", ".join(
        f"{what} {plain(name)}" for what, name in (("rack", one.rack), ("group", one.group)) if name is not None
    )
    waits = (one.data_until_at - one.data_from_at) // SECOND_US
    return PlacedRow(
        plain(one.task),
        plain(one.node),
        place or UNKNOWN,
        short_when(one.start_at, facts.timezone, facts.start_at),
        short_when(one.end_at, facts.timezone, facts.start_at),
        exact((one.end_at - one.start_at) // SECOND_US),
        NOT_APPLICABLE if one.slack_seconds is None else about(one.slack_seconds),
        about(waits) if waits else UNKNOWN,
        one.is_critical,
    )


def moved_rows(facts: PlanFacts) -> list[MovedRow]:
    """Return what has bytes, most time first."""
    moved = sorted((one for one in facts.transfers if one.bytes), key=lambda one: (-one.seconds, one.before, one.after))
    return [
        MovedRow(
            f"{plain(one.before)} → {plain(one.after)}",
            plain(one.to_node) if one.from_node == one.to_node else f"{plain(one.from_node)} → {plain(one.to_node)}",
            bytes_words(one.bytes),
            _medium_words(one.medium, on_ssd=facts.is_ssd(one.to_node)),
            tuple(brief(way.seconds) for way in one.ways),
            MEDIA.index(one.medium),
        )
        for one in moved
    ]


def compared_rows(facts: PlanFacts) -> list[ComparedRow]:
    """Return the solvers in the order of what they are given, and below them what no plan is shorter than."""
    dearest = max((one.cost_micros or 0 for one in facts.compared), default=0)
    rows = [_compared(one, facts, 0 if dearest >= _WHOLE_FROM_MICROS else None) for one in facts.compared]
    if [one.solver for one in facts.compared[:-1]].count(facts.compared[-1].solver):
        rows[-1] = replace(rows[-1], name="least changed" if facts.is_planned else "cheapest on time")
    bound = exact((facts.earliest_at - facts.start_at) // SECOND_US)
    return [*rows, ComparedRow("lower bound", bound, "", "", "", "", "", is_answer=False)]


def _compared(one: Compared, facts: PlanFacts, decimals: int | None) -> ComparedRow:
    return ComparedRow(
        _SOLVER_WORDS[one.solver],
        exact(one.makespan_seconds),
        _above(one.above_ratio),
        f"{one.moves:,}",
        bytes_words(one.moved_bytes),
        brief(one.moving_seconds),
        NOT_APPLICABLE
        if one.cost_micros is None
        else money(one.cost_micros, facts.currency, money_decimals(one.cost_micros) if decimals is None else decimals),
        one.is_answer,
    )


def _above(ratio: float | None) -> str:
    """Return how far above the bound a plan is; what is above it is never told as nothing."""
    if ratio is None:
        return NOT_APPLICABLE
    if ratio <= 0:
        return _OPTIMAL
    tenths = nearest(round(ratio * 1_000_000), 1000)
    return f"{tenths / 10:.1f}%" if tenths else "< 0.1%"


def why_words(facts: PlanFacts) -> str | None:
    """Return what keeps every plan from being shorter, as a sentence, and that the one above is not proven shortest."""
    if facts.bound is None:
        return None
    words = _binding_words(facts.bound)
    if facts.is_optimal and facts.bound.kind == "search":
        words = "CP-SAT has ruled out every shorter plan"
    shortest = min((one.makespan_seconds for one in facts.compared), default=facts.bound.seconds)
    between = "" if shortest <= facts.bound.seconds else " Whether a plan ends in between is not known."
    return f"{words[0].upper()}{words[1:]}.{between}"


def change_rows(facts: PlanFacts) -> list[tuple[str, str]]:
    """Return each task that moves or waits, and how."""
    rows = []
    for one in facts.changes:
        said = []
        if one.from_node is not None and one.to_node is not None:
            said.append(f"{plain(one.from_node)} → {plain(one.to_node)}")
        if one.saved_seconds:
            less = "less" if one.saved_seconds > 0 else "more"
            said.append(f"{about(abs(one.saved_seconds))} {less} of transfers")
        if one.delay_seconds > 0:
            left = f", {about(one.slack_seconds)} of slack left" if one.slack_seconds is not None else ""
            said.append(f"{about(one.delay_seconds)} later{left}")
        rows.append((plain(one.task), "; ".join(said)))
    return rows


def ledger_rows(facts: PlanFacts) -> list[tuple[str, str]]:
    """Return what came from the ledger: each recurring job with its spread, and the nodes that are left out."""
    rows = [(plain(one.name), history_words(one, facts.timezone)) for one in facts.histories]
    why: dict[str, list[str]] = defaultdict(list)
    for one in facts.left_out:
        why[one.why].append(plain(one.node))
    if why:
        told = (f"{_named(nodes, most=_NAMES_SHOWN)}: {plain_sentence(text)}" for text, nodes in why.items())
        rows.append(("left out", "; ".join(told)))
    return rows


def history_words(one: History, timezone: str) -> str:
    """Return what a recurring job took and used, as one sentence."""
    peaks = one.peaks
    used = [
        *([] if peaks.cores is None else [f"{peaks.cores:.1f} cores"]),
        *([] if peaks.memory_bytes is None else [f"{bytes_words(peaks.memory_bytes)} of memory per host"]),
        *([] if peaks.gpu_memory_bytes is None else [f"{bytes_words(peaks.gpu_memory_bytes)} per GPU"]),
    ]
    of = f" of {plain(one.sku)}" if one.sku is not None else ""
    size = f"{counted(one.gpus, 'GPU')}{of}" if one.gpus else "no GPU"
    spans = ", ".join(
        f"P{percent} {about(seconds)}"
        for percent, seconds in ((10, one.p10_seconds), (50, one.p50_seconds), (90, one.p90_seconds))
    )
    beside = [
        *(
            [f"in several racks {one.crossing_permille / 1000:.2f} times as long"]
            if one.crossing_permille is not None
            else []
        ),
        *([f"{one.restarted} of them restarted"] if one.restarted else []),
        *([f"{one.unfinished} more did not complete and are not counted"] if one.unfinished else []),
    ]
    told = f"{counted(one.runs, 'run')} with {size}, {span_words(one.first_at, one.last_at, timezone)}: {spans}"
    return "; ".join([told, *beside, *([f"used at most {', '.join(used)}"] if used else [])])


def unjudged_rows(facts: PlanFacts) -> list[tuple[str, str]]:
    """Return what this plan does not know, each with what would tell it."""
    rows = [("links", _links_words(facts.links_cost_seconds)), ("spread", _spread_words(facts))]
    kinds = [_unseen_words(one) for one in facts.unseen[:_NAMES_SHOWN]]
    if kinds:
        more = f"; and {len(facts.unseen) - _NAMES_SHOWN} more" if len(facts.unseen) > _NAMES_SHOWN else ""
        rows.append(("kinds of GPU", "; ".join(kinds) + more))
    predicted = [one for one in facts.tasks if one.duration.predicted_from is not None]
    if predicted:
        pairs = dict.fromkeys((one.array or one.task, one.duration.predicted_from or "") for one in predicted)
        named = _named([f"{plain(task)} from {plain(kind)}" for task, kind in pairs])
        rows.append(("predicted", f"durations of {named}, by the speeds of the kinds; real ones may be far from them"))
    bare = [one.name for one in facts.histories if not one.gpus]
    if bare:
        hosts = _named(bare, most=_NAMES_SHOWN)
        rows.append(("hosts", f"the kind of the hosts that {hosts} ran on is not known: others may take another time"))
    if facts.cost_micros is None:
        rows.append(("cost", "a node that the plan uses has no price: set price_per_hour"))
    return rows


def _unseen_words(one: Unseen) -> str:
    off = f"{plain(one.task)} is kept off {counted(one.nodes, 'node')}"
    if one.sku is None:
        return f"{off} whose kind is not known: set sku of the node"
    kind = plain(one.sku)
    return (
        f"{off} of {kind}: how long it takes there is not known; give it in duration, as in {kind}: 25 h, or complete "
        "some runs there"
    )


def _links_words(cost_seconds: int | None) -> str:
    planned = "concurrent transfers are planned as if each had its links to itself"
    if not cost_seconds:
        return planned
    return (
        f"{planned}; they share them, which ends the plan {about(cost_seconds)} later: P50, P90 and P(on time) have it"
    )


def _spread_words(facts: PlanFacts) -> str:
    if not has_spread(facts):
        return "every duration is one figure: give p10 and p90, or a history, for a probability"
    alone = "each task is drawn independently; what slows several at once makes the true spread wider"
    array = {one.task: one.array or one.task for one in facts.tasks}
    names = facts.finish.without_spread if facts.finish is not None else ()
    without = [*dict.fromkeys(array.get(name, name) for name in names)]
    if not without:
        return alone
    return (
        f"one figure for the duration of {_named(without, most=_NAMES_SHOWN)}: give p10 and p90, or a history; {alone}"
    )
