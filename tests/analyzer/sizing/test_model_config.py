"""A model is read from its config.json: no width is derived that the file states, and what is assumed is said."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.sizing import size
from analyzer.sizing.memory import cache_bytes, memory, weight_bytes
from analyzer.sizing.model import model_at
from analyzer.sizing.model_config import config_of
from analyzer.sizing.work import Sharding, checked, precision_named, work_of

QWEN3 = {
    "model_type": "qwen3",
    "num_hidden_layers": 28,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
ONE = Sharding()
PUBLISHED = json.loads((Path(__file__).parents[2] / "data" / "sizing" / "configs.json").read_text())["models"]
TWO_WIDTHS = {
    "quant_method": "compressed-tensors",
    "config_groups": {
        "attention": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float"}},
        "experts": {"targets": ["re:.*mlp.*"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}},
    },
}


def written(folder: Path, values: dict[str, Any], name: str = "config.json") -> Path:
    """Return the path of a configuration that was written."""
    path = folder / name
    path.write_text(json.dumps(values))
    return path


def test_the_width_of_a_head_is_the_one_that_the_file_states(tmp_path: Path) -> None:
    """Qwen3-0.6B has 16 heads of 128 and a width of 1,024: hidden / heads would give half the KV cache."""
    model = model_at(written(tmp_path, QWEN3))
    assert model.shape is not None
    assert cache_bytes(model.shape, work_of("inference", context=4096), ONE) == 469_762_048
    assert model.parameters == 596_049_920
    assert model_at(tmp_path) == model
    assert model.assumed == ()


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda one: one["name"])
def test_widths_are_read_by_whatever_name_a_family_has_for_them(published: dict[str, Any]) -> None:
    """DBRX's experts, shared and dense layers of ERNIE, Step and Trinity, layers that share keys, towers, halves."""
    found = config_of("it", published["config"])
    shape = found.shape
    short = cache_bytes(shape, work_of("inference", context=200_000), ONE)
    grown = cache_bytes(shape, work_of("inference", context=200_001), ONE)
    if published["token_bytes"] is None:
        assert short is None
        assert any("recurrent layers are of a kind whose size is not known" in told for told in found.assumed)
        return
    assert short is not None
    assert grown is not None
    assert grown - short == published["token_bytes"]
    if published["bn"] is not None:
        assert shape.parameters / 1e9 == pytest.approx(published["bn"], rel=0.03)


def test_keys_that_say_something_of_a_shape_and_are_not_read_are_told() -> None:
    """A new family states its widths under names of its own: what was not read is never told as read."""
    assert config_of("it", QWEN3).assumed == ()
    assert config_of("it", QWEN3 | {"rope_theta": 1e6, "max_window_layers": 28, "attention_dropout": 0.1}).assumed == ()
    (told,) = config_of("it", QWEN3 | {"share_q_dim": 2048, "lru_width": 2560, "attn_type": "full"}).assumed
    assert told == "keys that were not read, and may say more of its shape: lru_width, share_q_dim"


def test_a_width_that_nobody_states_is_derived_and_that_is_said() -> None:
    """As Llama 2's files do."""
    found = config_of("it", {key: value for key, value in QWEN3.items() if key != "head_dim"})
    assert found.shape.head_width == 64
    assert found.assumed == ("heads of 64 values (hidden / heads): the file says no head_dim",)


@given(st.integers(1, 8), st.sampled_from([32, 64, 96, 128, 256]), st.integers(1, 64), st.integers(1, 16))
def test_the_cache_is_by_stated_heads_whatever_the_hidden_width(groups: int, head: int, layers: int, many: int) -> None:
    """Two values of a head for each key/value head, layer and token, of 16 bits."""
    values = QWEN3 | {
        "num_key_value_heads": groups,
        "num_attention_heads": groups * many,
        "head_dim": head,
        "num_hidden_layers": layers,
    }
    shape = config_of("it", values).shape
    assert (
        cache_bytes(shape, work_of("inference", context=7, sequences=3), ONE) == 2 * 2 * layers * groups * head * 7 * 3
    )


@pytest.mark.parametrize(
    ("renamed"),
    [
        {"num_hidden_layers": "n_layer", "hidden_size": "n_embd", "num_attention_heads": "n_head"},
        {"num_hidden_layers": "n_layers", "hidden_size": "d_model", "num_attention_heads": "n_heads"},
        {"num_key_value_heads": "n_head_kv", "head_dim": "kv_channels", "intermediate_size": "ffn_hidden_size"},
        {"num_key_value_heads": "multi_query_group_num", "vocab_size": "padded_vocab_size"},
    ],
)
def test_other_spellings_of_a_width_say_the_same(renamed: dict[str, str]) -> None:
    """GPT-2, MPT, Falcon, ChatGLM."""
    assert config_of("it", {renamed.get(key, key): value for key, value in QWEN3.items()}).shape == (
        config_of("it", QWEN3).shape
    )


def test_a_model_inside_another_is_read_with_its_tower() -> None:
    """Gemma 3's file leaves out what its class takes; the tower for images counts, and is not split."""
    values = {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
        "vision_config": {
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 27,
            "patch_size": 14,
            "image_size": 896,
            "num_attention_heads": 16,
        },
    }
    shape = config_of("it", values).shape
    assert (shape.heads, shape.head_width, shape.key_value_heads, shape.windowed_layers) == (8, 256, 4, 29)
    assert shape.parameters == pytest.approx(4_300_079_472, rel=1e-5)
    strange = config_of("it", values | {"vision_config": {"layers_of": 3}}).shape
    assert strange.tower_parameters is None


def test_layers_that_look_back_a_window_keep_no_more_than_it() -> None:
    """By a list of kinds, by a pattern, by chunks; a window that is switched off is none."""
    listed = QWEN3 | {"sliding_window": 512, "layer_types": ["sliding_attention"] * 21 + ["full_attention"] * 7}
    pattern = QWEN3 | {"sliding_window": 512, "sliding_window_pattern": 4}
    chunks = QWEN3 | {"attention_chunk_size": 512, "no_rope_layer_interval": 4}
    work = work_of("inference", context=4096)
    each = 2 * 8 * 128 * 2
    for values in (listed, pattern, chunks):
        assert cache_bytes(config_of("it", values).shape, work, ONE) == each * (21 * 512 + 7 * 4096)
    off = QWEN3 | {"sliding_window": 512, "use_sliding_window": False}
    assert cache_bytes(config_of("it", off).shape, work, ONE) == each * 28 * 4096


def test_layers_without_a_window_may_have_heads_of_their_own() -> None:
    """Gemma 4 has 16 key/value heads of 256 in windows of 1,024 tokens, and 4 of 512 where all are seen."""
    values = QWEN3 | {
        "num_hidden_layers": 60,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "global_head_dim": 512,
        "num_global_key_value_heads": 4,
        "sliding_window": 1024,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
    }
    shape = config_of("it", values).shape
    cached = cache_bytes(shape, work_of("inference", context=8192), ONE)
    assert cached == 2 * 2 * (50 * 16 * 256 * 1024 + 10 * 4 * 512 * 8192)


def test_latent_attention_caches_what_is_latent_and_every_gpu_has_it() -> None:
    """DeepSeek-V3: 512 + 64 values a layer and token; llama.cpp logs 2,196 MiB for 32,768 tokens."""
    values = QWEN3 | {
        "model_type": "deepseek_v3",
        "num_hidden_layers": 61,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "q_lora_rank": 1536,
    }
    shape = config_of("it", values).shape
    work = work_of("inference", context=32768)
    assert cache_bytes(shape, work, ONE) == 2196 * 2**20
    assert cache_bytes(shape, work, Sharding(tensor=8)) == cache_bytes(shape, work, ONE)


def test_hybrids_keep_a_state_and_unknown_ones_make_the_sum_at_least(tmp_path: Path) -> None:
    """Gated delta nets and Mamba have widths in the file; of others nothing is guessed, but for weights beside it."""
    mixed = QWEN3 | {"full_attention_interval": 4}
    widths = {
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
    }
    known = config_of("it", mixed | widths).shape
    assert (known.recurrent_layers, known.layers) == (21, 28)
    work = work_of("inference", context=4096)
    grown = cache_bytes(known, work_of("inference", context=8192), ONE)
    cached = cache_bytes(known, work, ONE)
    assert grown is not None
    assert cached is not None
    assert grown - cached == 7 * 4096 * 2 * 8 * 128 * 2
    unknown = model_at(written(tmp_path, mixed))
    needed = memory(unknown, work, ONE)
    assert not needed.is_whole
    assert (needed.of("KV cache"), needed.of("recurrent layers")) == (None, None)
    assert any("not known" in told for told in unknown.assumed)
    index = {"metadata": {"total_size": 3_000_000_000}, "weight_map": {"a" * 90: "b" * 90}}
    written(tmp_path, index, "model.safetensors.index.json")
    stored = model_at(tmp_path)
    assert memory(stored, work, ONE).of("weights") == 3_000_000_000
    assert not any(part.name == "recurrent layers" for part in memory(stored, work, ONE).parts)
    assert memory(stored, work_of("inference", "fp8"), ONE).of("recurrent layers") is None
    assert any(part.name == "recurrent layers" for part in memory(stored, work_of("inference", "fp8"), ONE).parts)


def test_what_is_not_read_of_towers_makes_the_sum_at_least() -> None:
    """Qwen-Omni has towers beside an inner text_config, and a model that speaks; DeepSeek-OCR's widths are a table."""
    tower = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304}
    inner = {"thinker_config": {"text_config": QWEN3, "vision_config": tower}}
    seen = config_of("it", inner).shape
    assert seen.tower_parameters is not None
    assert seen.tower_parameters > 400_000_000
    speaks = config_of("it", {**inner, "talker_config": {}}).shape
    table = config_of("it", {"language_config": QWEN3, "vision_config": {"width": {"sam_vit_b": {}}}}).shape
    assert (speaks.tower_parameters, table.tower_parameters) == (None, None)


def test_the_width_of_latent_values_is_said_where_it_is_assumed() -> None:
    """MiniCPM3 leaves it to its class, which has 64 and not DeepSeek's 128: its parameters are its card's 4.07 bn."""
    latent = {"kv_lora_rank": 256, "q_lora_rank": 768, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32}
    widths = {"hidden_size": 2560, "intermediate_size": 6400, "num_hidden_layers": 62, "vocab_size": 73448}
    heads = {"num_attention_heads": 40, "num_key_value_heads": 40}
    known = config_of("it", {"model_type": "minicpm3", **widths, **heads, **latent})
    assert (round(known.shape.parameters / 1e7), known.assumed) == (407, ())
    other = config_of("it", {"model_type": "new_latent", **widths, **heads, **latent})
    assert any("no v_head_dim" in told for told in other.assumed)


def test_layers_without_an_mlp_have_none_in_a_stage_either() -> None:
    """Nemotron-H-8B: 28 layers that mix tokens and 24 MLPs, of which each of four stages has six."""
    shape = config_of("it", next(one["config"] for one in PUBLISHED if one["name"] == "nemotron-h-8b")).shape
    assert (shape.layers, shape.recurrent_layers, shape.full_layers, shape.bare_layers) == (28, 24, 4, 4)
    assert shape.parts().mlp == 24 * 2 * 4096 * 21504
    assert shape.parts(4).mlp * 4 == shape.parts().mlp


def test_a_layer_that_attends_and_keeps_a_state_has_both() -> None:
    """Falcon-H1: keys of all 44 layers, and beside them 24 x 128 x 256 values and three inputs of the convolution."""
    values = next(one["config"] for one in PUBLISHED if one["name"] == "falcon-h1-7b")
    shape = config_of("it", values).shape
    assert (shape.full_layers, shape.recurrent_layers) == (44, 44)
    assert shape.state_values == 24 * 128 * 256 + 3 * (3072 + 2 * 256)
    one_token = cache_bytes(shape, work_of("inference", context=1), ONE)
    assert one_token == 44 * 2 * (2 * 2 * 128 + 24 * 128 * 256 + 3 * (3072 + 2 * 256))


@pytest.mark.parametrize(
    ("quantization", "name", "bits", "spared"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4", Fraction(133, 32), {}),
        ({"quant_method": "gptq", "bits": 4, "group_size": 64}, "int4", 4 + Fraction(20, 64), {}),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8", 8, {}),
        ({"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]}, "fp8", 8, {}),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
            "mxfp4",
            Fraction(17, 4),
            {"attention": 1},
        ),
        (
            {
                "quant_method": "fbgemm_fp8",
                "modules_to_not_convert": [
                    "model.layers.3.self_attn.q_proj",
                    "model.layers.3.mlp.up_proj",
                    "model.layers.0.mlp",
                ],
            },
            "fp8",
            8,
            {"attention": Fraction(1, 28), "mlp": Fraction(2, 28)},
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}},
                "ignore": ["lm_head", "re:.*self_attn", "re:.*mlp.gate$"],
            },
            "fp8",
            8,
            {"attention": 1},
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
            },
            "int4",
            4 + Fraction(20, 32),
            {},
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head"]},
            "nvfp4",
            Fraction(9, 2),
            {},
        ),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4", Fraction(9, 2), {}),
        (
            {
                "quant_method": "bitsandbytes",
                "load_in_4bit": True,
                "bnb_4bit_use_double_quant": True,
                "llm_int8_skip_modules": ["lm_head", "model.layers.1.mlp", "model.layers.3.self_attn"],
            },
            "nf4",
            precision_named("nf4").bits,
            {"attention": Fraction(1, 28), "mlp": Fraction(1, 28)},
        ),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {r"-:.*self_attn.*": {}}},
            "int4",
            Fraction(133, 32),
            {"attention": 1},
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "g": {
                        "targets": ["re:.*mlp.experts.*"],
                        "weights": {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True},
                    }
                },
            },
            "int4",
            Fraction(9, 2),
            {"attention": 1, "mlp": 1},
        ),
        ({"group_size": 64, "bits": 4}, "int4", Fraction(9, 2), {}),
    ],
)
def test_the_file_says_what_weights_are_held_in_and_which(
    quantization: dict[str, Any], name: str, bits: Fraction, spared: dict[str, Fraction]
) -> None:
    """Published checkpoints differ: experts alone, all but attention, all but some layers."""
    found = config_of("it", QWEN3 | {"quantization_config": quantization}).precision
    assert found is not None
    assert (found.name, found.bits, dict(found.spared)) == (name, bits, spared)


@pytest.mark.parametrize("key", ["quantization_config", "compression_config", "quantization"])
def test_weights_are_never_sixteen_bits_where_the_file_says_otherwise(key: str) -> None:
    """Older files and MLX's have the same under other names; all of MLX's weights are held so, embeddings too."""
    found = config_of("it", QWEN3 | {key: {"group_size": 64, "bits": 4}}).precision
    assert found is not None
    assert (found.name, found.ends) == ("int4", (Fraction(9, 2), Fraction(9, 2)))


def test_what_is_spared_stays_in_sixteen_bits(tmp_path: Path) -> None:
    """Half of the layers' attention: their matrices take two bytes, the others one."""
    left = [f"model.layers.{number}.self_attn" for number in range(14)]
    values = QWEN3 | {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": left}}
    model = model_at(written(tmp_path, values))
    assert model.shape is not None
    assert model.precision is not None
    parts = model.shape.parts()
    held = weight_bytes(model, work_of("inference"))
    assert held == 2 * parts.total
    spared = weight_bytes(model, checked(work_of("inference").__class__("inference", model.precision)))
    assert spared == parts.attention * 3 // 2 + parts.mlp + 2 * parts.other


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ("nothing", "is not a model's config.json"),
        ([], "it has no keys"),
        ({}, "'num_hidden_layers' is missing"),
        (QWEN3 | {"hidden_size": "wide"}, "'hidden_size' must be a whole number"),
        (QWEN3 | {"num_hidden_layers": -3}, "must be a whole number from 1"),
        (QWEN3 | {"num_attention_heads": 10**9}, "must be a whole number from 1"),
        (QWEN3 | {"is_encoder_decoder": True}, "not a decoder of text"),
        (QWEN3 | {"model_type": "xlm-roberta"}, "not a decoder of text"),
        (QWEN3 | {"model_type": "new", "type_vocab_size": 1}, "not a decoder of text"),
        ({"model_type": "clip", "text_config": {"hidden_size": 768}, "vision_config": {}}, "not a decoder of text"),
        (QWEN3 | {"model_type": "mamba2"}, "of kinds that are not read here"),
        (QWEN3 | {"model_type": "zamba2"}, "of kinds that are not read here"),
        (QWEN3 | {"model_type": "nemotron_h"}, "'hybrid_override_pattern' is not one that is read here"),
        (QWEN3 | {"model_type": "nemotron_h", "hybrid_override_pattern": "M--"}, "is not one that is read here"),
        (QWEN3 | {"block_configs": [{"attention": {"no_op": True}}]}, "of kinds that are not read here"),
        (QWEN3 | {"quantization_config": {"quant_method": "aqlm"}}, "'aqlm' holds weights in is not known"),
        (QWEN3 | {"quantization_config": TWO_WIDTHS}, "'compressed-tensors' holds weights in is not known"),
        (
            QWEN3 | {"quantization": {"group_size": 64, "bits": 4, "model.layers.3": {"group_size": 64, "bits": 8}}},
            "holds weights in is not known",
        ),
    ],
)
def test_a_file_that_describes_no_model_is_refused_in_a_sentence(tmp_path: Path, values: object, why: str) -> None:
    """With the key, and the way out."""
    path = tmp_path / "config.json"
    path.write_text("{" if values == "nothing" else json.dumps(values))
    with pytest.raises(ConfigError, match=why):
        model_at(path)
    with pytest.raises(ConfigError, match="cannot read"):
        model_at(tmp_path / "none")


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *QWEN3,
                "sliding_window",
                "layer_types",
                "num_experts",
                "moe_layer_freq",
                "kv_lora_rank",
                "qk_rope_head_dim",
                "full_attention_interval",
                "first_k_dense_replace",
                "num_kv_shared_layers",
                "use_cla",
                "cla_share_factor",
                "attn_type_list",
                "kda_layers",
                "cross_attention_layers",
                "sliding_window_pattern",
                "moe_layer_end_index",
            ]
        ),
        st.none()
        | st.booleans()
        | st.integers(-5, 10**6)
        | st.floats(allow_nan=False)
        | st.text(max_size=3)
        | st.lists(st.integers(0, 3), max_size=4)
        | st.lists(st.text(max_size=3), max_size=3),
    )
)
def test_whatever_keys_say_there_is_a_shape_or_a_sentence(changed: dict[str, Any]) -> None:
    """Never another error, and never a negative width."""
    try:
        shape = config_of("it", QWEN3 | changed).shape
    except ConfigError:
        return
    assert shape.parameters > 0
    assert 0 <= shape.windowed_layers <= shape.layers
    assert 0 <= shape.recurrent_layers <= shape.layers
    assert 0 <= shape.uncached_full_layers <= shape.full_layers
    assert 0 <= shape.uncached_windowed_layers <= shape.windowed_layers
    assert 0 <= shape.expert_layers <= shape.layers


def test_the_command_reads_a_file_and_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And counts adapters that a server keeps, and a draft model; a folder of results that is called so is no model."""
    written(tmp_path, QWEN3)
    words = ["--for", "inference", "--adapters", "4", "--draft", "qwen3-0.6b", "--json"]
    assert size([str(tmp_path / "config.json"), *words]) == 0
    by_file = json.loads(capsys.readouterr().out)
    assert size([str(tmp_path), *words]) == 0
    assert json.loads(capsys.readouterr().out)["memory"] == by_file["memory"]
    (tmp_path / "llama-3-8b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert size(["llama-3-8b", "--for", "inference", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["name"] == "llama-3-8b"
    parts = {part["name"]: part["bytes"] for part in by_file["memory"]["parts"]}
    assert parts["draft model"] == parts["weights"] + parts["KV cache"]
    assert parts["adapters"] > 0
