"""How the lake's tables lie in their files: of which span of time a file is made, and how its rows are ordered.

A day is the unit: retention drops whole days, and a file that holds two would have to be written anew for it. Minutes
of a small site are put together by the week, which a chart then reads from one file a third smaller. Rows are ordered
by host first: the GPUs of one run share hosts, so that a run's week is a few row groups of each file.
"""

from dataclasses import dataclass
from difflib import get_close_matches

from agent.wire.units import DAY_US, WEEK_US
from collector.errors import ConfigError
from collector.tier_tables import SIZES, TIERED, tiered

MONDAY_US = 4 * DAY_US  # the first after 1970 began; every span counts from here
_MONTH_US = 30 * DAY_US  # not the calendar's: spans of one length
RAW = (*TIERED, "agent_samples")
LONG = ("progress",)  # kept as long as the hours: it is little


@dataclass(frozen=True, slots=True)
class Layout:
    """Of one table: the column that says when, the span that one file shall hold, and the order of its rows.

    `small_span_us` is what a file holds where that is not much.
    """

    table: str
    clock: str
    span_us: int
    order: str
    small_span_us: int = 0

    @property
    def longest_us(self) -> int:
        """The longest span that one file holds."""
        return max(self.span_us, self.small_span_us)


def layouts() -> dict[str, Layout]:
    """Return the layout of every table that grows with time."""
    found = [
        *(Layout(name, "started_at", DAY_US, tiered(name).order) for name in TIERED),
        *(Layout(tiered(name).name("minutes"), "started_at", DAY_US, tiered(name).order, WEEK_US) for name in TIERED),
        *(Layout(tiered(name).name("hours"), "started_at", _MONTH_US, tiered(name).order) for name in TIERED),
        Layout("agent_samples", "started_at", DAY_US, "node, started_at"),
        Layout("progress", "started_at", _MONTH_US, "run_id, node, started_at"),
        Layout("node_states", "started_at", _MONTH_US, "node, started_at"),
        Layout("receipts", "received_at", DAY_US, "stream, sequence"),
    ]
    return {layout.table: layout for layout in found}


def droppable() -> tuple[str, ...]:
    """Return the tables that retention may drop days of, samples first."""
    return (*RAW, *LONG, *(tiered(name).name(size) for size in SIZES for name in TIERED))


def kept_days(text: str) -> tuple[str, int]:
    """Return the table and the days of an entry of the setting keep_days, such as flow_samples=3.

    Raises:
        ConfigError: there is no such table, or it is no number of days.
    """
    table, _, days = text.partition("=")
    if table not in droppable():
        near = get_close_matches(table, droppable(), n=1)
        told = f"; the nearest is {near[0]}" if near else f"; known are {', '.join(droppable())}"
        raise ConfigError(f"collector.keep_days has {text!r}: no table that expires{told}")
    if not days.isdecimal() or int(days) < 1:
        raise ConfigError(f"collector.keep_days has {text!r}: write a whole number of days, as in {table}=7")
    return table, int(days)


def tier_of(table: str) -> str:
    """Return raw, minutes or hours."""
    size = table.rpartition("_")[2]
    return size if size in SIZES else "raw"
