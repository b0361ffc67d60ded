"""The evidence that serving stacks give: replicas against what the policy needs, and how many requests at once."""

from collections.abc import Sequence

from analyzer.findings.finding import EvidenceLine
from analyzer.ledger.windows import RunWindow

_WINDOW_SECONDS = 600


def reserve(windows: Sequence[RunWindow]) -> tuple[EvidenceLine | None, ...]:
    """Return what stood by, what the policy needs, and which row says so; the windows may be of several runs."""
    judged = [window for window in windows if window.needed is not None and window.replicas is not None]
    by_time = {window.window_ms: window for window in judged}  # replicas and need are the service's, in each window
    if not by_time:
        return ()
    there = sorted(window.replicas or 0 for window in by_time.values())
    needed = sorted(window.needed or 0 for window in by_time.values())
    beyond = sum((window.replicas or 0) > (window.needed or 0) for window in by_time.values())
    newest = max(judged, key=lambda window: window.window_ms)
    return (
        EvidenceLine(
            "replicas",
            f"{_span(there)}, where the policy needs {_span(needed)}",
            "<- beyond policy" if beyond * 2 >= len(by_time) else "",
        ),
        EvidenceLine("policy", newest.policy or ""),
        _answered(windows),
    )


def at_once(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    """Return how many requests a server worked on at once; None where its stack does not say."""
    told = [window for window in windows if window.running_milli is not None]
    if not told:
        return None
    mean = sum((window.running_milli or 0) * window.ms for window in told) / max(1, sum(window.ms for window in told))
    waiting = [window.waiting_milli for window in told if window.waiting_milli is not None]
    tail = f", {sum(waiting) / len(waiting) / 1000:.1f} waiting" if waiting else ""
    return EvidenceLine(
        "requests",
        f"{mean / 1000:.1f} at once on average at each address{tail}",
        "<- unbatched" if mean <= 1_200 else "",
    )


def _answered(windows: Sequence[RunWindow]) -> EvidenceLine | None:
    """Return the requests that these runs answered in the same windows; hours are summed over runs."""
    told = [window.requests for window in windows if window.requests is not None]
    if not told:
        return None
    return EvidenceLine(
        "requests of these runs",
        f"{sum(told):,} in the {len(told) * _WINDOW_SECONDS / 3600:,.1f} hours that they stood by",
    )


def _span(values: Sequence[int]) -> str:
    return str(values[0]) if values[0] == values[-1] else f"{values[0]} to {values[-1]}"
