"""What was last told of each GPU: facts are told when first seen and when they change."""

from collections.abc import Iterable, Mapping

from agent.source import Row, Value

# An idle link trains down and up again: told with the rest, but no reason by itself to tell the rest again.
RESTLESS = frozenset(("pcie_generation",))


class Inventory:
    """Remembers the row of each GPU and MIG instance, by UUID."""

    def __init__(self) -> None:
        self.told: dict[str, Row] = {}

    def changes(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows that are new or differ from what was told."""
        changed = [row for row in rows if _lasting(row) != _lasting(self.told.get(str(row["gpu_uuid"]), {}))]
        self.told.update((str(row["gpu_uuid"]), row) for row in changed)
        return changed


def _lasting(row: Mapping[str, Value]) -> Mapping[str, Value]:
    return {name: value for name, value in row.items() if name not in RESTLESS}
