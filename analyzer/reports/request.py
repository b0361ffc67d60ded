"""What is asked of a ledger: one question, of which runs, of when, and in which form. /v1/read takes the same words."""

from dataclasses import asdict, dataclass, field, fields, replace
from shlex import quote
from typing import Any, Literal

from analyzer.errors import ConfigError
from analyzer.queries.ledger_query import COLUMNS
from analyzer.states import Confidence
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
                raise ConfigError(f"{value!r} is not a valid {name}")

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


Format = Literal["text", "json", "html", "markdown", "svg", "csv", "slurm", "kubernetes", "line"]
Order = Literal["cost", "avoidable", "gpus", "busy"]
By = Literal["team", "cost-centre", "user", "project", "model", "stage", "queue", "node-group", "run"]
WIDTH = 80  # of a paper whose width nobody said


def _about(about: str, least: int = 1) -> dict[str, Any]:
    """Return what a field says of itself: `about` in the document of /v1/read; a number is at least `least`."""
    return {"about": about, "least": least}


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a ledger, and how its answer is written. `what` is the name of a question of the registry."""

    what: str
    subject: str | None = field(
        default=None,
        metadata=_about(
            "Of run, explain, show, compare; the team of traffic, host of top, job of history, SKU of prices."
        ),
    )
    since: str | None = None
    until: str | None = None
    format: Format = "text"
    width: int = field(default=WIDTH, metadata=_about(""))
    ascii: bool = False
    top: int | None = field(default=None, metadata=_about("Maximum number of rows."))
    everything: bool = field(
        default=False,
        metadata=_about("Also list suspicions and muted findings, and recommendations held back by a guard."),
    )
    traffic: bool = field(default=False, metadata=_about("Of a run: the whole matrix of who sent how much to whom."))
    sure: Confidence | None = field(default=None, metadata=_about("Of findings: only those of this confidence."))
    unjudged: bool = field(default=False, metadata=_about("Of findings: list rules with insufficient data instead."))
    other: str | None = field(default=None, metadata=_about("Of compare: the second run."))
    at: str | None = field(default=None, metadata=_about("Of compare: the moment, where the subject is a name."))
    order: Order = field(default="cost", metadata=_about("Of runs and top: the sort order."))
    by: By | None = field(
        default=None,
        metadata=_about(
            "Of charges: who bears them; of week and month: the grouping of the second table. Default: team."
        ),
    )
    team: str | None = field(
        default=None, metadata=_about("Of week, findings, explain, recommend and show: only this team's runs.")
    )
    project: str | None = field(default=None, metadata=_about("The same, of a project. All given filters must match."))
    user: str | None = field(default=None, metadata=_about("The same, of a user; only for keys that may see users."))
    model: str | None = field(default=None, metadata=_about("The same, of a model."))
    stage: str | None = field(default=None, metadata=_about("The same, of a kind of work."))
    queue: str | None = field(default=None, metadata=_about("The same, of a queue."))
    gpus: int | None = field(
        default=None,
        metadata=_about("Of history: runs with this number of GPUs; default: runs without GPUs.", least=0),
    )
    sku: str | None = field(
        default=None,
        metadata=_about("Of history: runs on this kind of GPU; optional where they ran on only one kind."),
    )

    @property
    def part(self) -> LedgerFilter:
        """Which part of the ledger is meant.

        Raises:
            ConfigError: a name is none.
        """
        return LedgerFilter(**{name: getattr(self, name) for name in FILTERS})

    def query(self) -> dict[str, str]:
        """Return it as the parameters of /v1/read."""
        return {name: str(value) for name, value in asdict(self).items() if value not in (None, False)}
