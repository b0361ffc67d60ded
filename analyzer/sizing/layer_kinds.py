"""The layers of a model that are not as others: with a window, with a state instead of keys, with another's keys.

Files say it by lists of names or numbers, by patterns that repeat, by places, or by an interval.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from analyzer.errors import ConfigError
from analyzer.sizing.config_reading import ConfigReading
from analyzer.sizing.shape import Shape

_RECURRENT = ("linear_attention", "mamba", "recurrent", "conv", "mamba2", "linear", "gated_deltanet", "kda")
_WINDOWED = ("sliding_attention", "chunked_attention", "local", "sliding", "swa")
# Keys that say the kind of each layer, or a pattern that is repeated, and what their values mean.
_PATTERNS: Mapping[str, Mapping[str, str]] = {
    "layer_types": {}, "layers_block_type": {}, "block_types": {}, "_block_types": {},
    "attn_type_list": {"0": "linear_attention"}, "hybrid_layer_pattern": {"1": "sliding_attention"},
    "sliding_window_pattern": {"L": "sliding_attention"},
}  # fmt: skip
# Keys that list the numbers of layers: their kind, that of the others, the number of the first layer.
_PLACES: Mapping[str, tuple[str, str, int]] = {
    "kda_layers": ("kda", "full_attention", 1),
    "cross_attention_layers": ("cross_attention", "full_attention", 0),
    "full_attn_idxs": ("full_attention", "conv", 0),
    "attn_layer_indices": ("full_attention", "mamba", 0),
}
_WINDOWS = ("sliding_window", "attention_chunk_size", "attention_window_size")
_EVERY = ("no_rope_layer_interval", "sliding_window_pattern", "global_attn_every_n_layers")


def _listed(reading: ConfigReading, layers: int) -> list[str]:
    """Return the kind of each layer by any of the lists that files have; empty where there is none."""
    for key, names in _PATTERNS.items():
        if isinstance(kinds := reading.value(key), list | str) and kinds:
            told = [names.get(str(one), str(one)) for one in kinds]
            return [told[number % len(told)] for number in range(layers)]
    for key, (kind, other, first) in _PLACES.items():
        if isinstance(which := reading.value(key), list):
            return [kind if number + first in which else other for number in range(layers)]
    if (every := reading.count("full_attention_interval")) is not None:
        return ["full_attention" if number % every == 0 else "linear_attention" for number in range(1, layers + 1)]
    return []


def _uncached(reading: ConfigReading, shape: Shape, listed: Sequence[str]) -> Shape:
    """Return the shape with the layers that keep no keys of tokens: they read another layer's, or those of images."""
    full, windowed = sum(1 for one in listed if one == "cross_attention"), 0
    if reading.flag("use_cla") and (share := reading.count("cla_share_factor")) is not None:
        full = shape.full_layers - -(-shape.full_layers // share)
    elif (last := reading.count("num_kv_shared_layers")) is not None and listed:
        sharing = listed[-last:]
        windowed = sum(1 for one in sharing if one in _WINDOWED) if shape.windowed_layers else 0
        full = sum(1 for one in sharing if one not in _RECURRENT) - windowed
    return replace(shape, uncached_full_layers=full, uncached_windowed_layers=windowed)


def with_layer_kinds(reading: ConfigReading, shape: Shape) -> Shape:
    """Return the shape with its layers that look back a window, keep a state instead of keys, or read another's."""
    listed = _listed(reading, shape.layers)
    reading.asked.update((*_PATTERNS, *_PLACES, *_WINDOWS, *_EVERY, "full_attention_interval"))  # of several one counts
    recurrent = sum(1 for one in listed if one in _RECURRENT)
    if (every := reading.count("attn_layer_period")) is not None and not listed:
        recurrent = shape.layers - -(-(shape.layers - (reading.count("attn_layer_offset") or 0)) // every)
    if reading.kind == "longcat_flash":  # two blocks of attention and an MLP in each layer, and experts beside one
        held = replace(shape, layers=2 * shape.layers, dense_layers=shape.layers, is_interleaved=True)
        return replace(held, shared_width=shape.intermediate)
    if reading.kind == "nemotron_h":
        return _one_thing_each(reading, shape, str(reading.value("hybrid_override_pattern")))
    if reading.kind == "falcon_h1":
        return replace(_recurrent(reading, shape, shape.layers), has_state_beside=True)
    if recurrent:
        return _uncached(reading, _recurrent(reading, shape, recurrent), listed)
    return _uncached(reading, _windowed(reading, shape, listed), listed)


def _one_thing_each(reading: ConfigReading, shape: Shape, pattern: str) -> Shape:
    """Return Nemotron-H's layers, each of which is Mamba-2 (M), attention (*), an MLP (-) or experts (E) alone.

    A layer here is one of the first two with one of the last two behind it, where there is one.
    """
    recurrent, mlps, experts = (pattern.count(one) for one in "M-E")
    layers = recurrent + pattern.count("*")
    bare = layers - mlps - experts
    if layers == 0 or bare < 0:
        raise ConfigError(f"{reading.where}: 'hybrid_override_pattern' is not one that is read here: say --parameters")
    held = replace(shape, layers=layers, dense_layers=layers - experts, bare_layers=bare)
    return _recurrent(reading, held, recurrent)


def _windowed(reading: ConfigReading, shape: Shape, listed: Sequence[str]) -> Shape:
    window = next((found for key in _WINDOWS if (found := reading.count(key)) is not None), None)
    if window is None or reading.value("use_sliding_window") is False:
        return shape
    if listed:
        windowed = sum(1 for one in listed if one in _WINDOWED)
    elif (ropes := reading.value("no_rope_layers")) and isinstance(ropes, list):
        windowed = sum(1 for one in ropes[: shape.layers] if one)
    elif (every := next((found for key in _EVERY if (found := reading.count(key)) is not None), None)) is not None:
        windowed = shape.layers - shape.layers // every
    elif (first_full := reading.count("max_window_layers")) is not None:
        windowed = max(0, shape.layers - first_full)
    else:
        windowed = shape.layers
    wide, heads = reading.count("global_head_dim") or 0, reading.count("num_global_key_value_heads") or 0
    if (own := reading.count("swa_num_key_value_heads")) is not None:
        wide, heads = shape.head_width, shape.key_value_heads
        head = reading.count("swa_head_dim") or shape.head_width
        shape = replace(shape, key_value_heads=own, head_width=head)
    return replace(
        shape, window=window, windowed_layers=windowed, full_head_width=wide, full_key_value_heads=heads if wide else 0
    )


def _recurrent(reading: ConfigReading, shape: Shape, recurrent: int) -> Shape:
    """Return the shape with layers that keep a state: of gated delta nets and Mamba its size is known."""
    found = _delta_net(reading, shape.hidden) or _mamba2(reading, shape.hidden) or _mamba(reading, shape.hidden)
    if found is None:
        reading.assumed.append("its recurrent layers are of a kind whose size is not known: they are not counted")
    mixer, state = found or (0, None)
    return replace(shape, recurrent_layers=recurrent, recurrent_parameters=mixer, state_values=state)


def _counts(reading: ConfigReading, *names: tuple[str, ...]) -> list[int] | None:
    """Return a whole number for each tuple of names that it may have; None where one is not said."""
    found = [next((one for key in keys if (one := reading.count(key)) is not None), None) for keys in names]
    said = [one for one in found if one is not None]
    return said if len(said) == len(found) else None


def _delta_net(reading: ConfigReading, hidden: int) -> tuple[int, int] | None:
    """Return the parameters of one layer's gated delta net, and the values of its state; None: it is none."""
    keys = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    if (said := _counts(reading, *((key,) for key in keys))) is None:
        return None
    key_heads, value_heads, key_width, value_width = said
    wide, held = key_heads * key_width, value_heads * value_width
    kernel = reading.count("linear_conv_kernel_dim") or 4
    mixer = hidden * (2 * wide + 2 * held + 2 * value_heads) + held * hidden + (2 * wide + held) * kernel
    # Engines keep the state in 32 bits, two of our values each, and the inputs that the convolution looks back on.
    return mixer, 2 * value_heads * key_width * value_width + (2 * wide + held) * (kernel - 1)


def _mamba2(reading: ConfigReading, hidden: int) -> tuple[int, int] | None:
    """Return the same of Mamba-2: projections of gate, inputs, B, C and steps, a convolution, a norm.

    Source: Dao and Gu 2024, Transformers are SSMs, section 7; engines keep the state in the model's own 16 bits.
    """
    reading.asked.update(("mamba_expand", "mamba_d_ssm"))  # all heads together, once more
    names = (
        ("mamba_n_heads", "mamba_num_heads"),
        ("mamba_d_head", "mamba_head_dim"),
        ("mamba_d_state", "ssm_state_size"),
    )
    if (said := _counts(reading, *names)) is None:
        return None
    heads, width, state = said
    inner = heads * width
    convolved = inner + 2 * state * (reading.count("mamba_n_groups") or reading.count("n_groups") or 1)
    kernel = reading.count("mamba_d_conv") or reading.count("conv_kernel") or 4
    mixer = hidden * (inner + convolved + heads) + convolved * (kernel + 1) + 3 * heads + inner + inner * hidden
    return mixer, inner * state + convolved * (kernel - 1)


def _mamba(reading: ConfigReading, hidden: int) -> tuple[int, int] | None:
    """Return the same of Mamba. Source: Gu and Dao 2023, Mamba, section 3.4."""
    if (said := _counts(reading, ("mamba_d_state",), ("mamba_expand",))) is None:
        return None
    state, inner = said[0], said[1] * hidden
    kernel = reading.count("mamba_d_conv") or 4
    rank = -(-hidden // 16) if reading.value("mamba_dt_rank") == "auto" else reading.count("mamba_dt_rank") or 0
    steps = rank + 2 * state
    return (
        3 * hidden * inner + inner * (kernel + 1) + inner * steps + steps + (rank + 1) * inner + (state + 1) * inner,
        inner * state + inner * (kernel - 1),
    )
