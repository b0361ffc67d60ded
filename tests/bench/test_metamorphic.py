"""Changes of a run's rows that must not change what is said of it: each changes what it names, and nothing beside."""

import pyarrow.compute as pc
import pytest

from bench.bench_metamorphic import Verdict, paired
from bench.truth.draw import Cell
from bench.truth.rows import Rows, rows_of
from bench.truth.runs import SimulatedRun
from bench.truth.transformed import TRANSFORMATIONS

STORAGE, LOADER = ("starved", "storage"), ("starved", "loader_software")


def _run(name: str = "storage_local", every: int = 10) -> SimulatedRun:
    return SimulatedRun.make(Cell(name, 3.0, 1, every, True, True, 1), 2400)


def _changed(name: str, run: SimulatedRun, rows: Rows) -> Rows:
    found = TRANSFORMATIONS[name].rows(run, rows)
    assert found is not None
    return found


def test_coarser_rows_cover_the_same_time_and_the_same_amounts() -> None:
    """What is lost is when within ten seconds; a gap stays one."""
    run = _run(every=1)
    rows = rows_of(run)
    (fine,), (coarse,) = (
        [table for name, table in of if name == "gpu_samples"] for of in (rows, _changed("10 s for 1 s", run, rows))
    )
    assert len(coarse) < len(fine) / 5
    for column in ("pcie_receive_bytes", "energy_joules"):
        assert pc.sum(coarse[column]).as_py() == pytest.approx(pc.sum(fine[column]).as_py())
    held = [pc.sum(pc.subtract(table["ended_at"], table["started_at"])).as_py() for table in (fine, coarse)]
    assert held[0] == held[1]
    assert pc.max(pc.subtract(coarse["ended_at"], coarse["started_at"])).as_py() == 10_000_000


@pytest.mark.parametrize("name", [name for name in TRANSFORMATIONS if name.startswith("no ")])
def test_a_dropped_sensor_is_missing_and_never_zero(name: str) -> None:
    """A zero would be a reading."""
    run = _run()
    rows = rows_of(run)
    found = TRANSFORMATIONS[name].rows(run, rows)
    if found is None:  # one rank has no NVLink
        assert name == "no NVLink"
        return
    lost = [set(was.column_names) - set(table.column_names) for (_, was), (_, table) in zip(rows, found, strict=True)]
    assert any(lost)
    assert [len(table) for _, table in found] == [len(table) for _, table in rows]


def test_other_names_are_other_everywhere() -> None:
    """One old name left would make two runs of one."""
    run = _run("resumed")
    for name, table in _changed("other names", run, rows_of(run)):
        texts = {
            text
            for column in ("node", "gpu_uuid", "run_id")
            if column in table.column_names
            for text in table[column].to_pylist()
        }
        assert not texts & {run.run_id, run.gpu_uuid(0), *run.nodes}, name


def test_two_causes_that_change_places_by_a_little_are_no_other_verdict() -> None:
    """Of 20.1% and 20.0% either may be first."""
    run = _run()
    before, after, other = Verdict(), Verdict(), Verdict()
    for verdict, storage, loader in ((before, 0.201, 0.2), (after, 0.2, 0.201), (other, 0.05, 0.351)):
        verdict.states["starved"] = storage + loader
        for kind in (verdict.avoidable, verdict.sure):
            kind.update({STORAGE: storage, LOADER: loader})
    assert not paired(run, before, after).changed
    assert paired(run, before, other).changed
    assert paired(run, before, other).moved == pytest.approx(0)


def test_a_change_without_high_confidence_is_named_as_none() -> None:
    """A weaker verdict is what a lost sensor leaves."""
    before, after = Verdict(), Verdict()
    before.states["starved"] = after.states["unexplained"] = 0.4
    before.avoidable[STORAGE] = before.sure[STORAGE] = 0.4
    assert not paired(_run(), before, after).changed
    assert paired(_run(), before, after).moved == pytest.approx(0.4)
