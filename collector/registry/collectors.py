"""The collectors of a site: each has a number for good, an address, and a time until which it counts as alive."""

import time
from dataclasses import dataclass

from sqlalchemy import Row, insert, select, update

from collector.errors import RegistryError
from collector.registry.database import Database
from collector.registry.tables import COLLECTORS, COUNTERS

_MOST = 256  # numbers fill the low byte of a batch's number


@dataclass(frozen=True, slots=True)
class Collector:
    """One collector as the others see it. Its leases hold until `alive_until`, microseconds UTC."""

    number: int
    name: str
    url: str
    alive_until: int


class Collectors:
    """The site's list of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim_number(self, name: str, url: str, identity: str = "", now: int | None = None) -> int:
        """Return the number, 0 to 255, that belongs to this name for good, and note its address.

        A number is never given to another name: a store that comes back after a year may hold batches of it.
        `identity` tells the store behind the name: two stores must not number their batches alike.

        Raises:
            RegistryError: a collector of this name is alive with another identity, or 256 names have been given out.
        """
        moment = time.time_ns() // 1000 if now is None else now
        with self._database.writing() as connection:
            # One after another, or two names could be given one number.
            connection.execute(select(COUNTERS.c.value).where(COUNTERS.c.name == "collectors").with_for_update())
            rows = connection.execute(select(COLLECTORS)).all()
            own = next((row for row in rows if row.name == name), None)
            if own is None:
                number = _free({row.number for row in rows})
                values = {"number": number, "name": name, "claimed_at": moment, "alive_until": 0}
                connection.execute(insert(COLLECTORS).values(url=url, identity=identity, **values))
                return number
            if own.identity != identity and own.alive_until > moment:
                raise RegistryError(
                    f"a collector named {name!r} is running at {own.url} with another store; give each its own name"
                )
            changed = update(COLLECTORS).where(COLLECTORS.c.number == own.number)
            connection.execute(changed.values(url=url, identity=identity, claimed_at=moment))
            return int(own.number)

    def heartbeat(self, number: int, now: int, seconds: float) -> bool:
        """Stay alive, and keep every lease, until `seconds` after `now`; return whether it was alive until now.

        False means that others may have taken streams meanwhile: read `leases.held` again.
        """
        until = now + round(seconds * 1e6)
        own = update(COLLECTORS).where(COLLECTORS.c.number == number).values(alive_until=until)
        with self._database.writing() as connection:
            if connection.execute(own.where(COLLECTORS.c.alive_until > now)).rowcount:
                return True
            connection.execute(own)
            return False

    def listed(self) -> list[Collector]:
        """Return all that were ever there, by number."""
        with self._database.reading() as connection:
            return [_collector(row) for row in connection.execute(select(COLLECTORS).order_by(COLLECTORS.c.number))]


def _free(taken: set[int]) -> int:
    free = next((number for number in range(_MOST) if number not in taken), None)
    if free is None:
        raise RegistryError(
            f"all {_MOST} numbers of collectors are given out; start them under lasting names, like those of a "
            "StatefulSet, not under new ones at each start"
        )
    return free


def _collector(row: Row[tuple[object, ...]]) -> Collector:
    return Collector(row.number, row.name, row.url, row.alive_until)
