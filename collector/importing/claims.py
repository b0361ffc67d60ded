"""What a scheduler's accounting says of a host: this run had so many of its GPUs, from then until then."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from collector.schedulers.poller import Value

# How a GPU was found for a claim, from the surest down. `told`: somebody named it. `whole`: the claim takes all that
# the host has. `seen`: the samples leave no other. `assumed`: any would do, and the first that is free was taken.
Ground = Literal["told", "whole", "seen", "assumed"]
GROUNDS: tuple[Ground, ...] = ("told", "whole", "seen", "assumed")
PLACEMENT = "placement"  # the label that says so, on allocations that were seen or assumed


@dataclass(frozen=True, slots=True)
class Claim:
    """One run's part of one host. `gpus` is how many it holds, 0 where it shares them; `ended_at` is None while held.

    `names` are further names by which others may tell of it. `facts` are the columns of its allocations that do not
    depend on the GPU. Times are microseconds UTC.
    """

    run_id: str
    attempt: int
    node: str
    started_at: int
    ended_at: int | None
    gpus: int
    member: str | None = None
    position: int = 0  # of the host among those of the run
    names: tuple[str, ...] = ()
    hosts_name: str | None = None  # under which hosts tell of its GPUs, where the scheduler's own word names none
    named: tuple[tuple[str, Ground], ...] = ()  # GPUs that are known to be its own
    likely: frozenset[str] = frozenset()  # GPUs that were assumed for it before
    facts: Mapping[str, Value] = field(default_factory=dict, compare=False, repr=False)

    @property
    def key(self) -> tuple[str, int, str, str, int]:
        """What makes a claim one and the same."""
        return self.run_id, self.attempt, self.node, self.member or "", self.started_at

    @property
    def ids(self) -> tuple[str, ...]:
        """The runs under which its allocations are told: its own, and that which hosts have for it."""
        return (self.run_id,) if self.hosts_name is None else (self.run_id, self.hosts_name)


@dataclass(frozen=True, slots=True)
class Placed:
    """A claim and the GPUs that were found for it; fewer than it holds where there are not enough."""

    claim: Claim
    gpus: tuple[tuple[str, Ground], ...]

    @property
    def missing(self) -> int:
        """How many of its GPUs could not be found."""
        return max(0, self.claim.gpus - len(self.gpus))
