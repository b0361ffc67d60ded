"""A table is its columns, declared once: what stands in each, in which unit, and how wide. Paper and CSV follow.

columns = (
    TableColumn("TEAM", lambda line: line.team, width=24, align="<"),
    TableColumn("GPU-hours", lambda line: line.milliseconds, GPU_TIME, 12, name="gpu_hours"),
    TableColumn("cost", lambda line: line.cost_micros, money_of("USD"), 12, name="cost"),
)
paper_lines(columns, lines)  # for people: what is not known is a dash
csv_table(columns, lines)  # for programs: exact figures, what is not known is an empty cell

Bars and sparklines are columns as well (`bar_column`, `spark_column`); a column whose last row is the sum of the others
is written by `adding_up`; a state below its class begins with blanks in the first column.
"""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Generic, Literal, TypeVar

from agent.wire.units import HOUR_MS, MICROS
from analyzer.period import local
from analyzer.text.layout import TextLayout, cut
from analyzer.text.words import (
    UNKNOWN,
    amount,
    apportion,
    decimal,
    gpu_hours,
    money,
    nearest,
    percent,
    plain,
    ratio_percent,
)

Row = TypeVar("Row")
# A spreadsheet takes a cell that begins so for a formula; the wide forms are taken for them by some.
# https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_BLANKS = dict.fromkeys([*range(32), 0x7F, 0x85, 0xA0, 0x202F, 0x2028, 0x2029], " ")
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class CellUnit:
    """How the values of a column are written: `words` for people, `exact` as a cell of CSV. Neither is given None."""

    words: Callable[[Any], str]
    exact: Callable[[Any], object] = lambda value: value


@dataclass(frozen=True)  # without slots: TableColumn[Row](...) could not be made
class TableColumn(Generic[Row]):
    """One column: its head on paper, and what stands in it, None where that is not known.

    `width` is in characters on paper, without the `gap` of blanks before it; `is_cut` cuts what is too long for it,
    with a visible mark. `name` is its head in CSV. Where the cells must add up as printed, `together` writes all
    values of the column at once, in place of the unit's words.
    """

    head: str
    value: Callable[[Row], Any]
    unit: CellUnit = CellUnit(str)
    width: int = 0
    align: Literal["<", ">"] = ">"
    name: str = ""
    together: Callable[[Sequence[Any]], Sequence[str]] | None = None
    gap: int = 0
    is_cut: bool = False

    def cells(self, rows: Sequence[Row]) -> list[str]:
        """Return the column as people read it, a cell a row."""
        values = [self.value(row) for row in rows]
        if self.together is not None:
            return list(self.together(values))
        return [UNKNOWN if value is None else self.unit.words(value) for value in values]

    def written(self, text: str, indent: str = "") -> str:
        """Return a text as it stands in the column, indented within it."""
        text = cut(text, self.width - len(indent) - 1) if self.is_cut else text
        return f"{'':{self.gap}}{indent}{text:{self.align}{max(0, self.width - len(indent))}}"


def name_column(head: str, name: Callable[[Row], str], width: int) -> TableColumn[Row]:
    """Return the first column of a table on paper: names, cut where they are too long for it."""
    return TableColumn(head, name, width=width, align="<", is_cut=True)


def bar_column(share: Callable[[Row], float | None], cells: int, layout: TextLayout) -> TableColumn[Row]:
    """Return a column of bars, `cells` long for the largest share; nothing is drawn where a share is None."""

    def bars(shares: Sequence[float | None]) -> list[str]:
        largest = max((share for share in shares if share is not None), default=0.0)
        return ["" if share is None else layout.bar(share, largest, cells) for share in shares]

    return TableColumn("", share, width=cells, align="<", together=bars, gap=0)


def spark_column(
    head: str, shares: Callable[[Row], Sequence[float | None]], width: int, layout: TextLayout, gap: int = 0
) -> TableColumn[Row]:
    """Return a column of sparklines, a character a share from 0 to 1 and a blank where one is None."""
    unit = CellUnit(lambda row: "".join(" " if share is None else layout.spark([share]) for share in row))
    return TableColumn(head, shares, unit, width, "<", gap=gap)


def adding_up(per_unit: int, decimals: int, sign: str = "") -> Callable[[Sequence[int | None]], list[str]]:
    """Return what writes a column whose last row is the total of those above it, so that it adds up as printed.

    `per_unit` is how much a unit of the last decimal is. Where a value is unknown, so is the total, and nothing sums.
    """

    def column(values: Sequence[int | None]) -> list[str]:
        amounts = values[:-1]
        known = [amount for amount in amounts if amount is not None]
        total = nearest(sum(known), per_unit)
        if len(known) < len(amounts):
            units = [None if amount is None else nearest(amount, per_unit) for amount in amounts] + [None]
        else:
            units = [*apportion(total, known, per_unit), total]
        return [UNKNOWN if unit is None else f"{sign}{decimal(unit, decimals)}" for unit in units]

    return column


def paper_lines(
    columns: Sequence[TableColumn[Row]], rows: Sequence[Row], indent: str = "  ", wrap: TextLayout | None = None
) -> list[str]:
    """Return a line of heads, if there are any, then a line a row, indented within its first column.

    What is too wide pushes the rest. With `wrap` the last column is a paragraph in the room that is left of that paper.
    """
    lines = [_heads(columns)] if any(column.head for column in columns) else []
    first, *others = columns[:-1] if wrap else columns
    for cell, *cells in zip(*(column.cells(rows) for column in columns), strict=True):
        line = first.written(cell, indent)
        line += "".join(column.written(text) for column, text in zip(others, cells, strict=wrap is None))
        if wrap is None:
            lines.append(line)
        else:
            line += " " * columns[-1].gap
            lines += wrap.wrap(cells[-1], line, " " * len(line)) or [line]
    return lines


def _heads(columns: Sequence[TableColumn[Row]]) -> str:
    """Return the line of heads; a long one goes on over columns that have none."""
    line, end = "", 0
    for column in columns:
        start, end = end + column.gap, end + column.gap + column.width
        if column.head:
            before = start if column.align == "<" else end - len(column.head)
            line += " " * max(0, before - len(line)) + column.head
    return line


def csv_table(columns: Sequence[TableColumn[Row]], rows: Iterable[Row]) -> str:
    """Return a table as CSV, with exact figures."""
    return csv_text(
        [column.name for column in columns],
        ([_exact(column, row) for column in columns] for row in rows),
    )


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]], end: str = "\n") -> str:
    """Return rows as CSV below their head, as all of ours are; None is an empty cell, and no text is a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=end)
    writer.writerow(map(_cell, head))
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def for_spreadsheet(text: str) -> str:
    """Return a CSV that a person opens: Excel takes what is not ASCII for the machine's own letters without a mark."""
    return text if text.isascii() else f"{_BYTE_ORDER_MARK}{text}"


def with_readable(
    head: Sequence[str], rows: Iterable[Sequence[object]], currency: str, timezone: str
) -> tuple[list[str], list[list[object]]]:
    """Return a table with what people compute with after its exact columns: money, hours and times, by their names."""
    told = [(place, *found) for place, name in enumerate(head) if (found := _readable(name, currency, timezone))]
    wide = [
        [*row, *(None if (value := row[place]) is None else write(value) for place, _, write in told)] for row in rows
    ]
    return [*head, *(name for _, name, _ in told)], wide


def _readable(name: str, currency: str, timezone: str) -> tuple[str, Callable[[Any], object]] | None:
    """Return how a column of millionths, of milliseconds of GPU time or of microseconds UTC is called and written."""
    parts = name.split("_")
    for unit, told, write in (
        ("micros", currency.lower(), money_digits), ("ms", "gpu_hours", hours_digits),
        ("milliseconds", "gpu_hours", hours_digits),
    ):  # fmt: skip
        if unit in parts:
            return "_".join(told if part == unit else part for part in parts), write
    if parts[-1] == "us":
        return name.removesuffix("_us"), lambda at: local(at, timezone).isoformat(timespec="seconds")
    return None


@lru_cache(maxsize=8192)
def safe_cell(text: str) -> str:
    """Return a text as a CSV cell may hold it: no formula, and in one line.

    What would be taken for a formula gets an apostrophe before it; control characters become blanks. Nothing else is
    changed: quotes and commas are the CSV writer's, and markup is text in a CSV.
    """
    flat = text.translate(_BLANKS)
    return f"'{flat}" if flat.lstrip().startswith(_FORMULA) else flat


def decimal_digits(value: Decimal) -> str:
    """Return a decimal in digits, without exponent and without zeros at its end."""
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def money_of(currency: str) -> CellUnit:
    """Return the unit of amounts in millionths of a currency: "$2.60", and in CSV exactly 2.6."""
    return CellUnit(partial(money, currency=currency), money_digits)


def money_digits(micros: int) -> Decimal:
    """Return an amount in whole units of its currency, exactly."""
    return Decimal(micros) / MICROS


def hours_digits(milliseconds: int) -> Decimal:
    """Return GPU milliseconds in GPU-hours, to the sixth decimal."""
    return round(Decimal(milliseconds) / HOUR_MS, 6)


def _exact(column: TableColumn[Row], row: Row) -> object:
    value = column.value(row)
    return None if value is None else column.unit.exact(value)


def _cell(value: object) -> object:
    if isinstance(value, str):
        return safe_cell(plain(value, len(value)))
    return decimal_digits(value) if isinstance(value, Decimal) else value


GPU_TIME = CellUnit(gpu_hours, hours_digits)  # of milliseconds
WHOLE_AMOUNT = CellUnit(lambda micros: amount(micros, 0), money_digits)  # of a column that names its currency
AMOUNT = CellUnit(amount, money_digits)  # the same, with cents
SHARE = CellUnit(percent)  # of permille: "14.1%"
RATIO = CellUnit(partial(ratio_percent, decimals=0))  # of what is measured, from 0 to 1: "14%"
