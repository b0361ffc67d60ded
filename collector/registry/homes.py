"""Of which host each GPU is: that which first told of it, until the operator moves it. And since when each is heard."""

from collections.abc import Collection

from sqlalchemy import func, select

from collector.registry.audit import AuditEntry, record
from collector.registry.database import Database
from collector.registry.tables import GPU_HOMES, HOSTS

MOST_GPUS = 1024  # of one host, MIG instances that are no more included: what is invented has an end
_AT_ONCE = 500  # names in one statement


class Homes:
    """The site's list of GPUs and hosts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, gpus: Collection[str]) -> dict[str, str]:
        """Return the host of each of these that is known."""
        found: dict[str, str] = {}
        names = sorted(gpus)
        with self._database.reading() as connection:
            for start in range(0, len(names), _AT_ONCE):
                part = GPU_HOMES.c.gpu_uuid.in_(names[start : start + _AT_ONCE])
                rows = connection.execute(select(GPU_HOMES.c.gpu_uuid, GPU_HOMES.c.node).where(part))
                found.update((row.gpu_uuid, row.node) for row in rows)
        return found

    def claim(self, node: str, gpus: Collection[str], now: int) -> dict[str, str]:
        """Note as this host's those that nobody has told of before; return of each that is known whose it is.

        One that is missing in the answer is one too many of this host.
        """
        with self._database.writing() as connection:
            own = select(func.count()).select_from(GPU_HOMES).where(GPU_HOMES.c.node == node)
            room = MOST_GPUS - int(connection.execute(own).scalar_one())
            new = [{"gpu_uuid": gpu, "node": node, "told_at": now} for gpu in sorted(gpus)][: max(room, 0)]
            if new:
                connection.execute(self._database.insert(GPU_HOMES).on_conflict_do_nothing(), new)
        return self.of(gpus)

    def move(self, gpu: str, node: str, now: int, by: str) -> None:
        """Say that a GPU is in another host now; what that host tells of it is believed from then on."""
        with self._database.writing() as connection:
            moved = self._database.insert(GPU_HOMES).values(gpu_uuid=gpu, node=node, told_at=now)
            connection.execute(
                moved.on_conflict_do_update(index_elements=["gpu_uuid"], set_={"node": node, "told_at": now})
            )
            record(connection, AuditEntry(now, "change", by, "move gpu", gpu, node))

    def first_heard(self, node: str, sent_at: int) -> int:
        """Return when the first batch that was ever taken of a host was sealed; this one, where there was none."""
        with self._database.writing() as connection:
            first = self._database.insert(HOSTS).values(node=node, first_sent_at=sent_at)
            connection.execute(first.on_conflict_do_nothing())
            row = connection.execute(select(HOSTS.c.first_sent_at).where(HOSTS.c.node == node)).one()
            return int(row.first_sent_at)
