"""What is noticed of runs: services beside training, full memory, idle tensor cores, packed stages, too large a GPU."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from analyzer.findings.health.queues import Mixture, TimeShare, mixed_notices
from analyzer.findings.health.runs import (
    FleetKind,
    Fullest,
    LongStart,
    Pipes,
    Turns,
    Use,
    full_memory_notices,
    idle_tensor_notices,
    long_start_notices,
    packed_stage_notices,
    too_large_notices,
)
from tests.analyzer.findings.health_fleets import (
    GB,
    UNTIL,
    WELL,
    hosts,
    not_judged,
    noticed,
    own_notices,
    train,
)
from tests.analyzer.ledger.copies import OnePass, made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

one_pass = OnePass(lambda store, _: store.analyze(UNTIL))


def serving(fleet: Fleet, slow_until: int) -> None:
    """Let a service answer, too late until then."""
    row = {"node": "n1", "run_id": "slurm/alpha/8", "slo_seconds": 0.5, "requests": 10}
    fleet.add(
        "service_samples",
        [
            row
            | {"started_at": at, "ended_at": at + MINUTE, "first_token_seconds_p99": 2.0 if at < slow_until else 0.1}
            for at in range(MONDAY, UNTIL, MINUTE)
        ],
    )


def beside_training(fleet: Fleet, slow_until: int) -> None:
    """Add a service that has training beside it for the first three hours."""
    hosts(into=fleet)
    train(fleet, ["n1-a"], "slurm/alpha/8", "chat-serve", queue="service")
    train(fleet, ["n1-b"], until=MONDAY + 3 * HOUR, queue="gpu")
    serving(fleet, slow_until)


@one_pass
def test_a_service_that_is_late_beside_training_is_noticed(fleet: Fleet) -> Iterator[None]:
    """Only meanwhile: when it is alone again it keeps its promise."""
    beside_training(fleet, MONDAY + 2 * HOUR)
    yield
    (notice,) = own_notices(fleet, "fleet/mixed")
    assert (notice.subject, notice.confidence, notice.team) == ("chat-serve", "medium", None)
    assert "it misses its latency SLO 66.6% of that time" in notice.sentence


@one_pass.each((MONDAY,), (UNTIL,))
def test_a_service_that_keeps_its_promise_is_only_possible(fleet: Fleet, slow_until: int) -> Iterator[None]:
    """Sharing a host is no fault, listed for who asks for everything; late alone as well, training is not why."""
    beside_training(fleet, slow_until)
    yield
    (notice,) = own_notices(fleet, "fleet/mixed")
    assert notice.confidence == "low"


def test_one_queue_for_both_is_only_possible_and_a_service_without_a_promise_is_not_judged() -> None:
    """Priorities may keep them apart; and nobody can say that the service beside training did worse."""
    fleet = hosts()
    train(fleet, ["n1-a"], "slurm/alpha/8", "chat-serve", queue="both")
    train(fleet, ["n2-a"], queue="both")
    train(fleet, ["n3-a"], "slurm/alpha/9", "code-serve", queue="service")
    train(fleet, ["n3-b"], "slurm/alpha/2", queue="gpu")
    assert {n.subject: n.confidence for n in noticed(fleet, "fleet/mixed")} == {
        "queue both": "low",
        "code-serve": "low",
    }
    assert len(not_judged(fleet, "fleet/mixed")) == 1


def test_training_that_loses_more_beside_a_service_counts_too() -> None:
    """Less than an hour together is a change of shift."""
    apart, together = TimeShare(1000, 50), TimeShare(1000, 200)
    mixture = Mixture("a", "a", None, 3_600_000, ("n1",), ("b",), TimeShare(), TimeShare(), together, apart)
    (notice,) = mixed_notices(mixture)
    assert notice.confidence == "medium"
    assert list(mixed_notices(replace(mixture, ms=3_599_999))) == []


HALF_AN_HOUR = 1_800_000  # milliseconds
START = LongStart("slurm/alpha/9", "llama-sft", "nlp", 4, HALF_AN_HOUR, 4 * HALF_AN_HOUR, 4 * HALF_AN_HOUR, 4_100)


def test_a_start_that_prepares_its_data_is_told() -> None:
    """Three ranks wait half an hour for one that computes on processors: that needs no GPU."""
    (notice,) = long_start_notices([START])
    assert (notice.subject, notice.actor) == ("llama-sft", "run")
    assert notice.sentence.startswith("held 4 GPUs for 30 min before any of them worked while 4.1 cores prepared")
    assert notice.sentence.endswith("prepare its data once, before GPUs are held")


def test_a_start_that_loads_is_told_to_load_from_nearby() -> None:
    """Without a word of its processors nobody says that they were at work."""
    (notice,) = long_start_notices([replace(START, cores_milli=None)])
    assert notice.sentence.endswith("keep what it loads on local disks")
    assert notice.confidence == "low"
    assert list(long_start_notices([replace(START, starting_ms=1_000)])) == []


@one_pass.each((False, "low"), (True, "high"))
def test_nearly_full_memory_is_noticed(fleet: Fleet, ran_out: bool, confidence: str) -> Iterator[None]:
    """A flat line is no evidence; with how runs of that name ended it is more than a gauge."""
    hosts({"n1-a": {"memory_used_bytes": 77 * GB}}, into=fleet)
    train(fleet, ["n1-a"], name="wide")
    if ran_out:
        over = {"exit_status": "out_of_memory", "until": MONDAY + HOUR}
        train(fleet, ["n2-a"], "slurm/alpha/3", "wide", **over)
    yield
    (notice,) = own_notices(fleet, "run/hbm_headroom")
    assert (notice.subject, notice.confidence) == ("wide", confidence)


@pytest.mark.parametrize(
    ("run", "confidences"),
    [
        (Fullest("a", "a", None, "n1", "g", 80 * GB, 5, 73 * GB, 40 * GB, 0), ["medium"]),
        (Fullest("a", "a", None, "n1", "g", 80 * GB, 5, 72 * GB, 40 * GB, 0), []),  # a tenth is free
        (Fullest("a", "a", None, "n1", "g", 80 * GB, 2, 79 * GB, 40 * GB, 0), []),  # not steady
    ],
)
def test_memory_that_comes_and_goes_is_evidence(run: Fullest, confidences: list[str]) -> None:
    """What was set aside at the start never moves."""
    assert [notice.confidence for notice in full_memory_notices([run])] == confidences


@one_pass
def test_a_service_may_fill_its_memory(fleet: Fleet) -> Iterator[None]:
    """Its cache is what it is for."""
    hosts({"n1-a": {"memory_used_bytes": 79 * GB}}, into=fleet)
    train(fleet, ["n1-a"], name="chat-serve", queue="service")
    yield
    assert own_notices(fleet, "run/hbm_headroom") == []


@made_once
def dumb() -> Fleet:
    """Return a GPU that trains, of which neither its size nor GPM is told, analysed."""
    fleet = Fleet()
    fleet.own("n1", ["n1-a"])
    fleet.sample("n1", "n1-a", MONDAY, UNTIL, **WELL | {"sm_active_ratio": None, "tensor_active_ratio": None})
    train(fleet, ["n1-a"])
    fleet.analyze(UNTIL)
    return fleet


def test_memory_without_a_size_is_not_judged() -> None:
    """79 GB is little of a B200."""
    assert len(not_judged(dumb(), "run/hbm_headroom")) == 1


@one_pass
def test_tensor_cores_that_rest_are_noticed(fleet: Fleet) -> Iterator[None]:
    """In training alone: nothing is known of what an evaluation computes."""
    but = {"tensor_active_ratio": 0.005, "fp32_active_ratio": 0.4}
    hosts({"n1-a": but, "n2-a": but}, into=fleet)
    train(fleet, ["n1-a"], name="old-train")
    train(fleet, ["n2-a"], "slurm/alpha/2", "eval-bench")
    yield
    (notice,) = own_notices(fleet, "run/mixed_precision")
    assert (notice.subject, notice.confidence) == ("old-train", "high")
    assert notice.sentence.startswith("tensor cores unused (0.5%) while SMs are busy (90%) over 5 GPU-hours")


@pytest.mark.parametrize(
    ("pipes", "confidences"),
    [
        (Pipes("a", "a", None, 7_200_000, 600, 20), ["medium"]),  # nobody told of FP32
        (Pipes("a", "a", None, 7_199_999, 600, 20, 300), []),
        (Pipes("a", "a", None, 7_200_000, 499, 20, 300), []),
        (Pipes("a", "a", None, 7_200_000, 600, 21, 300), []),
        (Pipes("a", "a", None, 7_200_000, 600, 20, 50), []),  # neither is FP32 what keeps the SMs busy
        (Pipes("a", "a", None, 7_200_000, 600, 20, 300, 300), []),  # FP64 has no use for them
    ],
)
def test_busy_sms_alone_are_no_fp32(pipes: Pipes, confidences: list[str]) -> None:
    """Graphs, tables and simulations keep SMs busy without any matrix product."""
    assert [notice.confidence for notice in idle_tensor_notices([pipes])] == confidences


def test_gpus_without_gpm_are_not_judged() -> None:
    """One line for the kind of GPU, not one for each run."""
    assert not_judged(dumb(), "run/mixed_precision") == [
        "no SM and tensor activity of H100-80GB (GPM is Hopper's and newer)"
    ]


@one_pass
def test_stages_that_take_turns_are_noticed(fleet: Fleet) -> Iterator[None]:
    """Forty minutes of processors, twenty of GPUs, and again."""
    fleet.own("n1", ["n1-a"])
    train(fleet, ["n1-a"], name="etl-and-fit")
    rows = []
    for at in range(MONDAY, UNTIL, MINUTE):
        prepares = (at - MONDAY) // MINUTE % 60 < 40
        share = 0.02 if prepares else 0.9
        fleet.sample("n1", "n1-a", at, at + MINUTE, **WELL | {"utilization_ratio": share, "sm_active_ratio": share})
        told = {"node": "n1", "run_id": "slurm/alpha/1", "started_at": at, "ended_at": at + MINUTE}
        rows.append(told | {"cores_allotted": 16.0, "cpu_seconds": 60 * (15.5 if prepares else 2.0)})
    fleet.add("run_samples", rows)
    yield
    (notice,) = own_notices(fleet, "run/packed_stages")
    assert notice.subject == "etl-and-fit"
    assert "split it into a CPU run and a GPU run" in notice.sentence
    assert notice.evidence[0].seen == "66.6%"


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        (Turns("a", "a", None, 300, 200, 700, 100, 80, 8), 1),
        (Turns("a", "a", None, 119, 200, 700, 60, 40, 8), 0),
        (Turns("a", "a", None, 300, 400, 700, 100, 80, 8), 0),  # its GPUs are busy enough
        (Turns("a", "a", None, 300, 200, 900, 290, 5, 8), 0),  # starved: a finding, not a second stage
        (Turns("a", "a", None, 300, 200, 700, 100, 80, 3), 0),  # prepared once, then trained
    ],
)
def test_turns_are_what_tells_two_stages(turns: Turns, count: int) -> None:
    """Full processors beside quiet GPUs are input starvation as long as nothing alternates."""
    assert len(list(packed_stage_notices([turns]))) == count


SMALL = Use("a", "a", None, "H100-80GB", 80 * GB, 1, DAY // 1000, 80, 60, 10, 20, 4 * GB, 2_000, 8 * GB)
OWNED = [FleetKind("L4-24GB", 24 * GB), FleetKind("H100-80GB", 80 * GB)]


@pytest.mark.parametrize(
    "otherwise",
    [
        {"utilization": 151},
        {"memory": 10 * GB + 1},
        {"held_ms": DAY // 1000 - 1},
        {"dram": 300},  # little memory, streamed again and again
        {"tensor": 200},
        {"sm": 400},
        {"millicores_per_gpu": 13_000},  # the GPU is what came with the cores
        {"host_bytes_per_gpu": 33 * GB},
        {"sku": None},
    ],
)
def test_a_large_gpu_is_judged_by_everything_together(otherwise: dict[str, Any]) -> None:
    """Never from the memory gauge alone: each signal by itself keeps the rule silent."""
    assert list(too_large_notices([replace(SMALL, **otherwise)], OWNED)) == []


def test_something_smaller_must_be_there() -> None:
    """A kind that the fleet owns before a slice, and neither for a run that needs several A10s."""
    (kind,) = too_large_notices([SMALL], OWNED)
    assert "L4-24GB, which the fleet has, would do" in kind.sentence
    (part,) = too_large_notices([SMALL], OWNED[1:])
    assert "MIG slice" in part.sentence
    assert list(too_large_notices([replace(SMALL, sku="A10-24GB", gpu_bytes=24 * GB)], OWNED[:1])) == []
    (bounded,) = too_large_notices([replace(SMALL, sm=None, dram=None)], OWNED)
    assert bounded.confidence == "medium"


def test_a_run_that_a_slice_would_do_is_found() -> None:
    """Over a day; the same run as a service is judged by its promise instead."""
    little = {
        "utilization_ratio": 0.08,
        "sm_active_ratio": 0.06,
        "tensor_active_ratio": 0.01,
        "dram_active_ratio": 0.02,
    }
    fleet, until = Fleet(), MONDAY + 26 * HOUR
    for node, name in (("n1", "probe"), ("n2", "probe-serve")):
        fleet.own(node, [f"{node}-a"])
        fleet.sample(
            node, f"{node}-a", MONDAY, until, every=10 * MINUTE, **WELL | little | {"memory_used_bytes": 4 * GB}
        )
        train(fleet, [f"{node}-a"], f"slurm/alpha/{node}", name)
    size = {"sku": "H100-80GB", "memory_bytes": 80 * GB, "started_at": MONDAY, "ended_at": MONDAY + MINUTE}
    fleet.add("inventory", [size | {"node": node, "gpu_uuid": f"{node}-a"} for node in ("n1", "n2")])
    (notice,) = noticed(fleet, "run/too_large", until=until)
    assert (notice.subject, notice.confidence) == ("probe", "high")
