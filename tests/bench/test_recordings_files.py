"""The recordings in tests/data are what their sources published: the sums that those state come out of the files."""

import csv
import gzip
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from bench.truth.real import files
from bench.truth.real.distribution import Distribution
from bench.truth.real.hpe import worked_out


@pytest.mark.parametrize(
    ("recording", "busy", "waiting"), [("num_workers_0_a", 0.549, 0.396), ("num_workers_4_a", 0.699, 0.010)]
)
def test_the_traces_have_their_published_means(recording: str, busy: float, waiting: float) -> None:
    """A window too few or a column mixed up would move them."""
    windows = files.kineto(recording)
    assert sum(window.busy for window in windows) / len(windows) == pytest.approx(busy, abs=0.0006)
    assert sum(window.waiting for window in windows) / len(windows) == pytest.approx(waiting, abs=0.0006)


def test_every_step_of_every_rank_is_there() -> None:
    """Five hosts of three ranks, five epochs of 571 steps."""
    steps = files.hpe_steps()
    assert sum(len(each.load) for each in steps) == sum(len(each.rest) for each in steps) == 42_825
    assert {(each.rank, each.epoch) for each in steps} == {(rank, epoch) for rank in range(15) for epoch in range(1, 6)}
    assert len({each.host for each in steps}) == 5


def test_published_utilization_follows_from_the_steps_and_the_epochs_own_times() -> None:
    """Per rank, computes of 0.323 s over the epoch without that rank's first step; to two hundredths of a point."""
    run, steps = files.hpe_run(), files.hpe_steps()
    for number, published in enumerate(run.accelerator_use, 1):
        mine = [each for each in steps if each.epoch == number]
        assert 100 * (1 - worked_out(run, mine)) == pytest.approx(published, abs=0.025)


def test_six_submitters_published_205_runs_of_five_epochs() -> None:
    """The table of 1,025 rows is whole, and each epoch lies where its run says."""
    runs = files.submissions()
    assert len(runs) == 205
    assert {len(run.accelerator_use) for run in runs} == {5}
    assert {run.name.partition("/")[0] for run in runs} == {"DDN", "HPE", "Huawei", "Hammerspace", "Juicedata", "IEI"}
    assert min(percent for run in runs for percent in run.accelerator_use) == pytest.approx(59.8, abs=0.1)


def test_serens_curves_ascend_and_have_their_published_points() -> None:
    """Utilization's median 99%, memory's 39.3%, links idle 64% of the time."""
    curves = files.seren()
    for curve in curves.values():
        assert list(curve.values) == sorted(curve.values)
        assert list(curve.percents) == sorted(curve.percents)
    assert Distribution.published(curves["gpu_util_pct"]).quantile(0.5) == 99
    assert Distribution.published(curves["gpu_util_pct"]).at_or_below(10) == pytest.approx(0.318, abs=0.002)
    assert Distribution.published(curves["gpu_mem_used_pct"]).quantile(0.5) == pytest.approx(39.3, abs=0.05)
    assert Distribution.published(curves["ib_send_raw"]).at_or_below(0) == pytest.approx(0.64, abs=0.01)
    assert Distribution.published(curves["gpu_power_w"], 4).quantile(0.5) == pytest.approx(24.1, abs=0.1)
    assert Distribution.published(curves["cpu_util_pct"]).quantile(0.5) == pytest.approx(8, abs=0.1)


def test_folding_the_steps_rounds_nothing(tmp_path: Path) -> None:
    """The file that is kept is a tenth of the source; every microsecond of it must come back."""
    rows = [
        ("c-2", 1, 1, 2, "0.001538", "0.325048"),
        ("c-2", 1, 1, 1, "3.416373", "3.739915"),
        ("c-1", 0, 1, 1, "1", "2.5"),
    ]
    with gzip.open(tmp_path / "steps.csv.gz", "wt", newline="") as file:
        table = csv.writer(file)
        table.writerow(("hostname", "rank", "epoch", "step", "load_s", "proc_s", "compute_s"))
        table.writerows((*row, "0.323") for row in rows)
    assert _make().fold(tmp_path / "steps.csv.gz", tmp_path / "folded.csv.xz") == 3
    assert files.steps_in(tmp_path / "folded.csv.xz") == (
        files.RankEpoch(0, "c-1", 1, (1_000_000,), (1_500_000,)),
        files.RankEpoch(1, "c-2", 1, (3_416_373, 1_538), (323_542, 323_510)),
    )


def _make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fold_steps", files.STORAGE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
