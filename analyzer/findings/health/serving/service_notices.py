"""Every rule of services, each asked of each service of the period."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from analyzer.findings.health.notice import Notice, Span, Words
from analyzer.findings.health.serving import cold_starts, host_threads, kv_cache, late, queue, unbatched
from analyzer.findings.health.serving.figures import ServiceFigures, read
from analyzer.ledger.unjudged import Unjudged

if TYPE_CHECKING:
    from collector.store.session import Session

ServiceRule = Callable[[ServiceFigures], Words | str | None]  # a text is the signal that is missing

SERVICE_RULES: tuple[tuple[str, ServiceRule], ...] = (
    (kv_cache.RULE, kv_cache.notice_words),
    (queue.RULE, queue.notice_words),
    (host_threads.RULE, host_threads.notice_words),
    (unbatched.RULE, unbatched.notice_words),
    (late.RULE, late.notice_words),
)


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield what is to be looked at, by service and rule, and what could not be judged for want of a signal."""
    for figures in read(session, span):
        for rule, judge in SERVICE_RULES:
            said = judge(figures)
            if isinstance(said, Words):
                yield figures.notice(rule, said)
            elif said is not None:
                yield Unjudged(span.start_us, figures.service, f"serving/{rule}", f"not told: {said}")
    yield from cold_starts.find_notices(session, span)
