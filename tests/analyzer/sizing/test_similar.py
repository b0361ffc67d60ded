"""What runs like it cost and used, from a ledger that was written by hand."""

from dataclasses import replace

import pytest

from analyzer.sizing.fitting import GpuKind, Owned, fitting_offers, read_owned
from analyzer.sizing.model import model_named
from analyzer.sizing.sized import Check, PastRun, Spread, quantiles, read_past, similar
from analyzer.sizing.work import work_of
from tests.analyzer.finops.unit_cost_written import HOUR, MONDAY, RATE, Written

GIB = 2**30
H100 = GpuKind("H100-80GB", 80 * GIB, 8, None, 8)
MODEL, WORK = model_named("llama-3-8b"), work_of("lora")
FITS, _ = fitting_offers(MODEL, WORK, [H100])
RUN = PastRun(
    "r1", "sft", "meta-llama/Meta-Llama-3-8B", "fine-tuning", "H100-80GB", 1, 3600, 2_000_000, False, 60 * GIB
)


def test_runs_of_the_same_model_are_found_by_any_of_its_names() -> None:
    """A path with a release in it is the same model; a run that serves is other work."""
    other = replace(RUN, run_id="r2", model="bert")
    served = replace(RUN, run_id="r3", stage="serving")
    found = similar([RUN, other, served], MODEL, WORK, FITS, [H100], None)
    assert found is not None
    assert ([run.run_id for run in found.runs], found.by) == (["r1"], "of the model llama-3-8b")
    assert found.micros == Spread(2_000_000, 2_000_000, 2_000_000, 1, True)
    assert found.micros_per_hour == found.micros


def test_runs_on_other_gpus_are_never_one_spread() -> None:
    """An A100 takes another time at another price, and so do two H100: each has its own figures, and none has all."""
    runs = [
        replace(RUN, run_id=f"{sku}.{gpus}.{number}", sku=sku, gpus=gpus, seconds=seconds + number)
        for sku, gpus, seconds in (("H100-80GB", 1, 1000), ("H100-80GB", 2, 600), ("A100-80GB", 1, 2500))
        for number in range(3)
    ]
    found = similar(runs, MODEL, WORK, FITS, [H100], None)
    assert found is not None
    assert (found.micros, found.micros_per_hour, found.seconds) == (None, None, None)
    told = {(one.sku, one.gpus): one.seconds for one in found.of_kinds}
    assert told[("H100-80GB", 1)] == Spread(1000, 1001, 1002, 3, True)
    assert told[("A100-80GB", 1)] == Spread(2500, 2501, 2502, 3, True)
    assert told[("H100-80GB", 2)] == Spread(600, 601, 602, 3, True)


def test_what_the_ledger_calls_it_may_be_told() -> None:
    """Then runs that are merely near are no answer."""
    named = replace(RUN, model="our-8b")
    assert similar([named], MODEL, WORK, (), [H100], None) is None
    found = similar([named], MODEL, WORK, (), [H100], "our-8b")
    assert found is not None
    assert similar([named], MODEL, WORK, FITS, [H100], "their-8b") is None


def test_else_what_is_near_in_memory_and_gpus() -> None:
    """Within a quarter of the estimate, on the same kind, with half to twice the GPUs; nothing is checked by them."""
    estimate = FITS[0].memory.total_bytes
    near = replace(RUN, model="bert", peak_bytes=estimate * 5 // 4)
    far = replace(near, run_id="r2", peak_bytes=estimate * 5 // 4 + 2)
    many = replace(near, run_id="r3", gpus=3)
    unmeasured = replace(near, run_id="r4", peak_bytes=None)
    found = similar([near, far, many, unmeasured], MODEL, WORK, FITS, [H100], None)
    assert found is not None
    assert ([run.run_id for run in found.runs], found.check) == (["r1"], None)


def test_the_formula_is_held_against_the_fullest_run() -> None:
    """For its kind and number of GPUs; a server's gauge says what it was told to take."""
    found = similar([RUN, replace(RUN, run_id="r2", peak_bytes=70 * GIB)], MODEL, WORK, FITS, [H100], None)
    assert found is not None
    assert found.check == Check("H100-80GB", 1, 70 * GIB, FITS[0].memory.total_bytes, "none", True)
    serves = replace(RUN, stage="serving", gpus=4)
    found = similar([serves], MODEL, work_of("inference"), (), [H100], None)
    assert found is not None
    assert found.check is not None
    assert (found.check.says_need, found.check.sharding) == (False, "tensor=4")


@pytest.mark.parametrize(
    ("amounts", "told"),
    [
        ([], None),
        ([5], Spread(5, 5, 5, 1, True)),
        ([4, 1, 3], Spread(1, 3, 4, 3, True)),
        (list(range(1, 11)), Spread(1, 5, 9, 10, False)),
        (list(range(1, 101)), Spread(10, 50, 90, 100, False)),
    ],
)
def test_a_spread_is_of_nearest_ranks(amounts: list[int], told: Spread | None) -> None:
    """Of fewer than five nobody knows a tenth: then it is the least and the most."""
    assert quantiles(amounts) == told


def test_the_ledger_tells_cost_time_and_model() -> None:
    """Those that completed, and services as they are; what failed was other work than it set out to be."""
    site = Written()
    hours = range(MONDAY, MONDAY + 3 * HOUR, HOUR)
    site.know(MONDAY, MONDAY + 4 * HOUR)
    facts = {"sku": "H100-80GB", "gpus": 2, "started_at": MONDAY, "ended_at": MONDAY + 3 * HOUR}
    site.run("a", "sft", "t", model="llama-3-8b", stage="fine-tuning", exit_status="completed", **facts)
    site.run("b", "sft", "t", model="llama-3-8b", stage="fine-tuning", exit_status="failed", **facts)
    site.run("c", "chat", "t", model="llama-3-8b", stage="serving", **facts | {"ended_at": None})
    for run_id in "abc":
        site.book(run_id, hours, lambda _: 2.0)
    with site.store.session() as session:
        found = read_past(session, MONDAY + 4 * HOUR, {"a": 40 * GIB})
        assert read_owned(session) == {"H100": Owned(1, 1, None)}
    tuned, served = found
    assert (tuned.seconds, tuned.micros, tuned.peak_bytes, tuned.is_open) == (3 * 3600, 6 * RATE, 40 * GIB, False)
    assert (served.run_id, served.seconds, served.is_open, served.peak_bytes) == ("c", 4 * 3600, True, None)


def test_the_newest_hour_tells_what_the_fleet_has() -> None:
    """Counted by kind; what was owned before counts no more; the memory is the least that a driver reports."""
    where = [("n1", f"g{index}") for index in range(4)] + [("n2", "g9")]
    owned = [[MONDAY + HOUR, gpu, node, "L4-24GB"] for node, gpu in where] + [[MONDAY, "old", "n0", "V100-16GB"]]
    told = [[node, 1, 2, gpu, 22 * GIB + index, 1] for index, (node, gpu) in enumerate(where)]
    rest = ["unallocated", "free", False, 3_600_000, "rules", "prices"]
    columns = ["hour", "gpu_uuid", "node", "sku", "state", "cause", "shared", "milliseconds"]
    with Written().store.session() as session:
        session.load("ledger", [*columns, "rules_version", "price_version"], [[*row, *rest] for row in owned])
        session.load("inventory", ["node", "started_at", "ended_at", "gpu_uuid", "memory_bytes", "batch"], told)
        assert read_owned(session) == {"L4-24GB": Owned(5, 4, 22 * GIB)}
