"""The memory of a model on each GPU: its parts, and their sum. A part that is not known makes the sum "at least"."""

from dataclasses import dataclass, replace

from analyzer.sizing.activations import cache_bytes, prompt_bytes, training_bytes
from analyzer.sizing.model import Model
from analyzer.sizing.sharding import Sharding
from analyzer.sizing.states import states
from analyzer.sizing.work import Work
from analyzer.text.wording import gib

# Assumed, for each GPU: the context with its kernels, the libraries' workspaces, the buffers of collectives. vLLM logs
# 0.1 GiB outside of PyTorch on one GPU (its issue 12330), kvplan counts 0.6 with graphs and compiled code; collectives
# come on top. What an allocator loses to gaps is for the headroom.
_OVERHEAD_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One part of the memory of a GPU, in bytes; None: not known without the model's shape. `told` says what it is."""

    name: str
    bytes: int | None
    told: str


@dataclass(frozen=True, slots=True)
class Memory:
    """What one GPU holds, part by part."""

    parts: tuple[MemoryPart, ...]
    sharding: Sharding

    @property
    def total_bytes(self) -> int:
        """The sum of what is known."""
        return sum(part.bytes or 0 for part in self.parts)

    @property
    def is_whole(self) -> bool:
        """Whether every part is known; else the total is "at least"."""
        return all(part.bytes is not None for part in self.parts)

    def of(self, name: str) -> int | None:
        """Return one part's bytes; None where it is not known, or there is none."""
        return next((part.bytes for part in self.parts if part.name == name), None)


def memory(model: Model, work: Work, sharding: Sharding) -> Memory:
    """Return what each GPU holds of this model for this work, spread so. Of several stages it is the fullest."""
    kept = states(model, work, sharding)
    parts = [MemoryPart("weights", kept.weights, f"{work.precision.name}{_wide(model, work)}")]
    if sharding.zero == 3 and sharding.data > 1:
        parts.append(MemoryPart("gathered weights", kept.gathered, "two layers at a time are whole while they compute"))
    parts += _trained(work, kept.adapters, kept.gradients, kept.optimizer) if work.is_training else []
    parts += _moving(model, work, sharding)
    parts.append(MemoryPart("framework", _OVERHEAD_BYTES, "assumed: context, kernels, workspaces, collectives"))
    return Memory(tuple(parts), sharding)


def _wide(model: Model, work: Work) -> str:
    if not work.precision.quantises:
        return ""
    return "; embeddings and norms in 16 bits" if model.shape else "; embeddings too: its shape is not known"


def _trained(work: Work, adapters: int | None, gradients: int | None, optimizer: int | None) -> list[MemoryPart]:
    found = [MemoryPart("adapters", adapters, f"rank {work.rank} on every linear")] if work.purpose != "full" else []
    copy = "moments" if work.value_bytes == 4 else "32-bit copy, moments"
    return [
        *found,
        MemoryPart("gradients", gradients, f"{work.value_bytes} bytes for each parameter that is trained"),
        MemoryPart("optimizer", optimizer, f"{work.optimizer}: {copy}"),
    ]


def _moving(model: Model, work: Work, sharding: Sharding) -> list[MemoryPart]:
    """Return what depends on batch, context and sequences."""
    shape = model.shape
    if work.is_training:
        told = f"batch {work.batch} x {work.context:,} tokens, recompute {work.recompute}"
        if shape is None:
            return [MemoryPart("activations", None, told)]
        if work.recompute != "full":
            less = training_bytes(shape, replace(work, recompute="full"), sharding)
            told += f"; {gib(less)} with --recompute full"
        return [MemoryPart("activations", training_bytes(shape, work, sharding), told)]
    cache = (work.cache.name if work.cache else None) or ("fp32" if work.value_bytes == 4 else "bf16")
    told = f"{work.sequences:,} x {work.context:,} tokens, {cache}"
    return [
        MemoryPart("KV cache", None if shape is None else cache_bytes(shape, work, sharding), told),
        MemoryPart(
            "prompt", None if shape is None else prompt_bytes(shape, work, sharding), "one layer's widest tensors"
        ),
    ]
