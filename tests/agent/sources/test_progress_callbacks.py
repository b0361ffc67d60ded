"""What docs/ tells people to copy works as it stands there, in a process of its own and over a real socket."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent.sources.progress import VARIABLE, ProgressSource, one_run
from tests.agent.sources.progress_hearing import PROC, summed
from tests.waiting import PATIENCE_SECONDS

DOCS = Path(__file__).parents[3] / "docs"
STAND_INS = Path(__file__).parent / "stand_ins"

PLAIN = """
from gpuledger_progress import tell
for step in range(6):
    tell(step=step, tokens=step * 1000)
tell(step=5, checkpoint="/scratch/ckpt-5")
"""
HUGGING_FACE = """
from transformers import Trainer
from hugging_face import GpuledgerCallback
Trainer([GpuledgerCallback()], max_steps=110, save_steps=5, resumed_at=100).train()
"""
ODD = """
import numbers, pathlib
from gpuledger_progress import tell
class Int64:
    def __init__(self, value): self.value = value
    def __index__(self): return self.value
    __int__ = __index__
class Scalar:
    def __init__(self, value): self.value = value
    def item(self): return self.value
class Broken:
    def __getattr__(self, name): raise RuntimeError(name)
    def __str__(self): raise RuntimeError("no text")
tell(step=0, tokens=0)
tell(step=Int64(3), tokens=Scalar(900), samples=None)
tell(step=Broken())
tell(step=3, tokens=float("nan"))
tell(step={1: 2}, checkpoint=object)
tell(step=4, checkpoint=pathlib.Path("checkpoints") / "ckpt-4")
tell(step=5, checkpoint="x" * 300_000)
print("trained to the end")
"""
PARALLEL = """
from types import SimpleNamespace as Some
from hugging_face import _batch
asked = dict(train_batch_size=32, gradient_accumulation_steps=2, world_size=8)
mesh = Some(tp_size=2, cp_size=2, pp_size=1)
assert _batch(Some(**asked), Some(), {}) == 32 * 2 * 8
assert _batch(Some(**asked), Some(train_batch_size=4), {}) == 4 * 2 * 8, "auto_find_batch_size"
assert _batch(Some(**asked), Some(), {"model": Some(_tp_size=8, tp_size=8)}) == 32 * 2
assert _batch(Some(**asked, parallelism_config=mesh), Some(), {"model": Some(tp_size=2)}) == 32 * 2 * 2
from gpuledger_progress import tell
tell(step=0)
tell(step=1, checkpoint="checked")
"""
BARE = """
from types import SimpleNamespace as Some
from hugging_face import GpuledgerCallback
callback = GpuledgerCallback()
state = Some(is_world_process_zero=True, global_step=0)
for hook in ("on_train_begin", "on_step_end", "on_save", "on_train_end"):
    getattr(callback, hook)(None, state, None)
    getattr(callback, hook)(None, None, None)
    state.global_step += 4
"""
TWO_OPTIMIZERS = """
from types import SimpleNamespace as Some
from lightning_progress import GpuledgerCallback
callback, trainer = GpuledgerCallback(samples_per_step=256), Some(is_global_zero=True, global_step=0)
callback.on_train_start(trainer, None)
for batch in range(100):
    trainer.global_step += 2
    callback.on_train_batch_end(trainer, None, None, None, batch)
callback.on_train_end(trainer, None)
callback.on_train_end(None, None)
"""
WAITS = """
import time
from gpuledger_progress import tell
batches, waited = iter(range(3)), 0.0
tell(data_wait_seconds=waited)
for step in range(3):
    asked = time.monotonic()
    time.sleep(0.02)
    batch = next(batches)
    waited += time.monotonic() - asked
    tell(step=step, data_wait_seconds=waited)
"""
LOADER = """
import time
from timed_loader import TimedLoader
class Slow:
    def __iter__(self):
        for batch in range(3):
            time.sleep(0.02)
            yield batch
    def __len__(self):
        return 3
loader = TimedLoader(Slow())
assert len(loader) == 3
assert [list(loader) for _ in range(2)] == [[0, 1, 2]] * 2
"""
LIGHTNING = """
from lightning.pytorch.callbacks import Trainer
from lightning_progress import GpuledgerCallback
Trainer([GpuledgerCallback(samples_per_step=256, tokens_per_step=4096)], max_steps=10, save_steps=4).fit(None)
"""


@pytest.fixture
def source(tmp_path: Path) -> Iterator[ProgressSource]:
    """Return a source that hears one run."""
    with closing(ProgressSource(tmp_path / "progress.sock", one_run("declared/here/1", PROC))) as opened:
        opened.open()
        yield opened


def run(script: str, path: Path, **variables: str) -> None:
    """Run a script as a user would, with the callbacks beside it."""
    ours = {name: value for name, value in os.environ.items() if name not in ("RANK", "SLURM_PROCID")}
    places = os.pathsep.join([str(DOCS / "callbacks"), str(STAND_INS)])
    subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=ours | {"PYTHONPATH": places, VARIABLE: str(path)} | variables,
        check=True,
        timeout=PATIENCE_SECONDS,
    )


def test_the_snippet(source: ProgressSource, tmp_path: Path) -> None:
    """Ten lines that need nothing: steps, tokens and a checkpoint come out."""
    run(PLAIN, tmp_path / "progress.sock")
    sums = summed(source, lambda sums: bool(sums.get("checkpoints")))
    assert (sums["steps"], sums["tokens"], sums["checkpoints"]) == (5, 5000, 1)


def test_only_the_first_rank_speaks(source: ProgressSource, tmp_path: Path) -> None:
    """The others would say the same again, on hosts that know nothing of each other."""
    run(PLAIN, tmp_path / "progress.sock", RANK="3")
    run(PLAIN, tmp_path / "progress.sock", SLURM_PROCID="3")
    run(PLAIN.replace("1000", "10"), tmp_path / "progress.sock", RANK="0", SLURM_PROCID="3")
    assert summed(source, lambda sums: bool(sums.get("checkpoints")))["tokens"] == 50


def test_without_an_agent_a_run_does_not_notice(tmp_path: Path) -> None:
    """No socket, no error, no waiting."""
    run(PLAIN, tmp_path / "nobody.sock")


def test_hugging_face(source: ProgressSource, tmp_path: Path) -> None:
    """Ten steps from step 100 on: what a checkpoint brought along is not counted."""
    run(HUGGING_FACE, tmp_path / "progress.sock")
    sums = summed(source, lambda sums: sums.get("steps") == 10)
    assert (sums["samples"], sums["checkpoints"] > 0) == (10 * 4 * 2 * 8, True)


def test_lightning(source: ProgressSource, tmp_path: Path) -> None:
    """A checkpoint is told when it is complete, which is after the hook that Lightning calls for it."""
    run(LIGHTNING, tmp_path / "progress.sock")
    sums = summed(source, lambda sums: sums.get("steps") == 10)
    assert (sums["samples"], sums["tokens"], sums["checkpoints"] > 0) == (2560, 40960, True)


def test_whatever_it_is_handed_the_run_goes_on(source: ProgressSource, tmp_path: Path) -> None:
    """Numbers of array libraries and paths are told; what is neither is left out."""
    run(ODD, tmp_path / "progress.sock")
    sums = summed(source, lambda sums: bool(sums.get("checkpoints")))
    assert (sums["steps"], sums["tokens"], sums["checkpoints"]) == (4, 900, 1)


def test_a_batch_counts_once_for_all_that_share_it(source: ProgressSource, tmp_path: Path) -> None:
    """As the Trainer's own total has it."""
    run(PARALLEL, tmp_path / "progress.sock")
    assert summed(source, lambda sums: bool(sums.get("checkpoints")))["steps"] == 1


def test_a_trainer_without_what_it_should_have_goes_on(source: ProgressSource, tmp_path: Path) -> None:
    """Its steps are told, and no samples."""
    run(BARE, tmp_path / "progress.sock")
    sums = summed(source, lambda sums: sums.get("steps") == 12)
    assert not sums.get("samples")


def test_a_step_of_lightning_is_a_batch_however_many_optimizers_take_one(
    source: ProgressSource, tmp_path: Path
) -> None:
    """Its own step counts each of them."""
    run(TWO_OPTIMIZERS, tmp_path / "progress.sock")
    assert summed(source, lambda sums: sums.get("steps") == 100)["samples"] == 25_600


def test_waits_for_data(source: ProgressSource, tmp_path: Path) -> None:
    """Three lines about a run's own `next`, and none but the run's clock: it slept for three times 0.02 s."""
    run(WAITS, tmp_path / "progress.sock")
    assert summed(source, lambda sums: sums.get("steps") == 2)["data_wait_seconds"] >= 0.06


def test_waits_of_a_loop(source: ProgressSource, tmp_path: Path) -> None:
    """The waits of both epochs, of batches and of the end of each, in one total that never falls."""
    run(LOADER, tmp_path / "progress.sock")
    sums = summed(source, lambda sums: sums.get("data_wait_seconds", 0) >= 0.12)
    assert sums["data_wait_seconds"] >= 0.12


def test_the_page_shows_the_snippet_as_it_is() -> None:
    """What is copied from the page is what was tested."""
    snippet = (DOCS / "callbacks" / "gpuledger_progress.py").read_text("utf-8")
    page = (DOCS / "progress.md").read_text("utf-8")
    assert snippet in page
    lines = ("asked = time.monotonic()", "batch = next(batches)", "waited += time.monotonic() - asked")
    assert all(line in page and line in WAITS for line in lines)
