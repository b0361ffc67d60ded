"""Hold each service to its policy: read what its replicas did, judge, and put it beside the verdicts."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.wire.units import HOUR_US
from analyzer.ledger.causes.serving.history import held_spans, kept_uses
from analyzer.ledger.causes.serving.policy import Policy, in_force
from analyzer.ledger.causes.serving.replicas import ReplicaTime, replica_times
from analyzer.ledger.causes.serving.services import Service
from analyzer.ledger.causes.serving.surplus import Excess, Replica, excess
from analyzer.ledger.causes.serving.traffic import Need, Use, needs
from analyzer.ledger.pending import Chunk
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.unjudged import Unjudged
from analyzer.ledger.windows import RunWindow, Verdict
from collector.store.session import Session

_BEYOND_POLICY = "replicas beyond policy"
_IDLE_SERVICE = "idle service"
_NO_POLICY = "no policy declared"
_NO_TRAFFIC = "the requests of its replicas, throughout its policy's look-back"
_NO_COUNTER = "its count of answered requests"

WindowKey = tuple[str, int]  # run id, window_ms


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
    windows: dict[WindowKey, RunWindow]
    excesses: dict[WindowKey, Excess]
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
    times = replica_times(session, chunk, limits)
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
    session: Session, service: Service, own: list[RunWindow], times: dict[WindowKey, list[ReplicaTime]], found: _Found
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
    held = held_spans(session, service.run_ids)
    for policy in dict.fromkeys(row for _, row in sorted(rows.items()) if row is not None):
        at = [window for window, row in rows.items() if row == policy]
        uses = kept_uses(session, service.run_ids, min(by_window), max(by_window), policy)
        for window, of_window in by_window.items():
            uses[window] = [Use.of(each, policy) for each in of_window]
        asked |= needs(at, uses, held, policy, limits)
    return asked


def _judge(
    at: int,
    policy: Policy,
    needed: int,
    windows: list[RunWindow],
    times: dict[WindowKey, list[ReplicaTime]],
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


def _judge_silence(at: int, windows: list[RunWindow], times: dict[WindowKey, list[ReplicaTime]], found: _Found) -> None:
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


def _replicas(present: Sequence[ReplicaTime], policy: Policy) -> list[Replica]:
    """Return a window's GPUs put together to replicas."""
    groups: dict[tuple[str, str], list[ReplicaTime]] = defaultdict(list)
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
