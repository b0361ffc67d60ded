"""What of a service's stand-still is no reserve, GPU by GPU.

Replicas beyond its policy, judged by the traffic of the days before; those that nobody asked for long; and what stood
still while requests ran.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent.wire.units import HOUR_MS, HOUR_US
from analyzer.ledger.causes.serving_policy import (
    Excess,
    Need,
    Policy,
    Replica,
    Service,
    Span,
    Use,
    idle_spans,
    in_force,
    needs,
    overlap_ms,
    replicas_of,
    surplus,
)
from analyzer.ledger.coverage import Unjudged
from analyzer.ledger.pending import MARGIN_US, Chunk
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow, Verdict
from analyzer.queries.statements import statements
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
    session: Session, run_ids: Sequence[str], from_ms: int, until_ms: int, policy: Policy
) -> dict[int, list[Use]]:
    """Return by window what these runs are known to have done in [from_ms, until_ms) and the look-back before it."""
    found: dict[int, list[Use]] = defaultdict(list)
    first_ms = from_ms - policy.look_back_hours * HOUR_MS
    for at, ms, gpus, still, members, requests, requests_ms in session.rows(
        _USES, [list(run_ids), first_ms * 1000, until_ms * 1000]
    ):
        found[at].append(Use(ms, gpus, still, replicas_of(gpus, members, policy), requests, requests_ms))
    return found


def _held_spans(session: Session, run_ids: Sequence[str]) -> dict[str, list[Span]]:
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
    idle_ms: int  # of still_ms: in spans long enough for an abandoned GPU, without a request of its run
    unasked_ms: int  # the same, while other GPUs of its run worked and the count was read: those were asked

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
        idle_ms, unasked_ms = (
            min(overlap_ms(idle[is_silent].get((run, gpu), ()), from_ms, until_ms), still_ms)
            for is_silent in (True, False)
        )
        there = found[run, window_ms]  # in the order of the rows: by node and GPU
        there.append(_ReplicaTime(run, gpu, member, len(there), from_ms, until_ms, ms, still_ms, idle_ms, unasked_ms))
    return {key: _beside_work(there, limits) for key, there in found.items()}


def _beside_work(there: list[_ReplicaTime], limits: Thresholds) -> list[_ReplicaTime]:
    """Return the GPUs of a run in a window, unasked only where another of them worked."""
    works = {time for time in there if (time.ms - time.still_ms) * 1000 >= time.ms * limits.active_permille}
    return [time if works - {time} else replace(time, unasked_ms=0) for time in there]


def _idle(
    session: Session, chunk: Chunk, pairs: set[tuple[str, str]], limits: Thresholds
) -> dict[bool, dict[tuple[str, str], list[Span]]]:
    """Return by run and GPU when the GPU did nothing, and the run answered nothing (True) or told what it did."""
    (select,) = statements("ledger/serving/silences.sql")
    told: dict[tuple[bool, str], list[Span]] = defaultdict(list)
    for run, is_silent, from_ms, until_ms in session.rows(
        select,
        {
            "from_us": chunk.from_ms * 1000 - MARGIN_US,
            "until_us": chunk.until_ms * 1000 + MARGIN_US,
            "gap_ms": limits.read_gap_ms,
            "abandoned_ms": limits.abandoned_ms,
        },
    ):
        told[is_silent, run].append((from_ms, until_ms))
    quiet: dict[str, list[Span]] = defaultdict(list)
    for gpu, from_ms, until_ms in session.rows(_QUIET):
        quiet[gpu].append((from_ms, until_ms))
    return {
        is_silent: {
            (run, gpu): idle_spans(told.get((is_silent, run), ()), [quiet.get(gpu, ())], limits.abandoned_ms)
            for run, gpu in pairs
        }
        for is_silent in (True, False)
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
    excesses: dict[_ReplicaTime, Excess]
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
    _store_excesses(session, {}, {})
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
    _store_excesses(session, times, found.excesses)
    return ServiceWindows(
        [found.windows.get((window.run_id, window.window_ms), window) for window in windows],
        [_with(verdict, times.get((verdict.run_id, verdict.window_ms), ()), found) for verdict in verdicts],
        found.unjudged,
    )


def _with(verdict: Verdict, times: Sequence[_ReplicaTime], found: _Found) -> Verdict:
    """Return a verdict with what its GPUs' stand-still exceeds, of all of them together; each is booked by its own."""
    still_ms = sum(time.still_ms for time in times)
    if not still_ms or verdict.is_hung:
        return verdict
    own = [(time.still_ms, found.excesses[time]) for time in times if time in found.excesses]
    return replace(
        verdict,
        beyond_policy_permille=sum(ms * excess.beyond_permille for ms, excess in own) // still_ms,
        idle_permille=sum(ms * excess.idle_permille for ms, excess in own) // still_ms,
    )


def _store_excesses(
    session: Session, times: Mapping[_WindowKey, Sequence[_ReplicaTime]], excesses: Mapping[_ReplicaTime, Excess]
) -> None:
    """Fill the temporary table `excesses` with what is booked of each GPU's stand-still, by run, GPU and window."""
    session.execute(
        """
        CREATE OR REPLACE TEMP TABLE excesses_found (
            run_id VARCHAR, uuid VARCHAR, window_ms BIGINT, beyond_permille BIGINT, idle_permille BIGINT,
            asked_permille BIGINT)
        """
    )
    rows = [
        (run, time.gpu_uuid, at, excess.beyond_permille, excess.idle_permille, excess.asked_permille)
        for (run, at), there in times.items()
        for time in there
        if (excess := excesses.get(time))
    ]
    columns = ("run_id", "uuid", "window_ms", "beyond_permille", "idle_permille", "asked_permille")
    session.load("excesses_found", columns, rows)
    session.execute(
        """
        CREATE OR REPLACE TEMP TABLE excesses AS
        SELECT k.rid, u.uid, e.* EXCLUDE (run_id, uuid)
        FROM excesses_found e JOIN run_keys k USING (run_id) JOIN units u USING (uuid)
        """
    )


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
        for window in of_window:
            _judge_asked(window, times.get((window.run_id, at), ()), found)
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
    for replica, over in surplus(list(replicas), needed, span_ms).items():
        for time in replicas[replica]:
            found.excesses[time] = over


def _judge_silence(
    at: int, windows: list[RunWindow], times: dict[_WindowKey, list[_ReplicaTime]], found: _Found
) -> None:
    """Judge one window of a service without a policy: it is idle where nobody asked any of its replicas for long.

    While one run answers, the others may be its reserve; how large that may be, nobody has declared. Within a run that
    answers, a GPU that none of its requests reached for as long is none.
    """
    present = [time for window in windows for time in times.get((window.run_id, at), [])]
    is_silent = all(time.idle_ms for time in present)
    for time in present:
        idle_ms = time.idle_ms if is_silent else time.unasked_ms
        if idle_ms:
            found.excesses[time] = Excess(idle_permille=idle_ms * 1000 // time.still_ms)


def _judge_asked(window: RunWindow, times: Sequence[_ReplicaTime], found: _Found) -> None:
    """Judge what stood still while requests ran: it waited for its host, or for nothing that anybody knows.

    Of the GPUs that are not surplus: requests were with those. Two shares of the same ten minutes overlap for at least
    what they have over the whole.
    """
    asked = [time for time in times if time not in found.excesses]
    ms, still_ms = sum(time.ms for time in asked), sum(time.still_ms for time in asked)
    if window.answering is None or not still_ms:
        return
    answering = min(1000, window.answering * sum(time.ms for time in times) // ms)
    both = still_ms * 1000 // ms + answering - 1000
    if both >= found.limits.low_permille:
        for time in asked:
            found.excesses[time] = Excess(asked_permille=min(1000, both * ms // still_ms))


def _replicas(present: Sequence[_ReplicaTime], policy: Policy) -> dict[Replica, list[_ReplicaTime]]:
    """Return a window's GPUs put together to replicas."""
    groups: dict[tuple[str, str], list[_ReplicaTime]] = defaultdict(list)
    for time in present:
        groups[time.run_id, time.replica_by(policy)].append(time)
    return {
        Replica(
            run,
            name,
            there_ms=max(gpu.ms for gpu in gpus),
            gpu_ms=sum(gpu.ms for gpu in gpus),
            still_ms=sum(gpu.still_ms for gpu in gpus),
            idle_ms=sum(max(gpu.idle_ms, gpu.unasked_ms) for gpu in gpus),
        ): gpus
        for (run, name), gpus in sorted(groups.items())
    }
