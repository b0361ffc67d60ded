"""Which part of the ledger is meant: the runs of a team, a project, a person. What is given only narrows."""

from dataclasses import dataclass, fields, replace
from shlex import quote

from analyzer.errors import ConfigError
from analyzer.queries.dimensions import COLUMNS
from analyzer.text.words import plain
from collector.store.session import literal


@dataclass(frozen=True, slots=True)
class LedgerFilter:
    """Runs with all of these, as the ledger names them; None is any. What nobody held is in no part but the whole.

    `teams` are those that whoever asks may see, where not all: what is asked for narrows further, and never beyond.
    """

    team: str | None = None
    project: str | None = None
    user: str | None = None
    model: str | None = None
    stage: str | None = None
    queue: str | None = None
    teams: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, value in self.given.items():
            if not value or "\0" in value:
                raise ConfigError(f"{value!r} is no {name}")

    def __bool__(self) -> bool:
        """Whether it is less than the whole ledger."""
        return bool(self.given) or self.teams is not None

    @property
    def given(self) -> dict[str, str]:
        """What is asked for, by name."""
        return {name: value for name in FILTERS if (value := getattr(self, name)) is not None}

    @property
    def asked(self) -> "LedgerFilter":
        """The same as a request can say it: without what may be seen."""
        return replace(self, teams=None)

    @property
    def words(self) -> str:
        """Return "team nlp, project asr" for people; the teams that may be seen where none of them is asked for."""
        words = [f"{name} {plain(value)}" for name, value in self.given.items()]
        if self.teams is not None and self.team is None:
            words = [f"team{'s' * (len(self.teams) != 1)} {' and '.join(map(plain, self.teams))}", *words]
        return ", ".join(words)

    @property
    def options(self) -> str:
        """Return it as a command takes it, with a space before each, for lines that say what to ask next."""
        return "".join(f" --{name} {quote(plain(value))}" for name, value in self.given.items())

    @property
    def is_of_teams(self) -> bool:
        """Whether nothing but teams narrows it."""
        return set(self.given) <= {"team"}

    @property
    def condition(self) -> str:
        """Return what chooses them of `r`, which has the columns of runs: a view takes no parameters."""
        seen = [f"r.team IN ({', '.join(map(literal, self.teams))})" if self.teams else "false"] * (
            self.teams is not None
        )
        asked = [f"{COLUMNS[name][0].replace('l.', 'r.')} = {literal(value)}" for name, value in self.given.items()]
        return " AND ".join([*seen, *asked]) or "true"


FILTERS = tuple(field.name for field in fields(LedgerFilter) if field.name != "teams")
WHOLE = LedgerFilter()
