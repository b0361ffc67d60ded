"""Logs: a pattern with names, times as people write them, and a sentence for all that cannot be."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analyzer.errors import ConfigError
from analyzer.measures.efficiency import steps
from analyzer.measures.efficiency.steps import by_log, step_pattern


def log(path: Path, *lines: str) -> Path:
    """Write a log."""
    file = path / "train.log"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_seconds_that_a_line_says(tmp_path: Path) -> None:
    """The median: the first step compiles and says nothing of the rest."""
    file = log(tmp_path, "step 1 took 45.0 s", "saved", *(f"step {n} took 1.2{n} s" for n in range(2, 6)))
    found = by_log(file, step_pattern(r"step (?P<step>\d+) took (?P<seconds>[\d.]+) s"))
    assert (found.seconds, found.how, found.steps) == (1.24, "log", 5)


def test_a_pattern_is_looked_for_in_what_one_sees(tmp_path: Path) -> None:
    """Colors stand between a step and its number, and no line of the log matched."""
    file = log(tmp_path, *(f"\x1b[31mstep: \x1b[1;36m{n}\x1b[0m took \x1b[32m1.5\x1b[39m s" for n in range(1, 9)))
    assert by_log(file, step_pattern(r"step: (?P<step>\d+) took (?P<seconds>[\d.]+) s")).seconds == 1.5


def test_times_of_lines_and_numbers_of_steps(tmp_path: Path) -> None:
    """Lines every ten steps, 20 s apart: 2 s a step. A number that falls is a new beginning, and no step of 1,000 s."""
    times = [
        ("2026-11-10 08:00:00,500", 10),
        ("2026-11-10 08:00:20,500", 20),
        ("2026-11-10 08:00:40,500", 30),
        ("2026-11-10 08:20:00,500", 20),
        ("2026-11-10 08:20:20,500", 30),
    ]
    file = log(tmp_path, *(f"{at} INFO step={step} loss=2" for at, step in times))
    assert by_log(file, step_pattern(r"^(?P<time>\S+ \S+) INFO step=(?P<step>\d+)")).seconds == 2.0


@pytest.mark.parametrize(("first", "apart"), [(1_790_000_000, 3), (1_790_000_000_000, 3_000)])
def test_times_since_1970(tmp_path: Path, first: int, apart: int) -> None:
    """Seconds and milliseconds; without a number each line is a step."""
    file = log(tmp_path, *(f"{first + apart * line} step" for line in range(5)))
    assert by_log(file, step_pattern(r"(?P<time>\d+) step")).seconds == 3.0


def test_a_progress_bar_writes_over_its_line(tmp_path: Path) -> None:
    """One line of bytes, many lines for the eye."""
    file = tmp_path / "bar.log"
    file.write_bytes(b"\r".join(b"it 1.5 s" for _ in range(4)))
    assert by_log(file, step_pattern(r"(?P<seconds>[\d.]+) s")).steps == 4


def test_a_bar_that_is_kept_in_a_file_is_one_line_of_any_length(tmp_path: Path) -> None:
    """Its writes end with a carriage return alone: 500 slow steps and 3,500 quick ones are 4,000 steps."""
    file = tmp_path / "bar.log"
    bars = (
        f"\rtrain {step:4}/4000 [01:00<1:00:00, {9.0 if step <= 500 else 2.0:.2f}s/it, loss=2.1]"
        for step in range(4000)
    )
    file.write_text("".join(bars) + "\n")
    found = by_log(file, step_pattern(r"(?P<seconds>[0-9.]+)s/it"))
    assert (found.seconds, found.steps) == (2.0, 4000)


def test_what_is_beyond_64_kib_of_a_line_is_not_searched(tmp_path: Path) -> None:
    """A line without an end must not fill the memory."""
    file = tmp_path / "long.log"
    file.write_text("took 1 s " + "x" * 300_000 + " took 9 s\n" + "took 2 s\n" * 3)
    assert by_log(file, step_pattern(r"took (?P<seconds>\d) s")).steps == 4


def test_units_are_said_by_the_groups_name(tmp_path: Path) -> None:
    """Megatron's and nanoGPT's milliseconds; a bar turns its rate round where a step takes less than a second."""
    megatron = log(tmp_path, *(f" iteration {n}/100 | elapsed time per iteration (ms): 115{n}.5 |" for n in range(5)))
    assert by_log(megatron, step_pattern(r"\(ms\): (?P<milliseconds>[\d.]+)")).seconds == pytest.approx(1.1525)
    bar = log(tmp_path, "1/9 [00:02, 2.00s/it]", *(f"{n}/9 [00:02, 4.00it/s]" for n in range(2, 6)))
    pattern = step_pattern(r"(?:(?P<seconds>[\d.]+)s/it|(?P<per_second>[\d.]+)it/s)")
    assert by_log(bar, pattern).seconds == 0.25


def test_times_of_steps_and_of_lines_are_held_against_each_other(tmp_path: Path) -> None:
    """Milliseconds that are read as seconds are told, and a step of minutes is worth a word."""
    lines = [f"[2026-11-24 12:00:{12 * n:02}] iteration {10 * n}/ 1000 | (ms): 1150.0" for n in range(5)]
    head = r"\[(?P<time>[^]]+)\] iteration (?P<step>\d+).*\(ms\): "
    assert by_log(log(tmp_path, *lines), step_pattern(head + r"(?P<milliseconds>[\d.]+)")).seconds == 1.15
    with pytest.raises(ConfigError, match=r"by seconds a step takes 1.15e\+03 s, by its lines' times 1.2 s"):
        by_log(log(tmp_path, *lines), step_pattern(head + r"(?P<seconds>[\d.]+)"))


def test_a_step_of_many_minutes_is_worth_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may be true."""
    found = by_log(log(tmp_path, *["took 1150.0"] * 3), step_pattern(r"took (?P<seconds>[\d.]+)"))
    assert found.seconds == 1150.0
    assert "are they milliseconds" in caplog.text


@pytest.mark.parametrize(
    "form",
    [
        "I{:%m%d %H:%M:%S}.123456 140",
        "I{:%Y%m%d %H:%M:%S}.5 1",
        "{:%Y/%m/%d %H:%M:%S}",
        "{:%m/%d %H:%M:%S}",
        "{:%H:%M:%S}",
    ],
)
def test_times_as_logs_write_them(tmp_path: Path, form: str) -> None:
    """glog's, Go's and detectron2's; a leap day is one too, and over New Year nothing is told of one step."""
    for start in (datetime(2024, 2, 29, 12, tzinfo=UTC), datetime(2026, 12, 31, 23, 59, 40, tzinfo=UTC)):
        times = [start + timedelta(seconds=5 * line) for line in range(12)]
        file = log(tmp_path, *(f"{form.format(at)} step {10 * line}" for line, at in enumerate(times)))
        assert by_log(file, step_pattern(r"^I?(?P<time>[\d/]* ?[\d:.]+).* step (?P<step>\d+)")).seconds == 0.5


def test_ranks_that_all_print_are_no_new_beginnings(tmp_path: Path) -> None:
    """Eight of them, out of step by up to one and a half: a second a step."""
    by = random.Random(3)
    lines = sorted((step + by.random() * 1.5, rank, step) for step in range(100) for rank in range(8))
    file = log(tmp_path, *(f"{1_790_000_000 + at:.3f} rank {rank} step {step}" for at, rank, step in lines))
    found = by_log(file, step_pattern(r"^(?P<time>[\d.]+) .* step (?P<step>\d+)"))
    assert found.seconds == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "is not a valid regular expression"),
        ("x*", "matches the empty string"),
        (r"step (\d+)", "captures no time"),
        (
            r"(?P<duration>\d+) s",
            "unknown group 'duration'; groups are step, seconds, milliseconds, per_second, time",
        ),
    ],
)
def test_a_bad_pattern_is_a_sentence(pattern: str, why: str) -> None:
    """The words are those of gpuledger run, where the same is wrong."""
    with pytest.raises(ConfigError, match=why):
        step_pattern(pattern)


@pytest.mark.parametrize(
    ("lines", "pattern", "why"),
    [
        (["nothing here"], r"took (?P<seconds>\S+) s", "no line of .* matches"),
        (["took 1 s"], r"took (?P<seconds>\S+) s", "has 1 step times"),
        (["took long s"] * 5, r"took (?P<seconds>\S+) s", "takes 'long' for seconds"),
        (["took nan s"] * 5, r"took (?P<seconds>\S+) s", "takes 'nan' for seconds"),
        (["took -1 s"] * 5, r"took (?P<seconds>\S+) s", "it is not a valid time"),
        (["at noon"] * 5, r"at (?P<time>\S+)", "takes 'noon' for a time"),
        (["at 5 step x"] * 5, r"at (?P<time>\S+) step (?P<step>\S+)", "takes 'x' for a step's number"),
    ],
)
def test_a_log_that_does_not_fit_is_a_sentence(tmp_path: Path, lines: list[str], pattern: str, why: str) -> None:
    """A figure from lines that mean something else would be believed."""
    with pytest.raises(ConfigError, match=why):
        by_log(log(tmp_path, *lines), step_pattern(pattern))


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing, no file, or so large that a minute would pass."""
    pattern = step_pattern(r"(?P<seconds>\d) s")
    with pytest.raises(ConfigError, match="cannot read --log"):
        by_log(tmp_path / "missing", pattern)
    with pytest.raises(ConfigError, match="is not a file"):
        by_log(tmp_path, pattern)
    monkeypatch.setattr(steps, "MAX_LOG_BYTES", 3)
    with pytest.raises(ConfigError, match="pass the relevant part"):
        by_log(log(tmp_path, "1 s"), pattern)
