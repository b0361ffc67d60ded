"""Services to look at: full caches, queues beside idle GPUs, full threads, single requests, late tokens, starts."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from agent.wire.units import DAY_US, HOUR_MS
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.notice import LIMITS, Notice, Span, noticed, rows_of, values_of
from analyzer.findings.words import rows
from analyzer.ledger.coverage import Unjudged
from analyzer.ledger.thresholds import Thresholds
from analyzer.queries.statements import statements
from analyzer.text.words import percent
from collector.store.session import Session

# Less than a twentieth of the time is not worth naming: the band of TF Profiler (algorithms.md 1.1).
_WORTH_PERMILLE = 50
_FULL_PERMILLE = 900  # a thread that fills its core (algorithms.md 1.2: one host thread at 100%)
_THROTTLED_PERMILLE = 50  # of the time, by the quota of its cgroup
_BUSY_PERMILLE = 500
_STANDING_PERMILLE = 900  # ours: a GPU without a kernel for nine minutes of ten stands by
_SINGLE_MILLI = 1_200  # ours: 1.2 requests at once; a gauge read every ten seconds is not exact
_QUEUED_PERMILLE = 100  # ours: a queue in a tenth of the time is a load that could have been batched
_PERSISTENT_WINDOWS = 3  # half an hour (algorithms.md 1.4)
_UNREAD_LEAST_MS = 600_000  # ten minutes: a server that starts again is away for less
_STARTS_LEAST = 2  # one start is a start, if it is a short one
_LIMIT = "<- the limit"

Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """Sums over a service's runs, GPU-milliseconds unless named otherwise. None where its stack or hosts do not tell.

    `x_ms` is the time in which x could be seen, what follows it the time in which it was.
    """

    service: str
    team: str | None
    run_ids: tuple[str, ...]
    gpu_ms: int
    kv_ms: int | None = None
    kv_full_ms: int | None = None
    kv_most: int | None = None  # permille, of the fullest window
    queue_ms: int | None = None
    queue_idle_ms: int | None = None  # at least so long: requests waited and the GPU had no kernel
    answering_ms: int | None = None
    answering_idle_ms: int | None = None  # at least so long: requests ran and the GPU had no kernel
    host_known_ms: int | None = None  # of the latter, with figures of the host
    host_full_ms: int = 0
    busiest: int | None = None  # permille of a core
    cores: int | None = None  # permille of those allotted
    throttled: int | None = None
    busy_ms: int | None = None  # in windows that were busy, with requests running
    single_ms: int | None = None  # of it: one request at a time
    single_queued: int | None = None  # permille of that with a queue
    slo_ms: int | None = None
    late_windows: int = 0  # windows in which first tokens were late while a run of the service stood by
    late_standing_ms: int = 0
    late_standing: int = 0  # runs


def _full_cache(figures: ServiceFigures) -> Values | str | None:
    """A KV cache that is full while requests wait: its memory is the limit, and the stack preempts what it began."""
    if figures.kv_ms is None or figures.kv_full_ms is None:
        return "the use of its KV cache and its queue"
    if not _is_worth_naming(figures.kv_full_ms, figures.kv_ms):
        return None
    return {"share": percent(figures.kv_full_ms, figures.kv_ms, 0), "kv_most_percent": (figures.kv_most or 0) / 10}


def _idle_beside_queue(figures: ServiceFigures) -> Values | str | None:
    """Requests that wait while the GPU has nothing to do: whatever holds them up, it is not the GPU."""
    if figures.queue_ms is None or figures.queue_idle_ms is None:
        return "how many of its requests wait"
    if not _is_worth_naming(figures.queue_idle_ms, figures.queue_ms):
        return None
    return {"share": percent(figures.queue_idle_ms, figures.queue_ms, 0)}


def _full_host(figures: ServiceFigures) -> Values | str | None:
    """Requests that run while the GPU has no kernel, beside a thread or a quota of the host that is full."""
    if figures.answering_ms is None or figures.answering_idle_ms is None:
        return "how many of its requests run"
    if not _is_worth_naming(figures.answering_idle_ms, figures.answering_ms):
        return None
    if figures.host_known_ms is None:
        return "CPU figures of its processes or cgroup"
    if not _is_worth_naming(figures.host_full_ms, figures.answering_ms):
        return None
    return {"share": percent(figures.host_full_ms, figures.answering_ms, 0)}


def unbatched(figures: ServiceFigures) -> Values | str | None:
    """A GPU that is busy with one request at a time; one that nobody waits behind is just the load.

    What little of the chip it uses is booked as underused/unbatched.
    """
    if figures.answering_ms is None:
        return "how many of its requests run"
    if figures.single_ms is None or not _is_worth_naming(figures.single_ms, figures.gpu_ms):
        return None
    if figures.single_queued is None:
        return "how many of its requests wait"
    if figures.single_queued < _QUEUED_PERMILLE:
        return None
    share = percent(figures.single_ms, figures.busy_ms or figures.single_ms, 0)
    return {"share": share, "queued_percent": figures.single_queued / 10}


def _late_beside_standing(figures: ServiceFigures) -> Values | str | None:
    """First tokens later than promised while other replicas of the service stand by: requests go the wrong way."""
    if figures.slo_ms is None:
        return "its first-token times or its SLO (slo_seconds)"
    if figures.late_windows < _PERSISTENT_WINDOWS:
        return None
    runs = "a run" if figures.late_standing == 1 else f"up to {figures.late_standing} runs"
    return {"runs": runs, "late_hours": figures.late_windows / 6}


# What each says of a service: values for its words, the signal that it lacked, or nothing.
ServiceRule = Callable[[ServiceFigures], Values | str | None]
SERVICE_RULES: tuple[tuple[str, ServiceRule], ...] = (
    ("kv_cache_full", _full_cache),
    ("queue_beside_idle_gpus", _idle_beside_queue),
    ("host_threads", _full_host),
    ("unbatched", unbatched),
    ("late_while_replicas_stand_by", _late_beside_standing),
)


@dataclass(frozen=True, slots=True)
class Starts:
    """The starts of one service in a period, milliseconds: GPUs that a run took at one time start once."""

    service: str
    team: str | None
    run_ids: tuple[str, ...]
    held_ms: int
    starting_ms: int
    starts: int
    gpus: int
    usual_ms: int | None
    longest_ms: int
    answer_ms: int | None  # the median run's time from its start to its first answered request


@dataclass(frozen=True, slots=True)
class UnreadTime:
    """How long a service's metrics were asked for in a period, and not read, milliseconds."""

    service: str
    team: str | None
    run_ids: tuple[str, ...]
    told_ms: int
    unread_ms: int


def _unread_notices(of: UnreadTime, state: str) -> Iterator[Notice]:
    """Yield the notice where a share worth naming was not read: what the service did then, nobody knows."""
    if _is_worth_naming(of.unread_ms, of.told_ms):
        why = rows("unread").get(state, state.replace("_", " "))
        share = percent(of.unread_ms, of.told_ms, 0)
        yield _of_service("unread", of, {"share": share, "state": state, "why": why})


_SERVES = "SELECT 1 FROM runs WHERE stage = 'serving' LIMIT 1"  # on few sites; what is asked of them takes long to plan


def find_service_notices(session: Session, span: Span) -> Iterator[Notice | Unjudged]:
    """Yield what is to be looked at, by service and rule, and what could not be judged for want of a signal."""
    is_serving = bool(session.rows(_SERVES))
    for figures in _figures(session, span) if is_serving else ():
        for name, judge in SERVICE_RULES:
            said = judge(figures)
            if isinstance(said, str):
                yield Unjudged(span.start_us, figures.service, f"serving/{name}", f"not reported: {said}")
            elif said is not None:
                lines = [*_full(figures)] if judge is _full_host else None
                yield _of_service(name, figures, said, lines)
    (unread,) = statements("findings/health/unread.sql")
    for service, team, run_ids, *sums, state in rows_of(session, span, unread, unread_ms=_UNREAD_LEAST_MS):
        yield from _unread_notices(UnreadTime(service, team, tuple(run_ids), *sums), state)
    if not is_serving:
        return
    (select,) = statements("findings/health/cold_starts.sql")
    for service, team, run_ids, *sums in rows_of(session, span, select, together_us=LIMITS.long_start_ms * 1000):
        starts = Starts(service, team, tuple(run_ids), *sums)
        yield from start_notices(starts, span)
        if starts.starts and starts.answer_ms is None:
            yield Unjudged(span.start_us, service, "serving/first answer", "not reported: its answered requests")


def start_notices(starts: Starts, span: Span) -> Iterator[Notice]:
    """Yield the notice where starting is a part of the service's cost: several starts, or one that takes long."""
    is_usual = starts.starts < _STARTS_LEAST and starts.longest_ms <= LIMITS.long_start_ms
    if is_usual or starts.starting_ms * 1000 < starts.held_ms * LIMITS.long_start_permille:
        return
    values = {
        "share": percent(starts.starting_ms, starts.held_ms, 0),
        "days": max(1, (span.end_us - span.start_us) // DAY_US),
        "usual": (starts.usual_ms or 0) / 1000,
        "longest": starts.longest_ms / 1000,
    }
    notice = _of_service("cold_starts", starts, values)
    if starts.answer_ms is not None:
        minutes = f"{starts.answer_ms / 60_000:.1f} min after the start of a run (median)"
        notice = replace(notice, evidence=(*notice.evidence, EvidenceLine("first answer", minutes)))
    yield notice


def _of_service(
    name: str, of: ServiceFigures | Starts | UnreadTime, values: Values, evidence: list[EvidenceLine] | None = None
) -> Notice:
    """Return a notice about a service; its id depends on the rule, the service and its team."""
    rule, said = f"serving/{name}", values_of(of, **values)
    key = ("serving", name, of.service, of.team or "")
    return noticed(rule, of.service, said, key=key, evidence=evidence, run_ids=of.run_ids, team=of.team)


def _figures(session: Session, span: Span) -> Iterator[ServiceFigures]:
    """Yield the services of a period by name."""
    (select,) = statements("findings/health/serving.sql")
    marks = {
        "full": _FULL_PERMILLE,
        "throttled": _THROTTLED_PERMILLE,
        "busy": _BUSY_PERMILLE,
        "standing": _STANDING_PERMILLE,
        "single": _SINGLE_MILLI,
        "late": Thresholds().late_permille,
    }
    for service, team, run_ids, *sums in rows_of(session, span, select, **marks):
        yield ServiceFigures(service, team, tuple(run_ids), *sums)


def _full(figures: ServiceFigures) -> Iterator[EvidenceLine]:
    """Yield what of the host was full, and what of the service's time that took."""
    for what, mark, seen, template in (
        ("busiest process", _FULL_PERMILLE, figures.busiest, "up to {:.0f}% of a core"),
        ("cores", _FULL_PERMILLE, figures.cores, "up to {:.0f}% of those allotted"),
        ("quota", _THROTTLED_PERMILLE, figures.throttled, "throttled for up to {:.0f}% of the time"),
    ):
        if (seen or 0) >= mark:
            yield EvidenceLine(what, template.format((seen or 0) / 10), _LIMIT)
    yield EvidenceLine("requests without a kernel", f"at least {figures.host_full_ms / HOUR_MS:,.1f} GPU-hours")


def _is_worth_naming(part: int, whole: int) -> bool:
    """Say whether a share of time is large enough to be told."""
    return part > 0 and part * 1000 >= whole * _WORTH_PERMILLE
