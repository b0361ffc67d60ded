"""Which GPUs of a host a run had, where its scheduler's accounting only counted them.

Accounting knows "n14, 4 GPUs"; the ledger books GPUs. What is certain is taken first: all of a host, and GPUs that
somebody named. Then what the samples leave no choice about: a GPU that worked while only one claim could have it is
that claim's, and none of those beside it. What is left is assumed, by a rule that gives the same answer every time:
claims in the order of their start, of the GPUs that are free for all of it those that worked longest in it, then by
number. Pure: no clock, no store.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from collector.schedulers.poller import Value

# How a GPU was found for a claim, from the surest down. `told`: somebody named it. `whole`: the claim takes all that
# the host has. `seen`: the samples allow no other. `assumed`: any would do, and the first that is free was taken.
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


def gpus_by_host(total: int | None, sizes: Sequence[int]) -> list[int]:
    """Return how many GPUs a job has on each of its hosts; accounting knows only the sum. `sizes` are 0 if unknown.

    Who takes all takes all of each. Else it is divided evenly, as `--gpus-per-node` and `--gres` do, what is left over
    to the first hosts; a host gives more than it has only where all together have too few.
    """
    if not total or not sizes:
        return [0] * len(sizes)
    even, rest = divmod(total, len(sizes))
    counts = [even + (position < rest) for position in range(len(sizes))]
    return _fitted(counts, sizes) if all(sizes) else counts


def _fitted(counts: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Move what does not fit to hosts that have room, from the first on."""
    fitted = [min(count, size) for count, size in zip(counts, sizes, strict=True)]
    over = sum(counts) - sum(fitted)
    for position, size in enumerate(sizes):
        more = min(over, size - fitted[position])
        fitted[position] += more
        over -= more
    return [fitted[0] + over, *fitted[1:]]


END_OF_TIME = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of a host, in the driver's order, and when it was seen there first and last, microseconds UTC."""

    uuid: str
    first_at: int = 0
    last_at: int = END_OF_TIME


@dataclass(frozen=True, slots=True)
class Work:
    """A GPU was at work for so long (microseconds) between two edges of the host's claims; `at` lies between them."""

    uuid: str
    at: int
    microseconds: int


@dataclass(slots=True)
class _Open:
    """What is known of one claim so far: GPUs that are its own, with why, and those that may be."""

    claim: Claim
    number: int
    needs: int
    may: set[str]
    own: dict[str, Ground] = field(default_factory=dict)
    worked: dict[str, int] = field(default_factory=dict)
    beside: list[int] = field(default_factory=list)  # claims that overlap it in time

    @property
    def is_settled(self) -> bool:
        return len(self.own) >= self.needs


def place_claims(claims: Iterable[Claim], gpus: Sequence[Gpu], work: Iterable[Work] = ()) -> list[Placed]:
    """Return for each claim of one host its GPUs, in the order of the claims' starts."""
    ordered = sorted(claims, key=lambda claim: (claim.started_at, claim.key))
    host = _Host(ordered, gpus)
    host.note(work)
    host.settle()
    host.assume()
    return [host.placed(number) for number in range(len(ordered))]


def edges(claims: Iterable[Claim]) -> list[int]:
    """Return the moments at which a host's claims begin or end, ascending."""
    moments = {claim.started_at for claim in claims} | {claim.ended_at or END_OF_TIME for claim in claims}
    return sorted(moments)


class _Host:
    def __init__(self, claims: Sequence[Claim], gpus: Sequence[Gpu]) -> None:
        self._order = {gpu.uuid: position for position, gpu in enumerate(gpus)}
        self._open = [self._opened(number, claim, gpus) for number, claim in enumerate(claims)]
        self._evidence: dict[str, set[tuple[int, ...]]] = defaultdict(set)  # of each GPU, claims of which one has it
        self._find_neighbours()

    def note(self, work: Iterable[Work]) -> None:
        """Take in what the samples show."""
        during = _Sweep(self._open)
        for one in sorted(work, key=lambda one: one.at):
            active = during.at(one.at)
            for number in active:
                worked = self._open[number].worked
                worked[one.uuid] = worked.get(one.uuid, 0) + one.microseconds
            # Beside a run that shares GPUs, a GPU at work may be that run's.
            if active and one.uuid in self._order and all(self._open[number].needs for number in active):
                self._evidence[one.uuid].add(active)

    def settle(self) -> None:
        """Draw every conclusion that leaves no choice, until there is none left."""
        for one in self._open:
            self._shut_out(one)
        while self._by_count() or self._by_work():
            pass

    def assume(self) -> None:
        """Give what is still open the first GPUs that are free for it."""
        for one in self._open:
            if one.is_settled:
                continue
            for uuid in self._free(one)[: one.needs - len(one.own)]:
                one.own[uuid] = "assumed"

    def placed(self, number: int) -> Placed:
        """Return what was found for a claim, in the driver's order."""
        one = self._open[number]
        found = sorted(one.own.items(), key=lambda item: self._order.get(item[0], len(self._order)))
        return Placed(one.claim, tuple(found))

    def _opened(self, number: int, claim: Claim, gpus: Sequence[Gpu]) -> _Open:
        end = claim.ended_at or END_OF_TIME
        there = [gpu.uuid for gpu in gpus if gpu.first_at < end and gpu.last_at > claim.started_at]
        may = set(there or [gpu.uuid for gpu in gpus])  # metrics that begin after the job say nothing of its time
        one = _Open(claim, number, claim.gpus, may)
        one.own.update(claim.named)
        if claim.gpus and claim.gpus >= len(may):
            one.own |= {uuid: "whole" for uuid in may if uuid not in one.own}
        return one

    def _free(self, one: _Open) -> list[str]:
        """Return the GPUs that no claim beside it has, the likeliest first."""
        beside = [self._open[number] for number in one.beside]
        taken = {uuid for other in beside for uuid in other.own}
        wanted = {uuid for other in beside for uuid in other.claim.likely if not other.is_settled}
        free = [uuid for uuid in one.may if uuid not in taken and uuid not in one.own]

        def order(uuid: str) -> tuple[bool, bool, int, int]:
            return uuid not in one.claim.likely, uuid in wanted, -one.worked.get(uuid, 0), self._order[uuid]

        return sorted(free, key=order)

    def _find_neighbours(self) -> None:
        active: list[_Open] = []
        for one in self._open:
            active = [other for other in active if (other.claim.ended_at or END_OF_TIME) > one.claim.started_at]
            for other in active:
                other.beside.append(one.number)
                one.beside.append(other.number)
            active.append(one)

    def _take(self, one: _Open, uuids: Iterable[str]) -> None:
        one.own |= dict.fromkeys(sorted(uuids), "seen")
        self._shut_out(one)

    def _shut_out(self, one: _Open) -> None:
        """What is one claim's is none of those beside it, unless it was named for them as well."""
        for number in one.beside:
            self._open[number].may -= one.own.keys() - self._open[number].own.keys()

    def _by_count(self) -> bool:
        """Where no more GPUs are left than a claim needs, they are its own. Return whether that was news."""
        news = False
        for one in self._open:
            fresh = one.may - one.own.keys()
            if fresh and not one.is_settled and len(fresh) + len(one.own) <= one.needs:
                self._take(one, fresh)
                news = True
        return news

    def _by_work(self) -> bool:
        """A GPU that worked when only one claim could have had it is that claim's. Return whether that was news."""
        found: dict[int, set[str]] = defaultdict(set)
        for uuid, cases in self._evidence.items():
            undecided = set()
            for active in cases:
                able = [n for n in active if uuid in self._open[n].own or self._may_have(n, uuid)]
                if len(able) == 1 and uuid not in self._open[able[0]].own:
                    found[able[0]].add(uuid)
                elif len(able) > 1:
                    undecided.add(active)
            self._evidence[uuid] = undecided
        sure = {number: self._undisputed(number, found) for number in found}
        for number, uuids in sure.items():
            self._take(self._open[number], uuids)
        return any(sure.values())

    def _undisputed(self, number: int, found: Mapping[int, set[str]]) -> set[str]:
        """Return what a claim alone was found to have. Somebody who works past the scheduler proves nothing: a GPU that
        two claims at a time would have, or more GPUs than a claim holds.
        """
        one = self._open[number]
        others = {uuid for beside in one.beside for uuid in found.get(beside, ())}
        uuids = found[number] - others
        return uuids if len(found[number]) <= one.needs - len(one.own) else set()

    def _may_have(self, number: int, uuid: str) -> bool:
        one = self._open[number]
        return uuid in one.may and not one.is_settled


class _Sweep:
    """Which claims are active at a moment, for moments that ascend."""

    def __init__(self, claims: Sequence[_Open]) -> None:
        self._claims = claims
        self._next = 0
        self._active: list[_Open] = []

    def at(self, moment: int) -> tuple[int, ...]:
        """Return the numbers of the claims on the host then."""
        while self._next < len(self._claims) and self._claims[self._next].claim.started_at <= moment:
            self._active.append(self._claims[self._next])
            self._next += 1
        self._active = [one for one in self._active if (one.claim.ended_at or END_OF_TIME) > moment]
        return tuple(one.number for one in self._active)


def by_host(claims: Iterable[Claim]) -> Mapping[str, list[Claim]]:
    """Return the claims of each host."""
    found: dict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        found[claim.node].append(claim)
    return found
