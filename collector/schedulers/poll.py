"""What one poll of a scheduler found, and what whoever asks must be able to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collector.store.session import Session

Value: TypeAlias = str | int | float | None
Row: TypeAlias = dict[str, Value]
_Tables: TypeAlias = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Poll:
    """Rows of the contract that are new, found at a moment (microseconds UTC).

    `complete` is False where a part of the scheduler did not answer, so that the next poll must look further back.
    """

    found_at: int
    tables: _Tables
    complete: bool = True


class ClusterSource(Protocol):
    """One cluster's scheduler. Used in one thread: what `poll` returns is landed, and then `landed` is called."""

    name: str  # slurm/alpha: how its rows are signed
    unplaced: int  # runs that hold GPUs which are not known by name

    def poll(self, session: "Session", now: int) -> Poll:
        """Return what is new.

        Raises:
            SchedulerError: the scheduler did not answer.
        """
        ...

    def landed(self, poll: Poll) -> None:
        """Note that a poll's rows are in the store."""
        ...

    def closing(self, now: int) -> Poll:
        """Return what was seen and not told yet, for the end."""
        ...


def moment_of(row: Mapping[str, Value], name: str) -> int | None:
    """Return a row's time or count by name, or None where it has none."""
    value = row.get(name)
    return value if isinstance(value, int) else None
