"""What is known of one service in a period, and how a notice of it is put."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_MS
from analyzer.findings.health.notice import Notice, Span, Words
from analyzer.ids import short_id
from analyzer.ledger.thresholds import Thresholds
from analyzer.queries.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session

# Less than a twentieth of the time is not worth naming: the band of TF Profiler (algorithms.md 1.1).
_WORTH_PERMILLE = 50
FULL_PERMILLE = 900  # a thread that fills its core (algorithms.md 1.2: one host thread at 100 %)
THROTTLED_PERMILLE = 50  # of the time, by the quota of its cgroup
_BUSY_PERMILLE = 500
_STANDING_PERMILLE = 900  # ours: a GPU without a kernel for nine minutes of ten stands by
_SINGLE_MILLI = 1_200  # ours: 1.2 requests at once; a gauge read every ten seconds is not exact


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

    def notice(self, kind: str, words: Words) -> Notice:
        """Return a notice about this service; its id depends on the rule, the service and its team."""
        return Notice(
            short_id("n", "serving", kind, self.service, self.team or ""),
            f"serving/{kind}",
            self.service,
            words.sentence,
            "run",
            words.confidence,
            run_ids=self.run_ids,
            team=self.team,
            evidence=tuple(words.evidence),
            wrong_if=words.wrong_if,
        )


def read(session: "Session", span: Span) -> Iterator[ServiceFigures]:
    """Yield the services of a period by name."""
    (select,) = statements("findings/health/serving.sql")
    asked: dict[str, object] = {
        "start": span.start_us,
        "end": span.end_us,
        "full": FULL_PERMILLE,
        "throttled": THROTTLED_PERMILLE,
        "busy": _BUSY_PERMILLE,
        "standing": _STANDING_PERMILLE,
        "single": _SINGLE_MILLI,
        "late": Thresholds().late_permille,
    }
    for service, team, run_ids, *sums in session.rows(select, asked):
        yield ServiceFigures(service, team, tuple(run_ids), *sums)


def gpu_hours_of(milliseconds: int) -> str:
    """Return GPU-milliseconds as GPU-hours, for a sentence."""
    return f"{milliseconds / HOUR_MS:,.1f}"


def percent(part: int, whole: int) -> str:
    """Return a share in percent, for a sentence."""
    return f"{100 * part / max(1, whole):.0f} %"


def is_worth_naming(part: int, whole: int) -> bool:
    """Say whether a share of time is large enough to be told."""
    return part > 0 and part * 1000 >= whole * _WORTH_PERMILLE
