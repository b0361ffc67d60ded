"""Read a model from its `config.json`, as its publisher writes it. No width is derived that the file states.

What neither it nor its kind says is assumed, and said; so are keys that nobody reads here. Files that are beside it
tell the bytes of the weights.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent.wire.bounded import read_bounded
from analyzer.errors import ConfigError
from analyzer.settings.bounded import strict_json
from analyzer.sizing.checkpoint import cache_precision, checkpoint_precision
from analyzer.sizing.config_reading import ConfigReading
from analyzer.sizing.layer_kinds import with_layer_kinds
from analyzer.sizing.shape import Latent, Shape
from analyzer.sizing.work import PRECISIONS, Precision
from analyzer.text.words import some

_FILE_BYTES = 2**20  # the list of what is not quantised may have thousands of names
_INDEX_BYTES = 64 * 1024  # of an index whose sum stands at its head or its end
_TEXT = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")
# The second is of older files, the last MLX's.
_QUANTISED = ("quantization_config", "compression_config", "quantization")
_NESTED = ("attn_config", "ffn_config")  # of DBRX and MPT
_TOWERS = ("vision_config", "vision_tower_config", "audio_config", "vit_config", "visual", "vision_model_config")
_SPEAKERS = ("talker_config", "token2wav_config", "code2wav_config")  # models of their own that speak

_FOUR_NORMS = re.compile(r"gemma[234]|glm4$|olmo2|exaone4")
_HEAD_NORMS = re.compile(r"qwen3|gemma[34]|olmoe|glm4_moe|hunyuan")
_QUERY_BIAS = re.compile(r"qwen2(_moe|_vl|_5_vl|$)|chatglm|^qwen$")
_PLAIN_MLP = re.compile(
    r"gpt2|gpt_neo|gptj|falcon$|bloom|opt|mpt|starcoder2|phi$|gpt_bigcode|nemotron(_h)?$|persimmon|codegen|arcee|apertus"
)
# Their intermediate_size is of gate and up together, so that each has half of it.
_HALVED = re.compile(r"^qwen$|recurrent_gemma")
# A dense MLP beside the experts of a layer, by what says so: as wide as intermediate_size, or as the residual stream.
_BESIDE = {"residual_moe": "intermediate", "enable_moe_block": "intermediate", "parallel_attn_mlp_res": "hidden"}
_DENSE_STEPS = (
    "moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step", "expert_layer_period", "moe_layer_interval",
    "moe_layer_frequency",
)  # fmt: skip
_INDEX_SCALE_BYTES = 4  # of each 128 values in FP8. Source: vLLM, DeepseekV32IndexerCache
# Without attention, or with layers that are one of several things: nothing of the usual block can be counted.
_UNREADABLE = re.compile(
    r"^(falcon_)?mamba2?$|rwkv|nemotron-nas|zamba|retnet|xlstm|longcat(?!_flash$)|phi4flash|plamo2|hymba|samba"
)
# They keep no keys and have other ends; what has segments of its own (`type_vocab_size`) is one too.
_ENCODERS = re.compile(r"bert(?!-decoder)|electra|mpnet|^clip|^siglip|^esm$")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What a configuration says: the shape, the precision of weights and cache, and what it leaves to assume."""

    shape: Shape
    precision: Precision | None
    cache: Precision | None
    assumed: tuple[str, ...]


def read_config(path: Path) -> tuple[ModelConfig, int | None]:
    """Return what a config.json, or the folder that has one, says; and the bytes of the weights that lie beside it.

    Raises:
        ConfigError: it cannot be read, or is none of a model.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        content = read_bounded(file, _FILE_BYTES)
        values = strict_json(content, _FILE_BYTES)
    except OSError as error:
        raise ConfigError(
            f"cannot read {file}: {error.strerror}; name a config.json, or the folder that has it"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{file} is not a model's config.json: {str(error)[:120]}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{file} is not a model's config.json: it has no keys")
    return config_of(str(file), values), _stored_bytes(file.parent)


def _stored_bytes(folder: Path) -> int | None:
    """Return the bytes of the weights in a folder: as their index sums them, else the sizes of the files."""
    try:
        index = next(iter(sorted(folder.glob("*.safetensors.index.json"))[:1]), None)
        if index is not None:
            with index.open("rb") as file:
                head = file.read(_INDEX_BYTES)
                file.seek(max(0, index.stat().st_size - _INDEX_BYTES))
                found = re.search(rb'"total_size"\s*:\s*(\d{1,16})', head + file.read(_INDEX_BYTES))
            return int(found[1]) if found else None
        # "consolidated" are the same weights in another layout, and adapters are none of the model's.
        files = [one.stat().st_size for one in sorted(folder.glob("model*.safetensors"))[:1000]]
    except OSError:
        return None
    return sum(files) or None


def config_of(where: str, values: Mapping[str, object]) -> ModelConfig:
    """Return what the keys of a configuration say; `where` names it in messages.

    Raises:
        ConfigError: it is none of a model that generates text, or a width is missing or absurd.
    """
    text = next((inner for key in _TEXT if isinstance(inner := values.get(key), dict)), values)
    around = (
        {**text, **values} if text is not values else values
    )  # Qwen-Omni has its towers beside an inner text_config
    if text is not values and isinstance(deeper := text.get("text_config"), dict):
        text = deeper
    kind = str(text.get("model_type") or values.get("model_type") or "")
    tied = {"tie_word_embeddings": values["tie_word_embeddings"]} if "tie_word_embeddings" in values else {}
    nested = {key: said for name in _NESTED if isinstance(inner := text.get(name), dict) for key, said in inner.items()}
    linear = text.get("linear_attn_config")
    kda = {"kda_layers": linear.get("kda_layers")} if isinstance(linear, dict) else {}
    reading = ConfigReading(where, {**nested, **kda, **tied, **text}, kind)
    if _UNREADABLE.search(kind) or text.get("block_configs"):
        raise ConfigError(
            f"{where}: its layers are of kinds that are not read here ({kind or 'block_configs'}): say --parameters, "
            "as its publisher tells them"
        )
    is_encoder = _ENCODERS.search(kind) or "type_vocab_size" in text
    if is_encoder or values.get("is_encoder_decoder") is True or {"unet", "vae"} & {*values}:
        raise ConfigError(f"{where}: it is not a decoder of text; say --parameters, as its publisher tells them")
    shape = _shape(reading)
    towers = [inner for key in _TOWERS if isinstance(inner := around.get(key), dict)]
    if towers:
        sizes = [_tower(inner, shape.hidden) for inner in towers]
        sizes += [None for key in _SPEAKERS if key in values]
        shape = replace(shape, tower_parameters=None if None in sizes else sum(size or 0 for size in sizes))
    quantised = next((q for one in (values, text) for key in _QUANTISED if isinstance(q := one.get(key), dict)), None)
    precision = (
        checkpoint_precision(where, quantised, reading.needed("layers")) if quantised else _stored_in(values, text)
    )
    if reading.count("hidden_size_per_layer_input") is not None:
        reading.assumed.append("its embeddings by layer are not counted")
        shape = replace(shape, tower_parameters=None)
    if unread := reading.unread():
        reading.assumed.append(f"keys that were not read, and may say more of its shape: {some(unread)}")
    return ModelConfig(shape, precision, cache_precision(quantised or {}), tuple(dict.fromkeys(reading.assumed)))


def _shape(reading: ConfigReading) -> Shape:
    layers, hidden, heads = reading.needed("layers"), reading.needed("hidden"), reading.needed("heads")
    latent = _latent(reading)
    head_width = reading.width("head_width")
    kv_heads = reading.width("kv_heads")
    if reading.flag("multi_query") and not reading.flag("new_decoder_architecture"):
        kv_heads = 1
    if kv_heads is None:
        kv_heads = heads
        reading.assumed.append(f"as many key/value heads as heads, {heads}: the file says no number")
    if latent is not None:
        head_width, kv_heads = latent.nope_width + latent.rope_width, heads
    elif head_width is None:
        head_width = max(1, hidden // heads)
        reading.assumed.append(f"heads of {head_width} values (hidden / heads): the file says no head_dim")
    kind = reading.kind
    is_gated = not _PLAIN_MLP.search(kind)
    intermediate = _intermediate(reading, hidden)
    shape = Shape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        key_value_heads=kv_heads,
        head_width=head_width,
        intermediate=intermediate,
        vocabulary=reading.needed("vocabulary"),
        is_gated=is_gated,
        is_tied=_is_tied(reading),
        has_query_bias=bool(_QUERY_BIAS.search(kind)) or reading.flag("attention_bias"),
        latent=latent,
        norms=4 if _FOUR_NORMS.search(kind) else 2,
        has_head_norms=bool(_HEAD_NORMS.search(kind)) and latent is None,
        has_expert_bias=kind == "gpt_oss",
        has_query_gate=kind == "qwen3_next" or reading.flag("attn_output_gate"),
    )
    if (index := reading.count("index_head_dim")) is not None:
        shape = replace(shape, index_bytes=index + _INDEX_SCALE_BYTES * -(-index // 128))
    return with_layer_kinds(reading, _mixed(reading, shape))


def _intermediate(reading: ConfigReading, hidden: int) -> int:
    """Return the width of the MLP, which some files state before it is divided or rounded."""
    said = reading.width("intermediate") or reading.width("expert_width")
    if said is None:
        ratio = reading.count("expansion_ratio") or reading.count("ffn_hidden_ratio") or 4
        reading.assumed.append(f"an MLP of {ratio * hidden:,} ({ratio} x hidden): the file says no intermediate_size")
        return ratio * hidden
    if _HALVED.search(reading.kind):
        return max(1, said // 2)
    if reading.kind == "lfm2" and reading.value("block_auto_adjust_ff_dim") is not False:
        step = reading.count("block_multiple_of") or 256
        return -(-(2 * said // 3) // step) * step
    return said


def _is_tied(reading: ConfigReading) -> bool:
    said = next(
        (one for key in ("tie_word_embeddings", "tie_embedding") if (one := reading.value(key)) is not None), None
    )
    if said is None:
        reading.assumed.append("an output layer of its own: the file does not say whether it shares the embedding's")
    return said is True


def _latent(reading: ConfigReading) -> Latent | None:
    rank, rope = reading.count("kv_lora_rank"), reading.count("qk_rope_head_dim")
    if rank is None or rope is None:
        return None
    nope, value = reading.count("qk_nope_head_dim"), reading.count("v_head_dim")
    if nope is None or value is None:
        reading.assumed.append("128 values of a head: the file says no qk_nope_head_dim, or no v_head_dim")
    return Latent(rank, rope, nope or 128, value or 128, reading.count("q_lora_rank") or 0)


def _mixed(reading: ConfigReading, shape: Shape) -> Shape:
    """Return the shape with its mixture of experts, where it has one."""
    experts = reading.width("experts") or 1
    if experts == 1:
        return shape
    active = reading.width("active")
    if active is None:
        active = 1
        reading.assumed.append("one expert for a token: the file says no num_experts_per_tok")
    width, dense, shared = reading.width("expert_width"), shape.intermediate, 0
    each = width or shape.intermediate
    if reading.kind == "llama4_text":  # intermediate_size is of an expert, and every token meets one shared expert
        width, dense, shared = shape.intermediate, reading.count("intermediate_size_mlp") or dense, shape.intermediate
    elif (said := reading.width("shared_width")) is not None:
        shared = said
    elif (many := reading.width("shared_experts")) is not None:
        shared = many * each
    shared += sum(getattr(shape, name) for key, name in _BESIDE.items() if reading.flag(key))
    dense_layers, step = _dense_layers(reading, shape.layers)
    return replace(
        shape,
        experts=experts,
        experts_active=min(active, experts),
        expert_width=width or 0,
        shared_width=shared,
        intermediate=dense,
        dense_layers=dense_layers,
        is_interleaved=step > 1,
    )


def _dense_layers(reading: ConfigReading, layers: int) -> tuple[int, int]:
    """Return how many layers have no experts, and the step from one that has them to the next."""
    if (listed := _listed_dense_layers(reading, layers)) is not None:
        return min(layers, listed), 1
    step = max(reading.count(key) or 1 for key in _DENSE_STEPS)
    first = reading.width("dense_first") or 0
    if (last := reading.count("moe_layer_end_index")) is not None:
        first += max(0, layers - 1 - last)
    first = min(layers, first)
    return first + (layers - first) * (step - 1) // step, step


def _listed_dense_layers(reading: ConfigReading, layers: int) -> int | None:
    """Return how many layers have no experts, where the file lists them; None where it does not."""
    by_layer = reading.value("moe_layer_freq")
    if isinstance(by_layer, list):
        return sum(1 for one in by_layer if one == 0)
    if isinstance(kinds := reading.value("mlp_layer_types"), list):
        return sum(1 for one in kinds if one == "dense")
    if isinstance(mixed := reading.value("moe_layers_enum"), str):
        return max(0, layers - len({one for one in mixed.split(",") if one.strip()}))
    only_dense = reading.value("mlp_only_layers")
    return len(only_dense) if isinstance(only_dense, list) and only_dense else None


def _tower(values: Mapping[str, object], hidden: int) -> int | None:
    """Return the parameters of a tower for images: blocks of attention and a plain MLP, patches, a projection.

    None where its widths are not said in words that are known. Norms and positions are left out.
    """
    reading = ConfigReading("its tower", values, str(values.get("model_type") or ""))
    try:
        layers, inner = reading.width("layers"), reading.width("intermediate")
        width = reading.count("embed_dim") or reading.width("hidden")  # beside it Qwen2-VL's hidden_size is of the text
    except ConfigError:  # DeepSeek-OCR's `width` is a table of two towers
        return None
    if layers is None or width is None:
        return None
    if inner is None:
        ratio = values.get("mlp_ratio")
        inner = int(width * ratio) if isinstance(ratio, int | float) else 4 * width
    patch = reading.count("patch_size") or reading.count("spatial_patch_size") or 14
    matrices = 3 if values.get("hidden_act") == "silu" else 2
    image = reading.count("image_size") or 0
    block = 4 * width * (width + 1) + matrices * width * inner + inner + width + 4 * width
    return layers * block + (3 * patch * patch + (image // patch) ** 2) * width + width * hidden


def _stored_in(values: Mapping[str, object], text: Mapping[str, object]) -> Precision | None:
    named = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float8_e4m3fn": "fp8"}
    for one in (values, text):
        for key in ("dtype", "torch_dtype"):
            if str(one.get(key)).removeprefix("torch.") in named:
                return PRECISIONS[named[str(one.get(key)).removeprefix("torch.")]]
    return None
