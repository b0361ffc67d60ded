"""What chips compute in, by their compute capability, and what boards do at most. Unknown is never yes, and never no.

Holding weights in few bits is another thing than computing in them: kernels that unpack (Marlin) need less of a chip.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agent.wire.sku import sku as sku_name
from analyzer.settings.toml_entry import TomlEntry, read_toml
from analyzer.sizing.work import Precision, Work

_TABLE = Path(__file__).with_name("chips.toml")
_MEMORY = re.compile(r"-(\d{1,4})GB$")

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
    words = _MEMORY.sub("", sku_name(sku, None)).lower().split("-")
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
    return _version(capability) >= _HOLDS.get(precision.name, (0, 0) if precision.is_whole else (99, 0))


def _version(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))
