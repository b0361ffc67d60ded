"""Every column of the ledger once: the SQL that books, corrects and prices it, and docs/ledger-columns.md follow.

The store's own tables are made by the migrations of collector/store/schema, which are history and stay as they are: a
new column is one more migration there, a line here, and the expression in sql/booking.sql that fills it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `is_priced_by` of those that say which price a row has a part of."""

    name: str
    type: str
    about: str
    required: bool = False
    is_priced_by: bool = False


_WHAT = (
    Column("hour", "BIGINT", "first microsecond of a UTC hour", required=True, is_priced_by=True),
    Column("gpu_uuid", "VARCHAR", "the GPU, or the MIG instance", required=True, is_priced_by=True),
    Column("node", "VARCHAR", "its host", required=True, is_priced_by=True),
    Column("sku", "VARCHAR", "its model, as prices name it", is_priced_by=True),
    Column("purchase_option", "VARCHAR", "on_demand, reserved, spot, owned", is_priced_by=True),
    Column("run_id", "VARCHAR", "the holder; null where no run held it"),
    Column("attempt", "BIGINT", "of the run, from 0"),
    Column("state", "VARCHAR", "where the time went: analyzer/states.py has all, in their order", required=True),
    Column("cause", "VARCHAR", "why; null of the one state that needs none"),
    Column("would_be", "VARCHAR", "of lost work: the state that it would otherwise be"),
    Column("caused_by", "VARCHAR", "the GPU, node or run that is the root of it"),
    Column("suspicion", "VARCHAR", "of low utilization, unexplained time: the cause that lacked evidence"),
    Column("confidence", "VARCHAR", "high, medium or low"),
    Column("shared", "BOOLEAN", "whether others computed on the GPU too", required=True),
)
_AMOUNTS = (
    Column("milliseconds", "BIGINT", "GPU time; what is owned of an hour sums to it", required=True),
    Column("cost_micros", "BIGINT", "millionths of the currency; null where no price is known"),
)
_VERSIONS = (
    Column("rules_version", "VARCHAR", "the rules by which it was classified", required=True),
    Column("price_version", "VARCHAR", "the price file by which it was priced"),
)
LEDGER = (*_WHAT, *_AMOUNTS, *_VERSIONS)
# What was learned after an hour had closed, as differences that are dated then: they sum to 0 ms per GPU and hour.
ADJUSTMENTS = (
    Column("recorded_at", "BIGINT", "when it was learned, microseconds UTC", required=True),
    *_WHAT,
    *_AMOUNTS,
    Column("reason", "VARCHAR", "why the hour is reported differently now", required=True),
    *_VERSIONS,
    Column("is_moved", "BOOLEAN", "whether it moves what a run cost to another team"),
    *(
        Column(f"moved_{whose}", "VARCHAR", f"of what was moved: the {words} that it is of")
        for whose, words in (("team", "team"), ("cost_centre", "cost centre"), ("project", "project"))
    ),
)


def names(columns: tuple[Column, ...]) -> str:
    """Return the names of columns as SQL lists them."""
    return ", ".join(column.name for column in columns)


BOOKED = names((*_WHAT, *_AMOUNTS))  # of a row, and of the difference between two
# The order in which rows of one GPU, hour and price get the millionths that are left, so that they always fall alike.
_SPLIT_ORDER = names(tuple(column for column in _WHAT if not column.is_priced_by))
ORDER = f"hour, gpu_uuid, {_SPLIT_ORDER}"  # of the rows of the ledger: what lies beside each other compresses


def split(rows: str, cost: str) -> str:
    """Return the last part of a WITH: the rows with their part of the price as a column `cost`, exact to the millionth.

    It reads `totals` (gpu_uuid, hour, sku, purchase_option, owned_ms, total; what else it has comes along). Each row
    gets what its time comes to, rounded down; the millionths that are left go to the largest remainders.
    """
    return f"""based AS (
    SELECT l.*, t.* EXCLUDE (gpu_uuid, hour, sku, purchase_option, owned_ms),
        (t.total::HUGEINT * l.milliseconds // t.owned_ms)::BIGINT AS base,
        t.total::HUGEINT * l.milliseconds % t.owned_ms AS remainder
    FROM {rows} l JOIN totals t ON t.gpu_uuid = l.gpu_uuid AND t.hour = l.hour
        AND t.sku IS NOT DISTINCT FROM l.sku AND t.purchase_option IS NOT DISTINCT FROM l.purchase_option
)
SELECT * EXCLUDE (total, base, remainder), base + CASE WHEN row_number() OVER (
        PARTITION BY gpu_uuid, hour, sku, purchase_option ORDER BY remainder DESC, {_SPLIT_ORDER})
    <= total - sum(base) OVER (PARTITION BY gpu_uuid, hour, sku, purchase_option) THEN 1 ELSE 0 END AS {cost}
FROM based"""
