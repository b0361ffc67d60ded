"""A plan as somebody proposes it, read of JSON that may come from anybody: small, strict, and believed in nothing."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from difflib import get_close_matches
from hashlib import sha256

from agent.wire.bounded import TooDeepError
from agent.wire.units import MICROS
from analyzer.capacity.planner.problem import Problem, ProposalError
from analyzer.settings.bounded import strict_json
from analyzer.text.words import plain


@dataclass(frozen=True, slots=True)
class Placed:
    """One task is said to start on a node, that many seconds after the plan's start. Neither name need exist."""

    task: str
    node: str
    start_seconds: int
    end_seconds: int | None = None  # None: not said; it follows from the start


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
_FROM_NOW = {"starts_at", "deadline_seconds", "earliest_start_seconds", "available_from_seconds", "start_seconds"}


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
_PLACEMENT = ("task", "node", "start_seconds", "end_seconds")


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
    return Placed(_name(where, table, "task"), _name(where, table, "node"), start, end)


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
