"""Requests that wait while the GPU has nothing to do: whatever holds them up, it is not the GPU."""

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.notice import Words
from analyzer.findings.health.serving.figures import ServiceFigures, gpu_hours_of, is_worth_naming, percent

RULE = "queue_beside_idle_gpus"


def notice_words(figures: ServiceFigures) -> Words | str | None:
    """Return what is to be said, or the signal that is missing."""
    if figures.queue_ms is None or figures.queue_idle_ms is None:
        return "how many of its requests wait"
    if is_worth_naming(figures.queue_idle_ms, figures.queue_ms):
        share = percent(figures.queue_idle_ms, figures.queue_ms)
        return Words(
            f"Requests of {figures.service} waited while its GPUs had no kernel for at least {share} of the time: "
            "host threads, the scheduler or its limits hold them up, and more GPUs would not help.",
            "medium",
            (
                EvidenceLine(
                    "queue beside idle GPUs",
                    f"at least {gpu_hours_of(figures.queue_idle_ms)} GPU-hours",
                    "<- the limit",
                ),
            ),
            "a replica more shortens the queue",
        )
    return None
