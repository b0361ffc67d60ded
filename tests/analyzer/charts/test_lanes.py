"""The figure of a run over time draws what is known where it is, draws no silence, and sits on local time."""

import json
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from analyzer.charts.lanes import Band, Lane, Mark, Ranks, Ribbon, RunTimeline, amount, run_lanes
from analyzer.period import micros

SECOND, HOUR = 1_000_000, 3_600_000_000
ORIGIN = micros(datetime.fromisoformat("2026-11-10T07:00:00+00:00"))
HOSTILE = "<a href>n1</a>"


def lane(values: list[float | None], apart: float = 0.1) -> Lane:
    """Return a lane with a point a minute, whose ranks lie so far around their mean."""
    least, most = ([None if v is None else v + by for v in values] for by in (-apart, apart))
    return Lane("sm", "SM activity", "ratio", ORIGIN, 60 * SECOND, values, least, most)


def ranks(names: list[str], left_out: int = 0) -> Ranks:
    """Return ranks with three points each."""
    return Ranks(
        "sm", "SM activity", "ratio", 1.0, ORIGIN, 60 * SECOND, names, [[0, None, 1000]] * len(names), left_out
    )


EXAMPLE = RunTimeline(
    "slurm/a/1", "Europe/Berlin", 1000, ORIGIN, ORIGIN + 6 * HOUR, ORIGIN, ORIGIN + 6 * HOUR,
    Ribbon(HOUR, [ORIGIN, ORIGIN + HOUR, ORIGIN + 4 * HOUR], [
        Band("working", "useful", [1.0, 0.6, 0.0]), Band("idle allocation", "avoidable", [0.0, 0.4, 1.0]),
    ]),
    [lane([0.5, None, 0.7, 0.6])], ranks(["n1 GPU 0", "n1 GPU 1"]),
    [Mark("checkpoint", ORIGIN, ORIGIN + 60 * SECOND, "checkpoint, 2.0 GB"),
     Mark("stall", ORIGIN + 4 * HOUR, ORIGIN + 5 * HOUR, "idle allocation")],
)  # fmt: skip


def drawn(zoom: RunTimeline) -> Any:
    """Return the figure as a browser reads it."""
    return json.loads(json.dumps(run_lanes(zoom), allow_nan=False))


def traces(zoom: RunTimeline, **having: object) -> list[Any]:
    """Return the traces that have these things."""
    return [one for one in drawn(zoom)["data"] if having.items() <= one.items()]


def test_between_stretches_that_do_not_abut_the_ribbon_has_nothing() -> None:
    """A run that was requeued held no GPU in between; a band that went on would say it did."""
    working, idle = traces(EXAMPLE, stackgroup="states")
    assert working["x"] == idle["x"] == [0, 3600, 7200, 14_400, 18_000]
    assert working["y"] == [1.0, 0.6, 0.0, 0.0, 0.0]
    assert idle["y"] == [0.0, 0.4, 0.0, 1.0, 0.0]
    assert idle["text"] == ["", "idle allocation 40%", "", "idle allocation 100%", ""]


@given(st.lists(st.none() | st.floats(0.2, 0.8).map(lambda value: round(value, 3)), min_size=1, max_size=40))
def test_a_gap_is_in_no_line_and_in_no_outline(values: list[float | None]) -> None:
    """What nobody measured is neither 0 nor what it was before."""
    zoom = replace(EXAMPLE, lanes=[lane(values)], ranks=None)
    (line,) = traces(zoom, mode="lines", yaxis="y2")
    assert line["y"] == [*values, values[-1]]
    assert [bool(text) for text in line["text"]] == [value is not None for value in values]
    known = {60 * place for place, value in enumerate(values) if value is not None}
    for outline in traces(zoom, fill="toself"):
        edges = [x for x in outline["x"] if x is not None]
        assert set(edges) == known | {x + 60 for x in known}
        assert len(edges) == 4 * len(known)


def test_ranks_that_agree_have_no_outline_and_none_in_words() -> None:
    """A spread of nothing is a line of its own."""
    zoom = replace(EXAMPLE, lanes=[lane([0.5, 0.5], apart=0.0)])
    assert traces(zoom, fill="toself") == []
    assert traces(zoom, mode="lines", yaxis="y2")[0]["text"] == ["50%", "50%"]
    assert traces(EXAMPLE, mode="lines", yaxis="y2")[0]["text"][0] == "50% (40% to 60%)"


def test_marks_are_where_they_happened_and_say_until_when() -> None:
    """A script finds the mark near a moment by its text and its end."""
    (checkpoint,), (stall,) = (traces(EXAMPLE, name=name) for name in ("checkpoint", "stall: nothing worked"))
    assert (checkpoint["x"], checkpoint["text"], checkpoint["customdata"]) == ([0], ["checkpoint, 2.0 GB"], [60])
    assert stall["x"] == [14_400, 18_000, None]
    assert (stall["text"][0], stall["customdata"][0]) == ("idle allocation", 18_000)
    assert traces(replace(EXAMPLE, marks=[]), name="checkpoint") == []


@given(st.integers(0, 7), st.integers(0, 70))
def test_rows_fill_the_figure_and_none_lies_on_another(lanes: int, hosts: int) -> None:
    """Wherever one points there is a row to drag over."""
    zoom = replace(EXAMPLE, lanes=[lane([0.5])] * lanes, ranks=ranks([f"n{host}" for host in range(hosts)]))
    layout = drawn(zoom)["layout"]
    domains = [axis["domain"] for name, axis in layout.items() if name.startswith("yaxis")]
    assert len(domains) == 1 + lanes + bool(hosts)
    assert (domains[0][1], domains[-1][0]) == (1, pytest.approx(0, abs=1e-5))
    assert all(above[0] == pytest.approx(below[1], abs=1e-5) for above, below in pairwise(domains))
    assert layout["xaxis"]["anchor"] in ("y", f"y{len(domains)}")
    names = layout.get(f"yaxis{len(domains)}", {}).get("ticktext", [])
    assert len(names) <= hosts
    assert bool(names) == bool(hosts)


def test_ticks_are_local_also_where_a_clock_has_an_hour_twice() -> None:
    """On 25 October Berlin has 02:00 twice: an axis of local times would lay one hour on the other."""
    start = micros(datetime.fromisoformat("2026-10-24T22:00:00+00:00"))
    zoom = replace(EXAMPLE, known_start=start, start=start, known_end=start + 6 * HOUR, end=start + 6 * HOUR)
    axis = drawn(zoom)["layout"]["xaxis"]
    assert axis["ticktext"] == ["00:00<br>Sun 25 Oct", "01:00", "02:00", "02:00", "03:00", "04:00", "05:00"]
    assert axis["tickvals"] == [3600 * hour for hour in range(7)]


@given(st.integers(10, 400 * 86_400), st.integers(160, 2000), st.integers(0, 86_400))
@example(18 * 86_400 + 1, 160, 0)  # steps of nineteen days, of which none that is counted from 1970 lies within
def test_there_are_ticks_and_never_more_than_there_is_room_for(seconds: int, pixels: int, later: int) -> None:
    """From ten seconds to a year."""
    start = ORIGIN + later * SECOND
    zoom = replace(
        EXAMPLE, pixels=pixels, start=start, end=start + seconds * SECOND, known_end=start + seconds * SECOND
    )
    axis = drawn(zoom)["layout"]["xaxis"]
    assert len(axis["tickvals"]) == len(axis["ticktext"]) <= max(1, pixels // 90) + 1
    assert axis["tickvals"] or seconds < 2 * 86_400
    assert all(later <= at <= later + seconds for at in axis["tickvals"])
    assert axis["range"] == [later, later + seconds]


def test_a_host_s_name_is_no_more_than_a_name() -> None:
    """plotly reads tags in names, and a host may be called anything."""
    text = json.dumps(run_lanes(replace(EXAMPLE, ranks=ranks([HOSTILE]))))
    assert "<a" not in text
    assert "&lt;a href&gt;n1" in text


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (0.854, "ratio", "85%"), (0.0421, "ratio", "4.2%"), (612.4, "W", "612 W"), (1.25e9, "B/s", "1.2 GB/s"),
        (125e6, "B/s", "125 MB/s"), (4e3, "B/s", "4.0 kB/s"), (12.0, "B/s", "12 B/s"), (None, "W", "–"),
        (0.0478, "s", "48 ms"), (2.5, "s", "2.5 s"), (0.147, "/s", "0.147/s"), (3.0, "", "3"),
    ],
)  # fmt: skip
def test_amounts_are_as_people_read_them(value: float | None, unit: str, told: str) -> None:
    """Three digits at most, and a dash for what is not known."""
    assert amount(value, unit) == told
