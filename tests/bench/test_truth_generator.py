"""The generator of labelled runs judges the analyzer; who judges the judge are these."""

import ast
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from agent.wire.tables import TABLES
from analyzer.states import booking
from bench.truth.archetypes.registry import ARCHETYPES
from bench.truth.design import cells
from bench.truth.draw import Cell
from bench.truth.gpu_sensors import DRIVER_HZ
from bench.truth.rows import fill, rows_of
from bench.truth.runs import HOUR_SECONDS, SECOND_US, SimulatedRun
from collector.store.database import Store

TRUTH = Path(__file__).parents[2] / "bench" / "truth"
SHORT = 2400  # seconds: every kind has left its start by then
NO_KERNEL = {"starved", "held_idle", "headroom", "checkpointing", "unexplained"}
ALWAYS_A_KERNEL = {"communicating", "throttled"}


def _cell(name: str, *, seed: int = 1, dirty: bool = False, every: int = 10, gpm: bool = True) -> Cell:
    kind = ARCHETYPES[name]
    return Cell(name, 3.0 if kind.stepped else None, kind.ranks[-1], every, gpm, dirty, seed)


@pytest.mark.parametrize("dirty", [False, True])
@pytest.mark.parametrize("name", ARCHETYPES)
def test_labels_cover_every_held_millisecond_once(name: str, dirty: bool) -> None:
    """What is labelled twice or not at all would be held against the ledger."""
    run = SimulatedRun.make(_cell(name, dirty=dirty, every=1), SHORT)
    for rank in range(run.cell.ranks):
        by_hour = run.by_hour(rank)
        for hour, labels in by_hour.items():
            end = min(hour + HOUR_SECONDS * SECOND_US, run.ended_at)
            assert sum(labels.values()) == (end - max(hour, run.started_at)) // 1000 // run.sharers
            assert min(labels.values()) > 0
        assert sum(sum(labels.values()) for labels in by_hour.values()) == SHORT * 1000 // run.sharers


@pytest.mark.parametrize("name", ["shared_trainer", "shared_starved", "shared_services"])
def test_two_runs_of_one_gpu_have_half_of_it_each_and_truths_of_their_own(name: str) -> None:
    """The GPU's sensors tell the sum once; each run tells of its own processes, and holds the same GPU."""
    run = SimulatedRun.make(_cell(name), SHORT)
    (guest,) = run.beside()
    assert guest.run_id != run.run_id
    assert guest.beside() == []
    assert sum(run.truth().values()) == sum(guest.truth().values()) == SHORT * 500
    assert run.truth() != guest.truth()
    tables = {table for table, _ in rows_of(guest)}
    assert {"process_samples", "run_samples", "allocations"} <= tables
    assert not tables & {"gpu_samples", "host_samples", "ownership", "inventory"}
    (own,), (others,) = (
        {row["gpu_uuid"] for table, rows in rows_of(one) if table == "allocations" for row in rows.to_pylist()}
        for one in (run, guest)
    )
    assert own == others


@pytest.mark.parametrize(
    ("name", "cause"), [("broke_off", None), ("broke_off_unsaved", None), ("displaced", "preempted")]
)
def test_what_a_failed_attempt_lost_is_what_came_after_its_last_checkpoint(name: str, cause: str | None) -> None:
    """By the second: no work is lost before the end of the last save, and all of it after that."""
    run = SimulatedRun.make(_cell(name), 3 * SHORT)
    ended = run.draw.attempts[0][0] if run.draw.attempts else run.seconds
    states = [{state for state, _ in labels} for labels in run.labels_by_second(0)[: int(ended)]]
    saved = max((at for at, of in enumerate(states) if "checkpointing" in of), default=-1)
    lost = [at for at, of in enumerate(states) if "lost_work" in of]
    assert lost
    assert min(lost) >= saved
    assert all("productive" not in of for of in states[max(saved + 1, lost[0] + 1) :])
    if name == "broke_off_unsaved":
        assert saved == -1
    causes = {label[1] for label in run.truth() if label[0] == "lost_work"}
    assert causes == {cause or ("node_failed" if run.draw.exit_status == "node_failed" else "failed")}


@pytest.mark.parametrize("name", ARCHETYPES)
def test_every_second_is_labelled_whole_in_words_of_the_ledger(name: str) -> None:
    """A label that the ledger does not know could never be matched."""
    run = SimulatedRun.make(_cell(name), SHORT)
    for rank in {0, run.cell.ranks - 1}:
        for labels in run.labels_by_second(rank):
            assert sum(labels.values()) == pytest.approx(1.0, abs=1e-6)
            for label in labels:
                assert booking(*label).state == label[0]


@pytest.mark.parametrize("name", ARCHETYPES)
def test_utilization_agrees_with_the_labels(name: str) -> None:
    """Input starvation has no kernel, a collective always has one: a driver could see nothing else."""
    run = SimulatedRun.make(_cell(name, every=1), SHORT)
    for rank in {0, run.cell.ranks - 1}:
        line = run.lines[run.draw.group_of_rank[rank]]
        used = line.means(("utilization",), np.arange(SHORT + 1.0))["utilization"]
        for labels, utilization in zip(run.labels_by_second(rank), used, strict=True):
            of_state = {state: 0.0 for state, _ in labels}
            for (state, _), share in labels.items():
                of_state[state] += share
            still = sum(share for state, share in of_state.items() if state in NO_KERNEL)
            moving = sum(share for state, share in of_state.items() if state in ALWAYS_A_KERNEL)
            if run.sharers > 1:
                continue  # the other's kernels are in it as well
            assert moving - 1e-6 <= utilization <= 1 - still + 1e-6


def test_what_the_driver_says_is_what_its_six_samples_a_second_say() -> None:
    """A mean over ten seconds and the shares within are made of the same samples."""
    run = SimulatedRun.make(_cell("storage_local", every=10), SHORT)
    table = next(table for name, table in rows_of(run) if name == "gpu_samples")
    used = table["utilization_ratio"].to_numpy()
    zero, high = (table[f"utilization_{part}_ratio"].to_numpy() for part in ("zero", "high"))
    told = ~np.isnan(zero)
    assert (used[told] <= 1 - zero[told] + 0.005).all()
    assert (used[told] >= 0.8 * high[told] - 0.005).all()
    samples = zero[told] * 10 * DRIVER_HZ
    assert np.abs(samples - np.rint(samples)).max() < 0.01
    assert 0 < zero[told].mean() < 1


@pytest.mark.parametrize("name", ["straggler_heat", "serving_batched", "storage_network"])
def test_the_same_seed_makes_the_same_rows_and_another_does_not(name: str) -> None:
    """Figures that nobody can make again are none, and runs that are alike would be counted twice."""
    first, again, other = (
        SimulatedRun.make(_cell(name, seed=seed, dirty=True, gpm=False), SHORT) for seed in (1, 1, 2)
    )
    assert first.truth() == again.truth() != other.truth()
    assert _all(rows_of(first)) == _all(rows_of(again)) != _all(rows_of(other))


def _all(rows: list[tuple[str, pa.Table]]) -> list[tuple[str, dict[str, list[object]]]]:
    return [(name, table.to_pydict()) for name, table in rows]


def test_no_label_is_in_the_store() -> None:
    """The analyzer reads names and queues; one that named the truth would make every score worthless."""
    words = {word for name in ARCHETYPES for word in (name, *name.split("_"))} - {"serving", "disk", "network"}
    runs = [SimulatedRun.make(_cell(name), SHORT) for name in ARCHETYPES]
    labels = {word for run in runs for label in run.truth() for word in label if word}
    with Store.open(None, memory_limit="500MB") as store:
        assert fill(store, runs) > 0
        with store.session() as session:
            for table in TABLES:
                texts = [column.name for column in TABLES[table].columns if column.type == "string"]
                for column in set(texts) - {"exit_status"}:  # the scheduler's own word of how it ended
                    found = {text for (text,) in session.rows(f"SELECT DISTINCT {column} FROM {table}") if text}
                    assert not {text for text in found if set(text.replace("-", "_").split("_")) & (words | labels)}


def test_without_gpm_nothing_of_gpm_is_told() -> None:
    """An A100 has no GPM: what its driver cannot say must not be in the rows."""
    run = SimulatedRun.make(_cell("healthy", gpm=False), SHORT)
    tables = [table for name, table in rows_of(run) if name == "gpu_samples"]
    assert len(tables) == run.cell.ranks
    for table in tables:
        assert not {"sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"} & set(table.column_names)


def test_a_dirty_run_misses_a_twentieth_of_its_samples_and_its_clocks_differ() -> None:
    """The cells are called so in the table."""
    run = SimulatedRun.make(_cell("healthy", dirty=True, every=1))
    (kept,) = run.kept
    assert 0.03 < 1 - kept.mean() < 0.08
    assert 0 < abs(run.skews[0]) <= 0.4
    gap = run.truth()["unobserved", "gap"]
    assert gap == (~kept).sum() * run.cell.ranks * 1000


def test_there_are_twenty_kinds_and_more_and_each_cell_is_clean_in_every_second_seed() -> None:
    """The issue asks for that many; one seed alone would mix dirt with the kind of GPU."""
    assert len(ARCHETYPES) >= 20
    odd, even = ({_bare(cell): cell.dirty for cell in cells(seed)} for seed in (1, 2))
    assert odd.keys() == even.keys()
    assert all(odd[cell] != even[cell] for cell in odd)
    assert {(cell.step, cell.every) for cell in cells(1)} >= {
        (step, every) for step in (0.3, 3.0, 30.0) for every in (1, 10)
    }


def _bare(cell: Cell) -> tuple[object, ...]:
    return cell.archetype, cell.step, cell.ranks, cell.every, cell.gpm


def test_the_generator_shares_nothing_with_the_rules() -> None:
    """A judge who knows the rules would draw what they find; it knows the ledger's words and what they book.

    Other people's recordings (`real`) are drawn by nobody.
    """
    allowed = {
        "analyzer.analysis",
        "analyzer.settings.settings",
        "analyzer.findings.ledger_findings",
        "analyzer.findings.finding",
        "analyzer.states",
    }
    files = [file for file in TRUTH.rglob("*.py") if TRUTH / "real" not in file.parents]
    assert TRUTH / "archetypes" / "registry.py" in files
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("analyzer"):
                assert node.module in allowed, file
