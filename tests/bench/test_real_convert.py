"""The converters say what the recordings say, before anything is concluded from them."""

from itertools import pairwise

import pytest

from collector.store.database import Store
from tests.bench.real_convert import helios, idle_gpu_hours, kineto, load


@pytest.mark.parametrize(("cluster", "gpus", "idle"), [("vcTJs", 48, 9_648), ("vcSoL", 32, 12_475)])
def test_what_no_run_holds_is_what_the_trace_calls_idle(cluster: str, gpus: int, idle: int) -> None:
    """The ledger's unallocated hours are to be compared with the trace's; the conversion must not move them."""
    with Store.open(None) as store, store.session() as session:
        load(session, helios(cluster, gpus))
        (owned,) = session.row("SELECT sum(owned_until - owned_from) / 3.6e9 FROM ownership")
        (held,) = session.row("SELECT sum(ended_at - started_at) / 3.6e9 FROM allocations")
        (overlaps,) = session.row(
            "SELECT count(*) FROM allocations a JOIN allocations b ON a.gpu_uuid = b.gpu_uuid"
            " AND a.run_id < b.run_id AND a.started_at < b.ended_at AND b.started_at < a.ended_at"
        )
    assert owned == gpus * 31 * 24
    assert owned - held == pytest.approx(idle_gpu_hours(cluster), abs=1e-6)
    assert owned - held == pytest.approx(idle, rel=0.001)
    assert overlaps == 0


@pytest.mark.parametrize(("recording", "busy"), [("num_workers_0_a", 0.549), ("num_workers_4_a", 0.699)])
def test_a_recordings_windows_abut_and_keep_their_mean(recording: str, busy: float) -> None:
    """The published means of the two recordings are the check that no window was lost."""
    tables = kineto(recording)
    samples = tables["gpu_samples"]
    assert all(before["ended_at"] == after["started_at"] for before, after in pairwise(samples))
    assert tables["allocations"][0]["ended_at"] == samples[-1]["ended_at"]
    ratios = [sample["utilization_ratio"] for sample in samples]
    assert sum(ratios) / len(ratios) == pytest.approx(busy, abs=0.0006)  # type: ignore[arg-type]
    with Store.open(None) as store, store.session() as session:
        load(session, tables)
        assert session.row("SELECT count(*) FROM gpu_samples") == (len(samples),)
