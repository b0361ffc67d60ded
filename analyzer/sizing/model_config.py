"""Read a model from its `config.json`, as its publisher writes it. No width is derived that the file states.

The names of keys are those of Hugging Face's configurations, and what a file leaves out is the default of its kind
there (`_DEFAULTS`); what neither says is assumed, and said. Files that are beside it tell the bytes of the weights.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.wire.bounded import read_bounded
from analyzer.errors import ConfigError
from analyzer.settings.bounded import strict_json
from analyzer.sizing.checkpoint import cache_precision, checkpoint_precision
from analyzer.sizing.shape import Latent, Shape
from analyzer.sizing.work import PRECISIONS, Precision

_FILE_BYTES = 2**20  # the list of what is not quantised may have thousands of names
_INDEX_BYTES = 64 * 1024  # of an index whose sum stands at its head or its end
WIDEST = 10_000_000  # of a layer, a vocabulary: what lies beyond is a slip of the pen
_TEXT = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")
_QUANTISED = (
    "quantization_config",
    "compression_config",
    "quantization",
)  # the second is of older files, the last MLX's
_TOWERS = ("vision_config", "vision_tower_config", "audio_config", "vit_config", "visual", "vision_model_config")

# What a width is called, the usual name first.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "depth", "encoder_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "dim", "embed_dim", "width"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "multi_query_group_num"),
    "head_width": ("head_dim", "kv_channels", "attention_head_dim", "head_size", "d_head"),
    "intermediate": ("intermediate_size", "ffn_hidden_size", "n_inner", "d_ff", "ffn_dim", "encoder_ffn_dim"),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "active": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "moe_topk",
        "moe_k",
        "top_k_experts",
    ),
    "expert_width": ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size", "expert_dim"),
}
_GEMMA3 = {
    "head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262_208, "hidden_size": 2304,
    "intermediate_size": 9216, "num_hidden_layers": 26, "sliding_window_pattern": 6, "tie_word_embeddings": True,
}  # fmt: skip
# What Hugging Face's configuration classes take where a file is silent, by `model_type`.
_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "gemma": {"head_dim": 256, "tie_word_embeddings": True},
    "gemma2": {"head_dim": 256, "sliding_window_pattern": 2, "tie_word_embeddings": True},
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "llama4_text": {"no_rope_layer_interval": 4},
    "cohere": {"tie_word_embeddings": True},
    "cohere2": {"tie_word_embeddings": True, "sliding_window_pattern": 4},
    "gpt2": {"tie_word_embeddings": True},
    "falcon": {"tie_word_embeddings": True},
    "bloom": {"tie_word_embeddings": True},
    "gpt_oss": {"sliding_window_pattern": 2},
    "qwen3_next": {"full_attention_interval": 4},
    "qwen2_moe": {"decoder_sparse_step": 1},
}
_FOUR_NORMS = re.compile(r"gemma[234]|glm4$|olmo2|exaone4")
_HEAD_NORMS = re.compile(r"qwen3|gemma[34]|olmoe|glm4_moe|hunyuan")
_QUERY_BIAS = re.compile(r"qwen2(_moe|_vl|_5_vl|$)|chatglm|^qwen$")
_PLAIN_MLP = re.compile(r"gpt2|gpt_neo|gptj|falcon|bloom|opt|mpt|starcoder2|phi$|gpt_bigcode|nemotron$|persimmon")
# Without attention, or with layers that are one of several things: nothing of the usual block can be counted.
_UNREADABLE = re.compile(r"^(falcon_)?mamba2?$|rwkv|nemotron_h|nemotron-nas|zamba|retnet|xlstm")
_RECURRENT = ("linear_attention", "mamba", "recurrent", "conv", "mamba2", "linear", "gated_deltanet", "kda")
_WINDOWED = ("sliding_attention", "chunked_attention", "local", "sliding", "swa")


@dataclass(slots=True)
class _Reading:
    """One configuration as it is read: what it says, the defaults of its kind, and what had to be assumed."""

    where: str
    values: Mapping[str, object]
    kind: str
    assumed: list[str] = field(default_factory=list)

    def value(self, key: str) -> object:
        """Return what the file says of a key, else what its kind takes; None where neither does."""
        said = self.values.get(key)
        return _DEFAULTS.get(self.kind, {}).get(key) if said is None else said

    def count(self, key: str) -> int | None:
        """Return a whole number, None where nobody says one.

        Raises:
            ConfigError: it is none that a model has.
        """
        said = self.value(key)
        if isinstance(said, list) and said and all(isinstance(one, int) for one in said):
            said = max(said)  # widths by layer: the widest
            self.assumed.append(f"{key} differs by layer: the largest, {said:,}, is taken for all")
        if said is None or said is False or said == 0:
            return None
        if isinstance(said, float) and said.is_integer():
            said = int(said)
        if isinstance(said, bool) or not isinstance(said, int) or not 0 < said <= WIDEST:
            raise ConfigError(
                f"{self.where}: {key!r} must be a whole number from 1 to {WIDEST:,}, not {str(said)[:40]}"
            )
        return said

    def width(self, name: str) -> int | None:
        """Return a width by any of the names that it has."""
        return next((found for key in _KEYS[name] if (found := self.count(key)) is not None), None)

    def needed(self, name: str) -> int:
        """Return a width without which there is no shape.

        Raises:
            ConfigError: the file does not say it.
        """
        if (found := self.width(name)) is None:
            raise ConfigError(
                f"{self.where}: {_KEYS[name][0]!r} is missing, and without it the model has no shape; read the file "
                "that its publisher put beside the weights, or say --parameters, --layers, --hidden"
            )
        return found

    def flag(self, key: str) -> bool:
        """Return whether something is set."""
        return self.value(key) is True


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
    if text is not values and isinstance(deeper := text.get("text_config"), dict):
        text = deeper
    kind = str(text.get("model_type") or values.get("model_type") or "")
    tied = {"tie_word_embeddings": values["tie_word_embeddings"]} if "tie_word_embeddings" in values else {}
    reading = _Reading(where, {**tied, **text}, kind)
    if _UNREADABLE.search(kind) or text.get("block_configs"):
        raise ConfigError(
            f"{where}: its layers are of kinds that are not read here ({kind or 'block_configs'}): say --parameters, "
            "as its publisher tells them"
        )
    if values.get("is_encoder_decoder") is True or {"unet", "vae"} & {*values}:
        raise ConfigError(f"{where}: it is not a decoder of text; say --parameters, --layers, --hidden of it instead")
    shape = _shape(reading)
    towers = [inner for key in _TOWERS if isinstance(inner := values.get(key), dict)]
    if towers:
        sizes = [_tower(inner, shape.hidden) for inner in towers]
        shape = replace(shape, tower_parameters=None if None in sizes else sum(size or 0 for size in sizes))
    quantised = next((q for one in (values, text) for key in _QUANTISED if isinstance(q := one.get(key), dict)), None)
    precision = checkpoint_precision(where, quantised, shape.layers) if quantised else _stored_in(values, text)
    if reading.count("hidden_size_per_layer_input") is not None:
        reading.assumed.append("its embeddings by layer are not counted")
        shape = replace(shape, tower_parameters=None)
    return ModelConfig(shape, precision, cache_precision(quantised or {}), tuple(dict.fromkeys(reading.assumed)))


def _shape(reading: _Reading) -> Shape:
    layers, hidden, heads = reading.needed("layers"), reading.needed("hidden"), reading.needed("heads")
    latent = _latent(reading)
    head_width = reading.width("head_width")
    kv_heads = 1 if reading.flag("multi_query") and not reading.flag("new_decoder_architecture") else None
    kv_heads = kv_heads or reading.width("kv_heads")
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
    intermediate = reading.width("intermediate") or reading.width("expert_width")
    if intermediate is None:
        intermediate = 4 * hidden
        reading.assumed.append(f"an MLP of {intermediate:,} (4 x hidden): the file says no intermediate_size")
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
    shape = _mixed(reading, shape)
    return _kinds_of_layers(reading, shape)


def _is_tied(reading: _Reading) -> bool:
    said = reading.value("tie_word_embeddings")
    if said is None:
        reading.assumed.append("an output layer of its own: the file does not say whether it shares the embedding's")
    return said is True


def _latent(reading: _Reading) -> Latent | None:
    rank, rope = reading.count("kv_lora_rank"), reading.count("qk_rope_head_dim")
    if rank is None or rope is None:
        return None
    nope, value = reading.count("qk_nope_head_dim") or 128, reading.count("v_head_dim") or 128
    return Latent(rank, rope, nope, value, reading.count("q_lora_rank") or 0)


def _mixed(reading: _Reading, shape: Shape) -> Shape:
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
    elif (said := reading.count("shared_expert_intermediate_size")) is not None:
        shared = said
    elif (many := reading.count("n_shared_experts") or reading.count("num_shared_experts")) is not None:
        shared = many * each
    first, step = reading.count("first_k_dense_replace") or 0, 1
    for key in ("moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step", "expert_layer_period"):
        if not isinstance(reading.value(key), list):
            step = reading.count(key) or step
    by_layer = reading.value("moe_layer_freq")
    only_dense = reading.value("mlp_only_layers")
    if isinstance(by_layer, list):
        first, step = sum(1 for one in by_layer if one == 0), 1
    elif isinstance(only_dense, list):
        first = max(first, len(only_dense))
    dense_layers = min(shape.layers, first + (shape.layers - first) * (step - 1) // step)
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


def _kinds_of_layers(reading: _Reading, shape: Shape) -> Shape:
    """Return the shape with its layers that look back a window of tokens, or keep a state instead of keys."""
    kinds = reading.value("layer_types") or reading.value("layers_block_type")
    listed = [str(one) for one in kinds][: shape.layers] if isinstance(kinds, list) else []
    if (every := reading.count("full_attention_interval")) is not None and not listed:
        listed = [
            "full_attention" if number % every == 0 else "linear_attention" for number in range(1, shape.layers + 1)
        ]
    recurrent = sum(1 for one in listed if one in _RECURRENT)
    if (every := reading.count("attn_layer_period")) is not None and not listed:
        recurrent = shape.layers - -(-(shape.layers - (reading.count("attn_layer_offset") or 0)) // every)
    if recurrent or reading.kind in ("falcon_h1", "bamba", "jamba"):
        return _recurrent(reading, shape, recurrent)
    return _windowed(reading, shape, listed)


def _windowed(reading: _Reading, shape: Shape, listed: Sequence[str]) -> Shape:
    window = reading.count("sliding_window") or reading.count("attention_chunk_size")
    if window is None or reading.value("use_sliding_window") is False:
        return shape
    if listed:
        windowed = sum(1 for one in listed if one in _WINDOWED)
    elif (ropes := reading.value("no_rope_layers")) and isinstance(ropes, list):
        windowed = sum(1 for one in ropes[: shape.layers] if one)
    elif (every := reading.count("no_rope_layer_interval") or reading.count("sliding_window_pattern")) is not None:
        windowed = shape.layers - shape.layers // every
    elif (first_full := reading.count("max_window_layers")) is not None:
        windowed = max(0, shape.layers - first_full)
    else:
        windowed = shape.layers
    wide, heads = reading.count("global_head_dim") or 0, reading.count("num_global_key_value_heads") or 0
    return replace(
        shape, window=window, windowed_layers=windowed, full_head_width=wide, full_key_value_heads=heads if wide else 0
    )


def _recurrent(reading: _Reading, shape: Shape, recurrent: int) -> Shape:
    """Return the shape with layers that keep a state: of gated delta nets its size is known, of others it is not."""
    keys, values = reading.count("linear_num_key_heads"), reading.count("linear_num_value_heads")
    key_width, value_width = reading.count("linear_key_head_dim"), reading.count("linear_value_head_dim")
    if keys is None or values is None or key_width is None or value_width is None:
        reading.assumed.append("its recurrent layers are of a kind whose size is not known: they are not counted")
        return replace(shape, recurrent_layers=recurrent, state_values=None, recurrent_parameters=0)
    wide, held = keys * key_width, values * value_width
    kernel = reading.count("linear_conv_kernel_dim") or 4
    mixer = shape.hidden * (2 * wide + 2 * held + 2 * values) + held * shape.hidden + (2 * wide + held) * kernel
    # Engines keep the state in 32 bits, two of our values each, and the inputs that the convolution looks back on.
    state = 2 * values * key_width * value_width + (2 * wide + held) * (kernel - 1)
    return replace(shape, recurrent_layers=recurrent, recurrent_parameters=mixer, state_values=state)


def _tower(values: Mapping[str, object], hidden: int) -> int | None:
    """Return the parameters of a tower for images: blocks of attention and a plain MLP, patches, a projection.

    None where its widths are not said in words that are known. Norms and positions are left out.
    """
    reading = _Reading("its tower", values, str(values.get("model_type") or ""))
    layers, width, inner = reading.width("layers"), reading.width("hidden"), reading.width("intermediate")
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
