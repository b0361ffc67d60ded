"""Memory in use on a GPU that nobody holds: a process that nobody knows, or one that died and left it behind."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.limits import LIMITS, NoticeLimits
from analyzer.findings.health.notice import Notice, Span, notice_id
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.wording import gib, length_of_time, percent

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "fleet/zombie_memory"


@dataclass(frozen=True, slots=True)
class Unheld:
    """One GPU in the hours in which nobody held it and its memory was never empty."""

    node: str
    gpu_uuid: str
    ms: int  # of nobody's, within those hours
    bytes: int  # the least that was in use
    utilization: int | None  # the most, permille
    first_hour: int


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each GPU with memory that nobody answers for, by host and GPU."""
    select, told = statements("findings/health/zombie_memory.sql")
    if not session.row(told)[0]:
        yield span.unjudged(_RULE, "no memory in use of GPUs was told")
        return
    values: dict[str, object] = {
        "start": span.start_us,
        "end": span.end_us,
        "bytes": LIMITS.zombie_bytes,
        "ms": LIMITS.zombie_ms,
    }
    for row in session.rows(select, values):
        yield from notices_of(Unheld(*row))


def notices_of(unheld: Unheld, limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice where enough memory was in use for long enough."""
    if unheld.bytes < limits.zombie_bytes or unheld.ms < limits.zombie_ms:
        return
    is_working = unheld.utilization is not None and unheld.utilization > 0
    todo = (
        "find who computes there past the scheduler"
        if is_working
        else "find whose process it is and ask for its end, which loses what it holds; where none is left, reset it"
    )
    yield Notice(
        notice_id(_RULE, unheld.gpu_uuid),
        _RULE,
        unheld.gpu_uuid,
        f"{gib(unheld.bytes)} of its memory in use for {length_of_time(unheld.ms)} while nobody held it: {todo}",
        "platform",
        "medium" if is_working else "high",
        node=unheld.node,
        gpu_uuid=unheld.gpu_uuid,
        evidence=(
            EvidenceLine("memory in use", f"never under {gib(unheld.bytes)}"),
            EvidenceLine("holders", "no run and no known process", length_of_time(unheld.ms)),
            EvidenceLine(
                "utilization",
                "not told" if unheld.utilization is None else f"{percent(unheld.utilization)} at most",
            ),
        ),
        wrong_if="a run holds it that the scheduler did not tell of, or a daemon keeps a context on purpose",
    )
