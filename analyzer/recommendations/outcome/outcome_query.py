"""Read what runs did on either side of a moment: from the ledger, and from what they say of themselves."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent.wire.units import HOUR_US
from analyzer.queries.ledger_query import known_sum
from analyzer.queries.statements import statements
from analyzer.recommendations.outcome.work import Spent, Work
from collector.store.session import Session

_FOREVER = 2**62
_OTHERS_MOST = 400  # runs that were not changed; more would say no more
_RUNS = """
SELECT run_id, coalesce(name, run_id), team, started_at, ended_at, exit_status, gpus FROM runs
WHERE {which} AND started_at < $until AND coalesce(ended_at, $until) > $from ORDER BY started_at, run_id
"""
_NAMED = "coalesce(name, run_id) = $name AND team IS NOT DISTINCT FROM $team"
_LIKE = (
    "coalesce(name, run_id) <> $name AND sku IS NOT DISTINCT FROM $sku AND stage IS NOT DISTINCT FROM $stage "
    "AND split_part(run_id, '/', 2) = $cluster AND NOT list_contains($changed::VARCHAR[], coalesce(name, run_id))"
)


@dataclass(frozen=True, slots=True)
class MomentWindow:
    """A moment, and how far to look on either side; microseconds UTC."""

    start: int
    moment: int
    end: int

    @property
    def cut(self) -> int:
        """The moment rounded up to a whole hour, as the ledger has it: where a run that goes on is divided."""
        return -(-self.moment // HOUR_US) * HOUR_US

    def values(self) -> dict[str, object]:
        """Return it as the parameters of a query."""
        return {"from": self.start // HOUR_US * HOUR_US, "cut": self.cut, "until": self.end}

    def side(self, started_at: int, ended_at: int | None) -> bool | None:
        """Return whether a run lies after the moment; None where it went on through it."""
        if started_at >= self.moment:
            return True
        return False if ended_at is not None and ended_at <= self.moment else None


def works_of_name(session: Session, name: str, team: str | None, around: MomentWindow) -> list[Work]:
    """Return what all runs of a name and team did on either side, in order of their starts."""
    rows = session.rows(
        _RUNS.format(which=_NAMED), {"name": name, "team": team, "from": around.start, "until": around.end}
    )
    return _works(session, rows, around)


def works_of_runs(session: Session, run_ids: Sequence[str]) -> list[Work]:
    """Return what these runs did in all, in order of their starts; each is told as after."""
    rows = session.rows(
        _RUNS.format(which="list_contains($runs::VARCHAR[], run_id)"),
        {"runs": list(run_ids), "from": 0, "until": _FOREVER},
    )
    return _works(session, rows, MomentWindow(0, 0, _FOREVER))


def works_like(
    session: Session, name: str, run_id: str, changed: Sequence[str], around: MomentWindow
) -> dict[str, list[Work]]:
    """Return what runs of other names did, by name: of the same cluster, stage and kind of GPU as this run.

    Names that were `changed` themselves meanwhile are left out.
    """
    known = session.rows("SELECT sku, stage FROM runs WHERE run_id = ?", [run_id])
    if not known:
        return {}
    cluster = run_id.split("/")[1] if run_id.count("/") >= 2 else ""
    values = {"name": name, "sku": known[0][0], "stage": known[0][1], "cluster": cluster, "changed": list(changed)}
    rows = session.rows(_RUNS.format(which=_LIKE), values | {"from": around.start, "until": around.end})
    found: dict[str, list[Work]] = defaultdict(list)
    for work in _works(session, rows[-_OTHERS_MOST:], around):
        found[work.name].append(work)
    return dict(found)


def _works(session: Session, rows: Sequence[tuple[Any, ...]], around: MomentWindow) -> list[Work]:
    if not rows:
        return []
    asked = around.values() | {"runs": [row[0] for row in rows]}
    sides = {row[0]: around.side(row[3], row[4]) for row in rows}
    (spent_sql,), (told_sql,) = (
        statements("recommendations/outcome/spent.sql"),
        statements("recommendations/outcome/told.sql"),
    )
    spent: dict[tuple[str, bool], list[Spent]] = defaultdict(list)
    for run_id, sku, is_after, milliseconds, micros in session.rows(spent_sql, asked):
        spent[run_id, _side(sides[run_id], is_after)].append(Spent(sku, milliseconds, micros))
    told: dict[tuple[str, bool], list[int | None]] = {}
    for run_id, is_after, *counts in session.rows(told_sql, asked):
        key = (run_id, _side(sides[run_id], is_after))
        told[key] = [known_sum(both) for both in zip(told.get(key, [None] * 3), counts, strict=True)]
    found = []
    for run_id, name, team, started_at, ended_at, exit_status, gpus in rows:
        for is_after in (False, True):
            if own := spent.get((run_id, is_after)):
                is_whole = sides[run_id] is not None and ended_at is not None
                is_cut = (run_id, not is_after) in spent
                tokens, samples, steps = told.get((run_id, is_after), [None] * 3)
                facts = (run_id, name, team, started_at, is_after, is_whole, is_cut, exit_status)
                found.append(Work(*facts, tuple(own), tokens, samples, steps, gpus))
    return found


def _side(whole: bool | None, by_hour: bool) -> bool:
    return by_hour if whole is None else whole
