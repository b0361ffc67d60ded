"""What Slurm's commands print, of any release and in either form, is the same job."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collector.errors import SchedulerError
from collector.schedulers.books import NodeState
from collector.schedulers.slurm.fields import (
    MOST_NAMES,
    gpu_indices,
    gpus_in,
    host_names,
    limit_seconds,
    microseconds,
    number,
    tasks_in,
    whole_number,
    words,
)
from collector.schedulers.slurm.jobs import (
    ENDINGS,
    Job,
    accounted_in_json,
    accounted_in_text,
    phase_of,
    queued_in_json,
    shown_jobs,
)
from collector.schedulers.slurm.nodes import nodes_in_json, nodes_in_text, state_word
from tests.collector.schedulers import modern

SAID = Path(__file__).parent / "data" / "slurm_22_05"
BEGAN = 1_795_248_817_000_000


def said(name: str) -> bytes:
    """Return what a command printed."""
    return (SAID / name).read_bytes()


def turned(name: str, turn: Callable[[dict[str, object]], dict[str, object]]) -> bytes:
    """Return what a newer release would have printed."""
    return json.dumps(turn(json.loads(said(name)))).encode()


def by_id(jobs: list[Job]) -> dict[str, Job]:
    """Return the jobs by the id that people write."""
    return {job.id: job for job in jobs}


def test_json_and_text_of_the_controller_tell_the_same() -> None:
    """A cluster without the JSON plugin must have the same ledger."""
    assert queued_in_json(said("squeue.json")) == shown_jobs(said("scontrol_job.txt"))


def test_json_and_text_of_accounting_tell_the_same() -> None:
    """So must one whose accounting prints text alone."""
    assert accounted_in_json(said("sacct.json")) == accounted_in_text(said("sacct.txt"))


def test_json_and_text_of_the_hosts_tell_the_same() -> None:
    """A reason may hold brackets, and ends with who set it and when."""
    states = nodes_in_json(said("sinfo.json"))
    assert states == nodes_in_text(said("scontrol_node.txt"))
    assert states[1] == NodeState("n2", "drained", "bad gpu 3 [again]", 1_795_248_823_000_000)
    assert {state.state for state in states} == {"up", "drained"}


def test_newer_types_tell_the_same() -> None:
    """Each release moved some fields to {set, infinite, number} and states to lists; an upgrade must change nothing."""
    assert queued_in_json(turned("squeue.json", modern.squeue)) == queued_in_json(said("squeue.json"))
    assert accounted_in_json(turned("sacct.json", modern.sacct)) == accounted_in_json(said("sacct.json"))
    assert nodes_in_json(turned("sinfo.json", modern.nodes)) == nodes_in_json(said("sinfo.json"))


def test_a_job_on_two_hosts_says_which_gpus_it_has_on_each() -> None:
    """The controller alone knows them, and only while the job holds them."""
    job = by_id(queued_in_json(said("squeue.json")))["1"]
    assert (job.nodes, job.gpus, job.phase) == (("n1", "n2"), ((0, 1), (0, 1)), "holding")
    assert (job.started_at, job.time_limit_seconds, job.requested_gpus) == (BEGAN, 3600.0, 4)
    assert (job.user, job.account, job.partition, job.name) == ("ada", "vision", "train", "pre train | bert")


def test_arrays_and_heterogeneous_jobs_have_the_names_that_people_type() -> None:
    """Their own numbers are another matter: cgroups bear those."""
    jobs = by_id(queued_in_json(said("squeue.json")))
    assert {name: job.raw_id for name, job in jobs.items() if job.parent_id} == {"3_1": 4, "3_2": 5, "6+0": 6, "6+1": 7}
    assert jobs["6+1"].parent_id == "6"
    assert (jobs["3"].phase, jobs["3"].waiting_tasks, jobs["3"].parent_id) == ("waiting", "3-4%2", None)


def test_what_waits_has_no_start() -> None:
    """Slurm prints a forecast in the field of the start."""
    job = by_id(queued_in_json(said("squeue.json")))["9"]
    assert (job.phase, job.started_at, job.reason, job.requested_gpus) == ("waiting", None, "Dependency", 12)
    assert job.dependency is not None
    assert job.dependency.startswith("afterany:1")


def test_a_job_without_gpus_is_none_of_the_ledgers() -> None:
    """Preparing data on CPUs holds no GPU."""
    assert [job.name for job in queued_in_json(said("squeue.json")) if not job.uses_gpus] == ["cpu only"]


def test_accounting_keeps_a_record_of_each_attempt() -> None:
    """What was requeued has held its GPUs twice, and both times count."""
    first = by_id(accounted_in_json(said("sacct.json")))["11"]
    assert (first.state, first.exit_status, first.gpus) == ("REQUEUED", "cancelled", (None,))
    again = by_id(queued_in_json(said("squeue.json")))["11"]
    assert (again.restarts, again.phase, again.gpus) == (1, "holding", ((3,),))


@pytest.mark.parametrize(("state", "word"), sorted(ENDINGS.items()))
def test_every_ending_has_a_word_of_the_contract(state: str, word: str) -> None:
    """The ledger knows seven ways to end."""
    contract = {"completed", "failed", "cancelled", "preempted", "node_failed", "timeout", "out_of_memory"}
    assert word in contract
    assert phase_of((state,)) == ("ended", state)


@pytest.mark.parametrize(
    ("states", "phase"),
    [
        ("RUNNING", "holding"),
        (["COMPLETED", "COMPLETING"], "holding"),
        ("COMPLETING", "holding"),
        (["PENDING", "REQUEUED"], "waiting"),
        (["PENDING", "SPECIAL_EXIT"], "waiting"),
        ("SUSPENDED", "holding"),
        ("CANCELLED by 1000", "ended"),
        (["RUNNING", "CONFIGURING"], "holding"),
        ("SOMETHING_NEW", "waiting"),
    ],
)
def test_states_and_flags_say_where_a_job_stands(states: object, phase: str) -> None:
    """A job in its epilog still has its GPUs; a state that is not known claims no GPU and no end."""
    assert phase_of(words(states))[0] == phase


@pytest.mark.parametrize(
    ("states", "word"),
    [
        (("IDLE",), "up"),
        (("MIXED", "PLANNED"), "up"),
        (("ALLOCATED", "COMPLETING"), "up"),
        (("IDLE", "NOT_RESPONDING"), "up"),
        (("IDLE", "DRAIN"), "drained"),
        (("DOWN", "DRAIN"), "drained"),
        (("DOWN",), "down"),
        (("DOWN", "NOT_RESPONDING"), "down"),
        (("IDLE", "RESERVED"), "reserved"),
        (("IDLE", "MAINTENANCE"), "reserved"),
        (("IDLE", "POWERED_DOWN"), "drained"),
        (("FUTURE",), None),
        (words("idle*"), "up"),
        (words("DOWN*+DRAIN"), "drained"),
        (words("IDLE+CLOUD+POWERED_DOWN"), "drained"),
    ],
)
def test_a_host_has_one_of_four_states(states: tuple[str, ...], word: str | None) -> None:
    """The word is the one that Slurm itself shows first; what is switched off to save power is not broken."""
    assert state_word(states) == word


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("State=IDLE+CLOUD+POWERING_UP", "powering up"),
        ("State=IDLE+POWERED_DOWN", "powered down"),
        ("State=IDLE+POWERING_DOWN", "powering down"),
        ("State=IDLE", None),
        ("State=DOWN+POWERED_DOWN\n   Reason=bad fan [root@2026-11-01T00:00:00]", "bad fan"),
    ],
)
def test_a_host_that_saves_power_says_so(line: str, reason: str | None) -> None:
    """How long one takes to wake is told by the span in which it powers up, and by nothing else."""
    (found,) = nodes_in_text(f"NodeName=n1 Arch=x86_64\n   {line}\n".encode())
    assert found.reason == reason


@pytest.mark.parametrize(
    ("detail", "found"),
    [
        ("gpu:h100:4(IDX:0-3)", (0, 1, 2, 3)),
        ("gpu:8(IDX:0-7)", tuple(range(8))),
        ("gpu:h100:3(IDX:0-1,3)", (0, 1, 3)),
        ("gpu:a100:1(IDX:0),gpu:v100:1(IDX:4)", (0, 4)),
        ("gpu:1g.10gb:1(IDX:5)", None),
        ("gpu:h100:0(IDX:N/A)", None),
        ("shard:h100:2(1/4,1/4)", None),
        ("gpu:h100:4(IDX:)", None),
        ("gpu:h100:4(IDX:4-99999999999)", None),
        ("", None),
    ],
)
def test_gpus_are_told_by_their_numbers(detail: str, found: tuple[int, ...] | None) -> None:
    """Anything that does not say so clearly is unknown, and the agents then tell."""
    assert gpu_indices(detail) == found


@pytest.mark.parametrize(
    ("tres", "count"),
    [
        ("cpu=8,mem=120000M,node=1,billing=80,gres/gpu=4", 4),
        ("cpu=1,gres/gpu=2,gres/gpu:h100=2", 2),
        ("gres/gpu:a100=1,gres/gpu:v100=2", 3),
        ("gres:gpu:2", 2),
        ("gres:gpu:h100:4", 4),
        ("gres/gpu", 1),
        ("cpu=1,gres/shard=3", 0),
        ("cpu=1,node=1", None),
        ("", None),
        ([{"type": "cpu", "count": 4}, {"type": "gres", "name": "gpu", "count": 3}], 3),
        ([{"type": "gres", "name": "gpu", "count": 2}, {"type": "gres", "name": "gpu:h100", "count": 2}], 2),
        ([{"type": "gres", "name": "gpu:h100", "count": {"set": True, "infinite": False, "number": 2}}], 2),
        ([{"type": "gres", "name": "shard", "count": 2}], 0),
        ([], None),
        (None, None),
    ],
)
def test_gpus_are_counted_in_every_spelling(tres: object, count: int | None) -> None:
    """The count with a type and the one without it are the same GPUs; a shard is no whole one."""
    assert gpus_in(tres) == count


@pytest.mark.parametrize(
    ("waiting", "count"),
    [("5-99%4", 95), ("1,3,7-9", 5), ("0-10:5", 3), ("7", 1), ("1,2,3,...", None), ("", None), ("9-1", 0)],
)
def test_waiting_tasks_are_counted(waiting: str, count: int | None) -> None:
    """Slurm cuts long lists short, and then nobody knows."""
    assert tasks_in(waiting) == count


def test_a_name_that_looks_like_a_field_is_a_name() -> None:
    """Whoever names a job must not be able to give it to somebody else."""
    text = said("scontrol_job.txt").decode()
    forged = text.replace("JobName=fail", "JobName=x UserId=bob(1) JobState=RUNNING NodeList=n1", 1)
    honest, told = (
        by_id(shown_jobs(text.encode()))["2"],
        by_id(shown_jobs(forged.encode()))["2"],
    )
    assert told == replace(honest, name="x UserId=bob(1) JobState=RUNNING NodeList=n1")


def test_limits_without_end_are_none() -> None:
    """Slurm writes "no limit" as a year, as UNLIMITED, or as infinite."""
    assert limit_seconds(525_600) is None
    assert limit_seconds("UNLIMITED") is None
    assert limit_seconds({"set": True, "infinite": True, "number": 0}) is None
    assert limit_seconds({"set": True, "infinite": False, "number": 90}) == 5400.0


def test_a_time_of_zero_is_none() -> None:
    """1970 is how Slurm writes "not yet"; the ledger would reach back to there."""
    assert microseconds(0) is None
    assert microseconds({"set": True, "infinite": False, "number": 0}) is None
    assert microseconds("Unknown") is None


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@example(10**400)
@given(_ANY)
def test_no_value_is_a_mistake_of_ours(value: object) -> None:
    """A release to come may write anything anywhere: unknown, and never an error."""
    found = number(value)
    assert found is None or abs(found) != float("inf")
    assert (whole_number(value) or 0) >= 0
    words(value)
    gpus_in(value)
    limit_seconds(value)


_FIELDS = sorted({key for job in json.loads(said("squeue.json"))["jobs"] for key in job})
_WITHIN = sorted({key for job in json.loads(said("sacct.json"))["jobs"] for key in job})


@given(
    st.dictionaries(st.sampled_from(_FIELDS), _ANY, max_size=12),
    st.dictionaries(st.sampled_from(_WITHIN), _ANY, max_size=12),
)
def test_odd_records_are_jobs_or_an_error_of_the_scheduler(queued: dict[str, object], ended: dict[str, object]) -> None:
    """Whatever the fields hold, the poller sees a list or a sentence."""
    for read, record in ((queued_in_json, queued), (accounted_in_json, ended), (nodes_in_json, queued)):
        try:
            read(json.dumps({"jobs": [record | {"job_id": 1}], "nodes": [record | {"name": "n1"}]}).encode())
        except SchedulerError:
            continue


@given(st.binary(max_size=400), st.integers(0, 13_000))
def test_odd_texts_are_jobs_or_an_error_of_the_scheduler(noise: bytes, at: int) -> None:
    """A cut or garbled answer ends in the same two ways."""
    for read, name in (
        (shown_jobs, "scontrol_job.txt"),
        (accounted_in_text, "sacct.txt"),
        (nodes_in_text, ""),
    ):
        good = said(name) if name else b"NodeName=n1 State="
        try:
            read(good[:at] + noise)
        except SchedulerError:
            continue


@given(st.text(alphabet="gn[]-,0123456789", max_size=24))
def test_a_host_list_is_names_or_an_error_of_the_scheduler(text: str) -> None:
    """And never so many that they fill the memory."""
    try:
        found = host_names(text)
    except SchedulerError:
        return
    assert len(found) <= MOST_NAMES


def test_a_host_list_keeps_its_order_and_its_zeros() -> None:
    """The details of a job's GPUs follow the order of its hosts."""
    assert host_names("gpu[008-010,7],login1") == ("gpu008", "gpu009", "gpu010", "gpu7", "login1")
    assert host_names("r[1-2]n[1,3]") == ("r1n1", "r1n3", "r2n1", "r2n3")


@pytest.mark.parametrize("answer", [b"", b"[]", b"slurm_load_jobs error", b'{"jobs": 3}', b'{"sinfo": []}'])
def test_what_is_no_answer_is_told_in_a_sentence(answer: bytes) -> None:
    """The poller counts it, and tries the next way."""
    for read in (queued_in_json, accounted_in_json, nodes_in_json):
        with pytest.raises(SchedulerError, match=r"JSON"):
            read(answer)
