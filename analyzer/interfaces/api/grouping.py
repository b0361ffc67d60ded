"""The ledger, summed by what is asked for: SQL counts, sorts, and rounds so that every column adds up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analyzer.interfaces.api.selection import Selection
from analyzer.queries.dimensions import COLUMNS
from analyzer.reports.document import Amounts, Rounding, Triple
from analyzer.states import CLASSES
from collector.store.session import Session

# What has no time costs nothing; of what has some, the part that is priced counts, and no price is no 0.
_SUMS = (
    "coalesce(sum(l.milliseconds), 0)::BIGINT AS ms, sum(l.cost_micros)::BIGINT AS cost, "
    "coalesce(sum(l.milliseconds) FILTER (l.cost_micros IS NULL), 0)::BIGINT AS unpriced"
)
_BY_CLASS = ", ".join(
    f"coalesce(sum(l.milliseconds) FILTER (c.class = '{name}'), 0)::BIGINT AS ms_{name}, "
    f"if(count(*) FILTER (c.class = '{name}') = 0, 0, sum(l.cost_micros) FILTER (c.class = '{name}'))::BIGINT "
    f"AS cost_{name}, "
    f"coalesce(sum(l.milliseconds) FILTER (c.class = '{name}' AND l.cost_micros IS NULL), 0)::BIGINT AS unpriced_{name}"
    for name in CLASSES
)


@dataclass(frozen=True, slots=True)
class Group:
    """One group: the values it is grouped by, its amounts, and of each class the exact ones where they are wanted."""

    key: tuple[Any, ...]
    amounts: Amounts
    by_class: tuple[Triple, ...]
    units: tuple[int, int | None]  # its amounts as they are shown


@dataclass(frozen=True, slots=True)
class Grouped:
    """One page of groups, whether more follow, and how the whole was rounded."""

    groups: list[Group]
    more: bool
    rounding: Rounding


def _total(session: Session, chosen: Selection) -> Triple:
    """Return what all selected rows sum to; where there is none, that is 0 of hours that are known, else unknown."""
    milliseconds, cost, unpriced = session.row(f"SELECT {_SUMS} {chosen.source()}", chosen.values)
    if milliseconds == 0 and "start" in chosen.values:
        span = [chosen.values["start"], chosen.values["end"]]
        (known,) = session.row("SELECT count(*) FROM ledger_hours WHERE hour >= ? AND hour < ?", span)
        cost = 0 if known else None
    return milliseconds, cost, unpriced


def grouped(
    session: Session,
    chosen: Selection,
    by: Sequence[str],
    currency: str,
    limit: int,
    after: tuple[Any, ...] | None,
    *,
    dearest_first: bool = False,
    days: Sequence[int] = (),
) -> Grouped:
    """Return a page of the groups of a selection, those after the key `after`; `days` is what days are told by.

    They come in the order of their keys, or dearest first, and then the key begins with minus cost and minus time.
    """
    rounding = Rounding(_total(session, chosen), currency)
    keys = [f"k{place}" for place in range(len(by))]
    columns = ", ".join(f"{COLUMNS[name][0]} AS {key}" for name, key in zip(by, keys, strict=True))
    order = ["by_cost", "by_time", *keys] if dearest_first else keys
    values, where = chosen.values | ({"days": list(days)} if "day" in by else {}), "true"
    if after is not None:
        values |= {f"a{place}": value for place, value in enumerate(after)}
        where = f"row({', '.join(order)}) > row({', '.join(f'$a{place}' for place in range(len(after)))})"
    rows = session.rows(
        f"""
        WITH sums AS (
            SELECT {columns}, {_SUMS} {f", {_BY_CLASS}" if dearest_first else ""}
            {chosen.source(by, classes=dearest_first)} GROUP BY {", ".join(keys)}
        ), rounded AS (
            SELECT *, -coalesce(cost, -1) AS by_cost, -ms AS by_time,
                {_apportioned("ms", rounding.hours, keys)} AS shown_hours,
                {_apportioned("cost", rounding.costs, keys)} AS shown_cost
            FROM sums
        )
        SELECT * EXCLUDE (by_cost, by_time) FROM rounded WHERE {where}
        ORDER BY {", ".join(f"{column} NULLS LAST" for column in order)} LIMIT {limit + 1}
        """,
        values,
    )
    groups = [_group(row, len(by), rounding) for row in rows[:limit]]
    return Grouped(groups, len(rows) > limit, rounding)


def _apportioned(column: str, units: tuple[int, int, int], keys: Sequence[str]) -> str:
    """Return a column in the units that are shown, by largest remainder, as analyzer.text.rounding has it."""
    whole, factor, per = units
    exact = f"({column}::HUGEINT * {factor})"
    ranked = f"row_number() OVER (PARTITION BY {column} IS NULL ORDER BY {exact} % {per} DESC, {', '.join(keys)})"
    return f"({exact} // {per} + if({ranked} <= {whole} - sum({exact} // {per}) OVER (), 1, 0))::BIGINT"


def _group(row: tuple[Any, ...], width: int, rounding: Rounding) -> Group:
    exact: Triple = (row[width], row[width + 1], row[width + 2])
    classes = row[width + 3 : -2]
    by_class = tuple((classes[at], classes[at + 1], classes[at + 2]) for at in range(0, len(classes), 3))
    hours, cost = row[-2], row[-1]
    return Group(row[:width], rounding.amounts(exact, hours, cost), by_class, (hours, cost))
