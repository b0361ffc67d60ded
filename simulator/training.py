"""The large runs of the week, one after another on the H100 hosts."""

from collections.abc import Iterator
from dataclasses import replace

from agent.wire.units import HOUR_MS, MINUTE_MS
from simulator.archetypes import (
    alignment,
    controls,
    finetuning,
    hang,
    preparation,
    pretraining,
    speech,
    transfers,
    vision,
)
from simulator.calendar import FRI, MON, NODE_DIED, SAT, SUN, THU, TUE, WED, clock
from simulator.plan import Archetype, Plan, PlanEntry, seats

_LONG = 21 * 86_400.0
_NODE_NOTICED = NODE_DIED + pretraining.NODE_NOTICED

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
    submitted = clock(-3, 16)
    began = clock(-2, 22, 40)
    first = Plan(
        "80217",
        "pretrain-7b",
        "nlp",
        "gpu",
        seats(before),
        submitted,
        began,
        _NODE_NOTICED,
        "node_failed",
        limit_seconds=_LONG,
        labels={"model": "moe-26b-a7b"},
    )
    again = clock(WED, 14, 2)
    second = Plan(
        "80217",
        "pretrain-7b",
        "nlp",
        "gpu",
        seats(after),
        _NODE_NOTICED,
        again,
        None,
        None,
        1,
        limit_seconds=_LONG,
        labels={"model": "moe-26b-a7b"},
    )
    yield first, pretraining.pretrain
    yield second, pretraining.pretrain


def _language() -> Iterator[PlanEntry]:
    pair = seats(("n14", "n15"))
    begun, ended = clock(TUE, 8, 12), clock(FRI, 6, 42)
    sft = Plan("81234", "llama-sft", "nlp", "gpu", pair, clock(TUE, 6, 20), begun, ended, "completed")
    probe = Plan(
        "81190", "moe-probe", "nlp", "gpu", pair, clock(MON, 12, 50), clock(MON, 13), clock(MON, 17, 5), "cancelled"
    )
    align = Plan(
        "81351", "rl-align", "nlp", "gpu", pair, clock(FRI, 5), clock(FRI, 9, 30), clock(SUN, 20, 10), "completed"
    )
    yield replace(sft, reports_progress=True), finetuning.preprocessing_bound
    yield probe, hang.hanging
    yield replace(align, reports_progress=True), alignment.alternating


def _speech() -> Iterator[PlanEntry]:
    host = seats(("n13",))
    tuned = Plan(
        "81177", "asr-finetune", "speech", "gpu", host, clock(MON, 9), clock(MON, 10), clock(WED, 7), "completed"
    )
    yield replace(tuned, reports_progress=True), speech.network_storage_bound
    yield (
        Plan("81377", "debug-asr", "speech", "gpu", host, clock(FRI, 6, 50), clock(FRI, 7), None, None),
        speech.debugging,
    )


def _vision() -> Iterator[PlanEntry]:
    """A multi-host run in one rack, and nine runs of vit-large of which two are preempted."""
    pair = seats(("n02", "n03"))
    yield (
        Plan("80411", "vlm-34b", "vision", "gpu", pair, clock(-2, 8), clock(-1, 4), clock(SAT, 14), "completed"),
        pretraining.in_rack,
    )
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
        yield plan, vision.vit


def _odd_jobs() -> Iterator[PlanEntry]:
    """H100 work that has one peculiarity each."""
    first, last = (0, 1, 2, 3), (4, 5, 6, 7)
    table: tuple[tuple[str, str, str, str, tuple[int, ...], int, int, Archetype], ...] = (
        ("81161", "embed-train", "search", "n04", first, clock(MON, 2), clock(TUE, 14), transfers.host_to_device_bound),
        ("81163", "doc-ocr", "vision", "n04", last, clock(MON, 6), clock(TUE, 12), finetuning.quota_bound),
        ("81240", "data-prep", "nlp", "n16", (4, 5), clock(TUE, 19), clock(WED, 9), preparation.tokenising),
        ("81229", "tts-train", "speech", "n16", (6, 7), clock(TUE, 12), clock(WED, 20), controls.beside_a_busy_disk),
        ("81312", "gnn-train", "search", "n16", (4, 5), clock(THU, 8), clock(FRI, 16), controls.launch_bound),
        ("81315", "offload-ft", "nlp", "n16", (6, 7), clock(THU, 9), clock(SAT, 3), controls.offloaded),
        ("81408", "distill-3b", "nlp", "n02", tuple(range(8)), clock(SAT, 15), clock(SUN, 21), controls.distilling),
        ("81098", "seg-train", "vision", "n24", first, clock(MON, 5), clock(THU, 4), controls.page_cache_fed),
    )
    for number, name, account, node, gpus, started, ended, archetype in table:
        where = seats((node,), gpus)
        plan = Plan(number, name, account, "gpu", where, started - 20 * MINUTE_MS, started, ended, "completed")
        yield replace(plan, cores_per_gpu=_CORES_PER_GPU.get(name, plan.cores_per_gpu)), archetype
