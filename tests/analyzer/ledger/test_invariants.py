"""The nine invariants of the ledger, held over fleets that nobody would build on purpose."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analyzer.findings.ledger_findings import findings
from analyzer.states import BOOKINGS, LOSABLE
from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet, priced
from tests.analyzer.ledger.generated import generate
from tests.campaign import examples

T = MONDAY
RUN = "slurm/alpha/1"
PRICES = {"H100_80GB": 2.60, "A100_80GB": 1.10}  # a V100 has no price here

# What is owned of each GPU in each hour, counted without the ledger's own SQL: a microsecond line, cut at hours.
_OWNED = """
WITH evidence AS (
    SELECT started_at, ended_at FROM gpu_samples
    UNION ALL SELECT started_at, coalesce(ended_at, started_at) FROM allocations
    UNION ALL SELECT started_at, ended_at FROM node_states
), bounds AS (
    SELECT min(started_at) // 86400000000 * 86400000000 AS low, max(ended_at) AS high FROM evidence
), declared AS (
    SELECT gpu_uuid, min(owned_from) AS low FROM ownership GROUP BY 1
), hours AS (
    SELECT gpu_uuid, unnest(range(low // 3600000000 * 3600000000, (SELECT high FROM bounds), 3600000000)) AS hour, low
    FROM declared
)
SELECT gpu_uuid, hour,
    least(hour + 3600000000, (SELECT high FROM bounds)) // 1000 - greatest(hour, low) // 1000 AS ms
FROM hours WHERE hour >= (SELECT low FROM bounds)
"""


one_pass = OnePass()


@pytest.fixture(scope="module", params=examples(1_000, here=300))
def many(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Fleet:
    """Hundreds of generated fleets of one host each, side by side in one store."""
    fleet = Fleet(threads=2)
    for seed in range(10):
        generate(fleet, seed, hosts=request.param // 10)
    fleet.analyze(settings=priced(tmp_path_factory.mktemp("prices"), **PRICES))
    return fleet


def test_every_millisecond_owned_is_booked_once(many: Fleet) -> None:
    """Conservation: per GPU and hour the rows sum to what is owned, whatever was lost, shared or overlapping."""
    assert _not_booked_once(many) == []
    with many.store.session() as session:
        gpus = session.row("SELECT count(DISTINCT gpu_uuid) FROM ledger")[0]
        hours = session.row("SELECT count(*) FROM (SELECT DISTINCT gpu_uuid, hour FROM ledger)")[0]
    assert gpus > 300
    assert hours > 3 * gpus


def test_no_row_is_empty_or_negative(many: Fleet) -> None:
    """A rounding that takes from one row what it gave another would show here."""
    with many.store.session() as session:
        assert session.row("SELECT count(*) FROM ledger WHERE milliseconds <= 0 OR cost_micros < 0")[0] == 0


def test_costs_sum_to_the_price_of_what_is_owned(many: Fleet) -> None:
    """To the millionth, per GPU, hour and kind of purchase; a kind without a price costs unknown, never 0."""
    with many.store.session() as session:
        off = session.rows(
            """
            SELECT gpu_uuid, hour, sku, purchase_option, sum(milliseconds) AS ms, sum(cost_micros) AS cost FROM ledger
            WHERE sku IN ('H100-80GB', 'A100-80GB') GROUP BY ALL
            HAVING cost <> (ms * if(sku = 'H100-80GB', 2600000, 1100000) * 2 + 3600000) // 7200000
            """
        )
        unpriced = session.row("SELECT count(cost_micros) FROM ledger WHERE sku = 'V100-16GB' OR sku IS NULL")[0]
    assert off == []
    assert unpriced == 0


def test_only_known_words_are_booked(many: Fleet) -> None:
    """Every state and cause of the ledger is in the table that people are shown."""
    known = {(b.state, b.cause) for b in BOOKINGS}
    assert set(many.states()) <= known


def test_lost_work_takes_only_what_was_work(many: Fleet) -> None:
    """What it would otherwise be is kept beside it."""
    with many.store.session() as session:
        rows = session.rows(
            "SELECT DISTINCT state, would_be FROM ledger WHERE state = 'lost_work' OR would_be IS NOT NULL"
        )
    assert rows
    assert {state for state, _ in rows} == {"lost_work"}
    assert {would_be for _, would_be in rows} <= LOSABLE


def test_findings_partition_what_is_avoidable(many: Fleet) -> None:
    """At stake sums to avoidable, in time and in money; a suspicion claims nothing of it."""
    avoidable = [(b.state, b.cause) for b in BOOKINGS if b.klass == "avoidable"]
    with many.store.session() as session:
        found = [finding for finding in findings(session, T - DAY, T + DAY) if not finding.suspicion]
        rows = session.rows("SELECT state, cause, sum(milliseconds), sum(cost_micros) FROM ledger GROUP BY ALL")
    booked = [(ms, cost or 0) for state, cause, ms, cost in rows if (state, cause) in avoidable]
    assert sum(f.milliseconds for f in found) == sum(ms for ms, _ in booked)
    assert sum(f.at_stake_micros or 0 for f in found) == sum(cost for _, cost in booked)
    assert len({f.id for f in found}) == len(found)


@pytest.mark.parametrize(("hosts", "times"), [(15, 2), pytest.param(60, 3, marks=pytest.mark.soak)])
def test_the_same_input_gives_the_same_ledger(hosts: int, times: int, tmp_path: Path) -> None:
    """Byte for byte: no approximate aggregate and no sum of floats decides a state."""
    ledgers = []
    for _ in range(times):
        fleet = Fleet(threads=2)
        generate(fleet, 77, hosts)
        fleet.analyze(settings=priced(tmp_path, **PRICES))
        ledgers.append(repr(fleet.rows()).encode())
    assert len(set(ledgers)) == 1


def test_analysing_again_without_news_changes_nothing() -> None:
    """A pass with nothing to do does nothing."""
    fleet = Fleet()
    generate(fleet, 5, hosts=5)
    fleet.analyze()
    before = fleet.rows()
    assert fleet.analyze().hours == 0
    assert fleet.rows() == before


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(seed=st.integers(0, 2**32), hosts=st.integers(1, 3))
def test_conservation_holds_for_any_small_fleet(seed: int, hosts: int) -> None:
    """The same, one fleet a store, so that a failure shrinks to something that can be read."""
    _conserves(seed, hosts)


@pytest.mark.soak
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(seed=st.integers(0, 2**32), hosts=st.integers(1, 3))
def test_conservation_holds_for_many_small_fleets(seed: int, hosts: int) -> None:
    """The same at length."""
    _conserves(seed, hosts)


def _conserves(seed: int, hosts: int) -> None:
    fleet = Fleet()
    generate(fleet, seed, hosts)
    fleet.analyze()
    assert _not_booked_once(fleet) == []
    fleet.store.close()


@one_pass
def test_four_pods_on_one_gpu_divide_it(fleet: Fleet) -> Iterator[None]:
    """A shared millisecond is divided in whole parts, and the rows say that the driver could not tell them apart."""
    fleet.own("n1", ["G1"])
    pods = [f"kubernetes/prod/{pod}" for pod in range(4)]
    for run in pods:
        fleet.hold(run, "n1", ["G1"], T + HOUR // 2 if run == pods[3] else T, T + HOUR, name="train")
    fleet.sample("n1", "G1", T, T + HOUR)
    yield
    parts = [sum(fleet.states(run).values()) for run in pods]
    assert parts == [1_050_000, 1_050_000, 1_050_000, 450_000]
    assert fleet.seen("shared") == [True]


@one_pass
def test_a_thousand_sharers_lose_nothing(fleet: Fleet) -> Iterator[None]:
    """However small the parts become, they sum to the GPU."""
    fleet.own("n1", ["G1"])
    rows = [
        {"run_id": f"kubernetes/prod/{pod}", "node": "n1", "gpu_uuid": "G1", "started_at": T, "ended_at": T + HOUR}
        for pod in range(1_000)
    ]
    fleet.add("allocations", rows)
    fleet.sample("n1", "G1", T, T + HOUR, every=HOUR)
    yield
    assert sum(fleet.states().values()) == 3_600_000
    assert sum(fleet.states("kubernetes/prod/999").values()) == 3_600


@one_pass
def test_a_mig_gpu_is_divided_by_its_slices(fleet: Fleet) -> Iterator[None]:
    """Seven slices: three held and working, one free, three that no instance covers."""
    fleet.own("n1", ["G1"])
    at = {"node": "n1", "started_at": T, "ended_at": T + 1}
    fleet.add(
        "inventory",
        [
            at | {"gpu_uuid": "G1", "mig_slices_max": 7},
            at | {"gpu_uuid": "M3", "parent_uuid": "G1", "mig_slices": 3},
            at | {"gpu_uuid": "M1", "parent_uuid": "G1", "mig_slices": 1},
        ],
    )
    fleet.hold(RUN, "n1", ["M3"], T, T + HOUR)
    fleet.sample("n1", "M3", T, T + HOUR, parent_uuid="G1", utilization_ratio=None, utilization_zero_ratio=None)
    fleet.sample("n1", "M1", T, T + HOUR, parent_uuid="G1", utilization_ratio=None, sm_active_ratio=0.0)
    fleet.sample("n1", "G1", T, T + HOUR, utilization_ratio=None, sm_active_ratio=None)
    yield
    assert fleet.states() == {
        ("productive", "compute"): 1_542_857,
        ("unallocated", "free"): 514_286,
        ("unallocated", "fragmented"): 1_542_857,
    }


@one_pass
def test_a_mig_instance_without_figures_is_not_idle(fleet: Fleet) -> Iterator[None]:
    """The driver reports no utilization of an instance: that is unknown, and accuses nobody."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR, utilization_ratio=None, utilization_zero_ratio=None, sm_active_ratio=None)
    yield
    assert fleet.states() == {("unobserved", "gap"): 3_600_000}


@one_pass
def test_overlapping_allocations_count_once(fleet: Fleet) -> Iterator[None]:
    """A scheduler's whole seconds overlap at the edges: the second is divided, never doubled."""
    fleet.own("n1", ["G1"])
    second = MINUTE // 60
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, T + 30 * MINUTE + second)
    fleet.hold("slurm/alpha/2", "n1", ["G1"], T + 30 * MINUTE, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR)
    yield
    assert sum(fleet.states("slurm/alpha/1").values()) == 1_800_500
    assert sum(fleet.states("slurm/alpha/2").values()) == 1_799_500


@one_pass
def test_the_scheduler_is_believed_before_the_process(fleet: Fleet) -> Iterator[None]:
    """One source at a time: a process seen on a GPU does not halve what its job holds."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR // 2)
    fleet.hold("process/n1/4711.99", "n1", ["G1"], T, T + HOUR, scheduler="process")
    fleet.sample("n1", "G1", T, T + HOUR)
    yield
    assert sum(fleet.states(RUN).values()) == 1_800_000
    assert sum(fleet.states("process/n1/4711.99").values()) == 1_800_000


@one_pass
def test_a_gpu_that_arrives_mid_hour_is_owned_from_then_on(fleet: Fleet) -> Iterator[None]:
    """The hour of its arrival is shorter, and costs less."""
    fleet.add("ownership", [{"node": "n1", "gpu_uuid": "G1", "owned_from": T + 20 * MINUTE, "sku": "H100-80GB"}])
    fleet.sample("n1", "G1", T, T + HOUR)
    yield
    assert sum(fleet.states().values()) == 2_400_000


def test_late_failure_becomes_an_adjustment_of_a_closed_week() -> None:
    """A run that began last week fails this week: last week's rows stay, and rows dated now correct them."""
    fleet = Fleet()
    fleet.own("n1", ["G1"])
    sunday = T + 6 * DAY
    fleet.hold(RUN, "n1", ["G1"], sunday)
    fleet.sample("n1", "G1", sunday, sunday + 2 * HOUR)
    fleet.write("n1", sunday, sunday + 2 * HOUR)
    later = T + 10 * DAY
    fleet.analyze(now=later)
    closed = fleet.rows()
    fleet.hold(RUN, "n1", ["G1"], sunday, sunday + 2 * HOUR, exit_status="failed")
    done = fleet.analyze(now=later + DAY)
    assert fleet.rows() == closed
    assert done.adjustments == 4
    assert fleet.states(table="adjustments") == {
        ("productive", "compute"): -7_200_000,
        ("lost_work", "failed"): 7_200_000,
    }
    assert fleet.analyze(now=later + 2 * DAY).adjustments == 0


def test_an_open_hour_is_rewritten_whole() -> None:
    """Before its week is closed, what is learned later replaces the hour it touches."""
    fleet = Fleet()
    fleet.own("n1", ["G1"])
    fleet.sample("n1", "G1", T, T + HOUR)
    fleet.analyze(now=T + 2 * HOUR)
    assert fleet.states() == {("unallocated", "free"): 3_600_000}
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.analyze(now=T + 2 * HOUR)
    assert fleet.states() == {("productive", "compute"): 3_600_000}
    assert fleet.states(table="adjustments") == {}


def _not_booked_once(fleet: Fleet) -> list[tuple[object, ...]]:
    """Return the hours of declared GPUs whose rows do not sum to what is owned; nobody else's may exceed the hour."""
    with fleet.store.session() as session:
        return session.rows(
            f"""
            WITH booked AS (SELECT gpu_uuid, hour, sum(milliseconds) AS ms FROM ledger GROUP BY ALL)
            SELECT gpu_uuid, hour, o.ms, b.ms FROM ({_OWNED}) o LEFT JOIN booked b USING (gpu_uuid, hour)
            WHERE o.ms > 0 AND o.ms IS DISTINCT FROM b.ms
            UNION ALL SELECT gpu_uuid, hour, 3600000, ms FROM booked WHERE ms > 3600000
            """
        )


@one_pass.each((None, 2_000), (2.5, 0))
def test_scheduler_edges_within_the_clocks_offset_mint_no_state(
    fleet: Fleet, offset: float | None, free: int
) -> Iterator[None]:
    """Two seconds between two runs are two clocks that disagree, once the agent has measured that they do."""
    fleet.own("n1", ["G1"])
    fleet.hold("slurm/alpha/1", "n1", ["G1"], T, T + HOUR // 2, name="train")
    fleet.hold("slurm/alpha/2", "n1", ["G1"], T + HOUR // 2 + 2_000_000, T + HOUR, name="train")
    fleet.sample("n1", "G1", T, T + HOUR)
    beat = {"node": "n1", "started_at": T, "ended_at": T + MINUTE, "clock_offset_seconds": offset}
    fleet.add("agent_samples", [beat])
    yield
    assert fleet.states().get(("unallocated", "free"), 0) == free
