"""What is to be done with a model: serve it, tune adapters, train all of it; how precisely, with how much at once."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from analyzer.errors import ConfigError
from analyzer.sizing.model import Precision, Shape, precision_named

Purpose = Literal["inference", "lora", "qlora", "full"]
_Recompute = Literal["none", "selective", "full"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
RECOMPUTES: tuple[_Recompute, ...] = get_args(_Recompute)

# Bytes beside weights and gradients for each parameter that is trained in 16 bits: the 32-bit copy, then the moments.
# Sources: ZeRO (Rajbhandari et al. 2020, section 3.1) for adam; EleutherAI's Transformer Math 101 for sgd (with
# momentum) and adam8bit, whose states are a byte each; Adafactor (Shazeer and Stern 2018) without its first moment
# keeps a row and a column of each matrix, which is nothing beside it and is left out.
COPY_BYTES = 4
MOMENT_BYTES = {"adam": 8, "adam8bit": 2, "adafactor": 0, "sgd": 4}
_DEFAULT_PRECISION = {"inference": "bf16", "lora": "bf16", "qlora": "nf4", "full": "bf16"}
_MOST_TOKENS = 100_000_000  # of one context or batch: what lies beyond is a slip of the pen
_MOST_COUNT = 1_000_000


@dataclass(frozen=True, slots=True)
class Work:
    """What is done. `batch` is sequences of `context` tokens on one GPU (or group of GPUs that share a model) at once.

    `sequences` are those that inference serves at a time, `cache` the precision of their keys and values, `rank` that
    of adapters. `recompute`: selective leaves the scores of attention out, as FlashAttention does; full keeps only each
    layer's input (gradient checkpointing).
    """

    purpose: Purpose
    precision: Precision
    optimizer: str = "adam"
    batch: int = 1
    context: int = 4096
    sequences: int = 1
    cache: Precision | None = None
    recompute: _Recompute = "selective"
    rank: int = 16

    @property
    def is_training(self) -> bool:
        """Whether anything is learnt."""
        return self.purpose != "inference"

    @property
    def tokens(self) -> int:
        """Tokens that one GPU trains on at once."""
        return self.batch * self.context

    @property
    def value_bytes(self) -> int:
        """Bytes of one activation, one gradient, one 16-bit weight: four where all is in 32 bits."""
        return 4 if self.precision.name == "fp32" else 2


def work_of(purpose: Purpose, precision: str | None = None, cache: str | None = None, **more: object) -> Work:
    """Return the work, with the precision that is usual for it where none is said.

    Raises:
        ConfigError: the precision or optimizer does not go with it, or a number is out of bounds.
    """
    held = precision_named(precision or _DEFAULT_PRECISION[purpose])
    kept = precision_named(cache) if cache else None
    work = Work(purpose, held, cache=kept, **more)  # type: ignore[arg-type]  # argparse has typed them
    _check(work)
    return work


def _check(work: Work) -> None:
    name = work.precision.name
    if work.purpose == "full" and work.precision.quantises:
        raise ConfigError(
            f"--precision {name} does not go with --for full: all weights are trained in 16 or 32 bits, and {name} "
            "matrix products save none of it; say bf16, or --for qlora"
        )
    if work.purpose == "qlora" and not work.precision.quantises:
        raise ConfigError(f"--precision {name} does not go with --for qlora, which quantises: say nf4, or --for lora")
    if work.cache is not None and work.cache.name not in ("bf16", "fp16", "fp32", "fp8", "int8"):
        raise ConfigError(f"--kv-precision {work.cache.name} is not kept by servers: say fp8, int8 or bf16")
    if work.optimizer not in MOMENT_BYTES:
        raise ConfigError(f"--optimizer {work.optimizer} is none of {', '.join(MOMENT_BYTES)}")
    for flag, value in (("batch", work.batch), ("sequences", work.sequences), ("rank", work.rank)):
        if not 1 <= value <= _MOST_COUNT:
            raise ConfigError(f"--{flag} {value} must be from 1 to {_MOST_COUNT:,}")
    if not 1 <= work.context <= _MOST_TOKENS:
        raise ConfigError(f"--context {work.context} must be from 1 to {_MOST_TOKENS:,} tokens")


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
