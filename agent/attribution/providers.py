"""Who, beside the processes themselves, can say what holds a GPU: asked in their own time, believed for an hour.

A pod does not lose its GPU because the kubelet restarts. So each provider's last good answer stands while it fails, its
age is shown, and only after an hour it is dropped.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol, TypeVar

from agent.attribution.run import Attribution, Authority
from agent.errors import SourceError, SourceHungError
from agent.files import StateFile
from agent.source import Row
from agent.watchdog_thread import WatchdogThread
from agent.wire.tables import HOST_AUTHORITIES
from agent.wire.units import SECOND_US

# Who holds which GPU, as several providers tell it, put together in one pure function.
# DESIGN, invariant 4: the word of a scheduler before its cgroup, before what a run says itself, before nobody's.
PRECEDENCE: tuple[Authority, ...] = HOST_AUTHORITIES
_MEMBERS_MAX = 8  # of one run on one GPU that are named

T = TypeVar("T")

_RunOnGpu = tuple[str, str]  # run id and the GPU's UUID


@dataclass(frozen=True, slots=True)
class GpuHold:
    """A run holds a GPU. `fraction` is the part of the GPU that was asked for, where it is shared and known."""

    gpu_uuid: str
    attribution: Attribution
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class ProviderReport:
    """What one provider says: who holds what, which of its names stand for which runs, and in `unread`, by sentence,
    how much it said that names no GPU or no run here.
    """

    held: tuple[GpuHold, ...] = ()
    names: Mapping[str, "Meant"] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Meant:
    """The run that a name stands for, and the part of the run where the name is that of a part."""

    run_id: str
    member: str | None = None


def combined(providers: Iterable[GpuHold], names: Mapping[str, str]) -> dict[_RunOnGpu, GpuHold]:
    """Return every run that holds a GPU, once, with all that is known of it.

    `names` are other names of runs: both are then one run. Where several tell of one run on one GPU, what the highest
    authority says stands and the others fill its gaps. Runs of different names stay side by side, each with its
    authority: who of them counts is decided where all hosts and schedulers are seen together.
    """
    found: dict[_RunOnGpu, list[GpuHold]] = {}
    for one in providers:
        run_id = names.get(one.attribution.run_id, one.attribution.run_id)
        found.setdefault((run_id, one.gpu_uuid), []).append(one)
    return {key: _merged(key, held) for key, held in found.items()}


def _merged(key: _RunOnGpu, providers: list[GpuHold]) -> GpuHold:
    """Return what all of them say of one run on one GPU; their order decides nothing."""
    ranked = sorted(providers, key=lambda held: PRECEDENCE.index(held.attribution.scheduler))
    said = [held.attribution for held in ranked]
    labels = sorted((one.labels for one in said), key=lambda labels: sorted(labels.items()))
    run_id, gpu_uuid = key
    return GpuHold(
        gpu_uuid=gpu_uuid,
        attribution=Attribution(
            run_id=run_id,
            scheduler=said[0].scheduler,
            attempt=max((one.attempt for one in said if one.attempt is not None), default=None),
            owner=min(_highest(ranked, lambda held: held.attribution.owner), default=None),
            member=", ".join(sorted({*_highest(ranked, lambda held: held.attribution.member)})[:_MEMBERS_MAX]) or None,
            rank=min((one.rank for one in said if one.rank is not None), default=None),
            labels={name: value for each in labels for name, value in each.items()},
        ),
        # Two containers of one pod may each have a part.
        fraction=min(1.0, math.fsum(parts)) if (parts := _highest(ranked, lambda held: held.fraction)) else None,
    )


def _highest(ranked: Iterable[GpuHold], of: Callable[[GpuHold], T | None]) -> list[T]:
    """Return what is said by the highest authority that says anything; more where several of its kind do."""
    for _, equals in groupby(ranked, key=lambda held: held.attribution.scheduler):
        if known := [value for held in equals if (value := of(held)) is not None]:
            return known
    return []


# Other names of runs: a pod by name until its uid is known, a Slurm array task by the number of its job.
ALIASES_MAX = 1024  # the oldest is forgotten first
_SECTION = "aliases"


class Aliases:
    """Remembers which name stands for which run, and tells each once as a row of `run_aliases`."""

    def __init__(self, state_file: StateFile | None = None) -> None:
        self._state_file = state_file or StateFile(None)
        kept = self._state_file.section(_SECTION)
        self._runs = {name: run for name, run in kept.items() if isinstance(run, str)}
        self._untold: list[Row] = []

    @property
    def runs(self) -> Mapping[str, str]:
        """The run that each name stands for."""
        return self._runs

    def last_part(self, name: str) -> str | None:
        """Return the id at the end of the run that a name stands for, as the uid of a pod, or None."""
        run = self._runs.get(name)
        return None if run is None else run.rpartition("/")[2]

    def learn(self, names: Mapping[str, Meant]) -> None:
        """Take what names stand for; a name that now stands for another run is told again."""
        for name, meant in names.items():
            if self._runs.get(name) != meant.run_id and name != meant.run_id:
                runs = {other: run for other, run in self._runs.items() if other != name}  # another thread reads it
                self._runs = dict([*runs.items(), (name, meant.run_id)][-ALIASES_MAX:])
                self._untold.append({"alias_run_id": name, "run_id": meant.run_id, "member": meant.member})

    def rows(self) -> list[Row]:
        """Return what was not yet told."""
        rows, self._untold = self._untold, []
        if rows:
            self._state_file.keep(_SECTION, self._runs)
        return rows


_LOG = logging.getLogger(__name__)
_PATIENCE_SECONDS = 0.2  # with all providers together; what comes later counts at the next reading
UNHURRIED_SECONDS = 5.0  # with all of them where there is no beat to keep; who has not answered then counts as failing
LATE_SECONDS = 60.0  # without an answer before a slow provider counts as failing
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
    """How a provider does: the age of what it said last, in seconds and None where that counts no longer, how often it
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
    """Asks every provider on a thread of its own, each no more often than it wants to be asked."""

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
        """Return how old the answer of each provider is that says anything, in seconds."""
        now = self._seconds()
        return {
            one.provider.name: now - one.told_at
            for one in self._asked
            if one.told is not None and one.told_at is not None
        }

    def conditions(self) -> list[Condition]:
        """Return how each provider does that is on this host, or fails to say whether it is."""
        ages = self.ages()
        return [
            Condition(one.provider.name, ages.get(one.provider.name), one.failures, one.why if one.failing else "")
            for one in self._asked
            if one.told is not None or one.failures
        ]

    def coverage(self) -> list[str]:
        """Return what they said that names no GPU or no run, in words."""
        reports = [(one.provider.name, one.told) for one in self._asked if one.told is not None]
        return [f"{name}: {count} {what}" for name, told in reports for what, count in told.unread.items() if count]

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
        except Exception as error:  # noqa: BLE001  a mistake of ours in one provider must not silence the others
            self._fails(one, f"BUG: {error!r}")

    def _take(self, one: _Asked, told: ProviderReport | None, at: float) -> None:
        if one.failing:
            _LOG.info("%s reports allocations again", one.provider.name)
        one.told, one.told_at, one.failing = told, at, False

    def _fails(self, one: _Asked, why: str) -> None:
        one.failures += 1
        one.why = why
        if not one.failing:
            _LOG.warning(
                "%s does not report allocations: %s; its last report stays valid for one hour", one.provider.name, why
            )
        one.failing = True

    def _forget(self, one: _Asked) -> None:
        if one.told is None or one.told_at is None or not one.failing:
            return
        if self._seconds() - one.told_at > GOOD_FOR_SECONDS:
            _LOG.warning(
                "%s has not reported allocations for one hour: its last report is discarded", one.provider.name
            )
            one.told = None


def _period(one: _Asked) -> float:
    return one.provider.period_seconds * 0.9  # readings are not to the millisecond
