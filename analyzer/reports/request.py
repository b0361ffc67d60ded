"""What can be asked of a ledger: one reading, of whom, of when, and in which form. /v1/read takes the same words."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

from analyzer.errors import ConfigError
from analyzer.reports.part import FILTERS, Part

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
