"""The beat: every source is read on an injected clock, and what it said is stamped with the interval it holds for.

Intervals abut: the next one of a source starts where its last ended. Where a source was silent for too long they do
not: the interval then covers one period, amounts of the longer time are left out, and the rest is a gap that the
ledger books as not measured. A beat that is late or missed is counted, never hidden.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from agent.clock import MICROSECONDS, Clock, Timeline
from agent.errors import DriverChangedError, SourceError
from agent.source import Reading, Row, Source, Value
from agent.stamp import Stamper, is_interval, tells_facts
from agent.wire.tables import TABLES

_LOG = logging.getLogger(__name__)
GAP_PERIODS = 3  # of silence, after which a reading no longer speaks for the time since the last one


@dataclass(slots=True)
class Beats:
    """What went wrong with the beat since the agent began."""

    late: int = 0  # began more than half a period late
    missed: int = 0  # never began; the timeline's steps count as one each


@dataclass(frozen=True, slots=True)
class Stamped:
    """What one source said at one beat, as rows of the contract. Times are microseconds UTC, half-open."""

    source: str
    period: int
    started_at: int
    ended_at: int
    tables: dict[str, list[dict[str, Value]]]


@dataclass(slots=True)
class Track:
    """What the sampler remembers of one source."""

    source: Source
    period: int
    last_end: int | None = None
    failing: str | None = None
    failures: int = 0
    carried: dict[str, Sequence[Row]] = field(default_factory=dict)  # facts of the first reading, told with the second


class Paced:
    """A source read more rarely than it asks for."""

    def __init__(self, source: Source, period_seconds: float) -> None:
        self.name = source.name
        self.period_seconds = max(period_seconds, source.period_seconds)
        self.read = source.read


class Sampler:
    """Reads all sources of a host at every beat.

    DriverChangedError alone ends it: only a new process can load the new driver. Any other failure of a source is
    counted, logged when it begins and when it ends, and stops no other source.
    """

    def __init__(
        self,
        stamper: Stamper,
        sources: Iterable[Source],
        clock: Clock,
        period_seconds: float,
        beats: Beats | None = None,
    ) -> None:
        self._stamper = stamper
        self._clock = clock
        self._timeline = Timeline(clock)
        self._period = round(period_seconds * MICROSECONDS)
        self.tracks = [
            Track(source, max(self._period, round(source.period_seconds * MICROSECONDS))) for source in sources
        ]
        self.beats = beats or Beats()
        self.plausibility = stamper.plausibility

    def run(self, stop: threading.Event, deliver: Callable[[Sequence[Stamped]], None]) -> None:
        """Beat until `stop` is set, and once more then, so that the last seconds are told too."""
        due = self._clock.monotonic()
        while not self._clock.wait_until(due, stop):
            if self._clock.monotonic() - due > self._period // 2:
                self.beats.late += 1
            deliver(self.beat())
            due = self._next(due)
        deliver(self.beat(everything=True))

    def slow_to(self, period_seconds: float) -> None:
        """Beat at most this often from now on. To be called from `deliver`, or before the first beat."""
        self._period = max(self._period, round(period_seconds * MICROSECONDS))
        for track in self.tracks:
            track.period = max(track.period, self._period)

    def _next(self, due: int) -> int:
        """Return when the next beat is due, on the same grid; beats whose time has passed are missed."""
        missed = max(0, self._clock.monotonic() - due) // self._period
        self.beats.missed += missed
        return due + (missed + 1) * self._period

    def beat(self, *, everything: bool = False, without: Collection[str] = ()) -> list[Stamped]:
        """Read the sources that are due, or all of them, and return what they said.

        A first reading measures no interval, and so says nothing of one. Sources named in `without` are let be.
        """
        now = self._timeline.now()
        stamped = [
            said
            for track in self.tracks
            if track.source.name not in without
            and (everything or self._due(track, now))
            and (said := self._read(track, now)) is not None
        ]
        if step := self._timeline.anchor_again():
            self._follow_step(step)
        return stamped

    def _follow_step(self, step: int) -> None:
        _LOG.warning("the wall clock was set by %+.3f s: intervals start anew, and a gap is declared", step / 1e6)
        self.beats.missed += 1
        for track in self.tracks:
            track.last_end = self._timeline.now() if track.last_end is not None else None

    def _due(self, track: Track, now: int) -> bool:
        if track.last_end is None:
            return True
        period = self._period if track.carried else track.period  # facts are not held back by a slow source
        return now - track.last_end >= period - self._period // 2

    def _read(self, track: Track, now: int) -> Stamped | None:
        reading = self._ask(track)
        if reading is None:
            return None
        last_end, track.last_end = track.last_end, now
        if last_end is None:
            return self._first(track, reading, now)
        if now <= last_end:
            return None
        silent = now - last_end > GAP_PERIODS * track.period
        started = now - track.period if silent else last_end
        tables = self._stamper.stamped(reading, started, now, amounts=not silent)
        for name, rows in self._stamper.stamped(track.carried, started, now).items():
            tables[name] = rows + tables.get(name, [])
        track.carried = {}
        return Stamped(track.source.name, track.period, started, now, tables)

    def _first(self, track: Track, reading: Reading, now: int) -> Stamped | None:
        """Return what has times of its own; keep facts for the first interval; measurements of no interval are none."""
        own = {name: rows for name, rows in reading.items() if not is_interval(TABLES[name])}
        track.carried = {name: rows for name, rows in reading.items() if name not in own and tells_facts(TABLES[name])}
        return Stamped(track.source.name, track.period, now, now, self._stamper.stamped(own, now, now)) if own else None

    def _ask(self, track: Track) -> Reading | None:
        try:
            reading = _known(track.source.read())
        except DriverChangedError:
            raise
        except SourceError as error:
            self._fails(track, str(error))
        except Exception as error:  # noqa: BLE001  a mistake of ours in one source must not silence the others
            self._fails(track, f"BUG: {error!r}", trace=True)
        else:
            if track.failing is not None:
                _LOG.info("%s is read again", track.source.name)
                track.failing = None
            return reading
        return None

    def _fails(self, track: Track, why: str, *, trace: bool = False) -> None:
        track.failures += 1
        if track.failing is None:
            _LOG.warning("%s cannot be read: %s; tried again at every beat", track.source.name, why, exc_info=trace)
        track.failing = why


def _known(reading: Reading) -> Reading:
    strangers = reading.keys() - TABLES.keys()
    if strangers:
        raise KeyError(f"BUG: the contract has no table {min(strangers)}")
    return reading
