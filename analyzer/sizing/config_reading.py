"""Read the keys of a model's configuration: by any name that a width has, else the default of its kind.

The names are those of Hugging Face's configurations, the defaults those of its classes. What was not asked for, and
may say something of the shape, is known in the end.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from analyzer.errors import ConfigError

WIDEST = 10_000_000  # of a layer, a vocabulary: what lies beyond is a slip of the pen

# What a width is called, the usual name first.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "depth", "encoder_layers"),
    "hidden": ("hidden_size", "n_embd", "n_embed", "d_model", "dim", "embed_dim", "width", "block_dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"),
    "kv_heads": (
        "num_key_value_heads",
        "num_kv_heads",
        "n_head_kv",
        "n_kv_heads",
        "multi_query_group_num",
        "num_attention_groups",
        "kv_n_heads",
        "num_key_value_heads_per_layer",
    ),
    "head_width": ("head_dim", "kv_channels", "attention_head_dim", "head_size", "d_head"),
    "intermediate": (
        "intermediate_size",
        "ffn_hidden_size",
        "n_inner",
        "d_ff",
        "ffn_dim",
        "encoder_ffn_dim",
        "block_ff_dim",
        "ff_intermediate_size",
    ),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "active": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "moe_topk",
        "moe_top_k",
        "moe_k",
        "top_k_experts",
    ),
    "expert_width": ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size", "expert_dim"),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "shared_width": (
        "shared_expert_intermediate_size",
        "share_expert_dim",
        "shared_intermediate_size",
        "moe_shared_expert_intermediate_size",
    ),
    "dense_first": ("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"),
}
_GEMMA3 = {
    "head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262_208, "hidden_size": 2304,
    "intermediate_size": 9216, "num_hidden_layers": 26, "sliding_window_pattern": 6, "tie_word_embeddings": True,
}  # fmt: skip
_TIED = (
    "gpt2", "gpt_neo", "gpt_bigcode", "falcon", "bloom", "opt", "mpt", "starcoder2", "lfm2", "lfm2_moe",
    "recurrent_gemma", "gemma3n_text", "gemma4_text",
)  # fmt: skip
# What Hugging Face's configuration classes take where a file is silent, by `model_type`.
_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "gemma": {"head_dim": 256, "tie_word_embeddings": True},
    "gemma2": {"head_dim": 256, "sliding_window_pattern": 2, "tie_word_embeddings": True},
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "llama4_text": {"no_rope_layer_interval": 4},
    "cohere": {"tie_word_embeddings": True},
    "cohere2": {"tie_word_embeddings": True, "sliding_window_pattern": 4},
    **{kind: {"tie_word_embeddings": True} for kind in _TIED},
    "gpt_oss": {"sliding_window_pattern": 2},
    "qwen3_next": {"full_attention_interval": 4},
    "qwen2_moe": {"decoder_sparse_step": 1},
    "minicpm3": {"v_head_dim": 64, "tie_word_embeddings": True},
}  # fmt: skip
# Keys that may say how large a model is, and those among them that only say what is done with its widths.
_OF_SHAPE = re.compile(
    r"layer|expert|head|attn|attention|moe|mamba|ssm|conv|lru|rank|_dim$|width|intermediate|ffn|window|block|latent|_size$"
)
_NO_SHAPE = re.compile(
    r"drop|norm|eps|rope|rotary|token|bias|rout|aux|init|scal|clip|cap|cache|max_|chunk|_act|dtype|loss|jitter|score|group$"
    r"|temperature|output|implementation|class|nextn|mtp|mup|train|gate|sink|vision|image|interleaved_layers|patch|topk$"
)


@dataclass(slots=True)
class ConfigReading:
    """One configuration as it is read: what it says, the defaults of its kind, and what had to be assumed."""

    where: str
    values: Mapping[str, object]
    kind: str
    assumed: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    def value(self, key: str) -> object:
        """Return what the file says of a key, else what its kind takes; None where neither does."""
        self.asked.add(key)
        said = self.values.get(key)
        return _DEFAULTS.get(self.kind, {}).get(key) if said is None else said

    def count(self, key: str) -> int | None:
        """Return a whole number, None where nobody says one.

        Raises:
            ConfigError: it is none that a model has.
        """
        said = self.value(key)
        if isinstance(said, list) and said and all(isinstance(one, int) for one in said):
            is_one, said = len(set(said)) == 1, max(said)  # widths by layer: the widest
            if not is_one:
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
        found = next((found for key in _KEYS[name] if (found := self.count(key)) is not None), None)
        self.asked.update(key for key in _KEYS[name] if self.values.get(key) == found)
        return found

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

    def unread(self) -> list[str]:
        """Return the keys that say something of layers, heads, experts or widths, and were not asked for."""
        return sorted(
            key
            for key, said in self.values.items()
            if said not in (None, False, 0, 1, -1, "", []) and key not in self.asked
            if _OF_SHAPE.search(key) and not _NO_SHAPE.search(key) and not isinstance(said, dict | float | str)
        )
