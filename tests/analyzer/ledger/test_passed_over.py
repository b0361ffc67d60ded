"""What a pass leaves out, because a table has no row, would have given nothing: each such statement is run here."""

import re
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from agent.wire.tables import TABLES
from analyzer.ledger import amounts, booking, pending
from analyzer.queries import statements as sql
from collector.store.session import Session
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet
from tests.analyzer.ledger.generated import generate
from tests.analyzer.small_site import small_site

_MADE = re.compile(r"TEMP TABLE (\w+)|INTO (\w+)")
_RUN = "slurm/alpha/1"
_BOOKED = ("ledger", "ledger_hours", "run_windows", "traffic_amounts", "amount_hours", "not_evaluated")


@pytest.fixture
def passed_over(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what is passed over, by its first lines; each is run as well, and must have given nothing."""
    counted: Counter[str] = Counter()
    skip = sql.pass_over

    def compared(session: Session, statement: str, given: dict[str, object]) -> None:
        assert session.changed(statement, given) == 0, statement
        counted[statement] += 1
        made = re.search(r"^CREATE OR REPLACE TEMP TABLE (\w+)", statement, re.MULTILINE)
        columns = session.rows(f"DESCRIBE {made[1]}") if made else []
        skip(session, statement, given)
        if made:
            skip(session, statement, given)  # by now its columns are known
            assert session.rows(f"DESCRIBE {made[1]}") == columns
            assert session.rows(f"FROM {made[1]}") == []

    monkeypatch.setattr(sql, "pass_over", compared)
    return counted


def _small() -> Fleet:
    fleet = Fleet()
    fleet.own("n0", ["g0", "g1"])
    fleet.hold(_RUN, "n0", ["g0"], MONDAY, MONDAY + HOUR)
    fleet.sample("n0", "g0", MONDAY, MONDAY + 2 * HOUR)
    return fleet


def test_a_pass_over_few_tables_leaves_out_only_what_gives_nothing(passed_over: Counter[str]) -> None:
    """A GPU that works and one that nobody has sampled; then the same once more, with an hour more."""
    fleet = _small()
    fleet.analyze()
    assert len(passed_over) > 40
    fleet.sample("n0", "g0", MONDAY + 2 * HOUR, MONDAY + 4 * HOUR)
    fleet.analyze()


def test_a_pass_without_a_run_leaves_out_only_what_gives_nothing(passed_over: Counter[str]) -> None:
    """Owned GPUs that nobody holds, with samples and without any."""
    idle = Fleet()
    idle.own("n0", ["g0"])
    assert idle.analyze(MONDAY + HOUR).hours == 0  # until when they are owned nobody knows yet
    idle.sample("n0", "g0", MONDAY, MONDAY + HOUR, utilization_ratio=0.0, sm_active_ratio=0.0)
    idle.analyze(MONDAY + 2 * HOUR)
    assert any("run_windows_here" in statement for statement in passed_over)


@pytest.mark.parametrize(
    "missing", ["service_samples progress network_samples", "process_samples run_samples disk_samples"]
)
def test_a_pass_that_lacks_some_tables_leaves_out_only_what_gives_nothing(
    passed_over: Counter[str], missing: str
) -> None:
    """The others have rows, of the run and of its host, and something comes late."""
    fleet = _small()
    generate(fleet, seed=len(missing), hosts=1)
    span = {"node": "n0", "started_at": MONDAY, "ended_at": MONDAY + 10 * MINUTE}
    of_run = span | {"run_id": _RUN}
    more: dict[str, dict[str, object]] = {
        "service_samples": of_run | {"requests": 7},
        "progress": of_run | {"steps": 5, "data_wait_seconds": 1.0},
        "process_samples": of_run | {"gpu_uuid": "g0", "pid": 7, "cpu_seconds": 60.0},
        "run_samples": of_run | {"cpu_seconds": 60.0},
        "disk_samples": span | {"device": "nvme0n1", "mount_kind": "block", "written_bytes": 2**30},
        "host_samples": span | {"cpu_busy_ratio": 0.5},
        "network_samples": span | {"device": "ib0", "link_kind": "infiniband", "transmit_bytes": 2**30},
    }
    with fleet.store.session() as session:
        for table in missing.split():
            session.execute(f"DELETE FROM {table}")
    for table, row in more.items():
        if table not in missing.split():
            fleet.add(table, [row])
    fleet.analyze()
    late = [{**row, "started_at": MONDAY + HOUR, "ended_at": MONDAY + HOUR + MINUTE} for row in more.values()]
    for table, row in zip(more, late, strict=True):
        fleet.add(table, [row])
    fleet.analyze()
    assert passed_over


def test_each_table_that_a_statement_needs_is_one_of_the_store_or_is_made_by_a_pass() -> None:
    """A name that was misspelt would never be without rows, and nothing would be left out."""
    every = "\n".join(path.read_text() for path in (sql.ROOMS / "ledger" / "sql").rglob("*.sql"))
    made = {first or second for first, second in _MADE.findall(every)}
    named = re.findall(r"^-- only with (.+)$", every, re.MULTILINE)
    wanted = {name for names in named for name in re.split(r", |\|", names)}
    with Fleet().store.session() as session:
        there = {name for (name,) in session.rows("SELECT table_name FROM duckdb_tables()")}
    assert wanted - made - there - TABLES.keys() - {"service_runs"} == set()


def _with_a_gap(fleet: Fleet) -> None:
    """Own a GPU for an hour and again two hours later; it works all the time, and sends over NVLink at the end."""
    for since in (MONDAY, MONDAY + 3 * HOUR):
        own = {"node": "n0", "gpu_uuid": "g0", "sku": "H100-80GB", "purchase_option": "on_demand"}
        fleet.add("ownership", [own | {"owned_from": since, "owned_until": since + HOUR}])
    fleet.hold(_RUN, "n0", ["g0"], MONDAY, MONDAY + 5 * HOUR)
    fleet.sample("n0", "g0", MONDAY + 10 * MINUTE, MONDAY + 4 * HOUR)
    fleet.sample("n0", "g0", MONDAY + 4 * HOUR, MONDAY + 5 * HOUR, nvlink_transmit_bytes=10**9)


@pytest.mark.parametrize(
    "fill",
    [
        _with_a_gap,
        *(partial(generate, seed=seed, hosts=4) for seed in (3, 4)),
        pytest.param(small_site, marks=pytest.mark.soak),
    ],
    ids=["gap", "drawn 3", "drawn 4", "small site"],
)
def test_what_is_left_out_before_it_is_a_statement_would_have_changed_nothing(
    fill: Callable[[Fleet], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is touched where nothing is booked, joins to what nobody told, who was where when no bytes were told."""
    said, beside = [], booking._beside
    for is_whole in (False, True):
        fleet = Fleet()
        fill(fleet)
        if is_whole:
            monkeypatch.setattr(pending, "_is_any_booked", lambda _: True)
            monkeypatch.setattr(amounts, "_is_traffic_told", lambda *_: True)
            monkeypatch.setattr(booking, "_beside", lambda _: beside(frozenset()))
        fleet.analyze()
        with fleet.store.session() as session:
            tables = {name: session.rows(f"FROM {name} ORDER BY ALL") for name in _BOOKED}
        assert all(tables[name] for name in ("ledger", "ledger_hours", "run_windows"))
        said.append(tables)
    assert said[0] == said[1]
