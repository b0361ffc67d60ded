"""The report of one run, ended or still running: exact and unrounded. Pure data; renderers stand apart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from analyzer.errors import LedgerError
from analyzer.findings.explain.ruled_out import RuledOut
from analyzer.findings.finding import Finding
from analyzer.ledger.causes.stages.stage import header
from analyzer.ledger.coverage import NotJudged, held_span, not_judged
from analyzer.ledger.timeline import Point
from analyzer.measures.efficiency.of_run import Efficiency, Subject, efficiency
from analyzer.measures.efficiency.steps import StepTime
from analyzer.measures.traffic.run_traffic import RunTraffic
from analyzer.period import Period
from analyzer.queries.ledger_query import Breakdown, breakdown
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.run_before import EarlierRun, earlier_runs
from analyzer.reports.run_energy import RunEnergy
from analyzer.reports.week import by_saving
from collector.store.session import Session

SPARK_POINTS = 56
FINDINGS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run beside the ledger. Times are microseconds UTC; `ended_at` is None while it runs."""

    run_id: str
    name: str | None
    team: str | None
    stage: str | None
    stage_confidence: str | None
    stage_reason: str | None
    queue: str | None
    exit_status: str | None
    submitted_at: int | None
    started_at: int | None
    ended_at: int | None
    gpus: int
    sku: str | None
    attempts: int

    @property
    def stage_words(self) -> str | None:
        """The stage and by what it is known: "fine-tuning (by its queue)"; a guess has a question mark."""
        return header(self.stage, self.stage_confidence, self.stage_reason)

    @property
    def subject(self) -> str:
        """What people call it: its name, else the last part of its id."""
        return self.name or self.run_id.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class RunReport:
    """Where one run's GPU time went. `steps` and `tokens` are its own word, `limit_at` the end its scheduler allows.

    `efficiency` is None for a run that makes no steps towards a model: a service, a notebook.
    """

    facts: RunFacts
    timezone: str
    currency: str
    span: Period
    nodes: tuple[str, ...]
    racks: tuple[str, ...]
    purchase_options: tuple[str, ...]
    breakdown: Breakdown
    timeline: tuple[Point, ...]
    findings: tuple[Finding, ...]
    recommendations: tuple[Recommendation, ...]
    not_judged: tuple[NotJudged, ...]
    steps: int | None
    tokens: int | None
    limit_at: int | None
    traffic: RunTraffic | None = None  # of a run of several hosts, or where it was asked for
    efficiency: Efficiency | None = None
    earlier: tuple[EarlierRun, ...] = ()  # the last of its name, newest first
    energy: RunEnergy | None = None  # where it was asked for, and its GPUs told it
    ruled_out: Mapping[str, tuple[RuledOut, ...]] = field(default_factory=dict)  # by finding, of those that are shown
    page: str | None = None  # where its page is, of a site that has pages

    @property
    def running(self) -> bool:
        """Whether it still ran at the newest hour known."""
        return self.facts.ended_at is None


def run_facts(session: Session, run_id: str) -> RunFacts:
    """Return what is known of a run beside the ledger."""
    row = session.row(
        "SELECT run_id, name, team, stage, stage_confidence, stage_reason, queue, exit_status, submitted_at, "
        "started_at, ended_at, gpus, sku, attempts FROM runs WHERE run_id = ?",
        [run_id],
    )
    return RunFacts(*row)


def run_names(session: Session, run_ids: Iterable[str]) -> dict[str, str]:
    """Return what people call these runs, by id; those without a name, and what is no run, are left out."""
    rows = session.rows(
        "SELECT run_id, name FROM runs WHERE name IS NOT NULL AND run_id IN (SELECT unnest(?))", [sorted(run_ids)]
    )
    return dict(rows)


def page_of(site_url: str, run_id: str) -> str | None:
    """Return where a run's page is; None of a site that has not said where its pages are."""
    return f"{site_url}/runs/{quote(run_id)}" if site_url else None


def run_span(session: Session, run_id: str, timezone: str) -> Period:
    """Return the ledger's hours of a run.

    Raises:
        LedgerError: the ledger has no hour of it.
    """
    if (held := held_span(session, [run_id])) is None:
        raise LedgerError(f"the ledger has no GPU time of {run_id}: it waited, or its hours are not analysed yet")
    return Period(*held, run_id, timezone)


def run_report(
    session: Session,
    facts: RunFacts,
    span: Period,
    currency: str,
    findings: Sequence[Finding],
    recommendations: Sequence[Recommendation],
    timeline: Sequence[Point],
    step_log: StepTime | None = None,
    *,
    with_efficiency: bool = True,
) -> RunReport:
    """Read the ledger of one run. `step_log` is the step time that a log of it told, where somebody named one.

    Efficiency looks beyond the ledger and takes as long as all the rest: who shows none leaves it out.
    """
    run_id = facts.run_id
    own = [finding for finding in findings if run_id in finding.run_ids and not finding.suspicion]
    ids = {finding.id for finding in own}
    places = session.rows(
        "SELECT DISTINCT ledger.node, rack FROM ledger LEFT JOIN (SELECT node, arg_max(rack, started_at) AS rack FROM "
        "inventory WHERE gpu_uuid IS NULL AND rack IS NOT NULL GROUP BY node) AS host ON host.node = ledger.node "
        "WHERE run_id = ? ORDER BY ledger.node",
        [run_id],
    )
    options = session.rows(
        "SELECT DISTINCT purchase_option FROM ledger WHERE run_id = ? AND purchase_option IS NOT NULL ORDER BY ALL",
        [run_id],
    )
    return RunReport(
        facts,
        span.timezone,
        currency,
        span,
        tuple(node for node, _ in places),
        tuple(sorted({rack for _, rack in places if rack})),
        tuple(option for (option,) in options),
        breakdown(session, span, run_id),
        tuple(timeline),
        tuple(own),
        by_saving([advice for advice in recommendations if ids & set(advice.finding_ids)]),
        not_judged(session, span, run_id),
        *_said(session, run_id),
        _limit(session, run_id) if facts.ended_at is None else None,
        efficiency=efficiency(session, _subject(facts, span), step_log) if with_efficiency else None,
        earlier=earlier_runs(session, facts.name, facts.team, facts.started_at),
    )


def _subject(facts: RunFacts, span: Period) -> Subject:
    whole = (span.start, span.end, facts.submitted_at, facts.started_at, facts.ended_at)
    return Subject(facts.run_id, facts.name, facts.stage, facts.gpus, facts.sku, *whole)


def _said(session: Session, run_id: str) -> tuple[int | None, int | None]:
    steps, tokens = session.row("SELECT sum(steps), sum(tokens) FROM progress_amounts WHERE run_id = ?", [run_id])
    return steps, tokens


def _limit(session: Session, run_id: str) -> int | None:
    limit: int | None = session.row(
        "SELECT max(started_at + CAST(time_limit_seconds * 1000000 AS BIGINT)) FROM allocations WHERE run_id = ?",
        [run_id],
    )[0]
    return limit


def worth_showing(report: RunReport) -> tuple[Finding, ...]:
    """Return the findings that are a hundredth of the run or more, at most three; the largest in any case."""
    least = report.breakdown.milliseconds // 100
    large = [finding for finding in report.findings if finding.milliseconds >= least]
    return tuple(large[:FINDINGS_SHOWN]) or report.findings[:1]
