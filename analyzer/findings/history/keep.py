"""Keep the book of findings: after each pass, the days of the ledger that changed, and from all days the lives.

Nothing is counted up: a pass that runs twice, or two analyzers, write the same book.
"""

from collections import defaultdict
from typing import TYPE_CHECKING

from agent.wire.units import DAY_US, HOUR_US
from analyzer.findings.history.life import SeenDay, Spell, spells
from analyzer.findings.history.naming import LossKey, named
from analyzer.queries.statements import run as run_sql
from analyzer.queries.statements import statements
from analyzer.states import BOOKINGS

if TYPE_CHECKING:
    from analyzer.ledger.pending import Versions
    from collector.store.session import Session

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
