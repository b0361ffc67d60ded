"""Findings over time: which id each has, when it was opened, closed and opened again, and the book of them.

It stays open through a gap of up to a day. The ledger judges a UTC day whole, because a habit needs a day to show; what
comes back within a day is the same loss, and a sweep of forty runs of one name is one finding, not forty.

It follows from the ledger alone, as the book does: of findings that would share an id, the one that was opened first
has it, of those opened in one hour the first by name.

Nothing is counted up: a pass that runs twice, or two analyzers, write the same book.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from agent.wire.units import DAY_US, HOUR_US
from analyzer.ids import LENGTH, LONGEST, short_id
from analyzer.queries.statements import run as run_sql
from analyzer.queries.statements import statements
from analyzer.states import BOOKINGS, Confidence
from analyzer.text.as_json import WHOLE, Micros

if TYPE_CHECKING:
    from analyzer.ledger.pending import Versions
    from collector.store.session import Session

QUIET_US = DAY_US  # so many whole hours without it close it; at least 23, so that no day is cut in two

State = Literal["open", "closed", "reopened"]


@dataclass(frozen=True, slots=True)
class SeenDay:
    """One finding in one UTC day. `hours` has a bit for each hour in which it was seen."""

    day: int
    hours: int
    milliseconds: int
    cost_micros: int | None
    high_ms: int
    medium_ms: int


@dataclass(frozen=True, slots=True)
class Spell:
    """One time from opening to closing. Times are microseconds UTC; `closed_at` is None while it is open."""

    opened_at: int  # the first hour in which it was seen
    updated_at: int  # the end of the last
    closed_at: int | None
    hours: int
    milliseconds: int
    cost_micros: int | None
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class Life:
    """When a finding was opened and closed, as of a moment: its present or last spell, and how many came before."""

    __pydantic_config__: ClassVar[ConfigDict] = WHOLE

    finding_id: str
    first_at: Annotated[Micros, Field(description="When it was first opened at all.")]
    opened_at: Micros
    updated_at: Annotated[Micros, Field(description="The end of the last hour in which it was seen.")]
    closed_at: Micros | None  # of one that goes on beyond the moment, `updated_at` is the moment itself
    reopened: int
    state: State = field(default="open", compare=False)

    def __post_init__(self) -> None:
        state = "closed" if self.closed_at is not None else "reopened" if self.reopened else "open"
        object.__setattr__(self, "state", state)


def spells(days: Sequence[SeenDay], known_until_us: int, ended_at: int | None) -> list[Spell]:
    """Return the spells of one finding, in order of time.

    `days` are ascending; `known_until_us` is the end of the newest complete hour. `ended_at` is when the last of its
    runs ended, None where one still runs or where it is a host's: then only silence closes it.
    """
    groups: list[list[SeenDay]] = []
    for day in days:
        if groups and _first_hour(day) - _last_hour_end(groups[-1][-1]) <= QUIET_US:
            groups[-1].append(day)
        else:
            groups.append([day])
    return [
        _spell(group, known_until_us, ended_at if place == len(groups) - 1 else None)
        for place, group in enumerate(groups)
    ]


def as_of(life: Sequence[Spell], finding_id: str, moment_us: int) -> Life | None:
    """Return what was known at a moment; None before it was first opened."""
    begun = [spell for spell in life if spell.opened_at < moment_us]
    if not begun:
        return None
    last = begun[-1]
    if last.closed_at is not None and last.closed_at > moment_us:
        last = replace(last, closed_at=None)
    updated = min(last.updated_at, moment_us)
    return Life(finding_id, begun[0].opened_at, last.opened_at, updated, last.closed_at, len(begun) - 1)


def _first_hour(day: SeenDay) -> int:
    return day.day + ((day.hours & -day.hours).bit_length() - 1) * HOUR_US


def _last_hour_end(day: SeenDay) -> int:
    return day.day + day.hours.bit_length() * HOUR_US


def _spell(group: Sequence[SeenDay], known_until_us: int, ended_at: int | None) -> Spell:
    updated = _last_hour_end(group[-1])
    closes = updated + QUIET_US
    if ended_at is not None:
        closes = min(closes, max(updated, -(-ended_at // HOUR_US) * HOUR_US))
    costs = [day.cost_micros for day in group if day.cost_micros is not None]
    milliseconds = sum(day.milliseconds for day in group)
    high, medium = sum(day.high_ms for day in group), sum(day.medium_ms for day in group)
    return Spell(
        _first_hour(group[0]),
        updated,
        closes if closes <= known_until_us else None,
        sum(day.hours.bit_count() for day in group),
        milliseconds,
        sum(costs) if costs else None,
        _confidence_of(high, medium, milliseconds - high - medium),
    )


def _confidence_of(high_ms: int, medium_ms: int, low_ms: int) -> Confidence:
    """Return the confidence of most of the time; of equals the higher."""
    if high_ms >= max(medium_ms, low_ms):
        return "high"
    return "medium" if medium_ms >= low_ms else "low"


LossKey = tuple[str, str | None, str, str | None]  # subject, team, state, cause
_LONGER = "SELECT DISTINCT subject, team, state, cause, finding_id FROM finding_book WHERE length(finding_id) > ?"


def finding_id(subject: str, team: str | None, state: str, cause: str | None, *, length: int = LENGTH) -> str:
    """Return the id of a finding, where no other had it first: made of what it is, and of nothing else."""
    return short_id("f", subject, team or "", state, cause or "", length=length)


def named(keys: Iterable[LossKey], kept: Mapping[LossKey, str] | None = None) -> dict[LossKey, str]:
    """Return an id of its own for each finding. `keys` are in order of opening; `kept` are the ids that some have."""
    ids = dict(kept or {})
    taken = set(ids.values())
    for key in keys:
        if key not in ids:
            ids[key] = _free(key, taken)
            taken.add(ids[key])
    return ids


def _free(key: LossKey, taken: set[str]) -> str:
    usual = (finding_id(*key, length=length) for length in range(LENGTH, LONGEST + 1))
    # Eight bytes of a digest can be met on purpose by who names runs: then a number goes into it as well.
    others = (short_id("f", *map(str, key), str(number), length=LONGEST) for number in count(2))
    return next(one for one in chain(usual, others) if one not in taken)


def longer_ids(session: "Session") -> dict[LossKey, str]:
    """Return the ids of the findings of this store that could not have the usual one; there are hardly ever any."""
    return {
        (who, team, state, cause): one for who, team, state, cause, one in session.rows(_LONGER, [len("f-") + LENGTH])
    }


# The status of an hour is no part of it: an hour that closes says what it said. Hashed twice: of several columns DuckDB
# combines the hashes by XOR, and of an even number of hours with one digest that would cancel out.
_CHANGED = """
WITH now AS (
    SELECT hour // $day_us * $day_us AS day,
        bit_xor(hash(hash(hour, input_digest)))::VARCHAR || ' ' || count(*) AS digest
    FROM ledger_hours GROUP BY ALL
)
SELECT coalesce(n.day, m.day), n.digest FROM now n FULL JOIN finding_days_made m USING (day)
WHERE n.digest IS DISTINCT FROM m.digest ORDER BY 1
"""
_BOOK = (
    "finding_id", "spell", "subject", "team", "state", "cause", "opened_at", "updated_at", "closed_at", "hours",
    "milliseconds", "cost_micros", "confidence", "rules_version",
)  # fmt: skip


def keep_findings(session: "Session", versions: "Versions") -> int:
    """Bring the book up to the ledger, in one transaction; return how many days of it were new or had changed.

    What it says follows from the ledger alone, and from no clock. `versions` name the rules where an hour of the ledger
    says none.
    """
    with session.transaction():
        changed = session.rows(_CHANGED, {"day_us": DAY_US})
        for day, digest in changed:
            _count_day(session, day, digest)
        _write(session, _rows(session, versions.rules))
    return len(changed)


def _count_day(session: "Session", day: int, digest: str | None) -> None:
    session.execute("DELETE FROM finding_days WHERE day = ?", [day])
    if digest is None:
        session.execute("DELETE FROM finding_days_made WHERE day = ?", [day])
    else:
        avoidable = [f"{b.state}/{b.cause}" for b in BOOKINGS if b.klass == "avoidable"]
        run_sql(session, "findings/history/count_day.sql", day=day, day_us=DAY_US, hour_us=HOUR_US, avoidable=avoidable)
        session.load("finding_days_made", ("day", "digest"), [(day, digest)], replace=True)


def _rows(session: "Session", rules: str) -> list[tuple[object, ...]]:
    (known_until,) = session.row(
        "SELECT coalesce(max(hour) + ?, 0) FROM ledger_hours WHERE status <> 'provisional'", [HOUR_US]
    )
    judged_by = dict(session.rows("SELECT hour, rules_version FROM ledger_hours"))
    days: dict[LossKey, list[SeenDay]] = defaultdict(list)
    ended: dict[LossKey, int | None] = {}
    (select,) = statements("findings/history/lives.sql")
    for subject, team, state, cause, *seen, ended_at in session.rows(select):
        days[subject, team, state, cause].append(SeenDay(*seen))
        ended[subject, team, state, cause] = ended_at  # of all its days the same
    lives = {key: spells(of_key, known_until, ended[key]) for key, of_key in days.items()}
    ids = named(sorted(lives, key=lambda key: (lives[key][0].opened_at, repr(key))))
    return [
        (ids[key], *_row(key, number, spell, judged_by.get(spell.updated_at - HOUR_US, rules)))
        for key, life in lives.items()
        for number, spell in enumerate(life, 1)
    ]


def _row(key: LossKey, number: int, spell: Spell, rules: str) -> tuple[object, ...]:
    return (
        number, *key, spell.opened_at, spell.updated_at, spell.closed_at, spell.hours, spell.milliseconds,
        spell.cost_micros, spell.confidence, rules,
    )  # fmt: skip


def _write(session: "Session", rows: list[tuple[object, ...]]) -> None:
    """Write the rows that say something new and remove those that are no more; most of the book stays untouched."""
    now = {(row[0], row[1]): row for row in rows}
    before = {(row[0], row[1]): row for row in session.rows(f"SELECT {', '.join(_BOOK)} FROM finding_book")}
    gone = sorted(f"{one} {spell}" for one, spell in before.keys() - now.keys())
    if gone:
        session.execute("DELETE FROM finding_book WHERE list_contains(?, finding_id || ' ' || spell)", [gone])
    new = [row for key, row in sorted(now.items()) if before.get(key) != row]
    session.load("finding_book", _BOOK, new, replace=True)
