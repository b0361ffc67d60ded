"""All that gates look at, in one object: the request, the profile as it was read, the policy, and what follows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import DAY_US
from analyzer.capacity.gate.fix import Fix, advice_for
from analyzer.capacity.profile.facts import CapacityProfile, OpenAdvice
from analyzer.text.words import plain

if TYPE_CHECKING:
    from analyzer.capacity.gate.decided import Offer
    from analyzer.capacity.gate.policy import Policy
    from analyzer.capacity.gate.request import Request
    from analyzer.capacity.gate.supply import Supply
    from analyzer.capacity.gate.work import Work
    from analyzer.capacity.profile.read import ReadProfile


@dataclass(frozen=True, slots=True)
class GateInput:
    """What is judged. `now_us` is microseconds UTC."""

    request: "Request"
    read: "ReadProfile"
    work: "Work"
    policy: "Policy"
    supply: "Supply"
    fix: Fix | None
    offer: "Offer | None"
    now_us: int

    @property
    def profile(self) -> CapacityProfile:
        """The profile's facts."""
        return self.read.profile

    @property
    def advice(self) -> tuple[OpenAdvice, ...]:
        """The open recommendations for the work that is asked for."""
        return advice_for(self.work.runs, self.profile)

    @property
    def sku(self) -> str:
        """The kind of GPU as it may be printed."""
        return plain(self.request.sku)

    @property
    def age_days(self) -> int:
        """Whole days since the last that was measured of this work; negative where the profile is of the future."""
        until = self.profile.until_us
        ends = [until if run.ended_at is None else min(run.ended_at, until) for run in self.work.runs]
        return (self.now_us - (until if until > self.now_us else max(ends))) // DAY_US

    @property
    def sizes(self) -> set[int]:
        """The sizes at which the work has run."""
        return {run.gpus for run in self.work.runs} | {each.gpus for each in self.profile.scaling}

    @property
    def is_scaling_of_others(self) -> bool:
        """Whether the speed at several sizes was measured of runs that are not of this work."""
        of = self.profile.scaling_of
        return of is not None and not any(of == run.name for run in self.work.runs)

    @property
    def is_beside_others(self) -> bool:
        """Whether runs that are not of this work held the kind of GPU that is asked for: its figures may be theirs."""
        own = {run.run_id for run in self.work.runs}
        return any(run.sku in (self.request.sku, None) for run in self.profile.runs if run.run_id not in own)

    @property
    def is_whole(self) -> bool:
        """Whether every run of the profile is of this work."""
        return len(self.work.runs) == len(self.profile.runs)

    @property
    def run_gpus(self) -> int | None:
        """How many GPUs a run is to have: as asked, else as the newest run of the work had."""
        if self.request.gpus_per_run is not None:
            return self.request.gpus_per_run
        newest = max(self.work.runs, key=lambda run: (run.started_at, run.run_id), default=None)
        return None if newest is None else newest.gpus
