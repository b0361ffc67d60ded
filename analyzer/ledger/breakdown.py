"""A breakdown as the lines of a table, rounded from the top down; text, page and e-mail print these same lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from agent.wire.units import HOUR_MS, MICROS
from analyzer.queries.ledger_query import Breakdown, BreakdownEntry
from analyzer.states import CLASSES, Class
from analyzer.text.layout import TextLayout, at_column
from analyzer.text.table import TableColumn, bar_column, name_column, paper_lines
from analyzer.text.words import (
    UNKNOWN,
    apportion,
    apportion_tree,
    at_least,
    decimal,
    hours_decimals,
    money_decimals,
    nearest,
    signed,
)

_Level = Literal["class", "row", "only", "total"]  # "only": a class and its single row on one line


@dataclass(frozen=True, slots=True)
class BreakdownLine:
    """One printed line. Money and change are None where the column is left out.

    `is_part` says that some of its time has no price; `paid` is the amount with the mark of that.
    """

    level: _Level
    klass: Class | None
    label: str
    hours: str
    money: str | None
    percent: str
    change: str | None
    share: float  # of all weight, for the bar
    is_part: bool = False

    @property
    def paid(self) -> str | None:
        """The amount as it is printed in a column."""
        return None if self.money is None else at_least(self.money, self.is_part)


@dataclass(frozen=True, slots=True)
class Column:
    """One column, rounded: the total, each class, each member of each class."""

    total: int
    classes: list[int]
    members: list[list[int]]
    decimals: int

    @classmethod
    def of(cls, tree: list[list[int]], denominator: int, decimals: int) -> "Column":
        """Round a tree of exact numerators to 10**-decimals."""
        scaled = [[amount * 10**decimals for amount in group] for group in tree]
        total = nearest(sum(map(sum, scaled)), denominator)
        return cls(total, *apportion_tree(total, scaled, denominator), decimals)


@dataclass(frozen=True, slots=True)
class Rounded:
    """A whole breakdown, rounded."""

    groups: list[list[BreakdownEntry]]
    hours: Column
    money: Column | None
    percent: Column
    change: Column | None


def rounded(breakdown: Breakdown, previous: Breakdown | None = None) -> Rounded:
    """Return every column of a breakdown, each adding up; change only where both periods can be compared."""
    before = previous if previous is not None and _comparable(breakdown, previous) else None
    groups = _groups(breakdown, before)
    times = [[entry.milliseconds for entry in group] for group in groups]
    hours = Column.of(times, HOUR_MS, hours_decimals(breakdown.milliseconds))
    money = None
    if (cost := breakdown.cost_micros) is not None:
        paid = [[entry.cost_micros or 0 for entry in group] for group in groups]
        money = Column.of(paid, MICROS, money_decimals(cost))
    weights = [[100 * breakdown.weight(entry) for entry in group] for group in groups]
    percent = Column.of(weights, max(1, breakdown.total_weight), 1)
    change = _change(groups, breakdown, before) if before else None
    return Rounded(groups, hours, money, percent, change)


def _comparable(now: Breakdown, before: Breakdown) -> bool:
    return before.priced == now.priced and before.total_weight > 0 and now.total_weight > 0


def _groups(now: Breakdown, before: Breakdown | None) -> list[list[BreakdownEntry]]:
    known = {(entry.klass, entry.label) for entry in now.entries}
    gone = [
        BreakdownEntry(e.klass, e.label, 0, None)
        for e in (before.entries if before else ())
        if (e.klass, e.label) not in known
    ]
    ordered = sorted([*now.entries, *gone], key=lambda entry: CLASSES.index(entry.klass))
    return [list(members) for _, members in groupby(ordered, key=lambda entry: entry.klass)]


def _change(groups: list[list[BreakdownEntry]], now: Breakdown, before: Breakdown) -> Column:
    then = {(entry.klass, entry.label): before.weight(entry) for entry in before.entries}

    def points(entry: BreakdownEntry) -> int:
        weight_then = then.get((entry.klass, entry.label), 0)
        return 100 * (now.weight(entry) * before.total_weight - weight_then * now.total_weight)

    return Column.of(
        [[points(entry) for entry in group] for group in groups], now.total_weight * before.total_weight, 1
    )


def breakdown_lines(
    breakdown: Breakdown, previous: Breakdown | None = None, *, subtotals: bool = True
) -> tuple[BreakdownLine, ...]:
    """Return the lines of "where it went": classes with their rows, then the total."""
    columns = rounded(breakdown, previous)
    whole = max(1, breakdown.total_weight)
    found: list[BreakdownLine] = []
    for place, group in enumerate(columns.groups):
        only = len(group) == 1
        if subtotals and not only:
            share = sum(map(breakdown.weight, group)) / whole
            found.append(_line(columns, "class", group[0].klass, "", place, None, share))
        for member, entry in enumerate(group):
            level: _Level = "only" if only or (member == 0 and not subtotals) else "row"
            share = breakdown.weight(entry) / whole
            found.append(_line(columns, level, entry.klass, entry.label, place, member, share))
    return (*found, _total(columns, is_part=breakdown.is_part))


def _line(
    columns: Rounded, level: _Level, klass: Class, label: str, place: int, member: int | None, share: float
) -> BreakdownLine:
    def value(column: Column) -> int:
        return column.classes[place] if member is None else column.members[place][member]

    return BreakdownLine(
        level,
        klass,
        label,
        decimal(value(columns.hours), columns.hours.decimals),
        _paid(columns.money, value, known=_has_price(columns.groups[place], member)) if columns.money else None,
        decimal(value(columns.percent), 1),
        signed(value(columns.change), 1) if columns.change else None,
        share,
        _is_part(columns.groups[place], member),
    )


def _has_price(group: list[BreakdownEntry], member: int | None) -> bool:
    """Whether any of it has a price, or it is nothing: what has none is unknown, and not 0."""
    entries = group if member is None else [group[member]]
    return any(entry.cost_micros is not None or not entry.milliseconds for entry in entries)


def _paid(column: Column, value: Callable[[Column], int], *, known: bool) -> str:
    return decimal(value(column), column.decimals) if known else UNKNOWN


def _is_part(group: list[BreakdownEntry], member: int | None) -> bool:
    """Whether a class or a row of it has time without a price beside time with one."""
    return Breakdown(tuple(group if member is None else [group[member]])).is_part


def _total(columns: Rounded, *, is_part: bool) -> BreakdownLine:
    money = decimal(columns.money.total, columns.money.decimals) if columns.money else None
    hours = decimal(columns.hours.total, columns.hours.decimals)
    return BreakdownLine("total", None, "total", hours, money, decimal(columns.percent.total, 1), None, 1.0, is_part)


def column_like(total: int, exact: Sequence[int | None], denominator: int, decimals: int) -> list[str]:
    """Return a flat column that adds up to an already rounded total, as text; what is not known is a dash."""
    known = [amount * 10**decimals for amount in exact if amount is not None]
    units = iter(apportion(total, known, denominator))
    return [UNKNOWN if amount is None else decimal(next(units), decimals) for amount in exact]


_STATE = 11  # where a state begins beside its class


def breakdown_table(
    table: Sequence[BreakdownLine], layout: TextLayout, sign: str, title: str = "WHERE IT WENT"
) -> list[str]:
    """Return a breakdown as a table with bars; columns without figures are left out.

    A title that is too long to stand beside the heads has a line of its own.
    """
    with_money, with_change = table[0].money is not None, any(line.change is not None for line in table)
    below_classes = any(line.level == "class" for line in table)
    names = [_name(line, below_classes=below_classes) for line in table]
    hours = 12 if layout.extra > -10 else 10
    room = layout.width - 2 - hours - 10 * with_money - 7 - 6 * with_change
    width = min(room, max(31 if layout.extra > -10 else 29, *(len(name) + 1 for name in names)))
    bar = max(0, min(10 + max(0, layout.extra), room - width - 2))
    columns: tuple[TableColumn[BreakdownLine], ...] = (
        name_column(title, lambda line: _name(line, below_classes=below_classes), 2 + width),
        bar_column(lambda line: None if line.level == "total" else line.share, bar, layout),
        TableColumn("GPU-hours", lambda line: line.hours, width=hours),
        *((TableColumn[BreakdownLine](sign.strip(), lambda line: line.paid, width=10),) if with_money else ()),
        TableColumn("%", lambda line: line.percent, width=7),
        *((TableColumn[BreakdownLine]("+/-", lambda line: line.change or "", width=6),) if with_change else ()),
    )
    lines = paper_lines(columns, table)
    if len(lines[0]) <= layout.width:
        return lines
    return [title, *paper_lines((replace(columns[0], head=""), *columns[1:]), table)]


def _name(line: BreakdownLine, *, below_classes: bool) -> str:
    """Return how a row begins: a state stands below the row of its class, or beside its class where that has no row."""
    if line.level in ("class", "total"):
        return line.klass or line.label
    if below_classes:
        return f"{line.klass}: {line.label}" if line.level == "only" else f"  {line.label}"
    return at_column(line.klass or "" if line.level == "only" else "", _STATE) + line.label
