"""The tables of a plan as words and figures: terminal and page print these rows, so that both round alike."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.wire.units import SECOND_US
from analyzer.capacity.planner.facts import Compared, PlanFacts, TaskFact, Unseen
from analyzer.capacity.planner.ledger import History
from analyzer.capacity.planner.problem import MEDIA, Medium
from analyzer.capacity.planner.sentence import (
    SOLVER_WORDS,
    about,
    binding_words,
    brief,
    exact,
    has_spread,
    medium_words,
    short_when,
)
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
            medium_words(one.medium, on_ssd=facts.is_ssd(one.to_node)),
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
        SOLVER_WORDS[one.solver],
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
    """Return what keeps every plan from being shorter, as a sentence."""
    if facts.bound is None:
        return None
    words = binding_words(facts.bound)
    return f"{words[0].upper()}{words[1:]}."


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
        rows.append(("left out", "; ".join(f"{_named(nodes)}: {plain_sentence(text)}" for text, nodes in why.items())))
    return rows


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(map(plain, names[:_NAMES_SHOWN])) + more


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
    bare = [one.name for one in facts.histories if not one.gpus]
    if bare:
        rows.append(
            (
                "hosts",
                f"the kind of the hosts that {_named(bare)} ran on is not known: on others it may take another time",
            )
        )
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
    if cost_seconds is None:
        return planned
    return f"{planned}; when they share, the plan ends {about(cost_seconds)} later" if cost_seconds > 0 else planned


def _spread_words(facts: PlanFacts) -> str:
    if not has_spread(facts):
        return "every duration is one figure: give p10 and p90, or a history, for a probability"
    alone = "each task is drawn independently; what slows several at once makes the true spread wider"
    without = facts.finish.without_spread if facts.finish is not None else ()
    if not without:
        return alone
    return f"one figure for the duration of {_named(without)}: give p10 and p90, or a history; {alone}"
