"""How many replicas a service's traffic needs: of each ten minutes, and of the busiest in its look-back."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.wire.units import HOUR_MS, MICROS
from analyzer.ledger.causes.serving.idle import Span
from analyzer.ledger.causes.serving.policy import Policy
from analyzer.ledger.thresholds import Thresholds
from analyzer.ledger.windows import RunWindow
from analyzer.period import WINDOW_MS


@dataclass(frozen=True, slots=True)
class Use:
    """What one run of a service did in one window: the counts of its RunWindow, or of one that was kept."""

    ms: int  # of its GPUs
    gpus: int
    still: int  # permille
    replicas: int
    requests: int | None = None
    requests_ms: int | None = None  # of replicas whose count was read

    @classmethod
    def of(cls, window: RunWindow, policy: Policy) -> "Use":
        """Return what a window counted, with its replicas as the policy or the scheduler tells them apart."""
        replicas = replicas_of(window.gpus, window.members, policy)
        return cls(window.ms, window.gpus, window.still, replicas, window.requests, window.requests_ms)

    @property
    def there_ms(self) -> int:
        """Milliseconds of its replicas."""
        return self.ms * self.replicas // self.gpus

    @property
    def busy_ms(self) -> int:
        """Milliseconds of its replicas with a kernel."""
        return self.ms * (1000 - self.still) * self.replicas // (1000 * self.gpus)


def replicas_of(gpus: int, members: int | None, policy: Policy) -> int:
    """Return how many replicas a run's GPUs make up: as declared, as its scheduler tells them apart, or one."""
    if policy.gpus_per_replica is not None:
        return -(-gpus // policy.gpus_per_replica)
    return members or 1


def needed(uses: Sequence[Use], policy: Policy, limits: Thresholds) -> int | None:
    """Return the replicas that the traffic of one window needs; None where it is not known.

    `uses` are all runs of the service. What was not read of a replica's requests is taken to be like what was, up to a
    fifth of the time.
    """
    wanted = MICROS + policy.standby_micros
    if policy.requests_per_second_micros is None:
        busy_ms = sum(use.busy_ms for use in uses)
        return _ceiling(busy_ms * wanted, WINDOW_MS * (policy.busy_micros or MICROS))
    there_ms = sum(use.there_ms for use in uses)
    read_ms = sum(use.requests_ms or 0 for use in uses)
    if read_ms == 0 or read_ms * 1000 < there_ms * limits.covered_permille:
        return None
    requests = sum(use.requests or 0 for use in uses) * max(there_ms, read_ms)
    each = read_ms * WINDOW_MS * policy.requests_per_second_micros  # what one replica answers in the window
    return _ceiling(requests * 1000 * wanted, each)


@dataclass(frozen=True, slots=True)
class Need:
    """What a service's policy asks for in one window. `traffic` is None where too little of the look-back is known."""

    minimum: int
    traffic: int | None

    @property
    def replicas(self) -> int | None:
        """The replicas that may stand by, or None: not evaluated."""
        return None if self.traffic is None else max(self.minimum, self.traffic)


def needs(
    windows: Iterable[int],
    uses: Mapping[int, Sequence[Use]],
    held: Mapping[str, Sequence[Span]],
    policy: Policy,
    limits: Thresholds,
) -> dict[int, Need]:
    """Return the need in each of these windows, from what the service did in them and before.

    `uses` are by window, `held` the spans in which each of its runs held a GPU: time without any, once there was a
    first, is time that needed none. Where more than a fifth of the look-back is not known, nobody knows its peak.
    """
    wanted = set(windows)
    if not wanted:
        return {}
    back = policy.look_back_hours * HOUR_MS // WINDOW_MS
    every = range(min(wanted) - back * WINDOW_MS, max(wanted) + WINDOW_MS, WINDOW_MS)
    holding = _holding(every, held)
    first = min((span[0] for spans in held.values() for span in spans), default=every.stop)
    known: dict[int, int | None] = {}
    for at in every:
        some, throughout = holding.get(at, (0, 0))
        seen = len(uses.get(at, ()))
        if some == 0 and at >= first:
            known[at] = 0
        elif seen == 0 or seen * 1000 < throughout * limits.covered_permille:
            known[at] = None  # runs that were there and not seen may have done anything
        else:
            known[at] = needed(uses[at], policy, limits)
    return {at: found for at, found in _sliding(known, back, policy, limits) if at in wanted}


def _sliding(known: Mapping[int, int | None], back: int, policy: Policy, limits: Thresholds) -> list[tuple[int, Need]]:
    """Return the need at each window: the most of it and of those in its look-back."""
    highest: deque[tuple[int, int]] = deque()  # falling needs, with their windows
    found, unknown, order = [], 0, list(known)
    for place, at in enumerate(order):
        now = known[at]
        unknown += now is None
        if place > back:
            unknown -= known[order[place - back - 1]] is None
        while highest and highest[0][1] < at - back * WINDOW_MS:
            highest.popleft()
        while now is not None and highest and highest[-1][0] < now:
            highest.pop()
        if now is not None:
            highest.append((now, at))
        is_known = now is not None and unknown * 1000 <= (back + 1) * (1000 - limits.covered_permille)
        found.append((at, Need(policy.minimum_replicas, highest[0][0] if is_known else None)))
    return found


def _holding(windows: range, held: Mapping[str, Sequence[Span]]) -> dict[int, tuple[int, int]]:
    """Return how many runs held a GPU in each window at all, and how many throughout."""
    some: Counter[int] = Counter()
    throughout: Counter[int] = Counter()
    for spans in held.values():
        touched: set[int] = set()
        filled: set[int] = set()
        for from_ms, until_ms in spans:
            low, high = max(windows.start, from_ms // WINDOW_MS * WINDOW_MS), min(windows.stop, until_ms)
            touched.update(range(low, high, WINDOW_MS))
            filled.update(at for at in range(low, high, WINDOW_MS) if from_ms <= at and at + WINDOW_MS <= until_ms)
        some.update(touched)
        throughout.update(filled)
    return {at: (some[at], throughout[at]) for at in some}


def _ceiling(part: int, whole: int) -> int:
    return -(-part // whole)
