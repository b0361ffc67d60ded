"""Which stretches of time a store has of a server, and which are still to be pulled: UTC days, less what is there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import DAY_US

if TYPE_CHECKING:
    from collector.store.database import Store


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, microseconds UTC, half-open. `batch` is that of the parcel that holds it, if one does."""

    since: int
    until: int
    batch: int | None = None


def stream_of(source: str, span: Span) -> str:
    """Return the name under which the parcel of a span is known."""
    return f"prometheus:{source}:{span.since}-{span.until}"


def covered(store: "Store", source: str) -> list[Span]:
    """Return the spans that a store has of a source, in order.

    Raises:
        StoreError: the store cannot be read.
    """
    prefix = f"prometheus:{source}:"
    with store.session() as session:
        found = session.rows("SELECT stream, batch FROM receipts WHERE starts_with(stream, ?)", [prefix])
    spans = [_span(stream.removeprefix(prefix), batch) for stream, batch in found]
    return sorted((span for span in spans if span is not None), key=lambda span: span.since)


def days(since: int, until: int, held: Sequence[Span] = ()) -> list[Span]:
    """Return what lies between two times, cut at each midnight and where the store has it already."""
    spans: list[Span] = []
    at = since
    for span in [span for span in held if span.until > since and span.since < until]:
        spans += _cut(at, min(span.since, until))
        spans.append(span)
        at = max(at, span.until)
    return spans + _cut(at, until)


def windows(span: Span, length: int) -> list[tuple[int, int]]:
    """Return a span cut into windows of at most this length."""
    return [(at, min(at + length, span.until)) for at in range(span.since, span.until, length)]


def _cut(since: int, until: int) -> list[Span]:
    spans = []
    while since < until:
        end = min(until, (since // DAY_US + 1) * DAY_US)
        spans.append(Span(since, end))
        since = end
    return spans


def _span(name: str, batch: int) -> Span | None:
    since, dash, until = name.partition("-")
    return Span(int(since), int(until), batch) if dash and since.isdecimal() and until.isdecimal() else None
