"""What the document shows is what people copy: it is read, and gives the figures that it tells."""

import re
from datetime import UTC, datetime
from pathlib import Path

from analyzer.prices.check import complaints
from analyzer.prices.price_book import PriceBook

DOCUMENT = Path(__file__).parents[3] / "docs" / "prices.md"


def test_the_examples_of_the_document_are_a_price_file(tmp_path: Path) -> None:
    """Each fenced example can be put into one file; the prices are those in the text beside them."""
    text = DOCUMENT.read_text("utf-8")
    (series,) = re.findall(r"```\n(time,.*?)```", text, re.DOTALL)
    (tmp_path / "spot-h100.csv").write_text(series)
    (tmp_path / "prices.toml").write_text("\n".join(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)))
    book = PriceBook.read(tmp_path / "prices.toml")
    moment = datetime(2026, 11, 9, tzinfo=UTC)
    at_us = int(moment.timestamp()) * 1_000_000
    reserved = book.price("H100-80GB", "reserved", at_us)
    assert reserved is not None
    assert reserved.micros_per_gpu_hour == 2_600_000
    told = [float(figure) for figure in re.findall(r"^      (?:\w+) +(0\.\d+)", text, re.MULTILINE)]
    assert [amount / 1e6 for _, amount in book.parts("A100-80GB", "owned", at_us)] == [
        float(f"{figure:.6f}") for figure in told
    ]
    assert (len(book.charges), [row.kind for row in book.beside.rows]) == (
        1,
        ["energy", "storage", "checkpoints", "host"],
    )
    kinds = {one.kind for one in complaints(book, [], moment.date())}
    assert kinds == {"gaps"}
