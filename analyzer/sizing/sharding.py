"""How a model is spread over GPUs: copies that share their states (ZeRO, FSDP), split matrices, split layers."""

import re
from dataclasses import dataclass

from analyzer.errors import ConfigError
from analyzer.sizing.shape import Shape

MOST_GPUS = 100_000
_PART = re.compile(r"(none|zero[123]|fsdp|tensor|pipeline)(?:=(\d{1,6}))?")


@dataclass(frozen=True, slots=True)
class Sharding:
    """`data` copies of a model, each over `tensor` x `pipeline` GPUs; `zero` is the stage by which copies share states.

    Stage 1 divides the optimizer's states over the copies, 2 the gradients too, 3 (FSDP) the weights too.
    Source: Rajbhandari et al. 2020, ZeRO: Memory Optimizations Toward Training Trillion Parameter Models.
    """

    zero: int = 0
    data: int = 1
    tensor: int = 1
    pipeline: int = 1

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.data * self.tensor * self.pipeline

    @property
    def told(self) -> str:
        """As `sharding_of` reads it, where the number of GPUs is told too: "tensor=8,pipeline=2", "zero3", "none"."""
        parts = [f"tensor={self.tensor}"] if self.tensor > 1 else []
        parts += [f"pipeline={self.pipeline}"] if self.pipeline > 1 else []
        parts += [f"zero{self.zero}"] if self.data > 1 and self.zero else []
        return ",".join(parts) or "none"


def sharding_of(said: str, gpus: int) -> Sharding:
    """Return what somebody says: "zero3", "tensor", "tensor=8,pipeline=2", "tensor=8,zero1"; copies fill the GPUs.

    One way without a number takes all of the GPUs that the others leave.

    Raises:
        ConfigError: it cannot be read, or does not divide the GPUs.
    """
    stage, ways = 0, {}
    for part in said.replace(" ", "").split(","):
        match = _PART.fullmatch(part)
        if match is None or (match[2] and match[1] not in ("tensor", "pipeline")) or match[1] in ways:
            raise ConfigError(
                f"--sharding {said} cannot be read: say none, zero1, zero2, zero3 (or fsdp), tensor, pipeline, or "
                "several such as tensor=8,pipeline=2"
            )
        if match[1] in ("tensor", "pipeline"):
            ways[match[1]] = int(match[2]) if match[2] else None
        elif match[1] != "none":
            stage = 3 if match[1] == "fsdp" else int(match[1][-1])
    open_ways = [way for way, count in ways.items() if count is None]
    fixed = 1
    for count in ways.values():
        fixed *= count if count is not None else 1
    if len(open_ways) > 1 or fixed < 1 or gpus % fixed or not 1 <= gpus <= MOST_GPUS:
        raise ConfigError(f"--sharding {said} does not divide {gpus} GPUs: say --gpus, and how many each way takes")
    degrees = {way: count if count is not None else gpus // fixed for way, count in ways.items()}
    tensor, pipeline = degrees.get("tensor", 1), degrees.get("pipeline", 1)
    return Sharding(stage, gpus // (tensor * pipeline), tensor, pipeline)


def splits(sharding: Sharding, shape: Shape | None) -> str | None:
    """Say why a model cannot be spread so; None where it can. Without a shape nothing is known against it."""
    if shape is None:
        return None
    if shape.heads % sharding.tensor:
        return f"its {shape.heads} heads are not divided by tensor={sharding.tensor}"
    if sharding.pipeline > shape.layers:
        return f"its {shape.layers} layers do not fill pipeline={sharding.pipeline}"
    return None
