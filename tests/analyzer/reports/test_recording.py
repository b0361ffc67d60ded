"""The report on one command: time first, no price guessed, and a comparison that says whether a change worked."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.cli import recording
from analyzer.interfaces.cli.command import price_micros
from analyzer.interfaces.cli.recording import recording_report, report_recording
from analyzer.interfaces.text.compare_text import against_sentence, came_out
from analyzer.interfaces.text.recording_text import COMMENT_MARK, recording_markdown, recording_text
from analyzer.interfaces.text.run_text import head_pairs
from analyzer.interfaces.text.week_text import week_text
from analyzer.reports.host_side import RecordingReport
from analyzer.reports.week import WeekReport
from analyzer.text.layout import TextLayout, picture
from tests.analyzer.reports.example_recording import write_recording
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run that waits for its loader, the same run after the change, and others."""
    folder = tmp_path_factory.mktemp("recordings")
    write_recording(folder / "before.json", 45, waiting=True)
    write_recording(folder / "after.json", 30, waiting=False)
    write_recording(folder / "no_gpu.json", 20, waiting=False, gpus=0)
    write_recording(folder / "killed.json", 20, waiting=True, ended=False)
    write_recording(folder / "one_gpu.json", 45, waiting=False, gpus=1)
    return folder


@pytest.fixture(scope="module")
def judged(made: Path) -> Callable[..., RecordingReport]:
    """Return what reports on one of them, each once: a report takes a ledger. Files are named as from the folder."""

    @cache
    def of(name: str, price: str | None = "2.60") -> RecordingReport:
        with chdir(made):
            return recording_report(Path(f"{name}.json"), price_micros(price))

    return of


@pytest.fixture
def recordings(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder from within: what is printed names files as they were named."""
    monkeypatch.chdir(made)
    return Path()


def test_a_waiting_run_reads_as_it_was_drawn(
    judged: Callable[..., RecordingReport], golden: Callable[[str, str], None]
) -> None:
    """The first screen that a new user sees: the limit, where the time went, why, and what to change."""
    text = recording_text(judged("before", None), TextLayout())
    assert "$" not in text.split("INSUFFICIENT DATA")[0]
    golden("report/recording.txt", text)


def test_after_the_change(judged: Callable[..., RecordingReport], golden: Callable[[str, str], None]) -> None:
    """The loop closes with one flag: did it work, by how much, and what is the next limit."""
    golden("report/recording_against.txt", recording_text(judged("after"), TextLayout(), judged("before")))


def test_without_a_gpu_the_host_is_told(
    judged: Callable[..., RecordingReport], golden: Callable[[str, str], None]
) -> None:
    """A laptop without a GPU is where many try it first: it says what it saw, and what it could not."""
    golden("report/recording_no_gpu.txt", recording_text(judged("no_gpu", None), TextLayout()))


def test_a_run_that_tells_its_steps_finds_them_again(tmp_path: Path) -> None:
    """Who asked for --steps-from, or copied the ten lines, wants to see that they were heard."""
    path = write_recording(tmp_path / "run.json", 20, waiting=False, says={"steps": 1200, "tokens": 8_380_000})
    told = recording_report(path, None)
    assert "1,200 steps, 8.38 million tokens (said by the run)" in recording_text(told, TextLayout())
    assert told.run is not None
    assert ("1,200 steps (said by the run)", "") in head_pairs(told.run)


def test_a_report_without_gpus_loads_nothing_that_judges_runs(recordings: Path) -> None:
    """Most commands have no GPU, or are over at once: half of their report's time went to load what judges runs."""
    code = (
        "import sys, gpuledger\n"
        f"assert gpuledger.main(['report', 'recording', {str(recordings / 'no_gpu.json')!r}]) == 0\n"
        "heavy = {'pydantic', 'jinja2', 'plotly', 'analyzer.analysis', 'analyzer.reports.run', 'analyzer.findings'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ran.returncode == 0, ran.stderr
    assert "No GPU was watched" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "[]"


def test_what_a_killed_watcher_left_counts(judged: Callable[..., RecordingReport]) -> None:
    """The run that was killed is the one that somebody wants explained."""
    told = judged("killed", None)
    assert told.ended is None
    assert "as far as it was watched" in recording_text(told, TextLayout())


def test_time_is_conserved(judged: Callable[..., RecordingReport]) -> None:
    """Every GPU-second of the command is in the table: gpus times its length, to the millisecond."""
    told = judged("before")
    assert told.run is not None
    assert told.run.breakdown.milliseconds == 4 * told.microseconds // 1000


def test_a_file_that_is_no_recording_is_named(tmp_path: Path) -> None:
    """People pass the wrong file; the sentence names it."""
    (tmp_path / "x.json").write_text('{"hello": 1}\n')
    with pytest.raises(LedgerError, match=r"x\.json"):
        recording_report(tmp_path / "x.json", None)


@pytest.mark.parametrize("price", ["two", "-1", "nan", "inf"])
def test_a_price_that_is_none_is_refused(price: str) -> None:
    """A mistyped price must not become a cost."""
    with pytest.raises(ConfigError, match="--price"):
        price_micros(price)


@pytest.mark.parametrize("form", ["text", "json", "html", "markdown"])
def test_every_form_is_written(
    recordings: Path,
    tmp_path: Path,
    judged: Callable[..., RecordingReport],
    monkeypatch: pytest.MonkeyPatch,
    form: str,
) -> None:
    """gpuledger run --report FILE asks for the form by the file's name."""

    def remembered(path: Path, price: int | None, look: object = None) -> RecordingReport:
        assert price is None
        return judged(path.stem, None)

    if form != "html":  # which reads its lanes from the ledger while that is there: this one is made anew
        monkeypatch.setattr(recording, "recording_report", remembered)
    out = tmp_path / "report"
    assert report_recording([str(recordings / "before.json"), "--format", form, "--out", str(out)]) == 0
    text = out.read_text()
    assert "input starvation" in text
    if form == "json":
        assert json.loads(text)["schema"] == "gpuledger/recording"


def test_a_pull_request_is_told_what_a_change_did(
    judged: Callable[..., RecordingReport], golden: Callable[[str, str], None]
) -> None:
    """A table and a sentence, with a mark by which CI finds its comment again instead of adding another."""
    before = judged("before")
    text = recording_markdown(judged("after"), before)
    assert text.startswith(f"{COMMENT_MARK}\n**Faster by ")
    golden("report/recording_against.md", text)
    drawn = MarkdownIt().enable("table").render(text)
    assert drawn.count("<table>") == 1
    assert "<td>input starvation</td>" in drawn
    single = recording_markdown(before)
    assert "input starvation" in single
    assert "To change next:" in single


@pytest.mark.parametrize(
    "command",
    [
        "train --tag @everyone #12 !7 ~bug",
        "sh -c 'a | b' <script>alert(1)</script> <!-- x -->",
        "[click](https://evil.example) ![x](https://evil.example/x.png) https://evil.example",
        "`` ``` ` **bold** __x__ ~~y~~ $x$ ^y^ \\",
        "line\nbreak\r\n# head \u202e\u2028 x",
    ],
)
def test_no_word_of_a_command_is_markup_in_a_comment(judged: Callable[..., RecordingReport], command: str) -> None:
    """Whoever names a run would else write links, pictures and calls to people in the name of the CI."""
    report = judged("after")
    named = replace(report, header=replace(report.header, command=command))
    for text in (recording_markdown(named), recording_markdown(named, report), recording_markdown(report, named)):
        drawn = MarkdownIt("commonmark").enable("table").render(text)
        body = drawn.replace(COMMENT_MARK, "")
        assert not re.search(r"<(a|img|script|h\d|em|s|del)\b|<!--", body)
        assert not re.search(r"[@#!~$](?=\w)", text.replace(COMMENT_MARK, "").replace("&#", ""))


def test_the_picture_loads_nothing(week: WeekReport) -> None:
    """A picture in a README must not call home from every reader's browser."""
    drawn = picture(week_text(week, TextLayout()), "gpuledger report")
    assert drawn.startswith("<svg")
    assert "67,738" in drawn
    assert "@font-face" not in drawn
    assert "url(http" not in drawn


def test_a_command_that_failed_is_not_called_faster(judged: Callable[..., RecordingReport]) -> None:
    """It was over sooner because it broke."""
    before = judged("before")
    after = judged("after")
    assert after.ended is not None
    failed = replace(after, ended=replace(after.ended, exit_code=3))
    assert "Faster" in against_sentence(before, after)
    assert "Faster" not in against_sentence(before, failed)


def test_a_prediction_is_held_to_what_came(tmp_path: Path, judged: Callable[..., RecordingReport]) -> None:
    """A prediction that nobody looks at again is a promise; one of a command that failed proves nothing."""
    before, inside = judged("before"), judged("after")
    slower, faster = (
        recording_report(write_recording(tmp_path / f"{minutes}.json", minutes, False), None) for minutes in (40, 20)
    )
    for after, word in ((inside, "inside"), (slower, "slower than"), (faster, "faster than")):
        told = came_out(before, after)
        assert told is not None
        assert f"came out {word} the range" in told
    assert came_out(before, replace(faster, ended=None)) is None  # who was killed
    assert came_out(faster, before) is None  # nothing was proposed


def test_a_gpu_that_comes_free_makes_no_run_faster(tmp_path: Path, judged: Callable[..., RecordingReport]) -> None:
    """Half of its GPU time is freed, and it takes as long: no later run is held to half of its length."""
    alone = recording_report(write_recording(tmp_path / "alone.json", 45, False, gpus=2, unused=1), None)
    assert alone.run is not None
    assert [one.kind for one in alone.run.recommendations] == ["right_size"]
    assert "-> about" not in recording_text(alone, TextLayout())
    after = judged("one_gpu")
    assert came_out(alone, after) is None
    waiting = recording_report(write_recording(tmp_path / "waiting.json", 45, True, gpus=2, unused=1), None)
    assert waiting.run is not None
    assert [one.kind for one in waiting.run.recommendations] == ["right_size", "more_cpu"]
    told = came_out(waiting, after)
    assert told is not None
    assert told.startswith("predicted then for 4 loader workers per rank"), "what was to make it faster"


def test_other_work_is_named_before_its_time_is_compared(judged: Callable[..., RecordingReport]) -> None:
    """Another command, or fewer GPUs, is faster for a reason of its own."""
    before, after = judged("before"), judged("after")
    other = replace(after, header=replace(after.header, command="python eval.py"))
    told = against_sentence(before, other)
    assert told.startswith("Not the same work: the command was python train.py, now python eval.py. Faster by")
    assert "it held 4 GPUs, now 1 GPU" in against_sentence(before, judged("one_gpu"))
    assert "Not the same" not in against_sentence(before, before)


def test_a_torn_recording_is_not_compared(judged: Callable[..., RecordingReport]) -> None:
    """Up to where it was written it is shorter than anything."""
    before = judged("before")
    killed = judged("killed", None)
    for pair in ((killed, before), (before, killed)):
        assert against_sentence(*pair).startswith("Not compared: ")
        assert "no end" in against_sentence(*pair)


def test_what_was_over_at_once_is_not_judged(tmp_path: Path) -> None:
    """The start of a program is not how it works: no finding, no advice, no share of anything."""
    path = write_recording(tmp_path / "short.json", 1, True)
    header, *batches, end = path.read_text().splitlines()
    ended = json.loads(end) | {"ended_at": json.loads(header)["started_at"] + 9 * 10**6}
    path.write_text("\n".join([header, *batches, json.dumps(ended)]) + "\n")
    told = recording_report(path, None)
    text = recording_text(told, TextLayout())
    assert told.run is None
    assert "Too short to judge: it ended after 9.0 s; 10 s are needed." in " ".join(text.split())
    assert all(word not in text for word in ("WHERE", "TRY", "WHY", "INSUFFICIENT"))


def test_a_shared_gpu_is_not_separable(tmp_path: Path) -> None:
    """What it did it did for all of its processes: nothing of it is told as this run's."""
    path = write_recording(tmp_path / "shared.json", 20, True, shared_gpus=1, others="ann (pid 7)")
    told = recording_report(path, None)
    text = " ".join(recording_text(told, TextLayout()).split())
    assert told.run is None
    assert "Not separable: others used 1 of its 4 GPUs beside it (ann (pid 7))" in text
    assert "TRY" not in text


def test_gpus_of_others_are_not_counted(tmp_path: Path) -> None:
    """They were to be seen, and others worked there."""
    path = write_recording(tmp_path / "others.json", 20, True, gpus=2, foreign_gpus=1, others="ann (pid 7)")
    text = " ".join(recording_text(recording_report(path, None), TextLayout()).split())
    assert "20 min 00 s on 1 GPU" in text
    assert "1 GPU not counted: used by others alone (ann (pid 7))" in text


def test_what_was_never_written_is_not_told_as_unread(tmp_path: Path) -> None:
    """The watcher was killed before its first batch."""
    path = write_recording(tmp_path / "first.json", 20, False, ended=False)
    path.write_text(path.read_text().splitlines()[0] + "\n")
    text = " ".join(recording_text(recording_report(path, None), TextLayout()).split())
    assert "not written, or lost" in text
    assert "before the command ended" not in text


@pytest.mark.parametrize("name", ["before", "no_gpu"])
def test_no_line_is_wider_than_a_narrow_terminal(judged: Callable[..., RecordingReport], name: str) -> None:
    """Sixty columns; what is to be pasted alone is as long as it is."""
    lines = recording_text(judged(name), TextLayout(60)).splitlines()
    assert [line for line in lines if len(line) > 60 and not line.startswith("next: ")] == []
