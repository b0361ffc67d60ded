"""What runs where: cluster alpha's week, and two hours of a small site. Ids and names are those of the documents."""

from dataclasses import replace

from agent.wire.units import HOUR_MS, MINUTE_MS
from simulator.archetypes import evaluation, finetuning, interactive, serving, sweep
from simulator.calendar import SUN, clock, week_outages
from simulator.crowd import crowd
from simulator.outages import Outage
from simulator.plan import Plan, PlanEntry, seats
from simulator.site import Site
from simulator.training import training


def plans(site: Site) -> list[PlanEntry]:
    """Return every attempt of every run of the site's plan, with what it does, by job id and attempt."""
    entries = [*training(), *crowd(site)] if site.plan == "week" else _small()
    return sorted(entries, key=lambda entry: (entry[0].number, entry[0].attempt))


def outages(site: Site) -> tuple[Outage, ...]:
    """Return what is broken, drained or silent in the site's plan."""
    return week_outages() if site.plan == "week" else ()


def pending(site: Site) -> tuple[Plan, ...]:
    """Return the runs that wait in the queue when the span ends; their seats say only how many GPUs they want."""
    if site.plan != "week":
        return ()
    return (
        Plan("81460", "llama-sft", "nlp", "gpu", seats(("", "")), clock(SUN, 19), clock(SUN, 23), None, None),
        Plan("81463", "vit-large", "vision", "preempt", seats(("",)), clock(SUN, 21), clock(SUN, 23), None, None),
    )


def _small() -> list[PlanEntry]:
    """Two hours on two hosts: a starved run, a service, a notebook, a short evaluation, four sharers, free GPUs."""
    hours = HOUR_MS
    sft = Plan("1", "llama-sft", "nlp", "gpu", seats(("s01",), (0, 1, 2, 3)), 0, 4 * MINUTE_MS, None, None)
    served = Plan(
        "2",
        "ranker-serve",
        "search",
        "service",
        seats(("s02",), (0, 1)),
        -hours,
        -hours,
        None,
        None,
        promised_seconds=0.25,
    )
    book = Plan("3", "notebook", "vision", "interactive", seats(("s02",), (2,)), -hours, -hours, None, None)
    short = Plan("4", "eval", "nlp", "gpu", seats(("s02",), (3,)), 0, 10 * MINUTE_MS, 80 * MINUTE_MS, "completed")
    failed = Plan("5", "det-sweep", "vision", "gpu", seats(("s01",), (4, 5)), 0, 0, 70 * MINUTE_MS, "out_of_memory")
    shared = [
        Plan(f"6_{at}", "label-clean", "search", "shared", seats(("s02",), (7,)), 0, hours, None, None, shared=2)
        for at in range(2)
    ]
    return [
        (replace(sft, reports_progress=True), finetuning.preprocessing_bound),
        (served, serving.ranker),
        (book, interactive.notebook),
        (short, evaluation.benchmarks),
        (failed, sweep.out_of_memory),
        *((plan, interactive.sharing) for plan in shared),
    ]
