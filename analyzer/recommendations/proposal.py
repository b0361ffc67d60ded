"""What a rule proposes, before it is priced, and all the losses that it ends.

In a synchronous run each step ends with its slowest rank. So whoever ends the slowness of a host ends two findings of
its run, the loss of its clocks and its peers' wait, and two changes that do so are alternatives: they stand on both.

What peers wait for a GPU is what its clocks lost, and never longer: of a run on n GPUs of which the slowest lost t, all
ranks together lost n x t, those that were slow themselves by their clocks and the others by waiting. What was booked as
wait beyond that has another reason beside the clocks, or was measured too long, and is not promised back.

Work that a failure threw away later was slow too, and is booked as lost. A failure that comes with the hour takes as
many hours of a faster run, one that comes with the step spares them. Nobody can tell: only the lucky tail has them.

What is said and pasted of changes: the rows of changes.toml, filled with figures whose units are format specs.

`{gpus:#GPU}` counts, `{memory:gib}`, `{idle:length}`, `{share:percent}` and `{hosts:some}` write a figure or names as
every sentence does. In lines to paste a text stands as one line, whatever a user called a run; `:word`, `:words` and
`:names` quote it for a shell, and `:text` takes lines that were made elsewhere as they are.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Formatter
from typing import Any

from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.queries.statements import statements
from analyzer.recommendations.artefacts import joined_names, remark, scheduler, shell_word, shell_words
from analyzer.recommendations.recommendation import BEYOND, Artefact, Change, Form, Saved, Share, share_of_loss
from analyzer.recommendations.site import Placed, Site
from analyzer.recommendations.types.checks import latency
from analyzer.states import Confidence
from analyzer.text.words import brief_percent, counted, gib, length_of_time, shipped_words, some
from collector.store.session import Session

# One restart from a checkpoint: image, model load and warm-up. An assumption until it is measured of the run itself.
RESTART_MS = 12 * 60_000
_LEAST_SURE_FIRST: tuple[Confidence, ...] = ("low", "medium", "high")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(Change):
    """A change before it is priced. `saves` is a share of the loss that it stands on, or an amount of its own.

    `milliseconds` of GPU time and `micros` of money are lost in the period; None where no finding is behind it: then it
    says by itself what it saves. `moving_gpu_ms` is the GPU time that the change itself takes; 0 for what waits for the
    next start. Where it is more, runs are restarted, and what is measured of them takes its place (run_status.py).
    """

    saves: Share | Saved
    moving_gpu_ms: int = 0
    slow_hosts: tuple[str, ...] = ()  # whose slowness it ends, and with it their peers' wait
    milliseconds: int | None = None
    micros: int | None = None
    state: str | None = None
    beside: tuple[tuple[str, str], ...] = ()  # state and cause of its further findings

    @property
    def losses(self) -> tuple[tuple[str | None, str], ...]:
        """State and cause of each finding that it stands on."""
        return ((self.state, self.cause), *self.beside)

    def answering(self, finding: Finding) -> "Proposal":
        """Return it as what answers a finding: with its subject, its runs and what was lost."""
        return replace(
            self._about(finding, finding.cause),
            finding_ids=(finding.id,),
            milliseconds=finding.milliseconds,
            micros=finding.at_stake_micros,
            state=finding.state,
        )

    def noticing(self, notice: Notice) -> "Proposal":
        """Return it as what answers a notice, which claims no second."""
        return replace(self._about(notice, notice.rule), notice_ids=(notice.id,))

    def _about(self, what: Finding | Notice, cause: str) -> "Proposal":
        whose = {name: getattr(what, name) for name in ("subject", "team", "confidence", "run_ids")}
        return replace(self, cause=cause, actor=self.actor or what.actor, **whose)

    def with_findings(self, others: Sequence[Finding]) -> "Proposal":
        """Return the same change on further findings: their losses added, as sure as the least sure of them.

        The runs stay those of the first, and so does what it is called. Where one has no price, all have none.
        """
        micros = (self.micros, *(finding.at_stake_micros for finding in others))
        known = [amount for amount in micros if amount is not None]
        sure = (self.confidence, *(finding.confidence for finding in others))
        return replace(
            self,
            confidence=min(sure, key=_LEAST_SURE_FIRST.index),
            finding_ids=(*self.finding_ids, *(finding.id for finding in others)),
            milliseconds=(self.milliseconds or 0) + sum(finding.milliseconds for finding in others),
            micros=sum(known) if len(known) == len(micros) else None,
            beside=tuple((finding.state, finding.cause) for finding in others),
        )


def restart(gpus: int) -> tuple[str, int]:
    """Return what one restart costs, in words and in GPU-milliseconds."""
    return f"one restart from a checkpoint: about 12 min of {gpus} GPUs", RESTART_MS * gpus


WAIT = ("communicating", "straggler")
# What stays with the host. A limit of power holds back whatever works as hard, so that another host may be as slow.
_OF_THE_HOST = (("throttled", "thermal"), ("throttled", "hardware"))

THROWN_AWAY = ("lost_work", "throttled")

Loss = tuple[str, str]  # state and cause


@dataclass(frozen=True, slots=True)
class SlowHour:
    """What one run lost in one hour by one host: in all, and at most on one GPU of the host (0 of a wait)."""

    run_id: str
    hour: int
    node: str
    loss: Loss
    gpus: int  # of the run
    longest_ms: int
    milliseconds: int


def ended_together(
    session: Session, proposed: Sequence[Proposal], found: Sequence[Finding], start_us: int, end_us: int
) -> list[Proposal]:
    """Return what is proposed, in its order; what ends the slowness of hosts stands on all that their slowness cost."""
    runs = {run for proposal in proposed if proposal.slow_hosts for run in proposal.run_ids}
    hours = _read(session, runs, start_us, end_us)
    return [
        _with_all(proposal, found, [hour for hour in hours if hour.run_id in proposal.run_ids])
        if proposal.slow_hosts
        else proposal
        for proposal in proposed
    ]


def ended_ms(hours: Iterable[SlowHour], against: Loss, nodes: Collection[str], *others: Loss) -> int:
    """Return how much of a loss, and of others beside it, ends with the slowness of these hosts, in milliseconds.

    In hours in which their clocks lost time the run lost that on all its GPUs, as far as so much was booked. In hours
    in which they did not, what was waited for them ends only where the change is against the wait.
    """
    by_hour: dict[tuple[str, int], list[SlowHour]] = defaultdict(list)
    for hour in hours:
        if hour.node in nodes and hour.loss in (against, *others):
            by_hour[hour.run_id, hour.hour].append(hour)
    return sum(_ended(each, against) for each in by_hour.values())


def thrown_away_ms(hours: Iterable[SlowHour], nodes: Collection[str]) -> int:
    """Return what runs lost by the clocks of these hosts in work that was thrown away later, in milliseconds."""
    longest: dict[tuple[str, int], int] = defaultdict(int)
    for hour in hours:
        if hour.node in nodes and hour.loss == THROWN_AWAY:
            key = (hour.run_id, hour.hour)
            longest[key] = max(longest[key], hour.gpus * hour.longest_ms)
    return sum(longest.values())


def coincide(hours: Sequence[SlowHour], one: Loss, other: Loss, nodes: Collection[str]) -> bool:
    """Return whether some run had both losses by these hosts in one hour."""
    seen = [
        {(each.run_id, each.hour) for each in hours if each.node in nodes and each.loss == of} for of in (one, other)
    ]
    return not seen[0].isdisjoint(seen[1])


def _ended(hour: Sequence[SlowHour], against: Loss) -> int:
    """Return what ends of one hour of one run."""
    waited = sum(one.milliseconds for one in hour if one.loss == WAIT)
    clocks = [one for one in hour if one.loss != WAIT]
    if not clocks:
        return waited if against == WAIT else 0
    lost = sum(one.milliseconds for one in clocks)
    longest: dict[Loss, int] = defaultdict(int)
    for one in clocks:
        longest[one.loss] = max(longest[one.loss], one.longest_ms)
    return min(lost + waited, max(lost, clocks[0].gpus * sum(longest.values())))


def _with_all(proposal: Proposal, found: Sequence[Finding], hours: Sequence[SlowHour]) -> Proposal:
    """Return a change with all that it ends: the findings of its runs, and the share of them that is its hosts'."""
    against = (proposal.state or "", proposal.cause)
    others = [
        finding
        for finding in found
        if (finding.state, finding.cause) in (_OF_THE_HOST if against == WAIT else (WAIT,))
        and not finding.suspicion
        and not set(finding.run_ids).isdisjoint(proposal.run_ids)
        and coincide(hours, against, (finding.state, finding.cause), proposal.slow_hosts)
    ]
    ended = ended_ms(hours, against, proposal.slow_hosts, *((each.state, each.cause) for each in others))
    if not isinstance(proposal.saves, Share) or not ended:
        return proposal
    whole = proposal.with_findings(others)
    share = share_of_loss(proposal.saves, ended, whole.milliseconds or 0)
    lucky = share_of_loss(proposal.saves, ended + thrown_away_ms(hours, proposal.slow_hosts), whole.milliseconds or 0)
    return replace(whole, saves=replace(share, p95=min(BEYOND, lucky.p95)))


def _read(session: Session, runs: Collection[str], start_us: int, end_us: int) -> list[SlowHour]:
    if not runs:
        return []
    (select,) = statements("recommendations/slow_hours.sql")
    rows = session.rows(select, {"runs": sorted(runs), "start": start_us, "end": end_us})
    return [SlowHour(run, hour, node, (state, cause), *amounts) for run, hour, node, state, cause, *amounts in rows]


CROSS_RACK = ("communicating", "cross_rack")


def against(planned: Sequence[Proposal], found: Sequence[Finding]) -> Iterator[Proposal]:
    """Yield what a plan moves, a move out of several racks with the findings whose seconds it would give back.

    With their ids it competes with whatever else would save those. A run of which nothing was found is left where it
    is. Of a finding's runs one moves in a plan: all bear one name, and a recommendation is known by it.
    """
    claimed: set[str] = set()
    for proposal in sorted(planned, key=lambda one: (-(one.milliseconds or 0), one.subject)):
        if proposal.cause != CROSS_RACK[1]:
            yield proposal
            continue
        own = [finding for finding in found if _is_about(finding, proposal)]
        ids = {finding.id for finding in own}
        if own and not ids & claimed:
            claimed |= ids
            yield _standing_on(proposal, own)


def _is_about(finding: Finding, proposal: Proposal) -> bool:
    is_crossing = (finding.state, finding.cause) == CROSS_RACK and not finding.suspicion
    return is_crossing and not set(finding.run_ids).isdisjoint(proposal.run_ids)


def _standing_on(proposal: Proposal, own: Sequence[Finding]) -> Proposal:
    """Return the run's own part of what its findings lost: never more than either says."""
    first = own[0]
    stakes = [finding.at_stake_micros for finding in own]
    known = None if None in stakes or proposal.micros is None else sum(stake or 0 for stake in stakes)
    return replace(
        proposal,
        subject=first.subject.removesuffix(f" ({len(first.run_ids)})"),
        team=first.team,
        actor=proposal.actor or first.actor,
        confidence=min((finding.confidence for finding in own), key=_LEAST_SURE_FIRST.index),
        finding_ids=tuple(finding.id for finding in own),
        milliseconds=min(proposal.milliseconds or 0, sum(finding.milliseconds for finding in own)),
        micros=None if known is None else min(proposal.micros or 0, known),
        state=CROSS_RACK[0],
    )


_TABLE = Path(__file__).with_name("changes.toml")
_FIELDS = {"from": "from_", "cost": "cost_to_move"}
_PLACES = ("moved", "moved_away")  # rows of every move to other hosts, whatever its kind
_SCHEDULERS = ("slurm", "kubernetes", "rankfile")
_UNITS: Mapping[str, Callable[[Any], str]] = {
    "gib": gib,
    "length": length_of_time,
    "percent": brief_percent,
    "some": lambda names: some(list(names)),
    "listed": ",".join,
    "word": shell_word,
    "words": shell_words,
    "names": joined_names,
    "text": str,
}


class _Sentences(Formatter):
    """Fills sentences."""

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401 - as Formatter has it
        if format_spec.startswith("#"):
            return counted(value, format_spec[1:])
        unit = _UNITS.get(format_spec)
        return str(super().format_field(value, format_spec)) if unit is None else unit(value)


class _Lines(_Sentences):
    """Fills lines to paste: no text writes a line of its own."""

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401 - as Formatter has it
        told = super().format_field(value, format_spec)
        return remark(told) if format_spec in ("", "some", "listed") else told


def rows(table: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of a table of changes.toml by name: "change", or "lines"."""
    return shipped_words(_TABLE)[table]


def kinds() -> frozenset[str]:
    """Return all kinds of change that a finding, a notice, a plan or a look at the fleet proposes (docs/changes.md)."""
    return frozenset(row.get("kind", name) for name, row in rows("change").items() if name not in _PLACES)


def proposal_of(
    *names: str,
    facts: Mapping[str, object],
    served: tuple[Site, Sequence[Placed]] | None = None,
    after_seconds: float | None = None,
    **more: Any,  # noqa: ANN401 - fields of Proposal
) -> Proposal:
    """Return the proposal that rows word, the first that has a field; `more` are its other fields.

    Where a row has words for `latency`, and the runs `served` by it serve requests, their wait is told as well.
    """
    row: dict[str, Any] = {}
    for name in reversed(names):
        row |= rows("change")[name]
    told = {
        _FIELDS.get(name, name): _Sentences().vformat(value, (), facts) if isinstance(value, str) else value
        for name, value in row.items()
    }
    expected = told.pop("latency", None)
    if served is not None and expected is not None:
        more["latency"] = latency(*served, after_seconds, expected)
    return Proposal(**{"kind": names[0]} | told | more)


def lines(name: str, of: Placed | Iterable[str], **facts: object) -> tuple[Artefact, ...]:
    """Return the texts to paste of a row: those of the run's own scheduler (or of these), and those of no scheduler."""
    known = {scheduler(of.run_id)} if isinstance(of, Placed) else set(of)
    facts["placed"] = of
    return tuple(
        Artefact(form, _Lines().vformat(text, (), facts))
        for form, text in _forms(rows("lines")[name]).items()
        if form not in _SCHEDULERS or ("slurm" if form == "rankfile" else form) in known
    )


def _forms(row: Mapping[str, Any]) -> Mapping[Form, str]:
    return {form: text.strip("\n") for form, text in row.items()}  # type: ignore[misc]  # a test holds the table
