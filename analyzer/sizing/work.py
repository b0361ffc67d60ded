"""What is done with a model: served, adapters tuned, all of it trained; in which precision, and which chips do that.

Holding weights in few bits is another thing than computing in them: kernels that unpack (Marlin) need less of a chip.
Unknown is never yes, and never no.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from agent.wire.sku import sku as sku_name
from analyzer.errors import ConfigError
from analyzer.settings.toml_entry import TomlEntry, read_toml
from analyzer.sizing.shape import LinearKind, Shape


@dataclass(frozen=True, slots=True)
class Precision:
    """One way to hold weights. `bits` are of a quantised weight with its scales; `quantises` only linears of layers.

    `spared` are the shares of linears, by kind, that a checkpoint leaves in 16 bits all the same. `ends` are those of
    embeddings and output layer, where they are quantised too. `pads_to`: engines round the widths of experts up to
    a multiple of so many.
    """

    name: str
    bits: Fraction
    quantises: bool
    source: str
    spared: tuple[tuple[LinearKind, Fraction], ...] = ()
    ends: tuple[Fraction, Fraction] | None = None
    pads_to: int = 1

    @property
    def computes_in(self) -> str:
        """The arithmetic that it asks of a GPU: kernels unpack what no unit multiplies."""
        return self.name if self.name in ("fp32", "bf16", "fp16", "fp8", "int8", "mxfp4", "nvfp4") else "fp16"

    @property
    def bits_of_all(self) -> Fraction:
        """Bits a weight of a whole model whose shape is not known: of the ends it has as many as GGUF's table has."""
        return self.bits if self.ends is None else self.bits + _GGUF_END * (sum(self.ends) - 2 * self.bits)


# Blocks of 64 with an 8-bit scale, whose own 32-bit scale is shared by 256 of them: 0.127 bits (QLoRA, section 3).
_NF4_SCALES = Fraction(8, 64) + Fraction(32, 64 * 256)
_GROUP = 128  # weights that share a scale, as GPTQ and AWQ write them by default


def int4(group: int = _GROUP, zero_bits: int = 4) -> Precision:
    """Return 4 bits in groups with a 16-bit scale and a zero point; a group below 1: one for a whole row."""
    scales = Fraction(16 + zero_bits, group) if group > 0 else Fraction(0)
    told = f"groups of {group}" if group > 0 else "a scale for each row"
    return Precision("int4", 4 + scales, quantises=True, source=f"GPTQ, AWQ: {told}")


PRECISIONS = {
    one.name: one
    for one in (
        Precision("fp32", Fraction(32), False, "IEEE 754"),
        Precision("bf16", Fraction(16), False, "16 bits"),
        Precision("fp16", Fraction(16), False, "16 bits"),
        Precision("fp8", Fraction(8), True, "8 bits; scales by tensor are left out"),
        Precision("int8", Fraction(8), True, "LLM.int8 (Dettmers et al. 2022); scales by row are left out"),
        int4(),
        Precision("nf4", 4 + _NF4_SCALES, True, "QLoRA: double quantization, 0.127 bits per weight"),
        Precision("mxfp4", 4 + Fraction(8, 32), True, "OCP MX 1.0: blocks of 32 share 8 bits", pads_to=256),
        Precision("nvfp4", 4 + Fraction(8, 16), True, "NVFP4: blocks of 16 share 8 bits"),
    )
}
WIDE_BITS = 16  # what quantisation leaves as it is: embeddings, output layer, norms, router

# Bits a weight of a whole file, and the kinds of the embeddings and of the output layer in it (which is the embeddings'
# where both are one). Sources: llama.cpp, tools/quantize/README.md, Llama 3.1 8B; src/llama-quant.cpp.
_GGUF_BITS = {
    "iq1_s": ("2.0042", "q2", "q5"), "iq1_m": ("2.1460", "q2", "q5"), "iq2_xxs": ("2.3824", "q2", "q5"),
    "iq2_xs": ("2.5882", "q2", "q5"), "iq2_s": ("2.7403", "q3", "q5"), "iq2_m": ("2.9294", "q3", "q5"),
    "iq3_xxs": ("3.2548", "q3", "q5"), "iq3_xs": ("3.4977", "q3", "q6"), "iq3_s": ("3.6606", "q3", "q6"),
    "iq3_m": ("3.7628", "q3", "q6"), "iq4_xs": ("4.4597", "iq4", "q6"), "iq4_nl": ("4.6818", "q4", "q6"),
    "q2_k_s": ("2.9697", "q2", "q6"), "q2_k": ("3.1593", "q2", "q6"), "q3_k_s": ("3.6429", "q3", "q6"),
    "q3_k_m": ("3.9960", "q3", "q6"), "q3_k_l": ("4.2979", "q3", "q6"), "q4_0": ("4.6685", "q4", "q6"),
    "q4_k_s": ("4.6672", "q4", "q6"), "q4_k_m": ("4.8944", "q4", "q6"), "q4_1": ("5.1170", "q4_1", "q6"),
    "q5_0": ("5.5704", "q5", "q6"), "q5_k_s": ("5.5704", "q5", "q6"), "q5_1": ("6.0654", "q5_1", "q6"),
    "q5_k_m": ("5.7036", "q5", "q6"), "q6_k": ("6.5633", "q6", "q6"), "q8_0": ("8.5008", "q8", "q8"),
}  # fmt: skip
_GGUF_ENDS = {
    "q2": "2.625", "q3": "3.4375", "q4": "4.5", "iq4": "4.25", "q4_1": "5", "q5": "5.5", "q5_1": "6", "q6": "6.5625",
    "q8": "8.5",
}  # fmt: skip
_GGUF_END = Fraction(128_256 * 4096, 8_030_261_248)  # the share of either in the model of the table
_GGUF_LARGE = {"q2_k_l": "q2_k", "q3_k_xl": "q3_k_l", "q4_k_l": "q4_k_m", "q5_k_l": "q5_k_m", "q6_k_l": "q6_k"}
_GGUF_USUAL = "q4_k_m"


def gguf_precision(kind: str) -> Precision:
    """Return what a GGUF file of a kind is held in: "q5_k_m"; of an unknown one, or of "gguf", the usual kind.

    The table's bits are those of one model, of which embeddings and output layer are an eighth: larger models have less
    in them. "q4_k_l" is the common name of q4_k_m with both in 8 bits.
    """
    name = re.sub(r"[-.]", "_", kind.lower())
    large = _GGUF_LARGE.get(name)
    named = next((known for known in (name, f"{name}_m", name.rsplit("_", 1)[0]) if known in _GGUF_BITS), _GGUF_USUAL)
    told = "llama.cpp, bits per weight" if large or named in name else f"GGUF, {named} is assumed"
    bits, *kinds = _GGUF_BITS[large or named]
    embedding, output = (Fraction(_GGUF_ENDS[one]) for one in kinds)
    linears = (Fraction(bits) - _GGUF_END * (embedding + output)) / (1 - 2 * _GGUF_END)
    ends = (Fraction(_GGUF_ENDS["q8"]),) * 2 if large else (embedding, output)
    return Precision(name if large else named, linears, quantises=True, source=told, ends=ends)


MLX_BITS = (2, 3, 4, 5, 6, 8)


def mlx(bits: int, group: int = 64) -> Precision:
    """Return MLX's affine kinds: a scale and an offset of 16 bits for each group, embeddings too."""
    held = bits + Fraction(32, group)
    return Precision(f"int{bits}", held, quantises=True, source="MLX", ends=(held, held))


def precision_named(name: str) -> Precision:
    """Return a precision.

    Raises:
        ConfigError: there is none of that name.
    """
    if (found := PRECISIONS.get(name)) is not None:
        return found
    if name in _GGUF_BITS or name in _GGUF_LARGE:
        return gguf_precision(name)
    raise ConfigError(f"--precision {name} is not one of {', '.join(PRECISIONS)}, nor of GGUF's, such as {_GGUF_USUAL}")


Purpose = Literal["inference", "lora", "qlora", "full"]
_Recompute = Literal["none", "selective", "full"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
RECOMPUTES: tuple[_Recompute, ...] = get_args(_Recompute)

# Bytes beside weights and gradients for each parameter that is trained in 16 bits: the 32-bit copy, then the moments.
# Sources: ZeRO (Rajbhandari et al. 2020, section 3.1) for adam; EleutherAI's Transformer Math 101 for sgd (with
# momentum) and adam8bit, whose states are a byte each; Adafactor (Shazeer and Stern 2018) without its first moment
# keeps a row and a column of each matrix, which is nothing beside it and is left out.
COPY_BYTES = 4
MOMENT_BYTES = {"adam": 8, "adam8bit": 2, "adafactor": 0, "sgd": 4, "plain_sgd": 0}
# How its states are kept: all in 16 bits without a 32-bit copy; without the copy alone; each gradient used up where it
# is made (PyTorch's optimizer in backward); gradients and states in the host's memory (Ren et al. 2021, ZeRO-Offload).
STATE_WAYS = ("bf16", "no_copy", "in_backward", "offloaded")
DEFAULT_PRECISION = {"inference": "bf16", "lora": "bf16", "qlora": "nf4", "full": "bf16"}
_MOST_TOKENS = 100_000_000  # of one context or batch: what lies beyond is a slip of the pen
_MOST_COUNT = 1_000_000


@dataclass(frozen=True, slots=True)
class Work:
    """What is done. `batch` is sequences of `context` tokens on one GPU (or group of GPUs that share a model) at once.

    `sequences` are those that inference serves at a time, `cache` the precision of their keys and values, `adapters`
    how many it keeps loaded, `rank` that of adapters. `recompute`: selective leaves the scores of attention out, as
    FlashAttention does; full keeps only each layer's input (gradient checkpointing). `states` are of STATE_WAYS.
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
    states: frozenset[str] = frozenset()
    adapters: int = 0

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

    @property
    def state_bytes(self) -> int:
        """The optimizer's bytes on a GPU for a trained parameter; in 32 bits the weights are their own copy."""
        if "offloaded" in self.states:
            return 0
        moments = MOMENT_BYTES[self.optimizer]
        if "bf16" in self.states:
            return moments if self.optimizer == "adam8bit" else moments // 2
        return moments + (0 if self.value_bytes == COPY_BYTES or "no_copy" in self.states else COPY_BYTES)


def work_of(purpose: Purpose, precision: str | None = None, cache: str | None = None, **more: object) -> Work:
    """Return the work, with the precision that is usual for it where none is said.

    Raises:
        ConfigError: the precision or optimizer does not go with it, or a number is out of bounds.
    """
    return checked(
        Work(
            purpose,
            precision_named(precision or DEFAULT_PRECISION[purpose]),
            cache=precision_named(cache) if cache else None,
            **more,  # type: ignore[arg-type]  # argparse has typed them
        )
    )


def checked(work: Work) -> Work:
    """Return work that makes sense.

    Raises:
        ConfigError: the precision or optimizer does not go with it, or a number is out of bounds.
    """
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
    if unknown := sorted(work.states - {*STATE_WAYS}):
        raise ConfigError(f"--states {','.join(unknown)} is not one of {', '.join(STATE_WAYS)}")
    counts = ("batch", work.batch, 1), ("sequences", work.sequences, 1), ("rank", work.rank, 1)
    for flag, value, least in (*counts, ("adapters", work.adapters, 0)):
        if not least <= value <= _MOST_COUNT:
            raise ConfigError(f"--{flag} {value} must be from {least} to {_MOST_COUNT:,}")
    if not 1 <= work.context <= _MOST_TOKENS:
        raise ConfigError(f"--context {work.context} must be from 1 to {_MOST_TOKENS:,} tokens")
    return work


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


_TABLE = Path(__file__).with_name("chips.toml")
NAMED_MEMORY = re.compile(r"-(\d{1,4})GB$")  # at the end of a SKU

# From which compute capability on a chip computes in a precision, and holds weights in it. Sources: NVIDIA, CUDA
# programming guide, arithmetic by compute capability (BF16 8.0, FP8 8.9, FP4 10.0); vLLM, supported hardware for
# quantization kernels (GPTQ and bitsandbytes from Volta on, FP8 and FP4 by Marlin from Ampere on).
_COMPUTES = {
    "fp16": (5, 3), "bf16": (8, 0), "int8": (7, 5), "fp8": (8, 9), "mxfp4": (10, 0), "nvfp4": (10, 0), "fp32": (0, 0),
}  # fmt: skip
_HOLDS = {"fp8": (8, 0), "mxfp4": (8, 0), "nvfp4": (8, 0), "int4": (7, 0), "nf4": (7, 0)}
# AMD's by the name of the architecture: what each has matrix units for. Source: AMD, CDNA 2, 3 and 4 white papers.
_AMD = {
    "gfx90a": ("fp32", "fp16", "bf16", "int8"),
    "gfx942": ("fp32", "fp16", "bf16", "int8", "fp8"),
    "gfx950": ("fp32", "fp16", "bf16", "int8", "fp8", "mxfp4"),
}
_INSTEAD = {"bf16": "use fp16", "fp8": "use int8"}


@dataclass(frozen=True, slots=True)
class Board:
    """What GPUs of a SKU do at most: dense matrix FLOP/s, bytes/s of memory and, each way, of links to other GPUs.

    `fp8_flops` and `fp4_flops` are None where it has no units for them. `above_watts`: of boards with such a limit.
    """

    sku: str
    flops: int
    fp8_flops: int | None
    fp4_flops: int | None
    memory_bytes_per_second: int
    link_bytes_per_second: int
    has_bf16: bool
    source: str
    above_watts: int | None = None


@cache
def boards() -> tuple[Board, ...]:
    """Return the table of boards, as it is shipped."""
    return tuple(_board(row) for row in _table().rows("board"))


@cache
def _table() -> TomlEntry:
    return read_toml(_TABLE, ("chips", "board"))


def _board(row: TomlEntry) -> Board:
    flops = ("sku", "above_watts", "tflops", "fp8_tflops", "fp4_tflops", "fp16_only")
    row.refuse_unknown((*flops, "gigabytes_per_second", "links", "source", "seen"))
    row.day("seen")
    least = {key: row.micros(key) * 10**6 if row.has(key) else None for key in ("fp8_tflops", "fp4_tflops")}
    return Board(
        row.text("sku"),
        row.micros("tflops") * 10**6,
        least["fp8_tflops"],
        least["fp4_tflops"],
        row.count("gigabytes_per_second") * 10**9,
        row.count("links") * 10**9,
        has_bf16=not row.has("fp16_only"),
        source=row.text("source"),
        above_watts=row.count("above_watts") if row.has("above_watts") else None,
    )


def board_of(sku: str) -> Board | None:
    """Return what is known of a SKU, None where it is not in the table."""
    return next((board for board in boards() if board.sku == sku), None)


@cache
def _capabilities() -> dict[str, str]:
    rows = _table().entries("chips", ("capability", "names"))
    return {name.lower(): row.text("capability") for row in rows for name in row.text_list("names")}


def capability_of(sku: str) -> str | None:
    """Return the compute capability ("8.9") or architecture ("gfx942") of a SKU; None where it is not known.

    The chip is the longest of the table that its name begins with: "RTX-PRO-6000-Blackwell-96GB" is an RTX-PRO-6000.
    """
    words = NAMED_MEMORY.sub("", sku_name(sku, None)).lower().split("-")
    for count in range(len(words), 0, -1):
        if (found := _capabilities().get("-".join(words[:count]))) is not None:
            # "RTX-6000" is of Turing, "RTX-6000-Ada" another chip: what follows a name may only be a form of it.
            return found if not {*words[count:]} - _FORMS else None
    return None


_FORMS = frozenset({"nvl", "sxm", "pcie", "blackwell", "server", "workstation", "max", "q", "super", "ti", "oam"})


@dataclass(frozen=True, slots=True)
class Ability:
    """Whether GPUs do a work: `is_able` None is not known. `told` says why not, or what to know where they do."""

    is_able: bool | None = True
    told: str | None = None


def ability(sku: str, work: Work) -> Ability:
    """Return whether GPUs of a SKU compute in a work's precision, or hold its weights and compute in 16 bits."""
    capability, precision = capability_of(sku), work.precision
    needed = precision.computes_in
    if capability is None:
        return Ability(
            None, f"not known whether it computes in {needed.upper()}: we do not know its compute capability"
        )
    if _computes(capability, needed) and (precision.name == needed or _holds(capability, precision)):
        return Ability()
    if not work.is_training and precision.name == needed and _holds(capability, precision):
        return Ability(True, f"{needed} for weights only: kernels unpack them, and compute in 16 bits")
    name = precision.name.upper() if _computes(capability, needed) else needed.upper()
    return Ability(False, f"no {name} there" + (f": {_INSTEAD[needed]}" if needed in _INSTEAD else ""))


def _computes(capability: str, name: str) -> bool:
    if capability in _AMD:
        return name in _AMD[capability]
    return _version(capability) >= _COMPUTES[name]


def _holds(capability: str, precision: Precision) -> bool:
    """Say whether there are kernels that unpack weights; those of GGUF run everywhere (llama.cpp)."""
    if capability in _AMD:
        return precision.name not in ("mxfp4", "nvfp4", "fp8")
    return _version(capability) >= _HOLDS.get(precision.name, (0, 0) if precision.ends else (99, 0))


def _version(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))
