"""A bound by the patterns of whole racks, in a process of its own: python -m analyzer.placement.gang.by_rack.

Dantzig and Wolfe (1960): a rack's filling is one column, so that what fits a rack is told exactly, where a programme of
units and spans lets a run be in a seventh of a rack. Columns are made when prices ask for them (Gilmore and Gomory,
1961), prices are smoothed (Wentges, 1997), and the tree branches on how many racks a run takes, worst bound first. Each
bound is Lagrange's, and so good at any time: a line of JSON goes out whenever it has risen.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from time import monotonic
from typing import Any

from analyzer.placement.gang.bins import Bins, Gang, Way
from analyzer.placement.gang.counts import Count
from analyzer.placement.gang.master import Limits, Master

SMOOTH = 0.9  # of the best prices so far in those that are asked next
CLOSE = 2e-4  # of the bound: nearer to the programme's own value a node is not solved


@dataclass(frozen=True, slots=True)
class _Node:
    limits: Limits
    prices: list[float]
    branch: tuple[int, float] | None  # the run whose number of bins is the most broken, and that number


class Tree:
    """Nodes by bound, lowest first, over one master."""

    def __init__(self, bins: Bins, known: int, is_over: Callable[[], bool]) -> None:
        self.master = Master(bins)
        self.bins = bins
        self.known = known / self.master.scale  # what a plan costs that is there: no node above needs to be looked at
        self.is_over = is_over
        self._nodes: list[tuple[float, int, _Node]] = []
        self._made = 0

    def bound(self, told: Callable[[float], None]) -> bool:
        """Raise the bound until the time is over or the plan is proven; return whether it is."""
        root: Limits = [(gang.fewest, gang.most) for gang in self.bins.gangs]
        self._solve(root, self.master.first_prices(), 0.0, told)
        while self._nodes and not self.is_over():
            bound, _, node = self._nodes[0]
            told(bound * self.master.scale)
            if node.branch is None:
                return False  # nothing is broken that could be branched on: as far as this goes
            heappop(self._nodes)
            run, taken = node.branch
            fewest, most = node.limits[run]
            for low, high in ((fewest, int(taken + 1e-6)), (int(taken + 1e-6) + 1, most)):
                if low <= high:
                    limits = [*node.limits]
                    limits[run] = (low, high)
                    self._solve(limits, node.prices, bound, None)
            if self.is_over():
                return False  # the children may not have been looked at
        if not self._nodes:
            told(self.known * self.master.scale)
        return not self._nodes

    def _solve(
        self, limits: Limits, center: list[float] | None, bound: float, told: Callable[[float], None] | None
    ) -> None:
        """Find a node's bound, and keep it where a better plan could be in it."""
        master = self.master
        master.limit(limits)
        best = -float("inf")
        while not self.is_over():
            value, duals = master.solved()
            asked = (
                duals if center is None else [SMOOTH * c + (1 - SMOOTH) * d for c, d in zip(center, duals, strict=True)]
            )
            found, added = master.bound(asked, limits)
            if found > best or center is None:
                best, center = max(best, found), asked
            if not added and asked is not duals:
                found, added = master.bound(duals, limits)
                if found > best:
                    best, center = found, duals
            if told is not None and best > 0:
                told(best * master.scale)
            if best >= self.known or value - best <= CLOSE * abs(best) or not added:
                break
        bound = max(bound, best)
        if bound >= self.known:
            return
        broken = [
            (min(taken % 1, 1 - taken % 1) * gang.span_cost, -run, taken)
            for run, (gang, taken) in enumerate(zip(self.bins.gangs, master.bins_taken(), strict=True))
            if abs(taken - round(taken)) > 1e-4
        ]
        worst = max(broken, default=None)
        self._made += 1
        branch = None if worst is None else (-worst[1], worst[2])
        heappush(self._nodes, (bound, self._made, _Node(limits, center or [], branch)))


def bins_from(told: dict[str, Any]) -> Bins:
    """Return the bins that were written as JSON."""
    gangs = []
    for gang in told["gangs"]:
        ways = tuple(Way(way["class_"], tuple(way["keeps"])) for way in gang["ways"])
        lists = {name: tuple(map(_paired, value)) for name, value in gang.items() if isinstance(value, list)}
        counts = tuple(Count(tuple(count["of"]), count["least"]) for count in gang["counts"])
        gangs.append(Gang(**{**gang, **lists, "ways": ways, "counts": counts}))
    lists = {name: tuple(map(_paired, value)) for name, value in told.items() if isinstance(value, list)}
    return Bins(**{**told, **lists, "gangs": tuple(gangs)})


def _paired(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def main() -> None:
    """Read bins, what a known plan costs and the seconds; write each bound that is better than the last."""
    question = json.load(sys.stdin)
    until = monotonic() + float(question["seconds"])
    best = -1.0

    def told(bound: float) -> None:
        nonlocal best
        if bound > best * (1 + 1e-6):
            best = bound
            sys.stdout.write(json.dumps({"bound": bound}) + "\n")
            sys.stdout.flush()

    Tree(bins_from(question["bins"]), question["known"], lambda: monotonic() >= until).bound(told)


if __name__ == "__main__":
    main()
