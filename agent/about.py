"""The agent about itself: a source of agent_samples, and the metrics that are no columns of the contract."""

import os
import resource
from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from agent.sampler import Beats, Sampler
from agent.sender import Sender
from agent.source import Reading
from agent.spool import Spool


class AgentSource:
    """Reads what the agent costs and what it lost; amounts are since the last reading.

    Spool and sender are None where nothing is sent.
    """

    name = "agent"
    period_seconds = 0.0

    def __init__(self, beats: Beats, spool: Spool | None, sender: Callable[[], Sender | None], proc: Path) -> None:
        self._beats = beats
        self._spool = spool
        self._sender = sender
        self._proc = proc
        self._last: dict[str, float] | None = None

    def read(self) -> Reading:
        """Return one row of agent_samples."""
        now = self._counters()
        row: dict[str, float | int | None] = {"rss_bytes": rss_bytes(self._proc)}
        if self._last is not None:
            row |= {name: now[name] - self._last[name] for name in now}
        self._last = now
        if self._spool is not None:
            row["spool_bytes"] = self._spool.waiting_bytes
            if row.get("dropped_batches"):
                row["dropped_from"] = self._spool.counts.dropped_from
                row["dropped_until"] = self._spool.counts.dropped_until
        if (sender := self._sender()) is not None:
            row["clock_offset_seconds"] = sender.counts.clock_offset_seconds
        return {"agent_samples": [row]}

    def _counters(self) -> dict[str, float]:
        dropped = self._spool.counts.dropped + self._spool.counts.unwritten if self._spool else 0
        return {
            "cpu_seconds": cpu_seconds(),
            "beats_late": self._beats.late,
            "gaps": self._beats.missed,
            "dropped_batches": dropped,
        }


def cpu_seconds() -> float:
    """Return the processor time of this process so far. Source: getrusage(2)."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss_bytes(proc: Path) -> int | None:
    """Return the memory of this process, or None where procfs does not say. Source: /proc/self/statm."""
    try:
        return int((proc / "self" / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def own_families(sampler: Sampler, spool: Spool | None, sender: Sender | None) -> Iterable[Metric]:
    """Yield what the agent's operator needs beyond the contract: which sources fail, and what became of batches."""
    up = GaugeMetricFamily("gpuledger_agent_source_up", "1 where the last reading succeeded.", labels=("source",))
    failures = CounterMetricFamily("gpuledger_agent_source_failures_total", "Readings that failed.", labels=("source",))
    for track in sampler.tracks:
        up.add_metric((track.source.name,), track.failing is None)
        failures.add_metric((track.source.name,), track.failures)
    yield up
    yield failures
    implausible = sampler.plausibility.refused
    yield _counter("gpuledger_agent_implausible_values_total", "Values that cannot be true, left out.", implausible)
    if spool is not None:
        yield GaugeMetricFamily("gpuledger_agent_spool_batches", "Batches waiting on disk.", value=spool.waiting)
        yield _counter("gpuledger_agent_quarantined_total", "Files and batches set aside.", spool.quarantined)
        yield _counter("gpuledger_agent_unwritten_batches_total", "Batches the disk refused.", spool.counts.unwritten)
    if sender is not None:
        counts = sender.counts
        yield _counter("gpuledger_agent_delivered_batches_total", "Batches the collector has.", counts.delivered)
        yield _counter("gpuledger_agent_refused_batches_total", "Batches it will never take.", counts.refused)
        yield _counter("gpuledger_agent_send_failures_total", "Tries that ended without it.", counts.failures)


def _counter(name: str, help: str, value: float) -> Metric:  # noqa: A002  what the family calls it
    return CounterMetricFamily(name, help, value=value)
