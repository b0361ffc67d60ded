"""Which UTC days the ledger must make anew, so that the same input gives the same ledger however it arrived.

Those that anything new touches, those judged by other rules, those that an earlier pass could not settle or never
reached, and all that come after any of them: a run's yardstick is made of what came before.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.closing import HOUR_US, LOOK_AHEAD_US

if TYPE_CHECKING:
    from collector.store.session import Session

DAY_US = 86_400_000_000
MARGIN_US = HOUR_US  # how far beyond its own a day's samples are read: quiet that reaches in is seen whole

# What arrived since the last pass, and which span of time each row touches.
_TOUCHED = """
WITH fresh AS (
    SELECT started_at - $margin_us AS from_us, ended_at + $margin_us AS until_us FROM gpu_samples WHERE batch > $batch
    UNION ALL SELECT started_at, ended_at FROM host_samples WHERE batch > $batch
    UNION ALL SELECT started_at, ended_at FROM disk_samples WHERE batch > $batch
    UNION ALL SELECT started_at, ended_at FROM network_samples WHERE batch > $batch
    UNION ALL SELECT started_at, ended_at FROM process_samples WHERE batch > $batch
    UNION ALL SELECT started_at, ended_at FROM run_samples WHERE batch > $batch
    UNION ALL SELECT started_at, ended_at FROM service_samples WHERE batch > $batch
    UNION ALL SELECT started_at, ended_at FROM progress WHERE batch > $batch
    UNION ALL SELECT started_at, ended_at FROM node_states WHERE batch > $batch
    UNION ALL SELECT started_at, ended_at FROM allocations WHERE batch > $batch AND started_at IS NOT NULL
    UNION ALL SELECT started_at, NULL FROM inventory WHERE batch > $batch
    UNION ALL SELECT owned_from, owned_until FROM ownership WHERE batch > $batch
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
    up_to_batch: int


def pending(session: "Session", versions: Versions) -> Pending:
    """Return the days to make; see the head of this module."""
    (done,) = session.row("SELECT coalesce(max(analysed_batch), 0) FROM analysis")
    (last,) = session.row("SELECT coalesce(max(batch), 0) FROM receipts")
    (known,) = session.row("SELECT count(*) FROM known WHERE until_us > from_us")
    if not known:
        return Pending([], last)
    fresh = {"batch": done, "day_us": DAY_US, "margin_us": MARGIN_US}
    days = {day for (day,) in session.rows(_TOUCHED, fresh)} if last > done else set()
    stale = {"day_us": DAY_US, "rules": versions.rules, "prices": versions.prices}
    days |= {day for (day,) in session.rows(_STALE, stale)}
    unsettled: dict[str, object] = {"day_us": DAY_US, "hour_us": HOUR_US, "settled_us": HOUR_US + LOOK_AHEAD_US}
    days |= {day for (day,) in session.rows(_UNSETTLED, unsettled)}
    if days:
        made = session.rows("SELECT DISTINCT hour // ? FROM ledger_hours", [DAY_US])
        days |= {day for (day,) in made if day > min(days)}
    first, end = session.row("SELECT min(from_ms) * 1000, max(until_ms) * 1000 FROM owned WHERE until_ms > from_ms")
    return Pending([day * DAY_US // 1000 for day in sorted(days) if _overlaps(day, first, end)], last)


def _overlaps(day: int, first: int | None, end: int | None) -> bool:
    """Say whether anything was owned in that day: runs may have begun before."""
    return first is not None and end is not None and (day + 1) * DAY_US > first and day * DAY_US < end
