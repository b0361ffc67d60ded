"""The last look at a row before it is believed: its columns are the contract's, and its values can be true.

The collector refuses a whole batch for one impossible value, and rightly. So what cannot be true is taken out here,
column by column, as "not reported", and counted: one sensor gone mad must not cost the readings of its host.
"""

import logging
import math

from agent.source import Row, Value
from agent.wire.contract import Column, Table

_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "int64": (int,), "float64": (int, float), "bool": (bool,)}
_LOG = logging.getLogger(__name__)
_MAX_NAMED = 200  # columns that are logged by name, once each; a host has no more


class RangeChecks:
    """Takes out values that cannot be true. `refused` counts them."""

    def __init__(self) -> None:
        self.refused = 0
        self._named: set[str] = set()

    def believable(self, table: Table, row: Row) -> dict[str, Value] | None:
        """Return the row without what cannot be true, or None where a key that it cannot do without is missing."""
        columns = {column.name: column for column in table.columns}
        kept = {}
        for name, value in row.items():
            if value is None or (name in columns and _can_be(columns[name], value)):
                kept[name] = value
            else:
                self._refuse(table, name, value)
        missing = [column.name for column in table.columns if column.required and kept.get(column.name) is None]
        if missing:
            self._refuse(table, missing[0], None)
            return None
        return kept

    def _refuse(self, table: Table, name: str, value: Value) -> None:
        self.refused += 1
        subject = f"{table.name}.{name}"
        if subject not in self._named and len(self._named) < _MAX_NAMED:
            self._named.add(subject)
            _LOG.warning("%s cannot be %.80r: treated as not reported, counted, and not logged again", subject, value)


def _can_be(column: Column, value: Value) -> bool:
    if not isinstance(value, _TYPES[column.type]) or (isinstance(value, bool) and column.type != "bool"):
        return False
    if isinstance(value, float) and not math.isfinite(value):
        return False
    if column.range is None or isinstance(value, str | None):
        return True
    low, high = column.range
    return low <= value <= high
