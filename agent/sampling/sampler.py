"""The beat: every source is read on an injected clock, and what it said is stamped with the interval it holds for.

Intervals abut: the next one of a source starts where its last ended. Where a source was silent for too long they do
not: the interval then covers one period, amounts of the longer time are left out, and the rest is a gap that the
ledger books as not measured. A beat that is late or missed is counted, never hidden. A source that does not answer
stops no other; what it says too late is stamped with when it came.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from agent.clock import Clock, Timeline
from agent.sampling.lateness import Beats
from agent.sampling.stamp import Stamper, is_interval, tells_facts
from agent.sampling.track import HANG_SECONDS, Track, readings
from agent.source import Reading, Source, Tables
from agent.wire.tables import TABLES
from agent.wire.units import SECOND_US

_LOG = logging.getLogger(__name__)
_GAP_PERIODS = 3  # of silence, after which a reading no longer speaks for the time since the last one


@dataclass(frozen=True, slots=True)
class Stamped:
    """What one source said at one beat, as rows of the contract. Times are microseconds UTC, half-open."""

    source: str
    period: int
    started_at: int
    ended_at: int
    tables: Tables


def tables_of(said: Iterable[Stamped]) -> Tables:
    """Return the rows of several sources and beats by table, in their order."""
    tables: Tables = {}
    for one in said:
        for name, rows in one.tables.items():
            tables.setdefault(name, []).extend(rows)
    return tables


class Paced:
    """A source read more rarely than it asks for."""

    def __init__(self, source: Source, period_seconds: float) -> None:
        self.name = source.name
        self.period_seconds = max(period_seconds, source.period_seconds)
        self.read = source.read


class Sampler:
    """Reads all sources of a host at every beat.

    DriverChangedError alone ends it: only a new process can load the new driver. Any other failure of a source is
    counted, logged when it begins and when it ends, and stops no other source. `let_be` is asked at every beat for
    the names of sources that are not to be read now.
    """

    def __init__(
        self,
        stamper: Stamper,
        sources: Iterable[Source],
        clock: Clock,
        period_seconds: float,
        beats: Beats | None = None,
        hang_seconds: float = HANG_SECONDS,
        let_be: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._let_be = let_be
        self._stamper = stamper
        self._clock = clock
        self._timeline = Timeline(clock)
        self._period = round(period_seconds * SECOND_US)
        self._hang_seconds = hang_seconds
        self.tracks = [
            Track(source, max(self._period, round(source.period_seconds * SECOND_US)), self._timeline.now)
            for source in sources
        ]
        self.beats = beats or Beats()
        self.plausibility = stamper.plausibility

    @property
    def failing(self) -> dict[str, str]:
        """The sources whose last reading failed, by name, and why."""
        return {track.source.name: track.failing for track in self.tracks if track.failing is not None}

    def run(self, stop: threading.Event, deliver: Callable[[Sequence[Stamped]], None]) -> None:
        """Beat until `stop` is set, and once more then, so that the last seconds are told too."""
        due = self._clock.monotonic()
        while not self._clock.wait_until(due, stop):
            self.beats.began(self._clock.monotonic() - due, self._period)
            deliver(self.beat(without=self._let_be()))
            due = self._next(due)
        deliver(self.beat(everything=True, without=self._let_be()))

    def slow_to(self, period_seconds: float) -> None:
        """Beat at most this often from now on. To be called from `deliver`, or before the first beat."""
        self._period = max(self._period, round(period_seconds * SECOND_US))
        for track in self.tracks:
            track.period = max(track.period, self._period)

    def close(self) -> None:
        """End the threads of the sources; one that hangs ends with the process."""
        for track in self.tracks:
            track.close()

    def _next(self, due: int) -> int:
        """Return when the next beat is due, on the same grid; beats whose time has passed are missed."""
        missed = max(0, self._clock.monotonic() - due) // self._period
        self.beats.missed += missed
        return due + (missed + 1) * self._period

    def beat(self, *, everything: bool = False, without: Collection[str] = ()) -> list[Stamped]:
        """Read the sources that are due, or all of them, and return what they said.

        A first reading measures no interval, and so says nothing of one. Sources named in `without` are let be.
        """
        if self._timeline.waits:
            self.beats.missed += 1
            self._follow_step()
            return []
        now = self._timeline.now()
        asked = [
            track
            for track in self.tracks
            if track.source.name not in without and (everything or track.due(now, self._period))
        ]
        answers = readings(asked, self._hang_seconds, now, self._period)
        said = [
            self._stamped(track, late.value, min(late.came_at, now))
            for track in asked
            if (late := track.late) is not None
        ]
        said += [self._stamped(track, reading, now) for track, reading in answers]
        self._follow_step()
        return [one for one in said if one is not None]

    def _follow_step(self) -> None:
        """Follow a step of the wall clock: what is being measured keeps its length, and moves with the clock."""
        step = self._timeline.anchor_again()
        if not step:
            return
        _LOG.warning("the wall clock was set by %+.3f s: intervals start anew, and a gap is declared", step / 1e6)
        self.beats.missed += 1
        for track in self.tracks:
            track.move(step)
            if self._timeline.waits:
                track.last_end = None  # amounts of the wait belong to no interval

    def _stamped(self, track: Track, reading: Reading, ended: int) -> Stamped | None:
        last_end = track.last_end
        if last_end is not None and ended <= last_end:
            return None
        track.last_end = ended
        if last_end is None:
            return self._first(track, reading, ended)
        silent = track.lost_answer or ended - last_end > _GAP_PERIODS * track.period
        started = max(last_end, ended - track.period) if silent else last_end
        tables = self._stamper.stamped(reading, started, ended, amounts=not silent)
        for name, rows in self._stamper.stamped(track.carried, started, ended).items():
            tables[name] = rows + tables.get(name, [])
        track.carried = {}
        return Stamped(track.source.name, track.period, started, ended, tables)

    def _first(self, track: Track, reading: Reading, now: int) -> Stamped | None:
        """Return what has times of its own; keep facts for the first interval; measurements of no interval are none."""
        own = {name: rows for name, rows in reading.items() if not is_interval(TABLES[name])}
        facts = {name: rows for name, rows in reading.items() if name not in own and tells_facts(TABLES[name])}
        track.carried |= facts
        return Stamped(track.source.name, track.period, now, now, self._stamper.stamped(own, now, now)) if own else None
