"""What a source is: one reading of one thing on this host; and how it says what it can tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Value = str | int | float | bool | None
Row = Mapping[str, Value]
Reading = Mapping[str, Sequence[Row]]  # table name to rows
Tables = dict[str, list[dict[str, Value]]]  # the same, stamped: whole rows of the contract


class Source(Protocol):
    """Reads one subject (the GPUs, the disks, …) once a beat, or more rarely where a reading is dear.

    Rows carry the contract's column names without `node`, `started_at` and `ended_at`, which the sampler adds for the
    interval since this source's last reading. A value that was not reported is None or left out. Amounts are what
    happened since the last reading, so the first reading of a source leaves them out.
    """

    name: str
    period_seconds: float  # 0 reads at every beat

    def read(self) -> Reading:
        """Return what is there now.

        Raises:
            SourceError: this time it failed; the sampler counts it, goes on, and tries again next beat.
        """
        ...


@dataclass(frozen=True, slots=True)
class Supported:
    """Whether one GPU tells of one subject (utilization, energy, activity, …), and in words why not."""

    gpu_uuid: str
    subject: str
    ok: bool = True
    reason: str = ""  # why not; empty where it does
