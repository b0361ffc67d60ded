"""Minutes read as samples: the contract's columns, silence still silent, amounts whole."""

from collector.store.database import Store
from collector.tiers import schema
from collector.tiers.as_samples import add_views
from collector.tiers.pieces import Span
from collector.tiers.tables import HOUR_US, TIERED
from tests.tiers.samples import HOUR, Row, add, roll, sample


def _read(rows: list[Row], sql: str, samples_from: int | None = None) -> list[tuple[object, ...]]:
    """Return a query's rows, read through the views of a store from which the samples are gone."""
    with Store.open(None) as store, store.session() as session:
        schema.make_tables(store)
        add(session, rows)
        roll(session, Span(HOUR, HOUR + 2 * HOUR_US))
        session.execute("DELETE FROM gpu_samples")
        add(session, [row for row in rows if row["started_at"] >= (samples_from or 2**62)])  # type: ignore[operator]
        add_views(store, session, samples_from=samples_from or 2**62)
        return session.rows(sql)


def test_a_minute_is_a_sample_of_the_same_columns() -> None:
    """Every query over samples runs over minutes: that is what the view is for."""
    rows = [
        sample(at, 10, up=True, power_watts=300.0, pcie_receive_bytes=5, utilization_ratio=0.5)
        for at in range(0, 60, 10)
    ]
    assert _read(
        rows, "SELECT started_at, ended_at, up, power_watts, pcie_receive_bytes, utilization_ratio FROM gpu_samples"
    ) == [(HOUR, HOUR + 60_000_000, True, 300.0, 30, 0.5)]


def test_a_minute_that_was_half_silent_is_half_a_sample() -> None:
    """Otherwise thirty seconds of silence would count as measured."""
    assert _read([sample(0, 30, up=True)], "SELECT ended_at - started_at FROM gpu_samples") == [(30_000_000,)]


def test_a_gpu_that_was_lost_for_most_of_a_minute_is_lost() -> None:
    """A flag has no half; what was not told is up, as in a sample."""
    rows = [sample(0, 20), sample(20, 40, up=False), sample(60, 60)]
    assert _read(rows, "SELECT up FROM gpu_samples ORDER BY started_at") == [(False,), (True,)]


def test_samples_go_before_minutes_where_they_are_kept() -> None:
    """Nothing is read twice: each moment from one of them."""
    rows = [sample(at, 10, xid_events=1) for at in range(0, 7200, 10)]
    kept = HOUR + HOUR_US
    assert _read(rows, "SELECT count(*), sum(xid_events) FROM gpu_samples", kept) == [(60 + 360, 720)]


def test_every_table_with_tiers_has_its_view() -> None:
    """The views are made together: one that fails would take the page with it."""
    for table in TIERED:
        assert _read([], f"SELECT * FROM {table}") == []
