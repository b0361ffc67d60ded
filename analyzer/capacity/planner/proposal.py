"""A plan as somebody proposes it, read of JSON that may come from anybody, and what is said of it.

It is small and strict, and believed in nothing.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from difflib import get_close_matches
from hashlib import sha256
from typing import Literal

from agent.wire.bounded import TooDeepError
from agent.wire.units import MICROS
from analyzer.capacity.planner.plan import Plan
from analyzer.capacity.planner.problem import Amount, Problem, ProposalError
from analyzer.settings.bounded import strict_json
from analyzer.text.words import dollars, plain


@dataclass(frozen=True, slots=True)
class Placed:
    """One task is said to start on a node, that many seconds after the plan's start. No name need exist.

    A gang is also on the nodes `beside` it; of an elastic task `gpus` is how many it has on all of them.
    """

    task: str
    node: str
    start_seconds: int
    end_seconds: int | None = None  # None: not said; it follows from the start
    beside: tuple[str, ...] = ()
    gpus: Amount | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes."""
        return (self.node, *self.beside)


@dataclass(frozen=True, slots=True)
class Claims:
    """What whoever proposes says that the plan comes to; None where nothing is said."""

    makespan_seconds: int | None = None
    cost_micros: int | None = None
    savings_micros: int | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """Tasks on nodes, in any order, and what that is said to come to.

    `problem` is the fingerprint of the problem that it was made for; None where it does not say.
    """

    placements: tuple[Placed, ...]
    claims: Claims = Claims()
    problem: str | None = None


_LETTERS = 16  # 64 bits: two problems of one fleet will not meet by chance
# Where a plan starts now, these move with every second. They are checked anew, and make no other problem.
_FROM_NOW = {
    "starts_at",
    "deadline_seconds",
    "earliest_start_seconds",
    "available_from_seconds",
    "start_seconds",
    "away",
}


def fingerprint(problem: Problem) -> str:
    """Return the first hexadecimal digits of the SHA-256 of all that the problem says but times from its start."""
    said = asdict(problem, dict_factory=lambda pairs: {key: value for key, value in pairs if key not in _FROM_NOW})
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), default=str)
    return sha256(text.encode()).hexdigest()[:_LETTERS]


BYTES_MAX = 1_000_000
PLACEMENTS_MAX = 10_000
NAME_LETTERS_MAX = 200
SECONDS_MAX = 10**10  # three centuries; sums of them stay small
USD_MAX = 10**12

_TOP = ("problem", "placements", "makespan_seconds", "cost_usd", "savings_usd")
_PLACEMENT = ("task", "node", "nodes", "gpus", "start_seconds", "end_seconds")


def read_proposal(text: str | bytes) -> Proposal:
    """Return the proposal that JSON says.

    Raises:
        ProposalError: it is too long, no JSON, or says what no proposal can.
    """
    said = _table("the proposal", _parsed(text), _TOP)
    listed = said.get("placements")
    if not isinstance(listed, list):
        raise ProposalError("the proposal: 'placements' must be a list of {task, node, start_seconds}")
    if len(listed) > PLACEMENTS_MAX:
        raise ProposalError(f"the proposal has {len(listed):,} placements; propose no more than {PLACEMENTS_MAX:,}")
    claims = Claims(
        _seconds("the proposal", said, "makespan_seconds"), _micros(said, "cost_usd"), _micros(said, "savings_usd")
    )
    problem = _name("the proposal", said, "problem") if said.get("problem") is not None else None
    return Proposal(tuple(_placed(number, each) for number, each in enumerate(listed, 1)), claims, problem)


def _placed(number: int, said: object) -> Placed:
    where = f"placement {number}"
    table = _table(where, said, _PLACEMENT)
    start = _seconds(where, table, "start_seconds")
    if start is None:
        raise ProposalError(f"{where}: 'start_seconds' is missing; give the seconds after the plan's start")
    end = _seconds(where, table, "end_seconds")
    first, *others = _nodes(where, table)
    gpus = table.get("gpus")
    if gpus is not None and (
        isinstance(gpus, bool) or not isinstance(gpus, int | Decimal) or not 0 <= gpus <= SECONDS_MAX
    ):
        raise ProposalError(f"{where}: 'gpus' must be a number of GPUs, on all nodes of the task together")
    return Placed(_name(where, table, "task"), first, start, end, tuple(others), gpus)


def _nodes(where: str, table: Mapping[str, object]) -> list[str]:
    """Return the one node, or the several of a gang."""
    several = table.get("nodes")
    if several is None:
        return [_name(where, table, "node")]
    if not isinstance(several, list) or not 0 < len(several) <= PLACEMENTS_MAX or table.get("node") is not None:
        raise ProposalError(f"{where}: give 'node', or 'nodes' as a list of names for a task that runs on several")
    return [_name(where, {"nodes": one}, "nodes") for one in several]


def _parsed(text: str | bytes) -> object:
    size = len(text)
    if size > BYTES_MAX:
        raise ProposalError(f"the proposal has {size:,} characters; send no more than {BYTES_MAX:,}")
    try:
        return strict_json(text, BYTES_MAX, Decimal)
    except TooDeepError as error:
        raise ProposalError("the proposal is nested too deeply to be read") from error
    except (ValueError, ArithmeticError) as error:  # no UTF-8, no JSON, a number that no decimal can hold
        raise ProposalError(f"the proposal cannot be read as JSON: {plain(str(error))}") from error


def _table(where: str, said: object, known: Collection[str]) -> Mapping[str, object]:
    if not isinstance(said, dict):
        raise ProposalError(f"{where} must be a JSON object with {', '.join(known)}")
    for key in said:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it may have {', '.join(known)}"
            raise ProposalError(f"{where}: unknown field {plain(key)!r}; {hint}")
    return said


def _name(where: str, table: Mapping[str, object], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= NAME_LETTERS_MAX or not value.isprintable():
        raise ProposalError(f"{where}: {key!r} must be text of 1 to {NAME_LETTERS_MAX} printable characters")
    return value


def _seconds(where: str, table: Mapping[str, object], key: str) -> int | None:
    value = table.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > SECONDS_MAX:
        raise ProposalError(f"{where}: {key!r} must be a whole number of seconds, as in 10800 for three hours")
    return value


def _micros(table: Mapping[str, object], key: str) -> int | None:
    value = table.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not -USD_MAX <= value <= USD_MAX:
        raise ProposalError(f"the proposal: {key!r} must be an amount in dollars, as in 12.50")
    return int(value * MICROS)  # towards 0: what is left of a millionth decides nothing


_NAMES_TOLD = 5


def exact(seconds: int) -> str:
    """Return a time or a span to the second, and as the number that a proposal says: "3 h 00 min 10 s (10810 s)"."""
    hours, minutes, rest = abs(seconds) // 3600, abs(seconds) // 60 % 60, abs(seconds) % 60
    if not hours and not minutes:
        return f"{seconds} s"
    parts = [f"{hours:,} h"] if hours else []
    parts += [f"{minutes:02d} min" if hours else f"{minutes} min"] if minutes or rest else []
    parts += [f"{rest:02d} s"] if rest else []
    return f"{'-' if seconds < 0 else ''}{' '.join(parts)} ({seconds} s)"


def listed(names: Iterable[str]) -> str:
    """Return names with commas, the first few of many."""
    told = [plain(name) for name in names]
    rest = len(told) - _NAMES_TOLD
    return ", ".join(told) if rest <= 1 else f"{', '.join(told[:_NAMES_TOLD])} and {rest} more"


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the way out for a name that does not exist."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {plain(near[0])}?" if near else f"there are {listed(names)}"


Rule = Literal[
    "stale",  # made for another problem
    "unknown",  # a task or a node that does not exist
    "missing",  # a task without a place
    "twice",  # a task with several
    "fit",  # the node lacks what the task needs, has what it stays off, or is not where it must run
    "early",  # before the plan, the task's own earliest start, or the node is there
    "order",  # before the end of a task that it waits for
    "transfer",  # after that end, and before the data has arrived
    "capacity",  # tasks that run at one time need more than the node has, or than there are licences
    "away",  # while the node is away
    "deadline",
]


@dataclass(frozen=True, slots=True)
class Broken:
    """One rule that is broken: whom it is about, the figures, and the way out, as a sentence."""

    rule: Rule
    text: str
    tasks: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


_CENT_MICROS = 10_000


def corrections(proposal: Proposal, plan: Plan, savings_micros: int | None) -> Iterator[str]:
    """Yield a sentence for each claimed figure that is not what the plan comes to."""
    for placed in proposal.placements:
        end = plan.by_task[placed.task].end_seconds
        if placed.end_seconds is not None and placed.end_seconds != end:
            yield f"{placed.task} is said to end at {exact(placed.end_seconds)}; it ends at {exact(end)}"
    claims = proposal.claims
    if claims.makespan_seconds is not None and claims.makespan_seconds != plan.makespan_seconds:
        yield f"the plan is said to take {exact(claims.makespan_seconds)}; it takes {exact(plan.makespan_seconds)}"
    yield from _money("cost", claims.cost_micros, plan.cost_micros)
    yield from _money("save", claims.savings_micros, savings_micros)


def _money(verb: str, said: int | None, counted: int | None) -> Iterator[str]:
    if said is None:
        return
    if counted is None:
        why = "a price is not known" if verb == "cost" else "there is no plan to compare with, or a price is not known"
        yield f"the plan is said to {verb} {_usd(said)}; that cannot be checked: {why}"
    elif abs(said - counted) > _CENT_MICROS // 2:  # who says cents is right to the cent
        yield f"the plan is said to {verb} {_usd(said)}; it {verb}s {_usd(counted)}"


def _usd(micros: int) -> str:
    return f"{'-' if micros < 0 else ''}${dollars(abs(micros))}"


UNKNOWN_TOLD = 20  # each with the nearest name; who makes up more gets a list


def unknown_tasks(tasks: Collection[str], names: Sequence[str]) -> Iterator[Broken]:
    """Yield that there are no such tasks."""
    for name in names[:UNKNOWN_TOLD]:
        yield Broken("unknown", f"there is no task {plain(name)!r}; {nearest_name(name, tasks)}", (name,))
    if rest := names[UNKNOWN_TOLD:]:
        yield Broken("unknown", f"there are no tasks {listed(rest)} either; leave them out", tuple(rest))
