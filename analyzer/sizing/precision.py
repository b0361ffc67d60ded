"""How many bits a weight takes, what of a model is quantised, and which GPUs cannot compute so."""

from dataclasses import dataclass
from fractions import Fraction

from analyzer.errors import ConfigError


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
        Precision("nf4", 4 + _NF4_SCALES, True, "QLoRA: double quantisation, 0.127 bits a weight"),
    )
}
WIDE_BITS = 16  # what quantisation leaves as it is: embeddings, output layer, norms, router

# GPUs by the model in their SKU. Source: NVIDIA's CUDA programming guide, arithmetic by compute capability: BF16 from
# 8.0 (Ampere) on, FP8 from 8.9 (Ada) on.
_BEFORE_AMPERE = ("P100", "V100", "T4")
_AMPERE = ("A100", "A10", "A10G", "A30", "A40", "A6000")


def precision_named(name: str) -> Precision:
    """Return a precision.

    Raises:
        ConfigError: there is none of that name.
    """
    found = PRECISIONS.get(name)
    if found is None:
        raise ConfigError(f"--precision {name} is none of {', '.join(PRECISIONS)}")
    return found


def cannot(sku: str, precision: Precision) -> str | None:
    """Say why GPUs of a SKU do not compute in a precision; None where nothing is known against it."""
    chip = sku.rpartition("-")[0] or sku
    if precision.name == "bf16" and chip in _BEFORE_AMPERE:
        return "no BF16 there: say fp16"
    if precision.name == "fp8" and chip in (*_BEFORE_AMPERE, *_AMPERE):
        return "no FP8 there: say int8"
    return None
