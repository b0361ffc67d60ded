"""What the agent costs this host, and how much it sends: measured here and now, over a few beats."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from agent.clock import Clock
from agent.daemon.about import cpu_seconds, rss_bytes
from agent.sampling.sampler import Sampler, Stamped, tables_of
from agent.sampling.track import UNHURRIED_SECONDS
from agent.sampling.wiring import open_stamper
from agent.settings.config import AgentConfig
from agent.source import Source, Tables, Value
from agent.wire.envelope import encode
from agent.wire.units import HOUR_SECONDS, SECOND_US

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
