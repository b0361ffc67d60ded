"""`gpuledger run` hears its command without being told anything, and an agent on the host hears it too."""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from agent.sources.progress import VARIABLE, OwnProgress
from agent.wire.recording import read_recording
from tests.agent.batches import rows_of
from tests.agent.sources.progress_hearing import PROC, hearing, say, summed
from tests.waiting import PATIENCE_SECONDS

ELSEWHERE = ["-P"] if sys.version_info >= (3, 11) else []  # whatever lies where the test works
RUN = [sys.executable, *ELSEWHERE, "-m", "gpuledger", "run", "--quiet"]
DOCS = Path(__file__).parents[3] / "docs" / "callbacks"

TRAINING = """
import os, pathlib, sys
sys.path.insert(0, sys.argv[1])
from gpuledger_progress import tell
for step in range(8):
    tell(step=step, tokens=step * 1000, data_wait_seconds=step * 0.5)
    print("step data 0.25", flush=True)
tell(step=7, checkpoint="ckpt-7")
pathlib.Path("where").write_text(os.environ["GPULEDGER_PROGRESS"])
"""


def watched(here: Path, *flags: str, **variables: str) -> Mapping[str, object]:
    """Run the training under observation; return what its recording says of its progress, summed up."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "RANK", "LOCAL_"))}
    words = [sys.executable, "-c", TRAINING, str(DOCS)]
    subprocess.run([*RUN, *flags, "--", *words], cwd=here, env=ours | variables, timeout=PATIENCE_SECONDS, check=True)
    (path,) = here.glob("run-*.json")
    rows = [row for body in read_recording(path).batches for row in rows_of(body, "progress")]
    assert {str(row["run_id"]).partition("/")[0] for row in rows} == {"declared"}
    return {
        "steps": sum(row["steps"] or 0 for row in rows),
        "tokens": sum(row["tokens"] or 0 for row in rows),
        "data_wait_seconds": sum(row["data_wait_seconds"] or 0 for row in rows),
        "checkpoints": [row["checkpoint"] for row in rows if row["checkpoint"]],
    }


def test_a_run_tells_its_steps_by_itself(tmp_path: Path) -> None:
    """No pattern has to be found in its output, and its last word, said just before it ended, counts."""
    assert watched(tmp_path) == {"steps": 7, "tokens": 7000, "data_wait_seconds": 3.5, "checkpoints": ["ckpt-7"]}
    assert not Path((tmp_path / "where").read_text()).parent.exists(), "the socket is gone with its directory"


def test_steps_are_not_counted_twice(tmp_path: Path) -> None:
    """Who says where steps are to be found has said so; the rest comes from the run."""
    said = watched(tmp_path, "--steps-from", "^step")
    assert said == {"steps": 8, "tokens": 7000, "data_wait_seconds": 3.5, "checkpoints": ["ckpt-7"]}


def test_waits_that_are_printed_are_not_counted_twice(tmp_path: Path) -> None:
    """A pattern that says where they are to be found has said so as well."""
    said = watched(tmp_path, "--steps-from", r"^step data (?P<wait>[\d.]+)$")
    assert said == {"steps": 8, "tokens": 7000, "data_wait_seconds": 2.0, "checkpoints": ["ckpt-7"]}


def test_an_agent_on_the_host_hears_it_too(tmp_path: Path) -> None:
    """Watching one run must not take it out of the ledger of the site."""
    with closing(hearing(tmp_path / "agent.sock")) as agent:
        watched(tmp_path, **{VARIABLE: str(tmp_path / "agent.sock")})
        assert summed(agent, lambda sums: bool(sums.get("checkpoints"))) == {
            "steps": 7,
            "tokens": 7000,
            "data_wait_seconds": 3.5,
            "checkpoints": 1,
        }


def test_nonsense_is_not_handed_on(tmp_path: Path) -> None:
    """The host's agent has enough of its own."""
    with closing(hearing(tmp_path / "agent.sock")) as agent:
        with closing(OwnProgress("declared/here/1", PROC, ("steps",), tmp_path / "agent.sock")) as own:
            say(Path(own.environment[VARIABLE]), b"nonsense", {"step": 1}, {"step": 3})
            assert own.source is not None
            assert summed(own.source, lambda sums: sums.get("steps") == 2)
        assert summed(agent, lambda sums: sums.get("steps") == 2)
        assert agent.drops()["malformed"] == 0


def test_where_no_socket_can_be_had_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is watched for its own sake; a full or strange temporary directory is no reason not to."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with closing(OwnProgress("declared/here/1", PROC, (), None)) as own:
        assert own.source is None
        assert own.environment == {}


@pytest.mark.parametrize(
    ("pattern", "printed", "steps"),
    [
        (
            r"step (\d+)/",
            "for s in range(1, 101): print(f'[rank0] step {s}/100\\n[rank1] step {max(1, s - 1)}/100')",
            99,
        ),
        (r"step=([\d.]+)", "for s in range(10, 1001, 10): print(f'{s // 10}/100 [00:40, step={s}.000]')", 990),
        (r"step=([\d.e+]+)", "for s in range(100, 3001, 100): print(f'{s}/- [00:10<?, step={s:.3g}]')", 2900),
        (
            r"step: +(\d+)  loss",
            r"for s in range(1, 101): print(f'\x1b[31mstep: {s:2}  \x1b[32mloss: 7.1\x1b[39m')",
            99,
        ),
        (r"step ([\d,]+)", "for s in range(0, 2001, 10): print(f'step {s:,} | loss 3.1')", 2000),
    ],
)
def test_numbers_as_frameworks_print_them(tmp_path: Path, pattern: str, printed: str, steps: int) -> None:
    """Two ranks, NeMo's decimals and exponents, torchtitan's colors, and separators."""
    subprocess.run(
        [*RUN, "--steps-from", pattern, "--", sys.executable, "-c", printed],
        cwd=tmp_path, stdout=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, check=True,
    )  # fmt: skip
    (path,) = tmp_path.glob("run-*.json")
    rows = [row for body in read_recording(path).batches for row in rows_of(body, "progress")]
    assert sum(row["steps"] or 0 for row in rows) == steps
