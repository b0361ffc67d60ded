"""A period's GPU time by team, model or another word on its runs, and by what it was measured."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from analyzer.errors import ConfigError
from analyzer.period import Period
from analyzer.queries.ledger_query import (
    COLUMNS,
    Breakdown,
    BreakdownEntry,
    Counted,
    fold,
    known_sum,
    ledger_source,
    within,
)
from analyzer.queries.statements import booked
from analyzer.states import Class
from collector.store.session import Session

By = Literal["team", "user", "project", "model", "stage", "queue", "node-group", "run"]
GROUPS_SHOWN = 20  # in full; what is beyond is one line, so that the columns still sum

# What people call runs of which it is not known.
_UNKNOWN: dict[By, str] = {
    "team": "unmapped",
    "user": "no user named",
    "project": "no project",
    "model": "no model named",
    "stage": "no stage",
    "queue": "no queue",
    "node-group": "no node group",
    "run": "no run",
}


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group. `name` None with `held` is GPU time of which it is not known; without `held`, that nobody held."""

    name: str | None
    held: bool
    breakdown: Breakdown


@dataclass(frozen=True, slots=True)
class Groups:
    """All groups of a period, dearest first, then what has no name, then what nobody held.

    `called` has the names of runs by their ids.
    """

    by: By
    rows: tuple[GroupRow, ...]
    called: Mapping[str, str] = field(default_factory=dict)

    def words(self, row: GroupRow) -> str:
        """Return what people call a row."""
        if not row.held:
            return "nobody (not allocated)"
        if row.name is None:
            return _UNKNOWN[self.by]
        if self.by != "run":
            return row.name
        return " ".join([*([self.called[row.name]] if row.name in self.called else []), row.name.rsplit("/", 1)[-1]])

    def shortened(self, most: int = GROUPS_SHOWN) -> "Groups":
        """Return the dearest groups, and in one line the others that have a name."""
        named = [row for row in self.rows if row.held and row.name is not None]
        beyond = named[most - 1 :] if len(named) > most else []
        if not beyond:
            return self
        rest = [row for row in self.rows if not row.held or row.name is None]
        other = GroupRow(f"{len(beyond)} others", True, Breakdown(_merged(beyond)))
        return Groups(self.by, (*named[: most - 1], other, *rest), self.called)


def checked_by(word: str | None) -> By | None:
    """Return what rows are grouped by.

    Raises:
        ConfigError: nothing is grouped by this.
    """
    if word is None:
        return None
    for by in get_args(By):
        if word.replace("_", "-") == by:
            found: By = by
            return found
    raise ConfigError(f"by is one of {', '.join(get_args(By))}, not {word!r}")


def groups(session: Session, period: Period, by: By) -> Groups:
    """Return the groups of a period. A node group is of hosts, so that what nobody held is in it too."""
    dimension = by.replace("-", "_")
    source = ledger_source(("l.hour >= $start", "l.hour < $end"), (dimension,), ("r",))
    held = "true" if by == "node-group" else "l.run_id IS NOT NULL"
    rows = session.rows(
        f"SELECT {COLUMNS[dimension][0]}, {held}, l.state, l.cause, sum(l.milliseconds), sum(l.cost_micros), "
        f"min(l.name) {source} GROUP BY 1, 2, 3, 4, l.cost_micros IS NULL",
        {"start": period.start, "end": period.end},
    )
    counted: dict[tuple[str | None, bool], list[Counted]] = {}
    for name, is_held, state, cause, milliseconds, cost, _ in rows:
        counted.setdefault((name, is_held), []).append((state, cause, milliseconds, cost))
    found = [GroupRow(name, is_held, Breakdown(fold(counts))) for (name, is_held), counts in counted.items()]
    called = {name: row[-1] for name, *row in rows if by == "run" and name is not None and row[-1]}
    return Groups(by, tuple(sorted(found, key=_place)), dict(sorted(called.items())))


def _place(row: GroupRow) -> tuple[bool, bool, int, int, str]:
    cost = row.breakdown.cost_micros or 0
    return not row.held, row.name is None, -cost, -row.breakdown.milliseconds, row.name or ""


def _merged(rows: Iterable[GroupRow]) -> tuple[BreakdownEntry, ...]:
    """Return the entries of several groups as those of one; shown are their sums alone."""
    sums: dict[tuple[Class, str], BreakdownEntry] = {}
    for entry in (entry for row in rows for entry in row.breakdown.entries):
        before = sums.get((entry.klass, entry.label), BreakdownEntry(entry.klass, entry.label, 0, None))
        sums[entry.klass, entry.label] = BreakdownEntry(
            entry.klass,
            entry.label,
            before.milliseconds + entry.milliseconds,
            known_sum((before.cost_micros, entry.cost_micros)),
            before.unpriced_milliseconds + entry.unpriced_milliseconds,
        )
    return tuple(sums.values())


def teams(session: Session, period: Period) -> tuple[GroupRow, ...]:
    """Return all teams that held GPUs, dearest first, then unmapped runs, then what nobody held."""
    return groups(session, period, "team").rows


_JUDGED = """
WITH held AS (
    SELECT run_id, team, sku, sum(milliseconds)::HUGEINT AS ms FROM {ledger} l
    WHERE {where} AND run_id IS NOT NULL AND state NOT IN ('unobserved', 'broken') GROUP BY run_id, team, sku
), told AS (
    SELECT run_id, sum(measured_ms)::HUGEINT AS all_ms, sum(sm_ms)::HUGEINT AS sm_ms,
        sum(measured_ms) FILTER (sm_ms IS NOT NULL)::HUGEINT AS known_ms FROM run_doings WHERE {where} GROUP BY run_id
), judged AS (
    SELECT team, sku, ms, ms * known_ms // nullif(all_ms, 0) AS known, ms * sm_ms // nullif(all_ms, 0) AS sm
    FROM held LEFT JOIN told USING (run_id)
)
SELECT team, sku, sum(ms)::BIGINT, sum(sm)::BIGINT, sum(known - sm)::BIGINT
FROM judged GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class MeasuredWith:
    """Measured GPU milliseconds of one kind of GPU, and by what they were judged.

    `sm_activity` and `utilization` are None where an earlier release counted all of it, and fall short of
    `milliseconds` where it counted a part.
    """

    sku: str | None
    milliseconds: int
    sm_activity: int | None
    utilization: int | None


def by_what(session: Session, period: Period) -> tuple[MeasuredWith, ...]:
    """Return the measured time that runs held by kind of GPU, most first."""
    return _by_kind(judged for _, judged in _rows(session, period))


def by_what_of_teams(session: Session, period: Period) -> dict[str, tuple[MeasuredWith, ...]]:
    """Return the same of each team's runs."""
    found: dict[str, list[MeasuredWith]] = {}
    for team, judged in _rows(session, period):
        if team is not None:
            found.setdefault(team, []).append(judged)
    return {team: _by_kind(own) for team, own in found.items()}


def _rows(session: Session, period: Period) -> list[tuple[str | None, MeasuredWith]]:
    where, values = within(period)
    return [
        (team, MeasuredWith(*row))
        for team, *row in session.rows(_JUDGED.format(ledger=booked("ledger"), where=where), [*values, *values])
    ]


def _by_kind(every: Iterable[MeasuredWith]) -> tuple[MeasuredWith, ...]:
    kinds: dict[str | None, list[MeasuredWith]] = {}
    for one in every:
        kinds.setdefault(one.sku, []).append(one)
    sums = [
        MeasuredWith(
            sku,
            sum(one.milliseconds for one in own),
            known_sum(one.sm_activity for one in own),
            known_sum(one.utilization for one in own),
        )
        for sku, own in kinds.items()
    ]
    return tuple(sorted(sums, key=lambda one: (-one.milliseconds, one.sku or "")))
