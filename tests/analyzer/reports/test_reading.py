"""Readings: one answer, however it is asked for."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from pydantic import ValidationError

from agent.wire.units import HOUR_US
from analyzer.errors import LedgerError
from analyzer.findings.finding import Finding
from analyzer.interfaces.cli.report import report
from analyzer.interfaces.questions.registry import answer
from analyzer.interfaces.text.finding_text import check_words, findings_text
from analyzer.interfaces.text.run_text import LINE_MOST, run_line, run_text
from analyzer.interfaces.text.week_text import status_words
from analyzer.ledger import run_facts as facts_of_runs
from analyzer.ledger.coverage import TimelinePoint
from analyzer.recommendations.advise import LossSource
from analyzer.reports.document import Model
from analyzer.reports.filtered_reader import of_part
from analyzer.reports.reader import Reader
from analyzer.reports.request import LedgerFilter, Request
from analyzer.reports.run_list import list_runs
from analyzer.settings.settings import Settings
from analyzer.text.layout import TextLayout
from analyzer.text.words import span_words, until_words
from collector.store.database import Store
from collector.store.session import Session
from dashboards.server.report_route import ReadAsked
from tests.analyzer.reports import example_week

M = TypeVar("M", bound=Model)
BERLIN = Settings(cluster="alpha", timezone="Europe/Berlin")


def changed(document: M, **fields: object) -> M:
    """Return a document with other values of these fields."""
    return document.model_copy(update=fields)


def example_timeline(_: Session, run_id: str, points: int) -> Sequence[TimelinePoint]:
    """Return a run that works five parts of nine and waits for input four, but for its first and last stretch."""
    step = 70 * HOUR_US // points
    start = example_week.TUESDAY_8
    found: list[TimelinePoint] = []
    for place in range(points):
        edge = place in (0, points - 1)
        found.append(TimelinePoint(start + place * step, "productive", "compute", 1 if edge else 5))
        found.append(TimelinePoint(start + place * step, "starved", "preprocessing", 1 if edge else 4))
        found.append(TimelinePoint(start + place * step, "starting", "warm_up", 9 if edge else 0))
    return found


def example_findings(_: Session, start: int, end: int, run: str | None) -> list[Finding]:
    """Return the example week's findings, or one run's; none of an earlier week."""
    found = example_week.findings() if end > example_week.W46.start else []
    return [finding for finding in found if run is None or run in finding.run_ids]


EXAMPLE = LossSource(
    example_findings,
    lambda _, found, *rest: example_week.recommendations() if found else [],
    example_timeline,
)


@pytest.fixture
def reader(session: Session) -> Reader:
    """Return a reader of the example week and its sixteen findings."""
    return Reader(session, BERLIN, EXAMPLE)


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("run", Request("run", "81234")),
        ("runs", Request("runs", top=6)),
        ("runs_by_loss", Request("runs", order="avoidable", top=3, ascii=True, width=64)),
        ("findings", Request("findings")),
        ("findings_top", Request("findings", top=3, ascii=True, width=64)),
        ("explain", Request("explain", "f-m3p8")),
        ("unjudged", Request("findings", unjudged=True)),
        ("recommend", Request("recommend", top=5)),
        ("show", Request("show", "r-3mx8")),
    ],
)
def test_screens(reader: Reader, golden: Callable[[str, str], None], name: str, request_: Request) -> None:
    """Words and layout are the product's face: every change is read as a diff."""
    text = answer(reader, request_)
    assert max(map(len, text.splitlines())) <= request_.width
    golden(f"report/{name}.txt", text)


def test_the_runs_of_a_period_sum_to_what_was_held(reader: Reader) -> None:
    """A run that is in no line would cost nobody anything, and each order has all of them."""
    week = reader.period(None)
    held = reader.week(week).breakdown.cost_micros or 0
    free = sum(row.breakdown.cost_micros or 0 for row in reader.week(week).teams if not row.held)
    for order in ("cost", "avoidable", "gpus"):
        listed = list_runs(reader.session, week, "USD", order).runs
        assert len({run.run_id for run in listed}) == len(listed)
        assert sum(run.breakdown.cost_micros or 0 for run in listed) == held - free
    names = [run.name for run in list_runs(reader.session, week, "USD", "avoidable").runs]
    assert names[0] == "pretrain-7b"


def test_an_id_of_the_other_kind_and_a_slip_name_what_is_meant(reader: Reader) -> None:
    """One sentence with the command to type, and not "there is no such thing"."""
    with pytest.raises(LedgerError, match="r-3mx8 is a recommendation: gpuledger recommendations show r-3mx8"):
        answer(reader, Request("explain", "r-3mx8"))
    with pytest.raises(LedgerError, match="f-m3p8 is a finding: gpuledger findings explain f-m3p8"):
        answer(reader, Request("show", "f-m3p8"))
    with pytest.raises(LedgerError, match="no run 'pretrian-7b', did you mean pretrain-7b"):
        answer(reader, Request("run", "pretrian-7b"))
    with pytest.raises(LedgerError, match="no run 'zzz'; gpuledger runs lists them"):
        answer(reader, Request("run", "zzz"))


def test_check_says_which_findings_it_fails_for(reader: Reader) -> None:
    """A job that ends with 1 and no word is disabled by whoever has to read its log."""
    found = reader.list_findings(reader.period(None))
    words = check_words(found.alarming)
    high = {finding.id for finding in found.findings if finding.confidence == "high"}
    assert words.startswith("check failed: ")
    assert set(words.rpartition(": ")[2].split(", ")) == high
    assert check_words(()).startswith("check: no finding")


def test_a_suspicion_too_small_for_a_figure_is_no_row_of_zeros(reader: Reader) -> None:
    """0.0 hours beside a cut-off cause told nothing."""
    report = reader.list_findings(reader.period(None))
    one, two = (finding for finding in report.findings if finding.id in ("f-7kq2", "f-8vn4"))
    large = replace(one, id="f-aaaaa", suspicion=True, what="possibly input: loader software")
    small = replace(two, id="f-bbbbb", suspicion=True, milliseconds=1)
    report = replace(report, suspicions=(large, small), everything=True)
    text = findings_text(report, TextLayout(ascii=True))
    assert "  f-aaaaa llama-sft      input: loader software    462.5 GPU-hours" in text
    assert "under 0.05 GPU-hours each: f-bbbbb" in text
    assert not re.search(r"(?<!\d)0\.0(?!\d)", text.partition("SUSPECTED")[2].partition("WORTH")[0])


def test_the_default_is_the_last_complete_week(reader: Reader) -> None:
    """Without a word people mean the week that has just ended."""
    assert reader.period(None).label == "2026-W46"
    assert "week 2026-W46" in answer(reader, Request("week"))


def test_json_has_exact_integers(reader: Reader) -> None:
    """Machines add up what people see rounded."""
    document = json.loads(answer(reader, Request("week", format="json")))
    assert (document["schema"], document["version"]) == ("gpuledger/week", 1)
    entries = document["breakdown"]["entries"]
    assert sum(entry["cost_micros"] for entry in entries) == 67_737_600_000
    assert sum(entry["milliseconds"] for entry in entries) == 32_256 * 3_600_000
    assert sum(f["at_stake_micros"] for f in document["findings"]) == 9_225_660_000


@pytest.mark.parametrize("what", ["week", "run", "findings", "recommend"])
def test_json_fields_are_documented(reader: Reader, what: str) -> None:
    """--json is a promise: a field that nobody documented is a promise that nobody keeps."""
    request = Request(what, "81234" if what == "run" else None, format="json")
    body = json.loads(answer(reader, request))
    documented = Path("docs/json.md").read_text()
    for row in body if isinstance(body, list) else [body]:
        for field in row:
            assert f"`{field}`" in documented, field


def test_html_escapes_every_name(session: Session) -> None:
    """A run's name is its user's text: markup in it must stay text in every reader's browser."""
    evil = [replace(one, subject="<script>alert(1)</script>") for one in example_week.recommendations()]
    loss_source = replace(EXAMPLE, recommendations=lambda *_: evil)
    page = answer(Reader(session, BERLIN, loss_source), Request("week", format="html"))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page.replace('http-equiv="', "")


@pytest.mark.parametrize("text", ["81234", "slurm/alpha/81234", "llama-sft", "/81234"])
def test_a_run_answers_to_any_unique_name(reader: Reader, text: str) -> None:
    """Nobody types a whole id twice."""
    assert reader.run(text).facts.run_id == "slurm/alpha/81234"


def test_an_ambiguous_run_is_not_guessed(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report of the wrong run is worse than none. A list that is cut says so."""
    with pytest.raises(LedgerError, match=r"several runs match '00': ([^,;]+, ){2}[^,; ]+; type more"):
        reader.run("00")
    monkeypatch.setattr(facts_of_runs, "CANDIDATES_SHOWN", 2)
    with pytest.raises(LedgerError, match=r"several runs match '00': [^,;]+, [^,; ]+ and more; type more"):
        reader.run("00")
    with pytest.raises(LedgerError, match="has no run"):
        reader.run("99999")


def test_a_running_run_is_told_so_far(reader: Reader) -> None:
    """The report of a run that still runs says so, and where it is heading."""
    report = reader.run("81234")
    running = changed(
        report,
        facts=changed(report.facts, ended_at=None, exit_status=None),
        limit_at=report.facts.started_at + 100 * HOUR_US if report.facts.started_at else None,
    )
    text = run_text(running, TextLayout())
    assert "still running" in text
    assert "1,128.0 GPU-hours so far" in text
    assert "at its limit, Sat 14 Nov 12:12:" in text
    assert "of what it has lost (P20/P50/P80)" in text
    assert "per week (P20/P50/P80)" not in text, "three days told as a week contradict the list of the fleet"
    ended = run_text(report, TextLayout())
    saves = [line for line in text.splitlines() if "it has lost (P20" in line]
    assert [line.replace("of what it has lost", "each run") for line in saves] == [
        line for line in ended.splitlines() if "each run (P20" in line
    ], "running or ended, the same loss saves the same"


def test_a_run_in_one_line_says_what_it_cost_what_was_lost_and_what_to_change(reader: Reader) -> None:
    """For Slurm's comment and for mails: ASCII, bounded, with no line's end in it; while it runs it says so."""
    report = reader.run("81234")
    line = run_line(report)
    assert line.startswith(
        "1,128.0 GPU-hours, $2,932.80; lost 41.1% ($1,202.50), most to input starvation; to change: "
    )
    assert report.recommendations[0].title.split()[0] in line
    assert line.isascii()
    assert line.isprintable()
    assert len(line) <= LINE_MOST
    assert run_line(changed(report, facts=changed(report.facts, ended_at=None))).endswith("; so far")
    late = changed(report.facts, ended_at=report.span.end + HOUR_US)
    assert run_line(changed(report, facts=late)).endswith("; so far")


def test_a_run_of_more_than_a_week_saves_by_the_week(reader: Reader) -> None:
    """What goes on for long is weighed against what a week costs."""
    report = reader.run("81234")
    span = replace(report.span, start=report.span.end - 8 * 24 * HOUR_US)
    running = changed(report, facts=changed(report.facts, ended_at=None, exit_status=None), period=span)
    assert "per week (P20/P50/P80)" in run_text(running, TextLayout())


def test_a_change_against_two_losses_of_a_run_is_told_once(reader: Reader) -> None:
    """What its clocks lost and what its peers waited end together; the lines to paste stand there once."""
    report = reader.run("81234")
    first = replace(report.findings[0], id="f-again")
    (advice, *_) = [one for one in report.recommendations if report.findings[0].id in one.finding_ids]
    both = replace(advice, finding_ids=(report.findings[0].id, "f-again"))
    text = run_text(changed(report, findings=(report.findings[0], first), recommendations=(both,)), TextLayout())
    assert text.count(f"{advice.id}  TRY: ") == 1


def test_a_run_is_not_told_from_before_the_ledger(reader: Reader) -> None:
    """A service that began before the first hour known is charged with what is known, and says since when."""
    report = reader.run("81234")
    began = report.span.start - 240 * HOUR_US
    facts = changed(report.facts, started_at=began, ended_at=None, exit_status=None, attempts=2)
    text = run_text(changed(report, facts=facts, limit_at=began + 168 * HOUR_US), TextLayout())
    assert "1,128.0 GPU-hours since Tue 10 Nov 08:00" in text
    assert "so far" not in text
    assert "its limit was Sat 7 Nov 08:00, and it still runs" in text
    assert "16 H100-80GB over all attempts" in text


@pytest.mark.parametrize(
    "query",
    [{"what": "weather"}, {"what": "week", "width": "wide"}, {"what": "week", "store": "/etc/passwd"}, {}],
)
def test_bad_requests_are_refused(query: dict[str, str]) -> None:
    """What comes over the network is checked before anything reads it."""
    with pytest.raises(ValidationError):
        ReadAsked.model_validate(query)


def test_a_request_survives_the_network() -> None:
    """--server must answer what --store would."""
    request = Request("findings", since="7d", top=3, ascii=True, everything=True, width=100)
    assert Request(**ReadAsked.model_validate(request.query()).model_dump()) == request


def test_an_unknown_id_says_where_to_look(reader: Reader) -> None:
    """Ids are typed by hand."""
    with pytest.raises(LedgerError, match="gpuledger findings lists them"):
        answer(reader, Request("explain", "f-none"))


def test_an_empty_ledger_is_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The first command on a new site must say what to do next, not fail."""
    Store.open(tmp_path / "s.duckdb").close()
    with pytest.raises(LedgerError, match="the ledger is empty"):
        report(["--store", str(tmp_path / "s.duckdb")])


def test_moments_read_as_people_say_them() -> None:
    """A mute until Wednesday 00:00 was read as one day more than it is."""
    midnight = example_week.W46.start + 48 * HOUR_US
    assert until_words(midnight, "Europe/Berlin") == "the end of Tue 10 Nov"
    assert until_words(midnight + HOUR_US, "Europe/Berlin") == "Wed 11 Nov 01:00"
    assert span_words(midnight, midnight + 5 * HOUR_US, "Europe/Berlin") == "Wed 11 Nov 00:00 - 05:00"
    assert span_words(midnight - HOUR_US, midnight, "Europe/Berlin") == "Tue 10 Nov 23:00 - 24:00"
    assert (
        span_words(midnight - HOUR_US, midnight + 24 * HOUR_US, "Europe/Berlin")
        == "Tue 10 Nov 23:00 - Wed 11 Nov 24:00"
    )


def test_findings_that_read_alike_are_told_apart(reader: Reader) -> None:
    """The notebooks of two teams on one host were two rows of the same words."""
    report = reader.list_findings(reader.period(None))
    first, second = (replace(report.findings[0], id=each, team=f"team-{each}", hosts=("n19",)) for each in "ab")
    lines = findings_text(replace(report, findings=(first, second)), TextLayout()).splitlines()
    below = [lines[place + 1] for place, line in enumerate(lines) if "pretrain-7b" in line]
    assert [line.split()[:2] for line in below] == [["team-a,", "n19,"], ["team-b,", "n19,"]]


def test_the_week_of_a_team_is_as_closed_as_the_fleets(reader: Reader) -> None:
    """Which hours passes came to is no team's: a team read "open" of a week that nobody books any more."""
    with of_part(reader, LedgerFilter(teams=("team-nlp",))) as own:
        week = own.period(None)
        assert status_words(own.week(week)) == status_words(reader.week(week)) == "closed 18 Nov 00:00"
