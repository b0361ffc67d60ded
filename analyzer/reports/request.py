"""What can be asked of a ledger: one reading, of whom, of when, and in which form. /v1/read takes the same words."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal, get_args

from analyzer.errors import ConfigError
from analyzer.reports.part import FILTERS, Part
from analyzer.states import Confidence

What = Literal[
    "week",
    "run",
    "traffic",
    "findings",
    "explain",
    "recommend",
    "show",
    "savings",
    "compare",
    "month",
    "budgets",
    "units",
    "anomalies",
    "demand",
    "portfolio",
    "charges",
    "costs",
    "prices",
    "prices-check",
    "top",
    "history",
    "nodes",
]
Format = Literal["text", "json", "html", "markdown", "svg", "csv", "slurm", "kubernetes"]
Order = Literal["cost", "avoidable", "gpus", "busy"]
By = Literal["team", "cost-centre", "user", "project", "model", "stage", "queue", "node-group", "run"]
# Forms that only some readings have.
OF_SOME: Mapping[str, tuple[What, ...]] = {
    "csv": ("recommend", "charges"),
    "slurm": ("show",),
    "kubernetes": ("show",),
}


@dataclass(frozen=True, slots=True)
class Request:
    """One reading: what, of whom, of when, and how it is written."""

    what: What
    subject: str | None = (
        None  # of run, explain and show; a team, of traffic; a host, of top; a name, of history; a SKU, of prices
    )
    since: str | None = None
    until: str | None = None
    format: Format = "text"
    width: int = 80
    ascii: bool = False
    top: int | None = None
    everything: bool = False
    traffic: bool = False  # of a run: the whole matrix
    sure: str | None = None  # of findings: high, medium or low
    unjudged: bool = False  # of findings: instead, the rules that lacked a signal
    other: str | None = None  # of compare: the second run
    at: str | None = None  # of compare: the moment, where the subject is a name
    order: Order = "cost"  # of top: which lines come first
    by: By | None = None  # of charges: who bears them; of week and month: what the second table is by
    gpus: int | None = None  # of history: of runs with so many; none where it is left out
    sku: str | None = None  # of history: of runs on this kind of GPU, where they were on several
    team: str | None = None  # these six: which part of the ledger, of the readings that can be of one
    project: str | None = None
    user: str | None = None
    model: str | None = None
    stage: str | None = None
    queue: str | None = None

    @property
    def part(self) -> Part:
        """Which part of the ledger is meant.

        Raises:
            ConfigError: a name is none.
        """
        return Part(**{name: getattr(self, name) for name in FILTERS})

    def check_form(self) -> None:
        """See that this reading has the form that is asked for.

        Raises:
            ConfigError: only others have.
        """
        if self.what not in (having := OF_SOME.get(self.format, (self.what,))):
            raise ConfigError(f"{self.format} is a form of {' and '.join(having)} alone, not of {self.what}")

    def of_part(self, part: Part) -> "Request":
        """Return the same of a part of the ledger."""
        return replace(self, **part.given)  # type: ignore[arg-type]  # the names of a part are fields here, too

    def query(self) -> dict[str, str]:
        """Return it as the parameters of /v1/read."""
        return {name: str(value) for name, value in asdict(self).items() if value not in (None, False)}

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Request":
        """Return the request that the parameters of /v1/read make.

        Raises:
            ConfigError: a parameter is unknown or has a value that cannot be.
        """
        known = {each.name for each in fields(cls)}
        if unknown := set(query) - known:
            raise ConfigError(f"there is no parameter {min(unknown)!r}; known are {', '.join(sorted(known))}")
        what, form = query.get("what", ""), query.get("format", "text")
        if what not in get_args(What) or form not in get_args(Format):
            raise ConfigError(
                f"what is one of {', '.join(get_args(What))}; format one of {', '.join(get_args(Format))}"
            )
        return cls(
            what,  # type: ignore[arg-type]
            query.get("subject"),
            query.get("since"),
            query.get("until"),
            form,  # type: ignore[arg-type]
            _count(query, "width") or 80,
            query.get("ascii") == "True",
            _count(query, "top"),
            query.get("everything") == "True",
            query.get("traffic") == "True",
            _sure(query.get("sure")),
            query.get("unjudged") == "True",
            query.get("other"),
            query.get("at"),
            _order(query.get("order", "cost")),
            _by(query.get("by")),
            _count(query, "gpus"),
            query.get("sku"),
            **{name: query.get(name) for name in FILTERS},
        )


def _order(word: str) -> Order:
    if word not in get_args(Order):
        raise ConfigError(f"order is one of {', '.join(get_args(Order))}, not {word!r}")
    return word  # type: ignore[return-value]


def _sure(word: str | None) -> str | None:
    if word not in (None, *get_args(Confidence)):
        raise ConfigError(f"sure is one of {', '.join(get_args(Confidence))}, not {word!r}")
    return word


def _by(word: str | None) -> By | None:
    if word not in (None, *get_args(By)):
        raise ConfigError(f"by is one of {', '.join(get_args(By))}, not {word!r}")
    return word  # type: ignore[return-value]  # as has just been seen


def _count(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isdecimal() or not 0 < int(text) <= 10_000:
        raise ConfigError(f"{name} is {text!r}: not a number from 1 to 10000")
    return int(text)
