"""Checkpoints: written far too often or too seldom for how often hosts fail, or never restored."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_MS
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.notice import Notice, Span
from analyzer.ids import short_id
from analyzer.ledger.unjudged import Unjudged
from analyzer.measures.efficiency import efficiency_query
from analyzer.measures.efficiency.cadence import FAILURES_LEAST, Failures
from analyzer.measures.efficiency.checkpoints import Checkpoints, Saving, checkpoints
from analyzer.measures.efficiency.figure import Figure
from analyzer.text.wording import counted

if TYPE_CHECKING:
    from collector.store.session import Session

_CADENCE, _RESTORE = "checkpoint_cadence", "restore_never_seen"
_STAKE_LEAST_MS = HOUR_MS  # less is not worth somebody's morning
_STAKE_LEAST_RATIO = 0.01  # of what the run held
# A run that could lose this much, and saves so often, counts on its checkpoints. Ours: nobody publishes a number, and
# with a tenth of it every team would be told every week.
_HELD_LEAST_MS = 1_000 * HOUR_MS
_SAVED_LEAST = 10


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield what is to be looked at, by name of run; one notice for all runs of a name."""
    savings = efficiency_query.savings(session, span.start_us, span.end_us)
    if savings:
        yield from notices_of(savings, efficiency_query.failures(session, span.end_us), span)


def notices_of(savings: Iterable[Saving], failures: Failures, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each name of which a run saves at the wrong interval, or none was ever restored."""
    names: dict[str, list[tuple[Saving, Checkpoints]]] = {}
    for saving in savings:
        found = checkpoints(saving, failures)
        if found is not None:
            names.setdefault(saving.name or saving.run_id, []).append((saving, found))
    if names and failures.failures < FAILURES_LEAST:
        seen = f"{counted(failures.failures, 'failure')} of training in four weeks, {FAILURES_LEAST} are needed"
        yield Unjudged(span.start_us, "fleet", _CADENCE, seen)
    for name, runs in sorted(names.items()):
        yield from _cadence(name, runs)
        yield from _restore(name, runs)


def _cadence(name: str, runs: list[tuple[Saving, Checkpoints]]) -> Iterator[Notice]:
    off = [(saving, found) for saving, found in runs if _matters(saving, found)]
    if not off:
        return
    saving, found = max(off, key=lambda pair: (pair[1].stake_ms or 0, pair[0].run_id))
    now, best = _hours(found.interval_seconds), _hours(found.best_seconds)
    stake = sum(one.stake_ms or 0 for _, one in off) / HOUR_MS
    yield _notice(
        _CADENCE,
        name,
        [saving for saving, _ in off],
        f"saves every {now}, {best} would lose least: save {found.advice}; about {stake:,.1f} GPU-hours in this period",
        (
            EvidenceLine("interval", now, f"best is {best}"),
            EvidenceLine("time to save", f"{found.save_seconds.value or 0:.0f} s", "the GPUs stand still for it"),
            EvidenceLine("failures", f"one every {_hours(found.mtbf_seconds)} on {saving.nodes} hosts"),
        ),
        "the run saves for another reason than failures, or its failures are not those of the last four weeks",
    )


def _matters(saving: Saving, found: Checkpoints) -> bool:
    if found.advice not in ("more often", "less often") or found.stake_ms is None:
        return False
    return found.stake_ms >= max(_STAKE_LEAST_MS, _STAKE_LEAST_RATIO * saving.held_ms)


def _restore(name: str, runs: list[tuple[Saving, Checkpoints]]) -> Iterator[Notice]:
    long = [pair for pair in runs if pair[0].held_ms >= _HELD_LEAST_MS and pair[1].count >= _SAVED_LEAST]
    if not long or any(saving.restored_at is not None for saving, _ in runs):
        return
    held = sum(saving.held_ms for saving, _ in long)
    count = sum(found.count for _, found in long)
    yield _notice(
        _RESTORE,
        name,
        [saving for saving, _ in long],
        f"{count} checkpoints, none ever seen restored: begin once from one before a failure does",
        (EvidenceLine("written", f"{count} in {held / HOUR_MS:,.0f} GPU-hours"),),
        "they were read where nobody looks: by an evaluation, or in a run of another name",
    )


def _notice(
    rule: str, name: str, savings: list[Saving], sentence: str, evidence: tuple[EvidenceLine, ...], wrong_if: str
) -> Notice:
    teams = {saving.team for saving in savings}
    return Notice(
        short_id("n", rule, name),
        rule,
        name,
        sentence,
        "run",
        "medium",
        run_ids=tuple(sorted(saving.run_id for saving in savings)),
        team=teams.pop() if len(teams) == 1 else None,
        evidence=evidence,
        wrong_if=wrong_if,
    )


def _hours(seconds: Figure) -> str:
    minutes = round((seconds.value or 0) / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"
