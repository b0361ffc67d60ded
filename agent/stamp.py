"""What a source said becomes rows of the contract: node, interval, plausible values, no more identity than allowed."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Literal

from agent.plausible import Plausibility
from agent.source import Reading, Row, Value
from agent.wire.contract import Table
from agent.wire.tables import TABLES

IdentityMode = Literal["full", "hashed", "none"]
PSEUDONYM_CHARACTERS = 12
_INTERVAL = ("started_at", "ended_at")


def is_interval(table: Table) -> bool:
    """Return whether a row of the table holds for the interval of its reading, rather than for times of its own."""
    return all(table.has(name) and table.column(name).required for name in _INTERVAL)


def tells_facts(table: Table) -> bool:
    """Return whether the table describes and measures nothing, so that even a first reading is worth telling."""
    return all(column.kind in ("key", "fact") for column in table.columns)


class Identity:
    """How much of names of people and projects leaves this host: all, pseudonyms, or nothing.

    A pseudonym is keyed: without the key a list of user names cannot be tried against it.
    """

    def __init__(self, mode: IdentityMode = "full", key: str = "") -> None:
        self._mode = mode
        self._key = key.encode()

    def applied(self, table: Table, row: dict[str, Value]) -> dict[str, Value]:
        """Return the row as it may leave."""
        if self._mode == "full":
            return row
        sensitive = [column.name for column in table.columns if column.sensitivity == "identity"]
        return row | {name: self._stand_in(row[name]) for name in sensitive if row.get(name) is not None}

    def _stand_in(self, value: Value) -> str | None:
        if self._mode == "none":
            return None
        digest = hashlib.blake2b(str(value).encode(), key=self._key[: hashlib.blake2b.MAX_KEY_SIZE])
        return f"h-{digest.hexdigest()[:PSEUDONYM_CHARACTERS]}"


class Stamper:
    """Puts node and interval on what the sources of one host said."""

    def __init__(self, node: str, identity: Identity | None = None) -> None:
        self._node = node
        self._identity = identity or Identity()
        self.plausibility = Plausibility()

    def stamped(
        self, reading: Reading, started_at: int, ended_at: int, *, amounts: bool = True
    ) -> dict[str, list[dict[str, Value]]]:
        """Return the reading as rows of the contract; without its amounts where they tell of another time."""
        stamp: dict[str, Value] = {"node": self._node, "started_at": started_at, "ended_at": ended_at}
        return {name: list(self._rows(TABLES[name], rows, stamp, amounts)) for name, rows in reading.items()}

    def _rows(
        self, table: Table, rows: Iterable[Row], stamp: Mapping[str, Value], amounts: bool
    ) -> Iterable[dict[str, Value]]:
        names = {"node", *(_INTERVAL if is_interval(table) else ())} & set(table.names)
        keys = {name: stamp[name] for name in names}
        left_out = set() if amounts else {column.name for column in table.columns if column.kind == "amount"}
        for row in rows:
            said = {name: value for name, value in row.items() if name not in left_out}
            if (believed := self.plausibility.believable(table, keys | said)) is not None:
                yield self._identity.applied(table, believed)
