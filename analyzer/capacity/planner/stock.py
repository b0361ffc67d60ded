"""The nodes that the ledger knows, with what each has and what others hold of it now: where a plan may place work."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeHolder:
    """A run that holds a part of one node: GPUs there, cores that it may use and memory that it used at the most.

    `until_us` is the end of the time that it asked for; None where nobody knows: it asked for none, or is over it.
    """

    run_id: str
    name: str
    gpus: int
    cores: float | None
    memory_bytes: int | None
    until_us: int | None


@dataclass(frozen=True, slots=True)
class StockNode:
    """One node of the inventory. None is not known, and never none; `gpus` of a node without any is 0.

    `price_micros_per_gpu_hour` is what a GPU-hour of it came to in the last day; None
    also where its GPUs are of several kinds. `is_up` is its scheduler's word.
    """

    node: str
    rack: str | None
    group: str | None
    cpu_cores: int | None
    memory_bytes: int | None
    local_nvme_bytes: int | None
    gpus: int
    gpus_free: int
    sku: str | None
    gpu_memory_bytes: int | None
    price_micros_per_gpu_hour: int | None
    is_up: bool
    holders: tuple[NodeHolder, ...]
    cores_busy: float | None = None  # of nodes without GPUs, where nobody says what holds them
    memory_busy_bytes: int | None = None

    @property
    def cores_free(self) -> float | None:
        """Cores that no holder may use; None where one of them may use nobody knows how many."""
        held = [holder.cores for holder in self.holders]
        if self.cpu_cores is None or any(cores is None for cores in held):
            return None
        return max(0.0, self.cpu_cores - sum(cores or 0.0 for cores in held) - (self.cores_busy or 0.0))

    @property
    def memory_free_bytes(self) -> int | None:
        """Memory that no holder was seen to use; None where of one of them it is not known."""
        held = [holder.memory_bytes for holder in self.holders]
        if self.memory_bytes is None or any(amount is None for amount in held):
            return None
        return max(0, self.memory_bytes - sum(amount or 0 for amount in held) - (self.memory_busy_bytes or 0))
