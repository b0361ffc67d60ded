"""The findings of a period: what the ledger books as avoidable, grouped by who lost it and why.

Every avoidable millisecond of the ledger is in exactly one finding, so that they sum to what is avoidable.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.wire.units import DAY_US, HOUR_US
from analyzer.findings.evidence import evidence, speedup
from analyzer.findings.finding import Finding
from analyzer.findings.judgement import rule_versions
from analyzer.findings.life import LossKey, longer_ids, named
from analyzer.findings.words import (
    finding_words,
    host_words,
    limit_words,
    root_words,
    run_words,
    share_words,
    suspicion_words,
)
from analyzer.ledger.causes.witnesses import INPUTS
from analyzer.ledger.windows import RunWindow, Verdict
from analyzer.queries.ledger_query import ledger_sums
from analyzer.states import BOOKINGS, Confidence, booking
from collector.store.session import Session

_AVOIDABLE = frozenset((b.state, b.cause) for b in BOOKINGS if b.klass == "avoidable")
_THROTTLED = tuple(("throttled", cause) for cause in ("power", "thermal", "hardware"))
_SLOWED_PERMILLE = 30  # of its clock that the slowest GPU must have lost
_RANK = {"high": 2, "medium": 1, "low": 0}

_LOSSES = """
SELECT coalesce(r.name, l.run_id, l.node) AS subject, r.team, l.state, coalesce(l.cause, l.suspicion) AS cause,
    l.run_id, l.caused_by, l.confidence, sum(l.milliseconds)::BIGINT, sum(l.cost_micros)::BIGINT,
    min(l.hour), max(row(-l.hour, l.milliseconds))[2], max(l.hour), r.ended_at IS NULL,
    list_sort(list(DISTINCT l.node)), greatest(min(l.hour), max(r.started_at)),
    greatest(max(l.hour), least(max(l.hour) + 3600000000, max(r.ended_at)))
FROM ledger l LEFT JOIN runs r USING (run_id)
WHERE l.hour >= $start AND l.hour < $end AND coalesce(l.run_id = $run, $run IS NULL)
    AND l.state NOT IN ('unallocated', 'productive', 'unobserved', 'starting', 'checkpointing')
GROUP BY ALL ORDER BY ALL
"""

_JUDGED_BY = "SELECT hour, rules_version FROM ledger_hours WHERE hour >= $start AND hour < $end"

# Of the fleet it names no runs: for each element of a list of thousands DuckDB looks for pandas.
_WINDOWS = """
SELECT run_id, counts, verdict FROM run_windows
WHERE window_start >= $start AND window_start < $end AND {whose} ORDER BY run_id, window_start
"""
_WINDOWS_KNOWN = (
    "SELECT min(window_start), max(window_start) FROM run_windows WHERE window_start >= ? AND window_start < ?"
)

_HELD = """
SELECT coalesce(r.name, l.run_id), r.team, sum(l.milliseconds)::BIGINT FROM ledger l LEFT JOIN runs r USING (run_id)
WHERE l.hour >= $start AND l.hour < $end AND l.run_id IS NOT NULL AND coalesce(l.run_id = $run, true) GROUP BY ALL
"""


@dataclass(slots=True)
class _Loss:
    """Rows of one subject, state and cause, while they are added up."""

    milliseconds: int = 0
    cost_micros: int | None = None
    first_us: int = 2**62
    until_first_us: int = 0  # of the first hour until the GPU lost time to it that lost the most of it
    last_us: int = 0
    begun_us: int = 2**62  # of its runs none began before, and none ended after
    ended_us: int = 0
    may_go_on: bool = False  # a run of it still runs, or it is a host's
    by_run: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    by_confidence: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    by_cause: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    hosts: set[str] = field(default_factory=set)

    def first_at(self, state: str) -> int:
        """Return since when it is so: what goes on past its first hour, and is idleness, began at that hour's end."""
        idle_us = self.until_first_us if state == _STATE and self.last_us > self.first_us else 0
        return max(self.begun_us, self.first_us + idle_us)

    @property
    def root(self) -> str | None:
        """The GPU that caused the most of it; None where none is known."""
        return max(self.by_cause, key=lambda who: (self.by_cause[who], who), default=None)

    def add(self, run_id: str | None, caused_by: str | None, confidence: str | None, ms: int, cost: int | None) -> None:
        self.milliseconds += ms
        if cost is not None:
            self.cost_micros = (self.cost_micros or 0) + cost
        if run_id is not None:
            self.by_run[run_id] += ms
        if caused_by is not None:
            self.by_cause[caused_by] += ms
        self.by_confidence[confidence or "medium"] += ms


@dataclass(frozen=True, slots=True)
class _Named:
    """What a finding is called in this store, by which version of its rule its last hour was judged, and its root."""

    id: str
    rule_version: str | None
    caused_on: str | None  # the host of the GPU that caused the most of it


def findings(
    session: Session, start_us: int, end_us: int, run_id: str | None = None, *, with_evidence: bool = True
) -> list[Finding]:
    """Return the findings of the hours in [start_us, end_us), the dearest first, suspicions last.

    With a run's id, its own losses alone, under the ids that they have in the fleet's list. Without evidence nothing is
    read of the runs' windows, which is most of the work: for those who count findings and read none.
    """
    asked: dict[str, object] = {"start": start_us, "end": end_us, "run": run_id}
    losses = _losses(session, asked)
    held = {(subject, team): ms for subject, team, ms in session.rows(_HELD, asked)}
    (newest,) = session.row("SELECT coalesce(max(hour), 0) FROM ledger_hours WHERE hour < ?", [end_us])
    seen = _windows(session, _wanted(losses), asked) if with_evidence else {}
    ids = named(sorted(losses, key=lambda key: (losses[key].first_us, repr(key))), longer_ids(session))
    judged_by = _judged_by(session, start_us, end_us)
    places = _places(session, {root for loss in losses.values() for root in loss.by_cause}, start_us, end_us)
    found = [
        _finding(
            key,
            loss,
            _Named(
                ids[key],
                judged_by.get(loss.last_us, {}).get(f"{key[2]}/{key[3]}"),
                places.get(loss.root or ""),
            ),
            held.get(key[:2], 0),
            newest,
            seen,
        )
        for key, loss in losses.items()
    ]
    return sorted(found, key=lambda f: (f.suspicion, -(f.at_stake_micros or 0), -f.milliseconds, f.id))


def _judged_by(session: Session, start_us: int, end_us: int) -> dict[int, dict[str, str]]:
    """Return by hour the versions of the rules by which it was classified, as far as they were kept."""
    known = rule_versions(session)
    hours = session.rows(_JUDGED_BY, {"start": start_us, "end": end_us})
    return {hour: known.get(whole, {}) for hour, whole in hours}


def _places(session: Session, gpus: Iterable[str], start_us: int, end_us: int) -> dict[str, str]:
    """Return the host of each of these GPUs."""
    if not (wanted := sorted(gpus)):
        return {}
    rows = session.rows(
        "SELECT gpu_uuid, max(node) FROM ledger WHERE hour >= ? AND hour < ? AND gpu_uuid IN (SELECT unnest(?)) "
        "GROUP BY gpu_uuid",
        [start_us, end_us, wanted],
    )
    return dict(rows)


def _losses(session: Session, asked: dict[str, object]) -> dict[LossKey, _Loss]:
    losses: dict[LossKey, _Loss] = defaultdict(_Loss)
    for (
        subject,
        team,
        state,
        cause,
        run_id,
        caused_by,
        confidence,
        ms,
        cost,
        first,
        first_ms,
        last,
        runs,
        hosts,
        begun,
        ended,
    ) in session.rows(_LOSSES, asked):
        is_suspicion = state == "unexplained" and cause is not None
        if not is_suspicion and (state, cause) not in _AVOIDABLE:
            continue
        loss = losses[subject, team, state, cause]
        root = None if state == "lost_work" else caused_by  # a slow GPU lost no work
        loss.add(run_id, root, confidence, ms, cost)
        loss.last_us = max(loss.last_us, last)
        loss.begun_us, loss.ended_us = min(loss.begun_us, begun), max(loss.ended_us, ended)
        loss.first_us, loss.until_first_us = min(
            (loss.first_us, loss.until_first_us), (first, HOUR_US - first_ms * 1000)
        )
        loss.may_go_on |= runs
        loss.hosts.update(hosts)
    return losses


def _wanted(losses: dict[LossKey, _Loss]) -> dict[str, set[tuple[str, str | None]]]:
    """Return which states and causes each run lost time to."""
    wanted: dict[str, set[tuple[str, str | None]]] = defaultdict(set)
    for (_, _, state, cause), loss in losses.items():
        for run in loss.by_run:
            wanted[run].add((state, cause))
    return wanted


def _windows(
    session: Session, wanted: dict[str, set[tuple[str, str | None]]], asked: dict[str, object]
) -> dict[tuple[str, str, str | None], list[RunWindow]]:
    """Return the windows of these runs by run, state and cause of their verdicts, as far as the run lost time to it.

    A week of a large fleet has a million windows: what no finding stands on is not made into one.
    """
    by: dict[tuple[str, str, str | None], list[RunWindow]] = defaultdict(list)
    if not wanted:
        return by
    for run_id, counts, verdict in _told(session, asked):
        if run_id not in wanted:
            continue
        own, said, window = wanted[run_id], _said_of(Verdict.told(verdict)), None
        if not own.isdisjoint(_THROTTLED):
            window = RunWindow.from_json(counts)
            said += _throttled(window)
        for state, cause in said:
            if (state, cause) in own:
                window = window or RunWindow.from_json(counts)
                by[run_id, state, cause].append(window)
    return by


def _told(session: Session, asked: dict[str, object]) -> Iterator[tuple[str, str, str]]:
    """Yield run, counts and verdict of each window, those of a run in their order; a day at a time is in memory."""
    whose = "$run IS NULL" if asked["run"] is None else "run_id = $run"
    first, last = session.row(_WINDOWS_KNOWN, [asked["start"], asked["end"]])
    for start in () if first is None else range(first, last + 1, DAY_US):
        yield from session.rows(
            _WINDOWS.format(whose=whose),
            {"run": asked["run"], "start": start, "end": min(start + DAY_US, last + 1)},
        )


def said_states(window: RunWindow, verdict: Verdict) -> list[tuple[str, str | None]]:
    """Return the states and causes that a verdict books, with those that need none."""
    return _said_of(verdict.as_told()) + _throttled(window)


def _said_of(verdict: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Return the states and causes that a verdict books, of its fields by name; one that is not there says nothing."""
    said: list[tuple[str, str | None]] = []
    if (cause := verdict.get("input_cause")) is not None:
        said.append(("starved", cause))
    if verdict.get("is_low") and (cause is None or verdict.get("starved_permille", 1000) < 1000):
        said.append(("unexplained", verdict.get("input_suspicion")))
    if verdict.get("cross_rack_permille"):
        said.append(("communicating", "cross_rack"))
    if verdict.get("straggler_permille") or verdict.get("is_uneven"):
        said.append(("communicating", "uneven" if verdict.get("is_uneven") else "straggler"))
    if verdict.get("is_hung"):
        said.append(("communicating", "hang"))
    if verdict.get("is_underused"):
        said.append(("underused", verdict.get("underused_cause")))
    if verdict.get("beyond_policy_permille"):
        said.append(("headroom", "beyond_policy"))
    if verdict.get("idle_permille"):
        said.append(("held_idle", "abandoned"))
    return said


def _throttled(window: RunWindow) -> list[tuple[str, str | None]]:
    """Return the states and causes that the clock alone books, where a window was slowed."""
    return [*_THROTTLED] if window.slowed_most >= _SLOWED_PERMILLE else []


def _finding(
    key: LossKey,
    loss: _Loss,
    who: _Named,
    held_ms: int,
    newest_us: int,
    seen: dict[tuple[str, str, str | None], list[RunWindow]],
) -> Finding:
    subject, team, state, cause = key
    runs = tuple(sorted(loss.by_run, key=lambda run: (-loss.by_run[run], run)))
    windows = [window for run in runs for window in seen.get((run, state, cause), [])]
    is_suspicion = state == "unexplained"
    words = suspicion_words(cause or "") if is_suspicion else finding_words(state, cause)
    shown = f"{subject} ({len(runs)})" if len(runs) > 1 else subject
    values = _values(subject, cause, loss, held_ms, windows)
    values["gpu"] = root_words(loss.root, who.caused_on, len(loss.by_cause))
    still_open = loss.may_go_on and loss.last_us >= newest_us - HOUR_US
    return Finding(
        id=who.id,
        rule=f"{state}/{cause}",
        subject=shown,
        run_ids=runs,
        team=team,
        state=state,
        cause=cause or "",
        what=words.what.format(**values),
        milliseconds=loss.milliseconds,
        at_stake_micros=loss.cost_micros,
        confidence="low" if is_suspicion else _confidence(loss),
        actor=_suspected_actor(cause) if is_suspicion else booking(state, cause).actor,
        first_at=loss.first_at(state),
        last_at=loss.ended_us,
        still_open=still_open,
        caused_by=loss.root,
        claim=words.told(values, past=not still_open),
        evidence=evidence(state, cause, windows),
        wrong_if=words.wrong_if.format(**values),
        suspicion=is_suspicion,
        hosts=tuple(sorted(loss.hosts)),
        rule_version=who.rule_version,
        caused_on=who.caused_on,
    )


def _suspected_actor(cause: str | None) -> str | None:
    """Return who could act on a suspicion: of what is no input, which could be anybody's, the run's owner."""
    return None if cause is None or cause in INPUTS else "run"


def _values(subject: str, cause: str | None, loss: _Loss, held_ms: int, windows: list[RunWindow]) -> dict[str, str]:
    runs, place = len(loss.by_run), host_words(tuple(loss.hosts))
    run = run_words(subject, runs)
    return {
        "Run": f"{run[0].upper()}{run[1:]} on {place}",
        "run": run,
        "for_run": f" for {run}" if runs else "",
        "place": place,
        "share": share_words(loss.milliseconds, held_ms),
        "limit": limit_words(cause, windows),
        "cause": (cause or "").replace("_", " "),
        "speedup": speedup(windows),
        "missing": "the hosts' disks, cores and loader workers, once measured, have nothing to do with it",
    }


def _confidence(loss: _Loss) -> Confidence:
    """Return the confidence of most of the loss."""
    most = max(loss.by_confidence, key=lambda word: (loss.by_confidence[word], _RANK[word]))
    return "high" if most == "high" else "medium" if most == "medium" else "low"


_STATE = "held_idle"  # the one loss that ends the moment somebody lets go
_NEWEST = (
    "hour = (SELECT max(hour) FROM ledger_hours WHERE status <> 'provisional') AND state = ? AND run_id IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class StillCosts:
    """The finding whose idle GPUs lost most in the newest booked hour; `micros` is None where a price is missing."""

    finding_id: str
    milliseconds: int
    micros: int | None


def still_costs(session: Session, findings: Sequence[Finding]) -> StillCosts | None:
    """Return the open finding of idle GPUs that loses most now; None where none did in the newest booked hour."""
    open_now = [one for one in findings if one.state == _STATE and one.still_open and not one.suspicion]
    of_run = {run_id: one.id for one in open_now for run_id in one.run_ids}
    if not of_run:
        return None
    lost: dict[str, tuple[int, int | None]] = {}
    for each in ledger_sums(session, "run_id", where=_NEWEST, values=[_STATE]):
        if (finding_id := of_run.get(each.keys[0])) is not None:
            time, cost = lost.get(finding_id, (0, 0))
            micros = None if cost is None or each.unpriced_milliseconds else cost + (each.cost_micros or 0)
            lost[finding_id] = time + each.milliseconds, micros
    most = max(lost.items(), key=lambda one: (one[1][1] or 0, one[1][0], one[0]), default=None)
    return None if most is None else StillCosts(most[0], *most[1])
