"""What a source said becomes rows of the contract: node, interval, plausible values, no more identity than allowed."""

import hashlib
import ipaddress
import logging
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agent.config import IdentityMode
from agent.procfs import boot_id
from agent.source import Reading, Row, Tables, Value
from agent.wire.contract import Column, Sensitivity, Table
from agent.wire.tables import TABLES

# Which part of an id may be a name that a person chose: of a run, a mount point, a peer.
#
# Job numbers, uids, and the names of hosts, clusters and devices are no names of people. But a pod whose uid is not yet
# known is told by namespace and name, a run may declare itself as `ada-test`, a home directory is mounted at /home/ada,
# and the peer of a login shell is the address of somebody's desk.
# Slurm 81234_7 and 81234+1, a process 4711.99213, uids of pods and runs. What a user's own id says is not among them:
# the user's number is in it.
_NUMBER = re.compile(
    r"\d+(?:[._+]\d+)*"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[0-9a-f]{32}"
)


def _with_pseudonym(value: str, pseudonym: Callable[[str], str]) -> str:
    """Return an id with its part that may be a name replaced; as it is where there is none."""
    if value.startswith("/") or _is_address(value):
        return pseudonym(value)
    scheduler, _, rest = value.partition("/")
    cluster, slash, name = rest.partition("/")
    if not slash or _NUMBER.fullmatch(name):
        return value
    return f"{scheduler}/{cluster}/{pseudonym(name)}"


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


# The last look at a row before it is believed: its columns are the contract's, and its values can be true.
#
# The collector refuses a whole batch for one impossible value, and rightly. So what cannot be true is taken out here,
# column by column, as "not reported", and counted: one sensor gone mad must not cost the readings of its host.
_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "int64": (int,), "float64": (int, float), "bool": (bool,)}
_LOG = logging.getLogger(__name__)
_MAX_NAMED = 200  # columns that are logged by name, once each; a host has no more


class _RangeChecks:
    """Takes out values that cannot be true. `refused` counts them."""

    def __init__(self) -> None:
        self.refused = 0
        self._named: set[str] = set()

    def believable(self, table: Table, row: Row) -> dict[str, Value] | None:
        """Return the row without what cannot be true, or None where a key that it cannot do without is missing."""
        columns = {column.name: column for column in table.columns}
        kept = {}
        for name, told in row.items():
            value = _writable(told) if isinstance(told, str) and not told.isascii() else told
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
            _LOG.warning("%s cannot be %.80r: treated as not reported; counted, and not logged again", subject, value)


def _writable(name: str) -> str:
    """Return a text without what no file can hold: users and interfaces may have names of any bytes."""
    return name.encode("utf-8", "replace").decode()


def _can_be(column: Column, value: Value) -> bool:
    if not isinstance(value, _TYPES[column.type]) or (isinstance(value, bool) and column.type != "bool"):
        return False
    if isinstance(value, float) and not math.isfinite(value):
        return False
    if column.range is None or isinstance(value, str | None):
        return True
    low, high = column.range
    return low <= value <= high


_PSEUDONYM_CHARACTERS = 12
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
            return _with_pseudonym(str(value), self._pseudonym)
        return None if self._mode == "none" else self._pseudonym(str(value))

    def _pseudonym(self, name: str) -> str:
        return f"h-{hashlib.blake2b(name.encode(), key=self._key).hexdigest()[:_PSEUDONYM_CHARACTERS]}"


def _own_key() -> bytes:
    """Return a key that this host alone knows, and forgets when it boots."""
    return (boot_id(Path("/proc")) or "").encode() or os.urandom(hashlib.blake2b.MAX_KEY_SIZE)


class Stamper:
    """Puts node and interval on what the sources of one host said."""

    def __init__(self, node: str, identity: Identity | None = None) -> None:
        self._node = node
        self._identity = identity or Identity()
        self.plausibility = _RangeChecks()

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
