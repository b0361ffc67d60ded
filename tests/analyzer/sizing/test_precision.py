"""What weights are held in is part of a name; what a chip does with it follows from its compute capability."""

import json
from fractions import Fraction

import pytest

from analyzer.errors import ConfigError
from analyzer.interfaces.cli.sizing import size
from analyzer.sizing.fitting import GpuKind, GpuRequest, fitting_offers
from analyzer.sizing.memory import memory, weight_bytes
from analyzer.sizing.model import find_model, model_named
from analyzer.sizing.work import Sharding, ability, boards, capability_of, precision_named, work_of

GIB = 2**30


def sized(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """Return the command's answer."""
    assert size([*words, "--json"]) == 0
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize(
    ("name", "model", "precision"),
    [
        ("Qwen2.5-72B-Instruct-AWQ", "qwen2.5-72b", "int4"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen2.5-7b", "int4"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "qwen2.5-7b", "int8"),
        ("TheBloke/Llama-2-70B-Chat-GPTQ", "llama-2-70b", "int4"),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", "llama-3.1-405b", "fp8"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic", "llama-3-70b", "fp8"),
        ("neuralmagic/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", "llama-3-70b", "int4"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3-235b-a22b", "fp8"),
        ("nvidia/Llama-3.3-70B-Instruct-FP4", "llama-3-70b", "nvfp4"),
        ("nvidia/DeepSeek-R1-0528-NVFP4-v2", "deepseek-v3", "nvfp4"),
        ("nvidia/DeepSeek-R1-FP4-v2", "deepseek-v3", "nvfp4"),
        ("unsloth/Llama-3.1-8B-Instruct-unsloth-bnb-4bit", "llama-3-8b", "nf4"),
        ("bartowski/Qwen2.5-32B-Instruct-GGUF", "qwen2.5-32b", "q4_k_m"),
        ("Qwen3-8B-Q5_K_M.gguf", "qwen3-8b", "q5_k_m"),
        ("unsloth/Qwen3-8B-GGUF:Q8_0", "qwen3-8b", "q8_0"),
        ("llama3.1:70b-instruct-q4_K_M", "llama-3-70b", "q4_k_m"),
        ("bartowski/Meta-Llama-3.1-70B-Instruct-Q5_K_L.gguf", "llama-3-70b", "q5_k_l"),
        ("mlx-community/Qwen2.5-7B-Instruct-6bit", "qwen2.5-7b", "int6"),
        ("openai/gpt-oss-120b", "gpt-oss-120b", "mxfp4"),
        ("gpt-oss:20b", "gpt-oss-20b", "mxfp4"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-v3", "fp8"),
        ("qwen3:8b", "qwen3-8b", None),
        ("gemma3:27b", "gemma-3-27b", None),
        ("llama4-scout", "llama-4-scout", None),
        ("phi4", "phi-4", None),
        ("Llama 3.1 8B", "llama-3-8b", None),
        ("mixtral:8x22b", "mixtral-8x22b", None),
        ("google/gemma-3-12b-it", "gemma-3-12b", None),
        ("Qwen/QwQ-32B-AWQ", "qwen2.5-32b", "int4"),
    ],
)
def test_names_that_people_type_say_model_and_precision(name: str, model: str, precision: str | None) -> None:
    """As hubs, servers and ollama spell them."""
    found = find_model(name)
    assert found is not None
    assert (found.name, found.precision.name if found.precision else None) == (model, precision)


def test_deepseeks_fp4_leaves_attention_as_it_is() -> None:
    """NVIDIA's checkpoint quantises the MLPs alone, and 16 GB would be missing. (Its v2 has one matrix more.)"""
    found = find_model("nvidia/DeepSeek-R1-FP4")
    assert found is not None
    assert found.precision is not None
    assert found.precision.spared == (("attention", Fraction(1)),)


def test_a_file_of_a_kind_has_the_bits_of_its_table_where_no_shape_is_known() -> None:
    """Its linears alone have fewer: a seventh of iq1_s is embeddings of 2.6 bits and an output layer of 5.5."""
    held = precision_named("iq1_s")
    assert (held.bits_of_all, held.bits < 1.7) == (Fraction("2.0042"), True)


@pytest.mark.parametrize(
    ("name", "plain", "precision", "gib"),
    [
        ("Qwen2.5-72B-Instruct-AWQ", "qwen2.5-72b", "int4", 38.6),
        ("Llama-3.1-405B-Instruct-FP8", "llama-3.1-405b", "fp8", 453.7),
    ],
)
def test_a_suffix_is_sized_as_that_precision_and_told(
    name: str, plain: str, precision: str, gib: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """72B-AWQ was offered as 135 GiB of bf16."""
    said = sized([name, "--for", "inference"], capsys)
    assert said["memory"] == sized([plain, "--for", "inference", "--precision", precision], capsys)["memory"]
    assert said["memory"]["parts"][0]["bytes"] / GIB == pytest.approx(gib, abs=0.05)  # type: ignore[index]
    assert any(precision in told for told in said["model"]["assumed"])  # type: ignore[index]


def test_a_release_that_is_a_model_of_its_own_is_not_taken_for_another() -> None:
    """Kimi-K2-Thinking is published as 594 GB of 4-bit experts, Kimi-K2-Instruct as 1.03 TB of FP8."""
    for name, gb in (("moonshotai/Kimi-K2-Thinking", 594), ("moonshotai/Kimi-K2-Instruct-0905", 1029)):
        model = model_named(name)
        assert model.precision is not None
        work = work_of("inference").__class__("inference", model.precision)
        assert weight_bytes(model, work) / 10**9 == pytest.approx(gb, rel=0.01)


def test_a_precision_that_contradicts_the_name_goes_before_it_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """And the same precision is no contradiction; training all of it asks for 16 bits whatever is published."""
    said = sized(["Qwen2.5-72B-Instruct-AWQ", "--for", "inference", "--precision", "bf16"], capsys)
    assert said["precision"] == "bf16"
    assert said["model"]["assumed"] == ["bf16, as --precision says; the name says int4"]  # type: ignore[index]
    same = sized(["Qwen2.5-72B-Instruct-AWQ", "--for", "inference", "--precision", "int4"], capsys)
    assert same["model"]["assumed"] == []  # type: ignore[index]
    with pytest.raises(ConfigError, match="does not go with --for full"):
        size(["Qwen2.5-7B-Instruct-AWQ", "--for", "full"])
    assert sized(["deepseek-v3", "--for", "full"], capsys)["precision"] == "bf16"


def test_the_published_checkpoint_leaves_attention_in_sixteen_bits() -> None:
    """vLLM's issue 6746: Llama 3.1 405B in FP8 over eight GPUs logs 57.75 GiB of weights each (with 16 KV heads)."""
    model = model_named("llama-3.1-405b")
    needed = memory(model, work_of("inference").__class__("inference", model.held_in("fp8")), Sharding(tensor=8))
    assert (needed.of("weights") or 0) / GIB == pytest.approx(57.75, rel=0.03)
    assert "attention" in needed.parts[0].told


def test_ampere_holds_fp8_weights_and_computes_nothing_in_it() -> None:
    """vLLM's PR 5975: kernels unpack them. Adapters cannot be trained on them there."""
    model = model_named("llama-3.1-405b")
    a100 = GpuKind("A100-80GB", 80 * GIB, 8, None, None)
    work = work_of("inference").__class__("inference", model.held_in("fp8"))
    (fit,), _ = fitting_offers(model, work, [a100], GpuRequest(8))
    assert fit.note is not None
    assert "weights only" in fit.note
    _, (misfit,) = fitting_offers(model_named("llama-3-8b"), work_of("lora", "fp8"), [a100])
    assert misfit.why == "no FP8 there: use int8"
    with pytest.raises(ConfigError, match="does not go with --for full"):
        work_of("full", "fp8")


@pytest.mark.parametrize(
    ("sku", "precision", "is_able"),
    [
        ("H100-80GB", "fp8", True),
        ("H100-NVL-94GB", "fp8", True),
        ("L40S-48GB", "fp8", True),
        ("A100-80GB", "bf16", True),
        ("A10-24GB", "fp8", True),
        ("A30-24GB", "fp8", True),
        ("A16-16GB", "bf16", True),
        ("T4-16GB", "bf16", False),
        ("T4-16GB", "fp8", False),
        ("T4-16GB", "int8", True),
        ("T4-16GB", "int4", True),
        ("V100-32GB", "bf16", False),
        ("V100-32GB", "int8", False),
        ("V100-32GB", "nf4", True),
        ("P100-16GB", "nf4", False),
        ("P40-24GB", "q4_k_m", True),
        ("RTX-8000-48GB", "bf16", False),
        ("RTX-6000-24GB", "bf16", False),
        ("RTX-6000-Ada-48GB", "fp8", True),
        ("RTX-A6000-48GB", "bf16", True),
        ("RTX-4090-24GB", "fp8", True),
        ("RTX-5090-32GB", "nvfp4", True),
        ("RTX-PRO-6000-Blackwell-96GB", "nvfp4", True),
        ("B200-180GB", "nvfp4", True),
        ("MI300X-192GB", "fp8", True),
        ("MI300X-192GB", "bf16", True),
        ("MI250X-128GB", "fp8", False),
        ("Unheard-80GB", "bf16", None),
        ("A1000-80GB", "fp8", None),
        ("TPU-v5", "bf16", None),
        ("H1000-80GB", "fp8", None),
    ],
)
def test_what_a_chip_does_follows_from_its_compute_capability(sku: str, precision: str, is_able: bool | None) -> None:
    """By the names that the agent gives; what is not known is neither yes nor no."""
    assert ability(sku, work_of("inference", precision)).is_able is is_able
    if is_able is None:
        assert (ability(sku, work_of("inference", precision)).told or "").startswith("not known whether")


def test_every_board_and_priced_gpu_has_a_known_chip() -> None:
    """Else its offers would all be "not known"."""
    assert all(capability_of(board.sku) is not None for board in boards())


@pytest.mark.parametrize(
    ("states", "optimizer", "least", "most"),
    [
        ("bf16", "plain_sgd", 26.9, 27.8),  # torchtune's PR 389 measured 27.83 at most
        ("bf16,in_backward", "plain_sgd", 13.4, 14.5),
        ("bf16", "adam", 53.8, 54.0),
        ("offloaded", "adam", 13.4, 13.6),
        ("no_copy", "adam", 80.8, 81.0),
    ],
)
def test_states_of_training_may_be_kept_otherwise(states: str, optimizer: str, least: float, most: float) -> None:
    """Llama 2 7B, weights with gradients and states, in GB."""
    work = work_of("full", optimizer=optimizer, states=frozenset(states.split(",")))
    needed = memory(model_named("llama-2-7b"), work, Sharding())
    kept = sum(needed.of(name) or 0 for name in ("weights", "gradients", "optimizer")) / 10**9
    assert least <= kept <= most


def test_four_bit_floats_have_their_scales() -> None:
    """MXFP4: 8 bits for 32 weights; NVFP4: for 16."""
    model = model_named("llama-3-8b")
    assert model.shape is not None
    parts = model.shape.parts()
    for name, bits in (("nvfp4", 4.5), ("mxfp4", 4.25)):
        linears = parts.attention + parts.mlp
        assert weight_bytes(model, work_of("inference", name)) == pytest.approx(
            linears * bits / 8 + 2 * parts.other, rel=1e-6
        )
