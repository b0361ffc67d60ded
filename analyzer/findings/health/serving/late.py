"""First tokens later than promised while other replicas of the service stand by: requests go the wrong way."""

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.notice import Words
from analyzer.findings.health.serving.figures import ServiceFigures, gpu_hours_of

RULE = "late_while_replicas_stand_by"
_PERSISTENT_WINDOWS = 3  # half an hour (algorithms.md 1.4)


def notice_words(figures: ServiceFigures) -> Words | str | None:
    """Return what is to be said, or the signal that is missing."""
    if figures.slo_ms is None:
        return "its first-token times, or what it promises (slo_seconds)"
    if figures.late_windows >= _PERSISTENT_WINDOWS:
        runs = "a run" if figures.late_standing == 1 else f"up to {figures.late_standing} runs"
        return Words(
            f"First tokens of {figures.service} came later than promised in {figures.late_windows} windows of "
            f"ten minutes while {runs} of it stood by: see how requests spread.",
            "medium",
            (
                EvidenceLine(
                    "late, with replicas standing by", f"{figures.late_windows / 6:.1f} hours", "<- the limit"
                ),
                EvidenceLine("standing by meanwhile", f"{gpu_hours_of(figures.late_standing_ms)} GPU-hours"),
            ),
            "requests spread evenly over its replicas are as late",
        )
    return None
