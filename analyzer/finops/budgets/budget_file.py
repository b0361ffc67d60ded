"""The budgets file: what a team, a project or the whole fleet may cost in a month.

[[budget]]
team = "team-vision"              # or project = "..."; neither: the whole fleet
usd_per_month = 55_000            # the key names the currency
from = 2026-01-01                 # the first day of a month of the site's clock
until = 2027-01-01                # optional, exclusive
source = "plan of 2026"
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from analyzer.errors import ConfigError
from analyzer.settings.settings import Settings
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import optional, read_rows, toml_file, toml_key

FLEET = "the whole fleet"


def _month(entry: TomlEntry, key: str) -> date:
    day = entry.day(key)
    if day.day != 1:
        raise ConfigError(f"{entry.where}: {key!r} must be the first day of a month, not {day}")
    return day


@dataclass(frozen=True, slots=True)
class Budget:
    """What one team, one project or (both None) the fleet may cost a month, in millionths, from a month to another."""

    team: str | None
    project: str | None
    micros_per_month: int = field(metadata=toml_key("{money}_per_month", read=TomlEntry.micros))
    starts: date = field(metadata=toml_key("from", read=_month))
    ends: date | None = field(metadata=toml_key("until", read=optional(_month)))
    source: str

    def __post_init__(self) -> None:
        if self.team is not None and self.project is not None:
            raise ValueError("a budget is of a 'team' or of a 'project', not of both")
        if self.ends is not None and self.ends <= self.starts:
            raise ValueError("'until' must be later than 'from'")

    @property
    def whose(self) -> tuple[str | None, str | None]:
        """Whom it binds: team and project."""
        return self.team, self.project

    @property
    def name(self) -> str:
        """What people call it."""
        return self.team or (f"project {self.project}" if self.project else FLEET)

    def covers(self, month: date) -> bool:
        """Say whether it holds in the month that begins on this day."""
        return self.starts <= month and (self.ends is None or month < self.ends)


@dataclass(frozen=True, slots=True)
class BudgetBook:
    """All budgets, in the file's order and the ledger's currency."""

    budgets: tuple[Budget, ...] = ()

    @classmethod
    def read(cls, path: Path, currency: str) -> "BudgetBook":
        """Read a budgets file.

        Raises:
            ConfigError: it cannot be read, a key is unknown, an amount is negative, or two budgets bind one at once.
        """
        with toml_file(path, ("budget",)) as (file, mistakes):
            budgets = read_rows(file, "budget", Budget, mistakes, currency.lower())
            with mistakes.gathered():
                _refuse_overlaps(path.name, budgets)
        return cls(budgets)

    def of(self, month: date) -> tuple[Budget, ...]:
        """Return the budgets of the month that begins on this day."""
        return tuple(budget for budget in self.budgets if budget.covers(month))


def refuse_unbound(month: str, currency: str, budgets: Sequence[object | None]) -> None:
    """Refuse to check a month that no budget binds: what nobody wrote down would hold for ever.

    Raises:
        ConfigError: no budget holds in it; the sentence says how one is written.
    """
    if not any(budgets):
        raise ConfigError(
            f"no budget holds in {month}, so there is nothing to check: let `budgets` of [analyzer] name a file with "
            '[[budget]], its team = "...", '
            f'{currency.lower()}_per_month = 55_000, from = 2026-01-01 and source = "..." (docs/budgets.md)'
        )


def _refuse_overlaps(where: str, budgets: Sequence[Budget]) -> None:
    for number, one in enumerate(budgets):
        for other in budgets[:number]:
            if one.whose == other.whose and (one.covers(other.starts) or other.covers(one.starts)):
                raise ConfigError(f"{where}: two budgets of {one.name} for the same month; end one with 'until'")


def budget_book(settings: Settings) -> BudgetBook:
    """Read the budgets file of a site's settings, in the ledger's currency; without one, nobody has a budget.

    Raises:
        ConfigError: the file cannot be read.
    """
    return BudgetBook() if settings.budgets is None else BudgetBook.read(settings.budgets, settings.currency)
