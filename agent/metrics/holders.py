"""Which run holds which GPU, from the rows of `allocations` and `process_samples`, as they may leave this host."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.metrics.series import MOST_SERIES
from agent.source import Row

# What is known of a run, in the order of its labels.
IDENTITY = ("scheduler", "member", "user", "account", "project", "name", "queue")


@dataclass(frozen=True, slots=True)
class LabelledHolder:
    """A run that holds a GPU; `identity` has what is known of IDENTITY, "" for what is not."""

    gpu_uuid: str
    run_id: str
    identity: Mapping[str, str]


class Holders:
    """Remembers open allocations, MOST_SERIES at most: they are told when they begin and when they end."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Row] = {}

    def take(self, allocations: Iterable[Row]) -> int:
        """Take what began and what ended, and return how many were too many to be remembered."""
        left_out = 0
        for row in allocations:
            key = (str(row.get("gpu_uuid") or ""), str(row.get("run_id")))
            if row.get("ended_at") is not None:
                self._open.pop(key, None)
            elif key[0] and row.get("started_at") is not None:
                if key in self._open or len(self._open) < MOST_SERIES:
                    self._open[key] = row
                else:
                    left_out += 1
        return left_out

    def holding(self, processes: Iterable[Row]) -> list[LabelledHolder]:
        """Return one holder for each GPU and run, with what its allocation and its processes tell of it."""
        owners = {
            (str(row["gpu_uuid"]), str(row["run_id"])): row.get("owner") for row in processes if row.get("gpu_uuid")
        }
        keys = [*self._open, *(key for key in owners if key not in self._open)]
        return [_holder(key, self._open.get(key, {}), owners.get(key)) for key in keys[:MOST_SERIES]]


def _holder(key: tuple[str, str], allocation: Row, owner: object) -> LabelledHolder:
    known = {name: str(allocation.get(name) or "") for name in IDENTITY}
    return LabelledHolder(*key, known | {"user": known["user"] or str(owner or "")})
