"""The agent about itself: a source of agent_samples, and the metrics that are no columns of the contract."""

import os
import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from agent.attribution.providers import Condition
from agent.delivery.sender import Sender
from agent.procfs import text
from agent.sampling.lateness import LATENESS_SECONDS, Beats
from agent.sampling.sampler import Sampler
from agent.sampling.wiring import HostSources
from agent.source import Reading, Value
from agent.spool import Spool


@dataclass(frozen=True, slots=True)
class AgentState:
    """The agent's parts, as far as it tells of them; spool and sender are None where nothing is sent."""

    sampler: Sampler
    spool: Spool | None
    sender: Sender | None
    host_sources: HostSources
    paused: bool = False


class AgentSource:
    """Reads what the agent costs, what it lost and what it sees; amounts are since the last reading."""

    name = "agent"
    period_seconds = 0.0

    def __init__(self, state: Callable[[], AgentState], proc: Path) -> None:
        self._state = state
        self._proc = proc
        self._last: dict[str, float] | None = None

    def read(self) -> Reading:
        """Return one row of agent_samples."""
        state = self._state()
        now = _counters(state)
        row: dict[str, Value] = {"rss_bytes": rss_bytes(self._proc), **_gauges(state)}
        if self._last is not None:
            row |= {name: now[name] - self._last[name] for name in now}
        self._last = now
        if state.spool is not None and (lost := state.spool.untold_loss) is not None:
            row["dropped_from"], row["dropped_until"] = lost
        return {"agent_samples": [row]}


def _gauges(state: AgentState) -> dict[str, Value]:
    expected, seen = state.host_sources.gpus.counts or (None, None)
    return {
        "gpus_expected": expected,
        "gpus_seen": seen,
        "attribution_age_seconds": state.host_sources.attribution_age_seconds(),
        "spool_bytes": state.spool.waiting_bytes if state.spool else None,
        "clock_offset_seconds": state.sender.counts.clock_offset_seconds if state.sender else None,
        "sources_failing": len(state.sampler.failing),
        "paused": state.paused,
    }


def _counters(state: AgentState) -> dict[str, float]:
    spool, beats = state.spool, state.sampler.beats
    return {
        "cpu_seconds": cpu_seconds(),
        "beats_late": beats.late,
        "gaps": beats.missed,
        "dropped_batches": spool.dropped if spool else 0,
        "dropped_rows": spool.dropped_rows.total() if spool else 0,
    }


def cpu_seconds() -> float:
    """Return the processor time of this process so far. Source: getrusage(2)."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss_bytes(proc: Path) -> int | None:
    """Return the memory of this process, or None where procfs does not say. Source: /proc/self/statm."""
    pages = (text(proc / "self" / "statm") or "").split()[1:2]
    return int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages and pages[0].isdigit() else None


def own_families(state: AgentState) -> Iterable[Metric]:
    """Yield what the agent's operator needs beyond the contract: which sources fail, and what became of batches."""
    sampler, spool, sender = state.sampler, state.spool, state.sender
    up = GaugeMetricFamily("gpuledger_agent_source_up", "1 where the last reading succeeded.", labels=("source",))
    failures = CounterMetricFamily("gpuledger_agent_source_failures_total", "Readings that failed.", labels=("source",))
    hung = CounterMetricFamily("gpuledger_agent_source_hung_total", "Readings without an answer.", labels=("source",))
    for track in sampler.tracks:
        up.add_metric((track.source.name,), track.failing is None)
        failures.add_metric((track.source.name,), track.failures)
        hung.add_metric((track.source.name,), track.hung)
    yield from (up, failures, hung)
    if conditions := state.host_sources.providers():
        yield from _providers(conditions)
    yield _lateness(sampler.beats)
    implausible = sampler.plausibility.refused
    yield _counter("gpuledger_agent_implausible_values_total", "Values that cannot be true, left out.", implausible)
    if spool is not None:
        yield GaugeMetricFamily("gpuledger_agent_spool_batches", "Batches waiting on disk.", value=spool.waiting)
        by_table = CounterMetricFamily("gpuledger_agent_dropped_table_rows_total", "Lost rows.", labels=("table",))
        for table, rows in sorted(spool.dropped_rows.items()):
            by_table.add_metric((table,), rows)
        yield by_table
        yield _counter("gpuledger_agent_quarantined_total", "Files and batches set aside.", spool.quarantined)
        yield _counter("gpuledger_agent_unwritten_batches_total", "Batches the disk refused.", spool.unwritten)
    if sender is not None:
        counts = sender.counts
        yield _counter("gpuledger_agent_delivered_batches_total", "Batches the collector has.", counts.delivered)
        yield _counter("gpuledger_agent_rows_put_aside_total", "Rows it does not believe.", counts.rows_put_aside)
        yield _counter("gpuledger_agent_refused_batches_total", "Batches it will never take.", counts.refused)
        yield _counter("gpuledger_agent_send_failures_total", "Tries that ended without it.", counts.failures)


def _providers(conditions: Iterable[Condition]) -> Iterable[Metric]:
    """Yield how those do who are asked what holds a GPU."""
    age = GaugeMetricFamily("gpuledger_agent_holder_age_seconds", "Age of what each said last.", labels=("holder",))
    failures = CounterMetricFamily("gpuledger_agent_holder_failures_total", "Failures of each.", labels=("holder",))
    for one in conditions:
        if one.age_seconds is not None:
            age.add_metric((one.name,), one.age_seconds)
        failures.add_metric((one.name,), one.failures)
    yield from (age, failures)


def _lateness(beats: Beats) -> Metric:
    buckets = [(str(bound), float(count)) for bound, count in zip(LATENESS_SECONDS, beats.within, strict=True)]
    return HistogramMetricFamily(
        "gpuledger_agent_beat_lateness_seconds",
        "How late each beat began.",
        buckets=[*buckets, ("+Inf", float(beats.count))],
        sum_value=beats.late_seconds,
    )


def _counter(name: str, help: str, value: float) -> Metric:  # noqa: A002  what the family calls it
    return CounterMetricFamily(name, help, value=value)
