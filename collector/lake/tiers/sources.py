"""From which tier each part of a span is read: the coarsest that is fine enough, where it is there; else what is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US, MINUTE_US
from collector.errors import StoreError
from collector.lake.tiers.due import ROLLED
from collector.lake.tiers.pieces import Span
from collector.tier_tables import Tiered

if TYPE_CHECKING:
    from collector.store.session import Session

_RAW_US = 1_000_000  # the finest step that a chart has
_FINEST_FIRST = (("raw", _RAW_US), ("minutes", MINUTE_US), ("hours", HOUR_US))


@dataclass(frozen=True, slots=True)
class TierPiece:
    """A part of a span and the tier that it is read from: raw, minutes or hours."""

    size: str
    span: Span


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of a span in order of time, and the step of the grid that all of them can fill."""

    parts: tuple[TierPiece, ...]
    step_us: int
    start: int  # of the grid's first bucket
    count: int  # of buckets


@dataclass(frozen=True, slots=True)
class TableExtent:
    """What a store has of a table: samples and minutes from when on, and until when it is rolled up (microseconds)."""

    raw_from: int = 0
    minutes_from: int = 0
    rolled_until: int = 0

    @classmethod
    def of(cls, session: "Session", table: Tiered) -> "TableExtent":
        """Ask the store; one that nobody keeps up has samples alone. The answer is good for an hour.

        The newest hour may have been rolled up before it was over, and hours that wait have yet to be: both are read
        from the samples, as long as there are any. What has expired had been rolled up whole.

        Raises:
            StoreError: the store does not answer.
        """
        kept = "coalesce(max(kept_from) FILTER (table_name = '{}'), 0)"
        try:
            raw, minutes, rolled, waiting = session.row(
                f"""
                SELECT {kept.format(table.source.name)}, {kept.format(table.name("minutes"))},
                    (SELECT coalesce(max(upto), 0) FROM tier_marks WHERE collector = {ROLLED}),
                    (SELECT min(hour) FROM tier_due)
                FROM retention
                """
            )
        except StoreError as error:
            if "does not exist" in str(error):
                return cls()
            raise
        return cls(raw, minutes, max(raw, rolled if waiting is None else min(rolled, waiting)))


def planned(kept: TableExtent, span: Span, max_points: int) -> Plan:
    """Return how to fill a span with at most so many points, from as few rows as give them."""
    wanted = -(-(span.end - span.start) // max(1, max_points - 1))  # one is lost to the grid's edges
    size, step = next(((s, us) for s, us in reversed(_FINEST_FIRST) if us <= wanted), _FINEST_FIRST[0])
    step = max([step, *(dict(_FINEST_FIRST)[part.size] for part in _parts(kept, span, size))])
    step = -(-wanted // step) * step
    start = span.start // step * step
    return Plan(tuple(_parts(kept, Span(start, span.end), size)), step, start, -(-(span.end - start) // step))


def _parts(kept: TableExtent, span: Span, size: str) -> list[TierPiece]:
    """Cut a span where another tier must take over: coarser before what is kept, samples after what is rolled up."""
    edges = {
        "raw": (("hours", kept.minutes_from), ("minutes", kept.raw_from), ("raw", span.end)),
        "minutes": (("hours", kept.minutes_from), ("minutes", kept.rolled_until), ("raw", span.end)),
        "hours": (("hours", kept.rolled_until), ("raw", span.end)),
    }[size]
    parts, at = [], span.start
    for source, edge in edges:
        until = min(max(edge, at), span.end)
        if until > at:
            parts.append(TierPiece(source, Span(at, until)))
            at = until
    return parts
