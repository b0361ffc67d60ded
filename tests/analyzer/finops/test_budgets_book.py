"""The budgets file: what is wrong with it is said in a sentence, before a month is judged by it."""

from datetime import date
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.finops.budgets.month import BudgetBook

GOOD = """
[[budget]]
team = "team-vision"
usd_per_month = 55_000
from = 2026-01-01
until = 2027-01-01
source = "plan of 2026"

[[budget]]
usd_per_month = 300_000.50
from = 2026-06-01
source = "board"
"""


def read(tmp_path: Path, text: str) -> BudgetBook:
    """Read a file of this text."""
    (tmp_path / "budgets.toml").write_text(text)
    return BudgetBook.read(tmp_path / "budgets.toml", "USD")


def test_a_budget_holds_from_its_month_until_the_other(tmp_path: Path) -> None:
    """A budget of last year must not bind this one."""
    book = read(tmp_path, GOOD)
    assert [budget.name for budget in book.of(date(2026, 5, 1))] == ["team-vision"]
    assert [budget.micros_per_month for budget in book.of(date(2026, 12, 1))] == [55_000_000_000, 300_000_500_000]
    assert [budget.name for budget in book.of(date(2027, 1, 1))] == ["the whole fleet"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("usd_per_month = -1", "0 or more"),
        ("usd_per_month = nan", "0 or more"),
        ("usd_per_month = 1e400", "more than a trillion"),
        ("eur_per_month = 5", "unknown key 'eur_per_month'; it may have"),
        ('usd_per_month = "5"', "a number such as"),
        ("usd_per_month = 1\nproject = 'x'", "not of both"),
        ("usd_per_month = 1\nuntil = 2025-01-01", "later than 'from'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, wrong: str, said: str) -> None:
    """A negative or misspelled budget would make everybody over it, or nobody."""
    with pytest.raises(ConfigError, match=said):
        read(tmp_path, f'[[budget]]\nteam = "a"\nfrom = 2026-01-01\nsource = "s"\n{wrong}\n')


def test_a_budget_begins_with_a_month(tmp_path: Path) -> None:
    """Half a month's budget would have to be guessed."""
    with pytest.raises(ConfigError, match="first day of a month"):
        read(tmp_path, '[[budget]]\nteam = "a"\nusd_per_month = 1\nfrom = 2026-01-15\nsource = "s"\n')


def test_two_budgets_of_one_team_do_not_overlap(tmp_path: Path) -> None:
    """Which of them binds would depend on the order of lines."""
    with pytest.raises(ConfigError, match=r"two budgets of team-vision"):
        read(tmp_path, GOOD + '[[budget]]\nteam = "team-vision"\nusd_per_month = 1\nfrom = 2026-12-01\nsource = "s"\n')
