"""The traffic of many runs: what it comes to is the sum of theirs, and a team sees its own."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.errors import LedgerError
from analyzer.interfaces.questions.registry import answer
from analyzer.measures.traffic.fleet import Whose, fleet_traffic
from analyzer.measures.traffic.matrix import LOCALITIES, ClassBytes, Locality, Matrix
from analyzer.measures.traffic.run_traffic import RunTraffic, Waited
from analyzer.measures.traffic.tariff import Bill
from analyzer.measures.traffic.text import COLUMNS, LABELS
from analyzer.period import Calendar
from analyzer.reports.reader import Reader
from analyzer.reports.request import Request
from analyzer.settings.settings import Settings
from analyzer.text.as_json import plain_data
from tests.analyzer.ledger.fleet import Fleet
from tests.analyzer.measures.traffic_small_runs import END, T, alternating, host, links

WEEK = Calendar("UTC").week(2026, 46)
AMOUNTS = st.dictionaries(st.sampled_from(LOCALITIES), st.integers(1, 10**18))
BORDERS = st.sampled_from(LOCALITIES[4:8])
COSTS = st.none() | st.integers(0, 10**12)


@st.composite
def runs(draw: st.DrawFn) -> RunTraffic:
    """Return the traffic of a run, some of it with a price."""
    classes = tuple(ClassBytes(name, amount, amount // 2) for name, amount in draw(AMOUNTS).items())
    bills = tuple(Bill(border, 10, cost, "list", None) for border, cost in draw(st.lists(st.tuples(BORDERS, COSTS))))
    waited = draw(st.none() | st.builds(Waited, st.integers(0, 10**12), COSTS))
    link = draw(st.none() | st.integers(0, 10**18))
    return RunTraffic("", (), classes, (), None, link, link, bills, waited, (), (), Matrix((), ()))


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(runs(), st.none() | st.sampled_from(("red", "blue")))))
def test_the_whole_is_the_sum_of_teams_and_runs(known: dict[str, tuple[RunTraffic, str | None]]) -> None:
    """A byte is in one class of one run of one team; money that is unknown makes none up."""
    found = {run_id: run for run_id, (run, _) in known.items()}
    whose = {run_id: Whose(None, team) for run_id, (_, team) in known.items()}
    report = fleet_traffic(WEEK, "USD", None, found, whose)
    for name in LOCALITIES:
        by_run = sum(one.bytes for run in found.values() for one in run.classes if one.locality == name)
        assert by_run == sum(one.bytes for one in report.classes if one.locality == name)
        assert by_run == sum(one.bytes for team in report.teams for one in team.classes if one.locality == name)
    assert sum(bill.bytes for bill in report.bills) == sum(bill.bytes for run in found.values() for bill in run.bills)
    priced = sum(bill.cost_micros or 0 for run in found.values() for bill in run.bills)
    assert sum(bill.cost_micros or 0 for bill in report.bills) == priced
    unknown = [run.waited for run in found.values() if run.waited and run.waited.cost_micros is None]
    assert not unknown or (report.waited is not None and report.waited.cost_micros is None)
    assert plain_data(report)["runs"] == len(found)


def test_every_distance_has_its_column_and_its_name() -> None:
    """A class that no column takes would be missing from the teams' table without a word."""
    columns: list[Locality] = [kind for _, kinds in COLUMNS for kind in kinds]
    assert columns == list(LOCALITIES)
    assert set(LOCALITIES) == set(LABELS)


@pytest.fixture
def reader() -> Reader:
    """Return a reader of two runs: one whose ranks alternate between racks, one on a host of its own."""
    fleet = alternating(fleet=Fleet())
    fleet.hold("slurm/alpha/2", "n9", host(fleet, "n9", "rack-9"), T, END, name="alone")
    links(fleet, "n9", "ethernet", 30_000_000, 10_000_000)
    fleet.analyze()
    return Reader(fleet.store.session(), Settings(cluster="alpha", timezone="UTC"))


def test_the_fleet_s_traffic_reads_as_it_was_drawn(reader: Reader, golden: Callable[[str, str], None]) -> None:
    """How far, by whom, and which run to look at."""
    with reader.session:
        golden("report/fleet_traffic.txt", answer(reader, Request("traffic", since="2025-11-10")))


def test_a_team_that_nobody_is_of_is_refused(reader: Reader) -> None:
    """An empty table would say that the team moved nothing."""
    with reader.session, pytest.raises(LedgerError, match=r"has no runs of team 'tiem-nlp'"):
        answer(reader, Request("traffic", "tiem-nlp", since="2025-11-10"))
