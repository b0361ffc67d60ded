"""Examine this host: open its sources, read them a few times, ask the collector whether it is there."""

import contextlib
import os
import pwd
from collections.abc import Sequence
from dataclasses import dataclass

from agent.clock import SystemClock
from agent.doctor import gpus, host
from agent.doctor.cost import Cost, measure
from agent.doctor.finding import HostCheckLine
from agent.doctor.leaving import Leaving, leaving
from agent.doctor.reach import collector_line, spool_line
from agent.sampling.wiring import HostSources, open_host_sources
from agent.settings.config import AgentConfig
from agent.version import installed_version


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that the page says."""

    node: str
    gpus: str
    driver: str | None
    version: str
    user: str
    measures: tuple[HostCheckLine, ...]
    cost: Cost
    leaves: Leaving

    @property
    def healthy(self) -> bool:
        """Whether nothing is there that somebody must mend."""
        return all(line.answer != "bad" for line in self.measures)


def examine(config: AgentConfig) -> Examination:
    """Return what this host can measure and what leaves it. Takes some seconds; sends nothing.

    Raises:
        AgentError: a topology file is wrong, or the driver was replaced.
    """
    clock = SystemClock()
    host_sources = open_host_sources(config, clock.wall)
    try:
        cost = measure(config, host_sources.sources, clock)
        lines = _lines(config, host_sources, cost)
    finally:
        host_sources.close()
    inventory = cost.tables.get("inventory", [])
    skus = [str(row.get("sku") or "GPU") for row in inventory if row.get("gpu_uuid") and not row.get("parent_uuid")]
    return Examination(
        node=config.node_name,
        gpus=", ".join(f"{skus.count(sku)} x {sku}" for sku in dict.fromkeys(skus))
        or f"no GPU ({host_sources.gpus.no_gpu or 'none answered'})",
        driver=next((str(row["driver_version"]) for row in inventory if row.get("driver_version")), None),
        version=installed_version() or "(a checkout that is not installed)",
        user=_user(),
        measures=tuple(lines),
        cost=cost,
        leaves=leaving(config, cost.bytes_per_hour),
    )


def _lines(config: AgentConfig, host_sources: HostSources, cost: Cost) -> Sequence[HostCheckLine]:
    tables = cost.tables
    return [
        *gpus.measured(host_sources.gpus.supported()),
        *host.feeds(tables, config),
        *(HostCheckLine("some", words) for words in host_sources.coverage()),
        *host.holders(config),
        *host.processes(config),
        *host.rack_line(tables),
        *gpus.health(host_sources.gpus.counts, tables.get("gpu_samples", [])),
        *(HostCheckLine("bad", f"{name} cannot be read: {why}") for name, why in cost.failing.items()),
        *spool_line(config),
        *collector_line(config),
    ]


def _user() -> str:
    name = str(os.geteuid())
    with contextlib.suppress(KeyError):
        name = pwd.getpwuid(os.geteuid()).pw_name
    return name
