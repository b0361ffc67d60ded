"""A task file says what its format describes, in exact figures; whatever else it says is refused by its place."""

import re
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.capacity.planner import task_file
from analyzer.capacity.planner.amounts import amount, parse_moment, size_bytes, span_seconds, transfer_rate
from analyzer.capacity.planner.problem import (
    Duration,
    Input,
    Network,
    Node,
    Planned,
    Problem,
    ProblemError,
    Task,
    TaskFileError,
    TransferRate,
)
from analyzer.capacity.planner.proposal import Placed, Proposal
from analyzer.capacity.planner.solve import solve
from analyzer.capacity.planner.task_file import read_tasks
from analyzer.capacity.planner.validator import validate
from bench.plans.proposed import proposal_of

NOW = 1_795_420_800_000_000  # Monday 2026-11-23 08:00 UTC
GB, HOUR, SECOND = 10**9, 3600, 1_000_000
FOUR = """
nodes:
  gpuA: {rack: A, cpus: 16, memory: 128 GB, gpus: 1, hbm: 80 GB}
  cpuB: {rack: B, cpus: 32, memory: 128 GB}
tasks:
  t1: {cpus: 4, memory: 16 GB, gpu: 1, duration: 3 h, output: 10 GB}
  t2: {cpus: 4, memory: 16 GB, gpu: forbidden, duration: 2 h, after: [t1]}
"""


def example() -> str:
    """Return the example of the format's own description."""
    text = task_file.__doc__ or ""
    lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    return "\n".join(line for line in lines if "…" not in line.partition("#")[0])


def test_the_example_of_the_format_is_a_task_file() -> None:
    """What people and models copy is read as it is described."""
    file = read_tasks(example(), NOW)
    assert [task.name for task in file.tasks] == ["pretrain", "tokenize", "prep", "align"]
    assert file.nodes is not None
    assert [node.name for node in file.nodes] == ["gpuA", "ssdA"]
    assert file.network == Network()
    assert (file.starts_at, file.deadline_seconds) == (NOW, (4 * 24 + 10) * HOUR)
    pretrain, tokenize, prep, align = file.tasks
    assert (pretrain.gpus, pretrain.hbm_bytes, pretrain.seconds) == (1, 40 * GB, 3 * HOUR)
    assert tokenize.inputs == (Input("pretrain", 10 * GB),)
    assert (tokenize.avoids_gpu_nodes, tokenize.duration) == (True, Duration(HOUR, 2 * HOUR, 3 * HOUR))
    assert (prep.avoids_gpu_nodes, prep.needs_ssd, prep.ssd_bytes, prep.history) == (
        False,
        True,
        200 * GB,
        "nightly-prep",
    )
    assert (prep.duration, prep.planned) == (None, Planned("gpuA"))
    assert align.inputs == (Input("tokenize", 10 * GB), Input("prep", 5 * GB))
    assert (align.earliest_start_seconds, align.deadline_seconds) == (HOUR, (4 * 24 + 4) * HOUR)
    assert (align.node, align.group, align.planned) == ("ssdA", "C", Planned("ssdA", 9 * HOUR))
    ssd = file.nodes[1]
    assert (ssd.price_micros_per_hour, ssd.available_from_seconds, ssd.ssd_bytes) == (1_200_000, 2 * HOUR, 2000 * GB)


def test_a_small_file_is_a_problem() -> None:
    """Nothing but what is said, and the defaults of the format."""
    problem = read_tasks(FOUR, NOW).problem()
    assert [node.name for node in problem.eligible["t2"]] == ["cpuB"]
    assert problem.starts_at == NOW


@pytest.mark.parametrize(
    ("nodes", "groups"),
    [
        ("inventory", ()),
        ("{inventory: [h100, a100]}", ("h100", "a100")),
        ("{inventory: h100}", ("h100",)),
    ],
)
def test_nodes_may_be_left_to_the_inventory(nodes: str, groups: tuple[str, ...]) -> None:
    """A fleet's nodes need not be typed."""
    file = read_tasks(f"nodes: {nodes}\ntasks: {{a: {{cpus: 1, memory: 1 GB, gpu: none, duration: 1 h}}}}", NOW)
    assert (file.nodes, file.inventory_groups) == (None, groups)


@pytest.mark.parametrize(
    ("wrong", "right", "says"),
    [
        ("gpu: 1", "gpus: 1", "task t1: unknown key 'gpus'; did you mean 'gpu'"),
        ("gpu: 1, ", "", "task t1: gpu is missing"),
        ("gpu: 1", "gpu: yes", "gpu must be a whole number, a part of one GPU as in 0.5, none, or forbidden"),
        ("gpu: 1", "gpu: -1", "gpu must be a whole number, a part of one GPU as in 0.5, none, or forbidden"),
        ("duration: 3 h", "duration: 3", "duration must be a duration with its unit"),
        ("duration: 3 h", "duration: 3 years", "duration must be a duration with its unit"),
        ("duration: 3 h, ", "", "duration is missing"),
        ("duration: 3 h", "duration: {p10: 3 h, p50: 2 h, p90: 4 h}", "P10"),
        ("output: 10 GB", "output: 10 Gb", "output must be a size with its unit"),
        ("memory: 16 GB, gpu: 1", "memory: 16, gpu: 1", "memory must be a size with its unit"),
        ("after: [t1]", "after: {t1: much}", "after: t1 must be a size with its unit|after, t1|t1 must be a size"),
        ("cpus: 32", "cpus: 32.0005", "node cpuB: cpus must be a number, 0 or more, with three decimals at most"),
        ("gpu: 1", "gpu: 1.5", "gpu must be a whole number, or a part of one GPU"),
        ("duration: 3 h", "duration: 12:30", "write 12 h 30 min, or 0:12:30"),
        ("duration: 3 h", "duration: UNLIMITED", "duration must be a duration with its unit"),
        ("gpu: 1", "count: 0, gpu: 1", "count must be 1 to 10,000"),
        ("gpu: 1", "count: 10001, gpu: 1", "count must be 1 to 10,000"),
        ("gpu: 1", "count: 10000, gpu: 1", "the arrays come to 10,001 tasks"),
        ("rack: B", "rack: 7", "write a number, a date, yes or no in quotes"),
        ("rack: B", "rack: no", "write a number, a date, yes or no in quotes"),
        ("rack: B", 'rack: "a\\u202eb"', "printable characters"),
        ("  t2:", "  t1:", "a key is given twice"),
        ("nodes:", "notes:", "unknown key 'notes'; did you mean 'nodes'"),
        ("tasks:", "finish_by: yesterday\ntasks:", "finish_by must be a moment"),
        ("tasks:", "finish_by: 2026-11-24\ntasks:", "give the hour as well"),
        ("tasks:", "finish_by: 2026-11-20T08:00\ntasks:", "before the start"),
        ("tasks:", "network: {rack: fast}\ntasks:", "rack must be a rate"),
        ("tasks:", "network: {rack: 10 Gbit/s}\ntasks:", "rack must be a rate in bytes, as in 1 GB/s"),
        ("tasks:", "network: {path: carrier-pigeon}\ntasks:", "path must be direct or storage"),
        ("tasks:", "network: {rack: 0 GB/s}\ntasks:", "greater than zero"),
        ("rack: B", "rack: B, price_per_gpu_hour: 2", "unknown key 'price_per_gpu_hour'; it may have"),
        ("rack: B", "rack: B, price_per_hour: free", "price_per_hour must be an amount"),
        ("rack: B", "rack: B, price_per_hour: 0.0000001", "price_per_hour must be an amount"),
        ("rack: B", "rack: B, price_per_hour: .nan", "price_per_hour must be an amount"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(wrong: str, right: str, says: str) -> None:
    """Whoever reads the sentence, person or model, can mend the file."""
    assert wrong in FOUR
    with pytest.raises(TaskFileError, match=says):
        read_tasks(FOUR.replace(wrong, right), NOW)


def test_all_that_is_wrong_is_named_at_once() -> None:
    """Place, key, value, and the key that is nearest: one round mends the file."""
    wrong = FOUR.replace("gpus: 1", "gpu: 2").replace("cpus: 32", "cpus: many").replace("gpu: 1, ", "")
    with pytest.raises(TaskFileError) as error:
        read_tasks(wrong.replace("[t1]", "[7]"), NOW)
    told = str(error.value).splitlines()
    assert told[:2] == [
        "the task file, node gpuA: unknown key 'gpu'; did you mean 'gpus'?;",
        "the task file, node cpuB: cpus must be a number, 0 or more, with three decimals at most, as in 16, "
        "0.5 or 500m, not 'many';",
    ]
    assert told[2].startswith("the task file, task t1: gpu is missing; set how many, none (it needs none), or ")
    assert told[3].startswith("the task file, task t2: after must be a name of 1 to 200 printable characters, ")
    assert told[3].endswith("not '7'; write a number, a date, yes or no in quotes")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- 1\n",
        "just words",
        "tasks: {}\n",
        "nodes: {}\ntasks: []\n",
        "a: &a [x, x]\nb: [*a, *a]\n",
        "tasks: !!python/object/apply:os.system ['true']\nnodes: {}\n",
        "tasks: !include /etc/passwd\nnodes: {}\n",
        "[" * 50_000,
        "x" * (5 * 2**20),
        "nodes: {1: {cpus: 1, memory: 1 GB}}\ntasks: {}\n",
    ],
)
def test_what_is_no_task_file_is_refused(text: str) -> None:
    """Bombs, tags, other documents, nothing at all."""
    with pytest.raises(TaskFileError):
        read_tasks(text, NOW)


def test_names_that_are_paths_are_names() -> None:
    """Nothing of the machine is read because a name says so."""
    file = read_tasks(FOUR.replace("t1", "/etc/passwd").replace("t2", "../../root"), NOW)
    assert [task.name for task in file.tasks] == ["/etc/passwd", "../../root"]


def test_a_task_after_an_unknown_one_is_no_problem_that_can_be_solved() -> None:
    """It is read, and refused as a whole, with both names."""
    file = read_tasks(FOUR.replace("after: [t1]", "after: [t9]"), NOW)
    with pytest.raises(ProblemError, match="'t9'"):
        file.problem()


def test_a_gpu_task_without_a_node_that_has_one_is_refused() -> None:
    """With what each node lacks."""
    file = read_tasks(FOUR.replace(", gpus: 1, hbm: 80 GB", ""), NOW)
    with pytest.raises(ProblemError, match="t1 fits no node"):
        file.problem()


@pytest.mark.parametrize(
    ("said", "hours"),
    [
        ("in 20 h", 20),
        ("Friday 18:00", 4 * 24 + 10),
        ("friday 18:00", 4 * 24 + 10),
        ("Monday 08:00", 7 * 24),
        ("Monday 09:00", 1),
        ("today 18:00", 10),
        ("tomorrow 8:00", 24),
        ("2026-11-23T20:00", 12),
        ("2026-11-23 20:00", 12),
        ("2026-11-23T20:00+02:00", 10),
    ],
)
def test_moments_as_people_say_them(said: str, hours: int) -> None:
    """Counted from Monday 08:00."""
    assert parse_moment("it", said, NOW, "UTC") == NOW + hours * HOUR * SECOND


def test_the_clock_is_the_sites() -> None:
    """18:00 in Berlin is 17:00 UTC in winter."""
    assert parse_moment("it", "Friday 18:00", NOW, "Europe/Berlin") == parse_moment("it", "Friday 17:00", NOW, "UTC")


@pytest.mark.parametrize(
    ("said", "bytes_"), [("128 GB", 128 * GB), ("1.5 TB", 1500 * GB), ("2 GiB", 2**31), ("0.1 B", 1), ("7B", 7)]
)
def test_sizes(said: str, bytes_: int) -> None:
    """Decimal and binary units, rounded up to a byte."""
    assert size_bytes(said) == bytes_


@pytest.mark.parametrize(
    ("said", "bytes_", "seconds"),
    [("1 GB/s", GB, 1), ("250 MB/s", GB // 4, 1), ("20 GB in 30 min", 20 * GB, 1800), ("1GB / s", GB, 1)],
)
def test_rates(said: str, bytes_: int, seconds: int) -> None:
    """A rate keeps the two figures that it was said with."""
    assert transfer_rate(said) == TransferRate(bytes_, seconds)


@given(st.integers(0, 400), st.integers(0, 100), st.integers(0, 100), st.integers(0, 99))
def test_spans_add_up(days: int, hours: int, minutes: int, hundredths: int) -> None:
    """Parts are summed exactly, and only the whole is rounded up."""
    said = f"{days} d {hours}h {minutes} min {hundredths / 100:.2f} s"
    assert span_seconds(said) == ceil(days * 86_400 + hours * HOUR + minutes * 60 + Fraction(hundredths, 100))


@given(st.text(max_size=30))
def test_any_text_is_a_span_or_refused(text: str) -> None:
    """Nothing else is raised."""
    for read in (span_seconds, size_bytes, transfer_rate):
        with suppress(ValueError):
            assert read(text) is not None


def test_an_hour_that_never_comes_is_refused_and_one_that_comes_twice_is_the_first() -> None:
    """Where clocks go forward nobody knows what was meant; a plan must not guess."""
    with pytest.raises(TaskFileError, match="clocks of Europe/Berlin go forward over 2026-03-29 02:30"):
        parse_moment("it", "2026-03-29T02:30", NOW, "Europe/Berlin")
    twice = parse_moment("it", "2026-10-25T02:30", NOW, "Europe/Berlin")
    assert twice == parse_moment("it", "2026-10-25T00:30+00:00", NOW, "Europe/Berlin")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"group": "Z"}, "task t is tied to group 'Z', which no node is in; the groups are A"),
        ({"node": "m"}, "task t is tied to node 'm', which is not a node of this problem"),
        ({"planned": Planned("m", 0)}, "task t is planned on node 'm', which is not a node of this problem"),
        (
            {"gpus": 1, "hbm_bytes": 141 * GB},
            "task t fits no node: n has 80.0 GB of memory on each GPU, not 141 GB. Ask for less, or add a node",
        ),
        ({"memory_bytes": GB + 1}, "n has 1,000,000,000 B of memory, not 1,000,000,001 B. Ask for less"),
        ({"cpus": 9}, "task t fits no node: n has 8 CPUs, not 9. Ask for less, or add a node"),
    ],
)
def test_why_a_task_can_run_nowhere_is_told_in_words(changed: dict[str, Any], says: str) -> None:
    """Figures as people write them, and what there is instead."""
    task = replace(Task("t", 1, 0, Duration.of(1)), **changed)
    with pytest.raises(ProblemError, match=re.escape(says)):
        Problem((task,), (Node("n", 8, GB, gpus=1, hbm_bytes=80 * GB, group="A"),))


def test_a_node_that_does_not_say_its_memory_is_not_told_to_have_none() -> None:
    """It may have enough: what is missing is the word."""
    task = Task("t", 1, 0, Duration.of(1), gpus=1, hbm_bytes=141 * GB)
    with pytest.raises(
        ProblemError, match=r"n does not say how much memory its GPUs have \(hbm\), and 141 GB is needed"
    ):
        Problem((task,), (Node("n", 8, GB, gpus=1),))


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2-12:00:00", 60 * HOUR),  # Slurm's days-hours:minutes:seconds
        ("2-12:30", 60 * HOUR + 1800),
        ("2-12", 60 * HOUR),
        ("0-00:00:30", 30),
        ("36:00:00", 36 * HOUR),
        ("2:30:00", 2 * HOUR + 1800),  # a number to YAML 1.1
        ("1h30m", HOUR + 1800),  # Go's, and so Kubernetes'
        ("1h30m0s", HOUR + 1800),
        ("90m", 5400),
        ("PT1H30M", HOUR + 1800),
        ("P1DT12H", 36 * HOUR),
        ("2 hours", 2 * HOUR),
        ("3 days 2 hours", 74 * HOUR),
        ("1.5 h", 5400),
    ],
)
def test_spans_are_read_as_schedulers_write_them(written: str, seconds: int) -> None:
    """Quoted or not, and in the file itself."""
    assert span_seconds(written) == seconds
    assert read_tasks(FOUR.replace("3 h", written), NOW).tasks[0].seconds == seconds


@pytest.mark.parametrize(
    "wrong", ["12:30", "500ms", "1-", "-1:00:00", "1:60:00", "P", "PT", "P1H", "90", "2-12:00:00:00"]
)
def test_what_may_be_two_spans_is_refused(wrong: str) -> None:
    """12:30 is minutes to Slurm and hours to people; a bare number has no unit."""
    with pytest.raises(ValueError, match=r"must be a duration|may be hours"):
        span_seconds(wrong)


@pytest.mark.parametrize(
    ("written", "size"),
    [("64Gi", 64 * 2**30), ("512Mi", 2**29), ("64G", 64 * 2**30), ("1.5Ti", 3 * 2**39), ("1 GB", GB)],
)
def test_sizes_are_read_as_schedulers_write_them(written: str, size: int) -> None:
    """A letter alone is Slurm's, of 1,024: the larger of what it may mean."""
    assert size_bytes(written) == size


@pytest.mark.parametrize(
    ("written", "number"),
    [("500m", "0.5"), ("2500m", "2.5"), (0.25, "0.25"), ("3", "3"), (2.0, "2"), ("2000m", "2"), (0, "0")],
)
def test_amounts_are_read_as_kubernetes_writes_them(written: object, number: str) -> None:
    """What is whole is an integer, whoever wrote it."""
    found = amount(written)
    assert str(found) == number


def test_parts_of_cpus_and_gpus_add_up() -> None:
    """Four quarters of a GPU, and no fifth; half CPUs on one CPU."""
    text = FOUR.replace("cpus: 16", "cpus: 2").replace("t1: {cpus: 4", "t1: {count: 8, cpus: 500m")
    problem = read_tasks(text.replace("gpu: 1,", "gpu: 0.25,"), NOW).problem()
    plan = solve(problem, 5).plan
    starts = [plan.by_task[f"t1[{number}]"].start_seconds for number in range(1, 9)]
    assert sorted(starts) == [0, 0, 0, 0, 3 * HOUR, 3 * HOUR, 3 * HOUR, 3 * HOUR]
    assert {each.rule for each in validate(problem, proposal_of(plan)).broken} == set()
    fewer = Proposal(
        tuple(Placed(each.task, each.node, 0 if each.task != "t2" else 30_000) for each in plan.placements)
    )
    assert [each.rule for each in validate(problem, fewer).broken] == ["capacity", "capacity"]


def test_what_waits_for_an_array_waits_for_all_of_it() -> None:
    """With the output of each, or with the bytes that it says of each."""
    array = FOUR.replace("t1: {", "t1: {count: 3, ")
    names = ["t1[1]", "t1[2]", "t1[3]"]
    file = read_tasks(array, NOW)
    assert [task.name for task in file.tasks] == [*names, "t2"]
    assert [task.array for task in file.tasks] == ["t1", "t1", "t1", None]
    assert file.tasks[-1].inputs == tuple(Input(name, 10 * GB) for name in names)
    said = read_tasks(array.replace("[t1]", "{t1: 2 GB}"), NOW)
    assert said.tasks[-1].inputs == tuple(Input(name, 2 * GB) for name in names)
