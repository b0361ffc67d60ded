"""How much of what each team held did useful work: utilization by compute, not by allocation."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.wire.units import PERMILLE
from analyzer.queries.statements import statements
from analyzer.states import words_of
from analyzer.text.rounding import nearest

if TYPE_CHECKING:
    from analyzer.period import Period
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Compute:
    """What one team held, of it what was not measured and what was useful, in GPU milliseconds; and its cost.

    `activity_permille` is the mean activity of the SMs where it is measured, else of NVML's utilization. `team` None is
    unmapped. None is not known.
    """

    team: str | None
    milliseconds: int
    unobserved: int
    useful: int
    micros: int | None
    activity_permille: int | None
    useful_permille_before: int | None = None

    @property
    def useful_permille(self) -> int | None:
        """The useful share of what was measured."""
        measured = self.milliseconds - self.unobserved
        return nearest(PERMILLE * self.useful, measured) if measured > 0 else None

    @property
    def micros_a_useful_hour(self) -> float | None:
        """What a GPU-hour of useful work cost, with all that was held beside it."""
        return None if self.micros is None or not self.useful else self.micros * 3_600_000 / self.useful


def compute_by_team(session: "Session", period: "Period", before: "Period | None") -> tuple[Compute, ...]:
    """Return every team that held GPUs, dearest first; `before` is what they are compared with, where it is known."""
    then = {one.team: one.useful_permille for one in _read(session, before)} if before is not None else {}
    return tuple(replace(one, useful_permille_before=then.get(one.team)) for one in _read(session, period))


def _read(session: "Session", period: "Period") -> list[Compute]:
    (query,) = statements("finops/unit_cost/compute.sql")
    span = {"start": period.start, "end": period.end, "useful": words_of("useful")}
    return [Compute(*row) for row in session.rows(query, span)]
