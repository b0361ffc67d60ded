"""Logs: a pattern with names, times as people write them, and a sentence for all that cannot be."""

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


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "is not a valid regular expression"),
        ("x*", "matches the empty string"),
        (r"step (\d+)", "captures no time"),
        (r"(?P<duration>\d+) s", "has an unknown group 'duration'; groups are step, seconds, time"),
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
