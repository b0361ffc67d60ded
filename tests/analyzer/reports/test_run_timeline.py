"""One zoom of a run: its states sum to all of its time, what is somebody else's is left out, and stalls are seen."""

import csv
import io
import json
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire.tables import TABLES
from analyzer.errors import LedgerError
from analyzer.ledger.coverage import TimelinePoint
from analyzer.reports.run_timeline import (
    BUCKET_US,
    RANKS_SHOWN,
    SIGNALS,
    Remembered,
    RunGpus,
    TimelineAsked,
    as_csv,
    as_json,
    losses,
    masked,
    ranks_of,
    read_timeline,
    ribbon_of,
    stalls,
)
from analyzer.states import BOOKINGS, CLASSES
from collector.lake.series import Series, Subject
from collector.store.database import Store
from collector.store.session import Session

RUN, HOUR, MINUTE, SECOND = "slurm/a/1", 3_600_000_000, 60_000_000, 1_000_000
START = 494_940 * HOUR

points = st.builds(
    lambda bucket, which, ms: TimelinePoint(bucket * BUCKET_US, which.state, which.cause, ms),
    st.integers(0, 20),
    st.sampled_from(BOOKINGS),
    st.integers(1, 10**9),
)


@given(st.lists(points, max_size=80))
def test_the_states_of_every_stretch_are_all_of_its_time(told: list[TimelinePoint]) -> None:
    """A ribbon with a gap at its edge would hide the very state that one looks for."""
    ribbon = ribbon_of(sorted(told, key=lambda point: point.bucket_start))
    for place in range(len(ribbon.starts)):
        assert sum(band.shares[place] for band in ribbon.bands) == pytest.approx(1, abs=1e-4 * len(ribbon.bands))
    assert [CLASSES.index(band.klass) for band in ribbon.bands] == sorted(CLASSES.index(b.klass) for b in ribbon.bands)


def _told(*states: tuple[str, str]) -> list[TimelinePoint]:
    return [TimelinePoint(place * BUCKET_US, *state, 1000) for place, state in enumerate(states)]


def test_a_stall_is_named_by_what_it_was_and_neighbours_are_one() -> None:
    """Two hung stretches are one stall; a start and a checkpoint are none."""
    hung, works = ("communicating", "hang"), ("productive", "compute")
    told = _told(
        ("starting", "warm_up"), works, hung, hung, works, ("checkpointing", "storage"), ("starved", "storage")
    )
    found = [(mark.start // BUCKET_US, mark.end // BUCKET_US, mark.text) for mark in stalls(ribbon_of(told))]
    assert found == [(2, 4, "hang"), (6, 7, "input starvation")]


def test_the_stretches_that_lost_most_are_marked_and_a_stall_is_not_marked_twice() -> None:
    """A run that waits a third of each minute has no stall at all: where it is worst must be seen all the same."""
    waits, works, hung = ("starved", "storage"), ("productive", "compute"), ("communicating", "hang")
    shares = [(1, 9), (5, 5), (6, 4), (2, 8), (0, 10), (10, 0)]
    told = [
        TimelinePoint(place * BUCKET_US, *state, 100 * share)
        for place, both in enumerate(shares)
        for state, share in zip((waits, works), both, strict=True)
    ]
    told.append(TimelinePoint(6 * BUCKET_US, *hung, 100))
    ribbon = ribbon_of(told)
    found = [(mark.start // BUCKET_US, mark.end // BUCKET_US, mark.text) for mark in losses(ribbon)]
    assert found == [(1, 3, "input starvation")]
    assert [mark.start // BUCKET_US for mark in stalls(ribbon)] == [5, 6]
    assert losses(ribbon_of(_told(works, works))) == []
    assert losses(ribbon_of([TimelinePoint(at, *each, 1) for at in (0, BUCKET_US) for each in (waits, works)])) == []


def _series(subject: str, values: list[float | None]) -> Series:
    numbers = pa.array(values, pa.float64())
    return Series(subject, "sm_active_ratio", 0, SECOND, numbers, numbers, numbers)


def _held(spans: dict[str, list[tuple[int, int]]]) -> RunGpus:
    gpus = tuple(spans)
    names, nodes = {gpu: f"n GPU {gpu}" for gpu in gpus}, {gpu: f"n{int(gpu) // 8}" for gpu in gpus}
    return RunGpus(Subject("gpu_samples", "gpu_uuid", gpus), spans, names, nodes, 0)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), max_size=4))
def test_what_a_gpu_did_for_others_is_not_shown(spans: list[tuple[int, int]]) -> None:
    """A run's page must not tell of the run that had the GPU before."""
    held = _held({"0": [(start * SECOND, (start + length) * SECOND) for start, length in spans]})
    shown = masked(_series("0", [0.5] * 40), held).mean.to_pylist()
    for place, value in enumerate(shown):
        assert (value is not None) == any(start <= place < start + length for start, length in spans)


def test_ranks_of_a_large_run_are_hosts() -> None:
    """Sixty-four rows are what an eye compares; a gap stays one."""
    held = _held({str(gpu): [(0, HOUR)] for gpu in range(RANKS_SHOWN + 8)})
    each = [_series(gpu, [None, 0.25 if int(gpu) < 4 else 0.75]) for gpu in held.gpus.values]
    lane = type("L", (), {"key": "sm", "title": "SM activity", "unit": "ratio", "most": [1.0], "start": 0, "step": 1})()
    ranks = ranks_of(lane, each, held)
    assert len(ranks.rows) == 9
    assert ranks.rows[0] == [None, 500]
    assert ranks.rows[1] == [None, 750]


_SITE = f"""
INSERT INTO runs (run_id, name, started_at, ended_at, gpus, nodes, attempts)
    VALUES ('{RUN}', 'x', {START}, {START + 2 * HOUR}, 2, 1, 1);
INSERT INTO ledger (hour, gpu_uuid, node, run_id, attempt, state, cause, shared, milliseconds, rules_version)
    SELECT {START} + h * {HOUR}, 'G0', 'n1', '{RUN}', 1, 'productive', 'compute', false, 3600000, 't'
    FROM range(2) t(h);
INSERT INTO run_timeline SELECT '{RUN}', {START} + b * {BUCKET_US}, if(b < 6, 'productive', 'held_idle'),
    if(b < 6, 'compute', 'abandoned'), 600000 FROM range(12) t(b);
INSERT INTO allocations (node, run_id, gpu_uuid, started_at, ended_at, batch)
    SELECT 'n1', '{RUN}', 'G' || g, {START}, {START + 2 * HOUR}, 1 FROM range(2) t(g);
INSERT INTO gpu_samples (node, gpu_uuid, started_at, ended_at, up, utilization_ratio, power_watts, batch)
    SELECT 'n1', 'G' || g, {START} + i * 10000000, {START} + (i + 1) * 10000000, true, 0.5, 400 + 100 * g, 1
    FROM range(2) s(g), range(720) t(i);
INSERT INTO checkpoints (run_id, minute, written_bytes) VALUES ('{RUN}', {START}, 2000000000)
"""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """Yield a store in which one run of two GPUs worked for an hour, and then stood."""
    with Store.open(None) as store, store.session() as opened:
        for statement in _SITE.split(";"):
            opened.execute(statement)
        yield opened


def test_restarts_and_what_befell_a_host_of_the_run_stand_on_its_timeline(session: Session) -> None:
    """Rows of one state are one event; other hosts, and what was before the run, are none of its business."""
    states = [
        ("n1", 60, 65, "drained", "bad fan"), ("n1", 65, 70, "drained", "bad fan"), ("n1", 100, 101, "down", None),
        ("n2", 60, 65, "down", None), ("n1", -90, -80, "down", None), ("n1", 70, 75, "up", None),
    ]  # fmt: skip
    for node, first, last, state, why in states:
        session.execute(
            "INSERT INTO node_states (node, started_at, ended_at, state, reason, batch) VALUES (?, ?, ?, ?, ?, 9)",
            [node, START + first * MINUTE, START + last * MINUTE, state, why],
        )
    session.execute(
        "INSERT INTO allocations (node, run_id, gpu_uuid, attempt, started_at, ended_at, batch) "
        "VALUES ('n1', ?, 'G0', 2, ?, ?, 9)",
        [RUN, START + 30 * MINUTE, START + 2 * HOUR],
    )
    try:
        zoom = read_timeline(session, Remembered(), RUN, TimelineAsked(), "UTC")
    finally:
        for table in ("node_states", "allocations"):
            session.execute(f"DELETE FROM {table} WHERE batch = 9")
    events = [((mark.start - START) // MINUTE, mark.text) for mark in zoom.marks if mark.kind == "event"]
    assert events == [(30, "restarted"), (60, "n1 drained: bad fan"), (100, "n1 down")]
    assert "n1 drained: bad fan" in as_json(zoom)


def test_a_zoom_has_states_signals_ranks_and_marks(session: Session) -> None:
    """The lane says the mean and the spread of its ranks; where SM activity is not told, NVML's word stands in."""
    zoom = read_timeline(session, Remembered(), RUN, TimelineAsked(ranks="power"), "UTC")
    assert [lane.title for lane in zoom.lanes] == ["GPU busy (NVML)", "power"]
    power = zoom.lanes[1]
    assert (power.mean[3], power.least[3], power.most[3]) == (450.0, 400.0, 500.0)
    assert zoom.ranks is not None
    assert [row[3] for row in zoom.ranks.rows] == [800, 1000]
    assert [(mark.kind, mark.text) for mark in zoom.marks] == [
        ("checkpoint", "checkpoint, 2.0 GB"),
        ("stall", "idle allocation"),
    ]
    assert json.loads(as_json(zoom))["data"][0]["name"] == "productive"


@settings(max_examples=20, deadline=None)
@given(first=st.integers(-100, 7100), length=st.integers(1, 8000), width=st.integers(-5, 5000))
def test_no_zoom_sends_more_than_the_screen_shows(session: Session, first: int, length: int, width: int) -> None:
    """Whatever an address asks for, the answer has a bound, and lies within the run."""
    asked = TimelineAsked(START + first * SECOND, START + (first + length) * SECOND, width)
    if first + length < 1:
        return
    zoom = read_timeline(session, Remembered(), RUN, asked, "UTC")
    assert zoom.known_start <= zoom.start < zoom.end <= zoom.known_end
    assert all(len(lane.mean) <= asked.pixels // 2 <= 1000 for lane in zoom.lanes)


def test_a_second_can_be_looked_at_and_less_cannot(session: Session) -> None:
    """From a week to a second: the states are then those of the ten minutes around."""
    zoom = read_timeline(session, Remembered(), RUN, TimelineAsked(START + HOUR, START + HOUR + SECOND), "UTC")
    assert [band.label for band in zoom.ribbon.bands if max(band.shares) > 0.5][-1] == "idle allocation"
    assert zoom.lanes[0].step == SECOND
    with pytest.raises(LedgerError, match="has no second between start and end"):
        read_timeline(session, Remembered(), RUN, TimelineAsked(START - 2 * HOUR, START - HOUR), "UTC")


def test_the_rows_are_what_is_drawn(session: Session) -> None:
    """Who copies the numbers gets each point with the state it lies in."""
    zoom = read_timeline(session, Remembered(), RUN, TimelineAsked(width=200), "UTC")
    rows = list(csv.DictReader(io.StringIO(as_csv(zoom))))
    assert len(rows) == len(zoom.lanes[0].mean)
    assert [rows[0]["productive"], rows[-1]["idle allocation"]] == ["1.0", "1.0"]
    assert {row["power most (W)"] for row in rows} == {"500.0"}


def test_lanes_name_columns_of_the_contract() -> None:
    """A column that is renamed there would silently leave its lane empty here."""
    known = {(signal.table, column) for signal in SIGNALS for column, _ in signal.columns}
    assert all(column in TABLES[table].names for table, column in known)
