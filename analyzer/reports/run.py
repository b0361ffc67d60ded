"""One run, ended or still running, as one document: exact and unrounded. Commands, /v1 and pages show this one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pydantic import Field, computed_field

from agent.wire.units import MICROS
from analyzer.findings.argue import RuledOut
from analyzer.findings.finding import Finding, FindingDocument
from analyzer.finops.non_gpu_costs.costs import energy_of, read_drawn
from analyzer.finops.non_gpu_costs.energy import BY_POWER, MILLIJOULES_PER_KWH, Rates, summed_energy
from analyzer.ledger.causes.stages import header
from analyzer.ledger.coverage import Hours, NotJudged, TimelinePoint, held_span, known_hours, no_hours, not_judged
from analyzer.measures.efficiency.efficiency_query import Efficiency, Subject, efficiency
from analyzer.measures.efficiency.steps import StepTime
from analyzer.measures.traffic.run_traffic import RunTraffic
from analyzer.period import Period
from analyzer.queries.ledger_query import Breakdown, Unpriced, fold, ledger_sums, priced_parts, unpriced
from analyzer.recommendations.lifecycle.work import Work, works_of_runs
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.document import (
    VERSION,
    Amounts,
    Document,
    Entry,
    Iso,
    Listing,
    Micros,
    Model,
    Span,
    entries,
    iso_or_none,
)
from analyzer.reports.week import by_saving
from analyzer.settings.settings import Settings
from analyzer.text.words import decimal, nearest
from collector.store.session import Session

SPARK_POINTS = 56
FINDINGS_SHOWN = 3
_EARLIER_SHOWN = 2
_MILLIGRAMS_PER_KG = 1_000_000
_NEARLY_ALL_PERMILLE = 990  # of its GPU time; where less was measured, the figure is the least that it can be
_COLUMNS = (
    "run_id, name, team, cost_centre, project, model, queue, stage, stage_confidence, stage_reason, exit_status, "
    "submitted_at, started_at, ended_at, gpus, nodes, racks, sku, attempts"
)


class RunFacts(Model):
    """What is known of a run beside the ledger. `team` null is unmapped; times that have not come are null."""

    run_id: str
    name: str | None
    team: str | None
    cost_centre: str | None
    project: str | None
    model: str | None = Field(description="By a rule, else its label, else its server; null: no model is named.")
    queue: str | None
    stage: str | None = Field(description="By its names first; where they say nothing, by what it did.")
    stage_confidence: str | None = Field(description="high: a label or its own service; medium: a name; else low.")
    stage_reason: str | None = Field(description="How the stage is known: words that follow it.")
    exit_status: str | None
    submitted_at: Micros | None
    started_at: Micros | None
    ended_at: Micros | None
    gpus: int
    nodes: int
    racks: int | None
    sku: str | None
    attempts: int

    @computed_field(description="What people call it: its name, else the last part of its id.")  # type: ignore[prop-decorator]
    @property
    def subject(self) -> str:
        """What people call it."""
        return self.name or self.run_id.rsplit("/", 1)[-1]

    @computed_field(description="Whether it is running.")  # type: ignore[prop-decorator]
    @property
    def running(self) -> bool:
        """Whether it has begun and not ended, as far as the ledger knows."""
        return self.started_at is not None and self.ended_at is None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def submitted_at_iso(self) -> Iso | None:
        """When it was submitted."""
        return iso_or_none(self.submitted_at)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def started_at_iso(self) -> Iso | None:
        """When it began."""
        return iso_or_none(self.started_at)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ended_at_iso(self) -> Iso | None:
        """When it ended."""
        return iso_or_none(self.ended_at)

    @property
    def stage_words(self) -> str | None:
        """The stage and by what it is known: "fine-tuning (by its queue)"; a guess has a question mark."""
        return header(self.stage, self.stage_confidence, self.stage_reason)


class RunPage(Listing):
    """Runs, newest first. `period` is null where none was asked for."""

    period: Span | None
    items: list[RunFacts]


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run of the same name before. Tokens are its own word; its cost is None where some of its time has no price."""

    run_id: str
    milliseconds: int
    cost_micros: int | None
    tokens: int | None

    @property
    def micros_per_million_tokens(self) -> int | None:
        """What a million of its tokens cost; None where either is not known."""
        return nearest(self.cost_micros * MICROS, self.tokens) if self.cost_micros and self.tokens else None


@dataclass(frozen=True, slots=True)
class RunEnergy:
    """Millijoules at the GPUs by their own counters and for how long that is known; with cooling and losses; carbon.

    For `power_ms` of that time it is the trapezoid of their power: no counter told it.

    It is beside the run's price, which has power in it already. Facility and carbon are None where the price file has
    no row that says them. Hosts, network and disks are in none.
    """

    gpu_millijoules: int
    measured_ms: int
    facility_millijoules: int | None
    carbon_milligrams: int | None
    power_ms: int = 0


@dataclass(frozen=True, slots=True)
class SharedTime:
    """GPU time of a run on GPUs on which others computed too, and what the ledger gives those of the same hours.

    The latter is 0 where their drivers do not tell processes apart.
    """

    milliseconds: int
    others_milliseconds: int


@dataclass(frozen=True, slots=True)
class RunService:
    """What a service said that it did, in the hours of its run whose amounts are kept. None is not reported, never 0.

    The P99 of the time to the first token is of its intervals: in the median, and in the worst twentieth of them; None
    also where it is beyond the engine's last bucket, as it is in `beyond_ratio` of them. So is that of the time from
    one token to the next. `tokens_cached` are those of `tokens_in` that were not computed. `cost_micros` is of these
    hours; None where a part has no price.
    """

    engine: str | None
    requests: int | None
    requests_failed: int | None
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    seconds: float
    cost_micros: int | None
    slo_seconds: float | None
    kept_ratio: float | None
    first_token_p99_seconds: float | None
    first_token_worst_seconds: float | None
    beyond_ratio: float | None
    inter_token_p99_seconds: float | None
    inter_token_worst_seconds: float | None
    inter_token_beyond_ratio: float | None


class RunDocument(Document):
    """Where one run's GPU time went. `period` is null, and nothing was spent, while the ledger has no hour of it.

    `steps` and `tokens` are its own word, `limit_at` the end its scheduler allows. `efficiency`, `traffic` and `energy`
    look beyond the ledger: /v1 leaves them null unless it is asked for `details`.
    """

    period: Span | None
    hours: Hours | None
    facts: RunFacts
    nodes: tuple[str, ...]
    racks: tuple[str, ...]
    purchase_options: tuple[str, ...]
    total: Amounts
    shared: SharedTime | None = Field(description="null where it had its GPUs to itself.")
    entries: tuple[Entry, ...]
    unpriced: tuple[Unpriced, ...]
    timeline: tuple[TimelinePoint, ...]
    findings: tuple[FindingDocument, ...]
    recommendations: tuple[Recommendation, ...]
    not_judged: tuple[NotJudged, ...]
    steps: int | None
    tokens: int | None
    limit_at: Micros | None
    earlier: tuple[EarlierRun, ...] = Field(description="Earlier runs of its name, newest first.")
    traffic: RunTraffic | None = Field(description="Of a run of several hosts, or where it was asked for.")
    efficiency: Efficiency | None = Field(description="null too of a run that makes no steps towards a model.")
    energy: RunEnergy | None = Field(description="null too where no GPU of it reported any.")
    service: RunService | None = Field(description="null too of a run that serves nothing.")
    ruled_out: Mapping[str, tuple[RuledOut, ...]] = Field(description="By finding, of those that are shown.")
    page: str | None = Field(description="Where its page is, of a site that has pages.")

    @property
    def running(self) -> bool:
        """Whether it still ran at the newest hour known."""
        return self.facts.ended_at is None

    @property
    def span(self) -> Period:
        """The ledger's hours of it: of a run without any nobody writes a report."""
        if self.period is None:
            raise AssertionError(f"BUG: the ledger has no hour of {self.facts.run_id}")
        return self.period

    @property
    def breakdown(self) -> Breakdown:
        """Where its GPU time went, by class and label."""
        return Breakdown(
            fold(
                part
                for one in self.entries
                for part in priced_parts(
                    one.state, one.cause, one.milliseconds, one.cost_micros, one.unpriced_milliseconds
                )
            ),
            self.unpriced,
        )


def runs_where(
    session: Session, conditions: list[str], values: dict[str, object], limit: int, after: tuple[Any, ...] | None
) -> list[RunFacts]:
    """Return the runs that meet all conditions, those after the key (minus start, id) `after`, at most `limit`."""
    if after is not None:
        conditions = [*conditions, "row(-started_at, run_id) > row($a0, $a1)"]
        values = values | {"a0": after[0], "a1": after[1]}
    where = " AND ".join(conditions) or "true"
    rows = session.rows(
        f"SELECT {_COLUMNS} FROM runs WHERE {where} ORDER BY -started_at NULLS LAST, run_id LIMIT {limit}", values
    )
    return [RunFacts(**dict(zip(_COLUMNS.split(", "), row, strict=True))) for row in rows]


def run_facts(session: Session, run_id: str) -> RunFacts:
    """Return what is known of a run beside the ledger; it must be known."""
    return runs_where(session, ["run_id = $run"], {"run": run_id}, 1, None)[0]


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
    if (span := known_span(session, run_id, timezone)) is None:
        raise no_hours(session, run_id)
    return span


def known_span(session: Session, run_id: str, timezone: str) -> Period | None:
    """Return the ledger's hours of a run, or None where it has none."""
    held = held_span(session, [run_id])
    return None if held is None else Period(*held, run_id, timezone)


def own_findings(findings: Sequence[Finding], run_id: str) -> list[Finding]:
    """Return the findings of one run, without suspicions."""
    return [finding for finding in findings if run_id in finding.run_ids and not finding.suspicion]


def run_report(
    session: Session,
    facts: RunFacts,
    span: Period | None,
    settings: Settings,
    findings: Sequence[FindingDocument],
    recommendations: Sequence[Recommendation],
    timeline: Sequence[TimelinePoint],
    generation: str | None = None,
) -> RunDocument:
    """Read the ledger of one run, and nothing beyond it; `findings` are its own."""
    run_id = facts.run_id
    ids = {finding.id for finding in findings}
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
    steps, tokens = session.row("SELECT sum(steps), sum(tokens) FROM progress_amounts WHERE run_id = ?", [run_id])
    own_rows: dict[str, Any] = {"where": "run_id = ?", "values": [run_id]}
    total, parts = entries(ledger_sums(session, "state", "cause", **own_rows), settings.currency)
    return RunDocument(
        version=VERSION,
        generation=generation,
        currency=settings.currency,
        timezone=settings.timezone,
        period=span,
        hours=known_hours(session, span) if span else None,
        facts=facts,
        nodes=tuple(node for node, _ in places),
        racks=tuple(sorted({rack for _, rack in places if rack})),
        purchase_options=tuple(option for (option,) in options),
        total=total,
        shared=_shared(session, run_id),
        entries=parts,
        unpriced=unpriced(session, **own_rows) if total.unpriced_milliseconds else (),
        timeline=tuple(timeline),
        findings=tuple(findings),
        recommendations=by_saving([advice for advice in recommendations if ids & set(advice.finding_ids)]),
        not_judged=not_judged(session, span, run_id) if span else (),
        steps=steps,
        tokens=tokens,
        limit_at=_limit(session, run_id) if facts.ended_at is None else None,
        earlier=earlier_runs(session, facts.name, facts.team, facts.started_at),
        traffic=None,
        efficiency=None,
        energy=None,
        service=None,
        ruled_out={},
        page=page_of(settings.site_url, run_id),
    )


def _shared(session: Session, run_id: str) -> SharedTime | None:
    own, others = session.row(
        "SELECT sum(milliseconds) FILTER (run_id = $run)::BIGINT, sum(milliseconds) FILTER (run_id <> $run)::BIGINT "
        "FROM ledger WHERE shared AND (hour, gpu_uuid) IN (SELECT (hour, gpu_uuid) FROM ledger WHERE run_id = $run "
        "AND shared)",
        {"run": run_id},
    )
    return None if own is None else SharedTime(own, others or 0)


def run_efficiency(
    session: Session, report: RunDocument, step_log: StepTime | None = None, *, samples: Session
) -> Efficiency | None:
    """Return the efficiency of a run, which takes as long as all the rest; `step_log` is what a log of it told."""
    facts, span = report.facts, report.span
    whole = (span.start, span.end, facts.submitted_at, facts.started_at, facts.ended_at)
    subject = Subject(facts.run_id, facts.name, facts.stage, facts.gpus, facts.sku, *whole)
    return efficiency(session, subject, step_log, samples=samples)


def _limit(session: Session, run_id: str) -> int | None:
    limit: int | None = session.row(
        "SELECT max(started_at + CAST(time_limit_seconds * 1000000 AS BIGINT)) FROM allocations WHERE run_id = ?",
        [run_id],
    )[0]
    return limit


def worth_showing(report: RunDocument) -> tuple[FindingDocument, ...]:
    """Return the findings that are a hundredth of the run or more, at most three; the largest in any case."""
    least = report.breakdown.milliseconds // 100
    large = [finding for finding in report.findings if finding.milliseconds >= least]
    return tuple(large[:FINDINGS_SHOWN]) or report.findings[:1]


def earlier_runs(
    session: Session, name: str | None, team: str | None, started_at: int | None
) -> tuple[EarlierRun, ...]:
    """Return the last runs of this name and team that had ended when one began, newest first; of no name none."""
    if name is None or started_at is None:
        return ()
    rows = session.rows(
        "SELECT run_id FROM runs WHERE name = ? AND team IS NOT DISTINCT FROM ? AND ended_at <= ? "
        f"ORDER BY started_at DESC, run_id LIMIT {_EARLIER_SHOWN}",
        [name, team, started_at],
    )
    works = works_of_runs(session, [run_id for (run_id,) in rows])
    return tuple(_earlier(work) for work in reversed(works))


def _earlier(work: Work) -> EarlierRun:
    paid = [spent.micros for spent in work.spent if spent.micros is not None]
    is_priced = len(paid) == len(work.spent)
    return EarlierRun(work.run_id, work.milliseconds, sum(paid) if is_priced else None, work.units("tokens"))


_SERVED = """
SELECT count(*), sum(requests)::BIGINT, sum(requests_failed)::BIGINT, sum(tokens_in)::BIGINT,
    sum(tokens_cached)::BIGINT, sum(tokens_out)::BIGINT,
    sum(kept_us) / nullif(sum(promised_us) - sum(coalesce(undecided_us, 0)), 0),
    (SELECT CASE WHEN count(*) = count(cost_micros) THEN sum(cost_micros)::BIGINT END FROM ledger
        JOIN amount_hours USING (hour) WHERE run_id = $run AND served IS NOT NULL),
    (SELECT sum(milliseconds) / nullif(count(DISTINCT gpu_uuid), 0) / 1000 FROM ledger
        JOIN amount_hours USING (hour) WHERE run_id = $run AND served IS NOT NULL)
FROM served_amounts WHERE run_id = $run
"""
_LATENCY = """
SELECT arg_max(engine, hour), max(slo_micros) / 1e6, quantile_disc(first_token_micros, [0.5, 0.95]),
    count(*) FILTER (first_token_micros >= 1e12) / nullif(count(first_token_micros), 0),
    quantile_disc(inter_token_micros, [0.5, 0.95]),
    count(*) FILTER (inter_token_micros >= 1e12) / nullif(count(inter_token_micros), 0)
FROM (SELECT *, unnest(range(intervals)) FROM latency_amounts WHERE run_id = $run)
"""
_BEYOND_MICROS = 1e12  # the last bucket of an engine: latency_micros() in analyzer/ledger/believed.py


def run_service(session: Session, run_id: str) -> RunService | None:
    """Return what a run served; None where it said nothing of that."""
    asked: dict[str, object] = {"run": run_id}
    told, requests, failed, tokens_in, cached, tokens_out, kept, cost, seconds = session.row(_SERVED, asked)
    if not told:
        return None
    engine, slo, first, beyond, between, between_beyond = session.row(_LATENCY, asked)
    counted = (engine, requests, failed, tokens_in, cached, tokens_out, seconds or 0.0, cost)
    return RunService(*counted, slo, kept, *_within(first), beyond, *_within(between), between_beyond)


def _within(micros: list[int] | None) -> tuple[float | None, float | None]:
    """Return two latencies in seconds; None where one lies beyond the engine's last bucket."""
    usual, worst = (one / MICROS if one < _BEYOND_MICROS else None for one in micros) if micros else (None, None)
    return usual, worst


def run_energy(session: Session, run_id: str, span: Period, rates: Rates) -> RunEnergy | None:
    """Return the energy of a run, of open hours by the rates of now; None where no GPU of it told any."""
    drawn = read_drawn(session, span, run_id)
    if not drawn:
        return None
    whole = summed_energy(energy_of(drawn, session, span, rates))
    carbon = whole.carbon_milligrams
    return RunEnergy(whole.gpu_millijoules, whole.measured_ms, whole.facility_millijoules, carbon, whole.power_ms)


def run_energy_words(one: RunEnergy, held_ms: int) -> str:
    """Return "446 kWh at the GPUs, 221 kg CO2e"; without what is not known."""
    least = "at least " if one.measured_ms * 1000 < held_ms * _NEARLY_ALL_PERMILLE else ""
    told = (
        f"{least}{_amount(one.gpu_millijoules, MILLIJOULES_PER_KWH)} kWh at the GPUs{BY_POWER if one.power_ms else ''}"
    )
    if one.carbon_milligrams is None:
        return told
    return f"{told}, {_amount(one.carbon_milligrams, _MILLIGRAMS_PER_KG)} kg CO2e"


def _amount(units: int, per_whole: int) -> str:
    """Return an amount as exactly as one of its size is told: 5,937, 44.6 or 0.446."""
    decimals = 0 if units >= 100 * per_whole else 1 if units >= per_whole else 3
    return decimal(nearest(units * 10**decimals, per_whole), decimals)
