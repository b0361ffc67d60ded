"""What a source said becomes rows of the contract: node, interval, plausible values, no more identity than allowed."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.sampling.names import with_pseudonym
from agent.sampling.range_checks import RangeChecks
from agent.settings.config import IdentityMode
from agent.source import Reading, Row, Tables, Value
from agent.wire.contract import Sensitivity, Table
from agent.wire.tables import TABLES

_PSEUDONYM_CHARACTERS = 12
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_INTERVAL = ("started_at", "ended_at")


def is_interval(table: Table) -> bool:
    """Return whether a row of the table holds for the interval of its reading, rather than for times of its own."""
    return all(table.has(name) and table.column(name).required for name in _INTERVAL)


def tells_facts(table: Table) -> bool:
    """Return whether the table describes and measures nothing, so that even a first reading is worth telling."""
    return all(column.kind in ("key", "fact") for column in table.columns)


class Identity:
    """How much of names of people and projects leaves this host: all, pseudonyms, or nothing.

    A pseudonym is keyed: without the key a list of user names cannot be tried against it. An id must tell its run from
    others even where nothing is to be told: the name in it becomes a pseudonym then too, where no key is given by one
    that this host alone knows and forgets when it boots.
    """

    def __init__(self, mode: IdentityMode = "full", key: str = "") -> None:
        self._mode = mode
        self._key = (key.encode() or _own_key())[: hashlib.blake2b.MAX_KEY_SIZE]

    def applied(self, table: Table, row: dict[str, Value]) -> dict[str, Value]:
        """Return the row as it may leave."""
        if self._mode == "full":
            return row
        columns = [column for column in table.columns if column.sensitivity != "none"]
        return row | {
            column.name: self._reduced(column.sensitivity, value)
            for column in columns
            if (value := row.get(column.name)) is not None
        }

    def _reduced(self, sensitivity: Sensitivity, value: Value) -> str | None:
        if sensitivity == "id":
            return with_pseudonym(str(value), self._pseudonym)
        return None if self._mode == "none" else self._pseudonym(str(value))

    def _pseudonym(self, name: str) -> str:
        return f"h-{hashlib.blake2b(name.encode(), key=self._key).hexdigest()[:_PSEUDONYM_CHARACTERS]}"


def _own_key() -> bytes:
    try:
        return _BOOT_ID.read_bytes().strip()
    except OSError:
        return os.urandom(hashlib.blake2b.MAX_KEY_SIZE)


class Stamper:
    """Puts node and interval on what the sources of one host said."""

    def __init__(self, node: str, identity: Identity | None = None) -> None:
        self._node = node
        self._identity = identity or Identity()
        self.plausibility = RangeChecks()

    def stamped(self, reading: Reading, started_at: int, ended_at: int, *, amounts: bool = True) -> Tables:
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
