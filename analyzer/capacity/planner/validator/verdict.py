"""What the validator says of a proposal."""

from dataclasses import dataclass
from typing import Literal

from analyzer.capacity.planner.plan import Plan

Rule = Literal[
    "stale",  # made for another problem
    "unknown",  # a task or a node that does not exist
    "missing",  # a task without a place
    "twice",  # a task with several
    "fit",  # the node lacks what the task needs, has what it stays off, or is not where it must run
    "early",  # before the plan, the task's own earliest start, or the node is there
    "order",  # before the end of a task that it waits for
    "transfer",  # after that end, and before the data has arrived
    "capacity",  # tasks that run at one time need more than the node has
    "deadline",
]


@dataclass(frozen=True, slots=True)
class Broken:
    """One rule that is broken: whom it is about, the figures, and the way out, as a sentence."""

    rule: Rule
    text: str
    tasks: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a proposal may be followed, each broken rule, and the proposal in our own figures.

    `plan` has the starts that were proposed and ends, transfers and cost counted anew; None where a task is unknown,
    missing, placed twice or on an unknown node. `corrected` are sentences: figures that were claimed and are wrong. A
    wrong figure alone does not make a plan invalid, for ours stands in its place. `savings_micros` is against the plan
    that this one replaces; None where there is none, or a price is not known.
    """

    is_valid: bool
    broken: tuple[Broken, ...]
    corrected: tuple[str, ...]
    plan: Plan | None
    savings_micros: int | None
