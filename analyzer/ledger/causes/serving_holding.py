"""What services hold beyond their policy: replicas that were there, judged by the traffic of the days before."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_MS, HOUR_US
from analyzer.ledger.causes.serving_policy import (
    Excess,
    Need,
    Policy,
    Replica,
    Service,
    Span,
    Use,
    excess,
    idle_spans,
    in_force,
    needs,
    overlap_ms,
    replicas_of,
)
from analyzer.ledger.coverage import Unjudged
from analyzer.ledger.pending import MARGIN_US, Chunk
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow, Verdict
from analyzer.queries.statements import statements
from collector.store.session import Session

if TYPE_CHECKING:
    from collector.store.session import Session

_USES = """
SELECT window_start // 1000, (counts->>'$.ms')::BIGINT, (counts->>'$.gpus')::BIGINT, (counts->>'$.still')::BIGINT,
    (counts->>'$.members')::BIGINT, (counts->>'$.requests')::BIGINT, (counts->>'$.requests_ms')::BIGINT
FROM run_windows WHERE run_id IN (SELECT unnest(?)) AND window_start >= ? AND window_start < ?
ORDER BY window_start, run_id
"""

_HELD = """
SELECT DISTINCT run_id, h.from_ms, h.until_ms FROM holds h JOIN run_keys USING (rid)
WHERE run_id IN (SELECT unnest(?)) AND h.until_ms > h.from_ms ORDER BY ALL
"""


def _kept_uses(
    session: "Session", run_ids: Sequence[str], from_ms: int, until_ms: int, policy: Policy
) -> dict[int, list[Use]]:
    """Return by window what these runs are known to have done in [from_ms, until_ms) and the look-back before it."""
    found: dict[int, list[Use]] = defaultdict(list)
    first_ms = from_ms - policy.look_back_hours * HOUR_MS
    for at, ms, gpus, still, members, requests, requests_ms in session.rows(
        _USES, [list(run_ids), first_ms * 1000, until_ms * 1000]
    ):
        found[at].append(Use(ms, gpus, still, replicas_of(gpus, members, policy), requests, requests_ms))
    return found


def _held_spans(session: "Session", run_ids: Sequence[str]) -> dict[str, list[Span]]:
    """Return by run the spans in which it held a GPU, of all time."""
    found: dict[str, list[Span]] = defaultdict(list)
    for run_id, from_ms, until_ms in session.rows(_HELD, [list(run_ids)]):
        found[run_id].append((from_ms, until_ms))
    return dict(found)


_QUIET = """
SELECT u.uuid, q.from_ms, q.until_ms FROM quiet q JOIN units u USING (uid)
WHERE q.uid IN (SELECT h.uid FROM holds h JOIN service_runs r USING (rid)) ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class _ReplicaTime:
    """One GPU of a run in one window. `place` is its number among those that the run had in it."""

    run_id: str
    gpu_uuid: str
    member: str | None
    place: int
    from_ms: int
    until_ms: int
    ms: int
    still_ms: int
    idle_ms: int

    def replica_by(self, policy: Policy) -> str:
        """Return which replica of its run the GPU belongs to."""
        if policy.gpus_per_replica is not None:
            return f"{self.place // policy.gpus_per_replica:06}"
        return self.member or ""


def _replica_times(session: Session, chunk: Chunk, limits: Thresholds) -> dict[tuple[str, int], list[_ReplicaTime]]:
    """Return the GPUs of all services, by run and window."""
    (select,) = statements("ledger/serving/replicas.sql")
    rows = session.rows(select)
    idle = _idle(session, chunk, {(run, gpu) for run, _, _, gpu, *_ in rows}, limits)
    found: dict[tuple[str, int], list[_ReplicaTime]] = defaultdict(list)
    for run, window_ms, _, gpu, member, from_ms, until_ms, ms, still_ms in rows:
        idle_ms = overlap_ms(idle.get((run, gpu), ()), from_ms, until_ms)
        there = found[run, window_ms]  # in the order of the rows: by node and GPU
        there.append(
            _ReplicaTime(run, gpu, member, len(there), from_ms, until_ms, ms, still_ms, min(idle_ms, still_ms))
        )
    return found


def _idle(
    session: Session, chunk: Chunk, pairs: set[tuple[str, str]], limits: Thresholds
) -> dict[tuple[str, str], list[Span]]:
    """Return by run and GPU when the run answered nothing and the GPU did nothing."""
    (select,) = statements("ledger/serving/silences.sql")
    silent: dict[str, list[Span]] = defaultdict(list)
    for run, from_ms, until_ms in session.rows(
        select,
        {
            "from_us": chunk.from_ms * 1000 - MARGIN_US,
            "until_us": chunk.until_ms * 1000 + MARGIN_US,
            "gap_ms": limits.read_gap_ms,
            "abandoned_ms": limits.abandoned_ms,
        },
    ):
        silent[run].append((from_ms, until_ms))
    quiet: dict[str, list[Span]] = defaultdict(list)
    for gpu, from_ms, until_ms in session.rows(_QUIET):
        quiet[gpu].append((from_ms, until_ms))
    return {
        (run, gpu): idle_spans(silent.get(run, ()), [quiet.get(gpu, ())], limits.abandoned_ms) for run, gpu in pairs
    }


_BEYOND_POLICY = "replicas beyond policy"
_IDLE_SERVICE = "idle service"
_NO_POLICY = "no policy declared"
_NO_TRAFFIC = "the requests of its replicas, throughout its policy's look-back"
_NO_COUNTER = "its count of answered requests"

_WindowKey = tuple[str, int]  # run id, window_ms


@dataclass(frozen=True, slots=True)
class ServiceWindows:
    """Windows and verdicts with what the policies say, and of whom they could not say it."""

    windows: list[RunWindow]
    verdicts: list[Verdict]
    unjudged: list[Unjudged]


@dataclass(slots=True)
class _Found:
    """What is judged of all services while they are gone through, and by which numbers."""

    limits: Thresholds
    windows: dict[_WindowKey, RunWindow]
    excesses: dict[_WindowKey, Excess]
    unjudged: list[Unjudged]


def hold_to_policy(
    session: Session,
    chunk: Chunk,
    services: Sequence[Service],
    windows: list[RunWindow],
    verdicts: list[Verdict],
    limits: Thresholds,
) -> ServiceWindows:
    """Return windows and verdicts, in their order, with what exceeds the policy of their service."""
    if not services:
        return ServiceWindows(windows, verdicts, [])
    by_run: dict[str, list[RunWindow]] = defaultdict(list)
    for window in windows:
        by_run[window.run_id].append(window)
    found = _Found(limits, {}, {}, [])
    times = _replica_times(session, chunk, limits)
    for service in services:
        own = [window for run in service.run_ids for window in by_run.get(run, ())]
        if own:
            _hold(session, service, own, times, found)
    return ServiceWindows(
        [found.windows.get((window.run_id, window.window_ms), window) for window in windows],
        [_with(verdict, found.excesses.get((verdict.run_id, verdict.window_ms))) for verdict in verdicts],
        found.unjudged,
    )


def _with(verdict: Verdict, found: Excess | None) -> Verdict:
    if found is None or verdict.is_hung:
        return verdict
    return replace(verdict, beyond_policy_permille=found.beyond_permille, idle_permille=found.idle_permille)


def _hold(
    session: Session, service: Service, own: list[RunWindow], times: dict[_WindowKey, list[_ReplicaTime]], found: _Found
) -> None:
    """Judge one service, window by window, each by the row that is in force in it."""
    by_window: dict[int, list[RunWindow]] = defaultdict(list)
    for window in own:
        by_window[window.window_ms].append(window)
    rows = {at: in_force(service.rows, at * 1000) for at in by_window}
    asked = _needs(session, service, by_window, rows, found.limits)
    whys: dict[tuple[str, int], list[str | None]] = defaultdict(list)  # by run and hour; None: judged
    for at, of_window in sorted(by_window.items()):
        policy = rows[at]
        need = asked.get(at)
        why = _NO_POLICY if policy is None else _NO_TRAFFIC if need is None or need.replicas is None else None
        for window in of_window:
            whys[window.run_id, _hour_us(window)].append(why)
        if policy is None:
            _judge_silence(at, of_window, times, found)
        elif need is not None and need.replicas is not None:
            _judge(at, policy, need.replicas, of_window, times, found)
    told = {(window.run_id, _hour_us(window)) for window in own if window.requests is not None}
    for (run, hour_us), reasons in sorted(whys.items()):
        if reasons[-1] is not None and None not in reasons:
            found.unjudged.append(Unjudged(hour_us, run, _BEYOND_POLICY, reasons[-1]))
        if (run, hour_us) not in told:
            found.unjudged.append(Unjudged(hour_us, run, _IDLE_SERVICE, _NO_COUNTER))


def _hour_us(window: RunWindow) -> int:
    return window.window_ms * 1000 // HOUR_US * HOUR_US


def _needs(
    session: Session,
    service: Service,
    by_window: dict[int, list[RunWindow]],
    rows: dict[int, Policy | None],
    limits: Thresholds,
) -> dict[int, Need]:
    asked: dict[int, Need] = {}
    held = _held_spans(session, service.run_ids)
    for policy in dict.fromkeys(row for _, row in sorted(rows.items()) if row is not None):
        at = [window for window, row in rows.items() if row == policy]
        uses = _kept_uses(session, service.run_ids, min(by_window), max(by_window), policy)
        for window, of_window in by_window.items():
            uses[window] = [Use.of(each, policy) for each in of_window]
        asked |= needs(at, uses, held, policy, limits)
    return asked


def _judge(
    at: int,
    policy: Policy,
    needed: int,
    windows: list[RunWindow],
    times: dict[_WindowKey, list[_ReplicaTime]],
    found: _Found,
) -> None:
    """Judge one window of one service: nothing is beyond its policy while its promise is not kept."""
    present = [time for window in windows for time in times.get((window.run_id, at), [])]
    replicas = _replicas(present, policy)
    for window in windows:
        found.windows[window.run_id, at] = replace(window, replicas=len(replicas), needed=needed, policy=policy.words)
    if not replicas or any(window.slow is not None and window.slow >= found.limits.late_permille for window in windows):
        return
    span_ms = max(time.until_ms for time in present) - min(time.from_ms for time in present)
    for run, over in excess(replicas, needed, span_ms).items():
        found.excesses[run, at] = over


def _judge_silence(
    at: int, windows: list[RunWindow], times: dict[_WindowKey, list[_ReplicaTime]], found: _Found
) -> None:
    """Judge one window of a service without a policy: it is idle where nobody asked any of its replicas for long.

    While one answers, the others may be its reserve; how large that may be, nobody has declared.
    """
    present = [time for window in windows for time in times.get((window.run_id, at), [])]
    if not present or any(time.idle_ms == 0 for time in present):
        return
    for window in windows:
        own = times.get((window.run_id, at), [])
        still_ms = sum(time.still_ms for time in own)
        if still_ms:
            idle_permille = sum(time.idle_ms for time in own) * 1000 // still_ms
            found.excesses[window.run_id, at] = Excess(idle_permille=idle_permille)


def _replicas(present: Sequence[_ReplicaTime], policy: Policy) -> list[Replica]:
    """Return a window's GPUs put together to replicas."""
    groups: dict[tuple[str, str], list[_ReplicaTime]] = defaultdict(list)
    for time in present:
        groups[time.run_id, time.replica_by(policy)].append(time)
    return [
        Replica(
            run,
            name,
            there_ms=max(gpu.ms for gpu in gpus),
            gpu_ms=sum(gpu.ms for gpu in gpus),
            still_ms=sum(gpu.still_ms for gpu in gpus),
            idle_ms=sum(gpu.idle_ms for gpu in gpus),
        )
        for (run, name), gpus in sorted(groups.items())
    ]
