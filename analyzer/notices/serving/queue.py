"""Requests that wait while the GPU has nothing to do: whatever holds them up, it is not the GPU."""

from collections.abc import Iterator

from analyzer.findings import Evidence
from analyzer.notices.notice import Notice
from analyzer.notices.serving.figures import Figures, hours, is_worth_naming, percent

RULE = "queue_beside_idle_gpus"


def judge(figures: Figures) -> Iterator[Notice | str]:
    """Yield the notice, or the signal that is missing."""
    if figures.queue_ms is None or figures.queue_idle_ms is None:
        yield "how many of its requests wait"
    elif is_worth_naming(figures.queue_idle_ms, figures.queue_ms):
        share = percent(figures.queue_idle_ms, figures.queue_ms)
        yield figures.notice(
            RULE,
            f"Requests of {figures.service} waited while its GPUs had no kernel for at least {share} of the time: "
            "host threads, the scheduler or its limits hold them up, and more GPUs would not help.",
            (Evidence("queue beside idle GPUs", f"at least {hours(figures.queue_idle_ms)} GPU-hours", "<- the limit"),),
            "a replica more shortens the queue",
            "medium",
        )
