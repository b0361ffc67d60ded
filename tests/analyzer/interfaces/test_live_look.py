"""The fleet now: everything booked in the hour is on the screen once, and the columns add up."""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.units import HOUR_MS
from analyzer.errors import LedgerError
from analyzer.interfaces.live.live_view import (
    DriverFigures,
    LiveLine,
    LiveView,
    booked_until,
    look_text,
    read_live_view,
)
from analyzer.queries.ledger_query import Breakdown, fold
from analyzer.reports.request import Order
from analyzer.text.layout import TextLayout
from collector.store.database import Store
from tests.analyzer.finops.focus_books import HOUR, MINUTE_MS, NOVEMBER, SECOND, Books

TEN_MINUTES = 600 * SECOND
NO_FIGURES = DriverFigures(None, None, None, None, None)


@pytest.fixture(scope="module")
def books() -> Iterator[Books]:
    """Yield two hosts: a run over both that trains, one that sleeps, and a GPU that nobody holds."""
    made = Books()
    made.run("slurm/alpha/80217", "team-nlp", "pretrain-7b")
    made.run("slurm/alpha/81377", "team-speech", "debug-asr")
    working, waits = HOUR_MS * 9 // 10, HOUR_MS // 10
    for gpu, node in (("GPU-1", "n1"), ("GPU-2", "n1"), ("GPU-3", "n2")):
        parts = [
            ("slurm/alpha/80217", "productive", "compute", working),
            ("slurm/alpha/80217", "starved", "storage", waits),
        ]
        made.gpu_hour(parts, gpu=gpu, node=node)
    made.gpu_hour([("slurm/alpha/81377", "held_idle", "abandoned", HOUR_MS)], gpu="GPU-4", node="n2")
    made.gpu_hour([(None, "unallocated", "free", HOUR_MS)], gpu="GPU-5", node="n2", price=1_100_000)
    with made.session() as session:
        rows = [
            (run, NOVEMBER + place * TEN_MINUTES, state, cause, 600_000)
            for run, state, cause in (
                ("slurm/alpha/80217", "productive", "compute"), ("slurm/alpha/81377", "held_idle", "abandoned")
            )
            for place in range(1, 6)
        ]  # fmt: skip
        session.load("run_timeline", ("run_id", "bucket_start", "state", "cause", "milliseconds"), rows)
        end = NOVEMBER + HOUR
        columns = (
            "node", "started_at", "ended_at", "gpu_uuid", "utilization_ratio", "sm_active_ratio", "memory_used_bytes",
            "power_watts", "temperature_celsius", "batch",
        )  # fmt: skip
        samples = [
            ("n1", end - 60 * SECOND, end - 30 * SECOND, "GPU-1", 1.0, 0.80, 40 * 2**30, 600.0, 60.0, 1),
            ("n1", end - 30 * SECOND, end, "GPU-2", 1.0, 0.60, 60 * 2**30, 500.0, 71.0, 1),
            ("n2", end - 30 * SECOND, end, "GPU-4", 0.0, None, None, 90.0, 35.0, 1),
            ("n2", end - 600 * SECOND, end - 570 * SECOND, "GPU-3", 0.5, 0.5, None, 90.0, 35.0, 1),
        ]
        session.load("gpu_samples", columns, samples)
        known = [(node, end, end, f"GPU-{number}", number - 1, 80 * 2**30, 1) for number, node in enumerate(
            ("n1", "n1", "n2", "n2", "n2"), 1)]  # fmt: skip
        session.load(
            "inventory", ("node", "started_at", "ended_at", "gpu_uuid", "gpu_index", "memory_bytes", "batch"), known
        )
    yield made
    made.store.close()


def looked(books: Books, node: str | None = None) -> LiveView:
    """Look once."""
    with books.session() as session:
        return read_live_view(session, "USD", "UTC", node)


@pytest.mark.parametrize(
    ("name", "node", "width"), [("fleet", None, 80), ("fleet_wide", None, 110), ("host", "n2", 80)]
)
def test_the_screen(books: Books, golden: Callable[[str, str], None], name: str, node: str | None, width: int) -> None:
    """Words and layout are read as a diff; no line is wider than the paper."""
    text = look_text(looked(books, node), TextLayout(width))
    assert max(map(len, text.splitlines())) <= width
    golden(f"live/{name}.txt", text)


def test_figures_are_of_the_last_minutes_and_unknown_where_nobody_told_them(books: Books) -> None:
    """A reading of ten minutes ago is not what the GPU does now, and no reading is not zero."""
    by_name = {line.name: line for line in looked(books).lines}
    training, idle, free = by_name["pretrain-7b"].figures, by_name["debug-asr"].figures, by_name["unallocated"].figures
    assert training.busy_ratio == pytest.approx(0.7)
    assert training.memory_ratio == pytest.approx(100 / 160)
    assert training.temperature_celsius == 71.0
    assert (idle.busy_ratio, idle.memory_ratio) == (0.0, None)
    assert (free.busy_ratio, free.power_watts) == (None, None)


def test_a_trend_has_a_gap_where_the_run_held_nothing(books: Books) -> None:
    """A run that began ten minutes ago did not waste the hour before."""
    trends = {line.name: line.trend for line in looked(books).lines}
    assert trends["pretrain-7b"] == (None, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert trends["debug-asr"] == (None, 0.0, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("order", "first"),
    [("cost", "pretrain-7b"), ("avoidable", "debug-asr"), ("gpus", "pretrain-7b"), ("busy", "debug-asr")],
)
def test_the_order_that_is_asked_for_decides_which_line_is_first(books: Books, order: Order, first: str) -> None:
    """Who looks for waste must find it on top, whatever it costs."""
    table = look_text(looked(books), TextLayout(), 1, order).partition("HELD BY")[2].splitlines()[1:]
    assert table[0].startswith(first)
    assert table[-1].strip() == "and 2 more lines"


def test_an_hour_that_has_just_begun_is_not_shown_yet() -> None:
    """One minute of an hour would make every pace a guess."""
    books = Books()
    books.run("slurm/alpha/1")
    for hour, ms in ((NOVEMBER, HOUR_MS), (NOVEMBER + HOUR, 9 * MINUTE_MS)):
        books.gpu_hour([("slurm/alpha/1", "productive", "compute", ms)], hour=hour)
    books.reached(NOVEMBER + HOUR + 540 * SECOND)
    assert looked(books).start == NOVEMBER
    books.gpu_hour([("slurm/alpha/1", "productive", "compute", 2 * MINUTE_MS)], hour=NOVEMBER + HOUR)
    books.reached(NOVEMBER + HOUR + 660 * SECOND)
    found = looked(books)
    assert (found.start, found.window_ms) == (NOVEMBER + HOUR, 11 * MINUTE_MS)
    assert "$2.60 per hour" in look_text(found, TextLayout())


def test_an_hour_whose_first_gpu_came_late_ends_when_passes_came_to_its_end() -> None:
    """A GPU that is first seen at half past has twelve minutes behind it at 42 past, not at twelve past."""
    books = Books()
    books.run("slurm/alpha/1")
    books.gpu_hour([("slurm/alpha/1", "productive", "compute", 12 * MINUTE_MS)])
    books.reached(NOVEMBER + 42 * 60 * SECOND)
    with books.session() as session:
        assert booked_until(session) == NOVEMBER + 42 * 60 * SECOND
    found = looked(books)
    assert (found.start, found.end) == (NOVEMBER + 30 * 60 * SECOND, NOVEMBER + 42 * 60 * SECOND)
    assert "$2.60 per hour" in look_text(found, TextLayout())


def test_what_has_no_price_has_no_pace() -> None:
    """Half a price would read as the price of all."""
    books = Books()
    books.run("slurm/alpha/1")
    books.gpu_hour([("slurm/alpha/1", "productive", "compute", HOUR_MS)])
    books.gpu_hour([("slurm/alpha/1", "productive", "compute", HOUR_MS)], gpu="GPU-2", price=None)
    books.gpu_hour([(None, "unallocated", "free", HOUR_MS)], gpu="GPU-3")
    text = look_text(looked(books), TextLayout())
    assert "per hour" not in text
    run, free = text.splitlines()[-2:]
    assert (run.split()[-2], free.split()[-2]) == ("-", "2.60")


def test_an_empty_ledger_and_an_unknown_host_say_what_is_wrong(books: Books) -> None:
    """The first command of a new site must not be a stack trace."""
    with Store.open(None) as store, store.session() as session, pytest.raises(LedgerError, match="the ledger is empty"):
        read_live_view(session, "USD", "UTC")
    with pytest.raises(LedgerError, match="has no host 'n9'"):
        looked(books, "n9")


_HELD = st.tuples(
    st.sampled_from((("productive", "compute"), ("held_idle", "abandoned"), ("starved", "storage"))),
    st.integers(1, HOUR_MS),
    st.integers(0, 9_999_999),
)


@given(st.lists(st.lists(_HELD, min_size=1, max_size=4), min_size=1, max_size=8), st.integers(600_000, HOUR_MS))
def test_the_columns_of_money_add_up(holders: list[list[tuple[tuple[str, str], int, int]]], window_ms: int) -> None:
    """A screen whose lines do not sum to its head is not believed."""
    counts = [[(state, cause, ms, cost) for (state, cause), ms, cost in held] for held in holders]
    lines = tuple(
        LiveLine(f"run{number}", f"slurm/a/{number}", None, 1, None, None, Breakdown(fold(held)), NO_FIGURES, ())
        for number, held in enumerate(counts)
    )
    whole = Breakdown(fold(count for held in counts for count in held))
    end = NOVEMBER + window_ms * 1000
    text = look_text(LiveView("USD", "UTC", None, NOVEMBER, end, len(lines), whole, lines), TextLayout())
    head = re.search(r"\$([\d,.]+) per hour", text)
    assert head is not None
    classes, _, table = text.partition("HELD BY")
    by_class = [_number(row.split("%")[1].split()[0]) for row in classes.splitlines() if "%" in row]
    costs, lost = zip(*(map(_number, row.split()[-2:]) for row in table.splitlines()[1:]), strict=True)
    assert sum(by_class) == _number(head[1]) == sum(costs)
    assert sum(lost) == by_class[1]


def _number(text: str) -> Decimal:
    return Decimal(text.replace(",", ""))
