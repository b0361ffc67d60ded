"""What runs beside the requests of a server: a thread from its start until its stop, and the clock that it goes by.

Where all cores are busy those threads go first that answer, then sealing, then maintenance. What has been answered is
safe, and may be sealed a little later; who waits for an answer keeps what it has in memory.

A wall clock that jumps by days is mended in a minute. What was expired, closed or ended by it stays so.
"""

import logging
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from statistics import median_low

from agent.wire.units import DAY_SECONDS, DAY_US, SECOND_US

_LOG = logging.getLogger(__name__)

SEALING = 5
MAINTENANCE = 10


def let_others_go_first(nice: int) -> None:
    """Lower the precedence of the calling thread, for good; only Linux has one for each thread."""
    if sys.platform == "linux":
        with suppress(OSError):  # forbidden by a sandbox: then all are equal, as before
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


def now_us() -> int:
    """Return the time by the wall clock, microseconds UTC."""
    return time.time_ns() // 1000


class Background:
    """A daemon thread of its own. `_run` says what it does, and ends soon after `_ending` is set."""

    def __init__(self, name: str, stop_seconds: float) -> None:
        self._ending = threading.Event()
        self._stop_seconds = stop_seconds
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for what is under way, so long and no longer."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(self._stop_seconds)

    def _run(self) -> None:
        raise NotImplementedError


_APART_US = 5 * DAY_US // 2  # a week stays open for 48 hours, so that what is off by less is made good
_LIVE_SECONDS = 600.0  # how long an agent counts after it was heard; who is gone has no say
_AGENTS_MOST = 1_000
_UNCONTRADICTED_SECONDS = DAY_SECONDS  # after which a clock is believed that nobody bears out, and nobody contradicts
OWN_SENDERS = ("import:", "prometheus:", "scheduler:")  # no agents: their batches are dated by our own clock
IS_OWN_SENDER = "(" + " OR ".join(f"starts_with(agent, '{name}')" for name in OWN_SENDERS) + ")"  # of a receipt


class ProvenClock:
    """The time by which is done what cannot be undone, in microseconds UTC. Safe to use from several threads.

    It is the wall clock's for as long as that goes with the monotonic one, from the newest batch that was there at the
    start. Where the two are days apart it goes on from what was proven, until most of the agents that are heard bear
    the wall clock out, or until that has stood for a day in which none was heard.
    """

    def __init__(
        self,
        newest_us: int | None,
        wall_us: Callable[[], int] = now_us,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall_us, self._monotonic = wall_us, monotonic
        self._is_begun = newest_us is not None  # else what the first agents say is believed
        self._proven = wall_us() if newest_us is None else newest_us, monotonic()
        self._heard: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._apart_since: float | None = None
        self._lock = threading.Lock()

    def heard(self, agent: str, sent_at: int) -> None:
        """Note by an agent's own clock when its newest batch was sent."""
        if agent.startswith(OWN_SENDERS):
            return
        with self._lock:
            self._heard[agent] = sent_at, self._monotonic()
            self._heard.move_to_end(agent)
            if len(self._heard) > _AGENTS_MOST:
                self._heard.popitem(last=False)
        if not self._is_begun:
            self.now()

    def now(self) -> int:
        """Return what is proven to be over."""
        wall, beat = self._wall_us(), self._monotonic()
        with self._lock:
            return self._judged(wall, beat)

    @property
    def doubt(self) -> str | None:
        """Why it is not the wall clock's, in a sentence; None where it is."""
        now, wall = self.now(), self._wall_us()
        if abs(now - wall) <= _APART_US:
            return None
        return (
            f"this host's clock says {_minute(wall)} UTC, and by the newest batches and the time since it is "
            f"{_minute(now)}: nothing expires, closes or ends by it; set it right"
        )

    def _judged(self, wall: int, beat: float) -> int:
        moment, since = self._proven
        expected = moment + round((beat - since) * SECOND_US)
        is_apart = abs(wall - expected) > _APART_US
        if is_apart or not self._is_begun:
            told = self._told(beat)
            agree = sum(abs(each - wall) <= _APART_US for each in told)
            if told and not self._is_begun:
                self._is_begun, is_apart = True, 2 * agree <= len(told)
                expected = median_low(told) if is_apart else expected
                self._proven = expected, beat
            elif 2 * agree > len(told) or (not told and self._has_stood(beat)):
                is_apart = False
        if not is_apart:
            self._proven = wall, beat
        self._note(wall, expected, beat if is_apart else None)
        return expected if is_apart else wall

    def _told(self, beat: float) -> list[int]:
        """Return what time it is by each agent that is heard."""
        live = [(sent_at, beat - at) for sent_at, at in self._heard.values() if beat - at < _LIVE_SECONDS]
        return [sent_at + round(seconds * SECOND_US) for sent_at, seconds in live]

    def _has_stood(self, beat: float) -> bool:
        return self._apart_since is not None and beat - self._apart_since > _UNCONTRADICTED_SECONDS

    def _note(self, wall: int, expected: int, apart_at: float | None) -> None:
        if apart_at is None:
            if self._apart_since is not None:
                _LOG.warning("this host's clock is believed again: it says %s UTC", _minute(wall))
            self._apart_since = None
        elif self._apart_since is None:
            self._apart_since = apart_at
            _LOG.error(
                "this host's clock says %s UTC, and by the newest batches and the time since it is %s: nothing "
                "expires, closes or ends by it until agents bear it out",
                *(_minute(wall), _minute(expected)),
            )


def _minute(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / SECOND_US, UTC).strftime("%Y-%m-%d %H:%M")
