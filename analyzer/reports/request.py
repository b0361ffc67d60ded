"""What is asked of a ledger: one question, of whom, of when, and in which form. /v1/read takes the same words."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from analyzer.reports.ledger_filter import FILTERS, LedgerFilter
from analyzer.states import Confidence

Format = Literal["text", "json", "html", "markdown", "svg", "csv", "slurm", "kubernetes"]
Order = Literal["cost", "avoidable", "gpus", "busy"]
By = Literal["team", "cost-centre", "user", "project", "model", "stage", "queue", "node-group", "run"]
COLUMNS = 80  # of a paper whose width nobody said


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
    width: int = field(default=COLUMNS, metadata=_about(""))
    ascii: bool = False
    top: int | None = field(default=None, metadata=_about("Maximum number of rows."))
    everything: bool = field(
        default=False, metadata=_about("List suspicions and muted ones too; what a guard holds back.")
    )
    traffic: bool = field(default=False, metadata=_about("Of a run: the whole matrix of who sent how much to whom."))
    sure: Confidence | None = field(default=None, metadata=_about("Of findings: those of this confidence alone."))
    unjudged: bool = field(default=False, metadata=_about("Of findings: instead, the rules that lacked a signal."))
    other: str | None = field(default=None, metadata=_about("Of compare: the second run."))
    at: str | None = field(default=None, metadata=_about("Of compare: the moment, where the subject is a name."))
    order: Order = field(default="cost", metadata=_about("Of runs and top: which lines come first."))
    by: By | None = field(
        default=None,
        metadata=_about("Of charges: who bears them; of week and month: what the second table is by. Else the team."),
    )
    team: str | None = field(
        default=None, metadata=_about("Of week, findings, explain, recommend and show: of this team's runs alone.")
    )
    project: str | None = field(default=None, metadata=_about("The same, of a project. All that is given must fit."))
    user: str | None = field(default=None, metadata=_about("The same, of a person; for who may know who spent it."))
    model: str | None = field(default=None, metadata=_about("The same, of a model."))
    stage: str | None = field(default=None, metadata=_about("The same, of a kind of work."))
    queue: str | None = field(default=None, metadata=_about("The same, of a queue."))
    gpus: int | None = field(
        default=None,
        metadata=_about("Of history: of runs with so many GPUs; of runs without any where it is left out.", least=0),
    )
    sku: str | None = field(
        default=None,
        metadata=_about("Of history: of runs on this kind of GPU; may be left out where they were on one alone."),
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
