"""Figures show the numbers that they are given, in colours of the palette alone, and run nothing of a name."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plotly.offline import get_plotlyjs_version

from agent.wire.units import HOUR_US
from analyzer.charts.figures import (
    Course,
    GanttRow,
    Share,
    Size,
    Spread,
    class_bar,
    gantt,
    month_course,
    over_one_another,
    scaling,
    spreads,
    stacked_bars,
)
from analyzer.charts.lanes import Band, Lane, Ribbon, RunTimeline, run_lanes
from analyzer.charts.series import Chart, Trace
from analyzer.charts.theme import CLEAR, round_end
from analyzer.reports.compare import curves
from analyzer.states import CLASSES
from analyzer.text.templating import DRAW, PLOTLY, palette, policy, scripts
from tests.analyzer.charts.test_lanes import EXAMPLE

AMOUNTS = st.lists(st.floats(0, 1e6, allow_nan=False) | st.none(), min_size=1, max_size=60)
HOSTILE = '<a href="https://elsewhere.example/">working</a> & more'


def hours(traces: tuple[Trace, ...], unit: str = "GPUs", mark: float | None = None) -> Chart:
    """Return a chart with a bar an hour."""
    labels = [f"Mon 9 Nov {place:02d}:00" for place in range(len(traces[0].values))]
    times = [f"2026-11-{9 + place // 24:02d}T{place % 24:02d}:00:00" for place in range(len(labels))]
    return Chart("t", unit, tuple(times), tuple(labels), traces, mark)


def read(figure: dict[str, object]) -> Any:
    """Return a figure as a browser reads it."""
    return json.loads(json.dumps(figure))


def course(**known: float | None) -> Course:
    """Return the course of a month of which all is known but what is said."""
    whole = {"expected": 90.0, "low": 80.0, "high": 110.0, "budget": 100.0, **known}
    times = ("2026-11-01T00:00:00", "2026-11-02T00:00:00", "2026-11-03T00:00:00")
    return Course(times, (0.0, 3.0, 7.0), "2026-11-01T00:00:00", "2026-12-01T00:00:00", sign="$", **whole)


FIGURES = {
    "hours": read(stacked_bars(hours(tuple(Trace(name, name, (1.0, None, 2.0)) for name in CLASSES), mark=2.0))),
    "course": read(month_course(course())),
    "gantt": read(
        gantt(
            [GanttRow("a", "a on b", True, (0.0, 1.0), (1.0, 3.0), (3.0, 4.0))], [(0.0, "06:00"), (6.0, "12:00")], 5.0
        )
    ),
    "whole": read(class_bar([Share("useful 60%", "useful", 0.6), Share("avoidable 40%", "avoidable", 0.4)])),
    "spreads": read(spreads([Spread("SM activity", 0.1, 0.5, 1.0, "50%")])),
    "lanes": read(run_lanes(EXAMPLE)),
    "scaling": read(scaling([Size("8 GPUs", "9 k/s", 1.0, 1.0), Size("16 GPUs", "15 k/s", 1.7, 2.0)])),
}


def coloured(part: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each colour of a figure by its key, as draw.js finds them: it takes what ends in "color", and scales."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name != "colours":
                yield from coloured(value, name)
    elif isinstance(part, (list, tuple)):
        for value in part:
            yield from coloured(value, key if key == "colorscale" else "")
    elif isinstance(part, str) and re.match(r"#|rgb", part):
        yield key, part


@given(AMOUNTS, st.none() | st.floats(0.1, 1e6))
@settings(max_examples=30)
def test_bars_are_what_was_told_and_silence_is_none(values: list[float | None], mark: float | None) -> None:
    """A bar of which nobody reported is no bar of nothing."""
    figure = read(stacked_bars(hours((Trace("a", "overhead", tuple(values)),), mark=mark)))
    assert figure["data"][0]["y"] == values
    assert [shape["y0"] for shape in figure["layout"].get("shapes", [])] == ([] if mark is None else [mark])


@pytest.mark.parametrize("name", FIGURES)
def test_every_colour_has_a_name_in_the_palette(name: str) -> None:
    """What has none stays as it is on light paper, and cannot be read in the dark."""
    named = FIGURES[name]["layout"]["meta"]["colours"]
    assert set(named) == set(palette().values())
    assert all(palette()[each] == colour for colour, each in named.items())
    found = set(coloured(FIGURES[name]))
    assert len(found) > 3
    assert {colour for _, colour in found} <= set(named) | {CLEAR}
    assert all(key.endswith("color") or key == "colorscale" for key, _ in found)


def test_bands_of_one_class_are_told_apart_and_classes_by_more_than_colour() -> None:
    """Two kinds of avoidable stand on one another in one red; who sees no red sees a pattern."""
    two = (Trace("starved", "avoidable", (1.0,)), Trace("idle", "avoidable", (1.0,)), Trace("works", "useful", (1.0,)))
    first, second, third = read(stacked_bars(hours(two)))["data"]
    assert first["marker"]["opacity"] > second["marker"]["opacity"]
    assert first["marker"]["pattern"]["shape"] != third["marker"]["pattern"]["shape"]


@pytest.mark.parametrize("unit", ["GPUs", HOSTILE])
def test_a_name_is_shown_as_it_is(unit: str) -> None:
    """plotly reads tags and links in names; a run may be called anything."""
    figure = read(stacked_bars(hours((Trace(HOSTILE, "useful", (1.0,)),), unit)))
    assert "<a" not in json.dumps(figure)
    assert figure["data"][0]["name"].startswith("&lt;a href=")


def test_a_task_s_bars_lie_where_it_is_and_what_it_has_not_is_not_drawn() -> None:
    """Inputs, run and slack follow one another; a task without inputs or slack has one bar."""
    ticks = [(0.0, "06:00"), (6.0, "12:00")]
    made = [
        GanttRow("a", "a on b", True, (0.0, 1.0), (1.0, 3.0), (3.0, 4.0)),
        GanttRow("b", "b on c", False, None, (0.0, 2.0), None),
    ]
    figure = read(gantt(made, ticks, None))
    spans = {one["name"]: [*zip(one["y"], one["base"], one["x"], strict=True)] for one in figure["data"]}
    assert spans == {
        "slack": [(0, 3.0, 1.0)],
        "data on its way": [(0, 0.0, 1.0)],
        "does not": [(1, 0.0, 2.0)],
        "decides the end": [(0, 1.0, 2.0)],
    }
    assert figure["layout"]["yaxis"]["range"] == [1.5, -0.5], "the first task is on top"


@pytest.mark.parametrize(
    "figure",
    [
        gantt([GanttRow(HOSTILE, HOSTILE, True, None, (1.0, 3.0), None)], [(0.0, "06:00"), (6.0, "12:00")], 5.0),
        class_bar([Share(HOSTILE, "useful", 0.6)]),
        spreads([Spread(HOSTILE, 0.1, 0.5, 1.0, HOSTILE)]),
        scaling([Size(HOSTILE, HOSTILE, 1.0, 1.0), Size(HOSTILE, HOSTILE, 1.7, 2.0)]),
        month_course(replace(course(), sign=HOSTILE)),
    ],
    ids=("gantt", "whole", "spreads", "scaling", "course"),
)
def test_no_name_in_a_figure_is_more_than_a_name(figure: dict[str, object]) -> None:
    """Tasks, units and kinds of GPU are called by whoever starts a job."""
    text = json.dumps(figure)
    assert "<a" not in text
    assert "&lt;a href" in text


def test_shares_have_the_whole_scale_and_small_ones_their_own() -> None:
    """Half of a bar of 100 is half as high as the sheet; a share of a hundredth would not be seen so."""
    assert [_scale(value) for value in (50.0, 120.0, 2.0)] == [[0.0, 100.0], [0.0, 120.0], [0.0, 2.0]]


@given(st.floats(0.001, 1e12))
def test_an_axis_ends_at_a_round_figure_that_is_near(highest: float) -> None:
    """No curve leaves its sheet, and the top of an axis is a figure that people say."""
    end = round_end(highest)
    assert highest * (1 - 1e-6) <= end <= 2 * highest
    digits = f"{end:.6e}".split("e")[0].rstrip("0")
    assert len(digits.replace(".", "")) <= 2
    assert round_end(0.0) == 1.0


def test_curves_of_two_runs_begin_together_and_end_where_each_ends() -> None:
    """One that took half as long covers half of the axis; what was not measured is a gap, and no zero."""

    def of(start: int, hours: int, value: float) -> RunTimeline:
        starts = [start + n * HOUR_US for n in range(hours)]
        lane = Lane("sm", "SM activity", "ratio", start, HOUR_US, [value, *[None] * (hours - 1)], [], [])
        ribbon = Ribbon(HOUR_US, starts, [Band("productive", "useful", [value] * hours)])
        end = start + hours * HOUR_US
        return RunTimeline("r", "UTC", 400, start, end, start, end, ribbon, [lane], None, [])

    work, signal = curves(of(0, 80, 0.5), of(10**15, 40, 1.0))
    before, after = work.traces
    assert (work.unit, before.values, after.values) == ("%", (50.0,) * 80, (100.0,) * 40 + (None,) * 40)
    assert signal.title == "SM activity"
    assert [trace.values[:2] for trace in signal.traces] == [(50.0, None), (100.0, None)]
    drawn = read(over_one_another(work))
    assert drawn["layout"]["yaxis"]["range"] == [0.0, 100.0]
    assert [line["name"] for line in drawn["data"]] == ["before", "after"]


def _scale(value: float) -> list[float] | None:
    found: list[float] | None = read(stacked_bars(hours((Trace("a", "useful", (value,)),), "% of its GPUs")))["layout"][
        "yaxis"
    ].get("range")
    return found


@pytest.mark.parametrize(
    ("unknown", "shown"),
    [
        ((), ["80% between", "expected", "spent", "budget"]),
        (("low", "high"), ["expected", "spent", "budget"]),
        (("low", "high", "expected"), ["spent", "budget"]),
        (("low", "high", "expected", "budget"), ["spent"]),
    ],
)
def test_a_course_shows_what_is_known(unknown: tuple[str, ...], shown: list[str]) -> None:
    """No forecast is drawn as none, never as one that ends at nothing."""
    figure = read(month_course(course(**dict.fromkeys(unknown))))
    assert [trace["name"] for trace in figure["data"]] == shown
    assert next(trace for trace in figure["data"] if trace["name"] == "spent")["y"] == [0.0, 3.0, 7.0]


def test_the_script_is_the_part_of_the_plotly_that_makes_the_figures() -> None:
    """Another version may read them otherwise: `make plotly` makes the part anew."""
    text = PLOTLY.read_text("utf-8")
    assert f'version="{get_plotlyjs_version()}"' in text
    assert text.startswith(f"/* plotly.js {get_plotlyjs_version()}:")
    assert len(text) < 1_250_000, "the whole of it has 4.8 MB"


def test_a_document_s_scripts_end_where_they_end_and_are_those_of_the_policy() -> None:
    """Each hash of the policy is one script's, and no script has the end of one within it."""
    found = re.findall(r"<script>(.*?)</script>", str(scripts()), re.DOTALL)
    assert found == [path.read_text("utf-8") for path in (PLOTLY, DRAW)]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in found]
    assert re.findall(r"'sha256-([^']+)'", policy()) == digests
    assert "unsafe-eval" not in policy()
    assert "default-src 'none'" in policy()
