"""Small parts of the agent: visible GPUs, steps in lines, recordings that are none."""

import json
import os
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ConfigError, EnvelopeError
from agent.run.command import StepCounter, StepNumbers, reports_here, spoken, step_pattern
from agent.run.watch import ChosenGpus, Gpu, Subject, visible, visible_gpus
from agent.source import Row
from agent.wire.bounded import number_said
from agent.wire.recording import RecordingEnd, RecordingHeader, RecordingWriter, read_recording

GPUS = [Gpu(f"GPU-{index:04x}-aa", index, "H100-80GB") for index in range(4)]
INSTANCE = Gpu("MIG-0001-bb", None, "H100-80GB", "GPU-0003-aa")
HEADER = RecordingHeader(1, "declared/n14/x", "n14", "python train.py", 5, 2, "", 0.1, 1.0)
END = RecordingEnd(9, 0, 1.5, 1000, 0.1, None)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"CUDA_VISIBLE_DEVICES": " 1 , 3 "}, [1, 3]),
        ({"CUDA_VISIBLE_DEVICES": "1,1"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, []),
        ({"CUDA_VISIBLE_DEVICES": "0,9,1"}, [0]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-0002-aa"}, [2]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-0001"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-000"}, []),
        ({"CUDA_VISIBLE_DEVICES": "MIG-0001"}, [4]),
        ({"SLURM_LOCALID": "0", "CUDA_VISIBLE_DEVICES": "0", "SLURM_STEP_GPUS": "2,3"}, [2, 3]),
        ({"SLURM_LOCALID": "0", "CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_GPUS": "1,2"}, [1, 2]),
        ({"SLURM_JOB_GPUS": "1,2", "CUDA_VISIBLE_DEVICES": "0"}, [0]),
    ],
)
def test_visible_gpus_are_those_that_cuda_would_show(environment: dict[str, str], expected: list[int]) -> None:
    """A GPU that the command cannot use is not its to waste."""
    gpus = [*GPUS, INSTANCE]
    assert visible(gpus, environment) == [gpus[index] for index in expected]


def test_gpus_are_listed_in_the_drivers_order() -> None:
    """Inventory rows come as they were found; a host's own row is no GPU."""
    rows: list[dict[str, str | int | float | bool | None]] = [
        {"gpu_uuid": "GPU-b", "gpu_index": 1, "sku": "H100-80GB"},
        {"rack": "r1"},
        {"gpu_uuid": "GPU-a", "gpu_index": 0},
    ]
    assert [(gpu.uuid, gpu.sku) for gpu in visible_gpus(rows)] == [("GPU-a", None), ("GPU-b", "H100-80GB")]


def test_a_chosen_source_says_nothing_of_others() -> None:
    """On a shared host the neighbours' readings are not this run's to record."""

    class Two:
        name = "gpu"
        period_seconds = 0.0

        def read(self) -> dict[str, list[dict[str, str]]]:
            return {"gpu_samples": [{"gpu_uuid": GPUS[0].uuid}, {"gpu_uuid": GPUS[1].uuid}]}

    chosen = ChosenGpus(Two(), GPUS[:1], {"inventory": [{"gpu_uuid": GPUS[0].uuid}, {"gpu_uuid": GPUS[1].uuid}]})
    assert chosen.read() == {"inventory": [{"gpu_uuid": GPUS[0].uuid}]}, "the first reading was made already"
    assert chosen.read() == {"gpu_samples": [{"gpu_uuid": GPUS[0].uuid}]}


def test_what_is_watched_is_said_in_words() -> None:
    """The first line of every run."""
    mixed = (*GPUS[:2], Gpu("GPU-x", 4, "A100-40GB"), Gpu("GPU-y", 5, None))
    assert Subject("r", "c", tuple(GPUS), "").what == "4 x H100-80GB and this host"
    assert Subject("r", "c", mixed, "").what == "2 x H100-80GB, 1 x A100-40GB, 1 x GPU and this host"


def test_only_rank_0_of_a_node_reports() -> None:
    """Whatever started it."""
    assert reports_here({})
    assert reports_here({"LOCAL_RANK": "0", "SLURM_LOCALID": "0"})
    assert not reports_here({"LOCAL_RANK": "0", "SLURM_LOCALID": "2"})


def test_a_command_is_told_in_one_line() -> None:
    """A script of a hundred lines after -c is still one line of a report."""
    assert spoken(["python", "train.py", "--name", "a b"]) == "python train.py --name 'a b'"
    assert "\n" not in spoken(["sh", "-c", "echo 1\necho 2"])
    assert len(spoken(["x" * 1000])) == 120


def counted(pattern: str, *chunks: bytes) -> int:
    """Return the steps found in what a command printed, chunk by chunk."""
    return int(str(told(pattern, *chunks)["steps"]))


def told(pattern: str, *chunks: bytes) -> Row:
    """Return what is told of what a command printed, chunk by chunk."""
    counter = StepCounter("r", step_pattern(pattern))
    reading, writing = os.pipe()
    sink = os.open(os.devnull, os.O_WRONLY)
    for chunk in chunks:
        os.write(writing, chunk)
    os.close(writing)
    counter._copy(reading, sink)
    os.close(sink)
    counter._told = 0
    return counter.read()["progress"][0]


@pytest.mark.parametrize(
    ("pattern", "chunks", "steps"),
    [
        ("step", [b"step\nstep\n"], 2),
        ("step", [b"st", b"ep\nst", b"ep"], 2),
        ("step", [b"a step and a step\n"], 1),
        (r"it (\d+)", [b"it 10\nit 30\nit 31\n"], 21),
        (r"it (\d+)", [b"it 10\rit 11\rit 12\r"], 2),
        (r"it (\d+)", [b"it 10\nit 5\nit 6\n"], 1),
        (r"it (\d+)?", [b"it \nit \n"], 2),
        (r"it (\d+)", [b"it " + b"9" * 400 + b"\n"], 0),
        (r"it ([\d.]+)", [b"it 10.000\nit 39.00\n"], 29),
        (r"it ([\d.e+]+)", [b"it 900\nit 1e+03\nit 2e+3\n"], 1100),
        (r"it ([\d,]+)", [b"it 990\nit 1,000\nit 12,345,678\n"], 12_344_688),
        (r"it (\S+)", [b"it 1\nit nan\nit --\nit 1e999\nit 5\n"], 4),
        (r"(?P<loss>\S+) at (?P<step>\d+)", [b"2.5 at 1\n2.1 at 4\n"], 3),
    ],
)
def test_steps_in_lines(pattern: str, chunks: list[bytes], steps: int) -> None:
    """Lines may come in pieces, progress bars return without a new line, and a run may begin again lower."""
    assert counted(pattern, *chunks) == steps


def test_a_number_that_cannot_be_read_is_no_step_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Once, when all is over."""
    counter = StepCounter("r", step_pattern(r"it (\S+)"))
    counter._count([b"it 1", b"it soon", b"it later", b"it 3"])
    counter.finish(0)
    assert counter._steps == 2
    assert "found 2 lines whose number cannot be read, such as 'later'" in caplog.text


def numbers(taken: Iterable[int | tuple[int, int]]) -> float:
    """Return what is counted of numbers one after another, some with their total."""
    steps = StepNumbers()
    for number in taken:
        steps.take(*([number] if isinstance(number, int) else number))
    steps.settle()
    return steps.counted


TRAINING, EVALUATION = range(1, 101), range(61)


@pytest.mark.parametrize(
    ("taken", "steps"),
    [
        ([*TRAINING, *TRAINING], 198),
        ([*range(10, 101, 10)] * 3, 270),
        ([*range(51), *range(11)] * 5, 250),
        ([*range(1, 31), *TRAINING], 128),
        ([*range(1, 31), *range(21, 101)], 99),
        ([number for start in (0, 100, 200) for number in (*range(start + 1, start + 101), *EVALUATION)], 299),
        ([(number, 5) for number in (0, 3, 5, 0, 5)], 10),
        ([7], 0),
        ([], 0),
    ],
)
def test_what_begins_again_counts_and_what_lies_between_does_not(taken: list[int], steps: int) -> None:
    """Epochs, a training that was started again, one that went on from a checkpoint, and evaluations between."""
    assert numbers(taken) == steps


@given(st.integers(2, 8), st.integers(40, 200), st.floats(0, 1.9), st.integers(1, 5), st.randoms(use_true_random=False))
def test_ranks_that_all_print_count_once(ranks: int, last: int, skew: float, stride: int, by: random.Random) -> None:
    """Whatever their order; who says which rank it is may even print all of its lines at once."""
    lines = [
        (step + stride * skew * by.random(), rank, step) for step in range(0, last, stride) for rank in range(ranks)
    ]
    highest = max(step for _, _, step in lines)
    assert highest - stride <= numbers(step for _, _, step in sorted(lines)) <= highest
    named = b"".join(b"[rank%d] it %d\n" % (rank, step) for _, rank, step in sorted(lines, key=lambda line: line[1:]))
    assert counted(r"it (\d+)", named) == highest


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("39.00", 39), ("2e+3", 2000), ("2E3", 2000), ("1,000", 1000), ("1_000_000", 1e6), ("1 000", 1000), (".5", 0.5),
        ("007", 7), (" 8 ", 8), ("12,34", None), ("1,000,00", None), ("nan", None), ("inf", None), ("", None),
        (".", None), ("e5", None), ("-3", None), ("0x10", None), ("1e99", None), ("9" * 41, None), ("1,000_000", None),
        ("\u0663", 3),
    ],
)  # fmt: skip
def test_a_number_as_people_print_it(text: str, number: float | None) -> None:
    """What is none is none, and not the beginning of one."""
    assert number_said(text) == number


@pytest.mark.parametrize(
    ("pattern", "printed", "steps", "waited"),
    [
        (r"it (\d+) data (?P<wait>[\d.]+)", b"it 10 data 0.5\nit 30 data 0.25\nit 31 data 1\n", 21, 6.0),
        (r"data (?P<wait>[\d.]+) it (\d+)", b"data 9 it 10\ndata 2 it 12\n", 2, 4.0),
        (r"data (?P<wait>[\d.]+)", b"data 0.25\ndata 3\n", 2, 3.25),
        (r"it (\d+)(?: data (?P<wait>\S+))?", b"it 1\nit 2\nit 3 data soon\nit 4 data nan\n", 3, None),
        (r"it (\d+)(?: data (?P<wait>\S+))?", b"it 1\nit 2\nit 3 data 0\n", 2, 0.0),
        ("step", b"step\n", 1, None),
    ],
)
def test_waits_in_lines(pattern: str, printed: bytes, steps: int, waited: float | None) -> None:
    """A line of many steps prints what each of them waited; who prints nothing of it has not said 0."""
    row = told(pattern, printed)
    assert (row["steps"], row["data_wait_seconds"]) == (steps, waited)


@pytest.mark.parametrize("given", ["(", "", "a*", "^"])
def test_a_pattern_that_marks_nothing_is_refused(given: str) -> None:
    """It would count every line, or none."""
    with pytest.raises(ConfigError, match="--steps-from"):
        step_pattern(given)


def test_a_recording_comes_back(tmp_path: Path) -> None:
    """The report and the next run's comparison are made from it."""
    path = tmp_path / "run.json"
    writer = RecordingWriter(path.open("w"), HEADER)
    writer.batch(b"\x00\xff")
    writer.batch(b"")
    writer.end(END)
    read = read_recording(path)
    assert (read.header, read.batches, read.end) == (HEADER, (b"\x00\xff", b""), END)


def test_a_torn_recording_is_that_of_a_killed_watcher(tmp_path: Path) -> None:
    """What is there counts."""
    path = tmp_path / "run.json"
    writer = RecordingWriter(path.open("w"), HEADER)
    writer.batch(b"one")
    writer.end(END)
    whole = path.read_text()
    path.write_text(whole[:-4])
    assert read_recording(path).end is None
    path.write_text(whole.rsplit("\n", 2)[0] + '\n{"batch": "dHd')
    assert read_recording(path).batches == (b"one",)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}\n",
        "[]\n",
        "not json\n",
        '{"recording": 1}\n',
        json.dumps({"recording": 2} | {name: getattr(HEADER, name) for name in HEADER.__slots__[1:]}) + "\n",
        json.dumps({name: getattr(HEADER, name) for name in HEADER.__slots__} | {"started_at": "now"}) + "\n",
        json.dumps({name: getattr(HEADER, name) for name in HEADER.__slots__}) + '\n{"batch": "!"}\n',
        json.dumps({name: getattr(HEADER, name) for name in HEADER.__slots__}) + '\n{"something": 1}\n',
        "\udcff",
    ],
)
def test_what_is_no_recording_says_so(tmp_path: Path, content: str) -> None:
    """Somebody gives the wrong file to --against; the sentence names it."""
    path = tmp_path / "run.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(EnvelopeError, match=r"run\.json"):
        read_recording(path)


def test_a_recording_that_is_not_there_says_so(tmp_path: Path) -> None:
    """In the same words."""
    with pytest.raises(EnvelopeError, match="cannot read the recording"):
        read_recording(tmp_path / "none.json")
