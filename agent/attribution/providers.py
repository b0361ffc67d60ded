"""Who, beside the processes themselves, can say what holds a GPU: asked in their own time, believed for an hour.

A pod does not lose its GPU because the kubelet restarts. So each witness's last good answer stands while it fails, its
age is shown, and only after an hour it is dropped.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.attribution.aliases import Aliases
from agent.attribution.holds import ProviderReport
from agent.attribution.run import Authority
from agent.errors import SourceError, SourceHungError
from agent.watchdog_thread import WatchdogThread
from agent.wire.units import SECOND_US

_LOG = logging.getLogger(__name__)
_PATIENCE_SECONDS = 0.2  # with all witnesses together; what comes later counts at the next reading
UNHURRIED_SECONDS = 5.0  # with all of them where there is no beat to keep; who has not answered then counts as failing
LATE_SECONDS = 60.0  # without an answer before a slow witness counts as failing
GOOD_FOR_SECONDS = 3600.0


class HolderProvider(Protocol):
    """Who can say what is held on this host: Slurm's cgroups, the kubelet, files of a prolog."""

    name: str
    authority: Authority  # of its word
    period_seconds: float  # 0 is asked at every reading

    def read(self) -> ProviderReport | None:
        """Return what is held now, or None where there is nothing of the kind on this host.

        Raises:
            SourceError: this time it failed.
        """
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


@dataclass(frozen=True, slots=True)
class Condition:
    """How a witness does: the age of what it said last, in seconds and None where that counts no longer, how often it
    failed, and why it fails now, in words and empty where it does not.
    """

    name: str
    age_seconds: float | None
    failures: int
    failing: str


@dataclass(slots=True)
class _Asked:
    provider: HolderProvider
    watchdog: WatchdogThread[ProviderReport | None]
    began_at: float
    asked_at: float | None = None
    told: ProviderReport | None = None
    told_at: float | None = None  # when it last said anything, be it that there is nothing of the kind
    failing: bool = False
    why: str = ""
    failures: int = 0


class HolderProviders:
    """Asks every witness on a thread of its own, each no more often than it wants to be asked."""

    def __init__(
        self,
        providers: Sequence[HolderProvider] = (),
        aliases: Aliases | None = None,
        seconds: Callable[[], float] = time.monotonic,
        patience_seconds: float = _PATIENCE_SECONDS,
        late_seconds: float = LATE_SECONDS,
    ) -> None:
        self.aliases = aliases or Aliases()
        self._seconds = seconds
        self._patience_seconds, self._late_seconds = patience_seconds, late_seconds
        self._asked = [
            _Asked(one, WatchdogThread(one.name, one.read, self._microseconds), seconds()) for one in providers
        ]

    @property
    def pending(self) -> bool:
        """Whether one of them has neither answered nor failed since the agent began."""
        return any(one.told_at is None and not one.failing for one in self._asked)

    @property
    def awaited(self) -> frozenset[Authority]:
        """Whose word is missing since the agent began, and may yet come: what it said before that counts."""
        now = self._seconds()
        return frozenset(
            one.provider.authority
            for one in self._asked
            if one.told_at is None and now - one.began_at <= GOOD_FOR_SECONDS
        )

    def told(self) -> ProviderReport:
        """Return what they say, each as it last said it; never fails, and waits only for a moment."""
        now = self._seconds()
        due = [one for one in self._asked if one.asked_at is None or now - one.asked_at >= _period(one)]
        for one in due:
            one.asked_at = now
            one.watchdog.begin()
            if (late := one.watchdog.late) is not None:
                self._take(one, late.value, late.came_at / SECOND_US)
        patience = self._patience_seconds
        for one in due:
            self._hear(one, patience)
            patience = max(0.0, self._patience_seconds - (self._seconds() - now))
        for one in self._asked:
            self._forget(one)
        held = tuple(held for one in self._asked if one.told for held in one.told.held)
        for one in self._asked:
            self.aliases.learn(one.told.names if one.told else {})
        return ProviderReport(held)

    def ages(self) -> dict[str, float]:
        """Return how old the answer of each witness is that says anything, in seconds."""
        now = self._seconds()
        return {
            one.provider.name: now - one.told_at
            for one in self._asked
            if one.told is not None and one.told_at is not None
        }

    def conditions(self) -> list[Condition]:
        """Return how each witness does that is on this host, or fails to say whether it is."""
        ages = self.ages()
        return [
            Condition(one.provider.name, ages.get(one.provider.name), one.failures, one.why if one.failing else "")
            for one in self._asked
            if one.told is not None or one.failures
        ]

    def close(self) -> None:
        """End the threads and the connections."""
        for one in self._asked:
            one.watchdog.close()
            one.provider.close()

    def _microseconds(self) -> int:
        return round(self._seconds() * SECOND_US)

    def _hear(self, one: _Asked, patience_seconds: float) -> None:
        try:
            self._take(one, one.watchdog.answer(patience_seconds), self._seconds())
        except SourceHungError as error:
            last = one.began_at if one.told_at is None else one.told_at
            if self._seconds() - last >= self._late_seconds:
                self._fails(one, str(error))
        except SourceError as error:
            self._fails(one, str(error))
        except Exception as error:  # noqa: BLE001  a mistake of ours in one witness must not silence the others
            self._fails(one, f"BUG: {error!r}")

    def _take(self, one: _Asked, told: ProviderReport | None, at: float) -> None:
        if one.failing:
            _LOG.info("%s says again what is held", one.provider.name)
        one.told, one.told_at, one.failing = told, at, False

    def _fails(self, one: _Asked, why: str) -> None:
        one.failures += 1
        one.why = why
        if not one.failing:
            _LOG.warning(
                "%s does not say what is held: %s; what it said last stands for an hour", one.provider.name, why
            )
        one.failing = True

    def _forget(self, one: _Asked) -> None:
        if one.told is None or one.told_at is None or not one.failing:
            return
        if self._seconds() - one.told_at > GOOD_FOR_SECONDS:
            _LOG.warning("%s has not said for an hour what is held: it is no longer taken for true", one.provider.name)
            one.told = None


def _period(one: _Asked) -> float:
    return one.provider.period_seconds * 0.9  # readings are not to the millisecond
