"""What a vendor's GPUs are to the rest of the agent: a source, and what it knows of itself between two readings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agent.attribution.devices import Device, GpuProcess, Holding
from agent.files import StateFile
from agent.source import Source, Supported


class GpuSource(Source, Protocol):
    """The GPUs of one vendor on this host: rows of gpu_samples and inventory. All but `read` is for any thread."""

    @property
    def no_gpu(self) -> str:
        """Why there was no GPU at the start, in words; empty where there was one."""

    @property
    def counts(self) -> tuple[int, int] | None:
        """How many GPUs are expected and seen; None where nobody knows of one."""

    def processes(self) -> Sequence[GpuProcess]:
        """Return who held which GPU when that was last said."""

    def holding(self) -> Holding | None:
        """Return who holds which GPU as the last reading said it; None while none has been read."""

    def devices(self) -> Sequence[Device]:
        """Return how each GPU, and each part of one, is named."""

    def unreadable(self) -> Mapping[str, str]:
        """Return which answers of the driver cannot be read now, by GPU and question, and why."""

    def supported(self) -> Sequence[Supported]:
        """Return what each GPU tells, and why not."""

    def xids(self) -> Mapping[str, Mapping[str, int]]:
        """Return by GPU how many of the driver's errors of each class were heard."""

    def close(self) -> None:
        """Give the driver back."""


@dataclass(frozen=True, slots=True)
class GpuHost:
    """What a vendor's GPUs are opened with. `quiet` returns the GPUs that are to be left alone now."""

    node: str
    proc: Path
    sys: Path
    expected_gpus: int  # as the operator says; 0 where nobody does
    hang_seconds: float  # after which a question counts as hung
    process_seconds: float  # between two lists of processes
    state_file: StateFile
    quiet: Callable[[], frozenset[str]]
