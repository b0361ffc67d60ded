"""Minutes and hours say what the samples said: every integer to the unit, whatever came first, whoever added it up."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire.units import HOUR_US, MINUTE_US
from collector.lake.tiers import Span, merged_sql, overlaps, told_sql
from collector.store.database import Store
from collector.tier_tables import tier_tables, tiered
from tests.campaign import examples
from tests.collector.lake.tiers_samples import (
    HOUR,
    ROWS,
    SECOND,
    Row,
    add,
    anew,
    roll,
    rolled,
    sample,
    store_with,
    tier_rows,
)

GPU = tiered("gpu_samples")


def test_no_table_of_the_store_has_a_tier_s_name() -> None:
    """An older store that has tiers could not be migrated, and roll-ups would land in the analyzer's table."""
    with Store.open(None) as store, store.session() as session:
        there = {table for (table,) in session.rows("SELECT table_name FROM duckdb_tables()")}
    assert there >= {"runs", "ledger"}
    assert there.isdisjoint(tier_tables())


def test_a_minute_has_mean_extremes_and_how_long_they_were_told() -> None:
    """A mean without its weight cannot be merged, and a minute that was half silent must not pass for a whole one."""
    with store_with([sample(0, 10, power_watts=100.0), sample(10, 20, power_watts=400.0)]) as session:
        (minute,) = rolled(session, "gpu_minutes")
    assert minute["power_watts"] == 300.0
    assert (minute["power_watts_min"], minute["power_watts_max"]) == (100.0, 400.0)
    assert minute["power_watts_ms"] == minute["measured_ms"] == 30_000


def test_silence_is_no_row_and_what_was_not_told_is_null() -> None:
    """None is never 0: a GPU without readings has no minute, one without a power sensor no watts."""
    with store_with([sample(0, 10, utilization_ratio=0.5), sample(180, 10, utilization_ratio=0.5)]) as session:
        minutes = rolled(session, "gpu_minutes")
    assert [minute["started_at"] for minute in minutes] == [HOUR, HOUR + 3 * MINUTE_US]
    assert "power_watts" not in minutes[0]
    assert "pcie_receive_bytes" not in minutes[0]


def test_an_amount_that_crosses_an_edge_is_divided_to_the_unit() -> None:
    """7 bytes over 30 s, a third of them before the minute: 2 and 5, and nothing is lost between them."""
    with store_with([sample(50, 30, pcie_receive_bytes=7, energy_joules=0.000007)]) as session:
        minutes = rolled(session, "gpu_minutes")
    assert [minute["pcie_receive_bytes"] for minute in minutes] == [2, 5]
    assert [minute["energy_joules"] for minute in minutes] == [0.000002, 0.000005]


def test_distributions_are_milliseconds_in_bins_of_five_permille() -> None:
    """What the run's yardstick is made of: how long a GPU was how busy, and not only how busy on average."""
    busy = [sample(0, 40, utilization_ratio=0.997), sample(40, 20, utilization_ratio=0.004)]
    with store_with(busy) as session:
        (minute,) = rolled(session, "gpu_minutes")
    assert minute["utilization_ratio_histogram"] == [(0, 20_000), (995, 40_000)]


def test_the_driver_s_own_extremes_count() -> None:
    """Between two readings the driver sees peaks that the readings miss."""
    told = sample(0, 10, power_watts=300.0, power_watts_min=90.0, power_watts_max=690.0, sm_clock_hertz_min=5e8)
    with store_with([told]) as session:
        (minute,) = rolled(session, "gpu_minutes")
    assert (minute["power_watts_min"], minute["power_watts_max"]) == (90.0, 690.0)
    assert minute["sm_clock_hertz_min"] == 5e8


def test_a_fact_is_what_was_told_last() -> None:
    """A later silence does not take a counter or a recovery action back."""
    rows = [
        sample(0, 10, energy_joules_total=10.0, recovery_action="gpu_reset"),
        sample(10, 10, energy_joules_total=20.0, recovery_action="none"),
        sample(20, 10),
        sample(70, 10, energy_joules_total=15.0, recovery_action="gpu_reset"),
    ]
    with store_with(rows) as session:
        minute, _ = rolled(session, "gpu_minutes")
        (hour,) = tier_rows(session, "gpu_hours")
    assert (minute["energy_joules_total"], minute["recovery_action"]) == (20.0, "none")
    assert (hour["energy_joules_total"], hour["recovery_action"]) == (15.0, "gpu_reset")


def test_no_xid_is_taken_back_by_a_later_one() -> None:
    """Of an hour the newest is a clean-up, and the one before it is why a board is to be replaced."""
    rows = [
        sample(0, 10, xid_numbers="48,63,43", xid_last=43),
        sample(10, 10),
        sample(70, 10, xid_numbers="43,94", xid_last=94),
    ]
    with store_with(rows) as session:
        minutes = rolled(session, "gpu_minutes")
        (hour,) = tier_rows(session, "gpu_hours")
    assert [minute["xid_numbers"] for minute in minutes] == ["43,48,63", "43,94"]
    assert hour["xid_numbers"] == "43,48,63,94"


def test_time_in_which_a_gpu_was_lost_is_counted() -> None:
    """A flag has no mean: what matters is for how long it was down."""
    with store_with([sample(0, 20, up=True), sample(20, 15, up=False), sample(35, 5)]) as session:
        (minute,) = rolled(session, "gpu_minutes")
    assert (minute["measured_ms"], minute["down_ms"]) == (40_000, 15_000)


def test_what_is_told_twice_counts_once() -> None:
    """Two agents on one host, or an import beside one: a minute has no more than a minute."""
    twice = [sample(0, 10, pcie_receive_bytes=100), sample(0, 10, pcie_receive_bytes=100) | {"batch": 2}]
    overlapping = [sample(20, 10, xid_events=4), sample(25, 10, xid_events=8)]
    with store_with([*twice, *overlapping]) as session:
        (minute,) = rolled(session, "gpu_minutes")
    assert minute["pcie_receive_bytes"] == 100
    assert minute["xid_events"] == 2 + 8  # of the first its half that the second does not tell anew
    assert minute["measured_ms"] == 25_000


def test_late_samples_roll_the_hour_up_again() -> None:
    """The hour is replaced, whole: nothing counts twice, and the tier says what it would have said in time."""
    on_time, late = [sample(0, 10, xid_events=1)], [sample(600, 10, xid_events=5), sample(10, 10, xid_events=2)]
    with store_with(on_time) as session:
        rolled(session, "gpu_minutes")
        add(session, late)
        again, hours = rolled(session, "gpu_minutes"), tier_rows(session, "gpu_hours")
    with store_with([*on_time, *late]) as session:
        assert again == rolled(session, "gpu_minutes")
        assert hours == tier_rows(session, "gpu_hours")
    assert [hour["xid_events"] for hour in hours] == [8]


def test_an_hour_that_lost_its_samples_leaves_nothing_behind() -> None:
    """Rolling up is a function of the samples: none gives none."""
    with store_with([sample(0, 10)]) as session:
        rolled(session, "gpu_minutes")
        session.execute("DELETE FROM gpu_samples")
        assert rolled(session, "gpu_minutes") == []
        assert tier_rows(session, "gpu_hours") == []


def test_a_liar_s_sums_do_not_stop_the_others() -> None:
    """Each value passed its check; together they exceed 63 bits, and one host's nonsense must not stall the tiers."""
    lies = [sample(at, 1, pcie_receive_bytes=2**60) for at in range(12)]
    with store_with([*lies, sample(0, 1, gpu="GPU-b", pcie_receive_bytes=5)]) as session:
        lied, honest = rolled(session, "gpu_hours")
    assert lied["pcie_receive_bytes"] == 2**63 - 1
    assert honest["pcie_receive_bytes"] == 5


@pytest.mark.parametrize("count", examples(15, here=5))
def test_order_does_not_matter(count: int) -> None:
    """Same input, same tiers: neither the order of arrival nor that of the files may be seen."""

    @settings(max_examples=count)
    @given(st.lists(ROWS, max_size=12), st.randoms(use_true_random=False))
    def holds(rows: list[Row], chance: random.Random) -> None:
        shuffled = list(rows)
        chance.shuffle(shuffled)
        anew(session, rows)
        expected = (rolled(session, "gpu_minutes", hours=2), tier_rows(session, "gpu_hours"))
        anew(session, shuffled)
        assert (rolled(session, "gpu_minutes", hours=2), tier_rows(session, "gpu_hours")) == expected

    with store_with([]) as session:
        holds()


@pytest.mark.parametrize("count", examples(30, here=8))
def test_hours_from_minutes_are_hours_from_samples(count: int) -> None:
    """Merging loses nothing: distributions, amounts, weights, extremes, facts and means are the same."""

    @settings(max_examples=count)
    @given(st.lists(ROWS, max_size=12))
    def holds(rows: list[Row]) -> None:
        hour = Span(HOUR, HOUR + HOUR_US)
        anew(session, rows)
        from_minutes = [row for row in rolled(session, "gpu_hours") if row["started_at"] == HOUR]
        overlapping = overlaps(session, GPU, hour)
        session.execute("DELETE FROM gpu_hours")
        session.execute(f"INSERT INTO gpu_hours BY NAME {told_sql(GPU, hour, HOUR_US, overlapping=overlapping)}")
        assert tier_rows(session, "gpu_hours") == from_minutes

    with store_with([]) as session:
        holds()


@pytest.mark.parametrize("count", examples(15, here=6))
def test_how_an_hour_is_parted_does_not_matter(count: int) -> None:
    """A large hour is aggregated some minutes at a time; the parts must come to what the whole comes to."""

    @settings(max_examples=count)
    @given(st.lists(ROWS, max_size=12), st.integers(1, 59))
    def holds(rows: list[Row], minute: int) -> None:
        edge, hour = HOUR + minute * MINUTE_US, Span(HOUR, HOUR + HOUR_US)
        anew(session, rows)
        whole = rolled(session, "gpu_minutes")
        overlapping = overlaps(session, GPU, hour)
        session.execute("DELETE FROM gpu_minutes")
        for part in (Span(HOUR, edge), Span(edge, hour.end)):
            session.execute(
                f"INSERT INTO gpu_minutes BY NAME {told_sql(GPU, part, MINUTE_US, overlapping=overlapping)}"
            )
        assert tier_rows(session, "gpu_minutes") == whole

    with store_with([]) as session:
        holds()


@pytest.mark.parametrize("count", examples(15, here=6))
def test_integers_of_samples_that_do_not_overlap_are_all_there(count: int) -> None:
    """Over all hours that a sample reaches into, what it told is there: to the byte, the event and the millionth."""

    @settings(max_examples=count)
    @given(st.lists(ROWS, max_size=8))
    def holds(rows: list[Row]) -> None:
        apart = [
            row | {"started_at": HOUR + number * 200 * SECOND, "ended_at": HOUR + number * 200 * SECOND + length}
            for number, row in enumerate(rows)
            for length in [row["ended_at"] - row["started_at"]]  # type: ignore[operator]
        ]
        anew(session, apart)
        rolled(session, "gpu_hours", hours=2)
        for column in ("pcie_receive_bytes", "xid_events"):
            (told,) = session.row(f"SELECT sum({column}) FROM gpu_samples")
            assert session.row(f"SELECT sum({column}) FROM gpu_minutes") == (told,)
        (joules,) = session.row("SELECT sum(round(1e6 * energy_joules)::BIGINT) FROM gpu_samples")
        assert session.row("SELECT sum(round(1e6 * energy_joules)::BIGINT) FROM gpu_hours") == (joules,)

    with store_with([]) as session:
        holds()


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("host_samples", {"cpu_busy_ratio": 0.5}),
        ("disk_samples", {"device": "sda", "read_bytes": 5, "read_wait_seconds": 0.5}),
        ("network_samples", {"device": "ib0", "receive_bytes": 5, "speed_bytes_per_second": 5e10}),
        ("process_samples", {"run_id": "slurm/a/1", "gpu_uuid": None, "pid": 7, "workers": 3}),
        ("run_samples", {"run_id": "slurm/a/1", "cpu_seconds": 2.5, "cores_allotted": 8.0}),
        ("service_samples", {"run_id": "slurm/a/1", "engine": "vllm", "first_token_seconds_p99": 0.25}),
        ("flow_samples", {"run_id": "slurm/a/1", "peer": "n2", "transport": "tcp", "transmit_bytes": 9}),
    ],
)
def test_every_table_that_is_charted_has_tiers(table: str, row: Row) -> None:
    """Pages and detectors read hosts, devices, processes, runs, services and flows too."""
    told: Row = {"node": "n1", "started_at": HOUR + SECOND, "ended_at": HOUR + 11 * SECOND, "batch": 1} | row
    with store_with([told], table) as session:
        stem = table.removesuffix("_samples")
        for size in ("minutes", "hours"):
            (kept,) = rolled(session, f"{stem}_{size}")
            assert {name: kept.get(name) for name in row} == row
            assert kept["measured_ms"] == 10_000


def test_no_approximation_and_no_float_sum_makes_a_tier() -> None:
    """approx_quantile gave three ledgers in three runs; so would sums of floats that threads add up as they come."""
    for name in ("gpu_samples", "host_samples", "service_samples"):
        table = tiered(name)
        text = told_sql(table, Span(HOUR, HOUR + HOUR_US), MINUTE_US, overlapping=True)
        text += merged_sql(table, table.name("minutes"), Span(HOUR, HOUR + HOUR_US), HOUR_US)
        assert "approx_" not in text
        assert "avg(" not in text
        for kept in table.kept:
            if kept.type == "DOUBLE" and "sum(" in kept.told:
                assert "::BIGINT" in kept.told, kept.name


def test_the_tiers_follow_from_the_contract() -> None:
    """A column that the contract gains is in the tiers without anybody's thinking of it, or its test fails here."""
    told = {kept.name for kept in GPU.kept}
    folded = {"power_watts_min", "power_watts_max", "sm_clock_hertz_min"}
    for column in GPU.source.columns:
        if column.kind != "key":
            assert column.name in told | folded or column.name == "up"
    assert set(tier_tables()) >= {"gpu_minutes", "gpu_hours", "service_hours"}


def test_only_whole_hours_are_rolled_up() -> None:
    """Half an hour rolled up would be taken for a whole one."""
    with store_with([]) as session, pytest.raises(AssertionError, match="BUG"):
        roll(session, Span(HOUR + 1, HOUR + HOUR_US))
