"""What exchanges between hosts of one rack reach on this fabric: the yardstick of those that cross racks.

It is learned from the fleet's own runs, hour by hour, so that an hour's verdict can be made again from what is stored.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from analyzer.ledger.causes import exchange
from analyzer.ledger.thresholds import FABRIC_BACK_MS, FABRIC_DIGITS, Thresholds
from analyzer.ledger.windows import RunFacts, RunWindow

if TYPE_CHECKING:
    from collector.store.session import Session

_SEVERAL = -1  # no rate: parts of an hour were judged by different ones, and all of it is due once more

# The median of what was seen in the week up to the end of the hour.
_RATES = """
SELECT h.hour, (SELECT quantile_disc(r.bytes_per_second, 0.5) FROM in_rack_rates r
    WHERE r.window_start >= h.hour - $back AND r.window_start < h.hour + 3600000000) AS rate
FROM ({hours}) h ORDER BY h.hour
"""


def learn(session: "Session", windows: Iterable[RunWindow], facts: Mapping[str, RunFacts], limits: Thresholds) -> None:
    """Keep what these windows of runs within one rack were seen to reach."""
    seen = [
        (window.run_id, window.window_ms * 1000, rate)
        for window in windows
        if facts[window.run_id].racks == 1 and (rate := exchange.lesson(window, limits)) is not None
    ]
    session.load("in_rack_rates", ("run_id", "window_start", "bytes_per_second"), seen)


def rates(session: "Session", from_us: int, until_us: int) -> dict[int, int | None]:
    """Return the rate by hour (its first microsecond) in bytes a second of one host; None where none was seen."""
    hours = "SELECT unnest(range($from_us, $until_us, 3600000000)) AS hour"
    return _rates(session, hours, {"from_us": from_us, "until_us": until_us})


def _rates(session: "Session", hours: str, asked: dict[str, object]) -> dict[int, int | None]:
    found = session.rows(_RATES.format(hours=hours), asked | {"back": FABRIC_BACK_MS * 1000})
    return {hour: _rounded(rate) for hour, rate in found}


def keep(session: "Session", judged_by: Mapping[int, int | None]) -> None:
    """Write down by which rate the runs across racks of each hour were judged; by several, where others had another."""
    before = dict(
        session.rows(
            "SELECT hour, bytes_per_second FROM fabric_rates WHERE list_contains($hours::BIGINT[], hour)",
            {"hours": list(judged_by)},
        )
    )
    _write(session, {hour: _SEVERAL if before.get(hour, rate) != rate else rate for hour, rate in judged_by.items()})


def outdated(session: "Session", from_us: int) -> list[int]:
    """Return the hours from `from_us` on that were judged by another rate than is known now, and keep the new ones."""
    judged_by = dict(session.rows("SELECT hour, bytes_per_second FROM fabric_rates WHERE hour >= ?", [from_us]))
    now = _rates(session, "SELECT hour FROM fabric_rates WHERE hour >= $from_us", {"from_us": from_us})
    changed = {hour: rate for hour, rate in now.items() if rate != judged_by[hour]}
    _write(session, changed)
    return sorted(changed)


def _write(session: "Session", judged_by: Mapping[int, int | None]) -> None:
    session.load("fabric_rates", ("hour", "bytes_per_second"), list(judged_by.items()), replace=True)


def _rounded(rate: int | None) -> int | None:
    if rate is None:
        return None
    unit = 10 ** max(0, len(str(rate)) - FABRIC_DIGITS)
    return rate - rate % int(unit)
