"""How the price of what is owned in an hour is split over its rows by time, exact to the millionth.

Each row gets what its time comes to, rounded down; the millionths that are left go to the largest remainders.
"""

import re

_SPLIT = re.compile(r"\{split (\w+) (\w+)\}")


def _split(rows: str, cost: str) -> str:
    """Return the last part of a WITH: the rows with their part of the price as a column `cost`.

    It reads `totals` (gpu_uuid, hour, sku, purchase_option, owned_ms, total; what else it has comes along).
    """
    return f"""based AS (
    SELECT l.*, t.* EXCLUDE (gpu_uuid, hour, sku, purchase_option, owned_ms),
        (t.total::HUGEINT * l.milliseconds // t.owned_ms)::BIGINT AS base,
        t.total::HUGEINT * l.milliseconds % t.owned_ms AS remainder
    FROM {rows} l JOIN totals t ON t.gpu_uuid = l.gpu_uuid AND t.hour = l.hour
        AND t.sku IS NOT DISTINCT FROM l.sku AND t.purchase_option IS NOT DISTINCT FROM l.purchase_option
)
SELECT * EXCLUDE (total, base, remainder), base + CASE WHEN row_number() OVER (
        PARTITION BY gpu_uuid, hour, sku, purchase_option
        ORDER BY remainder DESC, run_id, attempt, state, cause, would_be, caused_by, suspicion, confidence, shared)
    <= total - sum(base) OVER (PARTITION BY gpu_uuid, hour, sku, purchase_option) THEN 1 ELSE 0 END AS {cost}
FROM based"""


def with_split(text: str) -> str:
    """Return SQL with {split rows cost} replaced by that."""
    return _SPLIT.sub(lambda found: _split(found[1], found[2]), text)
