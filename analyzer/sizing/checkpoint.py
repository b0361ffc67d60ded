"""What the weights of a published checkpoint are held in, and which of its linears are not, as its file says.

Checkpoints differ: experts alone are quantised, all but attention, all but some layers. The names of keys are those of
Hugging Face's `quantization_config`, of each tool that writes one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from analyzer.errors import ConfigError
from analyzer.sizing.shape import LinearKind
from analyzer.sizing.work import MLX_BITS, PRECISIONS, Precision, int4, mlx

_NF4_BITS = 4 + Fraction(32, 64)  # blocks of 64 with a 32-bit scale each, which double quantization would make 8 bits
# Where tools list what they leave as it is.
_GPTQ = {"sym", "desc_act", "zero_point"}  # one of which stands in files of GPTQ and AWQ that do not say their method
_SPARED = ("modules_to_not_convert", "llm_int8_skip_modules", "ignore", "ignored_layers", "exclude_modules", "exclude")
_LAYER = re.compile(r"\blayers?[\\.]*(\d{1,4})\b")
_ROUTER = re.compile(
    r"router|gate\$?$|mlp[\\.]+gate\b(?!_)|shared_expert_gate|lm_head|embed|norm|visual|vision|projector|mtp"
)


def checkpoint_precision(where: str, values: Mapping[str, object], layers: int) -> Precision:
    """Return what the weights are held in, and which linears are not.

    Raises:
        ConfigError: the method is not known.
    """
    method = str(values.get("quant_method") or values.get("quant_algo") or "").lower()
    spared = _spared(values, layers)
    if (named := _by_method(method, values)) is None:
        raise ConfigError(
            f"{where}: what {method[:40] or 'its quantization'!r} holds weights in is not known; take it out of the "
            "file, and say --precision, such as int4 or fp8"
        )
    return replace(named, spared=spared)


def _by_method(method: str, values: Mapping[str, object]) -> Precision | None:
    algorithm = str(values.get("quant_algo") or values.get("format") or "").lower()
    for name in ("mxfp4", "nvfp4", "fp8"):
        if name in method or name in algorithm:
            return PRECISIONS[name]
    if method in ("bitsandbytes", "bnb"):
        if values.get("load_in_4bit") is not True:
            return PRECISIONS["int8"]
        is_double = values.get("bnb_4bit_use_double_quant") is True
        return PRECISIONS["nf4"] if is_double else replace(PRECISIONS["nf4"], bits=_NF4_BITS, source="blocks of 64")
    held = {_of_weights(method, weights) for weights in _groups(values)}
    return held.pop() if len(held) == 1 else None


def _groups(values: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield how each group of linears is held: compressed-tensors' groups; else all, then the exceptions."""
    groups = values.get("config_groups")
    if isinstance(groups, dict) and groups:
        found = [one.get("weights") if isinstance(one, dict) else None for one in groups.values()]
        yield from (one if isinstance(one, dict) else {} for one in found)
        return
    yield values
    exceptions = values.get("dynamic") or (values if not values.get("quant_method") else None)
    if isinstance(exceptions, dict):
        yield from ({**values, **one} for one in exceptions.values() if isinstance(one, dict) and "bits" in one)


def _of_weights(method: str, weights: Mapping[str, object]) -> Precision | None:
    bits = weights.get("num_bits", weights.get("bits", weights.get("w_bit")))
    if str(weights.get("type")) == "float":
        return PRECISIONS["fp8"] if bits == 8 else PRECISIONS["nvfp4"] if bits == 4 else None
    group = weights.get("group_size", weights.get("q_group_size"))
    counted = group if isinstance(group, int) and not isinstance(group, bool) else None
    if not method and "bits" in weights and not _GPTQ & {*weights}:  # MLX: a scale and an offset, embeddings too
        if bits not in MLX_BITS or counted is None or counted < 1 or weights.get("mode", "affine") != "affine":
            return None
        return mlx(bits, counted)
    if bits == 4:
        # What is symmetric has no zero point; GPTQ's files have one all the same.
        zero_bits = 0 if method == "compressed-tensors" and weights.get("symmetric") is True else 4
        return PRECISIONS["int4"] if counted is None else int4(counted, zero_bits)
    return PRECISIONS["int8"] if bits == 8 else None


def _spared(values: Mapping[str, object], layers: int) -> tuple[tuple[LinearKind, Fraction], ...]:
    """Return the share of the layers of which linears are left wide, by kind, as the lists of names tell."""
    names: list[str] = []
    for key in _SPARED:
        if isinstance(listed := values.get(key), list):
            names += [str(one) for one in listed]
    if isinstance(dynamic := values.get("dynamic"), dict):
        names += [str(one).removeprefix("-:") for one in dynamic if str(one).startswith("-:")]
    left: dict[LinearKind, set[int]] = {}
    for name in names:
        if _ROUTER.search(name):
            continue
        match = _LAYER.search(name)
        which = {int(match[1])} if match else set(range(layers))
        for kind in _kinds_named(name):
            left.setdefault(kind, set()).update(one for one in which if one < layers)
    for kind in _untargeted(values):
        left[kind] = set(range(layers))
    return tuple(sorted((kind, Fraction(len(which), layers)) for kind, which in left.items() if which))


def _untargeted(values: Mapping[str, object]) -> set[LinearKind]:
    """Return the kinds of linears that no group is for; none where a group is for a class of modules, as "Linear"."""
    groups = values.get("config_groups")
    listed = (
        [one.get("targets") for one in groups.values() if isinstance(one, dict)] if isinstance(groups, dict) else []
    )
    targets = [str(target) for one in listed if isinstance(one, list) for target in one]
    named = {kind for target in targets for kind in _kinds_named(target)}
    is_by_name = all(target.startswith("re:") or "." in target for target in targets)
    kinds: tuple[LinearKind, ...] = ("attention", "mlp", "expert")
    return {kind for kind in kinds if kind not in named} if named and is_by_name else set()


def _kinds_named(name: str) -> tuple[LinearKind, ...]:
    if "attn" in name or "attention" in name:
        return ("attention",)
    if "expert" in name and "shared" not in name:
        return ("expert",)
    if "mlp" in name or "feed_forward" in name or "shared" in name:
        return ("mlp",)
    return ("attention", "mlp", "expert") if _LAYER.search(name) else ()


def cache_precision(values: Mapping[str, object]) -> Precision | None:
    """Return what keys and values are published to be kept in, None where nobody says."""
    scheme = values.get("kv_cache_scheme")
    if isinstance(scheme, dict) and scheme.get("num_bits") == 8:
        return PRECISIONS["fp8" if str(scheme.get("type", "float")) == "float" else "int8"]
    return PRECISIONS["fp8"] if str(values.get("kv_cache_quant_algo") or "").lower() == "fp8" else None
