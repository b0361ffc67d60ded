"""What was last told of each GPU: facts are told when first seen and when they change."""

from collections.abc import Iterable, Mapping

from agent.source import Row, Value

# An idle link trains down and up again: told with the rest, but no reason by itself to tell the rest again.
_RESTLESS = frozenset(("pcie_generation",))
# A GPU whose MIG mode was ended has none; of every other fact None says that it could not be read now.
_PASSING = frozenset(("mig_slices_max",))


class Inventory:
    """Remembers the row of each GPU and MIG instance, by UUID."""

    def __init__(self) -> None:
        self.told: dict[str, Row] = {}

    def changes(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows that are new or differ from what was told; what cannot be read now is as it was told."""
        known = [_known(self.told.get(str(row["gpu_uuid"]), {}), row) for row in rows]
        changed = [row for row in known if _lasting(row) != _lasting(self.told.get(str(row["gpu_uuid"]), {}))]
        self.told.update((str(row["gpu_uuid"]), row) for row in changed)
        return changed


def _known(before: Row, row: Row) -> Row:
    return {name: before.get(name) if value is None and name not in _PASSING else value for name, value in row.items()}


def _lasting(row: Mapping[str, Value]) -> Mapping[str, Value]:
    return {name: value for name, value in row.items() if name not in _RESTLESS}
