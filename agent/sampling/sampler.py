"""The beat: every source is read on an injected clock, and what it said is stamped with the interval it holds for.

Intervals abut: the next one of a source starts where its last ended. Where a source was silent for too long they do
not: the interval then covers one period, amounts of the longer time are left out, and the rest is a gap that the
ledger books as not measured. A beat that is late or missed is counted, never hidden. A source that does not answer
stops no other; what it says too late is stamped with when it came.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from agent.clock import Clock, Timeline
from agent.errors import DriverChangedError, SourceError, SourceHungError
from agent.sampling.stamp import Stamper, is_interval, tells_facts
from agent.source import Reading, Row, Source, Tables
from agent.watchdog_thread import Late, WatchdogThread
from agent.wire.tables import TABLES
from agent.wire.units import SECOND_US

LATENESS_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)  # upper bounds


@dataclass(slots=True)
class Beats:
    """Counts since the agent began."""

    late: int = 0  # began more than half a period late
    missed: int = 0  # never began; the timeline's steps count as one each
    count: int = 0
    late_seconds: float = 0.0  # summed up
    within: list[int] = field(default_factory=lambda: [0] * len(LATENESS_SECONDS))  # beats that kept each bound

    def began(self, lateness: int, period: int) -> None:
        """Note that a beat began this many microseconds after its time."""
        seconds = max(0, lateness) / SECOND_US
        self.late += lateness > period // 2
        self.count += 1
        self.late_seconds += seconds
        for place, bound in enumerate(LATENESS_SECONDS):
            self.within[place] += seconds <= bound


_LOG = logging.getLogger(__name__)
# One source as the sampler follows it: asked on its own thread, paused after failures, read until some moment.
_PATIENCE_SECONDS = 0.1  # with one source before the next one is asked
HANG_SECONDS = 0.5  # with a source before it is left alone
UNHURRIED_SECONDS = 8.0  # with a source where there is no beat to keep: a cold driver takes some
_LONGEST_PAUSE = 60 * SECOND_US  # between two tries of a source that fails
_MOST_DOUBLINGS = 20


class Track:
    """Follows one source. Times are microseconds, `last_end` UTC on the sampler's timeline."""

    def __init__(self, source: Source, period: int, now: Callable[[], int]) -> None:
        self.source = source
        self.period = period
        self.last_end: int | None = None
        self.failing: str | None = None
        self.failures = 0
        self.carried: dict[str, Sequence[Row]] = {}  # facts of the first reading, told with the second
        self._thread: WatchdogThread[Reading] = WatchdogThread(source.name, source.read, now)
        self._in_a_row = 0
        self._paused_until = 0

    @property
    def late(self) -> Late[Reading] | None:
        """What came too late for an earlier beat."""
        return self._thread.late

    @property
    def lost_answer(self) -> bool:
        """Whether an answer came late and was a failure, so that amounts since the last reading are unknown."""
        return self._thread.lost_answer and self._thread.late is None

    @property
    def hung(self) -> int:
        """How many questions got no answer in time."""
        return self._thread.hung

    def due(self, now: int, beat: int) -> bool:
        """Return whether it is to be asked at this beat, the beats being so far apart."""
        if now < self._paused_until:
            return False
        if self.last_end is None:
            return True
        period = beat if self.carried else self.period  # facts are not held back by a slow source
        return now - self.last_end >= period - beat // 2

    def move(self, step: int) -> None:
        """Follow a step of the timeline, in microseconds."""
        self._paused_until += step
        if self.last_end is not None:
            self.last_end += step

    def begin(self, timeout_seconds: float) -> bool:
        """Ask, and return whether the answer is there after so long."""
        self._thread.begin()
        return self._thread.ready(timeout_seconds)

    def reading(self, timeout_seconds: float, now: int, beat: int) -> Reading | None:
        """Return what was answered, or None where nothing was; failures are counted, and lead to a pause.

        Raises:
            DriverChangedError: only a new process can load the new driver.
        """
        try:
            reading = _known(self._thread.answer(timeout_seconds))
        except DriverChangedError:
            raise
        except SourceHungError as error:
            self._fails(str(error))
            return None
        except SourceError as error:
            self._fails(str(error))
        except Exception as error:  # noqa: BLE001  a mistake of ours in one source must not silence the others
            self._fails(f"BUG: {error!r}", trace=True)
        else:
            if self.failing is not None:
                _LOG.info("%s can be read again", self.source.name)
            self.failing, self._in_a_row = None, 0
            return reading
        self._pause(now, beat)
        return None

    def close(self) -> None:
        """End the thread, if it is not hung."""
        self._thread.close()

    def _fails(self, why: str, *, trace: bool = False) -> None:
        self.failures += 1
        if self.failing is None:
            _LOG.warning("%s cannot be read: %s; retrying", self.source.name, why, exc_info=trace)
        self.failing = why

    def _pause(self, now: int, beat: int) -> None:
        """Ask again at the next beat, then after two, four, … beats, at most a minute later."""
        pause = min(beat << min(self._in_a_row, _MOST_DOUBLINGS), max(_LONGEST_PAUSE, beat))
        self._in_a_row += 1
        self._paused_until = now + pause - beat // 2


def readings(tracks: Iterable[Track], hang_seconds: float, now: int, beat: int) -> list[tuple[Track, Reading]]:
    """Ask each source in turn; go on without those that are slow, and come back to them at the end.

    A hung source costs the beat its patience once, at most `hang_seconds` for all, and nothing from then on.
    """
    found: list[tuple[Track, Reading]] = []
    slow: list[Track] = []
    patience = min(_PATIENCE_SECONDS, hang_seconds)
    for track in tracks:
        if not track.begin(patience):
            slow.append(track)
        elif (reading := track.reading(0, now, beat)) is not None:
            found.append((track, reading))
    deadline = time.monotonic() + hang_seconds - patience
    for track in slow:
        if (reading := track.reading(deadline - time.monotonic(), now, beat)) is not None:
            found.append((track, reading))  # noqa: PERF401  as above
    return found


def _known(reading: Reading) -> Reading:
    strangers = reading.keys() - TABLES.keys()
    if strangers:
        raise KeyError(f"BUG: the contract has no table {min(strangers)}")
    return reading


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
        _LOG.warning("the wall clock was stepped by %+.3f s: intervals start over, and a gap is recorded", step / 1e6)
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
