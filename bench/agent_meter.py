"""What a watching process takes and tells: its processor time, its memory, and the metrics of its page."""

import math
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass

import psutil
from prometheus_client.parser import text_string_to_metric_families

# What prometheus_client says of the exporter itself, and the agent of itself: no reading of the host.
ABOUT_ITSELF = ("python_", "gpuledger_agent_")
ABOUT_ITS_PROCESS = {f"process_{name}" for name in ("cpu_seconds", "open_fds", "max_fds", "start_time_seconds")} | {
    f"process_{name}_memory_bytes" for name in ("virtual", "resident")
}
LATENESS = "gpuledger_agent_beat_lateness_seconds"


@dataclass(slots=True)
class Meter:
    """A process since `begin`, and the children it waited for. Processor time is the kernel's, in ticks of 10 ms."""

    process: psutil.Process
    rss_bytes_max: int = 0
    _before: float = 0.0

    def begin(self) -> None:
        """Count from now on: what it takes to start is not counted."""
        self._before = self._seconds()
        self.rss_bytes_max = 0

    def look(self) -> None:
        """Note the memory of now; to be called every second or so."""
        self.rss_bytes_max = max(self.rss_bytes_max, self.process.memory_info().rss)

    def cpu_seconds(self) -> float:
        """Return the processor time since `begin`."""
        return self._seconds() - self._before

    def _seconds(self) -> float:
        times = self.process.cpu_times()
        return times.user + times.system + times.children_user + times.children_system


@dataclass(frozen=True, slots=True)
class Page:
    """One scrape: the names of its metrics that are readings, how many series they have, and how late beats were."""

    metrics: frozenset[str]
    series: int
    lateness: tuple[tuple[float, float], ...]  # upper bound in seconds, beats that kept it; the last bound is infinite


def scrape(port: int) -> Page:
    """Return what a page of metrics says.

    Raises:
        OSError: nobody answers there.
    """
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    read = [family for family in families if family.samples and _is_reading(family.name)]
    buckets = [
        (float(sample.labels["le"]), sample.value)
        for family in families
        if family.name == LATENESS
        for sample in family.samples
        if "le" in sample.labels
    ]
    names = frozenset(family.name for family in read)
    return Page(names, sum(len(family.samples) for family in read), tuple(sorted(buckets)))


def _is_reading(name: str) -> bool:
    """Whether a family tells of the host: not names and labels, and not what DCGM's names say again."""
    itself = name.startswith(ABOUT_ITSELF) or name in ABOUT_ITS_PROCESS
    return not itself and not name.startswith("DCGM_") and not name.endswith(("_created", "_info"))


def kept_by(share: float, before: Iterable[tuple[float, float]], after: Iterable[tuple[float, float]]) -> float | None:
    """Return the lowest bound in seconds that this share of the beats between two scrapes kept; None without beats.

    It is an upper bound of the quantile: the histogram knows no more.
    """
    counts = [(bound, late - early) for (bound, late), (_, early) in zip(after, before, strict=True)]
    total = counts[-1][1] if counts else 0
    if not total:
        return None
    bounds = (bound for bound, kept in counts if kept >= math.ceil(share * total))
    return next(bounds, math.inf)
