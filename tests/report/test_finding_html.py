"""A finding as one document: the picture that the page has, nothing from elsewhere, and every name as text."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.argument.argue import Argument
from analyzer.argument.plot import Plot, Signal
from analyzer.argument.ruled_out import RuledOut
from analyzer.argument.signs import Sign
from analyzer.finding_needs import Need
from analyzer.period import HOUR
from analyzer.report.charts import Chart, Trace, finding_charts
from analyzer.report.drawing import HEIGHT, LEFT, WIDTH, drawing
from analyzer.report.finding_view import Explained
from analyzer.report.html import finding_html
from tests.report import example_week

TIMES = tuple(example_week.TUESDAY_8 + place * HOUR for place in range(8))
PLOT = Plot(
    "slurm/alpha/81234",
    "waiting for input",
    TIMES,
    (50.0, 52.0, 48.0, 0.0, 51.0, 49.0, 50.0, 50.0),
    (40.0, 38.0, 44.0, 0.0, 41.0, 42.0, 40.0, 41.0),
    Signal("busiest worker", "% of a core", (97.0, 98.0, 96.0, None, 97.0, 98.0, 99.0, 97.0), 90.0),
)
ARGUMENT = Argument(
    (Sign("busiest loader worker", "98 % of a core", "90 % of a core or more", True),),
    (
        RuledOut("local disk", "10 % busy, full is 80 %"),
        RuledOut("checkpoints", "28.2 GPU-hours are booked as overhead", "overhead"),
        RuledOut("heat (f-c5j2)", "booked apart", "finding"),
    ),
    Need("the loader", 3_400_000_000, 5_800_000_000),
    "severe",
    PLOT,
    ("2026-11-01+1",),
)


def explained(subject: str = "llama-sft") -> Explained:
    """Return the example's finding of waiting for input, with a plot."""
    finding = replace(example_week.findings()[2], subject=subject, hosts=("n14", "n15"))
    advice = tuple(one for one in example_week.recommendations() if finding.id in one.finding_ids)
    return Explained(finding, "USD", "Europe/Berlin", ARGUMENT, advice=advice)


def test_the_document_reads_as_it_was_drawn(golden: Callable[[str, str], None]) -> None:
    """It is sent around: who opens it sees picture, numbers and what to do, without us."""
    golden("report/explain.html", finding_html(explained()))


def test_the_document_loads_nothing_and_runs_nothing() -> None:
    """A file in a mail must not tell anybody that it was opened; a name in it is its user's text."""
    page = finding_html(explained("<script>alert(1)</script>"))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"https?:|\bsrc=|\bhref=|@import|url\((?!#)", page)


def test_the_document_has_the_page_s_picture() -> None:
    """The same series, the same mark: one bar for each stretch of which anything was told."""
    page = finding_html(explained())
    assert page.count('<svg class="drawn" ') == 2
    assert page.count('<rect class="useful"') == 7 + 1, "a bar of nothing is not drawn; the legend has one"
    assert page.count('<line class="mark"') == 1
    for chart in finding_charts(explained().finding, PLOT, "Europe/Berlin"):
        assert chart.title in page.replace("&#39;", "'")
        assert json.dumps(chart.data())


AMOUNTS = st.lists(st.floats(0, 1e6, allow_nan=False) | st.none(), min_size=1, max_size=60)


@given(AMOUNTS, st.none() | st.floats(0.1, 1e6))
@settings(max_examples=60)
def test_every_shape_stays_on_the_sheet(values: list[float | None], mark: float | None) -> None:
    """Whatever a driver reports, a bar does not run over the text beside it, and none is drawn for silence."""
    names = tuple(f"Mon 9 Nov {place:02d}:00" for place in range(len(values)))
    sheet = drawing(Chart("t", "GB/s", names, names, (Trace("a", "overhead", tuple(values)),), mark))
    assert len(sheet.boxes) == sum(1 for value in values if value)
    for box in sheet.boxes:
        assert box.x >= LEFT
        assert box.x + box.width <= WIDTH
        assert box.y >= 0
        assert box.height >= 0
        assert box.y + box.height <= HEIGHT
    assert mark is None or (sheet.mark is not None and 0 <= sheet.mark <= HEIGHT)


def test_stacked_parts_touch_and_keep_their_shares() -> None:
    """Half of a whole bar is half as high as the bar."""
    names = ("Mon 9 Nov 00:00",)
    traces = (Trace("working", "useful", (50.0,)), Trace("lost", "avoidable", (50.0,)))
    sheet = drawing(Chart("t", "% of its GPUs", names, names, traces))
    lower, upper = sheet.boxes
    assert upper.y + upper.height == lower.y
    assert abs(upper.height - lower.height) <= 0.1
