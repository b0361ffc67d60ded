"""Whether the simulated fleet looks like a real one: its GPUs beside the distributions of Acme's cluster Seren.

Seren is a cluster of A100s for developing language models (Acme, NSDI'24). Its curves are over all of its GPUs, free
ones included, sampled every 15 s. The demo is 192 GPUs of mixed use; three groups of it are compared:

- serving and pretraining: held by runs of these two stages, which are what the two archetypes must look like;
- language models: held by pretraining, fine-tuning, alignment, evaluation and serving: what Seren is used for, but that
  no service of it is described;
- the whole fleet, free GPUs included, as Seren's curves have them.

Like is compared with like where GPUs in use stand beside GPUs in use. Those are the ones with over 1% of their memory
taken, here and there. Seren's curve of memory says it of a sample directly; where a GPU holds nothing, nothing can
have run, so that the same share is taken from the curves of utilization and SM activity, from zero on. Each group is
also held to Seren's curves as they are, as it was at first: a quarter of those are GPUs on which nothing lies.

The bands were set before the first comparison. Medians of utilization: Acme's two clusters report 97 and 99%, two
points apart; the demo gets twice that. Shares of samples: how full a cluster is, is its operator's matter and not an
archetype's; 15 points of a hundred is what we ask. Memory likewise, since it follows the models' sizes. A distance of
Kolmogorov and Smirnov of 0.25 says that no share below any value is off by more than a quarter. SM activity, power (as
a share of the limit: Seren's A100s have 400 W) and processors came later, with the same band and before their first
comparison. The distance of busy time alone (over 10%) has no bar.

The simulator was not tuned to these curves, but for two changes made after they had been seen: what the ranks of the
pretraining hold (simulator/large_runs.py), and what a resting host takes (simulator/readings.py).
Since then the bars of memory and of processors say that the demo is like Seren, and not that it was so by itself.
"""

from typing import TYPE_CHECKING

from bench.truth.real.checks import Check, at_most, within
from bench.truth.real.distribution import Distribution, distance
from bench.truth.real.files import SerenCurve
from bench.truth.real.fleet_curves import LADEN_PERCENT, GpuCurves, cpu_curve, gpu_curves, link_idle_share

if TYPE_CHECKING:
    from collector.store.session import Session

LOW_PERCENT = 10.0  # the published point of the curve
LIMIT_WATTS = 400.0  # of an A100-80GB (NVIDIA's data sheet, SXM)
MEDIAN_ROOM, SHARE_ROOM, DISTANCE = 4.0, 15.0, 0.25
THE_ARCHETYPES = "serving and pretraining"
GROUPS: dict[str, frozenset[str] | None] = {
    THE_ARCHETYPES: frozenset({"serving", "pretraining"}),
    "language models": frozenset({"serving", "pretraining", "fine-tuning", "alignment", "evaluation"}),
    "the whole fleet": None,
}


def score(session: "Session", curves: dict[str, SerenCurve]) -> tuple[dict[str, object], list[Check]]:
    """Return the figures of each group beside the published ones, and the checks."""
    everything = GpuCurves(
        Distribution.published(curves["gpu_util_pct"]),
        Distribution.published(curves["gpu_mem_used_pct"]),
        Distribution.published(curves["sm_active_pct"]),
        Distribution.published(curves["gpu_power_w"], LIMIT_WATTS / 100),
    )
    idle, demo_idle = 100 * Distribution.published(curves["ib_send_raw"]).at_or_below(0), link_idle_share(session)
    figures: dict[str, object] = {"Seren": _figures(everything) | {"link_idle_percent": round(idle, 2)}}
    figures["Seren, in use"] = _figures(in_use(everything))
    checks = [within("RDMA ports that send nothing, % of time", demo_idle, round(idle, 1), SHARE_ROOM, " points")]
    for group, stages in GROUPS.items():
        for laden, theirs in ((True, in_use(everything)), (False, everything)):
            name = f"{group}, in use" if laden else group
            own = gpu_curves(session, stages, laden=laden)
            figures[name] = _figures(own) | _distances(own, theirs)
            checks += _checks(name, own, theirs, asked=group == THE_ARCHETYPES)
    cpu = cpu_curve(session)
    apart = None if cpu is None else distance(cpu, Distribution.published(curves["cpu_util_pct"]))
    checks.append(at_most("the whole fleet: processors, distance of the curves", apart, DISTANCE))
    own_links = {"link_idle_percent": demo_idle and round(demo_idle, 2), "cpu_distance": apart and round(apart, 4)}
    figures["the whole fleet"] |= own_links  # type: ignore[operator]
    return figures, checks


def in_use(every: GpuCurves) -> GpuCurves:
    """Return published curves without the GPUs on which nothing lies; power has no value that they alone have."""
    free = every.memory.at_or_below(LADEN_PERCENT)
    sm = None if every.sm is None else every.sm.without_least(free)
    return GpuCurves(every.utilization.without_least(free), every.memory.above(LADEN_PERCENT), sm, None)


def _checks(name: str, own: GpuCurves, theirs: GpuCurves, *, asked: bool) -> list[Check]:
    here, there = _figures(own), _figures(theirs)
    named = (
        ("utilization, median %", "utilization_median", MEDIAN_ROOM),
        ("samples at or under 10%, %", "utilization_low_percent", SHARE_ROOM),
        ("memory, median %", "memory_median", SHARE_ROOM),
    )
    checks = [
        within(f"{name}: {what}", here[key], round(there[key] or 0.0, 1), room, asked=asked)
        for what, key, room in named
    ]
    apart = _distances(own, theirs)
    # SM activity and power are ours, and told only where the populations are alike.
    alike = ("sm", "power") if name == "the whole fleet" else ("sm",) if name.endswith(", in use") else ()
    return [
        *checks,
        *(
            at_most(f"{name}: {what}, distance of the curves", apart[f"{what}_distance"], DISTANCE, asked=asked)
            for what in ("utilization", "memory")
        ),
        *(at_most(f"{name}: {what}, distance of the curves", apart[f"{what}_distance"], DISTANCE) for what in alike),
    ]


def _figures(curves: GpuCurves) -> dict[str, float | None]:
    used, memory = curves.utilization, curves.memory
    found = {
        "utilization_median": used.quantile(0.5),
        "utilization_low_percent": 100 * used.at_or_below(LOW_PERCENT),
        "memory_p25": memory.quantile(0.25),
        "memory_median": memory.quantile(0.5),
        "memory_p75": memory.quantile(0.75),
        "sm_median": None if curves.sm is None else curves.sm.quantile(0.5),
        "power_median": None if curves.power is None else curves.power.quantile(0.5),
    }
    return {name: None if value is None else round(value, 4) for name, value in found.items()}


def _distances(own: GpuCurves, theirs: GpuCurves) -> dict[str, float | None]:
    pairs = {
        "utilization": (own.utilization, theirs.utilization),
        "memory": (own.memory, theirs.memory),
        "sm": (own.sm, theirs.sm),
        "power": (own.power, theirs.power),
        "busy_utilization": (own.utilization.above(LOW_PERCENT), theirs.utilization.above(LOW_PERCENT)),
    }
    return {
        f"{name}_distance": None if here is None or there is None else round(distance(here, there), 4)
        for name, (here, there) in pairs.items()
    }
