"""What nobody measured is told as that: in no headline, share or comparison is it nothing, zero or an improvement."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from analyzer.errors import LedgerError
from analyzer.interfaces.mail.compose import compose
from analyzer.interfaces.questions.registry import answer
from analyzer.interfaces.text.compare_text import largest_move
from analyzer.interfaces.text.sentences import first_sentence
from analyzer.period import Calendar
from analyzer.queries.generation import ByGeneration, Generations
from analyzer.queries.ledger_query import Breakdown, fold
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.reports.week import WeekReport, group_lines, week_report
from analyzer.settings.settings import Settings
from tests.analyzer.interfaces.api_sites import site
from tests.analyzer.ledger.copies import made_once
from tests.analyzer.ledger.fleet import DAY, HOUR, MONDAY, Fleet

WEEK = Calendar().week_of(MONDAY)
H = 3_600_000


@made_once
def silent_fleet() -> Fleet:
    """Return a site as an imported job history makes it: runs that held GPUs, and not one sample."""
    fleet = Fleet()
    for number in range(48):
        node = f"n{number:02}"
        fleet.own(node, [f"{node}g0"])
        fleet.hold(f"slurm/alpha/{number}", node, [f"{node}g0"], MONDAY, MONDAY + 6 * HOUR, name="train", account="nlp")
    fleet.analyze(now=MONDAY + DAY)
    return fleet


@pytest.fixture(scope="module")
def silent() -> Fleet:
    """That site, analysed."""
    return silent_fleet()


def week_of(fleet: Fleet) -> WeekReport:
    """Return its week, without what is recommended."""
    with fleet.store.session() as session:
        found = Reader(session, Settings()).findings(WEEK)
        return week_report(session, WEEK, Calendar(), "USD", found, ())


def test_a_week_of_which_nothing_was_measured_is_not_well(silent: Fleet) -> None:
    """Nothing was looked at: nothing avoidable was found is what a director would read as all well."""
    told = first_sentence(week_of(silent))
    assert "Nothing avoidable" not in told
    assert told.startswith("Nothing was measured")
    content = compose(week_of(silent))
    assert not content.is_all_clear
    assert "useful 0" not in content.subject
    assert "nothing measured" in content.subject


def test_a_team_of_which_nothing_was_measured_has_no_share(silent: Fleet) -> None:
    """0.0% useful is an accusation, and 0 avoidable a praise: neither is known."""
    report = week_of(silent)
    rows = [line for line in group_lines(report, report.by_team) if line.level == "row"]
    assert {(line.useful, line.avoidable) for line in rows if line.hours != "0"} == {("-", "-")}


def test_a_part_that_was_measured_is_told_as_that() -> None:
    """Of the ninth that somebody measured nothing is avoidable; of the rest nobody knows."""
    fleet = Fleet()
    fleet.own("n1", ["G0"])
    fleet.own("n2", ["G1"])
    fleet.hold("slurm/alpha/1", "n1", ["G0"], MONDAY, MONDAY + HOUR)
    fleet.hold("slurm/alpha/2", "n2", ["G1"], MONDAY, MONDAY + 8 * HOUR)
    fleet.sample("n1", "G0", MONDAY, MONDAY + HOUR)
    fleet.analyze(now=MONDAY + DAY)
    told = first_sentence(week_of(fleet))
    assert "of held GPU-hours that were measured" in told, told
    assert "Nothing avoidable was found in the 11.1" in told, told


def told_as(**milliseconds: int) -> Breakdown:
    """Return a breakdown of these states."""
    causes = {"starved": "storage", "unobserved": "gap", "productive": "compute"}
    return Breakdown(fold((state, causes[state], ms, None) for state, ms in milliseconds.items()))


def test_what_was_not_measured_has_not_fallen() -> None:
    """After the change the agent was down: input starvation is not known, and a fall of it is a success for nobody."""
    before, after = told_as(starved=20 * H, productive=80 * H), told_as(unobserved=100 * H)
    told = largest_move(before, after)
    assert "fell" not in told
    assert told == "Nothing was measured after: where the time went cannot be compared."
    half = largest_move(before, told_as(starved=10 * H, productive=40 * H, unobserved=50 * H))
    assert "stayed" in half, "a fifth of what was measured, then as now"
    assert "was not" in half
    assert "50.0" in half
    assert largest_move(before, told_as(starved=10 * H, productive=90 * H)).endswith("to 10.0%.")


def test_a_headline_over_a_gap_says_how_large_it_is() -> None:
    """A tenth avoidable reads otherwise where half of the week was not looked at."""
    fleet = Fleet()
    for number, node in enumerate(("n1", "n2")):
        fleet.own(node, [f"G{number}"])
        fleet.hold(f"slurm/alpha/{number}", node, [f"G{number}"], MONDAY, MONDAY + 8 * HOUR)
    fleet.sample("n1", "G0", MONDAY, MONDAY + 4 * HOUR)
    idle: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}
    fleet.sample("n1", "G0", MONDAY + 4 * HOUR, MONDAY + 8 * HOUR, **idle)
    fleet.analyze(now=MONDAY + DAY)
    told = first_sentence(week_of(fleet))
    assert "avoidable" in told
    assert "50.0% of held GPU-hours was not measured" in told, told


def test_a_busy_gpu_that_nobody_held_is_not_spare_without_a_word() -> None:
    """Samples without allocations: it is booked as free, and worked. Nobody may hand it back as spare."""
    fleet = Fleet()
    for number, busy in enumerate((0.83, 0.0)):
        fleet.own(f"n{number}", [f"G{number}"])
        busy_at: dict[str, Any] = {
            "utilization_ratio": busy,
            "utilization_zero_ratio": 1 - busy,
            "sm_active_ratio": busy,
        }
        fleet.sample(f"n{number}", f"G{number}", MONDAY, MONDAY + 8 * HOUR, **busy_at)
    fleet.analyze(now=MONDAY + DAY)
    told = first_sentence(week_of(fleet))
    assert "50.0% of the unallocated GPU-hours were busy (83% on average), and nobody reported who held them" in told
    with fleet.store.session() as session:
        session.execute("UPDATE activity_amounts SET active_permille_ms = 0")
    assert "at work" not in first_sentence(week_of(fleet))


def test_shorter_runs_are_compared_and_not_called_cheaper_work() -> None:
    """Two runs that say nothing of their work: the second took half the time, and may have done half of it."""
    fleet = Fleet()
    fleet.own("n1", ["G0"])
    for number, hours in enumerate((4, 2)):
        begin = MONDAY + number * 6 * HOUR
        fleet.hold(f"slurm/alpha/{number}", "n1", ["G0"], begin, begin + hours * HOUR, exit_status="completed")
        fleet.sample("n1", "G0", begin, begin + hours * HOUR)
    fleet.analyze(now=MONDAY + DAY)
    with fleet.store.session() as session:
        told = " ".join(answer(Reader(session, Settings()), Request("compare", "0", other="1")).split())
    assert "A completed run takes GPU time: 50.0% less than before." in told
    assert "How much work either did is not known: it may be less work." in told


@made_once
def unheld_fleet() -> Fleet:
    """Return samples without allocations: two GPUs at work, and nobody told of a run."""
    fleet = Fleet()
    for number, busy in enumerate((0.83, 0.4)):
        fleet.own(f"n{number}", [f"G{number}"])
        share: dict[str, Any] = {"utilization_ratio": busy, "utilization_zero_ratio": 1 - busy, "sm_active_ratio": busy}
        fleet.sample(f"n{number}", f"G{number}", MONDAY, MONDAY + 8 * HOUR, **share)
    fleet.analyze(now=MONDAY + DAY)
    return fleet


@made_once
def half_fleet(*, is_without_sm: bool = False) -> Fleet:
    """Return two runs of which the agents of one told nothing; or both measured, but for the activity of their SMs."""
    values = NO_SM if is_without_sm else {}
    fleet = Fleet()
    for number in range(2):
        fleet.own(f"n{number}", [f"G{number}"])
        held = (f"slurm/alpha/{number}", f"n{number}", [f"G{number}"], MONDAY, MONDAY + 8 * HOUR)
        fleet.hold(*held, name="train", exit_status="completed")
        if values or number == 0:
            fleet.sample(f"n{number}", f"G{number}", MONDAY, MONDAY + 8 * HOUR, **values)
    fleet.analyze(now=MONDAY + DAY)
    return fleet


NO_SM: dict[str, Any] = {
    **dict.fromkeys(("sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio")),
    "utilization_ratio": 0.9,
    "utilization_zero_ratio": 0.1,
}
OF_PERIODS: tuple[str, ...] = (
    "week",
    "findings",
    "recommend",
    "traffic",
    "units",
    "anomalies",
    "demand",
    "portfolio",
    "charges",
    "costs",
)


PAGES = ("/", "/money", "/placement", "/recommendations", "/runs/slurm/alpha/0", "/health")
API = ("costs?by=team", "costs?by=run", "findings", "recommendations", "runs", "doctor", "read?what=units&width=100")


@dataclass(frozen=True)
class Shown:
    """What a server says of a store: its pages in words and its API, and how much of two lists was looked at."""

    text: str
    measured: list[dict[str, int]]


@cache
def shown(make: Callable[[], Fleet]) -> Shown:
    """Return what the pages of that week say, and what the API does."""
    with TemporaryDirectory() as folder, site(Path(folder), make(), MONDAY + DAY) as here:
        told = []
        for path in (*PAGES, *(f"/v1/{one}" for one in API)):
            joint = "&" if "?" in path else "?"
            where = path if path in ("/health", "/v1/doctor") else f"{path}{joint}{_named(path)}={WEEK.label}"
            answer = here.get(where)
            if answer.status_code == 404:
                continue
            assert answer.status_code == 200, (where, answer.text[:300])
            text = (
                answer.text
                if path.startswith("/v1/")
                else re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", answer.text, flags=re.DOTALL)
            )
            told.append(f"[{path}] " + " ".join(unescape(text).split()))
        lists = [here.json(f"/v1/{path}?since={WEEK.label}")["measured"] for path in ("findings", "recommendations")]
        return Shown("\n".join(told).replace("\u00a0", " "), lists)


def _named(path: str) -> str:
    return "since" if path.startswith("/v1/") else "week"


def everything(fleet: Fleet) -> str:
    """Return what every reading of that week says, and its mail with what is attached."""
    with fleet.store.session() as session:
        kept = ByGeneration(
            Generations(Settings(), lambda: MONDAY + DAY)
        )  # as a server's: what is advised is made once
        reader = Reader(session, Settings(), kept=kept, clock=lambda: MONDAY + DAY)
        asked = [Request(what, since=WEEK.label) for what in OF_PERIODS]
        asked += [Request("month", since="2025-11"), Request("budgets"), Request("savings"), Request("top")]
        if reader.session.row("SELECT count(*) FROM runs")[0]:
            asked += [Request("run", "0"), Request("compare", "0", other="1")]
        told = [" ".join(answer(reader, request).split()) for request in asked]
        return "\n".join([*told, repr(compose(reader.week(WEEK)))]).replace("\u00a0", " ").replace("\\xa0", " ")


@pytest.mark.parametrize(
    ("make", "never", "told"),
    [
        (
            silent_fleet,
            (
                "Nothing avoidable", "useful 0", "avoidable 0", r"total [\d.,]+ 0\.0", r"cost \$0\.00",
                "No lasting change", "No GPU was requested", "0.0% less", "none seen", "reached",
                r"2025-W46,unmapped,\d+,USD,,0,,0,", "all clear",
            ),
            ("Nothing was measured of what runs held", "2025-W46,unmapped,288,USD,,,,,", "useful -"),
        ),
        (
            unheld_fleet,
            ("Nothing avoidable", "useful 0%", "avoidable 0 GPU", "o GPU was held", r"cost \$0\.00", "all clear"),
            ("No run is known to have held a GPU", "GPU-hours were busy", "no runs known", "value='unknown'"),
        ),
        (
            lambda: half_fleet(is_without_sm=True),
            (r"Nothing avoidable was found\.(?! ?insufficient data)", "SM activity 90", "all clear"),
            ("; insufficient data for underutilized (2 runs or hosts), input starvation (2 runs or hosts).",),
        ),
        (
            half_fleet,
            (
                r"useful 100\.0% of its time", "none seen", r"\d%\s+reached", "-8.000", "all clear",
                r"Nothing avoidable was found[.;]",
            ),
            ("productive 8.000 - -", "useful 100.0% of what was measured of its time", "as much GPU time as before"),
        ),
    ],
    ids=["imported history", "no allocations", "no SM activity", "half a week"],
)  # fmt: skip
def test_no_reading_tells_what_was_not_read_as_nothing(
    make: Any, never: tuple[str, ...], told: tuple[str, ...]
) -> None:
    """Whole stores of which something is missing, read by every command: none says zero, none, nothing or agreed."""
    text = everything(make())
    for pattern in never:
        assert not re.search(pattern, text), (pattern, text[max(0, re.search(pattern, text).start() - 200) :][:300])  # type: ignore[union-attr]
    for words in told:
        assert words in text, words


@pytest.mark.parametrize(
    ("make", "never", "told"),
    [
        (
            silent_fleet,
            ("Nothing is recommended", r"No issues\.", r"\$0\.00 was avoidable"),
            (
                "and nothing was measured.",
                "Nothing was measured of what runs held: what to change is not known.",
                "whether agents and hosts have issues is not known",
            ),
        ),
        (
            unheld_fleet,
            ("Nothing is recommended for", r"No issues\."),
            ("Nothing is recommended: no run is known to have held a GPU.",),
        ),
        (
            lambda: half_fleet(is_without_sm=True),
            (r"was avoidable \(0\.0%\)\.", r"Nothing is recommended\."),
            ("insufficient data for",),
        ),
        (
            half_fleet,
            (r"was avoidable \(0\.0%\)\.", r"Nothing is recommended\."),
            ("50.0% of the time was not measured", "recommended, of the 50.0% of held GPU-hours that were measured"),
        ),
    ],
    ids=["imported history", "no allocations", "no SM activity", "half a week"],
)  # fmt: skip
def test_no_page_tells_what_was_not_read_as_nothing(make: Any, never: tuple[str, ...], told: tuple[str, ...]) -> None:
    """The same stores on the pages of a server, and what its API says of them."""
    text = shown(make).text
    for pattern in never:
        assert not re.search(pattern, text), pattern
    for words in told:
        assert words in text, words


@pytest.mark.parametrize(("make", "share"), [(silent_fleet, 1.0), (half_fleet, 0.5)], ids=["nothing", "half"])
def test_an_empty_list_says_how_much_was_looked_at(make: Any, share: float) -> None:
    """`items: []` reads as well where nobody has measured anything; a program has no headline to go by."""
    findings, recommendations = shown(make).measured
    for measured in (findings, recommendations):
        assert measured["not_measured_milliseconds"] == share * measured["held_milliseconds"] > 0


def test_an_empty_store_says_that_it_is_empty() -> None:
    """No figure of a ledger without an hour is one."""
    fleet = Fleet()
    fleet.analyze(now=MONDAY + DAY)
    with fleet.store.session() as session:
        reader = Reader(session, Settings(), clock=lambda: MONDAY + DAY)
        more: tuple[str, ...] = ("month", "budgets", "top")
        for what in (*OF_PERIODS, *more):
            with pytest.raises(LedgerError, match="the ledger is empty"):
                answer(reader, Request(what))
