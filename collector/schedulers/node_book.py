"""What the store has been told of the states of hosts: intervals that abut, told when they end or have lasted long.

A row is written when a state changes, and otherwise every ten minutes (a host that is out of service) or every hour
(one that is up): a thousand hosts that are well then cost a thousand rows an hour, however often they are asked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import SECOND_US
from collector.schedulers.poll import Row

if TYPE_CHECKING:
    from collector.store.session import Session

_GAP_POLLS = 3  # of silence, after which a state is no longer bridged
_UP_TOLD_US = 3600 * SECOND_US
_OTHER_TOLD_US = 600 * SECOND_US
_LONGEST_US = 30 * 86_400 * SECOND_US  # of one row; the collector refuses more than 32 days


@dataclass(frozen=True, slots=True)
class NodeState:
    """One host: `state` is up, drained, reserved or down; `since` is when its reason was set, microseconds UTC."""

    node: str
    state: str
    reason: str | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """How long a host has been seen in a state, and until when that was told; microseconds UTC."""

    state: str
    reason: str | None
    told_until: int
    seen_until: int


class NodeBook:
    """Turns what is seen at each poll into intervals. `gap_us` of silence is no longer bridged."""

    def __init__(self, gap_us: int, told: Mapping[str, Span] | None = None) -> None:
        self._gap = gap_us
        self._spans: dict[str, Span] = dict(told or {})
        self._next: dict[str, Span] = {}

    @classmethod
    def read(cls, session: "Session", every_seconds: float) -> "NodeBook":
        """Return what the store was told last of each host, for a source that is asked this often."""
        rows = session.rows(
            """
            SELECT node, state, reason, ended_at FROM node_states WHERE state IS NOT NULL
            QUALIFY row_number() OVER (PARTITION BY node ORDER BY ended_at DESC, batch DESC) = 1
            """
        )
        gap_us = round(_GAP_POLLS * every_seconds * SECOND_US)
        return cls(gap_us, {node: Span(state, reason, ended, ended) for node, state, reason, ended in rows})

    def news(self, states: Iterable[NodeState], now: int, *, everything: bool = False) -> list[Row]:
        """Return the intervals that have ended or lasted long enough. Call `keep` once they are in the store."""
        rows: list[Row] = []
        self._next = {}
        for seen in states:
            span = self._bridged(seen, now)
            if (span.state, span.reason) != (seen.state, seen.reason):
                rows += _row(seen.node, span, now)
                span = Span(seen.state, seen.reason, now, now)
            elif everything or now - span.told_until >= (_UP_TOLD_US if span.state == "up" else _OTHER_TOLD_US):
                rows += _row(seen.node, span, now)
                span = Span(span.state, span.reason, now, now)
            self._next[seen.node] = Span(span.state, span.reason, span.told_until, now)
        return rows

    def keep(self) -> None:
        """Note that the last news are in the store. Hosts that the scheduler no longer names are forgotten."""
        self._spans = self._next

    def flush(self) -> list[Row]:
        """Return what was seen and not told yet, for the end."""
        return [row for node, span in self._spans.items() for row in _row(node, span, span.seen_until)]

    def _bridged(self, seen: NodeState, now: int) -> Span:
        """Return the span that this sight goes on with, or a new one.

        After a silence the state may have been another; that a reason is older than the silence says that it was not.
        """
        before = self._spans.get(seen.node)
        if before is not None and 0 <= now - before.seen_until <= self._gap:
            return before
        since = now if seen.since is None or seen.state == "up" else max(seen.since, now - _LONGEST_US)
        told = before.told_until if before is not None else 0
        return Span(seen.state, seen.reason, min(max(since, told), now), now)


def _row(node: str, span: Span, until: int) -> list[Row]:
    if until <= span.told_until:
        return []
    started = max(span.told_until, until - _LONGEST_US)
    return [{"node": node, "started_at": started, "ended_at": until, "state": span.state, "reason": span.reason}]
