"""The fleet: what runs where in cluster alpha's week and on a small site, and what every GPU did meanwhile.

Ids and names are those of the documents.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from agent.wire.units import DAY_MS, DAY_SECONDS, HOUR_MS, MINUTE_MS
from simulator.activity import NOTHING, BoolArray, IntArray
from simulator.fed_runs import (
    debugging,
    host_to_device_bound,
    network_storage_bound,
    preprocessing_bound,
    quota_bound,
    vit,
)
from simulator.large_runs import NODE_NOTICED, alternating, hanging, in_rack, pretrain
from simulator.plan import Archetype, Outage, Plan, PlanEntry, Run, seats
from simulator.site import Host, Site
from simulator.small_runs import (
    LLM_SLO_SECONDS,
    RANKER_SLO_SECONDS,
    SWEEP_KINDS,
    benchmarks,
    beside_a_busy_disk,
    distilling,
    held_by_context,
    launch_bound,
    llm_service,
    notebook,
    offloaded,
    out_of_memory,
    page_cache_fed,
    ranker_service,
    sharing,
    tokenising,
)
from simulator.timeline import Timeline, joined, lasting

MON, TUE, WED, THU, FRI, SAT, SUN = range(7)

_NODE_DIED = 2 * DAY_MS + 13 * HOUR_MS + 12 * MINUTE_MS  # n05, Wednesday 13:12


def clock(day: int, hour: float, minute: float = 0) -> int:
    """Return a time of the week in milliseconds since its start."""
    return round(day * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS)


def _week_outages() -> tuple[Outage, ...]:
    """Return what is broken, drained or silent in the week."""
    return (
        Outage("n05", None, _NODE_DIED, clock(WED, 18), "down", "Not responding"),
        Outage("n05", None, clock(WED, 18), clock(SAT, 18), "drained", "memory test after crash"),
        Outage("n22", 5, clock(THU, 2, 20), clock(THU, 11, 40), "lost", "Xid 79"),
        Outage("n17", None, clock(SAT, 9), clock(SAT, 15, 30), "silent", ""),
    )


_LONG = 21.0 * DAY_SECONDS
_NODE_NOTICED = _NODE_DIED + NODE_NOTICED

_CORES_PER_GPU = {"data-prep": 40, "doc-ocr": 4}  # where it is not the site's default: much, and a tight quota


def training() -> Iterator[PlanEntry]:
    """Yield them all."""
    yield from _pretraining()
    yield from _language()
    yield from _speech()
    yield from _vision()
    yield from _odd_jobs()


def _pretraining() -> Iterator[PlanEntry]:
    """64 H100, ranks alternating between the racks; n05 dies on Wednesday, n04 takes its place."""
    before = ("n05", "n09", "n06", "n10", "n07", "n11", "n08", "n12")
    after = ("n04", "n09", "n06", "n10", "n07", "n11", "n08", "n12")
    first = Plan("80217", "pretrain-7b", "nlp", "gpu", seats(before), clock(-3, 16), clock(-2, 22, 40), _NODE_NOTICED)
    first = replace(first, exit_status="node_failed", limit_seconds=_LONG, labels={"model": "moe-26b-a7b"})
    second = replace(first, seats=seats(after), submitted=_NODE_NOTICED, started=clock(WED, 14, 2), attempt=1)
    second = replace(second, ended=None, exit_status=None)
    yield first, pretrain
    yield second, pretrain


def _language() -> Iterator[PlanEntry]:
    pair = seats(("n14", "n15"))
    sft = Plan("81234", "llama-sft", "nlp", "gpu", pair, clock(TUE, 6, 20), clock(TUE, 8, 12), clock(FRI, 6, 42))
    probe = Plan("81190", "moe-probe", "nlp", "gpu", pair, clock(MON, 12, 50), clock(MON, 13), clock(MON, 17, 5))
    align = Plan("81351", "rl-align", "nlp", "gpu", pair, clock(FRI, 5), clock(FRI, 9, 30), clock(SUN, 20, 10))
    yield replace(sft, exit_status="completed", reports_progress=True), preprocessing_bound
    yield replace(probe, exit_status="cancelled"), hanging
    yield replace(align, exit_status="completed", reports_progress=True), alternating


def _speech() -> Iterator[PlanEntry]:
    host = seats(("n13",))
    tuned = Plan("81177", "asr-finetune", "speech", "gpu", host, clock(MON, 9), clock(MON, 10), clock(WED, 7))
    yield replace(tuned, exit_status="completed", reports_progress=True), network_storage_bound
    yield Plan("81377", "debug-asr", "speech", "gpu", host, clock(FRI, 6, 50), clock(FRI, 7)), debugging


def _vision() -> Iterator[PlanEntry]:
    """A multi-host run in one rack, and nine runs of vit-large of which two are preempted."""
    pair = seats(("n02", "n03"))
    vlm = Plan("80411", "vlm-34b", "vision", "gpu", pair, clock(-2, 8), clock(-1, 4), clock(SAT, 14), "completed")
    yield vlm, in_rack
    slots = (
        (0, 0, "n01", clock(MON, 1), 17.0, "completed"),
        (1, 0, "n01", clock(MON, 23), 16.6, "preempted"),
        (1, 1, "n01", clock(TUE, 17, 30), 6.0, "completed"),
        (2, 0, "n01", clock(WED, 0), 15.0, "completed"),
        (3, 0, "n01", clock(WED, 20), 17.5, "completed"),
        (4, 0, "n01", clock(THU, 20), 12.9, "preempted"),
        (4, 1, "n01", clock(FRI, 10, 40), 5.0, "completed"),
        (5, 0, "n01", clock(FRI, 17), 18.0, "completed"),
        (6, 0, "n01", clock(SAT, 17), 21.0, "completed"),
        (7, 0, "n13", clock(WED, 9), 15.0, "completed"),
        (8, 0, "n13", clock(THU, 7), 14.5, "completed"),
    )
    for run, attempt, node, started, hours, status in slots:
        ended = started + round(hours * HOUR_MS)
        where, asked, number = seats((node,)), started - 25 * MINUTE_MS, f"{81150 + 23 * run}"
        plan = Plan(number, "vit-large", "vision", "preempt", where, asked, started, ended, status, attempt)
        yield plan, vit


def _odd_jobs() -> Iterator[PlanEntry]:
    """H100 work that has one peculiarity each."""
    first, last = (0, 1, 2, 3), (4, 5, 6, 7)
    table: tuple[tuple[str, str, str, str, tuple[int, ...], int, int, Archetype], ...] = (
        ("81161", "embed-train", "search", "n04", first, clock(MON, 2), clock(TUE, 14), host_to_device_bound),
        ("81163", "doc-ocr", "vision", "n04", last, clock(MON, 6), clock(TUE, 12), quota_bound),
        ("81240", "data-prep", "nlp", "n16", (4, 5), clock(TUE, 19), clock(WED, 9), tokenising),
        ("81229", "tts-train", "speech", "n16", (6, 7), clock(TUE, 12), clock(WED, 20), beside_a_busy_disk),
        ("81312", "gnn-train", "search", "n16", (4, 5), clock(THU, 8), clock(FRI, 16), launch_bound),
        ("81315", "offload-ft", "nlp", "n16", (6, 7), clock(THU, 9), clock(SAT, 3), offloaded),
        ("81408", "distill-3b", "nlp", "n02", tuple(range(8)), clock(SAT, 15), clock(SUN, 21), distilling),
        ("81098", "seg-train", "vision", "n24", first, clock(MON, 5), clock(THU, 4), page_cache_fed),
    )
    for number, name, account, node, gpus, started, ended, archetype in table:
        where = seats((node,), gpus)
        plan = Plan(number, name, account, "gpu", where, started - 20 * MINUTE_MS, started, ended, "completed")
        yield replace(plan, cores_per_gpu=_CORES_PER_GPU.get(name, plan.cores_per_gpu)), archetype


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
    ranker = Plan("79811", "ranker-serve", "search", "service", seats(("n17", "n18")), begun, begun)
    llm = Plan("79902", "llm-serve", "nlp", "service", seats(("n16",), (0, 1, 2, 3)), begun, begun)
    ranker = replace(ranker, promised_seconds=RANKER_SLO_SECONDS, labels={"launcher": "triton"})
    llm = replace(llm, promised_seconds=LLM_SLO_SECONDS, labels={"launcher": "vllm", "model": "llama-70b"})
    yield ranker, ranker_service
    yield llm, llm_service


def _notebooks() -> Iterator[PlanEntry]:
    for gpu in range(8):
        account = "nlp" if gpu % 2 else "vision"
        begun = clock(-3, 8 + gpu, 20 * gpu % 60)
        where = seats(("n19",), (gpu,))
        labels = {"launcher": "jupyter", "model": "none"}
        plan = Plan(f"{80051 + gpu}", "notebook", account, "interactive", where, begun, begun, labels=labels)
        yield plan, notebook


def _sweep(site: Site) -> Iterator[PlanEntry]:
    """41 trials of two A100s over eleven pairs; those of a kind that fails are short, and some sit on after the end."""
    rng = site.generator("schedule", "det-sweep")
    pairs = [(node, (gpu, gpu + 1)) for node in ("n20", "n21", "n22") for gpu in (0, 2, 4, 6)]
    pairs.remove(("n22", (4, 5)))  # its GPU falls off the bus on Thursday
    free = [clock(MON, 4, 7 * at) for at in range(len(pairs))]
    for trial in range(41):
        at = free.index(min(free))
        kind = SWEEP_KINDS[trial % len(SWEEP_KINDS)] if trial % 20 != 11 else held_by_context
        failing = kind is out_of_memory
        hours = rng.uniform(3.0, 9.0) if failing else rng.uniform(18.0, 36.0)
        started, ended = free[at], free[at] + round(hours * HOUR_MS)
        free[at] = ended + round(rng.uniform(0.2, 4.0) * HOUR_MS)
        node, gpus = pairs[at]
        plan = Plan(f"80911_{trial}", "det-sweep", "vision", "gpu", seats((node,), gpus), clock(MON, 3, 50), started)
        if ended < site.span:
            plan = replace(plan, ended=ended, exit_status="out_of_memory" if failing else "completed")
        yield plan, kind


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
            plan = Plan(f"81100_{number}", "eval", "nlp", "gpu", where, asked, started, ended, "completed")
            yield plan, benchmarks


def _shared() -> Iterator[PlanEntry]:
    """Four small runs on one A100 for six hours."""
    asked, started, ended = clock(THU, 8, 50), clock(THU, 9), clock(THU, 15)
    where = seats(("n24",), (7,))
    for number in range(4):
        plan = Plan(f"81290_{number}", "label-clean", "search", "shared", where, asked, started, ended, "completed")
        yield replace(plan, shared=4), sharing


def plans(site: Site) -> list[PlanEntry]:
    """Return every attempt of every run of the site's plan, with what it does, by job id and attempt."""
    entries = [*training(), *crowd(site)] if site.plan == "week" else _small()
    return sorted(entries, key=lambda entry: (entry[0].number, entry[0].attempt))


def outages(site: Site) -> tuple[Outage, ...]:
    """Return what is broken, drained or silent in the site's plan."""
    return _week_outages() if site.plan == "week" else ()


def pending(site: Site) -> tuple[Plan, ...]:
    """Return the runs that wait in the queue when the span ends; their seats say only how many GPUs they want."""
    if site.plan != "week":
        return ()
    return (
        Plan("81460", "llama-sft", "nlp", "gpu", seats(("", "")), clock(SUN, 19), clock(SUN, 23)),
        Plan("81463", "vit-large", "vision", "preempt", seats(("",)), clock(SUN, 21), clock(SUN, 23)),
    )


def _small() -> list[PlanEntry]:
    """Two hours on two hosts: a starved run, a service, a notebook, a short evaluation, four sharers, free GPUs."""
    hours = HOUR_MS
    sft = Plan("1", "llama-sft", "nlp", "gpu", seats(("s01",), (0, 1, 2, 3)), 0, 4 * MINUTE_MS)
    served = Plan("2", "ranker-serve", "search", "service", seats(("s02",), (0, 1)), -hours, -hours)
    book = Plan("3", "notebook", "vision", "interactive", seats(("s02",), (2,)), -hours, -hours)
    short = Plan("4", "eval", "nlp", "gpu", seats(("s02",), (3,)), 0, 10 * MINUTE_MS, 80 * MINUTE_MS, "completed")
    failed = Plan("5", "det-sweep", "vision", "gpu", seats(("s01",), (4, 5)), 0, 0, 70 * MINUTE_MS, "out_of_memory")
    shared = [
        Plan(f"6_{at}", "label-clean", "search", "shared", seats(("s02",), (7,)), 0, hours, shared=2) for at in range(2)
    ]
    return [
        (replace(sft, reports_progress=True), preprocessing_bound),
        (replace(served, promised_seconds=0.25), ranker_service),
        (book, notebook),
        (short, benchmarks),
        (failed, out_of_memory),
        *((plan, sharing) for plan in shared),
    ]


# The fleet as it was: what every GPU did from the first to the last millisecond of the span.
@dataclass(frozen=True, slots=True)
class Stay:
    """One run's time on one GPU. `main` is False for all but one of the runs that share a GPU."""

    run: Run
    timeline: Timeline  # cut to the span
    main: bool


class Fleet:
    """Every run of a site, and what it makes of every GPU. Built once; reading it changes nothing."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.outages: tuple[Outage, ...] = outages(site)
        self.pending: tuple[Plan, ...] = pending(site)
        self.runs: tuple[Run, ...] = tuple(
            archetype(plan, site.span, site.generator("run", _share(plan), plan.attempt))
            for plan, archetype in plans(site)
        )
        self._timelines: dict[tuple[str, int], Timeline] = {}

    @cached_property
    def _stays(self) -> dict[tuple[str, int], list[Stay]]:
        found: dict[tuple[str, int], list[Stay]] = {}
        for run in self.runs:
            for at, seat in enumerate(run.plan.seats):
                made = run.timeline(at)
                start, end = max(0, made.start), min(self.site.span, made.end)
                if start < end:
                    stays = found.setdefault((seat.node, seat.gpu), [])
                    alone = all(stay.timeline.end <= start or stay.timeline.start >= end for stay in stays)
                    stays.append(Stay(run, made.between(start, end), alone))
        return found

    def stays(self, host: Host, gpu: int) -> list[Stay]:
        """Return who held a GPU within the span, in the order in which they took it."""
        return sorted(self._stays.get((host.name, gpu), []), key=lambda stay: stay.timeline.start)

    def timeline(self, host: Host, gpu: int) -> Timeline:
        """Return what a GPU did over the whole span, free and broken times included."""
        key = (host.name, gpu)
        if key not in self._timelines:
            self._timelines[key] = self._assembled(host, gpu)
        return self._timelines[key]

    def _assembled(self, host: Host, gpu: int) -> Timeline:
        parts, now = [], 0
        for stay in self.stays(host, gpu):
            if not stay.main:
                continue
            if now < stay.timeline.start:
                parts.append(lasting(NOTHING, now, stay.timeline.start))
            parts.append(stay.timeline)
            now = stay.timeline.end
        if now < self.site.span:
            parts.append(lasting(NOTHING, now, self.site.span))
        whole = joined(parts)
        for outage in self.outages:
            if outage.touches(host.name, gpu):
                whole = whole.changed(outage.start, outage.end, outage.changes)
        return whole

    def heard(self, host: Host, starts: IntArray, ends: IntArray) -> BoolArray:
        """Return which of these intervals the host's agent reported."""
        heard: BoolArray = np.ones(len(starts), dtype=np.bool_)
        for outage in self._silences(host):
            heard &= (ends <= outage.start) | (starts >= outage.end)
        return heard

    def restarts(self, host: Host, gpu: int) -> list[int]:
        """Return when the driver of a GPU was loaded anew, ascending."""
        ends = [outage.end for outage in self.outages if outage.touches(host.name, gpu) and outage.restarts_counters]
        return sorted(ends)

    def _silences(self, host: Host) -> Iterator[Outage]:
        return (outage for outage in self.outages if outage.node == host.name and outage.silences)


def _share(plan: Plan) -> str:
    """Return what the randomness of a run hangs on: runs that share a GPU show one and the same timeline."""
    return plan.number.split("_")[0] if plan.shared > 1 else plan.number
