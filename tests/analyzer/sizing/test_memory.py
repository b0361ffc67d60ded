"""The formulas, held against the papers that they are from and against what others measured."""

import pytest

from analyzer.errors import ConfigError
from analyzer.sizing.memory import cache_bytes, layer_bytes, memory, states, weight_bytes
from analyzer.sizing.model import Model, model_named
from analyzer.sizing.shape import Shape
from analyzer.sizing.work import MOMENT_BYTES, Purpose, Sharding, sharding_of, splits, work_of

GIB, GIGA = 2**30, 10**9
ONE = Sharding()
# The block of Korthikanti et al.: 4 h with GELU, dropout, no groups; with 64 heads, a batch of 4 x 2048 tokens.
PAPERS = Shape(48, 4096, 64, 64, 64, 4 * 4096, 51_200, is_gated=False, has_dropout=True)


def bare(parameters: int) -> Model:
    """Return a model of which nothing but its size is known."""
    return Model("bare", parameters, None, "a test")


def test_adam_in_mixed_precision_is_sixteen_bytes_a_parameter() -> None:
    """2 weights, 2 gradients, 4 for the copy, 8 moments; in 32 bits 4, 4 and 8: there the weights are the copy."""
    kept = states(bare(1000), work_of("full"), ONE)
    assert (kept.weights, kept.gradients, kept.optimizer) == (2000, 2000, 12_000)
    kept = states(bare(1000), work_of("full", "fp32"), ONE)
    assert (kept.weights, kept.gradients, kept.optimizer) == (4000, 4000, 8000)


@pytest.mark.parametrize(
    ("optimizer", "total"), [("adam", 16), ("adam8bit", 10), ("sgd", 12), ("adafactor", 8), ("plain_sgd", 8)]
)
def test_each_optimizer_keeps_its_own(optimizer: str, total: int) -> None:
    """The table has no other."""
    kept = states(bare(1000), work_of("full", optimizer=optimizer), ONE)
    assert kept.gradients is not None
    assert kept.optimizer is not None
    assert kept.weights + kept.gradients + kept.optimizer == total * 1000
    assert set(MOMENT_BYTES) == {"adam", "adam8bit", "sgd", "adafactor", "plain_sgd"}


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_divides_as_its_paper_says(stage: int, gigabytes: float) -> None:
    """Figure 1 of ZeRO: 7.5 bn parameters over 64 GPUs."""
    kept = states(bare(7_500_000_000), work_of("full"), Sharding(stage, data=64))
    total = kept.weights + (kept.gradients or 0) + (kept.optimizer or 0)
    assert round(total / GIGA, 1) == gigabytes


@pytest.mark.parametrize(("tensor", "gigabytes"), [(1, 6.51), (4, 1.88), (8, 1.11), (16, 0.72)])
def test_activations_are_those_of_the_paper_on_its_own_block(tensor: int, gigabytes: float) -> None:
    """s b h (10 + 24/t + 5as/(ht)) bytes a layer."""
    work = work_of("full", recompute="none", batch=4, context=2048)
    told = layer_bytes(PAPERS, work, tensor)
    tokens, scores = 4 * 2048 * 4096, 5 * 64 * 2048**2 * 4
    assert told == tokens * 10 + tokens * 24 // tensor + scores // tensor
    assert round(told / GIGA, 2) == gigabytes


def test_selective_recomputation_leaves_thirty_four() -> None:
    """The paper's equation 6 without parallelism."""
    assert layer_bytes(PAPERS, work_of("full", context=2048)) == 34 * 2048 * 4096


def test_the_key_value_cache_is_what_vllm_counted() -> None:
    """vLLM's log for Llama 3 8B (its issue 12330): weights of 14.96 GiB; 5,691 blocks of 16 tokens are 11.12 GiB."""
    model = model_named("llama-3-8b")
    assert model.shape is not None
    assert round(weight_bytes(model, work_of("inference")) / GIB, 2) == 14.96
    cached = cache_bytes(model.shape, work_of("inference", context=16, sequences=5691), ONE)
    assert cached is not None
    assert round(cached / GIB, 2) == 11.12
    assert cache_bytes(model.shape, work_of("inference", context=1), ONE) == 131_072
    assert cache_bytes(model.shape, work_of("inference", cache="fp8", context=1), ONE) == 65_536


def test_key_value_heads_are_copied_and_never_split() -> None:
    """Eight heads over sixteen GPUs: each has one, so that half of them is a copy."""
    shape = model_named("llama-3-70b").shape
    assert shape is not None
    work = work_of("inference")
    whole = cache_bytes(shape, work, ONE)
    assert whole is not None
    assert cache_bytes(shape, work, Sharding(tensor=8)) == whole // 8
    assert cache_bytes(shape, work, Sharding(tensor=16)) == whole // 8


@pytest.mark.parametrize(
    ("purpose", "measured_gib", "apart"),
    [("lora", 16.2, 0.06), ("qlora", 7.4, 0.06)],
)
def test_tuning_takes_what_torchtune_measured(purpose: Purpose, measured_gib: float, apart: float) -> None:
    """torchtune's README: Llama 3.1 8B, batch 2 x 2048, rank 8, on a GPU of 24 GB, so with checkpoints of activations.

    It tells what PyTorch allocated, so without the framework's own; and its loss is computed in pieces, so without
    logits.
    """
    model = model_named("llama-3.1-8b")
    assert model.shape is not None
    work = work_of(purpose, recompute="full", batch=2, context=2048, rank=8)
    needed = memory(model, work, ONE)
    logits = 4 * work.tokens * model.shape.vocabulary
    told = needed.total_bytes - (needed.of("framework") or 0) - logits
    assert told / GIB == pytest.approx(measured_gib, rel=apart)


def test_four_bits_have_their_scales_and_spare_the_embeddings() -> None:
    """QLoRA, section 3: 0.127 bits per weight with double quantisation; embeddings and output stay in 16 bits."""
    model = model_named("llama-2-7b")
    assert model.shape is not None
    linear = model.shape.parts().linears
    rest = model.parameters - linear
    assert weight_bytes(model, work_of("qlora")) == pytest.approx(linear * 4.127 / 8 + rest * 2, rel=1e-5)
    assert weight_bytes(bare(8000), work_of("inference", "int8")) == 8000


def test_what_needs_a_shape_is_unknown_without_one() -> None:
    """Not nothing: the sum says "at least" then."""
    needed = memory(bare(7 * GIGA), work_of("lora"), ONE)
    assert (needed.of("activations"), needed.of("adapters"), needed.is_whole) == (None, None, False)
    assert needed.total_bytes == 14 * GIGA + GIB
    assert not memory(bare(7 * GIGA), work_of("inference"), ONE).is_whole


def test_fsdp_holds_two_layers_whole() -> None:
    """Over very many GPUs that is what is left of the weights."""
    model = model_named("llama-2-70b")
    assert model.shape is not None
    needed = memory(model, work_of("full"), Sharding(3, data=512))
    assert needed.of("gathered weights") == 2 * 2 * model.shape.parts().linears // model.shape.layers


@pytest.mark.parametrize(
    ("said", "gpus", "made"),
    [
        ("none", 1, Sharding()),
        ("zero3", 16, Sharding(3, data=16)),
        ("fsdp", 8, Sharding(3, data=8)),
        ("tensor", 8, Sharding(tensor=8)),
        ("tensor=8,pipeline=2", 16, Sharding(tensor=8, pipeline=2)),
        ("tensor=8, zero1", 32, Sharding(1, data=4, tensor=8)),
        ("pipeline,tensor=4", 8, Sharding(tensor=4, pipeline=2)),
    ],
)
def test_a_way_to_spread_is_read_as_it_is_told(said: str, gpus: int, made: Sharding) -> None:
    """What an answer shows can be given back to --sharding."""
    assert sharding_of(said, gpus) == made
    assert sharding_of(made.told, gpus) == made


@pytest.mark.parametrize(("said", "gpus"), [("zero4", 8), ("tensor=3", 8), ("tensor,pipeline", 8), ("tensor=0", 8)])
def test_a_way_that_cannot_be_is_refused(said: str, gpus: int) -> None:
    """With a sentence that says which there are, or what does not divide."""
    with pytest.raises(ConfigError, match="--sharding"):
        sharding_of(said, gpus)


def test_heads_are_not_cut() -> None:
    """28 heads go over 7 or 14 GPUs, not over 8."""
    shape = model_named("qwen2.5-7b").shape
    assert "28 heads" in (splits(Sharding(tensor=8), shape) or "")
    assert splits(Sharding(tensor=7), shape) is None
    assert "28 layers" in (splits(Sharding(pipeline=29), shape) or "")


@pytest.mark.parametrize(
    ("purpose", "precision", "why"),
    [
        ("full", "fp8", "use bf16"),
        ("full", "nf4", "qlora"),
        ("qlora", "bf16", "use nf4"),
        ("lora", "fp5", "not one of"),
    ],
)
def test_a_precision_that_does_not_go_with_the_work_is_refused(purpose: Purpose, precision: str, why: str) -> None:
    """With the one that does."""
    with pytest.raises(ConfigError, match=why):
        work_of(purpose, precision)


def test_what_is_not_split_is_whole_on_each_gpu() -> None:
    """Eight heads of keys on sixteen GPUs are sixteen; norms, routers and latent ranks are not cut."""
    llama, mixtral, deepseek = (model_named(name) for name in ("llama-3-70b", "mixtral-8x7b", "deepseek-r1"))
    assert llama.shape is not None
    assert mixtral.shape is not None
    assert deepseek.shape is not None
    norms = 80 * 2 * 8192
    assert llama.shape.copied(8).attention == 0
    assert llama.shape.copied(8).total == norms * 7 // 8
    assert llama.shape.copied(16).attention == 80 * 2 * 8192 * (128 - 1024 // 16)
    assert llama.shape.copied(16, 2).attention == llama.shape.copied(16).attention // 2
    assert mixtral.shape.copied(8).other == 32 * (2 * 4096 + 4096 * 8) * 7 // 8
    assert deepseek.shape.copied(8).attention == 61 * 7168 * (512 + 64 + 1536) * 7 // 8
    assert llama.shape.copied(1).total == 0
    held = memory(llama, work_of("inference"), Sharding(tensor=16)).of("weights") or 0
    assert held == -(-2 * llama.parameters // 16) + 2 * llama.shape.copied(16).total
