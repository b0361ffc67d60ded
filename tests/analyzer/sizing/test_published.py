"""Our figures beside published ones: every cell is shown, and where ours lies elsewhere the reason is told."""

from pathlib import Path

import pytest

from analyzer.sizing.model import known_models
from tests.analyzer.sizing.published import CELLS, Cell, table

PAGE = Path(__file__).parents[3] / "docs" / "model-sizes.md"


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.task} {cell.size}")
def test_every_published_cell_is_met_in_part(cell: Cell) -> None:
    """Ranges of rules of thumb and of a formula need not be the same; that they do not even touch would be a fault."""
    assert cell.overlaps


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.task} {cell.size}")
def test_what_lies_outside_says_why(cell: Cell) -> None:
    """And what lies inside needs no reason."""
    assert bool(cell.why) != cell.is_inside


def test_training_all_of_70b_takes_several_nodes() -> None:
    """As published."""
    assert CELLS[-1].nodes() > 1


def _section(text: str, name: str) -> tuple[str, str, str]:
    head, rest = text.split(f"<!-- {name} -->\n", 1)
    told, tail = rest.split("<!-- end -->", 1)
    return head, told, tail


@pytest.mark.parametrize("name", ["published", "models"])
def test_the_page_shows_what_the_code_gives(name: str, request: pytest.FixtureRequest) -> None:
    """pytest tests/sizing --update-golden writes it anew."""
    wanted = table() if name == "published" else _models()
    head, told, tail = _section(PAGE.read_text("utf-8"), name)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(f"{head}<!-- {name} -->\n{wanted}<!-- end -->{tail}", "utf-8")
        told = wanted
    assert told == wanted


def _models() -> str:
    lines = [
        "| model | parameters, bn | active, bn | layers | heads, of them key/value | read in |",
        "|---|---|---|---|---|---|",
    ]
    for model in known_models():
        shape = model.shape
        assert shape is not None
        active = f"{shape.active_parameters / 1e9:.2f}" if shape.experts > 1 else ""
        heads = f"{shape.heads}, {shape.key_value_heads}"
        lines.append(
            f"| `{model.name}` | {model.parameters / 1e9:.2f} | {active} | {shape.layers} | {heads} | {model.source} |"
        )
    return "\n".join(lines) + "\n"
