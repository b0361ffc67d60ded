"""Which of this host's GPUs a command can use, as CUDA_VISIBLE_DEVICES and Slurm say, and a source of those alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.source import Reading, Row, Source


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU or MIG instance as the driver lists it. `index` is None for an instance; `sku` where it is unknown."""

    uuid: str
    index: int | None
    sku: str | None
    parent_uuid: str | None = None


def visible_gpus(inventory: Sequence[Row]) -> list[Gpu]:
    """Return the GPUs of inventory rows, in the driver's order."""
    gpus = [
        Gpu(
            str(row["gpu_uuid"]),
            index if isinstance(index := row.get("gpu_index"), int) else None,
            str(row["sku"]) if row.get("sku") else None,
            str(row["parent_uuid"]) if row.get("parent_uuid") else None,
        )
        for row in inventory
        if row.get("gpu_uuid")
    ]
    return sorted(gpus, key=lambda gpu: (gpu.index is None, gpu.index or 0))


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """Return the GPUs that a command with this environment can use, in its own order.

    Indices are the driver's (CUDA_DEVICE_ORDER=PCI_BUS_ID; CUDA's own default order differs only between unlike
    GPUs). As in CUDA the list ends at its first entry that names no GPU. A task of srun that reports for its whole
    node has the GPUs of the step, not of the task.
    """
    names = environment.get("CUDA_VISIBLE_DEVICES")
    if "SLURM_LOCALID" in environment:
        names = environment.get("SLURM_STEP_GPUS") or environment.get("SLURM_JOB_GPUS") or names
    if names is None:
        return [gpu for gpu in gpus if gpu.parent_uuid is None]
    chosen: list[Gpu] = []
    for name in names.split(","):
        gpu = _named(gpus, name.strip())
        if gpu is None:
            break
        if gpu not in chosen:
            chosen.append(gpu)
    return chosen


def _named(gpus: Sequence[Gpu], name: str) -> Gpu | None:
    if name.isdecimal():
        return next((gpu for gpu in gpus if gpu.index == int(name) and gpu.parent_uuid is None), None)
    if not name.startswith(("GPU-", "MIG-")):
        return None
    found = [gpu for gpu in gpus if gpu.uuid.startswith(name)]
    return found[0] if len(found) == 1 else None


class ChosenGpus:
    """A source of some of the GPUs that another one reads; `first` is what that one said at its first reading."""

    def __init__(self, source: Source, chosen: Sequence[Gpu], first: Reading) -> None:
        self.name = source.name
        self.period_seconds = source.period_seconds
        self._source = source
        self._chosen = {gpu.uuid for gpu in chosen}
        self._first: Reading | None = first

    def read(self) -> Reading:
        """Return the rows of the chosen GPUs."""
        reading, self._first = self._first or self._source.read(), None
        return {name: [row for row in rows if row.get("gpu_uuid") in self._chosen] for name, rows in reading.items()}
