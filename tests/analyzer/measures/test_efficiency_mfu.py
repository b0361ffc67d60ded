"""MFU: by hand, and the reason wherever a part of it is not known."""

from datetime import date
from math import isclose

import pytest

from analyzer.measures.efficiency.checkpoints import Figure, withheld
from analyzer.measures.efficiency.goodput import mfu, parameters, peak_of
from analyzer.sizing.work import boards

LLAMA = {"params": "7b"}


def test_by_hand() -> None:
    """6 x 7e9 parameters x 16,000 tokens/s are 672 TFLOP/s; of two A100 that is more than they can, of 8 26.9%."""
    known = mfu(LLAMA, Figure(16_000.0), 8, "A100-80GB", None)
    assert known.value is not None
    assert isclose(known.value, 6 * 7e9 * 16_000 / (8 * 312e12))
    assert round(known.value, 3) == 0.269


@pytest.mark.parametrize(
    ("labels", "tokens", "sku", "watts", "why"),
    [
        (LLAMA, withheld("the run does not report tokens"), "A100-80GB", None, "does not report tokens"),
        ({}, Figure(1.0), "A100-80GB", None, "label params, such as 7b"),
        ({"params": "large"}, Figure(1.0), "A100-80GB", None, "'large', and not a number"),
        (LLAMA, Figure(1.0), None, None, "not of a single known model"),
        (LLAMA, Figure(1.0), "V100-32GB", None, "no 16-bit peak for V100-32GB"),
        (LLAMA, Figure(1.0), "H100-80GB", None, "an unknown power limit does not show"),
        (LLAMA, Figure(1.0), "H100-80GB", 350.0, "a power limit of 350 W does not show"),
        ({**LLAMA, "precision": "fp8"}, Figure(1.0), "A100-80GB", None, "its precision is 'fp8'"),
        (LLAMA, Figure(16_000.0), "L4-24GB", None, "it would be 555%"),
    ],
)
def test_what_is_not_known_is_told(
    labels: dict[str, str], tokens: Figure, sku: str | None, watts: float | None, why: str
) -> None:
    """n/a, because: who reads it can do something about it."""
    found = mfu(labels, tokens, 1, sku, watts)
    assert found.value is None
    assert why in (found.because or "")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("7b", 7 * 10**9),
        ("7e9", 7 * 10**9),
        ("1.3B", 1_300_000_000),
        ("350m", 350 * 10**6),
        ("6_738_415_616", 6_738_415_616),
        ("6738415616", 6_738_415_616),
        ("1.8t", 1_800 * 10**9),
    ],
)
def test_parameters_as_people_write_them(text: str, count: int) -> None:
    """A label is typed by hand."""
    assert parameters({"params": text}) == count


@pytest.mark.parametrize("text", ["", "seven", "-7b", "7", "7e99", "7bb", "1e9e9", "nan", "9" * 40])
def test_what_is_no_count_is_refused(text: str) -> None:
    """A slip of the pen would be a factor of a thousand."""
    assert isinstance(parameters({"params": text}), str)


def test_experts_that_a_token_meets_count() -> None:
    """Of a mixture of experts the other parameters do no arithmetic."""
    assert parameters({"params": "47b", "active_params": "13b"}) == 13 * 10**9


def test_nothing_is_guessed_from_a_name() -> None:
    """llama-7b may be distilled, frozen, or a joke."""
    assert isinstance(parameters({"model": "llama-7b"}), str)


def test_the_table_names_where_its_numbers_come_from() -> None:
    """Every peak has a source, and no SKU two."""
    assert len({board.sku for board in boards()}) == len(boards())
    assert all("NVIDIA" in board.source or "AMD" in board.source for board in boards())
    found = peak_of("H100-80GB", 700.0)
    assert not isinstance(found, str)
    assert found.flops == 989_400_000_000_000
    assert date.today().year >= 2025
