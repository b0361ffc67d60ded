"""The many of the week: services, notebooks, the trials of a sweep, evaluations, and runs that share a GPU."""

from collections.abc import Iterator

from agent.wire.units import HOUR_MS, MINUTE_MS
from simulator.archetypes import evaluation, interactive, serving, sweep
from simulator.calendar import MON, THU, clock
from simulator.plan import Plan, PlanEntry, seats
from simulator.site import Site


def crowd(site: Site) -> Iterator[PlanEntry]:
    """Yield them all."""
    yield from _services()
    yield from _notebooks()
    yield from _sweep(site)
    yield from _evaluations(site)
    yield from _shared()


def _services() -> Iterator[PlanEntry]:
    """Two services that began before the week and outlast it."""
    begun = clock(-12, 9)
    ranker = Plan(
        "79811",
        "ranker-serve",
        "search",
        "service",
        seats(("n17", "n18")),
        begun,
        begun,
        None,
        None,
        promised_seconds=serving.RANKER_SLO_SECONDS,
        labels={"launcher": "triton"},
    )
    llm = Plan(
        "79902",
        "llm-serve",
        "nlp",
        "service",
        seats(("n16",), (0, 1, 2, 3)),
        begun,
        begun,
        None,
        None,
        promised_seconds=serving.LLM_SLO_SECONDS,
        labels={"launcher": "vllm", "model": "llama-70b"},
    )
    yield ranker, serving.ranker
    yield llm, serving.llm


def _notebooks() -> Iterator[PlanEntry]:
    for gpu in range(8):
        account = "nlp" if gpu % 2 else "vision"
        begun = clock(-3, 8 + gpu, 20 * gpu % 60)
        where = seats(("n19",), (gpu,))
        labels = {"launcher": "jupyter", "model": "none"}
        yield (
            Plan(f"{80051 + gpu}", "notebook", account, "interactive", where, begun, begun, None, None, labels=labels),
            interactive.notebook,
        )


def _sweep(site: Site) -> Iterator[PlanEntry]:
    """41 trials of two A100s over eleven pairs; those of a kind that fails are short, and some sit on after the end."""
    rng = site.generator("schedule", "det-sweep")
    pairs = [(node, (gpu, gpu + 1)) for node in ("n20", "n21", "n22") for gpu in (0, 2, 4, 6)]
    pairs.remove(("n22", (4, 5)))  # its GPU falls off the bus on Thursday
    free = [clock(MON, 4, 7 * at) for at in range(len(pairs))]
    for trial in range(41):
        at = free.index(min(free))
        kind = sweep.KINDS[trial % len(sweep.KINDS)] if trial % 20 != 11 else sweep.held_by_context
        failing = kind is sweep.out_of_memory
        hours = rng.uniform(3.0, 9.0) if failing else rng.uniform(18.0, 36.0)
        started, ended = free[at], free[at] + round(hours * HOUR_MS)
        free[at] = ended + round(rng.uniform(0.2, 4.0) * HOUR_MS)
        node, gpus = pairs[at]
        status = "out_of_memory" if failing else "completed"
        open_ended = ended >= site.span
        yield (
            Plan(
                f"80911_{trial}",
                "det-sweep",
                "vision",
                "gpu",
                seats((node,), gpus),
                clock(MON, 3, 50),
                started,
                None if open_ended else ended,
                None if open_ended else status,
            ),
            kind,
        )


def _evaluations(site: Site) -> Iterator[PlanEntry]:
    """212 short runs on one GPU each, one after another on five GPUs of n23."""
    rng = site.generator("schedule", "eval")
    free = [clock(MON, 0, 40 + 11 * gpu) for gpu in range(5)]
    for number in range(212):
        gpu = free.index(min(free))
        started = free[gpu]
        ended = started + round(rng.uniform(1.1, 3.4) * HOUR_MS)
        free[gpu] = ended + round(rng.uniform(0.2, 2.2) * HOUR_MS)
        where, asked = seats(("n23",), (gpu,)), started - 9 * MINUTE_MS
        if ended < site.span:
            yield (
                Plan(f"81100_{number}", "eval", "nlp", "gpu", where, asked, started, ended, "completed"),
                evaluation.benchmarks,
            )


def _shared() -> Iterator[PlanEntry]:
    """Four small runs on one A100 for six hours."""
    for number in range(4):
        where = seats(("n24",), (7,))
        yield (
            Plan(
                f"81290_{number}",
                "label-clean",
                "search",
                "shared",
                where,
                clock(THU, 8, 50),
                clock(THU, 9),
                clock(THU, 15),
                "completed",
                shared=4,
            ),
            interactive.sharing,
        )
