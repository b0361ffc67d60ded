"""A GPU that is busy with one request at a time. What little of the chip it uses is booked as underused/unbatched."""

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.notice import Words
from analyzer.findings.health.serving.figures import ServiceFigures, gpu_hours_of, is_worth_naming, percent

RULE = "unbatched"
_QUEUED_PERMILLE = 100  # ours: a queue in a tenth of the time is a load that could have been batched


def notice_words(figures: ServiceFigures) -> Words | str | None:
    """Return what is to be said, or the missing signal. One at a time that nobody waits behind is just the load."""
    if figures.answering_ms is None:
        return "how many of its requests run"
    if figures.single_ms is None or not is_worth_naming(figures.single_ms, figures.gpu_ms):
        return None
    if figures.single_queued is None:
        return "how many of its requests wait"
    if figures.single_queued >= _QUEUED_PERMILLE:
        share = percent(figures.single_ms, figures.busy_ms or figures.single_ms)
        return Words(
            f"{figures.service} answers its requests one by one, and others wait: {share} of its busy time was spent "
            "so. Batching would answer them together on the same GPU.",
            "medium",
            (
                EvidenceLine(
                    "requests at once", f"about 1 for {gpu_hours_of(figures.single_ms)} GPU-hours", "<- unbatched"
                ),
                EvidenceLine("queue meanwhile", f"{figures.single_queued / 10:.0f} % of the time"),
            ),
            "batching does not raise requests a second at the same latency",
        )
    return None
