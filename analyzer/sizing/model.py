"""The model that is to be sized, and what is to be done with it: serve it, tune adapters, train all of it.

It is one of the table, or one whose figures somebody says. No shape is guessed. Parameters are counted as public
implementations build a decoder-only transformer (Llama, Mistral, Mixtral, Qwen2.5): two norms a layer and one at the
end, linears without bias unless said, a router in each layer of a mixture of experts. The counts of the table are
those that model cards publish (tests/analyzer/sizing/test_shape.py).
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry, read_toml


@dataclass(frozen=True, slots=True)
class Shape:
    """The widths of one model. `key_value_heads` are fewer than `heads` with grouped queries (GQA).

    `is_gated`: the MLP has three matrices (SwiGLU) and not two (GELU); `has_dropout`: masks are kept for the backward
    pass, as in the models of 2022. `experts_active` is how many of the `experts` a token meets.
    """

    layers: int
    hidden: int
    heads: int
    key_value_heads: int
    head_width: int
    intermediate: int
    vocabulary: int
    is_gated: bool = True
    has_dropout: bool = False
    is_tied: bool = False  # the output layer shares the embedding's weights
    has_query_bias: bool = False  # on queries, keys and values alone, as in Qwen2.5
    experts: int = 1
    experts_active: int = 1

    @property
    def query_width(self) -> int:
        """All heads' queries together."""
        return self.heads * self.head_width

    def key_value_width(self, tensor: int = 1) -> int:
        """Keys (or values) of the heads that one of `tensor` GPUs holds: a head is never split, only copied."""
        return -(-self.key_value_heads // tensor) * self.head_width

    def linears(self) -> tuple[tuple[int, int, int], ...]:
        """Return the weight matrices of one layer: width in, width out, how many. Adapters and 4 bits are for these."""
        queries, keys = self.query_width, self.key_value_width()
        return (
            (self.hidden, queries, 1),
            (self.hidden, keys, 2),
            (queries, self.hidden, 1),
            (self.hidden, self.intermediate, self.experts * (2 if self.is_gated else 1)),
            (self.intermediate, self.hidden, self.experts),
        )

    @property
    def layer_linear_parameters(self) -> int:
        """Parameters in the weight matrices of one layer."""
        return sum(wide * out * count for wide, out, count in self.linears())

    @property
    def layer_other_parameters(self) -> int:
        """Parameters of one layer in norms, biases and the router."""
        router = self.hidden * self.experts if self.experts > 1 else 0
        biases = self.query_width + 2 * self.key_value_width() if self.has_query_bias else 0
        return 2 * self.hidden + router + biases

    @property
    def layer_parameters(self) -> int:
        """All parameters of one layer."""
        return self.layer_linear_parameters + self.layer_other_parameters

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embedding; of the output layer as many again, unless they are tied."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters."""
        ends = self.embedding_parameters * (1 if self.is_tied else 2) + self.hidden
        return self.layers * self.layer_parameters + ends

    @property
    def active_parameters(self) -> int:
        """Parameters that a token meets: of a mixture of experts fewer than it has."""
        expert = self.hidden * self.intermediate * (3 if self.is_gated else 2)
        return self.parameters - self.layers * (self.experts - self.experts_active) * expert

    def adapter_parameters(self, rank: int) -> int:
        """Return the parameters of low-rank adapters of this rank on every linear: rank x (in + out) each.

        Source: Hu et al. 2021, LoRA; on every linear as Dettmers et al. 2023 (QLoRA, section 4) found to be needed.
        """
        return self.layers * sum(rank * (wide + out) * count for wide, out, count in self.linears())


@dataclass(frozen=True, slots=True)
class Precision:
    """One way to hold weights. `bits` are of a quantised weight with its scales; `quantises` only linears of layers."""

    name: str
    bits: Fraction
    quantises: bool
    source: str


# Blocks of 64 with an 8-bit scale, whose own 32-bit scale is shared by 256 of them: 0.127 bits (QLoRA, section 3).
_NF4_SCALES = Fraction(8, 64) + Fraction(32, 64 * 256)
# Groups of 128 with a 16-bit scale and a 4-bit zero point, as GPTQ and AWQ write them by default.
_INT4_SCALES = Fraction(16 + 4, 128)

PRECISIONS = {
    one.name: one
    for one in (
        Precision("fp32", Fraction(32), False, "IEEE 754"),
        Precision("bf16", Fraction(16), False, "16 bits"),
        Precision("fp16", Fraction(16), False, "16 bits"),
        Precision("fp8", Fraction(8), True, "8 bits; scales by tensor are left out"),
        Precision("int8", Fraction(8), True, "LLM.int8 (Dettmers et al. 2022); scales by row are left out"),
        Precision("int4", 4 + _INT4_SCALES, True, "GPTQ, AWQ: groups of 128"),
        Precision("nf4", 4 + _NF4_SCALES, True, "QLoRA: double quantization, 0.127 bits per weight"),
    )
}
WIDE_BITS = 16  # what quantisation leaves as it is: embeddings, output layer, norms, router

# GPUs by the model in their SKU. Source: NVIDIA's CUDA programming guide, arithmetic by compute capability: BF16 from
# 8.0 (Ampere) on, FP8 from 8.9 (Ada) on.
_BEFORE_AMPERE = ("P100", "V100", "T4")
_AMPERE = ("A100", "A10", "A10G", "A30", "A40", "A6000")


def _precision_named(name: str) -> Precision:
    """Return a precision.

    Raises:
        ConfigError: there is none of that name.
    """
    found = PRECISIONS.get(name)
    if found is None:
        raise ConfigError(f"--precision {name} is not one of {', '.join(PRECISIONS)}")
    return found


def cannot(sku: str, precision: Precision) -> str | None:
    """Say why GPUs of a SKU do not compute in a precision; None where nothing is known against it."""
    chip = sku.rpartition("-")[0] or sku
    if precision.name == "bf16" and chip in _BEFORE_AMPERE:
        return "no BF16 there: use fp16"
    if precision.name == "fp8" and chip in (*_BEFORE_AMPERE, *_AMPERE):
        return "no FP8 there: use int8"
    return None


_TABLE = Path(__file__).with_name("models.toml")
_WIDTHS = ("layers", "hidden", "heads", "key_value_heads", "intermediate", "vocabulary")
_FLAGS = ("is_tied", "has_query_bias")
_EXPERTS = ("experts", "experts_active")
# What a release of the same shape adds to a name: "Llama-2-7b-chat-hf", "Mixtral-8x7B-Instruct-v0.1".
_RELEASE = re.compile(r"-(hf|chat|instruct|base|it|awq|gptq|fp8|bf16|v0\.\d)$")


@dataclass(frozen=True, slots=True)
class Model:
    """A model: its name, its parameters, and its shape where it is known. `source` says whose figures these are."""

    name: str
    parameters: int
    shape: Shape | None
    source: str
    also: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names that it goes by, as `plain_name` gives them."""
        return frozenset((self.name, *self.also))


def plain_name(name: str) -> str:
    """Return a model's name without its owner, case and release: "meta-llama/Llama-2-7b-chat-hf" is "llama-2-7b"."""
    short = name.strip().rstrip("/").rsplit("/", 1)[-1].lower().replace("_", "-")
    while (shorter := _RELEASE.sub("", short)) != short:
        short = shorter
    return short


@cache
def known_models() -> tuple[Model, ...]:
    """Return the table, as it is shipped."""
    known = ("name", "also", "source", *_WIDTHS, *_FLAGS, *_EXPERTS)
    return tuple(_model(entry) for entry in read_toml(_TABLE, ("model",)).entries("model", known))


def _model(entry: TomlEntry) -> Model:
    hidden, heads = entry.count("hidden"), entry.count("heads")
    shape = Shape(
        layers=entry.count("layers"),
        hidden=hidden,
        heads=heads,
        key_value_heads=entry.count("key_value_heads"),
        head_width=hidden // heads,
        intermediate=entry.count("intermediate"),
        vocabulary=entry.count("vocabulary"),
        is_tied=entry.has("is_tied") and entry.flag("is_tied"),
        has_query_bias=entry.has("has_query_bias") and entry.flag("has_query_bias"),
        experts=entry.count("experts") if entry.has("experts") else 1,
        experts_active=entry.count("experts_active") if entry.has("experts_active") else 1,
    )
    return Model(entry.text("name"), shape.parameters, shape, entry.text("source"), entry.text_list("also"))


def find_model(name: str) -> Model | None:
    """Return the model of the table that goes by this name, or None."""
    plain = plain_name(name)
    return next((model for model in known_models() if plain in model.names), None)


def model_named(name: str) -> Model:
    """Return the model of the table that goes by this name.

    Raises:
        ConfigError: there is none; the message names the nearest, and the way without the table.
    """
    found = find_model(name)
    if found is None:
        names = [each for model in known_models() for each in sorted(model.names)]
        near = get_close_matches(plain_name(name), names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(model.name for model in known_models())};"
        raise ConfigError(
            f"there is no model {name!r} in the table; {hint} any other is given with --parameters, --layers, --hidden"
        )
    return found


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
    held = _precision_named(precision or _DEFAULT_PRECISION[purpose])
    kept = _precision_named(cache) if cache else None
    work = Work(purpose, held, cache=kept, **more)  # type: ignore[arg-type]  # argparse has typed them
    _check(work)
    return work


def _check(work: Work) -> None:
    name = work.precision.name
    if work.purpose == "full" and work.precision.quantises:
        raise ConfigError(
            f"--precision {name} does not go with --for full: all weights are trained in 16 or 32 bits, and {name} "
            "matrix products save none of it; use bf16, or --for qlora"
        )
    if work.purpose == "qlora" and not work.precision.quantises:
        raise ConfigError(f"--precision {name} does not go with --for qlora, which quantizes: use nf4, or --for lora")
    if work.cache is not None and work.cache.name not in ("bf16", "fp16", "fp32", "fp8", "int8"):
        raise ConfigError(f"--kv-precision {work.cache.name} is not kept by servers: use fp8, int8 or bf16")
    if work.optimizer not in MOMENT_BYTES:
        raise ConfigError(f"--optimizer {work.optimizer} is not one of {', '.join(MOMENT_BYTES)}")
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
                f"--sharding {said} cannot be read: use none, zero1, zero2, zero3 (or fsdp), tensor, pipeline, or "
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
        raise ConfigError(f"--sharding {said} does not divide {gpus} GPUs: set --gpus, and how many each way takes")
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
