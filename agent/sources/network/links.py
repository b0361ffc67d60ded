"""What one link has moved, and what it can carry."""

from dataclasses import dataclass

from agent.procfs import differences
from agent.source import Row, Value

BITS = 8
_AMOUNTS = ("receive_bytes", "transmit_bytes", "errors")


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """What one interface or port has moved since it came up; errors are those and drops, both ways."""

    kind: str | None
    receive_bytes: int | None
    transmit_bytes: int | None
    errors: int | None
    speed_bytes_per_second: float | None = None  # what it can carry one way


def link_row(name: str, before: LinkCounters | None, now: LinkCounters) -> Row:
    """Return the row of one link; amounts are None on its first reading and across a reset."""
    row: dict[str, Value] = {"device": name, "link_kind": now.kind}
    if now.speed_bytes_per_second is not None:
        row["speed_bytes_per_second"] = now.speed_bytes_per_second
    return row if before is None else row | differences(before, now, _AMOUNTS)
