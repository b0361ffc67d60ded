"""What a recommendation predicted of one period, as it is kept: never changed, however much is learned later."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.wire.units import WEEK_US
from analyzer.findings.finding import Finding
from analyzer.ledger.coverage import known_hours, newest_hour_end
from analyzer.period import Period
from analyzer.recommendations.recommendation import ASSUMED, Range, Recommendation, Share
from collector.store.session import Session

_QUANTILES = ("p5", "p20", "p50", "p80", "p95")

_Quantiles = Mapping[str, int]  # by name; the outermost two only where they were predicted


@dataclass(frozen=True, slots=True)
class PredictionSpan:
    """The hours that a prediction was made of; `label` is what they are called."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Amount:
    """GPU milliseconds, and what they cost; None where it is not known."""

    milliseconds: int | None
    micros: int | None


@dataclass(frozen=True, slots=True)
class Versions:
    """By what it was predicted: the shares of a loss, the rules, and the prices."""

    shares: str
    rules: str | None
    prices: str | None


@dataclass(frozen=True, slots=True)
class Prediction:
    """One prediction: what a change saves a week, of which loss, and what its runs held in the period in all."""

    recommendation_id: str
    made_at: int
    span: PredictionSpan
    kind: str
    subject: str
    team: str | None
    title: str
    finding_ids: tuple[str, ...]
    run_ids: tuple[str, ...]
    nodes: tuple[str, ...]
    saves_milliseconds: _Quantiles
    saves_micros: _Quantiles | None
    lost: Amount
    held: Amount
    versions: Versions

    @property
    def id(self) -> str:
        """What it is about and of when: whoever predicts the same of the same hours makes the same row."""
        return f"{self.recommendation_id} {self.span.start}-{self.span.end}"

    @property
    def name(self) -> str:
        """The name of its runs: the subject without their count."""
        return name_of(self.subject, self.run_ids)

    @property
    def share_of_held(self) -> float | None:
        """The share of what its runs cost that is likely saved (P50); None where that is not known."""
        held = self.held.milliseconds
        return self.saves_milliseconds["p50"] / self.weekly(held) if held else None

    def weekly(self, amount: int) -> int:
        """Return what an amount of its period comes to in a week."""
        return amount * WEEK_US // max(1, self.span.end - self.span.start)


def name_of(subject: str, run_ids: Sequence[str]) -> str:
    """Return the name of the runs that a subject means: "det-sweep" of "det-sweep (41)"."""
    return subject.removesuffix(f" ({len(run_ids)})")


def _weekly_quantiles(advice: Recommendation, saves: Range) -> dict[str, int]:
    """Return what a recommendation saves a week, by quantile: what comes of it is held against it by the week."""
    week = advice.in_span(saves, WEEK_US)
    return {name: getattr(week, name) for name in _QUANTILES}


def lost_by(advice: Recommendation, found: Iterable[Finding]) -> tuple[list[Finding], Amount]:
    """Return the findings that a recommendation stands on, and what they lost; None without any."""
    own = [finding for finding in found if finding.id in advice.finding_ids]
    costs = [finding.at_stake_micros for finding in own if finding.at_stake_micros is not None]
    return own, Amount(sum(finding.milliseconds for finding in own) if own else None, sum(costs) if costs else None)


def runs_of(advice: Recommendation, own: Iterable[Finding]) -> tuple[str, ...]:
    """Return the runs that a recommendation is about: its own, and those of its findings."""
    named: tuple[str, ...] = getattr(advice, "run_ids", ())  # what stands on no finding names its runs itself
    return tuple(sorted({*named, *(run for finding in own for run in finding.run_ids)}))


def nodes_of(advice: Recommendation, own: Iterable[Finding]) -> tuple[str, ...]:
    """Return the hosts that a recommendation is about: those that it moves from, and of the GPUs that caused it."""
    found = {finding.caused_on for finding in own if finding.caused_on}
    move = getattr(advice, "move", None)
    if move is not None and move.from_ is not None:
        found |= set(move.from_.nodes) - set(move.to.nodes if move.to is not None else ())
    return tuple(sorted(found))


def shares_version(realised: Mapping[str, Share]) -> str:
    """Return the version of the shares that savings are predicted by: a digest of their numbers.

    `realised` are those that took the place of assumed ones.
    """
    numbers = repr(sorted(ASSUMED.items())) + (repr(sorted(realised.items())) if realised else "")
    return hashlib.sha256(numbers.encode()).hexdigest()[:8]


_NOTHING = Amount(None, None)


def predicted(
    session: Session,
    advice: Sequence[Recommendation],
    found: Sequence[Finding],
    period: Period,
    made_at_us: int,
    realised: Mapping[str, Share] | None = None,
) -> list[Prediction]:
    """Return what these recommendations of a period predict; of one that is not over yet, as far as it is known.

    `realised` are the shares that took the place of assumed ones.
    """
    known = known_hours(session, period)
    end = min(period.end, newest_hour_end(session) or period.end)
    span = PredictionSpan(period.start, end, period.label)
    rules = known.rules_versions[-1] if known.rules_versions else None
    versions = Versions(
        shares_version(realised or {}), rules, known.price_versions[-1] if known.price_versions else None
    )
    held, made = _held(session, span), []
    for one in advice:
        own, lost = lost_by(one, found)
        runs = runs_of(one, own)
        made.append(
            Prediction(
                one.id,
                made_at_us,
                span,
                one.kind,
                one.subject,
                one.team,
                one.title,
                one.finding_ids,
                runs,
                nodes_of(one, own),
                _weekly_quantiles(one, one.saves_milliseconds),
                _weekly_quantiles(one, one.saves_micros) if one.saves_micros else None,
                lost,
                held.get((name_of(one.subject, runs), one.team), _NOTHING) if runs else _NOTHING,
                versions,
            )
        )
    return made


def _held(session: Session, span: PredictionSpan) -> dict[tuple[str, str | None], Amount]:
    """Return what all runs of a name and team held: what they are compared with once a change is applied."""
    rows = session.rows(
        "SELECT coalesce(name, run_id), team, sum(milliseconds)::BIGINT, sum(cost_micros)::BIGINT "
        "FROM ledger JOIN runs USING (run_id) WHERE hour >= ? AND hour < ? GROUP BY ALL",
        [span.start, span.end],
    )
    return {(name, team): Amount(milliseconds, micros) for name, team, milliseconds, micros in rows}
