"""Examine this host: open its sources, read them a few times, say what that costs and what leaves it."""

import contextlib
import os
import pwd
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from agent.clock import Clock, SystemClock
from agent.connection import is_loopback
from agent.doctor.checks import (
    HostCheckLine,
    collector_line,
    feed_lines,
    health_lines,
    holder_lines,
    measured_lines,
    process_lines,
    rack_line,
    spool_line,
)
from agent.procfs import cpu_seconds, rss_bytes
from agent.sampling.sampler import UNHURRIED_SECONDS, Sampler, Stamped, tables_of
from agent.sampling.wiring import HostSources, open_host_sources, open_stamper
from agent.settings.config import AgentConfig
from agent.source import Source, Tables, Value
from agent.version import installed_version
from agent.wire.contract import Table
from agent.wire.envelope import encode
from agent.wire.tables import TABLES
from agent.wire.units import HOUR_SECONDS, SECOND_US

# What the agent costs this host, and how much it sends: measured here and now, over a few beats.
_BEATS = 4
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Cost:
    """Share of one core and bytes of memory; bytes an hour as they would be sent; the rows of the last beats."""

    core_ratio: float
    memory_bytes: int | None
    bytes_per_hour: float
    tables: Tables
    failing: dict[str, str]


def measure(config: AgentConfig, sources: Sequence[Source], clock: Clock) -> Cost:
    """Read everything a few times and return what that took, at the beat of the settings.

    Every source is read at each of these beats, also those that the agent reads more rarely, so that this is the most
    that it takes.
    """
    stamper = open_stamper(config)
    sampler = Sampler(stamper, sources, clock, _PAUSE_SECONDS, hang_seconds=UNHURRIED_SECONDS)
    said = sampler.beat(everything=True)  # opens what is opened once, and measures no interval
    before, sent = cpu_seconds(), 0
    for _ in range(_BEATS):
        clock.wait_until(clock.monotonic() + round(_PAUSE_SECONDS * SECOND_US), threading.Event())
        beat = sampler.beat(everything=True)
        sent += _bytes(config, beat)
        said += beat
    took = cpu_seconds() - before
    sampler.close()
    beats_per_hour = HOUR_SECONDS / config.beat_seconds
    return Cost(
        core_ratio=took / _BEATS / config.beat_seconds,
        memory_bytes=rss_bytes(config.proc),
        bytes_per_hour=sent / _BEATS * beats_per_hour,
        tables=_newest(said),
        failing=sampler.failing,
    )


def _bytes(config: AgentConfig, beat: Sequence[Stamped]) -> int:
    return len(encode(agent=config.node_name, stream="doctor", sequence=0, sent_at=0, tables=tables_of(beat)))


def _newest(said: Sequence[Stamped]) -> Tables:
    """Return of each source and table the newest rows that there were; facts are told once, and stay true."""
    newest: dict[tuple[str, str], list[dict[str, Value]]] = {}
    for one in said:
        newest |= {(one.source, name): rows for name, rows in one.tables.items() if rows}
    tables: Tables = {}
    for (_, name), rows in newest.items():
        tables.setdefault(name, []).extend(rows)
    return tables


# What leaves this host, said from the contract and the settings.
_NEVER = "command lines, environment, file names, file contents, stdout"


@dataclass(frozen=True, slots=True)
class Leaving:
    """The connection, and under each heading what goes over it; `bytes_per_hour` is None where nothing goes."""

    connection: str
    rows_seconds: float
    bytes_per_hour: float | None
    identity: tuple[str, ...]
    identity_mode: str
    listens_on: str
    never: str = _NEVER


def leaving(config: AgentConfig, bytes_per_hour: float) -> Leaving:
    """Return what leaves a host with these settings."""
    return Leaving(
        connection=connection(config),
        rows_seconds=config.beat_seconds,
        bytes_per_hour=bytes_per_hour if config.collector else None,
        identity=tuple(sorted(set(identity_columns(TABLES.values())))),
        identity_mode=config.identity,
        listens_on=listens_on(config),
    )


def connection(config: AgentConfig) -> str:
    """Return where the one connection goes, in words."""
    if not config.collector:
        return "nothing: no collector is set"
    parts = urlsplit(config.collector)
    default = 443 if parts.scheme == "https" else 80
    secure = "TLS" if parts.scheme == "https" else "not encrypted"
    return f"one outbound connection, {secure}, to {parts.hostname}:{parts.port or default}"


def identity_columns(tables: Iterable[Table]) -> list[str]:
    """Return the names of the columns that may name people or projects."""
    return [column.name for table in tables for column in table.columns if column.sensitivity == "identity"]


def listens_on(config: AgentConfig) -> str:
    """Return where the agent can be reached, in words."""
    if config.address is None:
        return "nothing"
    host, port = config.address
    guarded = ", with TLS" if config.tls_certificate else ""
    asked = ", password or token required" if config.scrape_token or config.scrape_user else ""
    only = " only" if is_loopback(host) else ""
    return f"{host}:{port}{only}{guarded}{asked}"


# Examine this host: open its sources, read them a few times, ask the collector whether it is there.
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
        or f"no GPU ({host_sources.gpus.no_gpu or 'none responded'})",
        driver=next((str(row["driver_version"]) for row in inventory if row.get("driver_version")), None),
        version=installed_version() or "(source checkout, not installed)",
        user=_user(),
        measures=tuple(lines),
        cost=cost,
        leaves=leaving(config, cost.bytes_per_hour),
    )


def _lines(config: AgentConfig, host_sources: HostSources, cost: Cost) -> Sequence[HostCheckLine]:
    tables = cost.tables
    return [
        *measured_lines(host_sources.gpus.supported()),
        *feed_lines(tables, config),
        *(HostCheckLine("some", words) for words in host_sources.coverage()),
        *holder_lines(config),
        *process_lines(config),
        *rack_line(tables),
        *health_lines(host_sources.gpus.counts, tables.get("gpu_samples", [])),
        *(HostCheckLine("bad", f"{name} cannot be read: {why}") for name, why in cost.failing.items()),
        *spool_line(config),
        *collector_line(config),
    ]


def _user() -> str:
    name = str(os.geteuid())
    with contextlib.suppress(KeyError):
        name = pwd.getpwuid(os.geteuid()).pw_name
    return name
