"""The pieces of the fleet's page: bars end to end, cells by state, what changed, one node."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.errors import LedgerError
from analyzer.ledger.breakdown import breakdown_lines
from analyzer.queries.ledger_query import Breakdown, fold
from analyzer.reports.findings import findings_report
from analyzer.reports.week import WeekReport, week_report
from analyzer.states import BOOKINGS, CLASSES
from collector.store.database import Store
from collector.store.session import Session
from dashboards.pages.fleet import FleetAsked, changes, classes
from dashboards.pages.grid import Cell, NodeRow, Rack, fleet_grid, natural, node_panel
from dashboards.pages.marks import cost_steps
from tests.analyzer.reports import example_week
from tests.analyzer.reports.example_week import CALENDAR, W46


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """Yield the example week."""
    with Store.open(None) as store, store.session() as opened:
        example_week.fill(opened)
        yield opened


@pytest.fixture(scope="module")
def report(session: Session) -> WeekReport:
    """Return its figures."""
    return week_report(session, W46, CALENDAR, "USD", [], [])


counts = st.lists(st.tuples(st.sampled_from(BOOKINGS), st.integers(1, 10**9)), min_size=1, max_size=40)


@given(counts)
def test_bars_lie_end_to_end(told: list[tuple[object, int]]) -> None:
    """Each state's bar begins where the one above it ended, and the last ends where all that is owned does."""
    breakdown = Breakdown(fold((each.state, each.cause, ms, None) for each, ms in told))  # type: ignore[attr-defined]
    steps = [step for step in cost_steps(breakdown_lines(breakdown)) if step.line.level in ("row", "only")]
    at = 0.0
    for step in steps:
        assert step.start == pytest.approx(at, abs=0.11)
        at = step.start + step.length
    assert at == pytest.approx(1000, abs=0.2)


def test_the_headline_has_the_five_classes_in_their_order(report: WeekReport) -> None:
    """A class without any time is told too: 0 is an answer."""
    assert tuple(klass for klass, *_ in classes(report)) == CLASSES
    useful = replace(report, breakdown=report.breakdown.of("useful"), previous=None)
    assert [(line, length) for _, line, _, length in classes(useful)][1:] == [(None, 0.0)] * 4


def test_every_gpu_has_one_cell_and_the_legend_counts_them(session: Session) -> None:
    """192 GPUs are owned, and 192 are shown."""
    grid = fleet_grid(session, W46)
    cells = [cell for rack in grid.racks for row in rack.nodes for cell in row.cells]
    assert len(cells) == grid.gpus == sum(gpus for _, gpus in grid.legend) == 192
    assert [rack.name for rack in grid.racks] == ["rack-1", "rack-2", "rack-3"]
    order = [CLASSES.index(cell.klass) for cell, _ in grid.legend]
    assert order == sorted(order)


@given(st.lists(st.integers(1, 16), min_size=1, max_size=200))
def test_a_picture_has_every_gpu_once_and_every_node_as_a_link(sizes: list[int]) -> None:
    """Of a large fleet cells are shapes: none lies upon another, and none is left out."""
    cell = Cell("useful", "productive", "", None)
    rack = Rack(None, tuple(NodeRow(f"n{n}", (cell,) * size) for n, size in enumerate(sizes)))
    drawn = [re.findall(r"M(\d+) (\d+)h8", path) for each in rack.pictures for _, path in each.shapes]
    assert all(len(set(places)) == len(places) for places in drawn)
    assert sum(map(len, drawn)) == sum(sizes)
    assert [row.node for each in rack.pictures for row, *_ in each.nodes] == [row.node for row in rack.nodes]
    for each in rack.pictures:
        assert all(x + each.node_width <= each.width and y + 8 <= each.height for _, x, y in each.nodes)


def test_names_are_ordered_as_people_count() -> None:
    """n10 stands after n9, and not after n1."""
    assert sorted(["n10", "n9", "n1", "gpu-2"], key=natural) == ["gpu-2", "n1", "n9", "n10"]


def test_what_changed_is_told_in_money_and_each_row_adds_up(report: WeekReport) -> None:
    """Before, now and the difference are of the same rounded figures."""
    assert report.previous is not None
    told = changes(report, report.previous, findings_report(W46, "USD", [], [], 0))
    assert told["unit"] == "money"
    assert isinstance(told["states"], list)
    assert told["states"]
    assert all(isinstance(before, int) and now != before for _, _, before, now in told["states"])


def test_a_node_is_told_gpu_by_gpu(session: Session) -> None:
    """Whose it was, and what it did; of a node that nobody knows a sentence."""
    panel = node_panel(session, "n14", W46)
    assert (panel.rack, len(panel.gpus)) == ("rack-2", 8)
    assert all(sum(part.length for part in row.bar.parts) == pytest.approx(1000, abs=0.5) for row in panel.gpus)
    assert "llama-sft" in {name for row in panel.gpus for _, name in row.runs}
    with pytest.raises(LedgerError, match="no time of a node 'n99'"):
        node_panel(session, "n99", W46)


def test_the_state_of_the_view_goes_into_its_links() -> None:
    """What one follows keeps the week and leaves out what is not asked for."""
    asked = FleetAsked("2026-W46", None, "n1")
    assert asked.query(node=None) == "?week=2026-W46"
    assert asked.query(at="now") == "?week=2026-W46&at=now&node=n1"
    assert FleetAsked().query() == ""
    assert (FleetAsked().grid_at, asked.grid_at, FleetAsked("2026-W46", "now").grid_at) == ("now", "week", "now")
