"""A chart shows what was told: from whatever tier, never more points than asked for, gaps open, extremes kept."""

from typing import Any

import pytest

from agent.wire.units import HOUR_US, MINUTE_US
from collector.lake.series import Series, TableExtent, gpus, gpus_of_run, hosts, planned, series
from collector.lake.tiers import Span, take_off_due
from collector.store.session import Session
from tests.collector.lake.tiers_samples import HOUR, SECOND, Row, roll, sample, store_with

DAY_US = 24 * HOUR_US


def _steady(seconds: int, step: int = 10, **values: Any) -> list[Row]:
    return [sample(at, step, **values) for at in range(0, seconds, step)]


def _roll(session: Session, hours: int) -> None:
    """Roll up whole hours, of which the newest counts as not yet over."""
    with session.transaction():
        take_off_due(session, Span(HOUR, HOUR + hours * HOUR_US))
        roll(session, Span(HOUR, HOUR + hours * HOUR_US))


def _points(told: Series) -> list[float | None]:
    return told.mean.to_pylist()


def test_a_short_span_is_read_from_the_samples() -> None:
    """Ten minutes in ten-second points: nobody wants minutes there."""
    rows = [sample(at, 10, utilization_ratio=at / 1000) for at in range(0, 60, 10)]
    with store_with(rows) as session:
        (told,) = series(session, gpus(["GPU-a"]), ["utilization_ratio"], HOUR, HOUR + MINUTE_US, max_points=7)
    assert told.step_us == 10 * SECOND
    assert _points(told) == [0.0, 0.01, 0.02, 0.03, 0.04, 0.05]


def test_gaps_stay_open() -> None:
    """A line through silence would claim a reading that nobody took."""
    rows = [sample(0, 10, utilization_ratio=0.5), sample(40, 10, utilization_ratio=0.5)]
    with store_with(rows) as session:
        (told,) = series(session, gpus(["GPU-a"]), ["utilization_ratio"], HOUR, HOUR + MINUTE_US, max_points=7)
    assert _points(told) == [0.5, None, None, None, 0.5, None]
    assert told.least.to_pylist() == told.most.to_pylist() == _points(told)


def test_a_subject_without_rows_is_all_gap() -> None:
    """Eight lines were asked for and eight are drawn, in the order in which they were asked for."""
    with store_with([sample(0, 60, gpu="GPU-b", utilization_ratio=1.0)]) as session:
        subject = gpus(["GPU-none", "GPU-b"])
        none, told = series(session, subject, ["utilization_ratio"], HOUR, HOUR + MINUTE_US, max_points=2)
    assert (none.subject, _points(none)) == ("GPU-none", [None])
    assert (told.subject, _points(told)) == ("GPU-b", [1.0])


def test_long_samples_fill_their_points() -> None:
    """Imported telemetry has a sample a minute: between its starts is no gap."""
    with store_with([sample(0, 60, utilization_ratio=0.25)]) as session:
        (told,) = series(session, gpus(["GPU-a"]), ["utilization_ratio"], HOUR, HOUR + MINUTE_US, max_points=7)
    assert _points(told) == [0.25] * 6


def test_an_amount_is_shown_as_how_much_a_second() -> None:
    """Amounts of buckets of unlike lengths cannot be compared; rates can, in every tier."""
    rows = [sample(at, 10, pcie_receive_bytes=1_000) for at in range(0, 3600, 10)]
    with store_with(rows) as session:
        _roll(session, 1)
        take_off_due(session, Span(HOUR + HOUR_US, HOUR + 2 * HOUR_US))
        for points in (361, 13, 2):
            (told,) = series(session, gpus(["GPU-a"]), ["pcie_receive_bytes"], HOUR, HOUR + HOUR_US, points)
            assert set(_points(told)) == {100.0}
            assert set(told.most.to_pylist()) == {100.0}


def test_extremes_survive_every_tier() -> None:
    """A peak of ten seconds in a week of minutes: the mean hides it, the envelope must not."""
    rows = [sample(at, 10, power_watts=700.0 if at == 1800 else 100.0) for at in range(0, 7200, 10)]
    with store_with(rows) as session:
        _roll(session, 2)
        for max_points in (2_000, 100, 3):
            (told,) = series(session, gpus(["GPU-a"]), ["power_watts"], HOUR, HOUR + 2 * HOUR_US, max_points)
            assert max(value or 0.0 for value in told.most.to_pylist()) == 700.0
            assert min(value or 0.0 for value in told.least.to_pylist()) == 100.0


@pytest.mark.parametrize("max_points", [2, 3, 10, 61, 100, 719, 2_000])
def test_there_are_never_more_points_than_asked_for(max_points: int) -> None:
    """A page that asks for 2,000 has room for 2,000, wherever its span begins."""
    with store_with(_steady(3600, utilization_ratio=0.5)) as session:
        _roll(session, 1)
        start = HOUR + 7 * SECOND
        (told,) = series(session, gpus(["GPU-a"]), ["utilization_ratio"], start, start + HOUR_US, max_points)
    assert 1 <= len(_points(told)) <= max_points
    assert set(_points(told)) - {None} == {0.5}


def test_every_tier_tells_the_same() -> None:
    """Zooming out must not change the level: the mean over an hour is one number, whoever added it up."""
    rows = [sample(at, 10, utilization_ratio=(at // 10 % 7) / 10) for at in range(0, 7200, 10)]
    mean = sum((at // 10 % 7) / 10 for at in range(0, 3600, 10)) / 360
    with store_with(rows) as session:
        (raw,) = series(session, gpus(["GPU-a"]), ["utilization_ratio"], HOUR, HOUR + 2 * HOUR_US, 3)
        _roll(session, 2)
        (rolled,) = series(session, gpus(["GPU-a"]), ["utilization_ratio"], HOUR, HOUR + 2 * HOUR_US, 3)
    assert _points(raw)[0] == pytest.approx(mean, abs=1e-9)
    assert _points(rolled) == pytest.approx(_points(raw), abs=1e-9)


def test_what_was_dropped_is_read_from_the_tier_that_has_it() -> None:
    """Beyond the samples' time the chart goes on in minutes, with a step that minutes can fill."""
    with store_with(_steady(7200, utilization_ratio=0.5)) as session:
        _roll(session, 2)
        session.execute(f"DELETE FROM gpu_samples WHERE started_at < {HOUR + HOUR_US}")
        session.execute("INSERT INTO retention VALUES ('gpu_samples', ?, 1, 'age', 0)", [HOUR + HOUR_US])
        (told,) = series(session, gpus(["GPU-a"]), ["utilization_ratio"], HOUR, HOUR + 2 * HOUR_US)
    assert told.step_us == MINUTE_US
    assert _points(told) == [0.5] * 120


def test_hours_that_wait_are_read_from_the_samples() -> None:
    """Until an hour is rolled up its tier is empty, which is no silence."""
    with store_with(_steady(7200, utilization_ratio=0.5)) as session:
        _roll(session, 1)
        session.execute("INSERT INTO tier_due VALUES (?)", [HOUR + HOUR_US])
        (told,) = series(session, gpus(["GPU-a"]), ["utilization_ratio"], HOUR, HOUR + 2 * HOUR_US, 121)
    assert _points(told) == [0.5] * 120


def test_a_run_s_chart_is_that_of_its_gpus() -> None:
    """The page of a run knows a name; the allocations know its GPUs."""
    with store_with(_steady(60, utilization_ratio=0.5)) as session:
        session.execute(
            "INSERT INTO allocations (node, run_id, gpu_uuid, started_at, batch) "
            "VALUES ('n1', 'slurm/a/1', 'GPU-a', 1, 1)"
        )
        subject = gpus_of_run(session, "slurm/a/1")
        assert (subject.values, subject.nodes) == (("GPU-a",), ("n1",))
        assert series(session, gpus_of_run(session, "slurm/a/2"), ["utilization_ratio"], HOUR, HOUR + 1) == []


def test_hosts_have_series_too() -> None:
    """Each table has its own subjects."""
    told = sample(0, 60, cpu_busy_ratio=0.75) | {"node": "n7"}
    del told["gpu_uuid"]
    with store_with([told], "host_samples") as session:
        (busy,) = series(session, hosts(["n7"]), ["cpu_busy_ratio"], HOUR, HOUR + MINUTE_US, 2)
    assert _points(busy) == [0.75]


@pytest.mark.parametrize("column", ["recovery_action", "gpu_uuid", "no_such"])
def test_what_is_no_number_over_time_has_no_chart(column: str) -> None:
    """A mistake of the caller is told as one."""
    with store_with([]) as session, pytest.raises(KeyError):
        series(session, gpus(["GPU-a"]), [column], HOUR, HOUR + MINUTE_US)


def test_a_name_with_a_quote_is_a_name() -> None:
    """Names come from other systems; a query is no place for them to act."""
    with store_with([sample(0, 60, gpu="it's", utilization_ratio=1.0)]) as session:
        (told,) = series(session, gpus(["it's"], ["n1"]), ["utilization_ratio"], HOUR, HOUR + MINUTE_US, 2)
    assert _points(told) == [1.0]


@pytest.mark.parametrize(
    ("days", "size"), [(0.5, "raw"), (1.5, "minutes"), (7, "minutes"), (80, "minutes"), (90, "hours"), (400, "hours")]
)
def test_the_tier_is_the_coarsest_that_fills_the_points(days: float, size: str) -> None:
    """Reading finer rows than the chart can show is what makes a page slow."""
    span = Span(HOUR, HOUR + round(days * DAY_US))
    plan = planned(TableExtent(rolled_until=HOUR + 500 * DAY_US), span, 2_000)
    assert {part.size for part in plan.parts} == {size}
    assert plan.count <= 2_000


def test_a_span_over_every_tier_is_read_in_parts_that_touch() -> None:
    """Hours, then minutes, then samples: nothing twice, nothing left out."""
    kept = TableExtent(raw_from=HOUR + 10 * DAY_US, minutes_from=HOUR + 5 * DAY_US, rolled_until=HOUR + 19 * DAY_US)
    plan = planned(kept, Span(HOUR, HOUR + 20 * DAY_US), 2_000)
    assert [part.size for part in plan.parts] == ["hours", "minutes", "raw"]
    edges = [plan.start, *(part.span.end for part in plan.parts)]
    assert [part.span.start for part in plan.parts] == edges[:-1]
    assert plan.step_us % HOUR_US == 0
