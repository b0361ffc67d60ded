"""What ends somebody's work stands on that run's own clock, names what may be lost, and is a question to its owner."""

import ast
import html
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.questions.registry import answer
from analyzer.interfaces.text.sentences import first_sentence
from analyzer.period import Calendar, Period
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.reader import Reader
from analyzer.reports.recommendation_words import FREE, cost_short
from analyzer.reports.request import Request
from analyzer.reports.week import WeekReport, week_report
from analyzer.settings.settings import Settings
from tests.analyzer.ledger.copies import made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet
from tests.analyzer.recommendations.valid import unnamed_endings
from tests.analyzer.small_site import IDLE, small_site

WEEK = Calendar().week_of(MONDAY)
RUN = "slurm/alpha/1"
ROOT = Path(__file__).parents[3]
# What ends a run, a job, a session, a pod or a process, or says that it should be ended.
ENDING = re.compile(
    r"\bscancel\b|kubectl.*\bdelete\b|\bdelete (it|the Job)\b|activeDeadlineSeconds|\btime=|requeuehold|gpu-reset"
    r"|-mig 1|--replicas|\bautoscale\b|\b(kill|preempt|evict|reclaim|terminate|cancel)\b"
    r"|\b(end|stop)s? (the|a|its|their|this|that) (runs?|jobs?|sessions?|pods?|process)\b",
    re.IGNORECASE,
)
# Where such words may be made: each is held by `sound` (sites.py), or says of nobody's work to end it.
SAY_SO = {
    "analyzer/interfaces/mail/compose.py": "what a mail leaves out",
    "agent/wire/serving.py": "the reason with which Triton counts requests that were given up",
    "analyzer/capacity/quotas.py": "reads what preempts and reclaims by the site's own rules, and asks nobody to do it",
    "analyzer/interfaces/questions/ledger_questions.py": "the head of the column of quotas that says so",
    "analyzer/recommendations/artefacts.py": "of those who ask; cuts a GPU on which nothing runs",
    "analyzer/recommendations/types/hardware.py": "resets a GPU of a host on which nothing runs",
    "analyzer/recommendations/types/serving.py": "fewer replicas",
    "analyzer/recommendations/changes.toml [lines.replicas_by_load]": "fewer replicas",
    "analyzer/recommendations/changes.toml [lines.time_limit]": "release, and its limits",
    "analyzer/recommendations/changes.toml [lines.trial]": "the limit of a trial that is thrown away",
    "analyzer/recommendations/changes.toml [lines.trial_on_slice]": "the limit of a trial that is thrown away",
    "collector/schedulers/kubernetes/resources.py": "reads a Job's limit",
}


def says_of_ending() -> Iterator[tuple[str, str]]:
    """Yield each text of the product that may say so, with its file: constants of programs, and rules for alerts."""
    for folder in ("agent", "collector", "analyzer", "dashboards"):
        for path in (ROOT / folder).rglob("*.py"):
            if not ENDING.search(text := path.read_text("utf-8")):  # parsing all of them takes long
                continue
            tree = ast.parse(text)
            told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
                    yield str(path.relative_to(ROOT)), node.value
    for path in (ROOT / "dashboards" / "prometheus").glob("*.yml"):
        yield str(path.relative_to(ROOT)), path.read_text("utf-8")
    yield from rows_of_tables()
    for path in (ROOT / "analyzer").rglob("*.sql"):
        yield str(path.relative_to(ROOT)), re.sub(r"--.*", "", path.read_text("utf-8"))


def rows_of_tables() -> Iterator[tuple[str, str]]:
    """Yield each row of the analyzer's tables of words, with its file and name."""
    for path in (ROOT / "analyzer").rglob("*.toml"):
        for table, value in tomllib.loads(path.read_text("utf-8")).items():
            rows = value if isinstance(value, dict) else {"": value}
            for name, row in rows.items():
                yield f"{path.relative_to(ROOT)} [{table}.{name}]", str(row)


@made_once
def site(*, works_again: bool) -> Fleet:
    """Return a site on which a run that still holds two GPUs idled for eight hours, and perhaps works again."""
    fleet = Fleet()
    gpus = ["G0", "G1"]
    fleet.own("n1", gpus)
    fleet.hold(RUN, "n1", gpus, MONDAY, name="debug-asr")
    for gpu in gpus:
        fleet.sample("n1", gpu, MONDAY, MONDAY + 16 * HOUR, every=5 * MINUTE)
        fleet.sample("n1", gpu, MONDAY + 16 * HOUR, MONDAY + DAY, every=5 * MINUTE, memory_used_bytes=10**10, **IDLE)
        if works_again:
            fleet.sample("n1", gpu, MONDAY + DAY, MONDAY + DAY + 2 * HOUR, every=5 * MINUTE)
    fleet.analyze(now=MONDAY + 2 * DAY)
    return fleet


def advised(fleet: Fleet, period: Period = WEEK) -> tuple[list[Recommendation], WeekReport]:
    """Return what is recommended, and the report of it."""
    with fleet.store.session() as session:
        reader = Reader(session, Settings())
        found = reader.findings(period)
        advice = reader.advice(found, period)
        return advice, week_report(session, period, Calendar(), "USD", found, advice)


def test_a_run_that_works_again_is_not_ended() -> None:
    """Its idle hours are lost and told; a line that ends it would end what it does now."""
    (one,) = [each for each in advised(site(works_again=True))[0] if each.kind == "release"]
    assert "scancel" not in one.artefact
    monday = Period(MONDAY, MONDAY + DAY, "Monday", "UTC")
    (earlier,) = [each for each in advised(site(works_again=True), monday)[0] if each.kind == "release"]
    assert "scancel" not in earlier.artefact, "read of Monday, when it idled, it must know of Tuesday"


def test_what_idles_now_is_a_question_to_its_owner() -> None:
    """Eight hours by the clock; what it has in memory is its owner's, and nobody calls that free."""
    advice, report = advised(site(works_again=False))
    (one,) = [each for each in advice if each.kind == "release"]
    assert one.ends_work
    assert one.title.startswith("ask its owner to release 2 GPUs, idle for 8 h")
    assert "unsaved" in one.cost_to_move
    assert "scancel 1" in one.artefact
    assert one.artefact.startswith("# once its owner agrees: debug-asr idles for 8 h")
    assert one.cost_to_move_micros is None
    assert cost_short(one, "USD") != FREE
    told = first_sentence(report)
    assert "costs nothing" not in told
    assert one.id not in told, "the headline ends nobody's work"
    mail = compose(report).actions
    assert mail is not None
    (asked,) = [each for each in mail.rows if each.id == one.id]
    assert "still needed?" in asked.title
    assert not any("scancel" in line for line in asked.how)
    assert "unsaved" in asked.how[0]


def test_nobody_else_says_that_work_be_ended() -> None:
    """A sentence of a notice, a page or an alert that says so would be advice that nothing holds to anything."""
    places = {place for place, text in says_of_ending() if ENDING.search(text)}
    assert places == set(SAY_SO)


def everywhere(fleet: Fleet) -> Iterator[tuple[str, str]]:
    """Yield what each reading says of a fleet in each form, with its name."""
    with fleet.store.session() as session:
        reader = Reader(session, Settings())
        found = reader.findings(WEEK)
        known = reader.all_advice(found, WEEK)
        of_ending = [one for one in known if one.ends_work]
        of_slurm = [one.id for one in of_ending if any(each.form == "slurm" for each in one.artefacts)]
        runs = [run_id for (run_id,) in session.rows("SELECT run_id FROM runs ORDER BY 1")]
        since = WEEK.label
        asked = [Request(what, format=form, since=since) for what in ("week", "findings") for form in ("text", "json")]
        asked += [Request("recommend", format=form, since=since) for form in ("text", "json", "markdown")]
        asked += [Request("show", one.id, since=since) for one in of_ending]
        asked += [Request("show", id_, format="slurm", since=since) for id_ in of_slurm]
        asked += [Request("explain", one.id, since=since) for one in found if one.state == "held_idle"]
        asked += [Request("run", run_id) for run_id in runs if "quiet" in run_id or "abandoned" in run_id]
        for request in asked:
            yield f"{request.what} {request.subject} {request.format}", answer(reader, request)
        mail = compose(week_report(session, WEEK, Calendar(), "USD", found, reader.advice(found, WEEK)))
        yield "mail", repr(mail)


def test_wherever_a_line_ends_work_it_says_what_is_lost() -> None:
    """On no surface stands the line alone, and in a mail it does not stand at all."""
    fleet = small_site()
    for number in range(2):
        node, gpu = f"q{number}", f"q{number}g0"
        fleet.own(node, [gpu])
        fleet.hold(f"slurm/alpha/quiet-{number}", node, [gpu], MONDAY, name="quiet")
        fleet.sample(node, gpu, MONDAY, MONDAY + 4 * HOUR, every=5 * MINUTE)
        fleet.sample(node, gpu, MONDAY + 4 * HOUR, MONDAY + DAY, every=5 * MINUTE, **IDLE)
    fleet.analyze(now=MONDAY + 2 * DAY)
    ending = set()
    for name, text in everywhere(fleet):
        lines = html.unescape(text).replace("\\n", "\n")
        bare = "\n".join(line.strip().strip('"') for line in lines.splitlines())
        assert not unnamed_endings(bare), (name, unnamed_endings(bare))
        if "scancel" in bare:
            ending.add(f"{name.split()[0]} {name.split()[-1]}")
    assert {"show text", "show slurm", "run text", "recommend json"} <= ending
    assert not ending & {"mail mail", "week text", "findings text"}


@pytest.mark.parametrize("works_again", [True, False])
def test_no_headline_ends_work(works_again: bool) -> None:
    """Of the week the first sentence and the best step, of a profile the line to paste."""
    advice, report = advised(site(works_again=works_again))
    of_ending = {one.id for one in advice if one.ends_work}
    assert of_ending
    assert not any(id_ in first_sentence(report) for id_ in of_ending)
