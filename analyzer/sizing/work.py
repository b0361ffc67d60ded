"""What is to be done with a model: serve it, tune adapters, train all of it; how precisely, with how much at once."""

from dataclasses import dataclass
from typing import Literal, get_args

from analyzer.errors import ConfigError
from analyzer.sizing.precision import Precision, precision_named

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
