"""Requests that run while the GPU has no kernel, beside a thread or a quota of the host that is full: the limit."""

from collections.abc import Iterator

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.notice import Words
from analyzer.findings.health.serving.figures import (
    FULL_PERMILLE,
    THROTTLED_PERMILLE,
    ServiceFigures,
    gpu_hours_of,
    is_worth_naming,
    percent,
)

RULE = "host_threads"


def notice_words(figures: ServiceFigures) -> Words | str | None:
    """Return what is to be said, or the signal that is missing."""
    if figures.answering_ms is None or figures.answering_idle_ms is None:
        return "how many of its requests run"
    if not is_worth_naming(figures.answering_idle_ms, figures.answering_ms):
        return None
    if figures.host_known_ms is None:
        return "processor figures of its processes or cgroup"
    if is_worth_naming(figures.host_full_ms, figures.answering_ms):
        share = percent(figures.host_full_ms, figures.answering_ms)
        return Words(
            f"{figures.service} worked on requests without a kernel on its GPUs for at least {share} of the time while "
            "its processor was full: threads of the host (tokenizing, scheduling, Python) are the limit.",
            "medium",
            (
                *_full(figures),
                EvidenceLine("requests without a kernel", f"at least {gpu_hours_of(figures.host_full_ms)} GPU-hours"),
            ),
            "more cores or more server processes do not raise requests a second at the same latency",
        )
    return None


def _full(figures: ServiceFigures) -> Iterator[EvidenceLine]:
    """Yield what of the host was full."""
    if (figures.busiest or 0) >= FULL_PERMILLE:
        yield EvidenceLine("busiest process", f"up to {(figures.busiest or 0) / 10:.0f} % of a core", "<- the limit")
    if (figures.cores or 0) >= FULL_PERMILLE:
        yield EvidenceLine("cores", f"up to {(figures.cores or 0) / 10:.0f} % of those allotted", "<- the limit")
    if (figures.throttled or 0) >= THROTTLED_PERMILLE:
        yield EvidenceLine(
            "quota", f"throttled for up to {(figures.throttled or 0) / 10:.0f} % of the time", "<- the limit"
        )
