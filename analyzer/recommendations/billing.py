"""What of a saving the bill shows: GPUs paid by use cost less once handed back; bought and reserved ones do not."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analyzer.queries.statements import statements
from analyzer.recommendations.fleet_plan.move import Move
from analyzer.recommendations.recommendation import Saved
from analyzer.recommendations.trigger import Trigger

if TYPE_CHECKING:
    from collector.store.session import Session

# Purchase options of which the bill counts the use. Of all others, unknown ones included, no bill is
# promised to fall.
_BY_USE = ("on_demand", "spot", "preemptible", "serverless")


@dataclass(frozen=True, slots=True)
class Spent:
    """GPU time and money, and how much of either lay on GPUs that are paid by use."""

    milliseconds: int = 0
    by_use_milliseconds: int = 0
    micros: int = 0
    by_use_micros: int = 0

    def plus(self, other: "Spent") -> "Spent":
        """Return the sum of two."""
        return Spent(
            self.milliseconds + other.milliseconds,
            self.by_use_milliseconds + other.by_use_milliseconds,
            self.micros + other.micros,
            self.by_use_micros + other.by_use_micros,
        )


@dataclass(frozen=True, slots=True)
class Bill:
    """What runs spent by state and cause, and hosts as a whole."""

    runs: dict[str, dict[tuple[str, str], Spent]] = field(default_factory=dict)
    nodes: dict[str, Spent] = field(default_factory=dict)

    def of(self, trigger: Trigger, move: Move | None) -> Spent:
        """Return what was spent where the loss is: by its runs in its states, else by its runs, else on its hosts."""
        own = [part for run in set(trigger.run_ids) for part in self.runs.get(run, {}).items()]
        lost = [spent for where, spent in own if where in trigger.losses]
        if own:
            return _sum(lost or (spent for _, spent in own))
        hosts = set(move.from_.nodes) if move is not None and move.from_ is not None else {trigger.subject}
        here = [spent for node, spent in self.nodes.items() if node in hosts]
        return _sum(here or self.nodes.values())


def _sum(parts: Iterable[Spent]) -> Spent:
    total = Spent()
    for part in parts:
        total = total.plus(part)
    return total


def read_bill(session: "Session", run_ids: Collection[str], start_us: int, end_us: int) -> Bill:
    """Read how these runs' GPUs, and all hosts', are paid for, in [start_us, end_us)."""
    (of_runs,), (of_nodes,) = (
        statements("recommendations/billing.sql"),
        statements("recommendations/billing_of_nodes.sql"),
    )
    span = {"start": start_us, "end": end_us, "by_use": list(_BY_USE)}
    runs: dict[str, dict[tuple[str, str], Spent]] = defaultdict(dict)
    for run, state, cause, *spent in session.rows(of_runs, span | {"runs": sorted(run_ids)}):
        runs[run][state, cause] = Spent(*spent)
    return Bill(dict(runs), {node: Spent(*spent) for node, *spent in session.rows(of_nodes, span)})


def divided(saved: Saved, spent: Spent) -> tuple[Saved, Saved]:
    """Return what is freed and what the bill falls by: together, quantile by quantile, what is saved."""
    time = saved.milliseconds.part(spent.by_use_milliseconds, max(1, spent.milliseconds))
    if saved.micros is None:
        return Saved(saved.milliseconds.less(time), None), Saved(time, None)
    part, whole = (
        (spent.by_use_micros, spent.micros) if spent.micros else (spent.by_use_milliseconds, spent.milliseconds)
    )
    money = saved.micros.part(part, max(1, whole))
    return Saved(saved.milliseconds.less(time), saved.micros.less(money)), Saved(time, money)
