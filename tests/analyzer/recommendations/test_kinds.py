"""Each kind of change on a site made for it: what is proposed, with which move, checks and lines; and where none is."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analyzer.measures.efficiency.checkpoints import Checkpoints, Figure, withheld
from analyzer.recommendations.proposal import kinds
from analyzer.recommendations.recommendation import Saved
from analyzer.recommendations.rules import FINDINGS
from analyzer.recommendations.site import Feed, KindRate, Limited, Served
from analyzer.recommendations.types import checkpointing, hardware, idle, input_path, moves, serving, sharing
from tests.analyzer.recommendations.sites import (
    GIB,
    H100,
    POD,
    RUN,
    finding,
    held,
    host,
    notice,
    run,
    site,
    sound,
    text_of,
)

ROOT = Path(__file__).parents[3]


def test_cores_are_given_on_the_same_host_before_any_move() -> None:
    """Half as many again, where no other run of the host may use them; and twice the workers it was seen to have."""
    where = site([host("n1")], [run(workers=4)])
    found = sound(input_path.more_workers(finding("starved", "preprocessing"), where))
    assert (found.kind, found.move and found.move.to) == ("more_cpu", found.move and found.move.from_)
    assert "#SBATCH --cpus-per-gpu=12" in text_of(found, "slurm")
    assert "num_workers=8" in text_of(found, "python")
    assert held(found)["cores"] is True


def test_cores_that_another_run_may_use_are_not_promised() -> None:
    """Of 128 cores another run has 56: what is left is 72, and 9 a GPU, not 12."""
    where = site([host("n1")], [run(workers=4), run("slurm/alpha/2", each=1, cores=56.0)])
    found = sound(input_path.more_workers(finding("starved", "preprocessing"), where))
    assert "#SBATCH --cpus-per-gpu=9" in text_of(found, "slurm")
    assert held(found)["cores"] is True


def test_a_run_whose_hosts_have_no_core_left_moves_where_there_are_some() -> None:
    """Only then: a move costs a restart."""
    full = run("slurm/alpha/2", each=1, cores=64.0)
    where = site([host("n1"), host("n2", "rack-2", free=8)], [run(workers=4), full])
    found = sound(input_path.more_workers(finding("starved", "preprocessing"), where))
    assert found.moving_gpu_ms > 0
    assert text_of(found, "slurm").splitlines() == ["#SBATCH --nodelist=n2", "#SBATCH --cpus-per-gpu=12"]
    assert input_path.more_workers(finding("starved", "preprocessing"), site([host("n1")], [run(), full])) is None


def test_on_kubernetes_the_same_change_is_a_request_of_each_pod() -> None:
    """16 GPUs in 2 pods: 8 GPUs, and so 96 cores, in each; no line for Slurm."""
    where = site([host("n1"), host("n2")], [run(POD, ("n1", "n2"), workers=4)])
    found = sound(input_path.more_workers(finding("starved", "preprocessing", POD), where))
    assert "kubectl -n ml set resources deployment/train --requests=cpu=96" in text_of(found, "kubernetes")
    assert not text_of(found, "slurm")


def test_input_is_staged_on_the_hosts_own_nvme_without_a_move() -> None:
    """The directories are not in the store: the lines refuse to run without them, and say so."""
    found = sound(input_path.stage_on_nvme(finding("starved", "network_storage"), site([host("n1")], [run()])))
    assert (found.kind, found.moving_gpu_ms) == ("local_nvme", 0)
    assert '"${DATA:?' in text_of(found, "slurm")


def test_a_run_without_nvme_moves_to_hosts_that_have_some() -> None:
    """And none is promised where no free host has any."""
    bare = replace(host("n1"), local_nvme_bytes=0)
    where = site([bare, host("n2", free=8)], [run()])
    found = sound(input_path.stage_on_nvme(finding("starved", "network_storage"), where))
    assert found.move is not None
    assert found.move.to is not None
    assert found.move.to.nodes == ("n2",)
    assert input_path.stage_on_nvme(finding("starved", "network_storage"), site([bare], [run()])) is None


def test_a_consumer_moves_to_the_rack_of_its_producer() -> None:
    """Its flows say from which host its input comes, and one other run is there."""
    producer = run("slurm/alpha/7", ("n5",), name="tokenize")
    hosts = [host("n1"), host("n5", "rack-2"), host("n6", "rack-2", free=8), host("n2", free=8)]
    where = site(hosts, [run(), producer], feeds={RUN: (Feed("slurm/alpha/7", "n5", 40 * GIB),)})
    found = sound(input_path.stage_on_nvme(finding("starved", "network_storage"), where))
    assert (found.kind, found.title) == ("co_locate_data", "run beside tokenize in rack-2")
    assert "received 40 GiB from n5" in found.why
    assert "--nodelist=n6" in text_of(found, "slurm")


def test_a_producer_in_the_same_rack_is_near_enough() -> None:
    """Then only the copy on local NVMe is left."""
    hosts = [host("n1"), host("n5"), host("n6", free=8)]
    feeds = {RUN: (Feed("slurm/alpha/7", "n5", 40 * GIB),)}
    where = site(hosts, [run(), run("slurm/alpha/7", ("n5",))], feeds=feeds)
    found = input_path.stage_on_nvme(finding("starved", "network_storage"), where)
    assert found is not None
    assert found.kind == "local_nvme"


def test_ranks_on_kubernetes_are_ordered_by_the_label_that_told_the_racks() -> None:
    """Nobody there reads a rank file."""
    hosts = [host(f"n{number}", f"rack-{number % 2}") for number in range(4)]
    where = site(hosts, [run(POD, ("n0", "n1", "n2", "n3"))])
    found = sound(moves.order_ranks(finding("communicating", "cross_rack", POD), where))
    assert found.kind == "reorder_ranks"
    assert "kueue.x-k8s.io/podset-preferred-topology: topology.kubernetes.io/rack" in text_of(found, "kubernetes")


def test_a_rack_that_can_never_hold_the_run_fails_its_check() -> None:
    """Waiting helps where GPUs are held, not where there are too few of them."""
    hosts = [host("n1", "a"), host("n2", "b"), host("n3", "b", free=8)]
    where = site(hosts, [run(nodes=("n1", "n2"))])
    assert held(sound(moves.order_ranks(finding("communicating", "cross_rack"), where)))["free GPUs"] is True
    small = site(hosts[:2], [run(nodes=("n1", "n2"))])
    assert held(sound(moves.order_ranks(finding("communicating", "cross_rack"), small)))["free GPUs"] is False


def test_a_slow_gpu_is_replaced_within_its_rack() -> None:
    """Another rack would cost the ring what the slow GPU did."""
    hosts = [host("n1"), host("n2"), host("n3", "rack-2", free=8), host("n4", free=8)]
    where = site(hosts, [run(nodes=("n1", "n2"))], slowed={RUN: {"n2-3": 3_600_000}})
    slow = finding("communicating", "straggler", caused_by="n2-3")
    found = sound(hardware.replace_slow_gpu(slow, where))
    assert found.move is not None
    assert found.move.to is not None
    assert found.move.to.nodes == ("n1", "n4")
    assert "#SBATCH --exclude=n2" in text_of(found, "slurm")


@pytest.mark.parametrize("rule", sorted(hardware.REMEDIES))
def test_a_sick_gpu_s_host_is_drained_and_nobody_is_ended(rule: str) -> None:
    """The runs there are named, and nothing is claimed that has not been lost."""
    where = site([host("n1")], [run()])
    found = sound(hardware.drain_sick(notice(rule, node="n1", gpu_uuid="n1-3"), where))
    assert (
        found.saves == Saved(found.saves.milliseconds, found.saves.micros) if isinstance(found.saves, Saved) else False
    )
    assert isinstance(found.saves, Saved)
    assert found.saves.milliseconds.p80 == 0
    assert found.losers == "none until they end: train"
    assert "scontrol update nodename=n1 state=drain" in text_of(found, "slurm")
    assert hardware.drain_sick(notice(rule, node="n9"), where) is None


def test_runs_that_ended_are_not_cancelled() -> None:
    """A command that ends what has ended helps nobody: what remains is a limit, by the longest that one worked."""
    open_ = run(idle_seconds=9 * 3600)
    found = sound(idle.release(finding("held_idle", "abandoned"), site([host("n1")], [open_])))
    warning, command = text_of(found, "slurm").splitlines()
    assert command == "scancel 81234"
    assert warning == "# once its owner agrees: train idles for 9 h, and loses unsaved state in memory"
    of_ended = sound(
        idle.release(finding("held_idle", "abandoned"), site([host("n1")], [run(is_open=False, active_seconds=18_000)]))
    )
    assert "#SBATCH --time=06:15:00" in text_of(of_ended, "slurm")
    pods = site([host("n1")], [run(POD, idle_seconds=3600)])
    released = sound(idle.release(finding("held_idle", "abandoned", POD), pods))
    assert text_of(released, "kubernetes").endswith("kubectl -n ml scale deployment/train --replicas=0")


def test_one_idle_rank_of_a_gang_is_not_released() -> None:
    """Its peers wait for it, or it waits for them: what is left of the run could not go on."""
    for cause in ("abandoned", "held_memory"):
        propose = idle.release if cause == "abandoned" else sharing.share_slices
        one, all_ = (site([host("n1")], [run(idle_gpus=gpus)]) for gpus in (1, 8))
        assert propose(finding("held_idle", cause), one) is None
        assert sound(propose(finding("held_idle", cause), all_)).kind == "release"


@pytest.mark.parametrize("known", [{}, {"idle_seconds": 0}, {"idle_seconds": 600}])
def test_what_works_again_or_is_not_known_to_idle_is_never_ended(known: dict[str, Any]) -> None:
    """It idled on Tuesday and works today: a line that ends it would end that work."""
    where = site([host("n1")], [run(**known)])
    for kind, cause in (("held_idle", "abandoned"), ("communicating", "hang")):
        propose = idle.release if cause == "abandoned" else idle.end_hung
        found = propose(finding(kind, cause), where)
        assert found is None or not found.artefacts, found
    assert idle.end_hung(finding("communicating", "hang"), where) is None


def test_a_limit_is_above_the_longest_run_and_never_their_mean() -> None:
    """Twelve runs of an hour and one of thirty: a limit by the mean ends the long one, unsaved."""
    ids = [f"slurm/alpha/{number}" for number in range(13)]
    worked = [run(one, is_open=False, active_seconds=3600) for one in ids[:-1]]
    long = run(ids[-1], is_open=False, active_seconds=30 * 3600)
    about = finding("held_idle", "abandoned", *ids)
    found = sound(idle.release(about, site([host("n1")], [*worked, long])))
    assert "#SBATCH --time=1-13:30:00" in text_of(found, "slurm")
    assert "loses what it has not saved" in text_of(found, "slurm")
    assert found.ends_work
    brief = [replace(one, idle_seconds=600) for one in (*worked, long)]
    assert sound(idle.release(about, site([host("n1")], brief))).artefacts == (), "it would end none of them sooner"
    unknown = replace(long, active_seconds=None)
    assert sound(idle.release(about, site([host("n1")], [*worked, unknown]))).artefacts == ()


def test_gpus_that_never_worked_are_counted() -> None:
    """A quarter of the GPU time was never used: of 8 GPUs 2, and 6 are asked for."""
    whole = 8 * 168 * 3_600_000
    unused = finding("held_idle", "never_used", milliseconds=whole // 4)
    found = sound(idle.ask_for_fewer(unused, site([host("n1")], [run()])))
    assert "#SBATCH --gpus-per-node=6" in text_of(found, "slurm")
    assert found.move is not None
    assert found.move.to is not None
    assert found.move.to.gpus == 6


def test_work_for_processors_leaves_the_hosts_with_gpus() -> None:
    """All of them by name; a run that holds GPUs and leaves them alone has a finding of its own."""
    where = site([host("n1"), host("n2")], [run()])
    found = sound(idle.without_gpus(notice("fleet/cpu_only", "slurm/alpha/5", node="n1"), where))
    assert "#SBATCH --exclude=n1,n2" in text_of(found, "slurm")
    assert "train" in found.winners
    assert idle.without_gpus(notice("fleet/cpu_only", node="n1"), where) is None


def test_sessions_share_slices_that_hold_what_they_use() -> None:
    """9 GiB fit into 10; a gauge at 50 is no proof that they do not, and only a trial says."""
    small = [
        run(f"slurm/alpha/{n}", each=1, name="notebook", gpu_bytes=9 * GIB, gpu_uuids=(f"n1-{n}",)) for n in range(3)
    ]
    ids = [one.run_id for one in small]
    found = sound(sharing.share_slices(finding("held_idle", "held_memory", *ids), site([host("n1")], small)))
    assert found.move is not None
    assert found.move.to is not None
    assert (found.move.to.gpus, found.move.to.slice_) == (1, "1g.10gb")
    assert held(found)["memory of a slice"] is True
    large = [run(one.run_id, each=1, gpu_bytes=50 * GIB, gpu_uuids=one.gpu_uuids) for one in small]
    found = sound(sharing.share_slices(finding("held_idle", "held_memory", *ids), site([host("n1")], large)))
    assert held(found)["memory of a slice"] is None


def test_a_slice_takes_the_place_of_the_whole_gpu() -> None:
    """A pod that asked for both would wait for both."""
    pod = run(POD, each=1, gpu_bytes=9 * GIB)
    found = sound(sharing.share_slices(finding("held_idle", "held_memory", POD), site([host("n1")], [pod])))
    assert "--limits=nvidia.com/mig-1g.10gb=1,nvidia.com/gpu=0" in text_of(found, "kubernetes")


def test_ranks_are_never_put_on_slices() -> None:
    """They would not reach one another there: a run of several GPUs is asked to give them back."""
    found = sound(sharing.share_slices(finding("held_idle", "held_memory"), site([host("n1")], [run()])))
    assert found.kind == "release"


def _served(**more: Any) -> dict[str, Any]:
    """Return what the service says of itself, as the site has it."""
    return {"services": {POD: replace(Served("triton", 0.25, 0.15, 0.2), **more)}}


def test_a_batch_waits_for_a_tenth_of_what_the_promise_leaves() -> None:
    """50 ms are left between the worst twentieth and the promise."""
    where = site([host("n1")], [run(POD, stage="serving")], **_served())
    found = sound(serving.batch(finding("underused", "unbatched", POD), where))
    assert "max_queue_delay_microseconds: 5000" in text_of(found, "config")
    assert found.latency is not None
    assert (found.latency.before_seconds, found.latency.after_seconds, found.latency.slo_seconds) == (0.15, None, 0.25)
    assert "only a load test shows" in found.latency.told


def test_a_service_keeps_the_replicas_that_its_policy_needed() -> None:
    """With the latency that the policy promises; none is proposed where no policy was evaluated."""
    where = site([host("n1")], [run(POD, each=4, stage="serving")], **_served(replicas=4, needed=3))
    over = finding("headroom", "beyond_policy", POD)
    found = sound(serving.fewer_replicas(over, where))
    assert text_of(found, "kubernetes").splitlines()[1:] == ["kubectl -n ml scale deployment/train --replicas=3"]
    assert found.latency is not None
    assert found.latency.after_seconds == 0.25
    assert found.move is not None
    assert found.move.to is not None
    assert found.move.to.gpus == 3
    assert serving.fewer_replicas(over, site([host("n1")], [run(POD)], **_served())) is None


def test_a_late_service_is_not_made_smaller() -> None:
    """Its check fails, and a guard then holds the change back."""
    late = _served(replicas=4, needed=3, worst_seconds=0.4)
    found = sound(
        serving.fewer_replicas(finding("headroom", "beyond_policy", POD), site([host("n1")], [run(POD)], **late))
    )
    assert held(found)["promise"] is False


@pytest.mark.parametrize(
    ("rule", "propose", "kind"),
    [
        ("serving/host_threads", serving.more_cores, "more_cpu"),
        ("serving/kv_cache_full", serving.kv_cache, "one_replica_more"),
        ("fleet/mixed", serving.hosts_of_their_own, "split_serving"),
    ],
)
def test_every_change_of_a_service_says_what_becomes_of_its_latency(rule: str, propose: Any, kind: str) -> None:
    """Where it is not known afterwards the reason stands there, and no saving is claimed."""
    where = site([host("n1"), host("n2", free=8)], [run(POD, stage="serving", each=4)], **_served())
    found = sound(propose(notice(rule, POD), where))
    assert found.kind == kind
    assert found.latency is not None
    assert (found.latency.before_seconds, found.latency.after_seconds) == (0.15, None)
    assert isinstance(found.saves, Saved)
    assert found.saves.milliseconds.p80 == 0


def test_a_service_beside_training_that_harms_neither_stays() -> None:
    """A notice of low confidence has seen no harm."""
    where = site([host("n1"), host("n2", free=8)], [run(POD, stage="serving")], **_served())
    assert serving.hosts_of_their_own(notice("fleet/mixed", POD, confidence="low"), where) is None


def test_a_gauge_alone_never_makes_a_gpu_smaller() -> None:
    """What is proposed is a run with a cap; the careful saving is none, since it may not hold."""
    one = run(each=1, gpu_bytes=6 * GIB)
    found = sound(
        sharing.capped_rerun(notice("run/too_large"), site([host("n1")], [one], rates=(KindRate(H100, None, 26),)))
    )
    assert "set_per_process_memory_fraction(0.12)" in text_of(found, "python")
    assert found.title == "try one run in the memory of a slice 1g.10gb"
    assert isinstance(found.saves, Saved)
    assert (found.saves.milliseconds.p20, found.saves.milliseconds.p50 > 0) == (0, True)
    assert sharing.capped_rerun(notice("run/too_large"), site([host("n1")], [run(each=1, gpu_bytes=None)])) is None


def test_a_smaller_kind_that_the_fleet_has_comes_before_a_slice() -> None:
    """It saves money and no GPU time: the difference of two prices, at the most."""
    a30 = replace(host("a1", free=8, gpu_memory_bytes=24 * GIB), sku="A30-24GB")
    rates = (KindRate(H100, "owned", 2_600_000), KindRate("A30-24GB", "owned", 650_000))
    where = site([host("n1"), a30], [run(each=1, gpu_bytes=6 * GIB)], rates=rates)
    found = sound(sharing.capped_rerun(notice("run/too_large"), where))
    assert isinstance(found.saves, Saved)
    assert found.saves.milliseconds.p80 == 0
    assert found.saves.micros is not None
    assert found.saves.micros.p80 == 168 * 2_600_000 * 750 // 1000


def test_a_kind_that_cannot_hold_the_model_is_passed_over() -> None:
    """Its gauge was read before it had loaded: 70 bn weights in 4 bits are 33.9 GiB, more than an A30 has."""
    a30 = replace(host("a1", free=8, gpu_memory_bytes=24 * GIB), sku="A30-24GB")
    a100 = replace(host("a2", free=8, gpu_memory_bytes=40 * GIB), sku="A100-40GB")
    h200 = replace(host("a3", gpu_memory_bytes=141 * GIB), sku="H200-141GB")
    hosts, one = [host("n1"), a30, a100, h200], run(each=1, gpu_bytes=6 * GIB, stage="serving")
    assert sound(sharing.capped_rerun(notice("run/too_large"), site(hosts, [one]))).title.endswith("of A30-24GB")
    known = replace(one, model="meta-llama/Llama-2-70b-chat-hf")
    found = sound(sharing.capped_rerun(notice("run/too_large"), site(hosts, [known])))
    assert found.title == "try one run in the memory of A100-40GB"
    assert held(found)["its model"] is None
    told = next(one.told for one in found.constraints if one.what == "its model")
    assert told.endswith("it must be quantized; else H200-141GB would hold it")
    never = replace(one, model="llama-3.1-405b")  # nor does any slice of its own GPU
    assert sharing.capped_rerun(notice("run/too_large"), site(hosts, [never])) is None


@pytest.mark.parametrize(("model", "fits"), [("llama-3-8b", True), ("llama-3-70b", None), ("llama-3.1-405b", False)])
def test_fewer_gpus_must_still_hold_the_model(model: str, fits: bool | None) -> None:
    """Of eight GPUs one worked: it holds 8 bn parameters, 70 bn only quantised, 405 bn not at all."""
    one = run(never_used_ms=7 * 168 * 3_600_000, model=model, stage="serving")
    unused = finding("held_idle", "never_used", milliseconds=7 * 168 * 3_600_000)
    found = sound(idle.ask_for_fewer(unused, site([host("n1")], [one])))
    assert held(found)["its model"] is fits
    unknown = idle.ask_for_fewer(unused, site([host("n1")], [replace(one, model=None)]))
    assert "its model" not in held(sound(unknown))


def test_a_model_that_fits_smaller_memory_is_told_to() -> None:
    """8 bn parameters in 16 bits are 15 GiB; a run that trains all of them needs sixteen bytes for each."""
    a30 = replace(host("a1", free=8, gpu_memory_bytes=24 * GIB), sku="A30-24GB")
    one = run(each=1, gpu_bytes=6 * GIB, model="llama-3-8b", stage="serving")
    found = sound(sharing.capped_rerun(notice("run/too_large"), site([host("n1"), a30], [one])))
    assert held(found)["its model"] is True
    trains = replace(one, stage="pretraining")
    found = sound(sharing.capped_rerun(notice("run/too_large"), site([host("n1"), a30], [trains])))
    assert held(found)["its model"] is None


def test_mixed_precision_saves_of_working_time_alone() -> None:
    """What a run waits for does not become faster: of 168 hours held, 100 were work."""
    where = site([host("n1")], [run(each=1, productive_ms=100 * 3_600_000, productive_micros=260_000_000)])
    found = sound(sharing.mixed_precision(notice("run/mixed_precision"), where))
    assert isinstance(found.saves, Saved)
    assert found.saves.milliseconds.p50 == 100 * 3_600_000 * 333 // 1000
    assert "torch.bfloat16" in text_of(found, "python")


def _limited(limit: float, usual: float, power: float = 480.0) -> dict[str, Limited]:
    return {"n1-0": Limited("n1-0", "n1", limit, usual, power, power < 0.9 * limit)}


def test_a_limit_below_its_kind_s_is_raised() -> None:
    """It gives back what was lost; a cap would take more."""
    where = site([host("n1")], [run()], limited=_limited(500.0, 700.0))
    found = sound(hardware.limit_power(finding("throttled", "power"), where))
    assert (found.kind, "nvidia-smi -i n1-0 -pl 700" in text_of(found, "shell")) == ("raise_power_limit", True)


def test_a_board_that_is_held_back_below_its_limit_is_seen_to() -> None:
    """Its supply, a cable or the board: no limit is to be changed, neither of it nor of its neighbours."""
    lost = finding("throttled", "power")
    found = sound(hardware.limit_power(lost, site([host("n1")], [run()], limited=_limited(700.0, 700.0, 350.0))))
    assert (found.kind, found.actor, found.title) == ("drain_sick_gpu", "platform", "check the power supply of n1")
    at_its_limit = site([host("n1")], [run()], limited=_limited(700.0, 700.0, 690.0))
    assert hardware.limit_power(lost, at_its_limit) is None
    assert hardware.limit_power(lost, site([host("n1")], [run()])) is None


def _checkpoints(best: Figure, advice: Any = "more often", stake: int | None = 3_600_000) -> Checkpoints:
    hours = Figure(14_400.0)
    return Checkpoints(40, "seen", hours, Figure(72.0), 10**6, None, Figure(172_800.0), best, advice, stake, None, None)


def test_the_cadence_is_a_number_wherever_it_can_be_known() -> None:
    """48 hours between failures and 72 s to save: every 83 minutes; with too few failures half of what it is now."""
    lost = finding("lost_work", "preempted")
    where = site([host("n1")], [run()], checkpoints={RUN: _checkpoints(Figure(4_988.0))})
    found = sound(checkpointing.checkpoint(lost, where))
    assert found.title == "checkpoint every 1 h 23 min"
    assert "checkpoint_interval_seconds = 4988" in text_of(found, "config")
    assert "#SBATCH --signal=B:TERM@132" in text_of(found, "slurm")
    where = site([host("n1")], [run()], checkpoints={RUN: _checkpoints(withheld("1 failure: 3 are needed"))})
    found = sound(checkpointing.checkpoint(lost, where))
    assert "checkpoint_interval_seconds = 7200  # half of now" in text_of(found, "config")
    assert held(found)["cadence"] is None


def test_saving_too_often_is_a_notice_s_and_more_often_a_finding_s() -> None:
    """Else the same seconds would be saved twice."""
    less = site([host("n1")], [run()], checkpoints={RUN: _checkpoints(Figure(40_000.0), "less often")})
    found = sound(checkpointing.less_often(notice("checkpoint_cadence"), less))
    assert isinstance(found.saves, Saved)
    assert found.saves.milliseconds.p50 == 3_600_000 * 800 // 1000
    more = site([host("n1")], [run()], checkpoints={RUN: _checkpoints(Figure(4_988.0))})
    assert checkpointing.less_often(notice("checkpoint_cadence"), more) is None


@pytest.mark.parametrize("run_id", [RUN, POD])
@pytest.mark.parametrize("rule", FINDINGS, ids=lambda rule: f"{rule.state}/{rule.cause}")
def test_whatever_is_proposed_for_a_finding_is_sound(rule: Any, run_id: str) -> None:
    """On a site of which much is known: for either scheduler, with its lines and no others."""
    stage = "serving" if rule.cause == "unbatched" else "training"
    on = ("n1",) if rule.cause == "small_kernels" else ("n1", "n2")  # ranks of one run are never packed
    one = run(run_id, on, each=1, stage=stage, idle_seconds=7200)
    where = site([host("n1"), host("n2", "rack-2"), host("n3", free=8)], [one], limited=_limited(500.0, 700.0),
                 slow_hosts={run_id: ("n1",)}, slowed={run_id: {"n1-0": 3_600_000}},
                 services={run_id: Served("vllm", 0.5, 0.1, 0.2, 2, 1)})  # fmt: skip
    said = rule.propose(finding(rule.state, rule.cause, run_id, caused_by="n1-0"), where)
    found = sound(said)
    other = "kubernetes" if run_id == RUN else "slurm"
    assert other not in {one.form for one in found.artefacts}


def test_ranks_of_one_run_are_never_packed() -> None:
    """They wait for one another: two on a GPU would wait twice as long."""
    gang = site([host("n1"), host("n2")], [run(RUN, ("n1", "n2"), each=1)])
    assert sharing.pack(finding("underused", "small_kernels", RUN), gang) is None


@pytest.mark.parametrize("rule", FINDINGS, ids=lambda rule: f"{rule.state}/{rule.cause}")
def test_nothing_is_invented_for_a_run_of_which_nothing_is_known(rule: Any) -> None:
    """No number, no host and no crash: at most what its finding alone says."""
    about = finding(rule.state, rule.cause, "slurm/alpha/404")
    found = rule.propose(about, site([], []))
    assert found is None or not found.artefacts


def test_who_names_a_run_writes_no_line_of_an_artefact() -> None:
    """Names come from users: a line break or a quote in one must not become a command."""
    evil = "x\nrm -rf /; $(reboot) 'y"
    where = site([host("n1")], [run(POD, name=evil, account="a b", idle_seconds=7200)])
    found = sound(idle.release(finding("held_idle", "abandoned", POD), where))
    warning, line = text_of(found, "kubernetes").splitlines()
    assert warning.startswith("# once its owner agrees: x rm -rf /; $(reboot) 'y idles")
    assert line.startswith("kubectl -n 'a b' scale 'deployment/x rm -rf /; $(reboot) '\"'\"'y'")


def test_every_kind_is_described() -> None:
    """Whoever is asked to change something can read what it stands on; and no kind is described that is never made."""
    rows = [line for line in (ROOT / "docs/changes.md").read_text().splitlines() if line.startswith("| `")]
    told = {kind for row in rows for kind in re.findall(r"`([a-z_]+)`", row.split("|")[1])}
    assert told == kinds(), "what show looks for by its id"
