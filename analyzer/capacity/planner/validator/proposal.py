"""A plan as somebody says it: nothing in it is believed."""

from dataclasses import dataclass


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
