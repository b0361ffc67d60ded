"""One source as the sampler follows it: asked on its own thread, paused after failures, read until some moment."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from agent.errors import DriverChangedError, SourceError, SourceHungError
from agent.source import Reading, Row, Source
from agent.watchdog_thread import Late, WatchdogThread
from agent.wire.tables import TABLES
from agent.wire.units import SECOND_US

_LOG = logging.getLogger(__name__)
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
                _LOG.info("%s is read again", self.source.name)
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
            _LOG.warning("%s cannot be read: %s; it is tried again", self.source.name, why, exc_info=trace)
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
