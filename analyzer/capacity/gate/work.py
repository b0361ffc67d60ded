"""The work that a request is judged by: the runs of a profile that it names and that are its team's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.wire.units import HOUR_MS
from analyzer.capacity.gate.request import Request
from analyzer.capacity.profile.facts import CapacityProfile, Represented, StateHours
from analyzer.errors import ConfigError
from analyzer.text.words import gpu_hours, plain

_NAMED = 5  # of what a profile has, in a message


@dataclass(frozen=True, slots=True)
class Work:
    """The runs that count, where their GPU time went, and whose they are.

    `is_known` False: nobody has said whose runs these are. `is_own` False: the profile does not say where the time of
    these runs went, so that `booked` is of all its runs. `judged` tells people what counts, where it is not all of it.
    """

    runs: tuple[Represented, ...]
    booked: tuple[StateHours, ...]
    measured: tuple[int, int]  # part and whole: GPU milliseconds, or the profile's own ratio in millionths
    is_known: bool
    is_own: bool
    judged: str

    @property
    def milliseconds(self) -> int:
        """GPU time of what is booked."""
        return sum(each.milliseconds for each in self.booked)

    @property
    def measured_milliseconds(self) -> int:
        """GPU time of it that was measured: what shares are of."""
        return self.of(lambda each: each.state != "unobserved")

    def of(self, which: Callable[[StateHours], bool]) -> int:
        """Return the GPU milliseconds of the bookings that are meant."""
        return sum(each.milliseconds for each in self.booked if which(each))


def work_of(request: Request, profile: CapacityProfile) -> Work:
    """Return the runs of the request's work; of runs of several teams those of the team that asks.

    Raises:
        ConfigError: the profile is of another team, or has no run of something that the request names.
    """
    if profile.team is not None and profile.team != request.team:
        raise ConfigError(f"the profile is of {plain(profile.team)}, the request of {plain(request.team)}")
    named = _named(request, profile)
    own = tuple(run for run in named if _team(run, profile) == request.team)
    runs = own or tuple(run for run in named if _team(run, profile) is None)
    if not runs:
        teams = ", ".join(sorted({plain(run.team or "") for run in named})[:_NAMED])
        raise ConfigError(f"the profile's runs of this work are of {teams}, the request of {plain(request.team)}")
    return _work(request, profile, runs, is_known=bool(own))


def _is_named(run: Represented, word: str) -> bool:
    """Say whether a word of a request means a run: its name, its id, the end of its id."""
    return word in (run.name, run.run_id, run.run_id.rpartition("/")[2])


def _team(run: Represented, profile: CapacityProfile) -> str | None:
    return run.team or profile.team


def _named(request: Request, profile: CapacityProfile) -> tuple[Represented, ...]:
    """Return the runs that the request's words mean; a word that names no run may be a stage: "fine-tuning"."""
    found: set[Represented] = set()
    for word in request.work:
        meant = [run for run in profile.runs if _is_named(run, word)] or [
            run for run in profile.runs if run.stage == word
        ]
        if not meant:
            had = sorted({plain(run.name or run.run_id) for run in profile.runs})[:_NAMED]
            told = f"it has {', '.join(had)}" if had else "it has no runs"
            raise ConfigError(f"the profile has no run of {plain(word)}: {told}")
        found.update(meant)
    return tuple(run for run in profile.runs if run in found)


def _work(request: Request, profile: CapacityProfile, runs: tuple[Represented, ...], *, is_known: bool) -> Work:
    is_all = len(runs) == len(profile.runs)
    is_own = is_all or all(run.booked or not run.milliseconds for run in runs)
    if is_all or not is_own:
        millionths = round(profile.measured_ratio * 10**6)
        return Work(
            runs, profile.booked, (millionths, 10**6), is_known, is_own, _judged(request, profile, runs, is_own)
        )
    booked = tuple(each for run in runs for each in run.booked)
    whole = sum(each.milliseconds for each in booked)
    measured = sum(each.milliseconds for each in booked if each.state != "unobserved")
    return Work(runs, booked, (measured, whole), is_known, is_own, _judged(request, profile, runs, is_own))


def _judged(request: Request, profile: CapacityProfile, runs: Sequence[Represented], is_own: bool) -> str:
    """Say which part of the profile counts; nothing where all of it does."""
    if len(runs) == len(profile.runs):
        return ""
    hours = sum(run.milliseconds for run in runs)
    decimals = 0 if profile.milliseconds >= 100 * HOUR_MS else 1
    told = (
        f"{len(runs):,} of the {len(profile.runs):,} runs of the profile, {gpu_hours(hours, decimals)} of its "
        f"{gpu_hours(profile.milliseconds, decimals)} GPU-hours: {', '.join(map(plain, request.work[:_NAMED]))} of "
        f"{plain(request.team)}"
    )
    return told if is_own else f"{told}; where the time went is known only for all runs together"
