"""The runs of the same name before one: what it may be compared with, and what their work cost."""

from dataclasses import dataclass

from agent.wire.units import MICROS
from analyzer.recommendations.outcome.work import Work, works_of_runs
from analyzer.text.rounding import nearest
from collector.store.session import Session

_SHOWN = 2


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """One run. Tokens are its own word; its cost in millionths is None where some of its time has no price."""

    run_id: str
    milliseconds: int
    cost_micros: int | None
    tokens: int | None

    @property
    def micros_per_million_tokens(self) -> int | None:
        """What a million of its tokens cost; None where either is not known."""
        return nearest(self.cost_micros * MICROS, self.tokens) if self.cost_micros and self.tokens else None


def earlier_runs(
    session: Session, name: str | None, team: str | None, started_at: int | None
) -> tuple[EarlierRun, ...]:
    """Return the last runs of this name and team that had ended when one began, newest first; of no name none."""
    if name is None or started_at is None:
        return ()
    rows = session.rows(
        "SELECT run_id FROM runs WHERE name = ? AND team IS NOT DISTINCT FROM ? AND ended_at <= ? "
        f"ORDER BY started_at DESC, run_id LIMIT {_SHOWN}",
        [name, team, started_at],
    )
    works = works_of_runs(session, [run_id for (run_id,) in rows])
    return tuple(_earlier(work) for work in reversed(works))


def _earlier(work: Work) -> EarlierRun:
    paid = [spent.micros for spent in work.spent if spent.micros is not None]
    is_priced = len(paid) == len(work.spent)
    return EarlierRun(work.run_id, work.milliseconds, sum(paid) if is_priced else None, work.units("tokens"))
