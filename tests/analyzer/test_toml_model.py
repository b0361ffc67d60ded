"""A table of a TOML file is declared once, and whoever mends a file is told all of its mistakes at once."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.finops.budgets.month import BudgetBook
from analyzer.prices.price_book import PriceBook
from analyzer.settings.settings import Settings
from analyzer.settings.toml_model import fixed, keys_of, read_rows, since, toml_file, toml_key


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file that does not exist."""

    kind: str = field(metadata=fixed("row"))
    team: str
    starts_at: int = field(metadata=since())
    least: int = field(metadata=toml_key("at_least"))
    note: str | None = None

    def __post_init__(self) -> None:
        if self.least > 9:
            raise ValueError("'at_least' is at most 9")


def rows(tmp_path: Path, text: str) -> tuple[Row, ...]:
    """Return the rows of a file with this text."""
    path = tmp_path / "rows.toml"
    path.write_text(text)
    with toml_file(path, ("row",)) as (file, mistakes):
        return read_rows(file, "row", Row, mistakes)


def test_a_row_is_what_its_dataclass_says(tmp_path: Path) -> None:
    """What no key says is not read of the file, and what may be left out has its default."""
    assert keys_of(Row) == ["team", "from", "at_least", "note"]
    found = rows(tmp_path, '[[row]]\nteam = "a"\nfrom = 1970-01-01\nat_least = 3\n')
    assert found == (Row("row", "a", 0, 3),)


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    """Each names its row, its key, what stands there, and the key that was meant."""
    with pytest.raises(ConfigError) as caught:
        rows(tmp_path, '[[row]]\ntaem = "a"\nfrom = 1970-01-01\nat_least = "3"\n[[row]]\nteam = "b"\n[row.from]\n')
    told = [line.removeprefix(f"{tmp_path}/") for line in str(caught.value).split(";\n")]
    assert told == [
        "rows.toml, row 1: unknown key 'taem'; did you mean 'team'?",
        "rows.toml, row 1: 'team' is missing",
        "rows.toml, row 1: 'at_least' must be a whole number, not \"3\"",
        "rows.toml, row 2: 'from' must be a date or a time with its offset, such as 2026-11-01 or"
        " 2026-11-01T00:00:00+01:00, not {}",
        "rows.toml, row 2: 'at_least' must be a whole number; it is missing",
    ]


def test_of_many_mistakes_the_first_are_told(tmp_path: Path) -> None:
    """A file of the wrong kind does not make a message as long as itself, nor a search for the nearest of each key."""
    many = "".join(f"wrong{number} = 1\n" for number in range(1000))
    with pytest.raises(ConfigError) as caught:
        rows(tmp_path, f"[[row]]\n{many}" * 40)
    lines = str(caught.value).split(";\n")
    assert len(lines) < 500
    assert lines[-1] == "there may be more"


def test_what_fields_are_to_one_another_is_told_of_the_row(tmp_path: Path) -> None:
    """The dataclass says what contradicts itself; the reader says where."""
    with pytest.raises(ConfigError, match="row 1: 'at_least' is at most 9"):
        rows(tmp_path, '[[row]]\nteam = "a"\nfrom = 1970-01-01\nat_least = 10\n')


def test_a_price_file_tells_all_of_its_mistakes(tmp_path: Path) -> None:
    """A contract is typed once, and not mended five times."""
    text = '[[price]]\nsku = 3\n[[charge]]\nteam = "a"\nusd_per_gpu_hour = -1\nfrom = 2026-01-01\n[[energy]]\npue = 9\n'
    with pytest.raises(ConfigError) as caught:
        PriceBook.parse("prices.toml", text.encode())
    for words in ("price 1: 'sku' must be a text", "charge 1: 'usd_per_gpu_hour'", "energy 1: 'pue' must be 1 to 3"):
        assert words in str(caught.value)


def test_settings_and_budgets_tell_all_of_theirs(tmp_path: Path) -> None:
    """The same helper reads them."""
    path = tmp_path / "gpuledger.toml"
    path.write_text('[analyzer]\ncluster = 3\nthreads = "two"\n')
    with pytest.raises(ConfigError, match=r"(?s)'cluster' must be a text.*'threads' must be a whole number"):
        Settings.read(path, {})
    path.write_text('[[budget]]\nteam = "a"\nusd_per_month = 1\nfrom = 2026-01-02\n')
    with pytest.raises(ConfigError, match=r"(?s)'from' must be the first day of a month.*'source' is missing"):
        BudgetBook.read(path, "USD")
