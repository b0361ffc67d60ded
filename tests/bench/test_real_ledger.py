"""The ledger of real recordings, brought in as a stranger would: with gpuledger import, from CSV files."""

import csv
from dataclasses import dataclass
from pathlib import Path

import pytest

from analyzer.analysis import analyze
from analyzer.findings.finding import Finding
from analyzer.findings.ledger_findings import findings
from analyzer.settings.settings import Settings
from collector.cli.imports import import_
from collector.store.database import Store
from tests.analyzer.ledger.fleet import priced
from tests.bench.real_convert import Tables, helios, idle_gpu_hours, kineto

LATER = 4_000_000_000_000_000  # any time after the recordings
HOUR_MS = 3_600_000


def _import(directory: Path, tables: Tables) -> Path:
    """Write each table as a CSV file of its name and import them all."""
    files = []
    for name, rows in tables.items():
        files.append(directory / f"{name}.csv")
        with files[-1].open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    store = directory / "store.duckdb"
    assert import_([*map(str, files), "--store", str(store)]) == 0
    return store


def _ledger(path: Path, settings: Settings) -> tuple[dict[tuple[str, str | None, str | None], int], list[Finding]]:
    """Return milliseconds by state, cause and suspicion, and the findings."""
    with Store.open(path) as store:
        analyze(store, settings, now_us=LATER)
        with store.session() as session:
            rows = session.rows("SELECT state, cause, suspicion, sum(milliseconds)::BIGINT FROM ledger GROUP BY ALL")
            return {(state, cause, why): ms for state, cause, why, ms in rows}, findings(session, 0, LATER)


@dataclass(frozen=True)
class Month:
    """A month of a real cluster by the minute, analysed: where it is stored, and what the ledger says."""

    cluster: str
    gpus: int
    idle_gpu_hours: int
    store: Path
    states: dict[tuple[str, str | None, str | None], int]
    found: list[Finding]


@pytest.fixture(
    scope="module", params=[("vcTJs", 48, 9_648), pytest.param(("vcSoL", 32, 12_475), marks=pytest.mark.soak)], ids=str
)
def month(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Month:
    """Two real clusters, of which nobody sampled a GPU."""
    cluster, gpus, idle = request.param
    folder, tables = tmp_path_factory.mktemp(cluster), helios(cluster, gpus)
    for row in tables["ownership"]:
        row |= {"sku": "V100-32GB", "purchase_option": "owned"}
    store = _import(folder, tables)
    return Month(cluster, gpus, idle, store, *_ledger(store, priced(folder, V100_32GB=0.80)))


def test_what_nobody_holds_is_what_the_trace_calls_idle(month: Month) -> None:
    """Unallocated is the trace's own count of idle GPU-hours."""
    states, gpus = month.states, month.gpus
    unallocated = sum(ms for (state, _, _), ms in states.items() if state == "unallocated") / HOUR_MS
    assert unallocated == pytest.approx(month.idle_gpu_hours, rel=0.001)
    assert unallocated == pytest.approx(idle_gpu_hours(month.cluster), rel=1e-9)
    assert sum(states.values()) == gpus * 31 * 24 * HOUR_MS
    with Store.open(month.store) as store, store.session() as session:
        (cost,) = session.row("SELECT sum(cost_micros)::BIGINT FROM ledger")
        off = session.rows(
            "SELECT gpu_uuid, hour FROM ledger GROUP BY ALL"
            " HAVING sum(milliseconds) <> 3600000 OR sum(cost_micros) <> 800000"
        )
    assert cost == gpus * 31 * 24 * 800_000
    assert off == []


def test_an_allocation_without_samples_is_not_measured(month: Month) -> None:
    """Nobody sampled those GPUs: what was held is neither productive nor idle."""
    assert {state for state, _, _ in month.states} == {"unallocated", "unobserved"}
    assert month.found == []


def test_a_starved_v100_is_told_from_its_gpu_alone(tmp_path: Path) -> None:
    """Without a host's figures it may not be called starved: it is unexplained, with input as the named suspicion.

    The truth, which was not imported: the trainer waited for its loader for 39.6% of the recording.
    """
    states, found = _ledger(_import(tmp_path, kineto("num_workers_0_a")), Settings())
    suspected = sum(ms for (state, _, why), ms in states.items() if state == "starved" or why == "loader_software")
    assert 0.296 <= suspected / sum(states.values()) <= 0.496
    assert [finding.confidence for finding in found] == ["low"]
    assert found[0].suspicion
    assert "input" in found[0].what


def test_the_same_training_with_a_loader_accuses_nobody(tmp_path: Path) -> None:
    """Its GPU has short gaps too; they are no input starvation. The truth: 1.0%."""
    states, found = _ledger(_import(tmp_path, kineto("num_workers_4_a")), Settings())
    starved = sum(ms for (state, _, why), ms in states.items() if state == "starved" or why is not None)
    assert starved / sum(states.values()) <= 0.05
    assert [finding for finding in found if finding.confidence != "low"] == []
