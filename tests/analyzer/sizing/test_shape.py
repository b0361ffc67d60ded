"""Parameters follow from shapes: the counts are those that the files of the published weights have."""

import pytest

from analyzer.errors import ConfigError
from analyzer.sizing.model import find_model, known_models, model_named, plain_name
from analyzer.sizing.shape import Shape

# Totals of the weight files' headers, as model cards and their APIs tell them.
PUBLISHED = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "deepseek-r1-distill-qwen-1.5b": 1_777_088_000,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_shape_has_the_parameters_that_were_published(name: str) -> None:
    """To the last one: a width that was copied wrongly would show."""
    assert model_named(name).parameters == PUBLISHED[name]


def test_a_token_meets_two_of_eight_experts() -> None:
    """Mixtral's own figures: 46.7 bn in all, 12.9 bn active. All of it must be in memory."""
    shape = model_named("mixtral-8x7b").shape
    assert shape is not None
    assert round(shape.active_parameters / 10**8) == 129
    dense = model_named("mistral-7b").shape
    assert dense is not None
    assert dense.active_parameters == dense.parameters


def test_adapters_are_rank_times_in_and_out_of_every_linear() -> None:
    """One layer of two by two widths, by hand: queries, output 2x(4+4); keys, values 2x(4+2); MLP 2x(4+8) and (8+4)."""
    shape = Shape(1, 4, 2, 1, 2, 8, 16)
    assert shape.adapter_parameters(3) == 3 * (2 * 8 + 2 * 6 + 2 * 12 + 12)


def test_a_model_is_found_by_the_names_that_people_give_it() -> None:
    """The ledger has what a server calls its model: a path, with the release in it."""
    assert plain_name("meta-llama/Llama-2-7b-chat-hf") == "llama-2-7b"
    assert plain_name("/models/Mixtral-8x7B-Instruct-v0.1/") == "mixtral-8x7b"
    for name in ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3-8b", "LLAMA_3_8B"):
        found = find_model(name)
        assert found is not None
        assert found.name == "llama-3-8b"


def test_no_model_is_guessed() -> None:
    """What is not in the table is described by whoever asks; a slip of the pen is told the nearest name."""
    with pytest.raises(ConfigError, match=r"did you mean llama-3-8b\?.*--parameters"):
        model_named("llama-3-8bb")
    with pytest.raises(ConfigError, match="known are llama-2-7b"):
        model_named("zzz")
    assert find_model("llama-70b") is None


def test_every_row_of_the_table_says_where_it_was_read() -> None:
    """And no name leads to two models."""
    names = [name for model in known_models() for name in model.names]
    assert len(names) == len(set(names))
    assert all(plain_name(name) == name for name in names)
    assert all("/" in model.source or "configurations" in model.source for model in known_models())
