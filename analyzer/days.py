"""Which UTC days the ledger must make anew, so that the same input gives the same ledger however it arrived.

Those that anything new touches, those judged by other rules, those that an earlier pass could not settle or never
reached, and all that come after any of them: a run's yardstick is made of what came before.

Days whose samples have expired are left as they are, whatever is learned of them: made anew, they would say that
nothing had been measured. From when on there are samples is written down by who drops them (the table `retention`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.closing import HOUR_US, LOOK_AHEAD_US
from collector.numbering import COLLECTORS
from collector.tiers.retained import kept_from

if TYPE_CHECKING:
    from collector.store.session import Session

DAY_US = 86_400_000_000
_COLLECTOR = COLLECTORS - 1  # the bits of a batch's number that say who took it
MARGIN_US = HOUR_US  # how far beyond its own a day's samples are read: quiet that reaches in is seen whole

_NEW = "batch > $batch AND batch & 255 = $collector"
_SPANNED = (
    "host_samples",
    "disk_samples",
    "network_samples",
    "process_samples",
    "run_samples",
    "service_samples",
    "progress",
    "node_states",
)

# What arrived since the last pass, and which span of time each row touches. A name that is new touches what is known by
# it, and by the names that lead to it.
_TOUCHED = f"""
WITH named AS (
    SELECT alias_run_id FROM run_aliases WHERE {_NEW}
    UNION SELECT l.alias_run_id FROM run_aliases l JOIN run_aliases r ON r.alias_run_id = l.run_id
        WHERE r.batch > $batch AND r.batch & 255 = $collector
), fresh AS (
    SELECT started_at - $margin_us AS from_us, ended_at + $margin_us AS until_us FROM gpu_samples WHERE {_NEW}
    {" ".join(f"UNION ALL SELECT started_at, ended_at FROM {table} WHERE {_NEW}" for table in _SPANNED)}
    UNION ALL SELECT started_at, ended_at FROM allocations WHERE {_NEW} AND started_at IS NOT NULL
    UNION ALL SELECT started_at, ended_at FROM allocations JOIN named ON alias_run_id = run_id
        WHERE started_at IS NOT NULL
    UNION ALL SELECT started_at, NULL FROM inventory WHERE {_NEW}
    UNION ALL SELECT owned_from, owned_until FROM ownership WHERE {_NEW}
), clipped AS (
    SELECT greatest(f.from_us, k.from_us) AS from_us, least(coalesce(f.until_us, k.until_us), k.until_us) AS until_us
    FROM fresh f CROSS JOIN known k
), spans AS (
    SELECT DISTINCT from_us // $day_us AS first_day, greatest(until_us - 1, from_us) // $day_us AS last_day
    FROM clipped WHERE until_us > from_us
)
SELECT DISTINCT unnest(range(first_day, last_day + 1)) AS day FROM spans ORDER BY day
"""

_STALE = """
SELECT DISTINCT hour // $day_us FROM ledger_hours
WHERE rules_version <> $rules OR price_version IS DISTINCT FROM $prices
"""

# Hours that were judged before all was known that bears on them, and owned hours that no pass has reached: between the
# last sample and the next, nothing arrives that could touch them.
_UNSETTLED = """
SELECT DISTINCT hour // $day_us FROM ledger_hours CROSS JOIN known
WHERE status = 'provisional' AND hour + $settled_us <= known.until_us
UNION
SELECT DISTINCT hour // $day_us FROM (
    SELECT unnest(range(greatest(o.from_us, k.from_us // $day_us * $day_us) // $hour_us * $hour_us,
        o.until_us, $hour_us)) AS hour
    FROM (SELECT DISTINCT from_ms * 1000 AS from_us, until_ms * 1000 AS until_us FROM owned) o CROSS JOIN known k)
WHERE hour NOT IN (SELECT hour FROM ledger_hours)
"""


@dataclass(frozen=True, slots=True)
class Versions:
    """By what the ledger is judged and priced."""

    rules: str
    prices: str


@dataclass(frozen=True, slots=True)
class Pending:
    """First milliseconds of the days to make, ascending, and the receipt up to which they then are made."""

    days: list[int]
    up_to_batches: list[int]  # the newest of each collector


def pending(session: "Session", versions: Versions) -> Pending:
    """Return the days to make; see the head of this module."""
    done = {batch & _COLLECTOR: batch for (batch,) in session.rows("SELECT analysed_batch FROM analysis")}
    last = [batch for (batch,) in session.rows(f"SELECT max(batch) FROM receipts GROUP BY batch & {_COLLECTOR}")]
    (known,) = session.row("SELECT count(*) FROM known WHERE until_us > from_us")
    if not known:
        return Pending([], last)
    days = _touched(session, done, last)
    stale = {"day_us": DAY_US, "rules": versions.rules, "prices": versions.prices}
    days |= {day for (day,) in session.rows(_STALE, stale)}
    unsettled: dict[str, object] = {"day_us": DAY_US, "hour_us": HOUR_US, "settled_us": HOUR_US + LOOK_AHEAD_US}
    days |= {day for (day,) in session.rows(_UNSETTLED, unsettled)}
    first_us = _first_judgeable(session)
    days = {day for day in days if day * DAY_US >= first_us}
    if days:
        made = session.rows("SELECT DISTINCT hour // ? FROM ledger_hours", [DAY_US])
        days |= {day for (day,) in made if day > min(days)}
    first, end = session.row("SELECT min(from_ms) * 1000, max(until_ms) * 1000 FROM owned WHERE until_ms > from_ms")
    return Pending([day * DAY_US // 1000 for day in sorted(days) if _overlaps(day, first, end)], last)


def _touched(session: "Session", done: dict[int, int], last: list[int]) -> set[int]:
    """Return the days that what arrived since touches, a collector after another: their batches are numbered apart."""
    days: set[int] = set()
    for newest in last:
        before = done.get(newest & _COLLECTOR, -1)
        if newest > before:
            fresh: dict[str, object] = {"batch": before, "collector": newest & _COLLECTOR}
            fresh |= {"day_us": DAY_US, "margin_us": MARGIN_US}
            days |= {day for (day,) in session.rows(_TOUCHED, fresh)}
    return days


def _first_judgeable(session: "Session") -> int:
    """Return the microsecond from which days still have all their samples, those that reach in from before included."""
    kept = kept_from(session, ("gpu_samples", *_SPANNED))
    return kept + MARGIN_US if kept else 0


def _overlaps(day: int, first: int | None, end: int | None) -> bool:
    """Say whether anything was owned in that day: runs may have begun before."""
    return first is not None and end is not None and (day + 1) * DAY_US > first and day * DAY_US < end
